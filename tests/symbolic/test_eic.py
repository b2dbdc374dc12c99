"""Digits lost to rounding: worked values, simulated noise, real float32 errors."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from skmethods import (
    effective_information,
    random_formulas,
)
from skmethods.symbolic._condition import (
    BINARY_CONDITION,
    UNARY_CONDITION,
    condition_numbers,
)
from skmethods.symbolic._eic import node_digits, tape_information
from skmethods.symbolic._parse import parse_formula
from skmethods.symbolic._tape import ARITY, BINARY, UNARY, Tape, value
from tests.symbolic._formulas import N_FEATURES, tapes

#: formula, its names, the point, the digits (None: the closed form beside it).
QUADRATIC = {"a": 1.0, "b": 1e4, "c": 1.0}
TABLE = [
    ("x", {"x": 3.0}, 0.0),
    ("x*y", {"x": 3.0, "y": 4.0}, 0.23856),
    ("x/y", {"x": 3.0, "y": 4.0}, 0.23856),
    ("sqrt(x)", {"x": 3.0}, 0.04846),
    ("exp(x)", {"x": 10.0}, 1.00216),
    ("log(x)", {"x": np.e}, 0.15051),
    ("(x+1)-x", {"x": 1000.0}, 3.23871),
    ("a**2-b**2", {"a": 1001.0, "b": 1000.0}, 3.1992),
    ("(a-b)*(a+b)", {"a": 1001.0, "b": 1000.0}, 3.1507),
    ("sqrt(x+1)-sqrt(x)", {"x": 1e6}, 6.5207),
    ("1/(sqrt(x+1)+sqrt(x))", {"x": 1e6}, 0.28337),
    ("(1-cos(x))/x**2", {"x": 1e-3}, 6.4515),
    ("0.5*(sin(x/2)/(x/2))**2", {"x": 1e-3}, 0.77203),
    ("(-b+sqrt(b**2-4*a*c))/(2*a)", QUADRATIC, 8.0256),
    ("2*c/(-b-sqrt(b**2-4*a*c))", QUADRATIC, 0.39355),
    ("q/n-(s/n)**2", {"n": 10.0, "s": 100.0, "q": 1000.001}, 6.6021),
    ("x-x", {"x": 3.0}, np.inf),
    ("exp(x-x)", {"x": 3.0}, np.inf),
    ("0*exp(1.001*x-x)+x", {"x": 1000.0}, 3.3014),
]


@pytest.mark.parametrize("aggregate", ["mean", "logmean", "median", 0.25])
@pytest.mark.parametrize("n_rows", [1, 5])
@pytest.mark.parametrize(("text", "point", "expected"), TABLE)
def test_worked_values(text, point, expected, n_rows, aggregate):
    got = effective_information(
        text,
        np.tile(list(point.values()), (n_rows, 1)),
        feature_names=list(point),
        aggregate=aggregate,
    )
    assert got == expected or abs(got - expected) < 1e-4


@pytest.mark.parametrize(
    ("unstable", "stable"),
    [
        ("sqrt(x0+1)-sqrt(x0)", "1/(sqrt(x0+1)+sqrt(x0))"),
        ("(1-cos(1/x0))*x0**2", "0.5*(sin(0.5/x0)*x0/0.5)**2"),
        ("(-x0+sqrt(x0**2-4))/2", "2/(-x0-sqrt(x0**2-4))"),
        ("(x0+1)**2-x0**2", "2*x0+1"),
        ("log(1+1/x0)*x0", "log1p(1/x0)*x0"),
        ("exp(1/x0)-1", "expm1(1/x0)"),
        ("sin(1/x0)-tan(1/x0)", "-(tan(1/x0)*2*sin(0.5/x0)**2)"),
        ("1/x0-1/(x0+1)", "1/(x0*(x0+1))"),
    ],
)
def test_stable_rewritings_lose_less(unstable, stable):
    X = np.random.default_rng(0).uniform(1e3, 1e4, (50, 1))
    a, b = parse_formula(unstable), parse_formula(stable)
    np.testing.assert_allclose(a.evaluate(X), b.evaluate(X), rtol=1e-3)
    for aggregate in ("mean", "logmean", "median"):
        bad = effective_information(unstable, X, aggregate=aggregate)
        good = effective_information(stable, X, aggregate=aggregate)
        assert bad > 3 and good < 1


# -- the definition itself -------------------------------------------------------------


def _noisy(tape, row, size, rng, n):
    """Values with independent relative noise added at every node; an oracle."""
    stack = []
    with np.errstate(all="ignore"):
        for op, arg in zip(tape.ops, tape.args, strict=True):
            if ARITY[op] == 0:
                y = np.full(n, row[arg] if op == "x" else arg)
            else:
                operands = [stack.pop() for _ in range(ARITY[op])][::-1]
                y = value(op, arg, *operands)
            stack.append(y * (1 + size * rng.standard_normal(n)))
    return stack.pop()


def test_simulated_noise_is_amplified_as_said():
    rng = np.random.default_rng(0)
    functions = "add sub mul div sqrt square exp log sin cos tanh pow cbrt atan".split()
    texts = random_formulas(
        200, n_features=3, operators=functions, size=(5, 25), random_state=3
    )
    ratios = []
    for text in texts:
        tape = parse_formula(text)
        row = rng.uniform(0.5, 3, 3)
        predicted = 10 ** node_digits(tape, row[None])[-1]
        worst = 10 ** tape_information(tape, row[None])
        if not 1.2 < predicted or not worst < 1e4:
            continue
        size = 1e-4 / worst  # small enough for first order at every node
        y = _noisy(tape, row, size, rng, 30_000)
        ratios.append(y.std() / abs(tape.evaluate(row[None])[0]) / size / predicted)
    assert len(ratios) > 60
    np.testing.assert_allclose(ratios, 1, atol=0.02)


#: Where each function is smooth, on both sides of zero where it can be.
_POINTS = {
    "log": [0.3, 2.5],
    "log2": [0.3, 2.5],
    "log10": [0.3, 2.5],
    "log1p": [-0.4, 1.7],
    "asin": [-0.9, 0.3],
    "acos": [-0.9, 0.3],
    "atanh": [-0.9, 0.3],
    "acosh": [1.2, 5.0],
    "plog": [-2.5, 5e-4, 0.3],
    "pinv": [-2.5, 5e-4, 0.3],
}


def _numeric(f, operands, i):
    """Central difference of log|f| by log|operand|."""
    h = 1e-6
    up, down = list(operands), list(operands)
    up[i], down[i] = operands[i] * (1 + h), operands[i] * (1 - h)
    return (f(*up) - f(*down)) / (2 * h) / f(*operands)


@pytest.mark.parametrize("op", UNARY)
def test_condition_numbers_of_one_operand(op):
    for x in _POINTS.get(op, [-1.7, -0.4, 0.3, 2.6]):
        a = np.array([x])
        y = value(op, None, a)
        with np.errstate(all="ignore"):
            (k,) = condition_numbers(op, None, (a,), y)
        numeric = _numeric(UNARY[op], (a,), 0) if y != 0 else 0
        if y != 0:
            np.testing.assert_allclose(
                np.broadcast_to(k, 1), numeric, rtol=1e-7, atol=1e-9
            )


@pytest.mark.parametrize("exponent", [2, 3, -1, 0.5, -2.5, 1 / 3, 0, 1])
def test_condition_number_of_an_exact_power(exponent):
    a = np.array([1.7])
    (k,) = condition_numbers("powc", float(exponent), (a,), a**exponent)
    numeric = _numeric(lambda a: value("powc", exponent, a), (a,), 0)
    np.testing.assert_allclose(k, numeric, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("op", BINARY)
def test_condition_numbers_of_two_operands(op):
    pairs = [(1.7, 0.6), (0.6, 1.7), (2.5, -1.2), (-2.5, 1.2), (3.0, 5e-4)]
    for pair in pairs:
        if op == "pow" and pair[0] < 0:
            continue
        operands = tuple(np.array([v]) for v in pair)
        y = value(op, None, *operands)
        for i, k in enumerate(condition_numbers(op, None, operands, y)):
            numeric = _numeric(BINARY[op], operands, i)
            np.testing.assert_allclose(
                np.broadcast_to(k, 1), numeric, rtol=1e-7, atol=1e-9
            )


def test_every_operator_has_a_rule():
    assert set(UNARY_CONDITION) == set(UNARY)
    assert set(BINARY_CONDITION) == set(BINARY)


@pytest.mark.parametrize("op", ["max", "min"])
def test_a_tie_is_shared(op):
    # As a central difference gives it: half of the change of either.
    got = effective_information(f"{op}(x0, x1)", [[2.0, 2.0]])
    assert got == pytest.approx(0.5 * np.log10(1 + 0.25 + 0.25))


def _by_hand(tape, row):
    """The recursion of the paper with exact fractions: + - * / and whole powers."""
    stack, s2 = [], []
    for op, arg in zip(tape.ops, tape.args, strict=True):
        if ARITY[op] == 0:
            y, s = Fraction(float(row[arg] if op == "x" else arg)), Fraction(1)
        elif ARITY[op] == 1:
            a, sa, c = stack.pop(), s2.pop(), 1 if op == "neg" else int(arg)
            y, s = -a if op == "neg" else a**c, 1 + c**2 * sa
        else:
            (b, sb), (a, sa) = (stack.pop(), s2.pop()), (stack.pop(), s2.pop())
            if op in ("mul", "div"):
                y, s = (a * b if op == "mul" else a / b), 1 + sa + sb
            else:
                y = a + b if op == "add" else a - b
                s = 1 + (a / y) ** 2 * sa + (b / y) ** 2 * sb
        stack.append(y)
        s2.append(s)
    return float(s2.pop())


@settings(max_examples=200, deadline=None)
@given(
    tapes(
        unary=("neg",),
        binary=("add", "sub", "mul", "div"),
        constants=st.integers(1, 9).map(float),
        exponents=(1.0, 2.0, 3.0),
        max_leaves=8,
    )
)
def test_exact_arithmetic_agrees(tape):
    row = np.array([2.0, 3.0, 0.625])
    try:
        expected = _by_hand(tape, row)
    except (ZeroDivisionError, OverflowError):
        return
    digits = node_digits(tape, row[None])[-1]
    assume(tape_information(tape, row[None]) < 6)  # our own rounding
    assert digits == pytest.approx(0.5 * np.log10(expected), rel=1e-6, abs=1e-9)


# -- invariances -----------------------------------------------------------------------


def test_leaves_lose_nothing_and_products_grow_by_two():
    X = np.random.default_rng(0).uniform(1, 2, (10, 1))
    assert effective_information("x0", X) == effective_information("3.7", X) == 0
    for k in range(1, 12):
        got = effective_information("*".join(["x0"] * k), X)
        assert got == pytest.approx(0.5 * np.log10(2 * k - 1))


def test_monomials_do_not_see_the_scale():
    X = np.random.default_rng(0).uniform(1, 2, (10, 2))
    text = "3*x0**2*x1**1.5/x0**(1/3)"
    expected = effective_information(text, X)
    for t in (1e-5, 1e8):
        assert effective_information(text, X * [[t, 1 / t]]) == pytest.approx(expected)
    assert effective_information("x0 + 1", X * 50) != effective_information("x0 + 1", X)


def _rows():
    return np.random.default_rng(5).uniform(-2, 3, (7, N_FEATURES))


@settings(max_examples=300, deadline=None)
@given(tapes(), st.data(), st.sampled_from(["mean", "logmean", "median", 0.9]))
def test_no_subtree_is_worse_than_the_whole(tape, data, aggregate):
    digits = node_digits(tape, _rows(), aggregate=aggregate)
    assert (digits >= 0).all() and not np.isnan(digits).any()
    i = data.draw(st.integers(0, tape.size - 1))
    part = tape.subtree(i)
    # A subtree is judged by itself as it was inside the whole.
    np.testing.assert_array_equal(
        node_digits(part, _rows(), aggregate=aggregate), digits[tape.start(i) : i + 1]
    )
    whole = tape_information(tape, _rows(), aggregate=aggregate)
    assert whole == digits.max() >= tape_information(part, _rows(), aggregate=aggregate)


@settings(max_examples=200, deadline=None)
@given(tapes(), tapes(max_leaves=3), st.sampled_from([*UNARY, *BINARY]))
def test_another_node_never_lowers_it(tape, other, op):
    X = _rows()
    ops, args = list(tape.ops), list(tape.args)
    if op in BINARY:
        ops, args = ops + list(other.ops), args + list(other.args)
    grown = Tape([*ops, op], [*args, None])
    assert tape_information(grown, X) >= tape_information(tape, X)


# -- zero and undefined values ---------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "row", "s2_of_root"),
    [
        ("x0*x1", [0.0, 2.0], 1),  # the value is zero and so is every numerator
        ("x0/x1", [0.0, 2.0], 1),
        ("x0**2", [0.0, 2.0], 1),
        ("sqrt(x0)", [0.0, 2.0], 1),
        ("sin(x0)", [0.0, 2.0], 1),
        ("x0**x1", [0.0, 2.0], 1),
        ("exp(x0)", [-1e4, 2.0], 1),  # vanishes by underflow
        ("log(x0)", [1.0, 2.0], np.inf),  # zero, with a slope
        ("x0 - x1", [2.0, 2.0], np.inf),
        ("x0 + x1", [0.0, 2.0], 2),  # the zero operand has no influence
        ("(x0 - x1)*0 + 1", [2.0, 2.0], 2),
        ("max(x0 - x1, 5)", [2.0, 2.0], 2),  # nor has the one not taken
        ("cos(x0 - x1)", [2.0, 2.0], 1),
        ("x1**(x0*0)", [2.0, 0.0], 1),  # 0**0
        ("1/x0", [0.0, 2.0], np.inf),  # not finite
        ("log(x0)", [-1.0, 2.0], np.inf),
        ("exp(x0)", [1e4, 2.0], np.inf),
        ("1/(1/x0)", [0.0, 2.0], np.inf),
        ("x0*x0", [1e200, 2.0], np.inf),
        ("x0*x0/x0", [1e-200, 2.0], 1),  # an underflow is not seen
        ("x0 + x1", [1e-170, 1e-170], 1.5),  # no square underflows
        ("x0 + x1", [1e170, 1e170], 1.5),
    ],
)
def test_edges(text, row, s2_of_root):
    X = np.array([row, row])
    digits = node_digits(parse_formula(text), X)
    if text == "1/(1/x0)":  # 1/inf has a value again, but the loss remains
        assert digits.max() == np.inf
    else:
        assert digits[-1] == pytest.approx(0.5 * np.log10(s2_of_root))


def test_no_warning_reaches_the_user(recwarn):
    X = np.array([[0.0, -1.0], [1e300, 1e300], [2.0, 2.0]])
    for text in ("log(x0)/x1", "x0*x0", "(x0-x1)**1.5", "exp(x0)", "x0**x1"):
        for aggregate in ("mean", "logmean", 0.5):
            effective_information(text, X, aggregate=aggregate)
    assert not recwarn.list


def test_undefined_rows_count_or_are_left_out():
    X = np.array([[1.0], [2.0], [-1.0], [3.0]])
    assert effective_information("log(x0 + 0.5)", X) == np.inf
    clean = effective_information("log(x0 + 0.5)", X[X[:, 0] > 0])
    ignoring = effective_information(
        "log(x0 + 0.5)", X, on_invalid="ignore", return_details=True
    )
    assert ignoring.eic == clean < np.inf
    assert ignoring.n_invalid == 1 and ignoring.n_samples == 4
    assert "1 of them without a finite value" in ignoring.report()
    # With no row left nothing can be said for the formula.
    nowhere = effective_information("log(-x0)", X[:2], on_invalid="ignore")
    assert nowhere == np.inf
    # An exact cancellation has a value.
    assert effective_information("x0 - 2", X, on_invalid="ignore") == np.inf


# -- aggregates and weights ------------------------------------------------------------


def _digits_of_rows(text, X):
    return np.array([effective_information(text, row[None]) for row in X])


def test_aggregates_of_a_single_operator():
    X = np.random.default_rng(1).uniform(1, 5, (101, 2))
    rows = _digits_of_rows("x0 - x1", X)
    mean = 0.5 * np.log10(np.mean(10 ** (2 * rows)))
    assert effective_information("x0 - x1", X) == pytest.approx(mean)
    assert effective_information("x0 - x1", X, aggregate="mean") == pytest.approx(mean)
    got = effective_information("x0 - x1", X, aggregate="logmean")
    assert got == pytest.approx(rows.mean())
    got = effective_information("x0 - x1", X[:-1], aggregate="median")
    assert got == pytest.approx(np.median(rows[:-1]))
    for q in (0.05, 0.5, 0.95, 1 / 3):
        got = effective_information("x0 - x1", X, aggregate=q)
        expected = np.quantile(rows, q, method="averaged_inverted_cdf")
        assert got == pytest.approx(expected)


def test_one_row_decides_the_mean_and_not_the_logmean():
    X = np.random.default_rng(1).uniform([4, 1], [5, 2], (100, 2))
    near = np.vstack([X, [[1.0, 1 + 1e-9]]])
    change = {
        a: effective_information("x0 - x1", near, aggregate=a)
        - effective_information("x0 - x1", X, aggregate=a)
        for a in ("mean", "logmean", "median")
    }
    assert change["mean"] > 7
    assert change["logmean"] < 0.1 and change["median"] < 0.01


@pytest.mark.parametrize("aggregate", ["mean", "logmean", "median", 0.8])
@pytest.mark.parametrize("on_invalid", ["inf", "ignore"])
def test_a_weight_is_a_repeated_row(aggregate, on_invalid):
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.2, 3, (30, 2))
    if on_invalid == "inf":
        X = np.abs(X) + 0.1
    weight = rng.integers(0, 4, 30)
    text = "log(x0) - x1*exp(x0)"
    options = {"aggregate": aggregate, "on_invalid": on_invalid}
    weighted = effective_information(text, X, sample_weight=weight, **options)
    repeated = effective_information(text, np.repeat(X, weight, axis=0), **options)
    assert weighted == pytest.approx(repeated, rel=1e-10)
    assert 0 < weighted < np.inf
    assert weighted != effective_information(text, X, **options)


@pytest.mark.parametrize("aggregate", ["mean", "logmean", "median", 0.8])
@pytest.mark.parametrize("scale", [1e308, 1e-300, 5e-324])
def test_the_scale_of_weights_does_not_matter(aggregate, scale, recwarn):
    X = np.random.default_rng(0).uniform(1, 2, (10, 2))
    expected = effective_information("x0 - x1", X, aggregate=aggregate)
    got = effective_information(
        "x0 - x1", X, sample_weight=[scale] * 10, aggregate=aggregate
    )
    assert got == pytest.approx(expected, rel=1e-9)
    assert expected > 0.5
    # Light as it is, a row that cancels counts.
    X[0, 1] = X[0, 0]
    light = effective_information("x0 - x1", X, sample_weight=[1e-320] + [1e308] * 9)
    assert light == np.inf
    assert not recwarn.list


def test_a_row_of_weight_zero_is_absent():
    X = np.array([[1.0, 2.0], [3.0, 3.0]])
    assert effective_information("x0 - x1", X, sample_weight=[1, 0]) < 1
    got = effective_information("x0 - x1", X, sample_weight=[1, 0], return_details=True)
    assert got.n_samples == 1


# -- peers and the real world ----------------------------------------------------------


def test_nd2py_agrees():
    """The first author's own library, where it is installed with this part."""
    nd = pytest.importorskip("nd2py", exc_type=ImportError)
    if not hasattr(nd.Symbol, "eval_eic"):
        pytest.skip("this version of nd2py has no eval_eic (3.0.0 has none)")
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3, (50, 3))
    x = [nd.Variable(f"x{j}") for j in range(3)]
    vars_ = {f"x{j}": X[:, j] for j in range(3)}
    for text, expr in [
        ("x0 + x1*x2", x[0] + x[1] * x[2]),
        ("sin(x0 - x1)/x2", nd.sin(x[0] - x[1]) / x[2]),
        ("exp(x0)*log(x1) - sqrt(x2)", nd.exp(x[0]) * nd.log(x[1]) - nd.sqrt(x[2])),
        ("tanh(x0) + cos(x1 + 2)", nd.tanh(x[0]) + nd.cos(x[1] + 2)),
        ("x0 - x0", x[0] - x[0]),
    ]:
        peer = expr.eval_eic(vars_)
        assert effective_information(text, X) == pytest.approx(peer, rel=1e-6)


def test_digits_rank_formulas_by_their_real_single_precision_error():
    # Inputs are rounded on reading, as the definition has it: a leaf carries noise.
    X = np.random.default_rng(0).uniform(1, 5, (64, 3))
    texts = random_formulas(500, n_features=3, random_state=11)
    digits, error = [], []
    for text in texts:
        tape = parse_formula(text)
        with np.errstate(all="ignore"):
            exact = tape.evaluate(X)
            loss = np.abs(tape.evaluate(X, dtype=np.float32) / exact - 1)
        root = node_digits(tape, X, aggregate="logmean")[-1]
        if np.isfinite(root) and np.isfinite(loss).all():
            digits.append(root)
            error.append(np.log10(loss + 1e-9).mean())
    assert len(digits) > 100
    assert spearmanr(digits, error).statistic > 0.8
