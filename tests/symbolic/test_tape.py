"""Formulas as tapes: structure, values and text."""

import ast
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings

from skmethods.symbolic._parse import MAX_OPEN, parse_formula
from skmethods.symbolic._tape import (
    ARITY,
    BINARY,
    FUNCTIONS,
    MAX_NODES,
    UNARY,
    Tape,
    texts,
    value,
)
from tests.symbolic._formulas import N_FEATURES, tapes

FORMULA = "(x0 + 2.5)*sin(x2)/x0**2 - x1**1.37"


class _NumpyNumbers(ast.NodeTransformer):
    """Python's own numbers would raise where numpy's give inf."""

    def visit_Constant(self, node):
        return ast.Call(ast.Name("number", ast.Load()), [node], [])


def _python(tape, X):
    """What Python and numpy make of the text of a tape: an evaluator of its own."""
    safe = {op: lambda *a, op=op: value(op, None, *a) for op in (*UNARY, *BINARY)}
    safe |= {name: getattr(np, name) for name in ("sin", "exp", "log", "sqrt", "tanh")}
    safe |= {"abs": np.abs, "max": np.maximum, "min": np.minimum, "neg": np.negative}
    safe["number"] = np.float64
    safe |= {f"x{j}": X[:, j] for j in range(X.shape[1])}
    with np.errstate(all="ignore"):
        tree = _NumpyNumbers().visit(ast.parse(tape.to_text(), mode="eval"))
        ast.fix_missing_locations(tree)
        return eval(compile(tree, "text", "eval"), {"__builtins__": {}}, safe)


@settings(max_examples=300, deadline=None)
@given(tapes())
def test_text_means_to_python_what_the_tape_computes(tape):
    X = np.array([[0.5, 2.0, -3.0], [1.5, -0.25, 7.0], [0.0, 1.0, 2.0]])
    expected = np.broadcast_to(_python(tape, X), len(X))
    np.testing.assert_allclose(tape.evaluate(X), expected, rtol=1e-9, atol=1e-300)


def _reads_back(tape, **names):
    try:
        return parse_formula(tape.to_text(names.get("feature_names")), **names)
    except ValueError as exc:
        assume("too large a number" not in str(exc))
        raise


@settings(max_examples=500, deadline=None)
@given(tapes(max_leaves=25))
def test_text_round_trip(tape):
    assert _reads_back(tape, n_features=N_FEATURES) == tape


@settings(max_examples=200, deadline=None)
@given(tapes())
def test_text_round_trip_with_names_that_are_no_identifiers(tape):
    names = ["petal length (cm)", "lambda", "ℏ"]
    assert _reads_back(tape, feature_names=names) == tape


@settings(max_examples=200, deadline=None)
@given(tapes())
def test_pickle_equality_and_hash(tape):
    copy = pickle.loads(pickle.dumps(tape))
    assert copy == tape and hash(copy) == hash(tape) and copy is not tape
    assert copy.left == tape.left and copy.depth == tape.depth
    longer = Tape([*tape.ops, "sin"], [*tape.args, None])
    assert longer != tape and longer.depth == tape.depth + 1


@settings(max_examples=100, deadline=None)
@given(tapes(max_leaves=25))
def test_limited_texts_are_the_beginnings_of_the_texts(tape):
    whole = list(texts(tape))
    for limit in (0, 1, 7, 30):
        assert list(texts(tape, limit=limit)) == [t[: limit + 1] for t in whole]


def test_structure():
    tape = parse_formula(FORMULA)
    assert tape.size == 13
    assert tape.features == (0, 1, 2)
    assert tape.depth == 5
    root = tape.size - 1
    first, second = tape.children(root)
    assert tape.subtree(first).to_text() == "(x0 + 2.5)*sin(x2)/x0**2"
    assert tape.subtree(second).to_text() == "x1**1.37"
    assert tape.start(root) == 0 and tape.start(second) == second - 2
    assert tape.children(0) == ()
    assert tape != "x0" and "2.5" in repr(tape) and str(tape) == FORMULA


def test_names_and_precision():
    tape = parse_formula("x0*3.14159265 + x1**1.23456")
    assert tape.to_text(["a", "b"], precision=3) == "a*3.14 + b**1.23"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_read_and_written(name):
    op, arg = FUNCTIONS[name]
    nodes = [("x", j) for j in range(ARITY[op])] + [(name, None)]
    tape = Tape.from_postfix(nodes)
    assert tape.ops[-1] == op and tape.args[-1] == arg
    call = f"{name}({', '.join(f'x{j}' for j in range(ARITY[op]))})"
    assert parse_formula(call) == tape == parse_formula(tape.to_text())


def test_values_are_new_arrays_of_full_length():
    X = np.arange(6.0).reshape(3, 2)
    before = X.copy()
    for text in ("x1", "2", "x0 + 1", "sin(3)"):
        got = parse_formula(text).evaluate(X)
        assert got.shape == (3,) and got.dtype == np.float64
        got[:] = -1
        np.testing.assert_array_equal(X, before)


def test_undefined_values_are_silent(recwarn):
    X = np.array([[0.0], [-1.0], [1e300]])
    for text in (
        "1/x0",
        "log(x0)",
        "x0**0.5",
        "exp(x0)",
        "x0*x0",
        "x0**(-3)",
        "asin(x0)",
    ):
        parse_formula(text).evaluate(X)
    assert not recwarn.list
    assert np.isinf(parse_formula("1/x0").evaluate(X)[0])
    assert np.isnan(parse_formula("log(x0)").evaluate(X)[1])


def test_single_precision():
    X = np.random.default_rng(0).uniform(1, 2, (50, 3))
    tape = parse_formula("(x0 + 0.1)*exp(x1)/(x2**2 + 1) - pdiv(x0, x1) + aq(x1, x2)")
    low = tape.evaluate(X, dtype=np.float32)
    assert low.dtype == np.float32
    error = np.abs(low - tape.evaluate(X))
    assert 0 < error.max() < 1e-5


def test_a_tape_cannot_change():
    tape = parse_formula("x0 + 1")
    with pytest.raises(AttributeError, match="immutable"):
        tape.ops = ()
    with pytest.raises(AttributeError, match="immutable"):
        del tape.args


@pytest.mark.parametrize(
    ("ops", "args", "message"),
    [
        (["add"], [None], "lacks operands"),
        (["x", "x"], [0, 1], "2 trees"),
        ([], [], "0 trees"),
        (["x", "foo"], [0, None], "Unknown operator 'foo'"),
        (["x"], [0, 1], "one length"),
        (["x"], [-1], "index from 0"),
        (["x"], [0.5], "index from 0"),
        (["const"], [np.nan], "finite number"),
        (["const"], [None], "finite number"),
        (["x", "powc"], [0, 1.37], "must be exact"),
        (["x"] * (MAX_NODES + 1), [0] * (MAX_NODES + 1), "at most 10000"),
    ],
)
def test_malformed_tapes_are_refused(ops, args, message):
    with pytest.raises(ValueError, match=message):
        Tape(ops, args)


def test_the_limits_themselves_are_accepted():
    n = MAX_NODES - 1
    deep = Tape(["x"] + ["neg"] * n, [0] + [None] * n)
    assert deep.depth == MAX_NODES
    assert deep.evaluate(np.ones((2, 1))).tolist() == [-1, -1]
    assert deep.to_text().count("-") == n
    less = deep.subtree(MAX_OPEN // 2)  # a sign and a bracket each
    assert parse_formula(less.to_text()) == less
    ops = ["x"]
    for _ in range(12):  # a balanced tree
        ops = [*ops, *ops, "add"]
    wide = Tape(ops, [0 if op == "x" else None for op in ops])
    assert wide.size == 8191
    assert wide.evaluate(np.ones((1, 1))) == 4096
    assert parse_formula(wide.to_text()) == wide


@pytest.mark.parametrize("first", [True, False])
def test_deep_operands_on_either_side(first):
    n = (MAX_NODES - 1) // 2 if first else MAX_OPEN // 2 - 1  # a sign and a bracket
    ops = ["x"] + ["x", "sub"] * n if first else ["x"] * (n + 1) + ["sub"] * n
    tape = Tape(ops, [0 if op == "x" else None for op in ops])
    assert tape.depth == n + 1
    assert parse_formula(tape.to_text()) == tape


def test_powers_with_an_exact_exponent_are_one_node():
    for text, exponent in {
        "x0**2": 2,
        "x0**-3": -3,
        "x0**0.5": 0.5,
        "x0**(1/3)": 1 / 3,
        "x0**(-1/3)": -1 / 3,
        "x0**-(1/3)": -1 / 3,
        "pow(x0, 2)": 2,
        "sqrt(x0)": 0.5,
        "inv(x0)": -1,
    }.items():
        tape = parse_formula(text)
        assert tape.ops == ("x", "powc") and tape.args[1] == exponent, text
    for text in ("x0**1.37", "x0**0.2", "x0**(1/13)", "x0**(x1/3)", "x0**neg(2)"):
        assert parse_formula(text).ops[-1] == "pow", text


def test_the_columns_must_be_there():
    with pytest.raises(ValueError, match=r"column 3, counted from 0.*2 columns"):
        parse_formula("x0 + x3").evaluate(np.ones((2, 2)))
    with pytest.raises(ValueError, match="1-D"):
        parse_formula("x0").evaluate(np.ones(3))
