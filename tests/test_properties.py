"""Properties on random tables: every estimator, small shapes, any finite floats."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

from tests._instances import cases
from tests._observe import assert_same, methods_of, results

#: Wide, with subnormals, but within what single precision can hold.
FLOATS = st.one_of(
    st.floats(-1e30, 1e30, allow_subnormal=True),
    st.floats(-3, 3, width=16),  # ties and constant columns
    st.sampled_from([0.0, -0.0, 5e-324, 1e-310, 1.0]),
)
SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 5))
TABLES = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=FLOATS))

quick = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # the tables are small as they are
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _target(estimator, n):
    if is_classifier(estimator):
        return np.arange(n) % 2
    return np.linspace(-1, 1, n) if is_regressor(estimator) else None


def _fitted(estimator, X):
    """The estimator fitted to X, or None when X is refused with a sentence."""
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    y = _target(estimator, len(X))
    try:
        return estimator.fit(X) if y is None else estimator.fit(X, y)
    except ValueError as exc:
        assert len(str(exc).split()) > 3
        return None


@pytest.fixture(autouse=True)
def _strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.parametrize(("entry", "estimator"), cases())
@quick
@given(X=TABLES)
def test_any_finite_table(entry, estimator, X):
    """Outputs are finite, repeatable, and each row's whatever its neighbours are."""
    before = X.tobytes()
    est = _fitted(estimator, X)
    assert X.tobytes() == before
    if est is None:
        return
    found = results(est, X)
    for name, values in found.items():
        assert len(values) == len(X)
        if values.dtype.kind == "f":
            assert values.dtype == np.float64
            assert np.isfinite(values).all(), name
    assert_same(found, results(_fitted(estimator, X), X), "a second fit")
    order = np.random.default_rng(0).permutation(len(X))
    moved, single = results(est, X[order]), results(est, X[:1])
    for name, values in found.items():
        if values.dtype.kind == "f":  # a label may turn on the last bit of a score
            scale = max(np.abs(values).max(), np.finfo(float).tiny)
            off = np.abs(values[order] - moved[name]).max() / scale
            assert off <= 1e-5, f"the order of rows changes {name} by {off:.1g}"
            off = np.abs(values[:1] - single[name]).max() / scale
            assert off <= 1e-5, f"{name} of a row depends on the others, {off:.1g}"
    if hasattr(est, "fit_predict"):
        again = clone(est)
        assert np.array_equal(again.fit_predict(X), found["predict"])


@pytest.mark.parametrize(("entry", "estimator"), cases())
@quick
@given(X=TABLES, far=st.floats(-1e300, 1e300))
def test_any_finite_query(entry, estimator, X, far):
    """A good fit never answers a finite query with NaN, infinity or a crash."""
    good, y = entry.make_data()
    est = clone(estimator)
    est = est.fit(good) if y is None else est.fit(good, y)
    query = np.resize(X, (len(X), good.shape[1])).astype(np.float64)
    query[0, 0] = far
    for name in methods_of(est):
        try:
            values = getattr(est, name)(query)
        except ValueError as exc:
            assert len(str(exc).split()) > 3
            continue
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), name
        if name in ("predict_proba", "anomaly_probability"):
            assert values.min() >= 0 and values.max() <= 1
