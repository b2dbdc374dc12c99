"""DVM-AD beside other detectors: detection quality and speed.

    SKMETHODS_DATA=/path/to/data python benchmarks/bench_dvm.py --auroc
    python benchmarks/bench_dvm.py --speed

Needs ``pip install "skmethods[bench]"``. ``--auroc`` takes the ADBench sets of the
folder that SKMETHODS_DATA names; ``--seeds``, ``--sets`` and ``--methods`` take a part.
Tables go to ``benchmarks/results`` as CSV and markdown.

Protocols (at most 5000 rows of a set, drawn with its share of anomalies):

- *clean*: train on 70 % of the normal rows, test on the others and 30 % of the
  anomalies;
- *dirty*: train on 70 % of all rows, anomalies among them, test on the others.

Columns are standardised by the training rows for every method.
"""

import argparse
import csv
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, wilcoxon
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from skmethods import DVMAnomalyDetector, fetch_adbench

RESULTS = Path(__file__).parent / "results"
OURS = "DVM (default)"
NEAREST = "1-NN"
MAX_ROWS = 5000


def _pyod(name, **params):
    """A detector of PyOD with scikit-learn's sign."""
    from importlib import import_module

    module = import_module(f"pyod.models.{name.lower()}")

    class Signed:
        def fit(self, X):
            self.detector = getattr(module, name)(**params).fit(X)
            return self

        def score_samples(self, X):
            return -self.detector.decision_function(X)

    return Signed()


class _Mahalanobis:
    """PCA as a detector: squared components over variances, null ones left out."""

    def fit(self, X):
        pca = PCA().fit(X)
        keep = pca.explained_variance_ > 1e-10 * pca.explained_variance_[0]
        self.mean, self.axes = pca.mean_, pca.components_[keep]
        self.variance = pca.explained_variance_[keep]
        return self

    def score_samples(self, X):
        return -((((X - self.mean) @ self.axes.T) ** 2) / self.variance).sum(1)


#: name -> detector for a seed
METHODS = {
    OURS: lambda seed: DVMAnomalyDetector(),
    "DVM robust": lambda seed: DVMAnomalyDetector(robust=True),
    "DVM structure": lambda seed: DVMAnomalyDetector(metric_blocks="structure"),
    "DVM joint": lambda seed: DVMAnomalyDetector(metric_blocks="joint"),
    NEAREST: lambda seed: DVMAnomalyDetector(
        metric_blocks="structure", edge_penalty=0, n_neighbors=1
    ),
    "PyOD KNN": lambda seed: _pyod("KNN"),
    "PyOD ECOD": lambda seed: _pyod("ECOD"),
    "PyOD PCA": lambda seed: _pyod("PCA", random_state=seed),
    "PyOD IForest": lambda seed: _pyod("IForest", random_state=seed),
    "PyOD LOF": lambda seed: _pyod("LOF"),
    "PyOD OCSVM": lambda seed: _pyod("OCSVM"),
    "PCA, Mahalanobis": lambda seed: _Mahalanobis(),
    "IsolationForest": lambda seed: IsolationForest(random_state=seed),
    "LocalOutlierFactor": lambda seed: LocalOutlierFactor(novelty=True),
    "OneClassSVM": lambda seed: OneClassSVM(),
}


def sets():
    """``{name: family}`` of the sets in the folder that SKMETHODS_DATA names."""
    folder = Path(os.environ["SKMETHODS_DATA"]) / "adbench"
    found = sorted(p.relative_to(folder) for p in folder.glob("*/*.npz"))
    if not found:
        raise SystemExit(f"No data sets in {folder}; set SKMETHODS_DATA.")
    return {
        str(p.with_suffix("")): "tables" if p.parts[0] == "Classical" else "embeddings"
        for p in found
    }


def split(X, y, protocol, seed):
    """Training rows, test rows, which test rows are anomalies."""
    rng = np.random.default_rng(seed)
    normal, odd = (rng.permutation(np.flatnonzero(y == c)) for c in (0, 1))
    if len(y) > MAX_ROWS:
        n_odd = min(len(odd), max(10, round(MAX_ROWS * len(odd) / len(y))))
        normal, odd = normal[: MAX_ROWS - n_odd], odd[:n_odd]
    a, b = round(0.7 * len(normal)), round(0.7 * len(odd))
    train = normal[:a] if protocol == "clean" else np.concatenate([normal[:a], odd[:b]])
    test = np.concatenate([normal[a:], odd[b:]])
    return X[rng.permutation(train)], X[test], y[test]


def auroc(args):
    """Score every method on every set, in both protocols."""
    rows = []
    path = RESULTS / "dvm_auroc.csv"
    for name, family in sets().items():
        if args.sets and not any(s in name for s in args.sets):
            continue
        bunch = fetch_adbench(name)
        X, y = np.asarray(bunch.data, dtype=float), np.asarray(bunch.target)
        for protocol in ("clean", "dirty"):
            for seed in range(args.seeds):
                train, test, odd = split(X, y, protocol, seed)
                scaler = StandardScaler().fit(train)
                train, test = scaler.transform(train), scaler.transform(test)
                for method in args.methods:
                    start = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        score = METHODS[method](seed).fit(train).score_samples(test)
                    seconds = time.perf_counter() - start
                    score = np.clip(score, -1e300, 1e300)  # PyOD's PCA gives inf
                    value = f"{100 * roc_auc_score(odd, -score):.3f}"
                    seconds = f"{seconds:.4f}"
                    rows.append([protocol, family, name, seed, method, value, seconds])
        print(name, flush=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow("protocol family set seed method auroc seconds".split())
            writer.writerows(rows)
    summarise(path)


def summarise(path):
    """The markdown table of a CSV that ``auroc`` wrote."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    lines = []
    for protocol in ("clean", "dirty"):
        for family in ("tables", "embeddings"):
            part = [
                r for r in rows if (r["protocol"], r["family"]) == (protocol, family)
            ]
            if part:
                lines += _table(part, f"{protocol} training rows, {family}")
    text = "\n".join(lines)
    path.with_suffix(".md").write_text(text)
    print(text)


def _table(rows, title):
    methods = list(dict.fromkeys(r["method"] for r in rows))
    names = list(dict.fromkeys(r["set"] for r in rows))
    seeds = len({r["seed"] for r in rows})

    def mean(column):  # over the seeds: (sets, methods)
        cells = {}
        for r in rows:
            cells.setdefault((r["set"], r["method"]), []).append(float(r[column]))
        return np.array([[np.mean(cells[s, m]) for m in methods] for s in names])

    value, seconds = mean("auroc"), mean("seconds")
    rank = np.mean([rankdata(-row.round(2)) for row in value], axis=0)
    lines = [
        f"**{title}** ({len(names)} sets, {seeds} seeds)",
        "",
        f"| method | AUROC % | rank | seconds | {OURS} minus it | better/worse | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for i in np.argsort(-value.mean(0), kind="stable"):
        cells = [methods[i], f"{value[:, i].mean():.2f}", f"{rank[i]:.2f}"]
        cells.append(f"{seconds[:, i].mean():.2f}")
        if OURS in methods and methods[i] != OURS:
            gap = value[:, methods.index(OURS)] - value[:, i]
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            p = wilcoxon(gap).pvalue if np.any(gap) and len(gap) > 1 else 1.0
            cells += [f"{gap.mean():+.2f} ± {error:.2f}"]
            cells += [f"{(gap > 0.05).sum()}/{(gap < -0.05).sum()}", f"{p:.2g}"]
        else:
            cells += [""] * 3
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _seconds(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _products(X, Y):
    """The bare float32 products of Y and X, in tiles as large as ours."""
    import torch

    rows, queries = (torch.tensor(a, dtype=torch.float32) for a in (X, Y))
    batch = max(1, 24 * 2**20 // (4 * len(X)))
    space = torch.empty(batch, len(X))

    def products():
        for part in queries.split(batch):
            torch.mm(part, rows.T, out=space[: len(part)])

    products()
    return products


def speed(args):
    """Fit and score times; the best of some runs, in seconds of one thread."""
    n, m, d = args.n, args.queries, args.d
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((10, d))
    data = {
        "one Gaussian": (rng.standard_normal((n, d)), rng.standard_normal((m, d))),
        "ten Gaussians": tuple(
            centres[rng.integers(10, size=k)] + rng.standard_normal((k, d))
            for k in (n, m)
        ),
    }
    plain = {"metric_blocks": "structure", "edge_penalty": 0, "n_neighbors": 1}
    methods = {
        "DVM plain 1-NN": lambda seed: DVMAnomalyDetector(**plain),
        "DVM plain 1-NN, faiss": lambda seed: DVMAnomalyDetector(
            **plain, backend="faiss"
        ),
        "DVM structure": METHODS["DVM structure"],
        "DVM joint": METHODS["DVM joint"],
        OURS: METHODS[OURS],
        "PyOD KNN, 1 neighbour": lambda seed: _pyod("KNN", n_neighbors=1),
        "PyOD KNN, its default (5)": lambda seed: _pyod("KNN"),
        "LocalOutlierFactor": METHODS["LocalOutlierFactor"],
        "IsolationForest": METHODS["IsolationForest"],
    }
    rows, lines = [], []
    for kind, (X, Y) in data.items():
        times = dict.fromkeys(methods, (np.inf, np.inf))
        product = np.inf
        for _ in range(args.repeats):  # all in turn: a busy moment hits no one alone
            product = min(product, _seconds(_products(X, Y))[0])
            for name, make in methods.items():
                fit, model = _seconds(lambda: make(0).fit(X))  # noqa: B023
                score, _ = _seconds(lambda: model.score_samples(Y))  # noqa: B023
                times[name] = tuple(np.minimum(times[name], (fit, score)))
        for name, (fit, score) in times.items():
            rows.append([kind, name, f"{fit:.4f}", f"{score:.4f}", f"{product:.4f}"])
        gigaflops = 2 * n * m * d / product / 1e9
        base = times["DVM plain 1-NN"]
        lines += [
            f"**{kind}**, {n} rows, {m} queries, {d} columns, float64 input; the bare "
            f"float32 products of the queries take {product:.3f} s "
            f"({gigaflops:.0f} GFlop/s), {product / base[1]:.0%} of plain scoring",
            "",
            "| method | fit s | score s | fit / plain | score / plain |",
            "|---|---|---|---|---|",
        ]
        for name, (f, s) in times.items():
            cells = f"{f:.3f}", f"{s:.3f}", f"{f / base[0]:.2f}", f"{s / base[1]:.2f}"
            lines.append("| " + " | ".join([name, *cells]) + " |")
        lines.append("")
    text = "\n".join(lines)
    (RESULTS / "dvm_speed.md").write_text(text)
    with (RESULTS / "dvm_speed.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow("data method fit_seconds score_seconds product_seconds".split())
        writer.writerows(rows)
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--auroc", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--d", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if not (args.auroc or args.speed):
        parser.error("nothing to do: pass --auroc or --speed")
    RESULTS.mkdir(exist_ok=True)
    if args.auroc:
        auroc(args)
    if args.speed:
        speed(args)


if __name__ == "__main__":
    main()
