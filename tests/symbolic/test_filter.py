"""A corpus of formulas: what is kept, what is drawn."""

import numpy as np
import pandas as pd
import pytest

from skmethods import effective_information, filter_formulas, random_formulas
from skmethods.symbolic._parse import parse_formula
from skmethods.symbolic._tape import Tape

X = np.random.default_rng(0).uniform(1, 5, (64, 3))
CORPUS = random_formulas(300, n_features=3, random_state=0)


@pytest.mark.parametrize("aggregate", ["mean", "logmean"])
@pytest.mark.parametrize("threshold", [0.5, 1.0, np.inf])
def test_kept_are_those_below_the_threshold(aggregate, threshold):
    kept, eic = filter_formulas(
        CORPUS, X, threshold=threshold, aggregate=aggregate, return_eic=True
    )
    expected = [effective_information(f, X, aggregate=aggregate) for f in CORPUS]
    np.testing.assert_array_equal(eic, expected)
    passed = [f for f, e in zip(CORPUS, expected, strict=True) if e <= threshold]
    assert kept == passed
    assert kept == filter_formulas(CORPUS, X, threshold=threshold, aggregate=aggregate)
    assert 0 < len(kept) <= len(CORPUS)


def test_the_default_threshold_is_one_digit():
    assert filter_formulas(CORPUS, X) == filter_formulas(CORPUS, X, threshold=1.0)
    assert filter_formulas(CORPUS, X) != filter_formulas(CORPUS, X, threshold=0.9)


def test_jobs_do_not_matter():
    corpus = CORPUS * 3  # more than one chunk
    one = filter_formulas(corpus, X, return_eic=True)
    two = filter_formulas(corpus, X, n_jobs=2, return_eic=True)
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])
    assert len(two[1]) == 900


def test_the_other_options_reach_the_criterion():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert filter_formulas(["a*b"], frame) == ["a*b"]
    assert filter_formulas(["u*v"], X, feature_names=["u", "v", "w"]) == ["u*v"]
    zero = np.vstack([X, np.zeros((1, 3))])
    assert filter_formulas(["div(X0, X1)"], zero) == []
    assert filter_formulas(["div(X0, X1)"], zero, protected="gplearn")
    assert filter_formulas(["div(X0, X1)"], zero, on_invalid="ignore")
    weight = np.append(np.ones(len(X)), 0)
    assert filter_formulas(["div(X0, X1)"], zero, sample_weight=weight)
    tape = parse_formula("x0*x1")
    assert filter_formulas((t for t in [tape]), X) == [tape]
    kept, eic = filter_formulas([], X, return_eic=True)
    assert kept == [] and eic.shape == (0,)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"exprs": ["x0", "x0 +"]}, ValueError, r"exprs\[1\]: .*operand is missing"),
        ({"exprs": ["x0"] * 600 + [3]}, TypeError, r"exprs\[600\]: .*got int"),
        ({"exprs": "x0"}, TypeError, "several formulas"),
        ({"exprs": None}, TypeError, "several formulas.*NoneType"),
        ({"exprs": parse_formula("x0")}, TypeError, "several formulas.*Tape"),
        ({"feature_names": "abc"}, TypeError, "feature_names must be a list"),
        ({"threshold": "1"}, ValueError, "threshold"),
        ({"threshold": np.nan}, ValueError, "threshold"),
        ({"aggregate": "max"}, ValueError, "aggregate"),
        ({"on_invalid": 0}, ValueError, "on_invalid"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight"),
    ],
)
def test_bad_input(change, error, message):
    given = {"exprs": ["x0"], "X": X} | change
    with pytest.raises(error, match=message):
        filter_formulas(given.pop("exprs"), given.pop("X"), **given)


def test_a_single_sympy_expression_is_no_list():
    sympy = pytest.importorskip("sympy")
    with pytest.raises(TypeError, match=r"several formulas.*Symbol"):
        filter_formulas(sympy.Symbol("x0"), X)


# -- random formulas -------------------------------------------------------------------


def test_what_is_drawn():
    formulas = random_formulas(
        400,
        n_features=2,
        operators=("add", "mul", "tanh"),
        size=(3, 9),
        constant_share=0.5,
        random_state=1,
    )
    tapes = [parse_formula(f, n_features=2) for f in formulas]
    assert {t.size for t in tapes} == set(range(3, 10))
    ops = np.concatenate([t.ops for t in tapes])
    assert set(ops) == {"x", "const", "add", "mul", "tanh"}
    leaves = ops[np.isin(ops, ["x", "const"])]
    assert abs(np.mean(leaves == "const") - 0.5) < 0.05
    assert {j for t in tapes for j in t.features} == {0, 1}
    numbers = [
        a for t in tapes for op, a in zip(t.ops, t.args, strict=True) if op == "const"
    ]
    assert max(map(abs, numbers)) <= 5 and min(numbers) < -4 < 4 < max(numbers)


def test_repeated_operators_are_drawn_more_often():
    def share(operators):
        texts = random_formulas(200, n_features=1, operators=operators, random_state=0)
        ops = np.concatenate([parse_formula(t).ops for t in texts])
        return np.mean(ops == "mul") / np.mean(np.isin(ops, ["add", "mul"]))

    assert abs(share(("add", "mul", "sin")) - 0.5) < 0.05
    assert abs(share(("add", "mul", "mul", "mul", "sin")) - 0.75) < 0.05


def test_the_seed_decides():
    def draw(seed):
        return random_formulas(20, n_features=2, random_state=seed)

    state = np.random.get_state()[1].copy()
    assert draw(3) == draw(3) != draw(4)
    assert draw(np.random.RandomState(3)) == draw(3)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    assert random_formulas(0, n_features=1) == []


def test_large_ones():
    (text,) = random_formulas(1, n_features=1, size=(3000, 3000), random_state=0)
    assert isinstance(parse_formula(text), Tape)


@pytest.mark.parametrize("size", [5, (1, 2, 3), "ab", None])
def test_the_size_is_a_pair(size):
    with pytest.raises(TypeError, match="size must be a pair"):
        random_formulas(1, n_features=1, size=size)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_formulas": -1}, "n_formulas must be an integer >= 0, got -1"),
        ({"n_features": 0}, "n_features must be an integer >= 1"),
        ({"size": (0, 3)}, r"size\[0\]"),
        ({"size": (5, 3)}, r"size\[1\] must be an integer >= 5"),
        ({"size": (5, 20_000)}, "at most 10000"),
        ({"constant_share": 1.5}, "constant_share"),
        ({"operators": ("add", "foo", "sin")}, r"unknown names \['foo'\]"),
        ({"operators": ("add",)}, "one of two"),
        ({"operators": ("sin",)}, "one of two"),
    ],
)
def test_bad_requests(change, message):
    with pytest.raises(ValueError, match=message):
        random_formulas(**{"n_formulas": 1, "n_features": 1} | change)
