"""Four dialects of formulas, and what is not a formula."""

import ast
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skmethods.symbolic._eic import node_digits, tape_information
from skmethods.symbolic._parse import MAX_OPEN, MAX_TEXT, parse_formula
from skmethods.symbolic._tape import MAX_NODES
from tests.symbolic._formulas import gplearn_programs

X = np.random.default_rng(0).uniform(0.5, 3.0, (40, 3))

#: One tree each, as plain infix, sympy, PySR, operon and gplearn write it.
DIALECTS = [
    (
        "x0*x1 + 0.5",
        "x0*x1 + 0.5",
        "(x0 * x1) + 0.5",
        "((X1 * X2) + 0.50000000000000000000)",
        "add(mul(X0, X1), 0.5)",
    ),
    (
        "sin(x0)/(x1 - (-1.25))",
        "sin(x0)/(x1 - -1.25)",
        "sin(x0) / (x1 - -1.25)",
        "(sin(X1) / (X2 - (-1.25)))",
        "div(sin(X0), sub(X1, -1.250))",
    ),
    (
        "sqrt(abs(x2)) - log(x0)*x1",
        "sqrt(Abs(x2)) - log(x0)*x1",
        "sqrt(abs(x2)) - (log(x0) * x1)",
        "(sqrt(abs(X3)) - (log(X1) * X2))",
        "sub(sqrt(abs(X2)), mul(log(X0), X1))",
    ),
    (
        "x0**2*(x1/x2)",
        "x0**2*(x1/x2)",
        "(x0 ^ 2) * (x1 / x2)",
        "((X1 ^ 2) * (X2 / X3))",
        "mul(square(X0), div(X1, X2))",
    ),
    (
        "-x0 + max(x1, 3)",
        "-x0 + Max(x1, 3)",
        "-x0 + max(x1, 3)",
        "((-X1) + max(X2, 3))",
        "add(neg(X0), max(X1, 3.000))",
    ),
]


@pytest.mark.parametrize("texts", DIALECTS, ids=[t[0] for t in DIALECTS])
def test_the_dialects_agree(texts):
    plain, *others = texts
    tape = parse_formula(plain)
    for text in others:
        other = parse_formula(text, first_index=int(text == texts[3]))
        assert other == tape, text
        np.testing.assert_array_equal(other.evaluate(X), tape.evaluate(X))
        for aggregate in ("mean", "logmean"):
            np.testing.assert_array_equal(
                node_digits(other, X, aggregate=aggregate),
                node_digits(tape, X, aggregate=aggregate),
            )


def test_sympy_prints_what_is_read():
    sympy = pytest.importorskip("sympy")
    x0, x1, x2 = sympy.symbols("x0 x1 x2", positive=True)
    for expr in (
        x0**2 + sympy.sqrt(x1) / x2,
        sympy.exp(-(x0**2) / 2) / sympy.sqrt(2 * sympy.pi),
        x0 ** sympy.Rational(1, 3) * x1 ** sympy.Rational(-5, 2),
        sympy.Max(x0, x1, 2 * x2) - sympy.Min(x0, x2),
        sympy.Abs(x0 - x1) ** sympy.Float("1.37") - sympy.Rational(3, 7) * x2,
        sympy.asin(x0 / 4) + sympy.atan(x1) * sympy.tanh(x2) - sympy.cosh(x0),
        sympy.floor(x0) + sympy.ceiling(x1) + sympy.sign(x2 - x1),
        1 / (1 - x0**2 / 100) ** sympy.Rational(3, 2),
    ):
        expected = sympy.lambdify([x0, x1, x2], expr, "numpy")(*X.T)
        tape = parse_formula(str(expr))
        np.testing.assert_allclose(tape.evaluate(X), expected, rtol=1e-12)


def test_operon_prints_what_is_read():
    pytest.importorskip("pyoperon")
    from pyoperon.sklearn import SymbolicRegressor

    y = np.sqrt(X[:, 0]) * np.exp(-X[:, 1]) + np.sin(X[:, 2])
    engine = SymbolicRegressor(
        generations=5,
        population_size=100,
        max_length=20,
        n_threads=1,
        random_state=0,
        allowed_symbols="add,sub,mul,div,aq,pow,exp,log,sin,cos,tanh,sqrt,cbrt,square,"
        "constant,variable",
    ).fit(X, y)
    for member in engine.pareto_front_:
        text = engine.get_model_string(member["tree"], precision=20)
        tape = parse_formula(text, n_features=3, first_index=1)
        expected = engine.evaluate_model(member["tree"], X)
        np.testing.assert_allclose(tape.evaluate(X), expected, rtol=1e-4, atol=1e-5)


def test_gplearn_prints_what_is_read_with_its_protected_functions():
    pytest.importorskip("gplearn")
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, (30, 3))
    rows[:5] = 0
    rows[5:10] *= 1e-4  # below gplearn's threshold of 0.001
    rows[10:15, 1] = rows[10:15, 0]
    n_protected = 0
    for program in gplearn_programs(150):
        for i, node in enumerate(program.program):  # str() rounds to three digits
            if isinstance(node, float):
                program.program[i] = float(f"{node:.3f}")
        tape = parse_formula(str(program), n_features=3, protected="gplearn")
        n_protected += any(op in ("pdiv", "plog", "pinv", "sqrtabs") for op in tape.ops)
        with np.errstate(all="ignore"):
            expected = program.execute(rows)
        np.testing.assert_allclose(tape.evaluate(rows), expected, rtol=1e-12)
        digits = node_digits(tape, rows)
        assert (digits >= 0).all() and not np.isnan(digits).any()
    assert n_protected > 50


def test_protected_concerns_infix_division_too():
    zero = np.zeros((1, 2))
    assert np.isnan(parse_formula("x0/x1").evaluate(zero))
    assert parse_formula("x0/x1", protected="gplearn").evaluate(zero) == 1
    assert parse_formula("1/x1 + log(x0)", protected="gplearn").evaluate(zero) == 1
    with pytest.raises(
        ValueError, match="protected must be None or 'gplearn', got 'x'"
    ):
        parse_formula("x0", protected="x")


# -- precedence, against Python's own grammar ------------------------------------------

_operand = st.sampled_from(["x0", "x1", "2", "0.5", "3.25", "(x0)", "sin(x1)"])
_operator = st.sampled_from(
    [" + ", "-", "*", "/", "**", " - -", "*-", "**-", "/-", "+"]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(_operand, _operator), max_size=6), _operand, st.booleans())
def test_precedence_is_that_of_python(parts, last, minus):
    text = "-" * minus + "".join(a + op for a, op in parts) + last
    row = np.array([[1.25, 0.75]])
    scope = {"x0": 1.25, "x1": 0.75, "sin": math.sin, "__builtins__": {}}
    try:
        expected = eval(compile(ast.parse(text, mode="eval"), "t", "eval"), scope)
    except (OverflowError, ZeroDivisionError):
        return
    if isinstance(expected, complex):
        expected = np.nan
    for spelt in (
        text,
        text.replace("**", "^"),
        f"( {text} )",
        text.replace("x", "X_"),
    ):
        np.testing.assert_allclose(
            parse_formula(spelt).evaluate(row), expected, rtol=1e-9, atol=1e-300
        )


# -- names -----------------------------------------------------------------------------


def test_indexed_names():
    for text in ("x1", "X1", "x_1", "X_1", " x01 "):
        assert parse_formula(text).args == (1,)
    assert parse_formula("X1 + X2", first_index=1).args[:2] == (0, 1)
    with pytest.raises(ValueError, match=r"unknown name 'X0'. Known: x1 to x2"):
        parse_formula("X0", first_index=1, n_features=2)
    with pytest.raises(ValueError, match=r"unknown name 'x3'. Known: x0 to x2"):
        parse_formula("x0 + x3", n_features=3)
    with pytest.raises(ValueError, match=r"unknown name 'y'. Known: x0, x1, ..."):
        parse_formula("y")


def test_given_names():
    names = ["mass", "v", "petal length (cm)", "lambda", "λ", "x-1", "exp"]
    text = "mass*v**2/2 + petal length (cm) - lambda*λ + exp(x-1) + exp"
    tape = parse_formula(text, feature_names=names)
    assert tape.features == tuple(range(7))
    assert parse_formula(tape.to_text(names), feature_names=names) == tape
    with pytest.raises(ValueError, match=r"unknown name 'x0'. Known: mass, v"):
        parse_formula("x0", feature_names=["mass", "v"])


def test_longer_names_are_not_cut():
    names = ["a b", "a b c", "abc"]
    assert parse_formula("a b c", feature_names=names).args == (1,)
    assert parse_formula("abc - a b", feature_names=names).args[:2] == (2, 0)
    with pytest.raises(ValueError, match="unknown name 'a'"):
        parse_formula("a bc", feature_names=names)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["a", "a"], ValueError, "differ from each other"),
        (["a", "1"], ValueError, r"'1' cannot stand .*feature_names.*X\.to_numpy"),
        (["a", 3], TypeError, "must be strings; got 3"),
        (["a", ""], ValueError, "empty name"),
        (["a"], ValueError, "1 names, but X has 2"),
        ("ab", TypeError, "list of names"),
        ({"a", "b"}, TypeError, "list of names"),
    ],
)
def test_names_that_cannot_serve(names, error, message):
    with pytest.raises(error, match=message):
        parse_formula("a", feature_names=names, n_features=2)


@pytest.mark.parametrize("names", [["_", "_1", "__2"], ["_0", "ℏ_", "ª"]])
def test_every_identifier_is_a_name(names):
    tape = parse_formula(f"{names[0]}*{names[1]} - {names[2]}", feature_names=names)
    assert tape.to_text() == "x0*x1 - x2"
    assert parse_formula(tape.to_text(names), feature_names=names) == tape


def test_indexed_names_beside_odd_ones():
    def read(text, names, **options):
        return parse_formula(text, feature_names=names, **options).to_text()

    # Formulas on such columns are written in x0, x1, ...
    assert read("x1 - a b*x0", ["a b", "c"]) == "x1 - x0*x0"
    assert read("x1 - X_0", ["a b", "x1"]) == "x1 - x0"
    with pytest.raises(ValueError, match="unknown name 'x2'"):
        read("x2", ["a b", "c"])
    # A column goes before an index, and then all indices are names only.
    assert read("x0", ["a b", "x0"]) == "x1"
    with pytest.raises(ValueError, match=r"unknown name 'x1'. Known: a b, x0"):
        read("x0*x1", ["a b", "x0"])
    # Where all are identifiers, names are names.
    with pytest.raises(ValueError, match="unknown name 'x0'"):
        read("x0", ["a", "b"])
    assert read("x0 - b", ["a", "b"], also_indexed=True) == "x0 - x1"
    with pytest.raises(ValueError, match="unknown name 'x0'"):
        read("x0 - x1", ["x1", "x2"], also_indexed=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mass − n1", r"near 'mass − n1': '−' \(MINUS SIGN\).*Write - for it"),
        ("2×x0", r"'×' .*Write \* for it"),
        ("2·x0", r"'·' .*Write \* for it"),
        ("mass²", r"'²' .*Write \*\*2 for it"),
        ("х0", r"'х' \(CYRILLIC SMALL LETTER HA\)"),
        ("mas*2", "unknown name 'mas'.*Did you mean 'mass'"),
        ("sine(mass)", "unknown function 'sine'. Did you mean 'sin'"),
        ("qqq(mass)", "unknown function 'qqq'. Known: abs, acos"),
        ("sin", r"unknown name 'sin'.*Write its argument"),
        ("mass(2)", r"character 1.*operator is missing between 'mass' and its bracket"),
        ("pi(2)", "operator is missing between 'pi'"),
        ("2(mass)", r"operator is missing before '\('"),
        ("zzz", r"Known: mass, n0, n1, .*n8, \.\.\. \(41 names\)\. *$"),
    ],
)
def test_messages_help(text, message):
    names = ["mass", *(f"n{j}" for j in range(40))]
    with pytest.raises(ValueError, match=message):
        parse_formula(text, feature_names=names)


def test_named_numbers():
    constants = {"E": math.e, "GoldenRatio": 1.618}
    tape = parse_formula("E*GoldenRatio", constants=constants)
    assert tape.args[:2] == (math.e, 1.618)
    tape = parse_formula("E*2", feature_names=["E"], constants=constants)
    assert tape.ops[0] == "x"


def test_a_long_chain_is_not_nested():
    n = MAX_NODES // 2
    for sign in ("+", "-", "*", "/"):
        tape = parse_formula(sign.join(["x0"] * n))
        assert tape.size == 2 * n - 1
        assert tape.depth == n


def test_pi_unless_a_column_is_called_so():
    assert parse_formula("pi").args == (math.pi,)
    assert parse_formula("pi", feature_names=["pi"]).ops == ("x",)
    with pytest.raises(ValueError, match=r"Write exp\(1\)"):
        parse_formula("E*x0")


# -- what is no formula ----------------------------------------------------------------

EVIL = {
    "import": "__import__('os').system('touch {path}')",
    "builtin": "open('{path}', 'w')",
    "exec": "exec(x0)",
    "attribute": "x0.__class__",
    "method": "x0.tofile(x1)",
    "module": "math.sin(x0)",
    "lambda": "lambda: x0",
    "call of a lambda": "(lambda: x0)()",
    "comprehension": "[x0 for x0 in x1]",
    "generator": "max(x0 for x0 in x1)",
    "string": "'x0'",
    "bytes": "b'x0'",
    "f-string": "f'{x0}'",
    "keyword argument": "sin(x0=1)",
    "star": "max(*x0)",
    "walrus": "(x0 := 1)",
    "subscript": "x0[0]",
    "tuple": "x0, x1",
    "set": "{x0}",
    "condition": "x0 if x1 else x2",
    "comparison": "x0 < x1",
    "boolean": "x0 and x1",
    "True": "True",
    "None": "None",
    "ellipsis": "...",
    "complex": "1j*x0",
    "hexadecimal": "0x10",
    "underscore": "1_000",
    "floor division": "x0 // x1",
    "modulo": "x0 % x1",
    "matrix product": "x0 @ x1",
    "statement": "x0; x1",
    "line": "import os\nx0",
    "assignment": "y = x0",
    "comment": "x0 # x1",
    "backslash": "x0 \\\n + 1",
    "null": "x0\0",
    "Cyrillic letter": "х0 + x1",
    "full-width letter": "ｘ0 + x1",
    "full-width digit": "x０",
    "Arabic digit": "٣*x0",
    "minus sign": "x0 − x1",
    "zero-width space": "x0\u200b + 1",
    "direction mark": "x0\u202e + 1",
    "brackets": "(" * 100_000 + "x0" + ")" * 100_000,
    "open brackets": "(" * 100_000,
    "closed brackets": ")" * 100_000,
    "signs": "-" * 100_000 + "x0",
    "calls": "sin(" * 50_000 + "x0" + ")" * 50_000,
    "powers": "**".join(["x0"] * 50_000),
    "sum": "+".join(["x0"] * 50_000),
    "power tower": "9**9**9**9",
    "power tower with signs": "2**-9**9**9**2 + 9^(9^(9*9^9))",
    "large power": "10**400",
    "large number": "1e999",
    "many digits": "9" * 100_000,
    "long text": " " * (MAX_TEXT + 1),
    "empty": "",
    "blank": " \n\t",
    "nothing after +": "x0 +",
    "nothing before *": "* x0",
    "two operands": "x0 x1",
    "number before name": "2x0",
    "number before bracket": "2(x0)",
    "bracket before name": "(x0)x1",
    "call of a column": "x0(x1)",
    "unclosed": "(x0 + 1",
    "closed twice": "x0 + 1)",
    "empty call": "sin()",
    "empty bracket": "x0*()",
    "too many arguments": "sin(x0, x1)",
    "too few arguments": "add(x0)",
    "three for sub": "sub(x0, x1, x2)",
    "comma in brackets": "(x0, x1)",
    "comma at the end": "max(x0, x1,)",
    "function without argument": "sin + x0",
    "infinity": "inf",
    "nan": "nan",
    "zoo": "zoo*x0",
}


@pytest.mark.parametrize("kind", EVIL)
def test_bad_text_is_an_error_at_once(kind, tmp_path):
    text = EVIL[kind].replace("{path}", str(tmp_path / "made"))
    start = time.process_time()
    with pytest.raises(ValueError) as caught:
        parse_formula(text, n_features=3)
    assert time.process_time() - start < 1
    assert 20 < len(str(caught.value)) < 1000
    assert not (tmp_path / "made").exists()


def test_the_error_shows_the_place():
    with pytest.raises(ValueError, match=r"character 6, near 'x0 \+ y\*2'.*'y'"):
        parse_formula("x0 + y*2")
    with pytest.raises(ValueError, match="right-hand side only"):
        parse_formula("x1 = x0")


@pytest.mark.parametrize("text", [None, 3, b"x0", ["x0"]])
def test_only_text_is_read(text):
    with pytest.raises(TypeError, match="must be text"):
        parse_formula(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="x01 .+-*/^(),esinE\n_'[]=λ", max_size=60))
def test_any_text_is_a_formula_or_a_value_error(text):
    try:
        tape = parse_formula(text)
    except ValueError:
        return
    assert parse_formula(tape.to_text()) == tape


def test_what_is_large_but_allowed():
    half = MAX_NODES // 2
    assert parse_formula("(" * 3000 + "x0" + ")" * 3000).size == 1
    calls = "sin(" * MAX_OPEN + "x0" + ")" * MAX_OPEN
    assert parse_formula(calls).size == MAX_OPEN + 1
    with pytest.raises(ValueError, match=f"nested deeper than {MAX_OPEN}"):
        parse_formula(f"sin({calls})")
    balanced = ["x0"] * 4096
    while len(balanced) > 1:
        balanced = [f"({a}+{b})" for a, b in zip(*[iter(balanced)] * 2, strict=True)]
    tape = parse_formula(balanced[0])
    assert tape.size == 8191 > half
    start = time.process_time()
    assert tape_information(tape, np.ones((64, 1))) < 1
    assert time.process_time() - start < 2
