"""EICScorer inside scikit-learn's model selection."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import make_scorer, mean_absolute_error, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from skmethods import EICScorer, effective_information
from skmethods.symbolic._parse import parse_formula

STABLE = "1/(sqrt(x0 + 1) + sqrt(x0))"
UNSTABLE = "sqrt(x0 + 1) - sqrt(x0)"


class Law(RegressorMixin, BaseEstimator):
    """Predicts by a fixed formula."""

    def __init__(self, text=STABLE):
        self.text = text

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def formula(self):
        return self.text

    def predict(self, X):
        return parse_formula(self.text).evaluate(X)


@pytest.fixture
def data():
    X = np.linspace(50, 500, 60)[:, None]
    y = 1 / (np.sqrt(X[:, 0] + 1) + np.sqrt(X[:, 0]))
    return X, y + 1e-3 * np.sin(7 * X[:, 0])


@pytest.mark.parametrize("aggregate", ["mean", "logmean", "median", 0.95])
def test_is_the_metric_minus_weighted_digits(data, aggregate):
    X, y = data
    digits = effective_information(UNSTABLE, X, aggregate=aggregate)
    model = Law(UNSTABLE).fit(X, y)
    alone = EICScorer(metric=None, aggregate=aggregate)
    assert alone(model, X) == pytest.approx(-digits)
    r2 = r2_score(y, model.predict(X))
    assert EICScorer(aggregate=aggregate)(model, X, y) == pytest.approx(r2 - digits)
    tenth = EICScorer(weight=0.1, aggregate=aggregate)
    assert tenth(model, X, y) == pytest.approx(r2 - 0.1 * digits)
    assert EICScorer(weight=0.0)(model, X, y) == pytest.approx(r2)


def test_aggregates_differ(data):
    X, _ = data
    scores = [
        EICScorer(metric=None, aggregate=a)(Law(UNSTABLE), X)
        for a in ("mean", "logmean", "median", 0.95)
    ]
    assert len(set(scores)) == 4


@pytest.mark.parametrize(
    "metric",
    [
        "neg_mean_absolute_error",
        make_scorer(mean_absolute_error, greater_is_better=False),
    ],
)
def test_metrics_by_name_and_by_scorer(data, metric):
    X, y = data
    model = Law().fit(X, y)
    expected = -mean_absolute_error(y, model.predict(X))
    expected -= effective_information(STABLE, X, aggregate="logmean")
    assert EICScorer(metric=metric)(model, X, y) == pytest.approx(expected)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_prefers_the_stable_writing(data, n_jobs):
    """Both formulas are the same function, so no other score can tell them apart."""
    X, y = data
    grid = {"text": [UNSTABLE, STABLE]}
    search = GridSearchCV(Law(), grid, cv=3, n_jobs=n_jobs, scoring=EICScorer())
    search.fit(X, y)
    assert search.best_params_["text"] == STABLE
    unstable, stable = search.cv_results_["mean_test_score"]
    assert stable - unstable > 2
    plain = GridSearchCV(Law(), grid, cv=3, scoring="r2").fit(X, y)
    assert np.ptp(plain.cv_results_["mean_test_score"]) < 1e-9
    found = EICScorer()(search, X, y)  # a fitted search counts as its best estimator
    assert found == pytest.approx(EICScorer()(search.best_estimator_, X, y))


def test_cross_val_score_in_workers(data):
    X, y = data
    here = cross_val_score(Law(), X, y, cv=3, scoring=EICScorer(), n_jobs=1)
    there = cross_val_score(Law(), X, y, cv=3, scoring=EICScorer(), n_jobs=2)
    assert np.array_equal(here, there)
    assert np.isfinite(here).all()


def test_beside_other_metrics_and_with_metadata_routing(data):
    X, y = data
    scoring = {"sanity": EICScorer(metric=None), "r2": "r2"}
    for routing in (False, True):
        with sklearn.config_context(enable_metadata_routing=routing):
            search = GridSearchCV(
                Law(),
                {"text": [UNSTABLE, STABLE]},
                cv=3,
                scoring=scoring,
                refit="sanity",
            ).fit(X, y)
            assert search.best_params_["text"] == STABLE
            both = search.cv_results_
            alone = GridSearchCV(
                Law(), {"text": [UNSTABLE, STABLE]}, cv=3, scoring=EICScorer()
            ).fit(X, y)
        np.testing.assert_allclose(
            alone.cv_results_["mean_test_score"],
            both["mean_test_r2"] + both["mean_test_sanity"],
        )


def test_pipeline_is_scored_on_what_its_last_step_sees(data):
    X, y = data
    pipeline = make_pipeline(
        FunctionTransformer(), MinMaxScaler((1, 2)), Law(UNSTABLE)
    ).fit(X, y)
    scaled = MinMaxScaler((1, 2)).fit_transform(X)
    digits = effective_information(UNSTABLE, scaled, aggregate="logmean")
    assert EICScorer(metric=None)(pipeline, X) == pytest.approx(-digits)
    assert digits != pytest.approx(
        effective_information(UNSTABLE, X, aggregate="logmean")
    )
    single = make_pipeline(Law(UNSTABLE)).fit(X, y)
    expected = EICScorer(metric=None)(Law(UNSTABLE), X)
    assert EICScorer(metric=None)(single, X) == expected


@pytest.mark.parametrize("text", ["x0 - x0", "log(-x0)", "1/(x0 - 50)"])
def test_infinite_digits_give_a_finite_floor(data, text):
    X, _ = data
    assert effective_information(text, X) == np.inf
    assert EICScorer(metric=None)(Law(text), X) == -16
    assert EICScorer(metric=None, weight=0.5)(Law(text), X) == -8


def test_weights_reach_metric_and_digits(data):
    X, y = data
    model = Law(UNSTABLE).fit(X, y)
    counts = np.arange(len(X)) % 3
    rows = np.repeat(np.arange(len(X)), counts)
    weighted = EICScorer()(model, X, y, sample_weight=counts)
    assert weighted == pytest.approx(EICScorer()(model, X[rows], y[rows]))
    assert weighted != pytest.approx(EICScorer()(model, X, y))


def test_routed_weights_reach_metric_and_digits(data):
    X, y = data
    weight = np.linspace(0, 5, len(y))
    seen = []

    class Spied(Law):
        def fit(self, X, y, sample_weight=None):
            return super().fit(X, y)

    def metric(estimator, X, y, sample_weight=None):
        seen.append(sample_weight)
        return r2_score(y, estimator.predict(X), sample_weight=sample_weight)

    def expected(scorer):
        total = []
        for train, test in KFold(3).split(X):
            model = Spied(UNSTABLE).fit(X[train], y[train])
            total.append(scorer(model, X[test], y[test], sample_weight=weight[test]))
        return total

    scorer = EICScorer(metric=metric)
    with pytest.raises(RuntimeError, match="metadata routing"):
        scorer.set_score_request(sample_weight=True)
    by_hand = expected(scorer)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Spied(UNSTABLE).set_fit_request(sample_weight=True)
        asks = EICScorer(metric=metric).set_score_request(sample_weight=True)
        assert asks != scorer and asks == clone(GridSearchCV(
            model, {}, scoring=asks)).scoring  # fmt: skip
        seen.clear()
        found = cross_validate(
            model, X, y, cv=KFold(3), scoring=asks, params={"sample_weight": weight}
        )["test_score"]
        np.testing.assert_allclose(found, by_hand)
        assert all(w is not None for w in seen) and len(seen) == 3
        search = GridSearchCV(model, {"text": [UNSTABLE]}, cv=KFold(3), scoring=asks)
        search.fit(X, y, sample_weight=weight)
        assert search.cv_results_["mean_test_score"][0] == pytest.approx(
            np.mean(by_hand)
        )
        with pytest.raises(UnsetMetadataPassedError, match="EICScorer"):
            cross_validate(
                model, X, y, scoring=scorer, params={"sample_weight": weight}
            )
        asks = pickle.loads(pickle.dumps(EICScorer().set_score_request(
            sample_weight="w")))  # fmt: skip
        assert asks.get_metadata_routing().score.requests == {"sample_weight": "w"}
        with pytest.raises(ValueError, match="sample_weight"):
            asks.set_score_request(sample_weight=3)
        assert asks.get_metadata_routing().score.requests == {"sample_weight": "w"}
        model.set_fit_request(sample_weight=False)
        search = GridSearchCV(model, {"text": [UNSTABLE]}, cv=3, scoring=scorer)
        search.fit(X, y)  # no weights, no request


@pytest.mark.parametrize("several", [False, True])
def test_a_search_weights_its_scores_without_routing(data, several):
    X, y = data

    class Weighted(Law):
        def fit(self, X, y, sample_weight=None):
            return super().fit(X, y)

    scoring = {"sanity": EICScorer()} if several else EICScorer()
    search = GridSearchCV(
        Weighted(), {"text": [UNSTABLE]}, cv=3, scoring=scoring, refit=False
    )
    name = "mean_test_sanity" if several else "mean_test_score"
    plain = search.fit(X, y).cv_results_[name]
    weighted = search.fit(X, y, sample_weight=np.linspace(0, 5, len(y)))
    assert weighted.cv_results_[name] != pytest.approx(plain)


def test_names_of_a_frame_serve_a_model_without_its_own(data):
    X, _ = data
    frame = pd.DataFrame({"x1": np.ones(len(X)), "x0": X[:, 0]})
    named = frame.set_axis(["one", "speed"], axis=1)
    expected = -effective_information(UNSTABLE, X, aggregate="logmean")
    sanity = EICScorer(metric=None)
    assert sanity(Law(UNSTABLE), frame) == pytest.approx(expected)
    text = UNSTABLE.replace("x0", "speed")
    assert sanity(Law(text), named) == pytest.approx(expected)


def test_huge_weights(data, recwarn):
    X, y = data
    model, huge = Law(UNSTABLE).fit(X, y), np.full(len(X), 1e308)
    sanity = EICScorer(metric=None)
    assert sanity(model, X, sample_weight=huge) == pytest.approx(sanity(model, X))
    with pytest.raises(ValueError, match="sample_weight sums to more"):
        EICScorer()(model, X, y, sample_weight=huge)
    assert not recwarn.list


def test_a_model_with_several_formulas_counts_as_its_worst(data):
    X, _ = data

    class Two:
        def formula(self):
            return {"a": STABLE, "b": UNSTABLE}

    scorer = EICScorer(metric=None)
    assert scorer(Two(), X) == scorer(Law(UNSTABLE), X) < scorer(Law(STABLE), X)


def test_engines_of_others_are_scored():
    genetic = pytest.importorskip("gplearn.genetic")
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (60, 2))
    y = X[:, 0] * X[:, 1]
    engine = genetic.SymbolicRegressor(
        function_set=("add", "mul"), population_size=50, generations=2, random_state=0
    )
    engine.fit(X, y)
    digits = effective_information(
        str(engine._program), X, aggregate="logmean", protected="gplearn"
    )
    assert EICScorer(metric=None)(engine, X) == pytest.approx(-digits, abs=1e-3)


def test_clones_pickles_compares_and_shows_itself(data):
    X, y = data
    scorer = EICScorer(weight=0.5, metric="neg_mean_squared_error", aggregate=0.9)
    again = pickle.loads(pickle.dumps(scorer))
    assert again == scorer and hash(again) == hash(scorer) and again is not scorer
    assert again != EICScorer() and scorer != "scorer"
    assert eval(repr(scorer), {"EICScorer": EICScorer}) == scorer
    model = Law(UNSTABLE).fit(X, y)
    assert again(model, X, y) == scorer(model, X, y)
    search = clone(GridSearchCV(Law(), {"text": [STABLE]}, scoring=scorer))
    assert search.scoring == scorer


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"weight": -1}, ValueError, "weight must"),
        ({"weight": np.nan}, ValueError, "weight must"),
        ({"weight": "1"}, ValueError, "weight must"),
        ({"metric": 3}, TypeError, "metric must"),
        ({"aggregate": "max"}, ValueError, "aggregate must"),
        ({"aggregate": 1.0}, ValueError, "aggregate must"),
    ],
)
def test_bad_parameters(params, error, words):
    with pytest.raises(error, match=words):
        EICScorer(**params)


def test_bad_calls(data):
    X, y = data
    with pytest.raises(ValueError, match="needs y"):
        EICScorer()(Law(), X)
    with pytest.raises(ValueError, match="no_such"):
        EICScorer(metric="no_such")(Law(), X, y)
    with pytest.raises(ValueError, match="NaN"):
        EICScorer(metric=None)(Law(), np.where(X > 400, np.nan, X))
    with pytest.raises(ValueError, match="sample_weight"):
        EICScorer(metric=None)(Law(), X, sample_weight=-np.ones(len(X)))
    from sklearn.linear_model import LinearRegression

    with pytest.raises(TypeError, match="No formula is found in LinearRegression"):
        EICScorer()(LinearRegression().fit(X, y), X, y)
