"""What effective_information takes: formulas, names, options, tables."""

import numpy as np
import pandas as pd
import pytest

from skmethods import (
    ECSELClassifier,
    ECSELRegressor,
    effective_information,
)
from skmethods.symbolic._parse import parse_formula
from tests.symbolic._formulas import gplearn_programs


def test_kinds_of_expressions():
    sympy = pytest.importorskip("sympy")
    X = np.random.default_rng(0).uniform(1, 2, (20, 2))
    expected = effective_information("x0*sin(x1) - 2", X)
    x0, x1 = sympy.symbols("x0 x1")
    expr = x0 * sympy.sin(x1) - 2
    assert effective_information(expr, X) == expected
    assert effective_information(parse_formula("x0*sin(x1) - 2"), X) == expected
    # sympy has simplified before anything is scored.
    assert effective_information(x0 - x0, X) == 0
    assert effective_information("x0 - x0", X) == np.inf
    with pytest.raises(TypeError, match=r"expr must be text.*got int"):
        effective_information(3, X)


def test_frames_name_the_columns():
    frame = pd.DataFrame({"mass": [1.0, 2.0], "petal length (cm)": [3.0, 4.0]})
    got = effective_information("mass*petal length (cm)", frame)
    assert got == pytest.approx(0.5 * np.log10(3))
    # As estimators write formulas on such a frame.
    assert effective_information("x0*x1", frame) == got
    named = effective_information("a*b", frame, feature_names=["a", "b"])
    assert named == got
    with pytest.raises(ValueError, match=r"unknown name 'x2'. Known: mass, petal"):
        effective_information("x2", frame)
    with pytest.raises(ValueError, match=r"unknown name 'x0'. Known: mass, width"):
        effective_information("x0", frame.set_axis(["mass", "width"], axis=1))
    with pytest.raises(ValueError, match=r"'0' cannot stand.*X\.to_numpy"):
        effective_information("x0", frame.set_axis(["0", "1"], axis=1))
    for wrong in ("ab", {"a", "b"}):
        with pytest.raises(TypeError, match="feature_names must be a list"):
            effective_information("a", frame, feature_names=wrong)
    with pytest.raises(ValueError, match="feature_names has 1 names, but X has 2"):
        effective_information("a", frame, feature_names=["a"])
    plain = pd.DataFrame(frame.to_numpy())  # columns 0 and 1
    assert effective_information("x0*x1", plain) == got


@pytest.mark.parametrize("names", [["width", "height"], ["a b", "lambda"]])
def test_estimators_with_a_formula(names):
    X = np.random.default_rng(0).uniform(1, 3, (60, 2))
    frame = pd.DataFrame(X, columns=names)
    model = ECSELRegressor().fit(frame, np.pi * X[:, 0] ** 2 / X[:, 1])
    indexed = model.formula(feature_names=["x0", "x1"], precision=None)
    expected = effective_information(indexed, X)
    assert effective_information(model, frame) == expected
    assert effective_information(model, X) == expected
    assert 0 < expected < 1
    # All digits of the constants count, and the report has the names.
    result = effective_information(model, X, return_details=True)
    assert result.tape == parse_formula(indexed)
    assert names[0] in result.report()
    with pytest.raises(ValueError, match="in their order"):
        effective_information(model, frame[names[::-1]])
    with pytest.raises(ValueError, match="X has 1 columns, but ECSELRegressor"):
        effective_information(model, X[:, :1])


def test_anything_with_a_formula():
    class Law:
        def formula(self):
            return "x0*x1"

    got = effective_information(Law(), [[1.0, 2.0]])
    assert got == pytest.approx(0.5 * np.log10(3))


@pytest.mark.parametrize("with_fit", [True, False])
def test_an_estimator_without_names_has_those_of_the_frame(with_fit):
    class Law:
        def __init__(self, text):
            self.text = text

        def formula(self):
            return self.text

    if with_fit:
        Law.fit = lambda self, X, y: self
    X = np.random.default_rng(0).uniform(1, 2, (20, 2))
    swapped = pd.DataFrame(X, columns=["x1", "x0"])
    expected = effective_information("sin(x1) - 5*x0", X)
    assert effective_information(Law("sin(x0) - 5*x1"), swapped) == expected
    named = pd.DataFrame(X, columns=["mass", "speed"])
    for text in ("sin(speed) - 5*mass", "sin(x1) - 5*x0"):
        assert effective_information(Law(text), named) == expected
    got = effective_information(Law("sin(b) - 5*a"), X, feature_names=["a", "b"])
    assert got == expected
    digits = named.set_axis(["0", "1"], axis=1)
    assert effective_information(Law("sin(x1) - 5*x0"), digits) == expected
    result = effective_information(Law("sin(x1) - 5*x0"), digits, return_details=True)
    assert result.worst_subexpression in ("sin(x1) - 5*x0", "sin(x1)")
    with pytest.raises(ValueError, match="unknown name 'x7'"):
        effective_information(Law("x7"), named)


def test_a_formula_on_odd_names_is_read_back():
    X = np.random.default_rng(0).uniform(1, 3, (60, 2))
    frame = pd.DataFrame(X, columns=["petal length", "petal width"])
    model = ECSELRegressor().fit(frame, np.pi * X[:, 0] ** 2 / X[:, 1])
    assert effective_information(model.formula(), frame) > 0


def test_sympy_functions_and_numbers():
    sympy = pytest.importorskip("sympy")
    x0 = sympy.Symbol("x0")
    X = [[2.0], [3.0]]
    with pytest.raises(ValueError, match="unknown function 'f'"):
        effective_information(sympy.Function("f")(x0), X)
    expected = effective_information("x0*2.718281828459045 - 3", X)
    assert effective_information(x0 * sympy.E - 3, X) == expected
    for number in (sympy.pi, sympy.GoldenRatio, sympy.EulerGamma):
        got = effective_information(sympy.sin(x0) - number, X, return_details=True).tape
        assert float(number) in got.args
    assert effective_information(sympy.exp(x0), pd.DataFrame({"x0": [1.0]})) > 0
    with pytest.raises(ValueError, match="the number E, and E is also the name"):
        effective_information(x0 * sympy.E, [[1.0, 2.0]], feature_names=["x0", "E"])
    with pytest.raises(ValueError, match="unknown name 'E'"):
        effective_information(x0 * sympy.Symbol("E"), X)
    named = {"feature_names": ["E"]}
    assert effective_information(sympy.Symbol("E") * 2, X, **named) > 0


def test_a_classifier_has_several():
    X = np.random.default_rng(0).uniform(1, 3, (60, 2))
    model = ECSELClassifier().fit(X, (X[:, 0] > X[:, 1]).astype(int) + (X[:, 0] > 2.5))
    with pytest.raises(ValueError, match="3 formulas, one for each class"):
        effective_information(model, X)


def test_programs_of_gplearn_keep_every_digit_of_their_constants():
    pytest.importorskip("gplearn")
    X = np.random.default_rng(0).uniform(-2, 2, (20, 3))
    X[0] = 0
    for program in gplearn_programs(100, seed=1):
        result = effective_information(program, X, return_details=True)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                result.tape.evaluate(X), program.execute(X), rtol=1e-12
            )
    from gplearn.genetic import SymbolicRegressor

    engine = SymbolicRegressor(population_size=50, generations=2, random_state=0)
    engine.fit(X, X[:, 0] * X[:, 1])
    assert effective_information(engine, X) == effective_information(engine._program, X)


def test_programs_with_unknown_functions():
    pytest.importorskip("gplearn")
    from gplearn.functions import make_function

    program = gplearn_programs(1)[0]
    odd = make_function(function=np.add, name="odd", arity=2)
    program.program = [odd, 0, 1]
    with pytest.raises(ValueError, match="'odd' was made by make_function"):
        effective_information(program, np.ones((3, 3)))


def test_protected_text():
    X = np.array([[0.0, 1.0], [2.0, 0.0]])
    assert effective_information("div(X0, X1)", X) == np.inf
    got = effective_information("div(X0, X1)", X, protected="gplearn")
    assert got == pytest.approx(0.5 * np.log10((1 + 1) / 2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"aggregate": "max"}, ValueError, "aggregate must be 'mean'"),
        ({"aggregate": 1.0}, ValueError, "between 0 and 1, got 1.0"),
        ({"aggregate": True}, ValueError, "aggregate"),
        ({"aggregate": None}, ValueError, "aggregate"),
        ({"on_invalid": "drop"}, ValueError, "on_invalid must be"),
        ({"protected": True}, ValueError, "protected must be"),
        ({"sample_weight": [1, -1]}, ValueError, "sample_weight"),
        ({"sample_weight": [0, 0]}, ValueError, "sample_weight"),
        ({"sample_weight": [1, 1, 1]}, ValueError, "sample_weight"),
        ({"X": [[1.0, np.nan], [1.0, 2.0]]}, ValueError, "NaN"),
        ({"X": [1.0, 2.0]}, ValueError, "Expected 2D array"),
        ({"X": np.empty((0, 2))}, ValueError, "0 sample"),
        ({"expr": "x0 + x2"}, ValueError, "unknown name 'x2'. Known: x0 to x1"),
        ({"expr": parse_formula("x7")}, ValueError, "reads column 7"),
    ],
)
def test_bad_options(options, error, message):
    given = {"expr": "x0*x1", "X": [[1.0, 2.0], [3.0, 4.0]]} | options
    with pytest.raises(error, match=message):
        effective_information(given.pop("expr"), given.pop("X"), **given)


def test_the_callers_rows_are_not_touched():
    X = np.asfortranarray(np.random.default_rng(0).uniform(1, 2, (20, 2)))
    before = X.copy()
    X.flags.writeable = False
    got = effective_information("x0*x1 - neg(x0) + sqrt(x1)", X)
    np.testing.assert_array_equal(X, before)
    single = effective_information("x0*x1 - neg(x0) + sqrt(x1)", X.astype(np.float32))
    assert single == pytest.approx(got, rel=1e-5)


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    X = torch.tensor([[1.0, 2.0]], requires_grad=True)
    assert effective_information("x0*x1", X) == pytest.approx(0.5 * np.log10(3))
