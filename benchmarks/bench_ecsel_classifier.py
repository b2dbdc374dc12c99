"""ECSELClassifier beside logistic regression and gradient boosting.

    OMP_NUM_THREADS=1 SKMETHODS_DATA=... python benchmarks/bench_ecsel_classifier.py \
        --accuracy --imbalanced --time

Accuracy: nested cross-validation. Five stratified outer folds for two seeds; inside
each training part `l1` and `n_terms` of ECSEL, and `C` of the logistic regression on
standardised columns, are chosen by GridSearchCV with five stratified folds; of equal
scores the sparser setting wins, the smaller C. Gradient boosting has its defaults.
Digits, where ECSEL loses, has one setting that was chosen on digits.

Imbalanced: recall, precision and F1 of the rare class on the outer folds, with defaults
(and the threshold of 0.5), then with a threshold that TunedThresholdClassifierCV
chooses on the training part for the balanced accuracy. ``breast cancer 10 %`` keeps all
benign rows and a random tenth of their number plus itself, so that one row in ten is
malignant; the others are tables of ADBench read as classification problems.

Time: milliseconds of processor time of a fit with default parameters on one thread,
median of five, alternating.
"""

import argparse
import csv
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmethods import ECSELClassifier, fetch_adbench

RESULTS = Path(__file__).parent / "results"
SEEDS = (42, 7)
SMALL = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def write(name, rows):
    """A CSV and a markdown table."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(str(v) for v in row.values()) + " |" for row in rows]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)


def folds(seed):
    return StratifiedKFold(5, shuffle=True, random_state=seed)


def linear(**options):
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000, **options))


def nested(seed):
    """The contestants of the small tables."""
    inner = folds(seed + 1)
    return {
        "ECSEL": GridSearchCV(
            ECSELClassifier(),
            {"l1": [0.03, 0.01, 0.003, 0.001], "n_terms": [1, 2]},
            cv=inner,
        ),
        "logistic regression": GridSearchCV(
            linear(), {"logisticregression__C": np.logspace(-2, 3, 6)}, cv=inner
        ),
        "gradient boosting (default)": HistGradientBoostingClassifier(
            random_state=seed
        ),
    }


def plain(seed):
    """The contestants on digits, one setting each."""
    return {
        "ECSEL l1=3e-4 range (1, 2)": ECSELClassifier(
            l1=3e-4, feature_range=(1, 2), max_iter=300
        ),
        "logistic regression": linear(),
        "gradient boosting (default)": HistGradientBoostingClassifier(
            random_state=seed
        ),
    }


def accuracy():
    """One row per data set and model."""
    rows = []
    for data, load in (SMALL | {"digits": load_digits}).items():
        X, y = load(return_X_y=True)
        scores, extra = {}, {}
        for seed in SEEDS[: 1 if data == "digits" else None]:
            models = plain(seed) if data == "digits" else nested(seed)
            for train, test in folds(seed).split(X, y):
                for name, model in models.items():
                    start = time.process_time()
                    fitted = clone(model).fit(X[train], y[train])
                    seconds = time.process_time() - start
                    scores.setdefault(name, []).append(fitted.score(X[test], y[test]))
                    best = getattr(fitted, "best_estimator_", fitted)
                    last = best[-1] if hasattr(best, "steps") else best
                    numbers = getattr(last, "exponents_", getattr(last, "coef_", None))
                    used = "" if numbers is None else np.count_nonzero(numbers)
                    extra.setdefault(name, []).append((seconds, used))
        linear_scores = np.array(scores["logistic regression"])
        for name, values in scores.items():
            used = [u for _, u in extra[name] if u != ""]
            seconds = statistics.mean(s for s, _ in extra[name])
            lead = 100 * (np.array(values) - linear_scores)
            rows.append(
                {
                    "data": data,
                    "model": name,
                    "folds": len(values),
                    "accuracy": f"{np.mean(values):.4f}",
                    "minus LR (points)": f"{lead.mean():+.2f}",
                    "± s.e. (paired)": f"{lead.std(ddof=1) / len(lead) ** 0.5:.2f}",
                    "non-zero numbers": f"{np.mean(used):.1f}" if used else "",
                    "CPU s with search": f"{seconds:.2f}",
                }
            )
            print(*rows[-1].values(), flush=True)
    write("ecsel_classifier_accuracy", rows)


def rare_malignant(seed):
    """Breast cancer with one malignant row in ten; 1 is malignant."""
    X, y = load_breast_cancer(return_X_y=True)
    benign, malignant = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    n_rare = round(len(benign) / 9)
    kept = np.random.default_rng(seed).choice(malignant, n_rare, replace=False)
    rows = np.concatenate([benign, kept])
    return X[rows], (y[rows] == 0).astype(int)


def anomalies(name):
    def load(seed):
        data = fetch_adbench(name)
        return data.data, np.asarray(data.target, dtype=int)

    return load


def imbalanced():
    """One row per data set, model and threshold."""
    tables = {
        "breast cancer 10 %": rare_malignant,
        **{name: anomalies(name) for name in ("cardio", "Stamps", "vertebral")},
    }
    rows = []
    for data, load in tables.items():
        found = {}
        for seed in SEEDS:
            X, y = load(seed)
            models = {
                "ECSEL": ECSELClassifier(),
                "ECSEL balanced": ECSELClassifier(class_weight="balanced"),
                "logistic regression": linear(),
                "gradient boosting": HistGradientBoostingClassifier(random_state=seed),
            }
            models |= {
                f"{name}, tuned threshold": TunedThresholdClassifierCV(
                    models[name],
                    scoring="balanced_accuracy",
                    cv=5,
                    random_state=seed,
                )
                for name in ("ECSEL", "logistic regression", "gradient boosting")
            }
            for train, test in folds(seed).split(X, y):
                for name, model in models.items():
                    predicted = clone(model).fit(X[train], y[train]).predict(X[test])
                    found.setdefault(name, []).append(
                        [
                            recall_score(y[test], predicted),
                            precision_score(y[test], predicted, zero_division=0),
                            f1_score(y[test], predicted, zero_division=0),
                            recall_score(y[test], predicted, pos_label=0),
                        ]
                    )
        for name, values in found.items():
            recall, precision, f1, other = np.mean(values, axis=0)
            rows.append(
                {
                    "data": data,
                    "rare": f"{y.mean():.1%} of {len(y)}",
                    "model": name,
                    "recall of the rare": f"{recall:.3f}",
                    "precision": f"{precision:.3f}",
                    "F1": f"{f1:.3f}",
                    "balanced accuracy": f"{(recall + other) / 2:.3f}",
                }
            )
            print(*rows[-1].values(), flush=True)
    write("ecsel_classifier_imbalanced", rows)


def fit_time():
    """One row per data set."""
    rows = []
    for data, load in (SMALL | {"digits": load_digits}).items():
        X, y = load(return_X_y=True)
        models = {
            "ECSEL": ECSELClassifier(),
            "logistic regression": linear(),
            "gradient boosting": HistGradientBoostingClassifier(),
        }
        repeats = 1 if data == "digits" else 5
        spent = {name: [] for name in models}
        for _ in range(repeats):
            for name, model in models.items():
                start = time.process_time()
                fitted = clone(model).fit(X, y)
                spent[name].append(1e3 * (time.process_time() - start))
                if name == "ECSEL":
                    n_iter = fitted.n_iter_
        ms = {name: statistics.median(values) for name, values in spent.items()}
        rows.append(
            {"data": data, "rows x columns": f"{X.shape[0]} x {X.shape[1]}"}
            | {f"{name}, CPU ms": f"{value:.0f}" for name, value in ms.items()}
            | {
                "ECSEL iterations": n_iter,
                "ms per iteration": f"{ms['ECSEL'] / n_iter:.2f}",
                "boosting / ECSEL": f"{ms['gradient boosting'] / ms['ECSEL']:.1f}",
            }
        )
    write("ecsel_classifier_time", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {"accuracy": accuracy, "imbalanced": imbalanced, "time": fit_time}
    for name in tables:
        parser.add_argument(f"--{name}", action="store_true")
    options = vars(parser.parse_args())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, run in tables.items():
            if options[name] or not any(options.values()):  # all if none is named
                run()


if __name__ == "__main__":
    main()
