"""Symbolic models: laws beside pyoperon, a readable classifier, sane formulas."""

import time

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmethods import (
    ECSELClassifier,
    ECSELRegressor,
    effective_information,
    list_physical_laws,
    make_physical_law,
    random_formulas,
)

from ._row import Result, Row

#: The search that both sides of a row get, or the peer alone.
_SEARCH = {"population_size": 500, "optimizer_iterations": 5, "random_state": 0}


def _operon(allowed_symbols, **kw):
    try:
        from pyoperon.sklearn import SymbolicRegressor
    except ImportError as exc:
        raise ImportError(
            f"The peer of this row is pyoperon, which could not be imported ({exc}). "
            'Install it with: pip install "skmethods[symbolic]"'
        ) from exc
    return SymbolicRegressor(
        allowed_symbols=allowed_symbols,
        max_evaluations=10**9,  # the generations are the limit
        n_threads=2,
        **_SEARCH,
        **kw,
    )


def _beyond(law, rng):
    """Rows of a range four times as wide, their true values, and the terms' size."""
    low, high = law.ranges.T
    X = rng.uniform(low / 2, 2 * high, (1000, len(low)))
    terms = law.coef * np.exp(np.log(X) @ law.exponents.T)
    return X, terms.sum(axis=1), np.abs(terms).sum(axis=1)


def recovery(quick, device):
    """Share of laws that are followed beyond the training range.

    The median error, relative to the size of the law's terms, must be below 1 % on
    fresh rows without noise, from half the lower to twice the upper end of each range.
    This compares no formulas, and a wrong form does not pass it.
    """
    names = list_physical_laws("signomial")[: 4 if quick else None]
    rng = np.random.RandomState(0)
    followed = np.zeros((2, len(names)))
    seconds = np.zeros(2)
    for i, name in enumerate(names):
        law = make_physical_law(name, 500, noise=0.01, random_state=0)
        X, y, size = _beyond(law, rng)
        models = (
            ECSELRegressor(random_state=0),
            _operon(
                "add,sub,mul,div,constant,variable,sqrt,square",
                generations=3 if quick else 5,
                max_length=25,
            ),
        )
        for j, model in enumerate(models):
            start = time.perf_counter()
            model.fit(law.data, law.target)
            seconds[j] += time.perf_counter() - start
            with np.errstate(all="ignore"):
                error = np.abs(model.predict(X) - y) / size
            followed[j, i] = np.median(np.nan_to_num(error, nan=np.inf)) < 0.01
    ours, peer = followed.mean(axis=1)
    per_law = 1000 * seconds / len(names)
    return Result(
        ours,
        peer,
        note=f"median error < 1 % in a wider range; {per_law[0]:.0f} ms a law, "
        f"pyoperon {per_law[1]:.0f} ms",
    )


def classifier(quick, device):
    """Cross-validated accuracy, beside the better one of two usual choices."""
    X, y = load_breast_cancer(return_X_y=True)
    folds = StratifiedKFold(3 if quick else 5, shuffle=True, random_state=0)
    model = ECSELClassifier(device=device, random_state=0)
    peers = {
        "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression()),
        "HistGradientBoosting": HistGradientBoostingClassifier(
            max_iter=20 if quick else 100, random_state=0
        ),
    }
    scores = {n: cross_val_score(m, X, y, cv=folds).mean() for n, m in peers.items()}
    best, other = sorted(scores, key=scores.get, reverse=True)
    exponents = model.fit(X, y).exponents_
    return Result(
        cross_val_score(model, X, y, cv=folds).mean(),
        scores[best],
        peer_name=best,
        note=f"{np.count_nonzero(exponents)} of {exponents.size} exponents are not "
        f"zero; {other} {scores[other]:.3f}",
    )


def sanity(quick, device):
    """Rank correlation with the error that single precision really makes.

    Over random formulas; the peer is the number of nodes, by which formulas are ranked
    where nobody looks at rounding.
    """
    X = np.random.RandomState(0).uniform(-3, 3, (64, 3))
    found = []
    for text in random_formulas(500 if quick else 2500, n_features=3, random_state=0):
        result = effective_information(text, X, return_details=True)
        if not np.isfinite(result.eic) or not result.tape.features:
            continue
        exact = result.tape.evaluate(X)
        single = result.tape.evaluate(X, dtype=np.float32).astype(np.float64)
        with np.errstate(all="ignore"):
            error = np.sqrt(np.mean((single / exact - 1) ** 2))
        if 0 < error < np.inf:
            found.append((result.root_digits, result.tape.size, error))
    digits, size, error = np.array(found).T
    return Result(
        spearmanr(digits, error).statistic,
        spearmanr(size, error).statistic,
        note=f"{len(error)} random formulas that have a value at all of 64 rows",
    )


ROWS = [
    Row(
        method="ECSEL-R",
        task="find a law",
        data="20 laws of physics, 1 % noise",
        metric="recovery",
        peer="pyoperon",
        run=recovery,
    ),
    Row(
        method="ECSEL-C",
        task="a classifier one can read",
        data="breast cancer",
        metric="accuracy",
        peer="the better of two",
        run=classifier,
    ),
    Row(
        method="EIC",
        task="see rounding in a formula",
        data="random formulas",
        metric="Spearman",
        peer="number of nodes",
        run=sanity,
    ),
]
