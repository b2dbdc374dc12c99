"""The plain choice by BIC beside re-ranking by EIC, for several engines.

    export SKMETHODS_DATA=/path/to/data OMP_NUM_THREADS=1
    python benchmarks/bench_eic_selection.py

Twelve physical laws, half of them signomials of ``feynman_signomials.csv``, 200 rows
with 5 % of noise, three seeds. Each engine has a fixed number of generations and one
thread, so that the choice does not depend on the load of the machine. Both choices see
the candidates of the same fit. Accuracy is R2 on 1000 new rows without noise, below
zero counted as zero; EIC ("logmean") is that of the chosen formula at those rows, at
most 16.

One row per engine and choice goes to ``results/eic_selection.csv`` and ``.md``, one per
law, seed and choice to ``results/eic_selection_laws.csv``.
"""

import argparse
import csv
import os
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score

from skmethods import (
    ECSELRegressor,
    EICSelectedRegressor,
    EICSymbolicRegressor,
    effective_information,
)

RESULTS = Path(__file__).parent / "results"
SIGNOMIALS = "I.11.19 I.32.5 I.47.23 II.2.42 II.37.1 III.15.27".split()
N_TRAIN, N_TEST, NOISE = 200, 1000, 0.05
GENERATIONS, POPULATION = 20, 250

#: name -> (law, ranges); formulas of any textbook that are no signomials.
OTHERS = {
    "gaussian": (
        lambda x: np.exp(-0.5 * (x[1] / x[0]) ** 2) / (np.sqrt(2 * np.pi) * x[0]),
        [(1, 3), (1, 3)],
    ),
    "relativistic mass": (
        lambda x: x[0] / np.sqrt(1 - (x[1] / x[2]) ** 2),
        [(1, 5), (1, 2), (3, 10)],
    ),
    "thin lens": (lambda x: 1 / (1 / x[0] + x[2] / x[1]), [(1, 5)] * 3),
    "potential difference": (
        lambda x: x[0] * x[1] * x[2] * (1 / x[3] - 1 / x[4]),
        [(1, 5)] * 5,
    ),
    "interference": (
        lambda x: x[0] + x[1] + 2 * np.sqrt(x[0] * x[1]) * np.cos(x[2]),
        [(1, 5)] * 3,
    ),
    "black body": (lambda x: x[0] ** 3 / np.expm1(x[0] / x[1]), [(1, 5)] * 2),
}


def laws():
    """``(name, function of the columns, ranges)``."""
    path = Path(os.environ["SKMETHODS_DATA"]) / "feynman_signomials.csv"
    with path.open(newline="") as file:
        table = {row["id"]: row for row in csv.DictReader(file)}
    for name in SIGNOMIALS:
        row = table[name]
        coefs = [float(c) for c in row["coefs"].split()]
        exponents = [
            [float(Fraction(e)) for e in term.split()]
            for term in row["exponents"].split(";")
        ]

        def value(x, coefs=coefs, exponents=exponents):
            terms = zip(coefs, exponents, strict=True)
            return sum(c * np.prod(x.T**e, axis=1) for c, e in terms)

        lows, highs = ([float(v) for v in row[k].split()] for k in ("lows", "highs"))
        yield name, value, list(zip(lows, highs, strict=True))
    for name, (value, ranges) in OTHERS.items():
        yield name, value, ranges


class Found(RegressorMixin, BaseEstimator):
    """Offers formulas that are known already."""

    def __init__(self, formulas=()):
        self.formulas = formulas

    def fit(self, X, y):
        self.candidates_ = list(self.formulas)
        return self


def choices(model):
    """The two formulas: lowest BIC, and lowest EIC in the window, of one fit."""
    plain = min(model.candidates_, key=lambda c: c.bic)
    return {"BIC": plain, "BIC + EIC": model.candidates_[model.best_index_]}


def operon_own(X, y, seed):
    """pyoperon as it comes: its own formulas, its default and its BIC's choice."""
    from pyoperon.sklearn import SymbolicRegressor

    engine = SymbolicRegressor(
        allowed_symbols=(
            "add,sub,mul,div,constant,variable,sqrt,square,exp,log,sin,cos"
        ),
        objectives=["r2", "length"],
        population_size=POPULATION,
        generations=GENERATIONS,
        max_evaluations=10**9,
        max_length=30,
        optimizer_iterations=5,
        random_state=seed,
    )
    model = EICSelectedRegressor(estimator=engine, random_state=0).fit(X, y)
    front = model.estimator_.pareto_front_
    texts = {}
    for key in ("minimum_description_length", "bayesian_information_criterion"):
        tree = min(front, key=lambda entry: entry[key])["tree"]
        names = [f"x{j}" for j in range(X.shape[1])]
        text = model.estimator_.get_model_string(tree, 12, names)
        name = "its default (MDL)" if key[0] == "m" else "its BIC"
        texts[name] = text
    return model, texts


def searches(seed):
    """``{name: estimator}`` of what fits in one go."""
    from gplearn.genetic import SymbolicRegressor

    tiny = {"n_generations": GENERATIONS, "population_size": POPULATION}
    found = {
        f"EICSymbolicRegressor, {mode}": EICSymbolicRegressor(
            mode=mode, random_state=seed, **tiny
        )
        for mode in ("rerank", "penalty", "objective")
    }
    found["gplearn"] = EICSelectedRegressor(
        estimator=SymbolicRegressor(
            population_size=POPULATION,
            generations=GENERATIONS // 4,  # each takes many times as long
            function_set=("add", "sub", "mul", "div", "sqrt", "log", "sin", "cos"),
            parsimony_coefficient=1e-3,
        ),
        random_state=seed,
    )
    found["ECSELRegressor"] = EICSelectedRegressor(
        estimator=ECSELRegressor(), random_state=seed
    )
    return found


def rows_of(engine, options, seconds, train, X_test, clean):
    """One row per choice; where a formula has no value, the mean of y is predicted."""
    for choice, text in options.items():
        size = getattr(text, "size", None)
        text = getattr(text, "formula", text)
        chosen = EICSelectedRegressor(
            estimator=Found((text,)), n_rows=1, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen.fit(*train)
            r2 = max(r2_score(clean, chosen.predict(X_test)), 0.0)
        digits = effective_information(chosen.formula_, X_test, aggregate="logmean")
        yield {
            "engine": engine,
            "choice": choice,
            "r2": r2,
            "eic": min(digits, 16.0),
            "size": size or chosen.candidates_[0].size,
            "seconds": seconds,
            "formula": text,
        }


def run(seeds, only):
    """All rows, printed as they come."""
    for name, value, ranges in laws():
        if only and name not in only:
            continue
        low, high = np.array(ranges, dtype=float).T
        for seed in seeds:
            rng = np.random.default_rng(seed)
            X = rng.uniform(low, high, (N_TRAIN, len(low)))
            y = value(X.T)
            y = y + NOISE * y.std() * rng.standard_normal(N_TRAIN)
            X_test = rng.uniform(low, high, (N_TEST, len(low)))
            clean = value(X_test.T)
            rows = []
            start = time.perf_counter()
            model, texts = operon_own(X, y, seed)
            seconds = time.perf_counter() - start
            rows += rows_of(
                "pyoperon", texts | choices(model), seconds, (X, y), X_test, clean
            )
            for engine, model in searches(seed).items():
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(X, y)
                seconds = time.perf_counter() - start
                rows += rows_of(engine, choices(model), seconds, (X, y), X_test, clean)
            for row in rows:
                row |= {"law": name, "seed": seed}
                print(
                    f"{name:22}{seed:2}  {row['engine']:34}{row['choice']:18}"
                    f"{row['r2']:7.4f}{row['eic']:7.3f}{row['size']:5}"
                    f"{row['seconds']:7.1f}",
                    flush=True,
                )
                yield row


def table(rows):
    """Means and medians over laws and seeds."""
    groups = {}
    for row in rows:
        groups.setdefault((row["engine"], row["choice"]), []).append(row)
    for (engine, choice), found in groups.items():
        r2, eic, size, seconds = (
            np.array([row[k] for row in found])
            for k in ("r2", "eic", "size", "seconds")
        )
        yield {
            "engine": engine,
            "choice": choice,
            "fits": len(found),
            "median R2": f"{np.median(r2):.4f}",
            "mean R2": f"{r2.mean():.4f}",
            "median EIC": f"{np.median(eic):.3f}",
            "mean EIC": f"{eic.mean():.3f}",
            "median size": f"{np.median(size):.0f}",
            "seconds": f"{np.median(seconds):.1f}",
        }


def write(path, rows):
    """As CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--laws", nargs="*", help="a part of them; writes nothing")
    options = parser.parse_args()
    rows = list(run(range(options.seeds), options.laws))
    summary = list(table(rows))
    lines = ["| " + " | ".join(summary[0]) + " |", "|" + "---|" * len(summary[0])]
    lines += ["| " + " | ".join(str(v) for v in row.values()) + " |" for row in summary]
    print("\n".join(lines))
    if options.laws:
        return
    RESULTS.mkdir(exist_ok=True)
    write(RESULTS / "eic_selection.csv", summary)
    for row in rows:
        del row["formula"]
        row |= {k: f"{row[k]:.4f}" for k in ("r2", "eic", "seconds")}
    write(RESULTS / "eic_selection_laws.csv", rows)
    head = f"{len({row['law'] for row in rows})} laws, {options.seeds} seeds, "
    head += f"{N_TRAIN} rows, {NOISE:.0%} noise; generated by `{Path(__file__).name}`"
    (RESULTS / "eic_selection.md").write_text(f"{head}\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
