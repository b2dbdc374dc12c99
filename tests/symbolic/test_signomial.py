"""How signomials and the map to positive inputs are written."""

import numpy as np
import pytest

from skmethods import effective_information
from skmethods.symbolic._signomial import (
    PositiveMap,
    check_names,
    check_precision,
    latex_name,
    sympy_signomial,
    write_signomial,
)


def columns(offsets, n=50, seed=0):
    X = np.random.RandomState(seed).uniform(0, 3, (n, len(offsets)))
    return X + np.array(offsets)


@pytest.mark.parametrize("offset", [0.0, -7.0, 2000.0, -1e5, 1e9, -1e12])
def test_the_text_of_the_map_gives_its_values(offset):
    X = columns([offset])
    positive = PositiveMap.fit(X, (1, 10))
    [text] = positive.write(["x"])
    values = eval(text, {"x": X[:, 0]})  # ours, not a user's
    np.testing.assert_allclose(values, positive(X)[:, 0], rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, -7.0, 2000.0, -1e5, 1e9])
@pytest.mark.parametrize("precision", [2, 3, 5])
def test_rounded_numbers_keep_the_map(offset, precision):
    """The shift gets as many digits more as the columns are far from 0."""
    X = columns([offset])
    positive = PositiveMap.fit(X, (1, 10))
    [text] = positive.write(["x"], precision)
    values = eval(text, {"x": X[:, 0]})
    error = np.abs(values / positive(X)[:, 0] - 1).max()
    assert error < 20 * 10.0**-precision


def test_no_training_row_cancels_in_the_text():
    """The smallest value of a column is no exact zero anywhere in the formula."""
    X = columns([-7.0, 2000.0])
    positive = PositiveMap.fit(X, (1, 10))
    text = write_signomial(
        np.array([[1.0, -0.5]]), np.array([2.0]), names=positive.write(["x0", "x1"])
    )
    assert effective_information(text, X) < 4


def test_latex_and_sympy_of_the_map_agree_with_its_text():
    sympy = pytest.importorskip("sympy")
    X = columns([5.0, 1e9])
    positive = PositiveMap.fit(X, (1, 10))
    symbols = sympy.symbols("a b")
    for j, expr in enumerate(positive.to_sympy(sympy, symbols)):
        value = float(expr.subs(symbols[j], sympy.Float(X[3, j], 30)))
        assert value == pytest.approx(positive(X)[3, j], rel=1e-9)
    near, far = positive.write_latex(["a", "b"], 4)
    assert near.startswith(r"\left(3.0") and "(a - 4." in near
    assert far.startswith(r"\left(1 + 3.") and "(b - 100000000" in far


def test_precision_is_a_number_of_digits():
    assert check_precision(None) is None
    assert check_precision(1) == 1 and check_precision(np.int64(3)) == 3
    for wrong in (1.5, "3", True, [3]):
        with pytest.raises(TypeError, match="precision must be a whole number"):
            check_precision(wrong)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="precision must be at least 1"):
            check_precision(wrong)


def test_names_are_a_list_of_different_strings():
    assert check_names(np.array(["a", "b c"]), 2) == ["a", "b c"]
    assert check_names(("_1", "x"), None) == ["_1", "x"]
    for wrong in ("ab", {"a", "b"}, {"a": 1, "b": 2}, 3, b"ab"):
        with pytest.raises(TypeError, match="feature_names must be a list of names"):
            check_names(wrong, 2)
    with pytest.raises(TypeError, match="must be strings; got 3, which is int"):
        check_names(["a", 3], 2)
    with pytest.raises(ValueError, match="2 names, but X has 3 columns"):
        check_names(["a", "b"], 3)
    with pytest.raises(ValueError, match="'u' comes more than once"):
        check_names(["u", "u"], 2)
    with pytest.raises(ValueError, match="empty name, ' '"):
        check_names(["a", " "], 2)


def test_latex_keeps_the_spaces_of_names():
    assert latex_name("mean concave points") == r"\mathrm{mean\ concave\ points}"
    assert latex_name("x12") == "x_{12}" and latex_name("a_b") == r"\mathrm{a\_b}"


def test_sympy_of_many_columns_is_one_product():
    """The cost is that of the factors: no partial product is built."""
    sympy = pytest.importorskip("sympy")
    made = []

    class Counting:
        """sympy, which notes how many factors each product has."""

        Integer, Float, Rational = sympy.Integer, sympy.Float, sympy.Rational
        Add = sympy.Add

        @staticmethod
        def Mul(*factors):
            made.append(len(factors))
            return sympy.Mul(*factors)

    rng = np.random.default_rng(0)
    symbols = sympy.symbols("x0:60")
    exponents = rng.normal(size=(2, 60))
    expr = sympy_signomial(
        Counting, exponents, np.array([2.0, -0.5]), 1.5, bases=symbols
    )
    assert made == [61, 61]
    x = rng.uniform(0.5, 2, size=60)
    value = 1.5 + 2.0 * np.prod(x ** exponents[0]) - 0.5 * np.prod(x ** exponents[1])
    found = expr.subs(dict(zip(symbols, x, strict=True)))
    assert float(found) == pytest.approx(value, rel=1e-9)
    slope = float(sympy.diff(expr, symbols[3]).subs(dict(zip(symbols, x, strict=True))))
    h = np.eye(60)[3] * 1e-6

    def at(x):
        return 2.0 * np.prod(x ** exponents[0]) - 0.5 * np.prod(x ** exponents[1])

    assert slope == pytest.approx((at(x + h) - at(x - h)) / 2e-6, rel=1e-5)
