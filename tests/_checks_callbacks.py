"""Checks of progress and early stopping through scikit-learn's callbacks."""

import contextlib
import io
import itertools
import threading

import numpy as np
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tests._checks import check, is_iterative
from tests._observe import assert_same, fit, results


class Recorder:
    """Counts what happens; raises or predicts when told to."""

    def __init__(self, raises=None, when=1, predict=None):
        self.raises = raises
        self.when = when
        self.predict = predict
        self.setups = self.teardowns = self.begun = self.ended = 0
        self.announced = None
        self.predictions = []

    def setup(self, estimator, context):
        self.setups += 1
        self.announced = context.max_subtasks

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        if context.parent is not None:
            assert X is not None, "the callback sees no training data"
            self.begun += 1

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        iteration = context.max_subtasks == 0 and context.task_name != "fit"
        self.ended += iteration
        if self.predict is not None and fitted_estimator is not None:
            found = results(fitted_estimator, self.predict)
            self.predictions.append((context.task_name, found))
        if self.raises and self.ended >= self.when:
            raise self.raises
        return False

    def teardown(self, estimator, context):
        self.teardowns += 1


class StopAfter:
    """Stops each fit after some iterations; survives cloning and pickling."""

    def __init__(self, n):
        self.n = n

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        return context.parent is not None and context.task_id + 1 >= self.n

    def teardown(self, estimator, context):
        pass


def searched(entry, estimator):
    """A grid search over a pipeline of the estimator, as users build it."""
    pipeline = Pipeline([("scale", StandardScaler()), ("est", estimator)])
    grid = {f"est__{name}": values for name, values in entry.grid.items()}
    scoring = None if hasattr(estimator, "score") else mean_score
    return GridSearchCV(
        pipeline,
        grid,
        cv=2,
        scoring=scoring,
        error_score="raise",
    )


def mean_score(estimator, X, y=None):
    """For estimators without ``score``: the mean of what they say about the rows."""
    name = "score_samples" if hasattr(estimator, "score_samples") else "predict"
    return float(np.mean(getattr(estimator, name)(X)))


@check()
def check_supports_callbacks(entry, estimator):
    """Set up once, told of every iteration, torn down once; kept by a clone."""
    X, y = entry.make_data()
    seen = Recorder()
    est = clone(clone(estimator).set_callbacks(seen))
    fit(est, X, y)
    assert len(est._skl_callbacks) == 1, "clone loses callbacks"
    seen = est._skl_callbacks[0]
    assert (seen.setups, seen.teardowns) == (1, 1)
    if is_iterative(entry, estimator):
        assert seen.announced == estimator.max_iter, (
            f"announces {seen.announced} iterations, not max_iter"
        )
        assert seen.ended == seen.begun == est.n_iter_
    leftovers = [k for k in vars(est) if "callback" in k and k != "_skl_callbacks"]
    assert not leftovers, f"{leftovers} stay on the estimator"


@check()
def check_progress_bar(entry, estimator):
    """scikit-learn's ProgressBar runs, alone and around a grid search."""
    X, y = entry.make_data()
    alone = clone(estimator).set_callbacks(ProgressBar())
    search = searched(entry, clone(estimator))
    search.set_callbacks(ProgressBar(max_propagation_depth=None))
    for est in (alone, search):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            fit(est, X, y)
        assert type(estimator).__name__ in text.getvalue(), "no bar is named after it"
    running = [t for t in threading.enumerate() if "Monitor" in type(t).__name__]
    assert not running, "a progress thread is still running"


@check()
def check_fitted_estimator_predicts(entry, estimator):
    """The copy that a callback is given predicts; the last one as the result does."""
    X, y = entry.make_data()
    seen = Recorder(predict=X)
    est = clone(estimator)
    est.set_callbacks(seen)
    est = fit(est, X, y)
    assert seen.predictions, "no callback is ever given a fitted estimator"
    for task, found in seen.predictions:
        assert found.keys() == results(est, X).keys(), f"at {task}"
        for name, values in found.items():
            assert len(values) == len(X), f"{name} at {task}"
    last = seen.predictions[-1][1]
    for name, values in results(est, X).items():
        assert np.array_equal(values, last[name]), f"{name} of the last copy differs"


@check(is_iterative)
def check_callback_stops(entry, estimator):
    """A callback that returns True ends the training there; alone and in a search."""
    X, y = entry.make_data()
    longer = fit(clone(estimator), X, y).n_iter_
    assert longer > 2, "give the instance of _instances.py at least 3 iterations"
    est = clone(estimator).set_callbacks(StopAfter(2))
    assert fit(est, X, y).n_iter_ == 2
    for values in results(est, X).values():
        assert len(values) == len(X)
    search = searched(entry, clone(estimator).set_callbacks(StopAfter(2)))
    assert fit(search, X, y).best_estimator_[-1].n_iter_ == 2


@check()
def check_interrupted_fit(entry, estimator):
    """Ctrl-C or a broken callback mid-fit: state as before, callbacks torn down."""
    X, y = entry.make_data()
    settings = [{}]
    if "warm_start" in estimator.get_params(deep=False):
        settings.append({"warm_start": True})
    for exception in (KeyboardInterrupt(), RuntimeError("broken callback")):
        for good_first, params in itertools.product((False, True), settings):
            est = clone(estimator).set_params(**params)
            if good_first:
                expected = results(fit(est, X, y), X)
            seen = Recorder(raises=exception, when=2 * is_iterative(entry, estimator))
            est.set_callbacks(seen)
            before = vars(est).copy()
            try:
                fit(est, X[:-1], None if y is None else y[:-1])
            except type(exception) as exc:
                assert exc is exception
            else:
                raise AssertionError(f"fit swallows a {type(exception).__name__}")
            assert seen.teardowns == 1, "callbacks are not torn down"
            changed = sorted(
                k
                for k in before.keys() | vars(est).keys()
                if before.get(k, est) is not vars(est).get(k, est)
            )
            assert not changed, f"an interrupted fit changed {changed}"
            if good_first:
                assert_same(expected, results(est, X), "an interrupted fit")
            est.set_callbacks()
            fit(est, X, y)  # and it can be fitted again
