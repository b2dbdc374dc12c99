"""Checks of the constructor's parameters: each one shows, and extremes are survived."""

import ast
import warnings

import numpy as np
from sklearn.base import clone

from tests._checks import check, has_parameter, is_iterative
from tests._child import ROOT
from tests._instances import Elsewhere
from tests._observe import fit, results, same


@check(is_iterative)
def check_one_iteration(entry, estimator):
    """``max_iter=1`` gives a usable estimator; only ConvergenceWarning may appear."""
    X, y = entry.make_data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est = clone(estimator).set_params(max_iter=1).fit(X, y)
        found = results(est, X)
    assert est.n_iter_ == 1
    others = [w for w in caught if w.category.__name__ != "ConvergenceWarning"]
    assert not others, f"max_iter=1 warns: {others[0].message}"
    for name, values in found.items():
        if np.asarray(values).dtype.kind == "f":
            assert np.isfinite(values).all(), f"{name} is not finite"


@check(is_iterative)
def check_stops_early(entry, estimator):
    """A huge ``max_iter`` ends as soon as nothing improves."""
    assert entry.stops_early, "the entry needs stops_early= for an iterative method"
    X, y = entry.make_data()
    est = clone(estimator).set_params(max_iter=10**6, **entry.stops_early)
    assert fit(est, X, y).n_iter_ < 10_000


@check(has_parameter("learning_rate"))
def check_divergence(entry, estimator):
    """An absurd step size is a ValueError with advice, or a finite model."""
    X, y = entry.make_data()
    est = clone(estimator).set_params(learning_rate=1e10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = results(est.fit(X, y), X)
        except ValueError as exc:
            assert "learning rate" in str(exc) or "learning_rate" in str(exc), exc
            return
    for name, values in found.items():
        if np.asarray(values).dtype.kind == "f":
            assert np.isfinite(values).all(), f"{name} is not finite"


@check()
def check_every_parameter_is_listed(entry, estimator):
    """The entry says for each parameter of ``__init__`` how it shows."""
    assert list(entry.parameters) == list(estimator.get_params(deep=False)) or (
        entry.parameters.keys() == estimator.get_params(deep=False).keys()
    ), (
        "parameters without an entry in tests/_instances.py, or the reverse: "
        f"{sorted(entry.parameters.keys() ^ estimator.get_params(deep=False).keys())}"
    )


def check_parameter_matters(entry, name):
    """Two values of the parameter differ visibly; the same value twice does not."""
    case = entry.parameters[name]
    if isinstance(case, Elsewhere):
        assert_test_exists(case)
        return
    X, y = entry.make_data()
    base = clone(entry.instances[0])
    params = base.get_params(deep=False)
    if params.get("random_state", 0) is None:
        base.set_params(random_state=0)
    base.set_params(**case.given)
    a, again, b = (
        case.differs(clone(base).set_params(**{name: value}), X, y)
        for value in (case.a, case.a, case.b)
    )
    assert same(a, again), f"{name}={case.a!r} twice gives two different results"
    assert not same(a, b), f"{name}={case.a!r} and {case.b!r} make no difference"


def assert_test_exists(case):
    """The test that an ``Elsewhere`` names is there."""
    path, _, function = case.test.partition("::")
    assert case.reason.strip(), f"{case.test}: an exemption needs a reason"
    assert (ROOT / path).exists(), f"{path} does not exist"
    tree = ast.parse((ROOT / path).read_text())
    names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert function.startswith("test_") and function in names, (
        f"{path} has no test {function!r}"
    )
