"""Laws: the text, the function and the exponents of each say the same."""

import ast
import inspect
import operator
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from skmethods.datasets import (
    list_physical_laws,
    make_physical_law,
    make_signomial,
)
from skmethods.datasets._laws_table import TABLE
from skmethods.symbolic._parse import parse_formula

_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
_FUNCTIONS = {"exp": np.exp, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos}


def read(text, columns):
    """The values of a formula, from its syntax tree."""

    def value(node):
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return columns[node.id]
        if isinstance(node, ast.UnaryOp):
            return _OPERATIONS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp):
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        assert isinstance(node, ast.Call) and len(node.args) == 1
        return _FUNCTIONS[node.func.id](value(node.args[0]))

    return value(ast.parse(text, mode="eval").body)


def from_terms(X, exponents, coef):
    """A signomial, term by term."""
    y = np.zeros(len(X))
    for c, row in zip(coef, exponents, strict=True):
        y += c * np.exp(np.log(X) @ row)
    return y


# -- physical laws ---------------------------------------------------------------------


@pytest.mark.parametrize("name", list_physical_laws())
def test_text_function_and_terms_agree(name):
    law = make_physical_law(name, 400, random_state=3)
    columns = dict(zip(law.feature_names, law.data.T, strict=True))
    assert_allclose(read(law.formula, columns | {"pi": np.pi}), law.target, rtol=1e-12)
    if law.exponents is not None:
        # A difference of terms is compared with the size of the terms.
        size = from_terms(law.data, law.exponents, np.abs(law.coef))
        error = from_terms(law.data, law.exponents, law.coef) - law.target
        assert np.max(np.abs(error) / size) < 1e-13


@pytest.mark.parametrize("name", list_physical_laws())
def test_the_parser_of_the_library_reads_it(name):
    law = make_physical_law(name, 400, random_state=4)
    tape = parse_formula(law.formula, feature_names=law.feature_names)
    assert_allclose(tape.evaluate(law.data), law.target, rtol=1e-12)


@pytest.mark.parametrize("name", list_physical_laws())
def test_form_of_the_bunch(name):
    law = make_physical_law(name, 2000, random_state=0)
    n_features = len(law.feature_names)
    assert list(inspect.signature(TABLE[name].function).parameters) == law.feature_names
    assert law.data.shape == (2000, n_features)
    assert law.data.dtype == law.target.dtype == np.float64
    assert np.isfinite(law.target).all()
    assert np.ptp(law.target) > 0
    low, high = law.ranges.T
    assert (low > 0).all()
    for j in range(n_features):
        uniform = (law.data[:, j] - low[j]) / (high[j] - low[j])
        assert kstest(uniform, "uniform").pvalue > 1e-4
    assert law.target_name not in law.feature_names
    assert law.description.endswith(".")
    read_names = {
        node.id for node in ast.walk(ast.parse(law.formula)) if type(node) is ast.Name
    }
    assert read_names - {"pi"} - set(_FUNCTIONS) == set(law.feature_names)
    if law.exponents is not None:
        assert law.exponents.shape == (len(law.coef), n_features)
        assert len(np.unique(law.exponents, axis=0)) == len(law.coef)
    pickle.loads(pickle.dumps(law))


@pytest.mark.parametrize("name", list_physical_laws("other"))
def test_every_variable_counts(name):
    """Permuting one column changes the values; there are no dummies."""
    law = make_physical_law(name, 200, random_state=1)
    for j in range(law.data.shape[1]):
        X = law.data.copy()
        X[:, j] = X[::-1, j]
        assert not np.allclose(TABLE[name].function(*X.T), law.target, rtol=1e-3)


def test_kinds():
    signomials, others = list_physical_laws("signomial"), list_physical_laws("other")
    assert list_physical_laws() == signomials + others
    assert signomials == sorted(signomials)
    assert others == sorted(others)
    assert len(signomials) == 20
    assert len(others) == 10
    assert {len(TABLE[name].terms) for name in signomials} == {1, 2, 3}
    for name in others:
        law = make_physical_law(name, 1, random_state=0)
        assert law.exponents is None
        assert law.coef is None


def test_known_values():
    """Numbers that a textbook has."""

    def at(name, *values):
        return TABLE[name].function(*map(np.float64, values))

    # Ten metres of water are about one atmosphere.
    assert at("bernoulli", 0, 1000, 0, 9.81, 10.33) == pytest.approx(101325, rel=1e-3)
    # The Earth's year from the Sun's mass; a pendulum of one metre beats seconds.
    year = at("kepler_third", 1.496e11, 6.674e-11, 1.989e30)
    assert year / 86400 == pytest.approx(365.25, rel=1e-3)
    assert at("pendulum_period", 1, 9.81) == pytest.approx(2.006, rel=1e-3)
    # One mole at 0 degrees Celsius in 22.4 litres.
    assert at("ideal_gas", 1, 8.314, 273.15, 0.022414) == pytest.approx(101325, 1e-3)
    # Proton and electron at the Bohr radius: 82 nN; and 27.2 eV at rest in the orbit.
    charge, epsilon, bohr = 1.602e-19, 8.854e-12, 5.292e-11
    assert at("coulomb_force", charge, charge, epsilon, bohr) == pytest.approx(
        8.24e-8, rel=2e-3
    )
    # 13.6 eV electron: wavelength is the circumference of the first orbit.
    energy = 13.606 * charge
    assert at("de_broglie", 6.626e-34, 9.109e-31, energy) == pytest.approx(
        2 * np.pi * bohr, rel=1e-3
    )
    assert at("lorentz_factor", 0.6, 1) == pytest.approx(1.25)
    assert at("relativistic_energy", 3, 1, 4) == 5
    assert at("lennard_jones", 1, 1, 2 ** (1 / 6)) == pytest.approx(-1)  # the minimum
    assert at("thin_lens", 0.5, 0.5) == 4  # dioptres
    assert at("gaussian", 0, 0, 1) == pytest.approx(0.39894, rel=1e-4)
    # Wien: the spectrum has its maximum at f = 2.8214 T.
    f = np.linspace(2.5, 3.2, 70001)
    peak = f[TABLE["planck_radiation"].function(1.0, f, 1.0, 1.0).argmax()]
    assert peak == pytest.approx(2.82144, abs=1e-4)
    # Van der Waals at the critical point: V = 3 b, T = 8 a / (27 b), p = a / (27 b^2).
    a, b = 2.0, 0.5
    assert at("van_der_waals", 1, 8 * a / (27 * b), 3 * b, a, b) == pytest.approx(
        a / (27 * b**2)
    )


def test_return_X_y():
    law = make_physical_law("snell", 20, noise=0.1, random_state=0)
    X, y = make_physical_law("snell", 20, noise=0.1, return_X_y=True, random_state=0)
    assert_array_equal(X, law.data)
    assert_array_equal(y, law.target)


def test_a_bunch_is_the_callers():
    """Writing into it does not change the next one."""
    first = make_physical_law("thin_lens", 5, random_state=0)
    expected = first.exponents.copy()
    first.exponents[:] = 0
    first.feature_names.clear()
    again = make_physical_law("thin_lens", 5, random_state=0)
    assert_array_equal(again.exponents, expected)
    assert again.feature_names == ["s_object", "s_image"]


def test_unknown_name_has_suggestions():
    with pytest.raises(ValueError, match="Did you mean 'kepler_third'"):
        make_physical_law("Kepler_3rd")
    with pytest.raises(ValueError, match=r"list_physical_laws\(\) gives all names"):
        make_physical_law("xyzzy")


# -- noise -----------------------------------------------------------------------------


def _draw(source, **kw):
    if source == "signomial":
        return make_signomial(40_000, 3, random_state=5, **kw)
    return make_physical_law(
        "effective_potential", 40_000, return_X_y=True, random_state=5, **kw
    )


@pytest.mark.parametrize("source", ["signomial", "physical"])
def test_additive_noise(source):
    X, clean = _draw(source)
    X2, y = _draw(source, noise=0.3)
    assert_array_equal(X, X2)
    z = (y - clean) / (0.3 * np.sqrt(np.mean(clean**2)))
    assert kstest(z, "norm").pvalue > 1e-4


@pytest.mark.parametrize("source", ["signomial", "physical"])
def test_multiplicative_noise(source):
    X, clean = _draw(source)
    X2, y = _draw(source, noise=0.5, noise_kind="multiplicative")
    assert_array_equal(X, X2)
    factor = y / clean
    assert (factor > 0).all()
    assert np.median(factor) == pytest.approx(1, abs=0.02)
    assert factor.std() / factor.mean() == pytest.approx(0.5, abs=0.02)
    assert kstest(np.log(factor) / np.log(factor).std(), "norm").pvalue > 1e-4


# -- random signomials -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["integer", "half", "real"])
@pytest.mark.parametrize("n_terms", [1, 2, 4])
def test_the_law_is_the_data(kind, n_terms):
    for seed in range(10):
        X, y, law = make_signomial(
            50, 4, n_terms, exponent_kind=kind, return_law=True, random_state=seed
        )
        size = from_terms(X, law.exponents, np.abs(law.coef))
        assert np.max(np.abs(from_terms(X, law.exponents, law.coef) - y) / size) < 1e-13
        columns = {f"x{j}": X[:, j] for j in range(4)}
        assert np.max(np.abs(read(law.formula, columns) - y) / size) < 1e-13
        assert law.exponents.shape == (n_terms, 4)
        assert len(np.unique(law.exponents, axis=0)) == n_terms
        assert (law.exponents != 0).any(axis=1).all()
        assert_array_equal(law.coef, [float(f"{c:.3g}") for c in law.coef])


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [("integer", [-2, -1, 0, 1, 2]), ("half", np.arange(-5, 6) / 2)],
)
def test_exponents_of_a_grid(kind, allowed):
    law = make_signomial(
        1,
        200,
        20,
        exponent_kind=kind,
        max_exponent=2.6,
        return_law=True,
        random_state=0,
    )[2]
    found, counts = np.unique(law.exponents, return_counts=True)
    assert_array_equal(found, allowed)
    inner = counts[np.asarray(allowed) != 0]
    assert inner.min() > 0.7 * inner.mean()  # evenly


def test_real_exponents():
    law = make_signomial(
        1,
        100,
        40,
        exponent_kind="real",
        max_exponent=1.5,
        return_law=True,
        random_state=0,
    )[2]
    size = np.abs(law.exponents[law.exponents != 0])
    assert kstest((size - 0.25) / 1.25, "uniform").pvalue > 1e-4
    assert np.mean(law.exponents[law.exponents != 0] > 0) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("sparsity", [0, 0.3, 0.9])
def test_sparsity(sparsity):
    law = make_signomial(
        1, 200, 20, sparsity=sparsity, return_law=True, random_state=0
    )[2]
    assert np.mean(law.exponents == 0) == pytest.approx(sparsity, abs=0.03)


def test_one_feature_per_term_at_least():
    law = make_signomial(1, 5, 8, sparsity=1, return_law=True, random_state=0)[2]
    assert_array_equal((law.exponents != 0).sum(axis=1), 1)


@pytest.mark.parametrize("kind", ["integer", "half", "real"])
@pytest.mark.parametrize(("low", "high"), [(1, 5), (0.2, 0.7), (3, 4)])
def test_no_term_hides(kind, low, high):
    """Each has a root mean square of 0.5 to 2; half exponents include -1/2, whose
    square integrates to a logarithm."""
    seen = set()
    for seed in range(20):
        X, _, law = make_signomial(
            20_000,
            2,
            3,
            low=low,
            high=high,
            exponent_kind=kind,
            return_law=True,
            random_state=seed,
        )
        assert X.min() >= low
        assert X.max() <= high
        assert np.ptp(X) > 0.99 * (high - low)
        for c, row in zip(law.coef, law.exponents, strict=True):
            rms = np.sqrt(np.mean(from_terms(X, [row], [c]) ** 2))
            assert 0.5 * 0.95 < rms < 2 * 1.05
        seen |= set(law.exponents.ravel())
    assert kind != "half" or -0.5 in seen


def test_positive():
    signs, laws = [], []
    for seed in range(30):
        laws.append(make_signomial(20, return_law=True, random_state=seed))
        X, y, law = make_signomial(
            20, positive=True, return_law=True, random_state=seed
        )
        assert (y > 0).all()
        assert_array_equal(law.coef, np.abs(laws[-1][2].coef))
        assert_array_equal(X, laws[-1][0])
        signs += list(laws[-1][2].coef > 0)
    assert 0.3 < np.mean(signs) < 0.7


def test_sizes_and_random_state():
    state = np.random.get_state()[1].copy()
    X, y = make_signomial(30, 7, 3, noise=0.1, random_state=0)
    assert X.shape == (30, 7)
    assert y.shape == (30,)
    same = make_signomial(30, 7, 3, noise=0.1, random_state=np.random.RandomState(0))
    assert_array_equal(X, same[0])
    assert_array_equal(y, same[1])
    other = make_signomial(30, 7, 3, noise=0.1, random_state=1)
    assert not np.array_equal(X, other[0])
    first = make_physical_law("bragg", noise=0.1, random_state=0)
    assert_array_equal(
        first.target, make_physical_law("bragg", noise=0.1, random_state=0).target
    )
    second = make_physical_law("bragg", noise=0.1, random_state=1)
    assert not np.array_equal(first.data, second.data)
    assert_array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"low": 5.0}, "low must be less than high"),
        ({"low": 0.0}, "'low' parameter"),
        ({"high": -1}, "'high' parameter"),
        ({"n_terms": 10, "n_features": 1}, "No 10 distinct terms"),
        ({"n_terms": 5, "n_features": 2, "max_exponent": 1, "sparsity": 1}, "distinct"),
        ({"max_exponent": 0.5}, "must be at least 1.0"),
        ({"max_exponent": 0.4, "exponent_kind": "half"}, "must be at least 0.5"),
        ({"max_exponent": 0.2, "exponent_kind": "real"}, "must be at least 0.25"),
        ({"max_exponent": 21}, "'max_exponent' parameter"),
        ({"low": 1e-200, "max_exponent": 9}, "overflow"),
        ({"high": 1e200}, "overflow"),
        ({"noise": -0.1}, "'noise' parameter"),
        ({"noise_kind": "other"}, "'noise_kind' parameter"),
        ({"sparsity": 1.1}, "'sparsity' parameter"),
        ({"n_samples": 0}, "'n_samples' parameter"),
        ({"random_state": np.random.default_rng(0)}, "'random_state' parameter"),
    ],
)
def test_bad_parameters(bad, match):
    with pytest.raises(ValueError, match=match):
        make_signomial(**{"random_state": 0, **bad})


@pytest.mark.parametrize(
    "bad", [{"n_samples": 0}, {"noise": -1}, {"noise_kind": "x"}, {"random_state": "a"}]
)
def test_physical_bad_parameters(bad):
    with pytest.raises(ValueError, match="parameter of make_physical_law"):
        make_physical_law("bragg", **bad)
    with pytest.raises(ValueError, match="parameter of list_physical_laws"):
        list_physical_laws("none")
