"""What can be seen of an estimator from outside: its outputs, errors, prints."""

import contextlib
import io
import sys
import warnings
from unittest import mock

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel

#: Methods whose result must be finite and have one row per row of X.
OUTPUT_METHODS = (
    "predict",
    "predict_proba",
    "decision_function",
    "score_samples",
    "anomaly_probability",
    "transform",
)


def fit(estimator, X, y, **kw):
    """Fit without convergence warnings; y is left out when None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, **kw) if y is None else estimator.fit(X, y, **kw)


def methods_of(estimator):
    """The output methods that a fitted estimator has."""
    return [name for name in OUTPUT_METHODS if hasattr(estimator, name)]


def results(estimator, X):
    """The outputs of a fitted estimator for X, as ``{method: array}``."""
    return {name: getattr(estimator, name)(X) for name in methods_of(estimator)}


def outputs(estimator, X, y):
    """The outputs after a fit to the same data."""
    return results(fit(clone(estimator), X, y), X)


def attribute(name):
    """Observe one fitted attribute."""

    def observe(estimator, X, y):
        return getattr(fit(clone(estimator), X, y), name)

    return observe


def printed(estimator, X, y):
    """What ``fit`` writes to standard output."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        fit(clone(estimator), X, y)
    return text.getvalue()


def error(estimator, X, y):
    """The ValueError or TypeError of a fit, or None."""
    try:
        fit(clone(estimator), X, y)
    except (ValueError, TypeError) as exc:
        return f"{type(exc).__name__}: {exc}"
    return None


def workers(estimator, X, y):
    """The ``n_jobs`` of every joblib call in ``fit`` and the output methods."""
    seen = []
    call = Parallel.__call__

    def spy(self, iterable):
        seen.append(self.n_jobs)
        return call(self, iterable)

    with mock.patch.object(Parallel, "__call__", spy):
        outputs(estimator, X, y)
    return seen


def refit_outputs(estimator, X, y):
    """The outputs after two fits of the same object."""
    estimator = clone(estimator)
    return results(fit(fit(estimator, X, y), X, y), X)


def without(package):
    """Observe the error of a fit where an optional package is not installed."""

    def observe(estimator, X, y):
        blocked = {m: None for m in sys.modules if m.partition(".")[0] == package}
        with mock.patch.dict(sys.modules, {package: None} | blocked):
            try:
                outputs(estimator, X, y)
            except ImportError as exc:
                return str(exc)
        return None

    return observe


def same(a, b):
    """Exact equality of observations, arrays included."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(
            a, b, equal_nan=a.dtype.kind in "fc"
        )
    return bool(a == b)


def assert_same(a, b, what):
    """Fail unless two ``{method: array}`` dicts are exactly equal."""
    assert a.keys() == b.keys(), f"{what}: {sorted(a)} became {sorted(b)}"
    for name in a:
        assert np.array_equal(a[name], b[name]), (
            f"{what} changed {name} by up to {_difference(a[name], b[name])}"
        )


def assert_close(a, b, what, rtol):
    """Fail unless two ``{method: array}`` dicts agree; labels in 95 % of the rows.

    The scale of a comparison is the largest magnitude in an array, for a number near
    zero is the difference of two that are not.
    """
    assert a.keys() == b.keys(), f"{what}: {sorted(a)} became {sorted(b)}"
    for name in a:
        x, y = np.asarray(a[name]), np.asarray(b[name])
        assert x.shape == y.shape, f"{what} changed the shape of {name}"
        if x.dtype.kind == "f":
            scale = max(np.abs(x).max(initial=0), np.finfo(float).tiny)
            off = np.abs(x - y).max(initial=0) / scale
            assert off <= rtol, f"{what} changed {name} by {off:.2g} of its scale"
        else:
            agree = (x == y).mean()
            assert agree >= 0.95, f"{what} changed {1 - agree:.0%} of {name}"


def _difference(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return f"shape {a.shape} to {b.shape}"
    if a.dtype.kind == "f":
        return np.abs(a - b).max()
    return f"{(a != b).sum()} labels"
