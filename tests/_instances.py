"""What the contract suite must know about each public estimator.

Every estimator that ``skmethods`` exports has an entry in ``ENTRIES``; one without
fails ``test_common.py``. To add one, copy an entry of ``_entries`` and fill in:

- ``instances``: cheap ones (a few iterations, tiny nets); all checks run on each.
- ``make_data()``: X (about 40 rows, 4 columns) and y, None if ``fit`` takes none.
- ``expected_failed_checks``: scikit-learn check -> reason. At most one.
- ``parameters``: for each parameter of ``__init__`` a ``Matters`` (two values and what
  must differ between them) or an ``Elsewhere`` (the test that shows its effect).
- ``fitted_bytes(estimator, X)``: how much ``predict`` has to remember.
- ``grid``: one real parameter and values for a ``GridSearchCV``.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import sklearn
from sklearn.base import BaseEstimator

import skmethods
from tests._observe import (
    attribute,
    error,
    outputs,
    printed,
    refit_outputs,
    without,
    workers,
)
from tests._reference import ReferenceClassifier, ReferenceDetector


@dataclass
class Matters:
    """A parameter whose two values must make a visible difference.

    Attributes
    ----------
    a, b : object
        Two values. The first instance of the entry gets them in turn.
    differs : callable
        ``differs(estimator, X, y)`` fits and returns what is compared: see
        ``_observe.py``. It must come out the same when repeated with `a`.
    given : dict
        Other parameters, where this one matters.
    """

    a: object
    b: object
    differs: Callable = outputs
    given: dict = field(default_factory=dict)


@dataclass
class Elsewhere:
    """A parameter whose effect another test shows.

    Attributes
    ----------
    test : str
        ``path/from/root.py::function``; must exist.
    reason : str
        Why no pair of values can show it here.
    """

    test: str
    reason: str


@dataclass
class Entry:
    """One public estimator in the contract suite; see the module's docstring."""

    instances: list
    make_data: Callable
    parameters: dict
    fitted_bytes: Callable
    grid: dict
    expected_failed_checks: dict = field(default_factory=dict)
    #: fault number -> (expectation, reason); see ``_faults.py``
    faults: dict = field(default_factory=dict)
    #: parameters under which a huge ``max_iter`` still ends soon
    stops_early: dict = field(default_factory=dict)
    #: optional package -> parameters that need it
    optional: dict = field(default_factory=dict)

    @property
    def cls(self):
        return type(self.instances[0])


def two_blobs(n=40, d=4, n_classes=2, seed=0):
    """Rows of overlapping Gaussian classes, in columns of unequal scale."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d)) + 2.0 * y[:, None]
    return X * np.linspace(1, 3, d), y


def cloud(n=60, d=4, seed=0):
    """Rows of one Gaussian, without a target."""
    return two_blobs(n, d, n_classes=1, seed=seed)[0], None


def line(n=40, d=4, seed=0):
    """Rows and a noisy linear target."""
    X, _ = two_blobs(n, d, seed=seed)
    rng = np.random.RandomState(seed + 1)
    return X, X @ np.linspace(1, -1, d) + 0.1 * rng.standard_normal(n)


def law(n=40, d=4, seed=0):
    """Positive rows and a noisy product of powers, with one summand more."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(1, 5, (n, d))
    y = X[:, 0] * X[:, 1] / X[:, 2] ** 2 - np.sqrt(X[:, -1])
    return X, y + 0.1 * rng.standard_normal(n)


def public_names():
    """``(name, object)`` of the public table; an exception where the import fails."""
    for name in skmethods.__all__:
        try:
            yield name, getattr(skmethods, name)
        except Exception as exc:  # one broken module must not hide the others
            yield name, exc


def public_estimators():
    """``{name: class}`` of every estimator that skmethods exports."""
    return {
        name: obj
        for name, obj in public_names()
        if isinstance(obj, type) and issubclass(obj, BaseEstimator)
    }


def small_module(n_in, n_out):
    """A network of the user's own; random while it trains."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(n_in, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(8, n_out),
    )


def _lesam_parameters():
    """The parameters that both LE-SAM estimators have."""
    stopping = {"early_stopping": True, "validation_fraction": 0.2, "max_iter": 20}
    return {
        "hidden_layer_sizes": Matters((8,), (4, 4)),
        "activation": Matters("relu", "tanh"),
        "module": Matters(None, small_module),
        "sigma": Matters(0.0, 0.5),
        "rho_max": Matters(1e-3, 0.3),
        "adaptive": Matters(False, True),
        "sigma_decay": Matters("cosine", "none", given={"sigma_decay_start": 0.0}),
        "sigma_decay_start": Matters(0.0, 1.0),
        "base_optimizer": Matters("sgd", "adamw"),
        "learning_rate": Matters(0.05, 0.01),
        "lr_schedule": Matters("cosine", "constant"),
        "momentum": Matters(0.9, 0.5),
        "weight_decay": Matters(0.0, 0.1),
        "max_grad_norm": Matters(None, 1e-2),
        "batch_size": Matters(8, 16),
        "max_iter": Matters(3, 5),
        "early_stopping": Matters(False, True, given={"validation_fraction": 0.2}),
        "validation_fraction": Matters(0.2, 0.4, given={"early_stopping": True}),
        "n_iter_no_change": Matters(
            2, 4, attribute("n_iter_"), given=stopping | {"tol": 1e3}
        ),
        "tol": Matters(
            0.0, 1e3, attribute("n_iter_"), given=stopping | {"n_iter_no_change": 2}
        ),
        "standardize": Matters(True, False),
        "warm_start": Matters(False, True, refit_outputs),
        "device": Matters("cpu", "no-such-device", error),
        "random_state": Matters(0, 1),
        "verbose": Matters(False, True, printed),
    }


_TINY_NET = {
    "hidden_layer_sizes": (8,),
    "batch_size": 16,
    "max_iter": 6,
    "random_state": 0,
}

_NET = {
    "expected_failed_checks": {
        "check_sample_weight_equivalence_on_dense_data": (
            "the minibatches of SGD change when rows are repeated instead of weighted"
        )
    },
    "fitted_bytes": lambda est, X: (
        4 * sum(p.numel() for p in est.module_.parameters()) + 16 * X.shape[1]
    ),
    "grid": {"learning_rate": [0.01, 0.05]},
    "stops_early": {
        "early_stopping": True,
        "validation_fraction": 0.2,
        "n_iter_no_change": 2,
    },
}


_TINY_SEARCH = {
    "n_generations": 3,
    "population_size": 60,
    "max_length": 12,
    "optimizer_iterations": 1,
    "random_state": 0,
}


def _quick_law(max_terms=2):
    """An engine of few candidates that asks for weights when they are routed."""
    with sklearn.config_context(enable_metadata_routing=True):
        engine = skmethods.ECSELRegressor(max_terms=max_terms, n_init=2, max_iter=100)
        return engine.set_fit_request(sample_weight=True)


def _one_formula(engine):
    """Candidates that are a user's own."""
    return ["x0 - x1/3", "x0"]


def _dvm_bytes(est, X):
    """In two metrics: the rows, and a graph of distances and indices."""
    n, d = X.shape
    return 8 * n * (2 * (d + 2 * est.n_neighbors) + 1)


def _entries():
    """The entries of the public estimators; called once they can be imported."""
    return {
        "DVMAnomalyDetector": lambda cls: Entry(
            instances=[
                cls(),
                cls(metric_blocks="joint", search="exact"),
                cls(robust=True),
            ],
            make_data=cloud,
            parameters={
                "contamination": Matters("auto", 0.2),
                "n_neighbors": Matters(10, 2),
                "metric_blocks": Matters("both", "structure"),
                "edge_penalty": Matters(0.9, 0.5),
                "search": Matters("local", "exact"),
                "robust": Matters(False, True),
                "reference": Matters("max", "mean", attribute("eigenvalues_")),
                "scaling": Matters("standard", "none"),
                "backend": Matters("torch", "faiss", without("faiss")),
                "device": Matters("cpu", "no-such-device", error),
                "batch_size": Elsewhere(
                    "tests/anomaly/test_dvm.py::test_batch_size_bounds_the_tiles",
                    "it changes the memory in use and no result",
                ),
            },
            fitted_bytes=_dvm_bytes,
            grid={"n_neighbors": [3, 10]},
            optional={"faiss": {"backend": "faiss"}},
        ),
        "ECSELClassifier": lambda cls: Entry(
            instances=[
                cls(l1=1e-3, max_iter=30),
                cls(n_terms=3, l1=0.02, max_iter=30, refit_support=True),
                cls(),
            ],
            make_data=two_blobs,
            parameters={
                "n_terms": Matters(2, 3),
                "l1": Matters(1e-3, 0.1),
                "l2": Matters(1e-4, 1.0),
                "feature_range": Matters((1, 10), (1, 2)),
                "clip": Elsewhere(
                    "tests/symbolic/test_classifier.py::test_clip",
                    "it is about rows outside the training range",
                ),
                "fit_intercept": Matters(True, False),
                "init": Matters("logistic", "random"),
                "n_init": Elsewhere(
                    "tests/symbolic/test_classifier.py::test_the_best_start_wins",
                    "on easy data the first start wins",
                ),
                "solver": Matters("lbfgs", "adam"),
                "max_iter": Matters(3, 5),
                "tol": Matters(0.0, 1e-1, attribute("n_iter_")),
                "batch_size": Matters(8, 16, given={"solver": "adam", "max_iter": 2}),
                "learning_rate": Matters(
                    0.02, 0.1, given={"solver": "adam", "max_iter": 2}
                ),
                "class_weight": Matters(None, {0: 1.0, 1: 5.0}),
                "refit_support": Matters(False, True, given={"l1": 0.02}),
                "device": Matters("cpu", "no-such-device", error),
                "random_state": Matters(0, 1, given={"init": "random", "max_iter": 2}),
                "verbose": Matters(False, True, printed),
            },
            fitted_bytes=lambda est, X: (
                8 * (2 * est.exponents_.size + 6 * X.shape[1]) + 8 * est.coef_.size
            ),
            grid={"l1": [1e-3, 1e-2]},
            stops_early={"tol": 1e-6},
        ),
        "ECSELRegressor": lambda cls: Entry(
            instances=[
                cls(max_terms=2, n_init=4, random_state=0),
                cls(max_terms=2, n_init=4, exponents="real", random_state=0),
                cls(random_state=0),
            ],
            make_data=line,
            parameters={
                "max_terms": Matters(1, 2),
                "exponents": Matters("auto", "real"),
                "loss": Elsewhere(
                    "tests/symbolic/test_regressor.py::test_loss",
                    "loss='log' needs a positive target",
                ),
                "positive": Matters("map", "raw", error),
                "feature_range": Matters((1, 10), (1, 3)),
                "clip": Elsewhere(
                    "tests/symbolic/test_regressor.py::test_clip",
                    "it is about rows outside the training range",
                ),
                "signed": Matters(False, True),
                "exponent_bounds": Matters(None, (0, 1)),
                "l1": Matters(0.0, 0.1, given={"exponents": "real"}),
                "n_init": Elsewhere(
                    "tests/symbolic/test_regressor.py::test_n_init",
                    "on easy data the first start wins",
                ),
                "max_iter": Matters(3, 100),
                "tol": Matters(0.0, 0.1, attribute("n_iter_")),
                "random_state": Elsewhere(
                    "tests/symbolic/test_regressor.py::test_random_state",
                    "on easy data every start leads to the same law",
                ),
            },
            fitted_bytes=lambda est, X: (
                8 * 20 * sum((X.shape[1] + 1) * k for k in est.mdl_path_["n_terms"])
            ),
            grid={"max_terms": [1, 2]},
            stops_early={"max_terms": 2},
        ),
        "EICSelectedRegressor": lambda cls: Entry(
            instances=[cls(estimator=_quick_law(), random_state=0)],
            make_data=law,
            parameters={
                "estimator": Matters(_quick_law(1), _quick_law(2)),
                "delta_bic": Matters(0.0, 1e9),
                "aggregate": Matters("logmean", "mean", attribute("eic_")),
                "candidates": Matters(None, _one_formula),
                "n_rows": Matters(None, 10, attribute("eic_")),
                "random_state": Matters(0, 1, attribute("eic_"), {"n_rows": 10}),
            },
            fitted_bytes=lambda est, X: (
                sum(len(repr(c)) for c in est.candidates_)
                + len(pickle.dumps(est.estimator_))
            ),
            grid={"delta_bic": [0.0, 10.0]},
        ),
        "EICSymbolicRegressor": lambda cls: Entry(
            instances=[
                cls(**_TINY_SEARCH),
                cls(mode="penalty", **_TINY_SEARCH),
                cls(mode="objective", **_TINY_SEARCH),
            ],
            make_data=law,
            parameters={
                "mode": Matters("rerank", "penalty", attribute("candidates_")),
                "penalty_weight": Matters(
                    0.0, 20.0, attribute("candidates_"), {"mode": "penalty"}
                ),
                "delta_bic": Matters(0.0, 1e9),
                "aggregate": Matters("logmean", "mean", attribute("eic_")),
                "n_generations": Matters(3, 1),
                "population_size": Matters(60, 20),
                "max_length": Matters(12, 4),
                "allowed_symbols": Matters(None, "add,mul,constant,variable"),
                "optimizer_iterations": Matters(1, 0),
                "max_time": Elsewhere(
                    "tests/symbolic/test_search.py::test_max_time_ends_the_search",
                    "it ends longer searches than these",
                ),
                "n_rows": Matters(None, 10, attribute("eic_")),
                "n_jobs": Elsewhere(
                    "tests/symbolic/test_search.py::test_n_jobs_reaches_operon",
                    "it changes the number of threads and no result",
                ),
                "random_state": Matters(0, 1),
            },
            fitted_bytes=lambda est, X: sum(len(repr(c)) for c in est.candidates_),
            grid={"n_generations": [1, 3]},
            optional={"pyoperon": {}},
        ),
        "LESAMClassifier": lambda cls: Entry(
            instances=[cls(**_TINY_NET)],
            make_data=two_blobs,
            parameters=_lesam_parameters()
            | {
                "label_smoothing": Matters(0.0, 0.3),
                "class_weight": Matters(None, {0: 1.0, 1: 5.0}),
            },
            **_NET,
        ),
        "LESAMRegressor": lambda cls: Entry(
            instances=[cls(**_TINY_NET)],
            make_data=line,
            parameters=_lesam_parameters(),
            **_NET,
        ),
    }


#: Public name -> entry. A class that cannot be imported is reported by test_common.
ENTRIES = {
    name: make(getattr(skmethods, name))
    for name, make in _entries().items()
    if name in public_estimators()
}

#: The examples that the suite is tried on; not public.
REFERENCES = {
    "ReferenceClassifier": Entry(
        instances=[ReferenceClassifier(max_iter=20, random_state=0)],
        make_data=two_blobs,
        parameters={
            "C": Matters(1.0, 0.01),
            "max_iter": Matters(2, 5),
            "tol": Matters(0.0, 1e3),
            "device": Matters("cpu", "no-such-device", error),
            "random_state": Matters(0, 1, given={"max_iter": 2}),
            "verbose": Matters(False, True, printed),
        },
        fitted_bytes=lambda est, X: est.coef_.nbytes + est.intercept_.nbytes,
        grid={"C": [0.01, 1.0]},
        stops_early={"tol": 1e-6},
    ),
    "ReferenceDetector": Entry(
        instances=[ReferenceDetector()],
        make_data=cloud,
        parameters={
            "contamination": Matters(0.1, 0.3),
            "n_jobs": Matters(1, 2, workers),
        },
        fitted_bytes=lambda est, X: 8 * (2 * X.shape[1] + len(X)),
        grid={"contamination": [0.05, 0.2]},
    ),
}


def all_entries():
    """The public entries whose class can be imported, then the references."""
    return ENTRIES | REFERENCES


def cases():
    """``(entry, instance)`` for each instance, with a readable id."""
    import pytest

    return [
        pytest.param(entry, instance, id=f"{name}-{i}" if i else name)
        for name, entry in all_entries().items()
        for i, instance in enumerate(entry.instances)
    ]
