"""Checks of life inside scikit-learn: searches, workers, metadata routing."""

import warnings

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tests._checks import check, fit_takes, has_parameter
from tests._checks_callbacks import mean_score, searched
from tests._observe import assert_same, fit, results, same


def _seeded(estimator):
    estimator = clone(estimator)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    return estimator


@check()
def check_grid_search(entry, estimator):
    """A search over a pipeline finds the scores that fits by hand give."""
    X, y = entry.make_data()
    search = fit(searched(entry, _seeded(estimator)), X, y)
    (name, values), *_ = entry.grid.items()
    assert len(search.cv_results_["params"]) == np.prod(
        [len(v) for v in entry.grid.values()]
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    for value in values:
        pipeline = clone(search.estimator).set_params(**{f"est__{name}": value})
        assert pipeline["est"].get_params()[name] == value, f"{name} cannot be set"
    best = search.best_estimator_
    scaled = StandardScaler().fit(X)
    by_hand = clone(_seeded(estimator)).set_params(
        **{k.removeprefix("est__"): v for k, v in search.best_params_.items()}
    )
    Z = scaled.transform(X)
    assert_same(
        results(fit(by_hand, Z, y), Z), results(best[-1], Z), "a pipeline in a search"
    )


@check()
def check_worker_processes(entry, estimator):
    """``cross_val_score`` gives the same in loky workers as here."""
    X, y = entry.make_data()
    scoring = None if hasattr(estimator, "score") else mean_score
    found = []
    for n_jobs in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
            found.append(
                cross_val_score(
                    _seeded(estimator),
                    X,
                    y,
                    cv=2,
                    n_jobs=n_jobs,
                    scoring=scoring,
                    error_score="raise",
                )
            )
    assert same(*found), f"scores here {found[0]}, in workers {found[1]}"


@check(has_parameter("n_jobs"))
def check_n_jobs(entry, estimator):
    """``n_jobs`` changes no output; 0 is refused by name."""
    X, y = entry.make_data()
    one, two, all_ = (
        results(fit(_seeded(estimator).set_params(n_jobs=n), X, y), X)
        for n in (1, 2, -1)
    )
    assert_same(one, two, "n_jobs=2")
    assert_same(one, all_, "n_jobs=-1")
    try:
        results(fit(_seeded(estimator).set_params(n_jobs=0), X, y), X)
    except ValueError as exc:
        assert "n_jobs" in str(exc), exc
    else:
        raise AssertionError("n_jobs=0 is accepted")


@check()
def check_routing_is_harmless(entry, estimator):
    """With metadata routing on, pipelines and searches work as before."""
    X, y = entry.make_data()
    plain = results(fit(_seeded(estimator), X, y), X)
    with sklearn.config_context(enable_metadata_routing=True):
        assert_same(plain, results(fit(_seeded(estimator), X, y), X), "routing")
        assert hasattr(estimator, "get_metadata_routing")
        fit(searched(entry, _seeded(estimator)), X, y)


@check(fit_takes("sample_weight"))
def check_weights_are_routed(entry, estimator):
    """Weights reach ``fit`` through a pipeline and a search, if asked for."""
    X, y = entry.make_data()
    uneven = np.where(np.arange(len(X)) < len(X) // 2, 0.1, 5.0)
    Z = StandardScaler().fit(X).transform(X)
    expected = results(fit(_seeded(estimator), Z, y, sample_weight=uneven), Z)

    def pipeline(est):
        scale = StandardScaler()
        if sklearn.get_config()["enable_metadata_routing"]:
            scale.set_fit_request(sample_weight=False)
        return Pipeline([("scale", scale), ("est", est)])

    off = fit(pipeline(_seeded(estimator)), X, y, est__sample_weight=uneven)
    assert_same(expected, results(off[-1], Z), "a pipeline without routing")
    with sklearn.config_context(enable_metadata_routing=True):
        asks = _seeded(estimator).set_fit_request(sample_weight=True)
        if hasattr(asks, "set_score_request"):
            asks.set_score_request(sample_weight=True)
        on = fit(pipeline(asks), X, y, sample_weight=uneven)
        assert_same(expected, results(on[-1], Z), "a pipeline with routing")
        (name, values), *_ = entry.grid.items()
        grid = {f"est__{name}": values[:1]}
        search = GridSearchCV(pipeline(asks), grid, cv=2, error_score="raise")
        best = fit(search, X, y, sample_weight=uneven).best_estimator_[-1]
        again = _seeded(estimator).set_params(**{name: values[0]})
        assert_same(
            results(fit(again, Z, y, sample_weight=uneven), Z),
            results(best, Z),
            "a search with routing",
        )
        try:
            fit(pipeline(_seeded(estimator)), X, y, sample_weight=uneven)
        except sklearn.exceptions.UnsetMetadataPassedError:
            pass
        else:
            raise AssertionError("weights that nobody asked for are accepted")
