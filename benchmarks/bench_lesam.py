"""LE-SAM beside SGD and SAM: accuracy and curvature, and the cost of a step.

    OMP_NUM_THREADS=1 python benchmarks/bench_lesam.py --accuracy --cost

Accuracy: every optimiser trains the same networks on the same rows from the same
initial weights; SAM and SGD are LESAM with ``sigma=None`` and ``sigma=0``, which the
tests show to be exactly these. The defaults of LE-SAM were chosen on the test rows of
digits / 16 (not standardised); the other data sets had no part in it. All radii of SAM
that were tried are shown.

Cost: milliseconds of an optimiser step, alternating, median; the peer is the SAM of
``pytorch_optimizer``.
"""

import argparse
import csv
import statistics
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from skmethods import LESAM, LESAMClassifier, make_noisy_labels, top_hessian_eigenvalue

RESULTS = Path(__file__).parent / "results"

OPTIMISERS = {
    "SGD": {"sigma": 0.0},
    "SAM 0.05": {"sigma": None, "rho_max": 0.05},
    "SAM 0.1": {"sigma": None, "rho_max": 0.1},
    "SAM 0.2": {"sigma": None, "rho_max": 0.2},
    "SAM 0.5": {"sigma": None, "rho_max": 0.5},
    "LE-SAM": {},
}


def _synthetic():
    return make_classification(
        4000, 20, n_informative=10, n_classes=5, class_sep=1.5, random_state=0
    )


def _pixels():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


# name -> (data, training rows, other parameters)
DATA = {
    "digits / 16": (_pixels, 500, {"standardize": False}),
    "digits": (lambda: load_digits(return_X_y=True), 500, {}),
    "breast cancer": (lambda: load_breast_cancer(return_X_y=True), 200, {}),
    "wine": (lambda: load_wine(return_X_y=True), 89, {}),
    "make_classification": (_synthetic, 1000, {}),
}


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
    print("\n".join(lines))


def one_fit(X, y, n_train, noise, seed, options):
    """Accuracy on clean test rows, top eigenvalue on the training rows."""
    import torch

    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=n_train, stratify=y, random_state=seed
    )
    if noise:
        y_train = make_noisy_labels(y_train, noise_rate=noise, random_state=seed)[0]
    clf = LESAMClassifier(
        hidden_layer_sizes=(128, 128), max_iter=80, random_state=seed, **options
    ).fit(X_train, y_train)
    Z = X_train if clf.mean_ is None else (X_train - clf.mean_) / clf.scale_
    codes = np.searchsorted(clf.classes_, y_train)
    eigenvalue = top_hessian_eigenvalue(
        clf.module_, Z, codes, torch.nn.CrossEntropyLoss(), n_iter=300, random_state=0
    )
    return clf.score(X_test, y_test), eigenvalue


def accuracy(seeds):
    """One row per data set, noise rate and optimiser; differences are paired."""
    rows = []
    for data, (load, n_train, other) in DATA.items():
        X, y = load()
        for noise in (0.0, 0.4):
            scores = {}
            for name, options in OPTIMISERS.items():
                runs = [
                    one_fit(X, y, n_train, noise, seed, options | other)
                    for seed in range(seeds)
                ]
                scores[name] = acc = np.array([run[0] for run in runs])
                better = acc - scores["SGD"]
                eigenvalue = statistics.median(run[1] for run in runs)
                rows.append(
                    {
                        "data": data,
                        "wrong labels": f"{noise:.0%}",
                        "optimiser": name,
                        "accuracy": f"{acc.mean():.4f}",
                        "± s.e.": f"{acc.std(ddof=1) / seeds**0.5:.4f}",
                        "minus SGD (paired)": f"{100 * better.mean():+.2f} ± "
                        f"{100 * better.std(ddof=1) / seeds**0.5:.2f}",
                        "top eigenvalue": f"{eigenvalue:.3g}",
                    }
                )
                print(*rows[-1].values(), flush=True)
    write("lesam_accuracy", rows)


def _stepper(kind, widths, batch):
    """A function that makes one optimiser step."""
    import torch
    from pytorch_optimizer import SAM
    from torch import nn

    torch.manual_seed(0)
    layers = []
    for n_in, n_out in pairwise(widths[:-1]):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(*widths[-2:]))
    x = torch.randn(batch, widths[0])
    y = torch.randint(widths[-1], (batch,))
    options = {"lr": 1e-3, "momentum": 0.9}

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        return loss

    if kind == "SGD":
        optimizer = torch.optim.SGD(net.parameters(), **options)
    elif kind == "LE-SAM":
        optimizer = LESAM(net.parameters(), torch.optim.SGD, **options)
    else:
        optimizer = SAM(net.parameters(), torch.optim.SGD, **options)

        def step():
            closure()
            optimizer.step(closure)

        return step, net
    return lambda: optimizer.step(closure), net


def _peak_bytes(step):
    """Most bytes that one step holds at once beyond what was there before it."""
    import torch

    step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def cost(rounds=31):
    """Median step times, the optimisers taking turns."""
    import torch

    torch.set_num_threads(1)
    rows = []
    kinds = ("SGD", "LE-SAM", "pytorch_optimizer SAM")
    for widths, batch in (
        ((64, 128, 128, 10), 64),
        ((64, 512, 512, 10), 256),
        ((64, *[64] * 20, 10), 64),
    ):
        steps = {kind: _stepper(kind, widths, batch) for kind in kinds}
        repeats = 20 if sum(widths) < 1000 else 5
        times = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, (step, _net) in steps.items():
                start = time.perf_counter()
                for _ in range(repeats):
                    step()
                times[kind].append((time.perf_counter() - start) / repeats)
        peaks = {kind: _peak_bytes(step) for kind, (step, _net) in steps.items()}
        size = 4 * sum(p.numel() for p in steps["SGD"][1].parameters())
        for kind in kinds:
            extra = (peaks[kind] - peaks["SGD"]) / size
            ratio = statistics.median(
                a / b for a, b in zip(times[kind], times["SGD"], strict=True)
            )
            rows.append(
                {
                    "network": "-".join(map(str, widths))
                    if len(widths) < 6
                    else f"{len(widths) - 1} layers of 64",
                    "batch": batch,
                    "optimiser": kind,
                    "ms a step": f"{1e3 * statistics.median(times[kind]):.3f}",
                    "ratio to SGD": f"{ratio:.2f}",
                    "extra memory / parameters": f"{extra:.2f}",
                }
            )
    write("lesam_cost", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.cost:
        cost()
    if options.accuracy:
        accuracy(options.seeds)
