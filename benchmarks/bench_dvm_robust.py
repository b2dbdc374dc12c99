"""DVM-AD with ``robust=True`` beside others as training rows get dirtier.

    SKMETHODS_DATA=/path/to/data python benchmarks/bench_dvm_robust.py

Two tables go to ``benchmarks/results``, as CSV and markdown:

- *rates*: seven ADBench tables with 0 to 30 % of anomalies among the training rows;
- *bundled*: one-class problems made of scikit-learn's own tables, which played no part
  in the choice of the method's constants; a tenth of the rows are anomalies.
"""

import csv
from pathlib import Path

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from skmethods import DVMAnomalyDetector, fetch_adbench

RESULTS = Path(__file__).parent / "results"
RATES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3)
SETS = ("cardio", "breastw", "magic.gamma", "satellite", "shuttle", "Stamps", "mnist")
SEEDS = range(3)


def fifth_neighbour(train, test):
    return NearestNeighbors(n_neighbors=5).fit(train).kneighbors(test)[0][:, -1]


def mahalanobis(train, test):
    """PCA's distance over all components that carry variance."""
    return EmpiricalCovariance().fit(train).mahalanobis(test)


METHODS = {
    "DVM (default)": lambda train, test, seed: (
        -DVMAnomalyDetector().fit(train).score_samples(test)
    ),
    "DVM robust": lambda train, test, seed: (
        -DVMAnomalyDetector(robust=True).fit(train).score_samples(test)
    ),
    "fifth neighbour": lambda train, test, seed: fifth_neighbour(train, test),
    "PCA, Mahalanobis": lambda train, test, seed: mahalanobis(train, test),
    "IsolationForest": lambda train, test, seed: (
        -IsolationForest(random_state=seed).fit(train).score_samples(test)
    ),
}


def areas(train, test, odd, seed):
    """AUROC in per cent of every method, on columns standardised by `train`."""
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    return {
        name: 100 * roc_auc_score(odd, score(train, test, seed))
        for name, score in METHODS.items()
    }


def at_rate(X, y, rate, seed):
    """At most 2000 training rows, this share of them anomalies; the others test."""
    rng = np.random.default_rng(seed)
    normal, odd = (rng.permutation(np.flatnonzero(y == c)) for c in (0, 1))
    half = len(odd) // 2  # as many test anomalies at every rate
    n = int(min(2000, 0.7 * len(normal), half / max(RATES)))
    k = round(rate * n)
    train = np.concatenate([normal[: n - k], odd[:k]])
    test = np.concatenate([normal[n : n + 2000], odd[half:][:1000]])
    return X[train], X[test], y[test]


def one_class_problems():
    """(name, rows, is anomaly): a class is normal, a tenth are of the others."""
    for load in (load_digits, load_iris, load_wine, load_breast_cancer):
        X, label = load(return_X_y=True)
        for normal in np.unique(label):
            for seed in SEEDS:
                rng = np.random.default_rng(seed)
                inside = np.flatnonzero(label == normal)
                outside = rng.permutation(np.flatnonzero(label != normal))
                rows = np.concatenate([inside, outside[: round(len(inside) / 9)]])
                yield f"{load.__name__[5:]} {normal}", X[rows], label[rows] != normal


def bundled():
    """AUROC with clean and with dirty training rows, by problem."""
    for seed, (name, X, odd) in enumerate(one_class_problems()):
        rng = np.random.default_rng(1000 + seed)
        for kind in ("clean", "dirty"):
            part = rng.permutation(len(X))
            first, rest = part[: len(X) // 2], part[len(X) // 2 :]
            if len(set(odd[rest])) < 2:
                continue
            train = first[~odd[first]] if kind == "clean" else first
            for method, area in areas(X[train], X[rest], odd[rest], seed).items():
                yield kind, name, seed, method, area


def rates():
    """AUROC by the share of anomalies among the training rows."""
    for name in SETS:
        bunch = fetch_adbench(name)
        for rate in RATES:
            for seed in SEEDS:
                parts = at_rate(bunch.data, bunch.target, rate, seed)
                for method, area in areas(*parts, seed).items():
                    yield f"{rate:.0%}", name, seed, method, area


def table(rows, title):
    """Mean over sets of the mean over seeds; a column for each kind of rows."""
    kinds = list(dict.fromkeys(r[0] for r in rows))
    lines = [
        f"| {title} | " + " | ".join(kinds) + " |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    for method in METHODS:
        cells = []
        for kind in kinds:
            mine = [r for r in rows if r[0] == kind and r[3] == method]
            by_set = {r[1]: [q[4] for q in mine if q[1] == r[1]] for r in mine}
            cells.append(f"{np.mean([np.mean(v) for v in by_set.values()]):.1f}")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    for what, rows, title in (
        ("rates", list(rates()), "anomalies among the training rows"),
        ("bundled", list(bundled()), "training rows"),
    ):
        path = RESULTS / f"dvm_robust_{what}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow("kind set seed method auroc".split())
            writer.writerows([*row[:4], f"{row[4]:.3f}"] for row in rows)
        text = table(rows, title)
        path.with_suffix(".md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
