"""Joined constants leave the values of a formula as they are."""

import numpy as np
import pytest

from skmethods.symbolic._parse import parse_formula
from skmethods.symbolic._simplify import core, parts, scaled, write
from skmethods.symbolic._tape import Tape

UNARY = ["neg", "exp", "sin", "log", "abs", ("powc", 2.0), ("powc", 0.5), ("powc", 3.0)]
UNARY += [("powc", -1.0), ("powc", -0.5)]
BINARY = ["add", "sub", "mul", "div", "mul", "div", "max", "aq", "pow"]


def random_tape(rng, depth):
    def nodes(depth):
        kind = rng.random()
        if depth == 0 or kind < 0.2:
            if rng.random() < 0.6:
                return [("x", int(rng.integers(3)))]
            return [("const", float(np.round(rng.normal(), 2)))]
        if kind < 0.45:
            op = UNARY[rng.integers(len(UNARY))]
            return [*nodes(depth - 1), op if isinstance(op, tuple) else (op, None)]
        op = BINARY[rng.integers(len(BINARY))]
        return [*nodes(depth - 1), *nodes(depth - 1), (op, None)]

    return Tape.from_postfix(nodes(depth))


def test_random_formulas_keep_their_values():
    from skmethods.symbolic._eic import tape_information

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    compared = shorter = 0
    for _ in range(1500):
        tape = random_tape(rng, 5)
        try:
            joined = Tape.from_postfix(write(*parts(tape)))
        except (ZeroDivisionError, OverflowError):
            continue
        before, after = tape.evaluate(X), joined.evaluate(X)
        rows = np.isfinite(before)
        if not rows.any() or tape_information(tape, X[rows]) > 3:
            continue  # where digits are lost, rounding shows
        np.testing.assert_allclose(after[rows], before[rows], rtol=1e-10)
        compared += 1
        shorter += joined.size < tape.size
    assert compared > 500 and shorter > compared / 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5*(-2*x0)*(3*x1)/(6*x2)", "-0.5*x0*x1/x2"),
        ("(2*x0)**2*x1", "4*x0**2*x1"),
        ("sqrt(4*x0)/sqrt(9*x1)", "0.6666666666666666*sqrt(x0)/sqrt(x1)"),
        ("x0 - (-2*x1)", "x0 + 2*x1"),
        ("x0 + 2/(-x1)", "x0 - 2/x1"),
        ("2*exp(3*(x0*2))", "2*exp(6*x0)"),
        ("-x0*(-x1)", "x0*x1"),
        ("0 - x0*2", "-2*x0"),
        ("sqrt(-x0/x1)", "sqrt(-x0/x1)"),
        ("(x0/x1)**(-2)", "(x1/x0)**2"),
        ("sqrt(4)*x0 + log(exp(2))", "2*x0 + 2"),
    ],
)
def test_known_cases(text, expected):
    joined = Tape.from_postfix(write(*parts(parse_formula(text))))
    X = np.random.default_rng(1).uniform(-2, -1, (9, 3))
    X[:, 1] *= -1
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            joined.evaluate(X), parse_formula(text).evaluate(X), rtol=1e-13
        )
    if "0 - " not in text:
        assert joined.size <= parse_formula(text).size
        np.testing.assert_allclose(
            joined.evaluate(X), parse_formula(expected).evaluate(X), rtol=1e-13
        )
        assert joined.size == parse_formula(expected).size


def test_constants_that_cannot_be_joined_are_left_alone():
    for text in ("0*x0", "x0/(x1*0)", "x0*1e300*1e300", "(1e200*x0)**2"):
        tape = parse_formula(text)
        with pytest.raises((OverflowError, ZeroDivisionError)):
            parts(tape)
        assert Tape.from_postfix(write(1.0, *core(tape))) == tape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3*(2*x0*x1 + 4) - 1", "x0*x1"),
        ("5 - x0/x1", "x0/x1"),
        ("-(x0 + x1)/7 + 2", "x0 + x1"),
        ("(x0 + 1)/x1", "(x0 + 1)/x1"),
        ("exp(x0 + 1)", "exp(x0 + 1)"),
    ],
)
def test_the_core_has_no_outer_scale_and_offset(text, expected):
    found = Tape.from_postfix(write(1.0, *core(parse_formula(text))))
    assert found == parse_formula(expected)


def test_constants_have_no_core():
    assert core(parse_formula("3 + 4")) is None
    assert core(parse_formula("2*3 - 1/7")) is None


def test_scale_and_offset_are_those_of_linear_regression():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (50, 2))
    y = 1e200 * (3 * X[:, 0] / X[:, 1] - 2 + rng.normal(size=50))
    v = X[:, 0] / X[:, 1]
    through, line = scaled(*core(parse_formula("x0/x1")), X, y)
    slope, intercept = np.polyfit(v, y / 1e200, 1)
    expected = slope * v + intercept
    np.testing.assert_allclose(line.evaluate(X) / 1e200, expected, rtol=1e-9)
    expected = v * (v @ (y / 1e200)) / (v @ v)
    np.testing.assert_allclose(through.evaluate(X) / 1e200, expected, rtol=1e-9)


def test_nothing_is_scaled_that_has_no_values():
    X = np.ones((5, 1))
    for text in ("log(x0 - 3)", "x0 - x0"):
        assert scaled(*core(parse_formula(text)), X, np.arange(5.0)) == []
    (through,) = scaled(*core(parse_formula("x0")), X, np.arange(5.0))  # no slope
    assert through.evaluate(X)[0] == pytest.approx(2)
