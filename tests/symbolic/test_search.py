"""EICSymbolicRegressor: what reaches operon, and what is made of its answer."""

import pickle
import sys
import time
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

from skmethods import EICScorer, EICSymbolicRegressor, effective_information
from skmethods.symbolic import _search
from skmethods.symbolic._engines import operon_columns, operon_tape
from skmethods.symbolic._parse import parse_formula
from skmethods.symbolic._search import power_of_two
from skmethods.symbolic._selected import pick_rows
from tests._observe import without
from tests.symbolic.test_engines import law

pytest.importorskip("pyoperon")

MODES = ["rerank", "penalty", "objective"]


def quick(**params):
    params = {"n_generations": 5, "population_size": 80, "random_state": 0} | params
    return EICSymbolicRegressor(max_length=15, **params)


class Spied:
    """Runs a fit and keeps the engine and the guide that it made."""

    def __init__(self, estimator, X, y):
        make = _search._engine

        def spy(guide, **parameters):
            self.guide, self.parameters = guide, parameters
            self.engine = make(guide, **parameters)
            return self.engine

        with mock.patch.object(_search, "_engine", spy):
            self.model = estimator.fit(X, y)


# -- the search ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_finds_a_law_and_repeats_itself(mode):
    X, y = law()
    model = quick(mode=mode, n_generations=20, population_size=200).fit(X, y)
    assert model.score(X, y) > 0.8
    again = clone(model).fit(X, y)
    assert again.candidates_ == model.candidates_
    assert np.array_equal(again.predict(X), model.predict(X))
    assert model.n_generations_ == 20
    assert model.n_evaluations_ >= 20 * 200


@pytest.mark.parametrize("mode", ["penalty", "objective"])
@pytest.mark.parametrize("aggregate", ["logmean", "mean"])
def test_operon_ranks_by_digits(mode, aggregate):
    """The objectives that operon reports are ours, recomputed from the text."""
    X, y = law()
    spied = Spied(quick(mode=mode, n_rows=30, aggregate=aggregate), X, y)
    rows = pick_rows(len(X), 30, np.random.RandomState(0))
    columns = operon_columns(spied.engine)
    finite = 0
    for individual in spied.engine.individuals_:
        tape = operon_tape(individual.Genotype, columns)
        digits = effective_information(tape.to_text(), X[rows], aggregate=aggregate)
        digits = min(digits, 16.0)
        (found,) = spied.guide(None, individual)
        if mode == "penalty":
            found = (found - individual.Genotype.Length) / 5.0
        assert found == pytest.approx(digits, abs=1e-4)
        finite += digits < 16
    assert finite > 20
    # operon holds that value, in single precision, as the last fitness.
    last = len(spied.parameters["objectives"]) - 1
    for individual in spied.engine.individuals_[:40]:
        (found,) = spied.guide(None, individual)
        assert individual.GetFitness(last) == pytest.approx(found, rel=1e-5)


def test_penalty_weight_counts_digits_in_nodes():
    X, y = law()
    light, heavy = (
        Spied(quick(mode="penalty", penalty_weight=w), X, y) for w in (0.0, 50.0)
    )
    individual = max(light.engine.individuals_, key=lambda i: i.Genotype.Length)
    (length,) = light.guide(None, individual)
    assert length == individual.Genotype.Length
    tape = operon_tape(individual.Genotype, light.guide.columns)
    digits = effective_information(tape.to_text(), X[:64], aggregate="logmean")
    heavy.guide.columns = light.guide.columns
    heavy.guide.rows = X[:64]
    (found,) = heavy.guide(None, individual)
    assert found == pytest.approx(length + 50 * min(digits, 16), rel=1e-6)
    assert light.model.candidates_ != heavy.model.candidates_


def test_an_error_in_the_callback_is_raised_by_fit():
    X, y = law()
    with (
        mock.patch.object(
            _search, "tape_information", side_effect=RuntimeError("broken")
        ),
        pytest.raises(RuntimeError, match="broken"),
    ):
        quick(mode="penalty").fit(X, y)


def test_parameters_reach_operon():
    X, y = law()
    estimator = quick(
        population_size=33,
        n_generations=2,
        optimizer_iterations=3,
        max_time=60,
        allowed_symbols="add, mul,constant,variable",
    )
    given = Spied(estimator, X, y).parameters
    assert given["population_size"] == 33 and given["generations"] == 2
    assert given["max_length"] == 15 and given["optimizer_iterations"] == 3
    assert given["allowed_symbols"] == "add,mul,constant,variable"
    assert given["max_time"] == 60 and given["objectives"] == ["r2", "length"]


@pytest.mark.parametrize("mode", MODES)
def test_n_jobs_reaches_operon(mode):
    """Except where operon calls Python, which takes one thread."""
    X, y = law()
    one = Spied(quick(mode=mode), X, y)
    two = Spied(quick(mode=mode, n_jobs=2), X, y)
    assert one.parameters["n_threads"] == 1
    assert two.parameters["n_threads"] == (2 if mode == "rerank" else 1)
    assert one.model.candidates_ == two.model.candidates_


def test_max_time_ends_the_search():
    X, y = law()
    start = time.perf_counter()
    model = quick(n_generations=1_000_000, max_time=1).fit(X, y)
    assert time.perf_counter() - start < 60
    assert 1 <= model.n_generations_ < 1_000_000


def test_allowed_symbols_are_what_formulas_are_made_of():
    X, y = law()
    model = quick(allowed_symbols="add,mul,constant,variable").fit(X, y)
    for candidate in model.candidates_:
        ops = set(parse_formula(candidate.formula).ops)
        assert ops <= {"add", "sub", "mul", "neg", "const", "x"}, candidate.formula


@pytest.mark.parametrize(
    "symbols",
    ["add,wavelet,variable", "add,constant", "", "variable", "constant, variable"],
)
def test_unknown_symbols_are_refused(symbols):
    X, y = law()
    with pytest.raises(ValueError, match="allowed_symbols must be"):
        quick(allowed_symbols=symbols).fit(X, y)


# -- the answer ------------------------------------------------------------------------


def test_the_choice_is_the_lowest_eic_in_the_window():
    X, y = law()
    model = quick(n_generations=15).fit(X, y)
    best = min(c.bic for c in model.candidates_)
    window = [c for c in model.candidates_ if c.bic <= best + 6]
    assert model.eic_ == min(c.eic for c in window)
    plain = clone(model).set_params(delta_bic=0.0).fit(X, y)
    assert min(plain.candidates_, key=lambda c: c.bic).formula == plain.formula_
    assert min(c.bic for c in plain.candidates_) == best


def test_candidates_fit_no_worse_than_operon_says():
    """Scale and offset in double precision; constants joined."""
    X, y = law()
    spied = Spied(quick(n_generations=15, delta_bic=1e9), X, y)
    ours = sorted(c.mse for c in spied.model.candidates_)
    assert min(abs(np.array(ours) - y.var())) < 1e-9  # the mean is always there
    for entry in spied.engine.pareto_front_:
        theirs = entry["mean_squared_error"]
        assert min(abs(np.array(ours) / theirs - 1)) < 1e-4
    for candidate in spied.model.candidates_:
        values = parse_formula(candidate.formula).evaluate(X)
        mse = np.mean((values - y) ** 2)
        assert mse == pytest.approx(candidate.mse, rel=1e-9)


def test_digits_of_the_candidates_are_those_of_their_text():
    X, y = law()
    model = quick(n_rows=20, aggregate="mean").fit(X, y)
    rows = pick_rows(len(X), 20, np.random.RandomState(0))
    for candidate in model.candidates_:
        digits = effective_information(candidate.formula, X[rows])
        assert candidate.eic == pytest.approx(digits)
    assert EICScorer(metric=None, aggregate="mean")(model, X[rows]) == pytest.approx(
        -min(model.eic_, 16)
    )


@pytest.mark.parametrize("scale", [-660, -100, 40, 500])
def test_scales_beyond_single_precision(scale):
    """Columns beyond it look the same to operon, up to a power of two."""
    X, y = law()
    far, near = 2.0**scale, 2.0**11
    expected = quick().fit(near * X, y).predict(near * X)
    found = quick().fit(far * X, y).predict(far * X)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    expected = quick().fit(X, near * y).predict(X) / near
    np.testing.assert_allclose(
        quick().fit(X, far * y).predict(X) / far, expected, rtol=1e-6
    )


def test_power_of_two():
    assert power_of_two(np.array([0.0, 0.0])) == 1
    assert power_of_two(np.array([-3.0, 1000.0])) == 1
    for value in (1e-300, 1e-5, 5e3, 1.7e308, 5e-324):
        factor = power_of_two(np.array([value, 0.0]))
        assert np.frexp(factor)[0] == 0.5  # a power of two
        assert factor * value < 1 and (factor * value >= 0.5 or value < 1e-307)


def test_a_constant_target():
    X, _ = law()
    model = quick().fit(X, np.full(len(X), 3.25))
    np.testing.assert_allclose(model.predict(X), 3.25, rtol=1e-12)
    assert model.eic_ == 0
    assert np.array_equal(quick().fit(X, np.zeros(len(X))).predict(X), np.zeros(len(X)))


def test_predicts_where_pyoperon_is_missing():
    X, y = law()
    model = quick().fit(X, y)
    packed = pickle.dumps(model)
    assert b"pyoperon" not in packed
    blocked = {m: None for m in sys.modules if m.partition(".")[0] == "pyoperon"}
    with mock.patch.dict(sys.modules, blocked):
        found = pickle.loads(packed).predict(X)
    assert np.array_equal(found, model.predict(X))


def test_missing_pyoperon_says_what_to_install():
    X, y = law()
    text = without("pyoperon")(quick(), X, y)
    assert 'pip install "skmethods[symbolic]"' in text
    assert "EICSymbolicRegressor" in text


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    X, y = law()
    frame = pandas.DataFrame(X, columns=["force", "mass", "time"])
    model = quick().fit(frame, y)
    plain = quick().fit(X, y)
    expected = plain.formula(["force", "mass", "time"], None)
    assert model.formula_ == expected
    assert np.array_equal(model.predict(frame), plain.predict(X))
