"""EICSelectedRegressor: the choice against brute force, its engines and its pickles."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skmethods import ECSELRegressor, EICSelectedRegressor, effective_information
from skmethods.symbolic._parse import parse_formula
from skmethods.symbolic._selected import choose, errors, information, pick_rows
from tests._checks_state import in_fresh_process
from tests.symbolic.test_engines import PySRDouble, gplearn, law, operon

FORMULAS = [
    "1.5",
    "x0*x1/x2**2 + 1.5",
    "x0*x1/x2**2 + 1.5 + (x0 + 100) - (x0 + 100)",
    "x0*x1/x2**2 + 1.49",
    "log(x0 - 2)",
]


class Listed(RegressorMixin, BaseEstimator):
    """An engine with a fixed list of formulas; keeps what it was fitted with."""

    def __init__(self, formulas=tuple(FORMULAS), random_state=None):
        self.formulas = formulas
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, note=None):
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        self.n_features_in_ = np.shape(X)[1]
        self.given_ = type(X), sample_weight, note
        self.candidates_ = list(self.formulas)
        return self

    def predict(self, X):
        return parse_formula(self.formulas[0]).evaluate(X)


def by_hand(X, y, formulas, delta_bic, weight=None):
    """The choice, written out."""
    weight = np.ones(len(y)) if weight is None else weight
    n = weight.sum()
    found = []
    for text in formulas:
        tape = parse_formula(text)
        mse = np.average((tape.evaluate(X) - y) ** 2, weights=weight)
        bic = n * np.log(mse) + (tape.size + 1) / 2 * np.log(n)
        digits = effective_information(
            text, X, aggregate="logmean", sample_weight=weight
        )
        found.append((digits, bic, mse, text))
    best = min(f[1] for f in found if np.isfinite(f[2]))
    return min(f for f in found if np.isfinite(f[2]) and f[1] <= best + delta_bic)


# -- the choice ------------------------------------------------------------------------


@pytest.mark.parametrize("delta_bic", [0.0, 6.0, 30.0, 1e9])
def test_chooses_as_by_hand(delta_bic):
    X, y = law()
    model = EICSelectedRegressor(estimator=Listed(), delta_bic=delta_bic).fit(X, y)
    eic, bic, mse, text = by_hand(X, y, FORMULAS, delta_bic)
    assert parse_formula(model.formula_) == parse_formula(text)
    chosen = model.candidates_[model.best_index_]
    assert chosen.formula == model.formula_
    np.testing.assert_allclose(
        (chosen.eic, chosen.bic, chosen.mse), (eic, bic, mse), rtol=1e-9
    )
    assert chosen.eic == model.eic_
    np.testing.assert_array_equal(
        model.predict(X), parse_formula(text).evaluate(X) * np.ones(len(X))
    )


def test_a_wider_window_gives_digits_never_fewer():
    X, y = law()
    found = [
        EICSelectedRegressor(estimator=Listed(), delta_bic=d).fit(X, y).eic_
        for d in (0.0, 3.0, 10.0, 100.0, 1e9)
    ]
    assert found == sorted(found, reverse=True) and found[-1] == 0


def test_the_unstable_writing_of_one_law_loses():
    X, y = law()
    stable, unstable = FORMULAS[1:3]
    for order in ((stable, unstable), (unstable, stable)):
        model = EICSelectedRegressor(estimator=Listed(order), delta_bic=1e9).fit(X, y)
        assert parse_formula(model.formula_) == parse_formula(stable)


def test_equal_digits_go_to_the_lower_bic():
    assert choose(np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.5]), 6) == 1
    assert choose(np.array([3.0, 1.0]), np.array([0.5, 0.5 + 1e-12]), 6) == 1
    assert choose(np.array([3.0, 1.0]), np.array([0.4, 0.5]), 6) == 0
    assert choose(np.array([7.1, 1.0]), np.array([0.4, 0.5]), 6) == 1
    assert choose(np.array([3.0, 1.0, np.inf]), np.full(3, np.inf), 6) == 1


def test_a_candidate_without_a_value_at_a_row_is_never_chosen():
    X, y = law()
    with pytest.raises(ValueError, match=r"None of the 1 candidate.*finite value"):
        EICSelectedRegressor(estimator=Listed(FORMULAS[-1:])).fit(X, y)
    model = EICSelectedRegressor(
        estimator=Listed([FORMULAS[-1], "1.5"]), delta_bic=1e308
    ).fit(X, y)
    assert model.formula_ == "1.5"


def test_the_table_holds_the_window_and_the_front_simplest_first():
    X, y = law()
    model = EICSelectedRegressor(estimator=Listed(), delta_bic=1.0).fit(X, y)
    sizes = [c.size for c in model.candidates_]
    assert sizes == sorted(sizes)
    texts = [parse_formula(c.formula).to_text() for c in model.candidates_]
    assert parse_formula(FORMULAS[0]).to_text() in texts  # on the front
    assert parse_formula(FORMULAS[-1]).to_text() not in texts
    wide = EICSelectedRegressor(estimator=Listed(), delta_bic=1e9).fit(X, y)
    assert len(wide.candidates_) == 4 > len(model.candidates_)


def test_errors_and_bic_at_any_scale():
    X, y = law()
    tapes = [parse_formula(text) for text in FORMULAS]
    log_mse, mse = errors(tapes, X, y, np.ones(len(y)))
    np.testing.assert_allclose(log_mse[:4], np.log(mse[:4]))
    assert np.isinf(log_mse[4]) and np.isinf(mse[4])
    # 1e300 times as large: the square overflows, its logarithm does not.
    big = [parse_formula(f"1e300*({text})") for text in FORMULAS[:4]]
    far, square = errors(big, X, 1e300 * y, np.ones(len(y)))
    np.testing.assert_allclose(far, log_mse[:4] + 600 * np.log(10))
    assert np.isinf(square).all()
    # An exact law is not told from one that is off by rounding.
    exact = [parse_formula("x0 + x1"), parse_formula("x1 + x0 + 1e-16*x2")]
    same, _ = errors(exact, X, X[:, 0] + X[:, 1], np.ones(len(y)))
    assert same[0] == same[1] > -np.inf
    np.testing.assert_allclose(
        information(log_mse[:1], np.array([7]), 80.0), 80 * log_mse[0] + 4 * np.log(80)
    )


def test_rows_for_the_digits():
    rng = np.random.RandomState
    assert np.array_equal(pick_rows(5, None, rng(0)), np.arange(5))
    assert np.array_equal(pick_rows(5, 5, rng(0)), np.arange(5))
    some = pick_rows(100, 10, rng(0))
    assert len(set(some)) == 10 and (np.diff(some) > 0).all() and some[-1] < 100
    assert np.array_equal(some, pick_rows(100, 10, rng(0)))
    assert not np.array_equal(some, pick_rows(100, 10, rng(1)))
    X, y = law()
    text = FORMULAS[2]
    model = EICSelectedRegressor(estimator=Listed([text]), n_rows=20, random_state=3)
    rows = pick_rows(len(X), 20, rng(3))
    expected = effective_information(text, X[rows], aggregate="logmean")
    assert model.fit(X, y).eic_ == pytest.approx(expected)


# -- weights, metadata, names ----------------------------------------------------------


def test_weights_count_rows():
    X, y = law()
    counts = np.arange(len(X)) % 3
    rows = np.repeat(np.arange(len(X)), counts)
    engine = EICSelectedRegressor(estimator=Listed(), n_rows=None)
    weighted = clone(engine).fit(X, y, sample_weight=counts)
    repeated = clone(engine).fit(X[rows], y[rows])
    for a, b in zip(weighted.candidates_, repeated.candidates_, strict=True):
        assert a.formula == b.formula
        np.testing.assert_allclose(a[1:], b[1:], rtol=1e-9)
    plain = clone(engine).fit(X, y)
    assert plain.candidates_[0].mse != pytest.approx(weighted.candidates_[0].mse)
    assert np.array_equal(weighted.estimator_.given_[1], counts)


def test_an_engine_without_weights_is_refused_with_them():
    X, y = law()
    model = EICSelectedRegressor(estimator=operon())
    with pytest.raises(ValueError, match="SymbolicRegressor takes no sample_weight"):
        model.fit(X, y, sample_weight=np.ones(len(y)))


def test_metadata_goes_where_it_is_asked_for():
    X, y = law()
    weight = np.linspace(1, 2, len(y))
    off = EICSelectedRegressor(estimator=Listed()).fit(X, y, note="hello")
    assert off.estimator_.given_[2] == "hello"
    with sklearn.config_context(enable_metadata_routing=True):
        engine = Listed().set_fit_request(note=True, sample_weight=False)
        model = EICSelectedRegressor(estimator=engine).fit(
            X, y, sample_weight=weight, note="hi"
        )
        assert model.estimator_.given_[1:] == (None, "hi")
        asks = Listed().set_fit_request(sample_weight=True)
        model = EICSelectedRegressor(estimator=asks).fit(X, y, sample_weight=weight)
        assert np.array_equal(model.estimator_.given_[1], weight)
        with pytest.raises(UnsetMetadataPassedError, match="Listed"):
            EICSelectedRegressor(estimator=Listed()).fit(X, y, sample_weight=weight)
        default = EICSelectedRegressor().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), default)
        pipeline.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_names_of_columns_go_to_the_engine_and_into_the_formula(kind):
    frames = pytest.importorskip(kind)
    X, y = law()
    names = ["force", "mass", "time"]
    frame = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    texts = ["force", "force*mass/time**2 + 1.5"]
    model = EICSelectedRegressor(estimator=Listed(texts)).fit(frame, y)
    assert list(model.estimator_.feature_names_in_) == names
    assert model.formula() == "force*mass/time**2 + 1.5" == model.formula_
    assert model.formula(["a", "b", "c"]) == "a*b/c**2 + 1.5"
    odd = frames.DataFrame(dict(zip(["a b", "x0", "c"], X.T, strict=True)))
    model = EICSelectedRegressor(estimator=Listed()).fit(odd, y)  # x0 is the first
    assert model.formula(precision=2) == "x0*x1/x2**2 + 1.5"
    with pytest.raises(ValueError, match="feature_names has 2 names"):
        model.formula(["a", "b"])


class Nameless(Listed):
    """Stores no feature_names_in_, as scikit-learn does not ask engines to."""

    def fit(self, X, y):
        self.candidates_ = list(self.formulas)
        return self


@pytest.mark.parametrize("own", [False, True])
def test_names_are_known_where_the_engine_stores_none(own):
    pandas = pytest.importorskip("pandas")
    X, y = law()

    def fitted(texts, frame):
        options = {"candidates": lambda engine: texts} if own else {}
        engine = Nameless(() if own else tuple(texts))
        return EICSelectedRegressor(estimator=engine, **options).fit(frame, y)

    expected = parse_formula("x0*x1/x2**2 + 1.5").evaluate(X)
    for names, text in [
        (["force", "mass", "time"], "force*mass/time**2 + 1.5"),
        (["force", "mass", "time"], "x0*x1/x2**2 + 1.5"),
        (["x2", "x1", "x0"], "x2*x1/x0**2 + 1.5"),  # names, not positions
        (["_1", "_2", "_3"], "_1*_2/_3**2 + 1.5"),
        (["a b", "x0", "0"], "x0*x1/x2**2 + 1.5"),  # positions: not all identifiers
    ]:
        frame = pandas.DataFrame(dict(zip(names, X.T, strict=True)))
        model = fitted([text, "1.5"], frame)
        np.testing.assert_allclose(model.predict(frame), expected)
        if "mass" in names:  # what is written has the names
            text = text.replace("x0*x1/x2", "force*mass/time")
        assert model.formula() == text
    with pytest.raises(ValueError, match="unknown name 'x0'"):
        frame = pandas.DataFrame(dict(zip(["x1", "x2", "x3"], X.T, strict=True)))
        fitted(["x0*x1"], frame)


@pytest.mark.parametrize("own", [False, True])
def test_a_bad_candidate_is_named(own):
    X, y = law()
    for text, error, words in [
        ("x0 +", ValueError, "operand is missing"),
        (None, TypeError, "must be text"),
        ("x9", ValueError, "unknown name"),
    ]:
        texts = ("1.5", text)
        options = {"candidates": lambda engine, texts=texts: list(texts)} if own else {}
        model = EICSelectedRegressor(estimator=Nameless(texts), **options)
        name = "candidates" if own else "candidates_"
        with pytest.raises(error, match=rf"^{name}\[1\]: .*{words}"):
            model.fit(X, y)


@pytest.mark.parametrize("weight", [1e306, 1e307, 1e308, 1e14])
def test_weights_that_count_no_rows(weight, recwarn):
    X, y = law()
    with pytest.raises(ValueError, match=r"sample_weight sums to .*count rows"):
        EICSelectedRegressor(estimator=Listed()).fit(
            X, y, sample_weight=np.full(len(y), weight)
        )
    assert not [w for w in recwarn if w.category is RuntimeWarning]


def test_one_formula_of_operon_is_nothing_to_choose_from():
    X, y = law()
    for objectives in (None, ["r2"]):  # None is pyoperon's default
        model = EICSelectedRegressor(estimator=operon(objectives=objectives))
        with pytest.warns(
            UserWarning, match=r"objectives=\['r2', 'length'\]"
        ) as caught:
            model.fit(X, y)
        assert len(model.candidates_) == 1
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        EICSelectedRegressor(estimator=operon()).fit(X, y)
        EICSelectedRegressor(estimator=Listed(FORMULAS[:1])).fit(X, y)


def test_bad_requests_of_a_text():
    X, y = law()
    model = EICSelectedRegressor(estimator=Listed()).fit(X, y)
    for wrong in (1.5, "3", True):
        with pytest.raises(TypeError, match="precision"):
            model.formula(precision=wrong)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="precision must be at least 1"):
            model.formula(precision=wrong)
    with pytest.raises(ValueError, match="'u' comes more than once"):
        model.formula(["u", "u", "v"])
    for wrong in ("abc", {"a", "b", "c"}):
        with pytest.raises(TypeError, match="feature_names must be a list"):
            model.formula(wrong)


def test_digits_of_the_text():
    X, y = law()
    model = EICSelectedRegressor(estimator=Listed(["x0*1.23456789"])).fit(X, y)
    assert model.formula() == "x0*1.23"
    assert model.formula(precision=5) == "x0*1.2346"
    assert model.formula(precision=None) == model.formula_ == "x0*1.23456789"


# -- engines ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [operon, gplearn], ids=["operon", "gplearn"])
def test_engines_of_others(make):
    X, y = law()
    model = EICSelectedRegressor(estimator=make()).fit(X, y)
    assert len(model.candidates_) > 1
    worst = np.mean((y - y.mean()) ** 2)
    assert np.mean((model.predict(X) - y) ** 2) < worst
    tight = clone(model).set_params(delta_bic=0.0).fit(X, y)
    assert model.eic_ <= tight.eic_
    best = min(tight.candidates_, key=lambda c: c.bic)
    assert tight.formula_ == best.formula


def test_an_estimator_that_selects_is_an_engine_too():
    X, y = law()
    inner = EICSelectedRegressor(estimator=Listed(), delta_bic=1e9)
    outer = EICSelectedRegressor(estimator=inner, delta_bic=0.0).fit(X, y)
    assert outer.estimator_.formula_ == "1.5"
    plain = EICSelectedRegressor(estimator=Listed(), delta_bic=0.0).fit(X, y)
    assert outer.formula_ == plain.formula_ != "1.5"


def test_pysr_double():
    X, y = law()

    class Engine(PySRDouble, BaseEstimator):
        def __init__(self):
            pass

        def fit(self, X, y):
            PySRDouble.__init__(self, ["x0", "x0*x1/x2^2 + 1.5"], "x0")
            return self

    assert EICSelectedRegressor(estimator=Engine()).fit(X, y).score(X, y) > 0.9


def test_ecsel_is_the_default_and_its_parameters_can_be_searched():
    X, y = law()
    assert isinstance(EICSelectedRegressor().fit(X, y).estimator_, ECSELRegressor)
    model = EICSelectedRegressor(estimator=ECSELRegressor(), random_state=0)
    grid = {"estimator__max_terms": [1, 2], "delta_bic": [0.0, 6.0]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.score(X, y) > 0.9


def test_own_candidates():
    X, y = law()
    seen = []

    def found(engine):
        seen.append(engine)
        return ["x0*x1/x2**2 + 1.5"]

    model = EICSelectedRegressor(estimator=Listed(), candidates=found).fit(X, y)
    assert model.formula_ == "x0*x1/x2**2 + 1.5"
    assert seen == [model.estimator_]
    empty = EICSelectedRegressor(estimator=Listed(), candidates=lambda engine: [])
    with pytest.raises(ValueError, match="Listed offers no formula"):
        empty.fit(X, y)


def test_unknown_engines_are_refused():
    from sklearn.linear_model import LinearRegression

    X, y = law()
    with pytest.raises(TypeError, match=r"LinearRegression.*candidates="):
        EICSelectedRegressor(estimator=LinearRegression()).fit(X, y)


def test_the_engine_is_cloned_and_seeded():
    X, y = law()
    engine = Listed()
    model = EICSelectedRegressor(estimator=engine, random_state=0).fit(X, y)
    assert not hasattr(engine, "candidates_") and engine.random_state is None
    seed = model.estimator_.random_state
    assert isinstance(seed, int)
    assert clone(model).fit(X, y).estimator_.random_state == seed
    other = clone(model).set_params(random_state=1).fit(X, y)
    assert other.estimator_.random_state != seed
    own = EICSelectedRegressor(estimator=Listed(random_state=5), random_state=0)
    assert own.fit(X, y).estimator_.random_state == 5


def test_callbacks_reach_the_engine(capsys):
    pytest.importorskip("rich")
    X, y = law()
    model = EICSelectedRegressor(estimator=ECSELRegressor(max_terms=1))
    model.set_callbacks(ProgressBar(max_propagation_depth=None))
    model.fit(X, y)
    text = capsys.readouterr().out
    assert "EICSelectedRegressor" in text and "ECSELRegressor" in text


# -- predicting ------------------------------------------------------------------------


def test_rows_without_a_value_get_the_mean_of_y_and_a_warning():
    X, y = law()
    model = EICSelectedRegressor(estimator=Listed(["log(x0)"])).fit(X, y)
    new = X[:5].copy()
    new[[1, 3], 0] = -1, 0
    with pytest.warns(UserWarning, match="at 2 of 5 rows of X, the first in row 1"):
        values = model.predict(new)
    assert values[1] == values[3] == pytest.approx(y.mean())
    np.testing.assert_array_equal(values[[0, 2, 4]], np.log(new[[0, 2, 4], 0]))


def test_pickles_predict_in_a_fresh_process():
    """Also with pyoperon, whose own fitted estimators cannot be pickled."""
    X, y = law()
    models = [
        EICSelectedRegressor(estimator=e).fit(X, y) for e in (operon(), gplearn())
    ]
    expected = [model.predict(X) for model in models]
    with pytest.raises(TypeError):
        pickle.dumps(models[0].estimator_)
    for model, values, kept in zip(models, expected, (False, True), strict=True):
        back = pickle.loads(pickle.dumps(model))
        assert hasattr(back, "estimator_") == kept
        assert hasattr(model, "estimator_"), "pickling took something away"
        assert back.candidates_ == model.candidates_
        assert np.array_equal(copy.deepcopy(model).predict(X), values)
    there, _ = in_fresh_process(models, X)
    for found, values in zip(there, expected, strict=True):
        assert np.array_equal(found["predict"], values)
