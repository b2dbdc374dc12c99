"""ECSELRegressor: laws come back, and bad input is told or survived."""

import math
import pickle
import re
import sys
import warnings
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skmethods import ECSELRegressor


def rows(exponents, coef, n=200, noise=0.0, seed=0, low=1.0, high=5.0):
    """Rows of a signomial with additive noise relative to the RMS of y."""
    exponents = np.atleast_2d(np.asarray(exponents, dtype=float))
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, exponents.shape[1]))
    y = np.exp(np.log(X) @ exponents.T) @ np.asarray(coef, dtype=float)
    return X, y + noise * np.sqrt(np.mean(y * y)) * rng.standard_normal(n)


def fit(X, y, sample_weight=None, **params):
    return ECSELRegressor(random_state=0, **params).fit(X, y, sample_weight)


def assert_law(model, exponents, coef, rtol=1e-9):
    exponents = np.atleast_2d(np.asarray(exponents, dtype=float))
    assert model.exponents_.shape == exponents.shape, model.formula()
    one, other = np.lexsort(model.exponents_.T), np.lexsort(exponents.T)
    np.testing.assert_array_equal(model.exponents_[one], exponents[other])
    np.testing.assert_allclose(
        model.coef_[one], np.asarray(coef, dtype=float)[other], rtol=rtol
    )


LAWS = {
    "gravity": ([[1, 1, -2]], [6.674]),
    "kinetic and potential": ([[1, 2, 0, 0], [1, 0, 1, 1]], [0.5, 9.81]),
    "difference": ([[1, 0, 1, 0], [1, 0, 0, 1]], [1, -1]),
    "root": ([[0.5, -0.5, 0]], [2 * np.pi]),
    "inner product": (np.hstack([np.eye(3), np.eye(3)]), [1, 1, 1]),
    "with a constant": ([[2, 0], [0, 0]], [3, 7]),
    "thirds": ([[2 / 3, -1]], [1.2]),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
def test_exact_laws_come_back(name, noise):
    exponents, coef = LAWS[name]
    X, y = rows(exponents, coef, n=500, noise=noise)
    model = fit(X, y)
    assert_law(model, exponents, coef, rtol=max(1e-9, 5 * noise))
    assert model.is_rational_.all()
    assert np.isnan(model.exponent_stderr_).all()
    assert model.noise_ == "additive" or noise == 0


@pytest.mark.parametrize(("degree", "terms"), [(3, 3), (4, 4), (5, 6)])
def test_nguyen_polynomials(degree, terms):
    exponents = np.arange(1, degree + 1)[:, None]
    X, y = rows(exponents, np.ones(degree), n=40, low=0.1, high=2)
    assert_law(fit(X, y, max_terms=terms), exponents, np.ones(degree), rtol=1e-6)


def random_law(n_terms, m, rng):
    while True:
        E = rng.choice([-2, -1, -0.5, 0, 0, 0, 0.5, 1, 2], size=(n_terms, m))
        if len(np.unique(E, axis=0)) == n_terms and (E != 0).any(axis=1).all():
            return E, rng.uniform(0.5, 3, n_terms) * rng.choice([-1, 1], n_terms)


def test_random_signomials():
    """At least 95 % of sums of 2 to 4 terms, no noise, n = 500."""
    good = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        E, c = random_law(2 + seed % 3, 5 + seed % 4, rng)
        X, y = rows(E, c, n=500, seed=seed)
        try:
            assert_law(fit(X, y), E, c, rtol=1e-6)
            good += 1
        except AssertionError:
            pass
    assert good >= 19


def real_law(noise, seed=0, n=1000, log_normal=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(1, 5, (n, 5))
    y = 13.08 * X[:, 2] ** 1.5617 * X[:, 3] / X[:, 0] ** 1.7554
    draws = rng.standard_normal(n)
    return X, y * (np.exp(noise * draws) if log_normal else 1 + noise * draws)


def test_real_exponents_stay_real_without_noise():
    model = fit(*real_law(0.0))
    np.testing.assert_allclose(
        model.exponents_, [[-1.7554, 0, 1.5617, 1, 0]], atol=1e-6
    )
    np.testing.assert_array_equal(model.is_rational_, [[0, 1, 0, 1, 1]])


@pytest.mark.parametrize("seed", range(4))
def test_real_exponents_under_noise(seed):
    """2 % of multiplicative noise: three exponents, within 0.02; no other term."""
    model = fit(*real_law(0.02, seed))
    np.testing.assert_array_equal(model.exponents_ != 0, [[1, 0, 1, 1, 0]])
    np.testing.assert_allclose(
        model.exponents_, [[-1.7554, 0, 1.5617, 1, 0]], atol=0.02
    )
    assert model.noise_ == "proportional"
    errors = model.exponent_stderr_[0, [0, 2]]
    off = np.abs(model.exponents_[0, [0, 2]] - [-1.7554, 1.5617])
    assert (off < 4 * errors).all() and (errors < 0.01).all()


@pytest.mark.parametrize("seed", range(3))
def test_strong_noise_in_logarithms(seed):
    X, y = real_law(0.4, seed, log_normal=True)
    model = fit(X, y, loss="log")
    used = (model.exponents_ != 0).any(axis=0)
    np.testing.assert_array_equal(used, [1, 0, 1, 1, 0])


def test_loss():
    """ "squared" minimises squares, "log" those of logarithms; "auto" is in between."""
    X, y = real_law(0.02, 1)
    found = {
        loss: fit(X, y, loss=loss, max_terms=1) for loss in ("auto", "squared", "log")
    }
    squares = {k: np.sum((m.predict(X) - y) ** 2) for k, m in found.items()}
    logs = {
        k: np.sum((np.log(m.predict(X)) - np.log(y)) ** 2) for k, m in found.items()
    }
    assert squares["squared"] < squares["auto"] and squares["squared"] < squares["log"]
    assert logs["log"] < logs["squared"]
    # The form of a law given, "squared" is at the minimum in coefficient and exponents.
    model = found["squared"]
    h = 1e-4
    for j in np.flatnonzero(~model.is_rational_[0]):
        for step in (-h, h):
            moved = np.exp(np.log(X) @ (model.exponents_[0] + step * np.eye(5)[j]))
            coef = (moved @ y) / (moved @ moved)
            assert np.sum((y - coef * moved) ** 2) >= squares["squared"]
    with pytest.raises(ValueError, match="needs y > 0"):
        fit(X, y - 100, loss="log")


def test_log_loss_of_two_terms():
    E, c = [[2, 0, 1], [0, 1, 0]], [1.0, 4.0]
    X, y = rows(E, c, n=1000)
    y = y * np.exp(0.05 * np.random.default_rng(1).standard_normal(1000))
    assert_law(fit(X, y, loss="log"), E, c, rtol=0.05)


def test_scaling_a_column_changes_only_the_coefficients():
    X, y = rows([[1.37, -1, 0], [0, 0.61, 1]], [2, 3], n=300, noise=0.01)
    factors = np.array([1e-3, 7.0, 1e5])
    one, other = fit(X, y), fit(X * factors, y)
    np.testing.assert_allclose(one.exponents_, other.exponents_, atol=1e-8)
    moved = one.coef_ * np.exp(-one.exponents_ @ np.log(factors))
    np.testing.assert_allclose(other.coef_, moved, rtol=1e-6)


def test_scaling_the_target():
    X, y = rows([[1, 1, -2]], [3.0], noise=0.01)
    base = fit(X, y)
    for factor in (1e-300, 1e-8, 1e200):
        model = fit(X, y * factor)
        np.testing.assert_array_equal(model.exponents_, base.exponents_)
        np.testing.assert_allclose(model.coef_, base.coef_ * factor, rtol=1e-9)


def test_extreme_inputs():
    X, y = rows([[1, -1]], [3.0])
    assert_law(fit(X * 1e300, y), [[1, -1]], [3.0])
    assert_law(fit(X * 1e-300, y), [[1, -1]], [3.0])
    with pytest.raises(ValueError, match=r"beyond the range of floats.*Rescale X"):
        fit(X * [1e300, 1e-300], y)  # the coefficient would be 3e-600


@pytest.mark.parametrize("loss", ["auto", "log"])
def test_extreme_scales_with_noise(loss):
    """Found where floats hold the coefficients, else an error; never a constant."""
    E, c = [[1, 2, 0], [0, 0, 1]], np.array([2.0, 1.0])
    X, y = rows(E, c)
    y = y * (1 + 0.01 * np.random.default_rng(1).standard_normal(200))
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for unit in (1e300, 1e-300):
            assert_law(fit(X, y * unit, loss=loss), E, c * unit, rtol=0.05)
            with pytest.raises(ValueError, match="Rescale"):
                fit(X * unit, y, loss=loss)
        assert_law(fit(X * 1e100, y, loss=loss), E, c * [1e-300, 1e-100], rtol=0.05)
        with pytest.raises(ValueError, match="Rescale"):
            fit(X, y * 1e-310, loss=loss)


def test_order_of_columns():
    X, y = rows([[1, 1, -2, 0], [0, 0, 1, 1]], [3, 2], noise=0.001, n=400)
    order = [2, 0, 3, 1]
    one, other = fit(X, y), fit(X[:, order], y)
    np.testing.assert_array_equal(one.exponents_[:, order], other.exponents_)
    np.testing.assert_allclose(one.coef_, other.coef_)


def test_max_terms():
    E, c = [[1, 0, 0], [0, 2, 0], [0, 0, -1]], [3, 1, 5]
    X, y = rows(E, c, noise=0.001, n=500)
    assert len(fit(X, y, max_terms=2).coef_) == 2
    for most in (3, 6):  # too many are not used
        assert_law(fit(X, y, max_terms=most), E, c, rtol=0.01)


def test_exponents():
    X, y = real_law(0.0)
    real = fit(X, y, exponents="real", max_terms=1)
    assert not real.is_rational_.any()
    np.testing.assert_allclose(real.exponents_[0, 2], 1.5617, atol=1e-6)
    rational = fit(X, y, exponents="rational")
    assert rational.is_rational_.all()
    np.testing.assert_allclose(
        6 * rational.exponents_, np.round(6 * rational.exponents_), atol=1e-12
    )


@pytest.mark.parametrize("exponents", ["auto", "real", "rational"])
def test_exponent_bounds(exponents):
    X, y = rows([[2, -1, 1]], [3.0], noise=0.01)
    bounds = ([-1, -0.4, 0.7], [1.3, 1, 4])
    model = fit(X, y, exponents=exponents, exponent_bounds=bounds)
    assert (model.exponents_ >= bounds[0]).all()
    assert (model.exponents_ <= bounds[1]).all()
    assert fit(X, y, exponents=exponents).exponents_.max() > 1.3
    narrow = fit(X, y, exponents=exponents, exponent_bounds=np.array([0, 1]))
    assert narrow.exponents_.min() >= 0 and narrow.exponents_.max() <= 1
    fixed = fit(X, y, exponents=exponents, exponent_bounds=(1, 1), max_terms=1)
    np.testing.assert_array_equal(fixed.exponents_, [[1, 1, 1]])


@pytest.mark.parametrize(
    "bounds", [(1, 0), (0,), ([0, 0], [1, 1]), (0, np.inf), ("a", "b"), (0, np.nan)]
)
def test_bad_exponent_bounds(bounds):
    X, y = rows([[1, 0, 0]], [1])
    with pytest.raises(ValueError, match=r"exponent_bounds.*finite.*large number"):
        fit(X, y, exponent_bounds=bounds)


def test_l1():
    X, y = rows([[1.5, 0, 0, -0.7]], [3.0], noise=0.02)
    plain = fit(X, y, exponents="real", max_terms=1)
    assert (plain.exponents_ != 0).all()
    sparse = fit(X, y, exponents="real", max_terms=1, l1=0.01)
    np.testing.assert_array_equal(sparse.exponents_ != 0, [[1, 0, 0, 1]])
    assert np.abs(sparse.exponents_).sum() < np.abs(plain.exponents_).sum()

    # The objective as documented is smallest there.
    def objective(model, l1):
        residual = np.mean((y - model.predict(X)) ** 2) / np.mean(y * y)
        return residual + l1 * np.abs(model.exponents_).sum()

    assert objective(sparse, 0.01) < objective(plain, 0.01)
    for bad in ({"exponents": "auto"}, {"exponents": "real", "loss": "log"}):
        with pytest.raises(ValueError, match="l1"):
            fit(X, np.abs(y) + 1, l1=0.1, **bad)


def test_positive_and_the_map_in_the_formula():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 3, (300, 2))
    U = 1 + 9 * (X - X.min(axis=0)) / np.ptp(X, axis=0)
    y = 2 * U[:, 0] / U[:, 1]
    model = fit(X, y)
    assert_law(model, [[1, -1]], [2.0])
    value = eval(model.formula(precision=None), {"x0": X[7, 0], "x1": X[7, 1]})
    assert value == pytest.approx(y[7], rel=1e-12)
    with pytest.raises(ValueError, match=r"positive='raw'.*columns 0, 1 have"):
        fit(X, y, positive="raw")
    X, y = rows([[1, 1]], [1.0])
    assert_law(fit(X, y, positive="raw"), [[1, 1]], [1.0])
    assert "(x0 - " in fit(X, y, positive="map").formula()


@pytest.mark.parametrize("bad", [(0, 1), (2, 1), (1,), (1, np.inf), (1, 2, 3)])
def test_bad_feature_range(bad):
    with pytest.raises(ValueError, match="feature_range"):
        fit(*rows([[1, 1]], [1.0]), feature_range=bad)


def test_clip():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 3, (300, 1))
    y = 3.0 / (1 + 9 * (X[:, 0] - X.min()) / np.ptp(X))
    far = np.array([[-1e3], [1e3]])
    model = fit(X, y)
    np.testing.assert_allclose(model.predict(far), [30.0, 0.03])
    with pytest.raises(ValueError, match=r"column 0.*clip=True"):
        fit(X, y, clip=False).predict(far)
    inside = fit(X, y, clip=False).predict(X)
    np.testing.assert_allclose(inside, y)


def test_signed():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 3))
    X[0, 0] = 0.0
    cases = {
        "one term": ([[3, 1, 2]], [2.0]),
        "sum": ([[2, 0, 0], [1, 1, 0], [0, 0, 0]], [1.0, -3.0, 5.0]),
    }
    for E, c in cases.values():
        y = sum(a * np.prod(X**row, axis=1) for a, row in zip(c, E, strict=True))
        model = fit(X, y, signed=True)
        assert_law(model, E, c)
        np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
        assert model.predict(-2 * X)[1] == pytest.approx(
            sum(a * np.prod((-2 * X[1]) ** row) for a, row in zip(c, E, strict=True))
        )
    with pytest.raises(ValueError, match="signed"):
        fit(X, y, signed=True, positive="map")


def test_signed_leaves_positive_columns_their_real_powers():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-3, 3, 400), rng.uniform(1, 5, 400)])
    y = 2 * X[:, 0] * X[:, 1] ** 1.37
    model = fit(X, y, signed=True)
    np.testing.assert_allclose(model.exponents_, [[1, 1.37]], atol=1e-6)


def test_predicting_where_the_formula_has_no_value():
    X, y = rows([[1.37, -1, 2]], [1.0])
    model = fit(X, y)
    with pytest.raises(ValueError, match="column 0 has negative"):
        model.predict([[-1.0, 1, 1]])
    with pytest.raises(ValueError, match="column 1 has zeros"):
        model.predict([[1.0, 0, 1]])
    with pytest.raises(ValueError, match=r"row 1 .*largest"):
        model.predict([[1.0, 1, 1], [1e300, 1e-300, 1e300]])
    found = model.predict([[0.0, 1, 1], [1, 1, 0], [1, -1, 1], [1, 1, -3]])
    np.testing.assert_allclose(found, [0, 0, -1, 9], atol=1e-12)


def test_no_law_is_a_constant():
    X, y = rows([[1, 1]], [1.0])
    constant = fit(X, np.full(200, -4.0))
    assert_law(constant, [[0, 0]], [-4.0])
    nearest = fit(X, np.full(200, 3.0), exponent_bounds=([1, -3], [2, -0.5]))
    np.testing.assert_array_equal(nearest.exponents_, [[1, -0.5]])
    zero = fit(X, np.zeros(200))
    assert zero.formula() == "0"
    np.testing.assert_array_equal(zero.predict(X), np.zeros(200))
    few = fit(X[:3], y[:3])
    np.testing.assert_array_equal(few.exponents_, [[0, 0]])
    assert few.coef_[0] == pytest.approx(y[:3].mean())
    noise = fit(X, np.random.default_rng(0).standard_normal(200))
    assert np.abs(noise.predict(X)).max() < 1


def test_constant_and_equal_columns():
    X, y = rows([[1, 2]], [3.0])
    X = np.column_stack([X, np.full(200, 7.0), X[:, 0]])
    model = fit(X, y)
    assert model.exponents_[0, 2] == 0
    assert sorted(model.exponents_[0, [0, 3]]) == [0, 1]
    np.testing.assert_allclose(model.predict(X), y)


def test_a_column_of_tiny_range():
    X, y = rows([[1, 1]], [3.0], noise=0.01)
    X[:, 1] = 1 + 1e-9 * X[:, 1]
    model = fit(X, y, exponents="real", max_terms=1)
    assert np.isfinite(model.predict(X)).all()
    error = model.exponent_stderr_[0]
    assert np.isnan(error[1]) or error[1] > 1e3 * error[0]


def test_target_with_zeros_and_of_both_signs():
    E, c = [[1, 0], [0, 1]], [1.0, -1.0]
    X, y = rows(E, c)
    X[:5, 1] = X[:5, 0]
    y = X[:, 0] - X[:, 1]
    assert (y == 0).sum() == 5
    assert_law(fit(X, y), E, c)


def test_weights_are_counts():
    X, y = rows([[1.37, 0.5]], [2.0], noise=0.05, n=60)
    count = np.arange(60) % 4
    weighted = fit(X, y, sample_weight=count)
    repeated = fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_allclose(weighted.exponents_, repeated.exponents_, atol=1e-7)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)
    np.testing.assert_allclose(
        weighted.exponent_stderr_, repeated.exponent_stderr_, rtol=1e-4
    )
    for name in ("rss", "mdl", "n_terms"):
        best = [
            m.mdl_path_[name][np.argmin(m.mdl_path_["mdl"])]
            for m in (weighted, repeated)
        ]
        assert best[0] == pytest.approx(best[1], rel=1e-6)


def test_candidates_and_their_table():
    X, y = real_law(0.02)
    model = fit(X, y)
    table = model.mdl_path_
    assert len(model.candidates_) == len(table["mdl"]) == len(table["rss"])
    assert (np.diff(table["n_terms"]) >= 0).all()
    best = int(np.argmin(table["mdl"]))
    assert model.candidates_[best] == model.formula(precision=None)
    space = {f"x{j}": X[:, j] for j in range(5)}
    for text, rss in zip(model.candidates_, table["rss"], strict=True):
        left = y - eval(text, dict(space))
        assert left @ left == pytest.approx(rss, rel=1e-4)
    one = [
        t for t, k in zip(model.candidates_, table["n_terms"], strict=True) if k == 1
    ]
    assert any("x1" in t for t in one) and any("1.5" in t for t in one)
    assert len(set(model.candidates_)) == len(model.candidates_)


def test_formula_is_exact_and_named():
    import pandas as pd

    X, y = rows([[1.37, -1, 0], [0, 0, 2]], [2.3, -0.1], noise=0.01, n=400)
    frame = pd.DataFrame(X, columns=["mass", "x_1", "t"])
    model = ECSELRegressor(random_state=0).fit(frame, y)
    text = model.formula(precision=None)
    found = eval(text, {name: X[:, j] for j, name in enumerate(frame.columns)})
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)
    assert "mass" in model.formula() and "q" in model.formula(["q", "r", "s"])
    assert "mass" in model.candidates_[-1]
    with pytest.raises(ValueError, match="feature_names"):
        model.formula(["a"])
    spaced = frame.rename(columns={"mass": "my mass"})
    assert "x0" in ECSELRegressor(random_state=0).fit(spaced, y).formula()


def test_sympy_and_latex():
    sympy = pytest.importorskip("sympy")
    X, y = rows([[1, -0.5, 0], [0, 0, 2 / 3]], [2, -3])
    model = fit(X, y)
    x0, x1, x2 = sympy.symbols("x0 x1 x2", positive=True)
    expected = 2 * x0 / sympy.sqrt(x1) - 3 * x2 ** sympy.Rational(2, 3)
    difference = sympy.expand(model.to_sympy() - expected)
    assert all(abs(c) < 1e-12 for c in difference.as_coefficients_dict().values())
    latex = model.to_latex()
    assert r"\frac{2 \, x_{0}}{x_{1}^{0.5}}" in latex and "3 \\, x_{2}^{2/3}" in latex
    assert "\\mathrm{speed}" in model.to_latex(["speed", "b", "c"])
    mapped = fit(X, y, positive="map", max_terms=1)
    value = mapped.to_sympy().subs(
        dict(zip(sympy.symbols("x0 x1 x2", real=True), X[3], strict=True))
    )
    assert float(value) == pytest.approx(mapped.predict(X[3:4])[0], rel=1e-9)
    assert re.search(
        r"\\left\(2\.\d+ \(x_\{1\} - 0\.58\d+\)\\right\)", mapped.to_latex()
    )


def test_sympy_is_optional():
    model = fit(*rows([[1, 1]], [1.0]))
    with mock.patch.dict(sys.modules, {"sympy": None}):
        with pytest.raises(ImportError, match=r"skmethods\[symbolic\]"):
            model.to_sympy()
        assert model.to_latex() == "x_{0} \\, x_{1}"


def test_max_iter():
    E, c = random_law(3, 6, np.random.default_rng(0))
    X, y = rows(E, c, n=300, noise=0.01)
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        short = fit(X, y, max_iter=5)
    assert short.n_iter_ == 5
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        fit(X, y, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(X, y).n_iter_ > 5


def test_n_init():
    """More starts take other steps, find other laws, and leave no more over."""
    E, c = random_law(4, 6, np.random.default_rng(1))
    X, y = rows(E, c, n=300, noise=0.02)
    one, many = (fit(X, y, n_init=n) for n in (1, 12))
    assert one.n_iter_ != many.n_iter_
    assert len(many.candidates_) != len(one.candidates_)
    assert many.mdl_path_["mdl"].min() <= one.mdl_path_["mdl"].min() + 1e-6


def test_random_state():
    """It governs the starts: same seed, same steps; other seeds take other ways."""
    E, c = random_law(4, 6, np.random.default_rng(1))
    X, y = rows(E, c, n=300, noise=0.01)
    models = [ECSELRegressor(random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    assert np.array_equal(models[0].exponents_, models[1].exponents_)
    assert models[0].candidates_ == models[1].candidates_
    assert models[0].candidates_ != models[2].candidates_


def test_many_rows():
    """The form comes from a part of the rows, the numbers from all of them."""
    E, c = [[1, 2, 0], [0, 0, -1]], [3.0, 5.0]
    X, y = rows(E, c, n=60_000, noise=0.01)
    model = fit(X, y)
    assert_law(model, E, c, rtol=1e-2)
    A = np.column_stack([X[:, 0] * X[:, 1] ** 2, 1 / X[:, 2]])
    best = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(np.sort(model.coef_), np.sort(best), rtol=1e-9)


def test_parameters_after_fit_do_not_change_the_predictions():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 3, (300, 1))
    y = np.exp(X[:, 0])
    model = fit(X, y)
    before = model.predict(X)
    model.set_params(feature_range=(1, 2), clip=False, positive="raw")
    np.testing.assert_array_equal(model.predict(X), before)
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), before)


def test_nothing_is_lost_in_print():
    X, y = rows([[1, 1]], [math.pi * 1e-7])
    model = fit(X, y)
    assert float(model.formula(precision=None).split("*")[0]) == model.coef_[0]


NARROW = {
    "years": (np.arange(1990, 2025.0)[:, None], lambda x: 100 * 1.05 ** (x - 1990)),
    "kelvin": (
        np.random.default_rng(0).uniform(290, 310, (100, 1)),
        lambda x: np.exp(-20000 / x),
    ),
}


@pytest.mark.parametrize("exponents", ["auto", "real", "rational"])
@pytest.mark.parametrize("name", NARROW)
def test_columns_that_hardly_vary(name, exponents):
    """Their terms are all alike, and the covariance of the exponents is noise."""
    X, law = NARROW[name]
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        model = fit(X, law(X[:, 0]), exponents=exponents)
        assert np.isfinite(model.predict(X)).all()


def test_many_narrow_columns():
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for seed in range(30):
            rng = np.random.default_rng(seed)
            n, m = int(rng.integers(8, 80)), int(rng.integers(1, 3))
            width = 10.0 ** rng.uniform(-14, -1, m)
            t = rng.uniform(-1, 1, (n, m))
            y = np.exp(t @ rng.uniform(-4, 4, m))
            X = (1 + width * t) * 10.0 ** rng.uniform(-3, 4, m)
            assert np.isfinite(fit(X, y, n_init=3).predict(X)).all()


@pytest.mark.parametrize(
    "params",
    [
        {"exponents": "real"},
        {"exponents": "real", "l1": 0.01},
        {"exponents": "real", "exponent_bounds": (0.2, 1.8)},
        {"exponents": "rational", "exponent_bounds": (-0.5, 2.5)},
        {"loss": "log"},
    ],
)
def test_signed_columns_have_integer_exponents(params):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-3, 3, (200, 2)), rng.uniform(1, 5, 200)])
    y = X[:, 0] * X[:, 1] ** 2 * X[:, 2] ** 0.7 + 0.01 * rng.standard_normal(200)
    if params.get("loss") == "log":
        y = X[:, 1] ** 2 * X[:, 2] ** 0.7 * (1 + 0.01 * rng.standard_normal(200))
    model = fit(X, y, signed=True, **params)
    whole = model.exponents_[:, :2]
    np.testing.assert_array_equal(whole, np.round(whole))
    assert np.isfinite(model.predict(X)).all()
    if params == {"exponents": "real"}:
        np.testing.assert_allclose(model.exponents_[0], [1, 2, 0.7], atol=0.01)
        np.testing.assert_array_equal(model.is_rational_[0], [True, True, False])


def test_signed_needs_an_integer_in_the_box():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-3, 3, 50), rng.uniform(1, 5, 50)])
    y = X[:, 0] * X[:, 1]
    with pytest.raises(ValueError, match=r"column 0 has.*exponent_bounds"):
        fit(X, y, signed=True, exponent_bounds=(0.2, 0.8))
    X[0, 0] = 0
    with pytest.raises(ValueError, match=r"column 0 has.*exponent_bounds"):
        fit(X, y, signed=True, exponent_bounds=(-2, -1))


def test_l1_with_many_rows():
    """The numbers of all rows are penalised too."""
    X, y = rows([[1.5, 0, -0.7]], [3.0], n=6000, noise=0.02)
    options = {"exponents": "real", "max_terms": 1}
    plain, sparse = fit(X, y, **options), fit(X, y, l1=0.01, **options)
    assert sparse.exponents_[0, 1] == 0
    assert np.abs(sparse.exponents_).sum() < np.abs(plain.exponents_).sum() - 0.01


@pytest.mark.parametrize("seed", [9, 0, 1])
def test_weights_are_repeated_rows_in_any_order(seed):
    """To the last bit, whatever the description lengths of near ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 300))
    X = rng.uniform(1, 5, (n, 3))
    y = 3 * X[:, 0] ** 1.37 / X[:, 1] ** 2 * (1 + 0.01 * rng.standard_normal(n))
    y += X[:, 2]
    w = rng.integers(0, 4, n)
    order = rng.permutation(w.sum())
    one = fit(X, y, w)
    other = fit(np.repeat(X, w, axis=0)[order], np.repeat(y, w)[order])
    assert one.candidates_ == other.candidates_
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.exponent_stderr_, other.exponent_stderr_)
    with pytest.raises(ValueError, match="sample_weight sums"):
        fit(X, y, np.full(n, 1e20))


def law_of_three(seed=0):
    X = np.random.default_rng(seed).uniform(1, 5, (200, 3))
    return X, 2 * X[:, 0] * X[:, 1] ** 2 + X[:, 2]


@pytest.mark.parametrize("factor", [1.0, 3.7])
def test_repeated_columns_are_searched_once(factor):
    X, y = law_of_three()
    model = fit(np.column_stack([X, factor * X[:, :2]]), y)
    assert_law(model, [[1, 2, 0, 0, 0], [0, 0, 1, 0, 0]], [2, 1])
    # Where the first one may not have the exponent, the second one does.
    bounds = ([-2] * 5, [0, 2, 2, 2, 2])
    model = fit(np.column_stack([X, X[:, :2]]), y, exponent_bounds=bounds)
    assert_law(model, [[0, 2, 0, 1, 0], [0, 0, 1, 0, 0]], [2, 1])


def test_powers_of_columns_do_not_lengthen_the_law():
    X, y = law_of_three()
    model = fit(np.column_stack([X, X[:, 0] ** 2]), y)
    assert_law(model, [[1, 2, 0, 0], [0, 0, 1, 0]], [2, 1])


def test_many_decades_with_proportional_noise():
    X = 10 ** np.random.default_rng(0).uniform(-8, 8, (300, 2))
    y = X[:, 0] * np.sqrt(X[:, 1]) + 2 * X[:, 0]
    y *= 1 + 0.01 * np.random.default_rng(1).standard_normal(300)
    model = fit(X, y)
    assert_law(model, [[1, 0.5], [1, 0]], [1, 2], rtol=0.01)
    assert model.noise_ == "proportional"


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_constant_columns_do_not_decide_about_the_map(value):
    X, y = law_of_three()
    X = np.column_stack([X, np.full(200, value)])
    for positive in ("auto", "raw"):
        model = fit(X, y, positive=positive)
        assert_law(model, [[1, 2, 0, 0], [0, 0, 1, 0]], [2, 1])
        np.testing.assert_allclose(model.predict(X), y)
    assert_law(fit(X, y, signed=True), [[1, 2, 0, 0], [0, 0, 1, 0]], [2, 1])
    with pytest.raises(ValueError, match="column 3 has"):
        fit(X, y, positive="raw", exponent_bounds=(0.5, 2))


def test_a_range_beyond_floats_is_refused():
    X = np.array([[-1.7e308], [1.7e308], [0.0], [1.0]])
    with pytest.raises(ValueError, match=r"column 0 has a range.*Rescale"):
        fit(X, np.arange(4.0))


def test_feature_range_as_an_array():
    X, y = law_of_three()
    one, other = (
        fit(X, y, positive="map", max_terms=1, feature_range=r)
        for r in ((1, 3), np.array([1, 3]))
    )
    assert one.formula() == other.formula() != fit(X, y, positive="map").formula()


def test_texts_check_names_and_digits():
    model = fit(*law_of_three())
    for write in (model.formula, model.to_latex):
        with pytest.raises(TypeError, match="precision"):
            write(precision=2.5)
        with pytest.raises(ValueError, match="precision"):
            write(precision=0)
        with pytest.raises(ValueError, match="more than once"):
            write(["a", "a", "b"])
        with pytest.raises(TypeError, match="feature_names"):
            write("abc")


def test_sympy_names():
    sympy = pytest.importorskip("sympy")
    model = fit(*law_of_three())
    names = {s.name for s in model.to_sympy(["a", "b", "c"]).free_symbols}
    assert names == {"a", "b", "c"}
    a, b, c = sympy.symbols("a b c", positive=True)
    value = model.to_sympy(["a", "b", "c"]).subs({a: 2, b: 3, c: 5})
    assert float(value) == pytest.approx(41)
    with pytest.raises(ValueError, match="feature_names"):
        model.to_sympy(["a"])


# -- explanations ----------------------------------------------------------------------


def explained(kind):
    """Models that are no exact law: raw, mapped and signed columns."""
    rng = np.random.default_rng(3)
    X, y = law_of_three()
    y = y + 0.1 * rng.standard_normal(200)
    if kind == "signed":
        X = X * [1, -1, 1]
        y = 2 * X[:, 0] ** 1.3 * X[:, 1] ** 2 - X[:, 1] + 0.1 * rng.standard_normal(200)
    params = {"map": {"positive": "map"}, "signed": {"signed": True}}
    return X, fit(X, y, **params.get(kind, {}))


@pytest.mark.parametrize("kind", ["raw", "map", "signed"])
def test_log_gradient_and_elasticity_by_finite_differences(kind):
    X, model = explained(kind)
    X = X[:20]
    gradient, elasticity = model.log_gradient(X), model.elasticity(X)
    h = 1e-6
    for j in range(3):
        # A step of log u, in the units of X.
        if kind == "map":
            u, slope = model._map(X)[:, j], model._map.slope[j]
            step = h * u / slope
        else:
            step = h * X[:, j]
        move = step[:, None] * np.eye(3)[j]
        by_hand = (model.predict(X + move) - model.predict(X - move)) / (2 * h)
        np.testing.assert_allclose(gradient[:, j], by_hand, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(elasticity * model.predict(X)[:, None], gradient)


@pytest.mark.parametrize("kind", ["raw", "map"])
def test_attributions_sum_to_the_difference(kind):
    X, model = explained(kind)
    shares = model.attribute(X)
    base = model.predict(model.baseline_[None])
    np.testing.assert_allclose(shares.sum(axis=1), model.predict(X) - base, atol=1e-9)
    shares = model.attribute(X, baseline=X[3])
    np.testing.assert_allclose(shares[3], 0, atol=1e-12)
    base = model.predict(X[3:4])
    np.testing.assert_allclose(shares.sum(axis=1), model.predict(X) - base, atol=1e-9)
    # One integral by a sum over the path in logarithms.
    U = X if kind == "raw" else model._map(X)
    t = (np.arange(2000) + 0.5)[:, None] / 2000
    path = np.exp((1 - t) * np.log(U[3]) + t * np.log(U[5]))
    if kind == "map":
        path = model._map.minimum + (path - model._map.low) / model._map.slope
    by_hand = model.log_gradient(path).mean(axis=0) * np.log(U[5] / U[3])
    np.testing.assert_allclose(shares[5], by_hand, rtol=1e-5, atol=1e-6)
    first = model.attribute(X, baseline=X[3], kind="first_order")
    gradient = model.log_gradient(X[3:4])
    np.testing.assert_allclose(first, gradient * np.log(U / U[3]), atol=1e-9)


def test_the_baseline_is_the_weighted_geometric_mean():
    X, y = law_of_three()
    w = np.arange(200) % 3
    model = fit(X, y, w)
    expected = np.exp(np.average(np.log(X), axis=0, weights=w))
    np.testing.assert_allclose(model.baseline_, expected)
    mapped = fit(X, y, w, positive="map")
    expected = np.exp(np.average(np.log(mapped._map(X)), axis=0, weights=w))
    np.testing.assert_allclose(mapped._map(mapped.baseline_), expected)


def test_attribution_needs_logarithms():
    X, model = explained("signed")
    assert np.isnan(model.baseline_[1])
    with pytest.raises(ValueError, match=r"X, column 1 has.*no logarithm"):
        model.attribute(X)
    with pytest.raises(ValueError, match=r"baseline, column 1 has.*no logarithm"):
        model.attribute(np.abs(X))
    ones = np.ones(3)
    shares = model.attribute(np.abs(X), baseline=ones)
    difference = model.predict(np.abs(X)) - model.predict(ones[None])
    np.testing.assert_allclose(shares.sum(axis=1), difference)
    for bad in ("median", [1.0, 2.0]):
        with pytest.raises(ValueError, match="baseline"):
            model.attribute(np.abs(X), baseline=bad)
    with pytest.raises(ValueError, match="kind"):
        model.attribute(np.abs(X), baseline=ones, kind="shapley")


@pytest.mark.parametrize("kind", ["importance", "attribution", "response"])
def test_the_display_takes_laws(kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    from skmethods.plotting import SignomialDisplay

    X, model = explained("raw")
    options = {"attribution": {"row": 3}, "response": {"feature": 1}}
    shown = SignomialDisplay.from_estimator(
        model, X, kind=kind, **options.get(kind, {})
    )
    if kind == "importance":
        expected = np.abs(model.log_gradient(X)).mean(axis=0)
        np.testing.assert_allclose(shown.data.size, expected)
    if kind == "attribution":
        np.testing.assert_allclose(shown.data.contributions, model.attribute(X)[3])
    plt.close("all")


def test_a_law_of_next_to_nothing():
    """A constant law that is zero up to rounding has no noise proportional to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(np.zeros((9, 1)), np.linspace(-1, 1, 9))
    assert model.noise_ == "additive"
    assert np.abs(model.predict(np.zeros((1, 1)))).max() < 1e-12
