"""The suite must be able to fail: estimators broken on purpose, and who notices.

Each mutant breaks one rule of ``_reference.py`` and names the check, or the fault of
the battery, that must catch it.
"""

import os
import random
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
import sklearn
from sklearn.base import clone

from skmethods._validation import check_is_fitted, check_table, fit_context
from tests import _checks_callbacks, _checks_compose, _checks_input, _checks_state
from tests._checks import checks
from tests._faults import FAULTS, applies, judge
from tests._instances import REFERENCES, Elsewhere, Matters, all_entries
from tests._observe import without, workers
from tests._reference import ReferenceClassifier, ReferenceDetector
from tests.test_common import missing_entries

MUTANTS = []


@pytest.fixture(autouse=True)
def _repair_globals():
    """Mutants leave globals changed."""
    import torch

    threads = torch.get_num_threads()
    with np.errstate():
        yield
    torch.set_num_threads(threads)


def mutant(check, match, **changes):
    """Register a class, the check that must fail on it, and the words it fails with.

    `changes` are made to the entry of the reference that it derives from.
    """

    def register(cls):
        MUTANTS.append(pytest.param(cls, check, match, changes, id=cls.__name__))
        return cls

    return register


def _entry(cls, **changes):
    base = next(base for base in cls.__mro__ if base.__name__ in REFERENCES)
    entry = REFERENCES[base.__name__]
    instances = [cls(**entry.instances[0].get_params())]
    return replace(entry, instances=instances, **changes)


state, data, calls, compose = (
    _checks_state,
    _checks_input,
    _checks_callbacks,
    _checks_compose,
)


# -- state ---------------------------------------------------------------------------


@mutant(state.check_pickle_holds_no_torch, "names .*torch")
class KeepsATensor(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        import torch

        super().fit(X, y, sample_weight)
        self.weights_ = torch.tensor(self.coef_)
        return self


@mutant(state.check_pickle_in_fresh_process, "fresh process changed")
class NeedsAGlobal(ReferenceClassifier):
    """Predicts with something that only this process knows."""

    memory = {}

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.memory["shift"] = 0.5
        return self

    def predict_proba(self, X):
        proba = super().predict_proba(X)
        return proba if self.memory else proba[:, ::-1]


@mutant(state.check_pickle_in_fresh_process, "child process failed")
class DiesWithoutItsDevice(ReferenceClassifier):
    def predict(self, X):
        from skmethods._torch.device import resolve_device

        resolve_device(self.device)
        return super().predict(X)


@mutant(state.check_pickle_size, "pickle has")
class KeepsTheDistances(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        self.distances_ = np.abs(np.asarray(X)[:, :1] - np.asarray(X)[:, 0])
        return self


@mutant(state.check_two_fits_equal, "another global seed")
class GlobalRandomness(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_ = self.coef_ + 1e-3 * np.random.random_sample()
        return self


@mutant(state.check_global_state_untouched, "numpy's global random")
class SeedsNumpy(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        np.random.seed(0)
        return super().fit(X, y, sample_weight)


@mutant(state.check_global_state_untouched, "torch's global random")
class SeedsTorch(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        import torch

        torch.manual_seed(0)
        return super().fit(X, y, sample_weight)


@mutant(state.check_global_state_untouched, "predict changed the random module")
class SeedsRandom(ReferenceClassifier):
    def predict(self, X):
        random.seed(0)
        return super().predict(X)


@mutant(state.check_global_state_untouched, "number of threads")
class SetsThreads(ReferenceClassifier):
    def predict(self, X):
        import torch

        torch.set_num_threads(1)
        return super().predict(X)


@mutant(state.check_global_state_untouched, "numpy's error settings")
class SilencesNumpy(ReferenceDetector):
    def score_samples(self, X):
        np.seterr(all="ignore")
        return super().score_samples(X)


@mutant(state.check_failed_fit_changes_nothing, r"changed \['coef_'\]")
class ForgetsOnFailure(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        vars(self).pop("coef_", None)
        return super().fit(X, y, sample_weight)


@mutant(state.check_refit_forgets, "an earlier fit changed")
class RemembersFirstFit(ReferenceDetector):
    def fit(self, X, y=None):
        offset = getattr(self, "offset_", None)
        super().fit(X)
        self.offset_ = self.offset_ if offset is None else offset
        return self


@mutant(state.check_refit_forgets, "stay behind")
class LeavesAnAttribute(ReferenceDetector):
    def fit(self, X, y=None):
        if hasattr(self, "offset_"):
            self.second_fit_ = True
        return super().fit(X)


@mutant(state.check_refit_with_fewer_classes, "")
class CollectsClasses(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        old = getattr(self, "classes_", [])
        super().fit(X, y, sample_weight)
        self.seen_ = sorted({*map(str, old), *map(str, self.classes_)})
        return self

    def predict_proba(self, X):
        proba = super().predict_proba(X)
        extra = len(self.seen_) - proba.shape[1]
        return np.hstack([proba, np.zeros((len(proba), extra))])


@mutant(state.check_random_state_kinds, "does not draw")
class IgnoresTheStream(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        given = self.random_state
        if isinstance(given, np.random.RandomState):
            self.random_state = 0
        try:
            return super().fit(X, y, sample_weight)
        finally:
            self.random_state = given


@mutant(state.check_threads_may_share_it, "in a thread")
class SharesAScratchpad(ReferenceDetector):
    def score_samples(self, X):
        import time

        self._scratch = np.random.default_rng().random()
        mine = self._scratch
        time.sleep(0.002)
        return super().score_samples(X) + (0.0 if self._scratch == mine else 1.0)


@mutant(state.check_predicting_changes_nothing, "predicting changed")
class CountsCalls(ReferenceDetector):
    def predict(self, X):
        self.calls_ = getattr(self, "calls_", 0) + 1
        return super().predict(X)


@mutant(state.check_repr_is_cheap, "facts_")
class HugeAttribute(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        self.facts_ = {i: list(range(20)) for i in range(1000)}
        return self


@mutant(state.check_outlier_sign, "do not score lower")
class WrongSign(ReferenceDetector):
    def _scores(self, X):
        return -super()._scores(X)


@mutant(state.check_outlier_sign, "")
class WrongThreshold(ReferenceDetector):
    def decision_function(self, X):
        return self.score_samples(X) + self.offset_


@mutant(state.check_fit_predict, "")
class OtherFitPredict(ReferenceDetector):
    def fit_predict(self, X, y=None):
        return self.fit(X).predict(X[::-1].copy())


@mutant(state.check_one_iteration, "")
class NeedsTwoIterations(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_iter_ = max(self.n_iter_, 2)
        return self


@mutant(state.check_stops_early, "")
class NeverConverges(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_iter_ = self.max_iter
        return self


@mutant(
    state.check_every_parameter_is_listed,
    "without an entry",
    parameters={"C": Matters(1, 2)},
)
class HasMoreParameters(ReferenceClassifier):
    pass


class _Adds(ReferenceDetector):
    """A detector whose centre moves with every further part."""

    @fit_context()
    def partial_fit(self, X, y=None):
        old = getattr(self, "center_", None)
        super().fit(X)
        if old is not None:
            self.center_ = (self.center_ + old) / 2
        return self


@mutant(state.check_partial_fit, "makes no difference")
class StopsAfterOnePart(_Adds):
    def partial_fit(self, X, y=None):
        return self if hasattr(self, "offset_") else super().partial_fit(X)


@mutant(state.check_partial_fit, "accepts bad data .features")
class ForgetsItsColumns(_Adds):
    @fit_context()
    def partial_fit(self, X, y=None):
        old = getattr(self, "center_", 0)
        super().fit(X)
        if np.shape(old) == self.center_.shape:
            self.center_ = (self.center_ + old) / 2
        return self


@mutant(state.check_partial_fit, "an interrupted partial_fit changed")
class WritesIntoItsState(_Adds):
    """In place, which restoring the attributes cannot undo."""

    @fit_context()
    def partial_fit(self, X, y=None):
        X = check_table(self, X, reset=not hasattr(self, "offset_"))
        if not hasattr(self, "offset_"):
            return super().fit(X)
        self.center_ += X.mean(axis=0) / 10
        return super().fit(X) and self


# -- input and output ------------------------------------------------------------------


@mutant(data.check_float32_close_to_float64, "float32 input changed")
class OtherInSinglePrecision(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        self.offset_ += 0.1 * (np.asarray(X).dtype == np.float32)
        return self


@mutant(data.check_outputs, "returns float32")
class SinglePrecisionOut(ReferenceDetector):
    def score_samples(self, X):
        return super().score_samples(X).astype(np.float32)


@mutant(data.check_outputs, "")
class UnnormalisedProbabilities(ReferenceClassifier):
    def predict_proba(self, X):
        return 0.9 * super().predict_proba(X)


@mutant(data.check_outputs, "transform is not finite")
class ReturnsNaN(ReferenceDetector):
    def transform(self, X):
        Z = super().transform(X).copy()
        Z[0] = np.nan
        return Z


@mutant(data.check_it_learns, "")
class PredictsTheOpposite(ReferenceClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


@mutant(data.check_frames, "")
class LosesColumnNames(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = np.sort(self.feature_names_in_)[::-1]
        return self


@mutant(data.check_set_output, "")
class WrongNames(ReferenceDetector):
    def get_feature_names_out(self, input_features=None):
        return np.array([f"z{np.random.default_rng().integers(1e9)}"] * 4, dtype=object)


@mutant(data.check_foreign_columns, "foreign column|accepts")
class AnyColumns(ReferenceDetector):
    def score_samples(self, X):
        check_is_fitted(self, "offset_")
        return self._scores(np.asarray(X, dtype=float))


@mutant(data.check_read_only_and_memory_maps, "read-only")
class WritesInPlace(ReferenceDetector):
    def transform(self, X):
        X = check_table(self, X, reset=False)
        X -= self.center_
        X /= self.scale_
        return X


@mutant(data.check_torch_tensors, "tensor changed")
class RoundsTensors(ReferenceDetector):
    def fit(self, X, y=None):
        import torch

        super().fit(X)
        self.offset_ -= 0.1 * isinstance(X, torch.Tensor)
        return self


@mutant(data.check_torch_tensors, "requires grad")
class NumpyOnly(ReferenceDetector):
    def fit(self, X, y=None):
        return super().fit(np.asarray(X))


@mutant(data.check_input_is_not_written, "fit wrote into")
class WritesIntoX(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        checked = check_table(self, X, reset=False)
        checked[0] = 0
        return self


@mutant(data.check_input_is_not_written, "fit wrote into")
class WritesIntoWeights(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if isinstance(sample_weight, np.ndarray) and sample_weight.flags.writeable:
            sample_weight /= sample_weight.sum()
        return self


@mutant(data.check_fitted_state_is_its_own, "training data changed")
class KeepsTheCallersArray(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        self.rows_ = check_table(self, X, reset=False, dtype=np.float64)
        return self

    def _scores(self, X):
        rows = getattr(self, "rows_", None)
        return super()._scores(X) - (0 if rows is None else np.abs(rows).max())


@mutant(data.check_fitted_state_is_its_own, "result changed")
class ReturnsItsOwnArray(ReferenceDetector):
    def score_samples(self, X):
        scores = super().score_samples(X)
        if len(X) == len(self.training_scores_):
            return self.training_scores_
        return scores


@mutant(data.check_times_are_refused, "of times for numbers")
class AcceptsTimes(ReferenceDetector):
    @fit_context()
    def fit(self, X, y=None):
        from sklearn.utils.validation import validate_data

        return super().fit(validate_data(self, X, dtype=np.float64))


@mutant(data.check_bad_weights, "fit accepts")
class AnyWeights(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None:
            sample_weight = np.abs(
                np.nan_to_num(np.asarray(sample_weight, dtype=float))
            )
        return super().fit(X, y, sample_weight)


@mutant(data.check_weights_matter, "no difference")
class IgnoresWeights(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


@mutant(data.check_weights_matter, "weights of zero")
class ZeroIsNotAbsent(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None:
            sample_weight = np.maximum(np.asarray(sample_weight, dtype=float), 0.01)
        return super().fit(X, y, sample_weight)


@mutant(data.check_bad_groups, "fit accepts groups")
class IgnoresGroups(ReferenceDetector):
    def fit(self, X, y=None, groups=None):
        return super().fit(X)


# -- callbacks -------------------------------------------------------------------------


@mutant(calls.check_supports_callbacks, "")
class SilentFit(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        callbacks = vars(self).pop("_skl_callbacks", None)
        super().fit(X, y, sample_weight)
        if callbacks:
            self._skl_callbacks = callbacks
        return self


@mutant(calls.check_supports_callbacks, "announces 40")
class AnnouncesTooMuch(ReferenceClassifier):
    def _init_callback_context(self, max_subtasks):
        return super()._init_callback_context(max_subtasks=2 * max_subtasks)


@mutant(calls.check_progress_bar, "no bar")
class NoProgress(SilentFit):
    pass


@mutant(calls.check_fitted_estimator_predicts, "ever given")
class GivesNoCopy(SilentFit):
    pass


@mutant(calls.check_fitted_estimator_predicts, "last copy differs")
class ChangesAfterTheLastCopy(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_ = self.coef_ * 1.01
        return self


@mutant(calls.check_callback_stops, "")
class CannotBeStopped(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        from skmethods._validation import FitProgress

        end = FitProgress.end

        def deaf(progress):
            end(progress)
            return False

        with mock.patch.object(FitProgress, "end", deaf):
            return super().fit(X, y, sample_weight)


@mutant(calls.check_interrupted_fit, r"changed \['coef_'\]")
class HalfFitted(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except BaseException:
            self.coef_ = np.zeros((4, 2))
            raise


@mutant(calls.check_interrupted_fit, "swallows")
class SwallowsErrors(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except RuntimeError:
            return self


# -- life in scikit-learn --------------------------------------------------------------


@mutant(compose.check_grid_search, "cannot be set")
class LosesParameters(ReferenceClassifier):
    def set_params(self, **params):
        return super().set_params(**{k: v for k, v in params.items() if k != "C"})


@mutant(compose.check_worker_processes, "in workers")
class KnowsItsProcess(ReferenceClassifier):
    home = os.getpid()

    def score(self, X, y):
        return super().score(X, y) - 0.1 * (
            "LOKY_WORKER" in os.environ or "loky" in " ".join(_command_line())
        )


def _command_line():
    with open("/proc/self/cmdline") as file:
        return file.read().split("\0")


@mutant(compose.check_n_jobs, "n_jobs=2 changed")
class DependsOnJobs(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        self.offset_ -= 0.01 * (self.n_jobs == 2)
        return self


@mutant(compose.check_n_jobs, "n_jobs=0 is accepted")
class ZeroJobs(ReferenceDetector):
    def _scores(self, X):
        jobs, self.n_jobs = self.n_jobs, self.n_jobs or None
        try:
            return super()._scores(X)
        finally:
            self.n_jobs = jobs


@mutant(compose.check_routing_is_harmless, "routing changed")
class DislikesRouting(ReferenceDetector):
    def fit(self, X, y=None):
        super().fit(X)
        self.offset_ -= sklearn.get_config()["enable_metadata_routing"]
        return self


@mutant(compose.check_weights_are_routed, "with routing changed")
class LosesRoutedWeights(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        if sklearn.get_config()["enable_metadata_routing"]:
            sample_weight = None
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("cls", "check", "match", "changes"), MUTANTS)
def test_mutant_is_caught(cls, check, match, changes):
    entry = _entry(cls, **changes)
    # Most checks end in an assert; some let the estimator's own error through.
    expected = (AssertionError, ValueError, RuntimeError) if match else AssertionError
    with pytest.raises(expected, match=match or None):
        check(entry, clone(entry.instances[0]))


def test_every_check_has_a_mutant():
    tried = {case.values[1] for case in MUTANTS} | {state.check_divergence}
    missing = [c.__name__ for c, _ in checks() if c not in tried]
    assert not missing, f"checks that nothing proves able to fail: {missing}"


def test_divergence_is_caught():
    class Diverges(ReferenceClassifier):
        _parameter_constraints = ReferenceClassifier._parameter_constraints | {
            "learning_rate": [float]
        }

        def __init__(self, *, learning_rate=1.0, C=1.0):
            super().__init__(C=C)
            self.learning_rate = learning_rate

        def fit(self, X, y, sample_weight=None):
            super().fit(X, y, sample_weight)
            if self.learning_rate > 1:
                self.coef_ = self.coef_ * np.nan
            return self

    entry = REFERENCES["ReferenceClassifier"]
    with pytest.raises(AssertionError, match="not finite"):
        state.check_divergence(entry, Diverges())


def test_every_check_runs_somewhere():
    """Except those that wait for a kind of estimator that does not exist yet."""
    waiting = {"check_bad_groups", "check_divergence"}
    for check, applies_to in checks():
        used = any(
            applies_to(entry, estimator)
            for entry in all_entries().values()
            for estimator in entry.instances
        )
        assert used or check.__name__ in waiting, f"{check.__name__} runs on nothing"


# -- parameters ------------------------------------------------------------------------


def _parameter_of(cls, name, **changes):
    return partial(state.check_parameter_matters, _entry(cls, **changes), name)


def test_ignored_parameter_is_caught():
    class IgnoresC(ReferenceClassifier):
        @fit_context()
        def fit(self, X, y, sample_weight=None):
            C, self.C = self.C, 1.0
            super().fit(X, y, sample_weight)
            self.C = C
            return self

    with pytest.raises(AssertionError, match="make no difference"):
        _parameter_of(IgnoresC, "C")()


def test_noise_does_not_hide_an_ignored_parameter():
    with pytest.raises(AssertionError, match="two different results"):
        _parameter_of(GlobalRandomness, "C")()


def test_ignored_jobs_are_caught():
    class OneJob(ReferenceDetector):
        def _scores(self, X):
            return -np.sqrt((((X - self.center_) / self.scale_) ** 2).mean(axis=1))

    case = {"n_jobs": Matters(1, 2, workers)}
    with pytest.raises(AssertionError, match="make no difference"):
        _parameter_of(OneJob, "n_jobs", parameters=case)()


def test_exemption_needs_an_existing_test():
    for case in (
        Elsewhere("tests/test_process.py::test_that_is_not_there", "some reason"),
        Elsewhere("tests/no_such_file.py::test_x", "some reason"),
        Elsewhere("tests/test_process.py::test_full_disk", " "),
    ):
        with pytest.raises(AssertionError):
            state.assert_test_exists(case)
    state.assert_test_exists(Elsewhere("tests/test_process.py::test_full_disk", "ok"))


def test_missing_entry_says_how_to_add_it():
    text = missing_entries({"NewClassifier": object}, {})
    assert len(text) == 1
    assert 'ENTRIES["NewClassifier"]' in text[0] and "_instances.py" in text[0]


def test_without_blocks_a_package():
    class NeedsPolars(ReferenceDetector):
        def fit(self, X, y=None):
            import polars  # noqa: F401

            return super().fit(X)

    X, _ = REFERENCES["ReferenceDetector"].make_data()
    assert "polars" in without("polars")(NeedsPolars(), X, None)
    assert without("polars")(ReferenceDetector(), X, None) is None


# -- the fault battery -----------------------------------------------------------------


class AcceptsAnything(ReferenceDetector):
    """Turns whatever it gets into numbers."""

    def _table(self, X):
        X = np.nan_to_num(np.asarray(X, dtype=float)[..., None].reshape(-1, 1))
        return np.tile(X[:8], (5, 4))

    def fit(self, X, y=None):
        return super().fit(self._table(X))

    def score_samples(self, X):
        return super().score_samples(self._table(X))


class NotFinite(ReferenceDetector):
    """Divides by a deviation of zero, and says nothing."""

    def transform(self, X):
        X = check_table(self, X, reset=False, dtype=np.float64)
        with np.errstate(all="ignore"):
            return (X - self.center_) / (X.std(axis=0))


class WarnsOnly(NotFinite):
    def transform(self, X):
        X = check_table(self, X, reset=False, dtype=np.float64)
        return np.nan_to_num((X - self.center_) / X.std(axis=0))


class Terse(ReferenceDetector):
    def fit(self, X, y=None):
        try:
            return super().fit(X)
        except ValueError:
            raise ValueError("bad input") from None


class OtherException(ReferenceDetector):
    def fit(self, X, y=None):
        return super().fit(X[: len(X)][:, :])


class Refuses(ReferenceDetector):
    def fit(self, X, y=None):
        if len(X) < 10 or np.ptp(np.asarray(X, dtype=float), axis=0).min() == 0:
            raise ValueError("X must have ten different rows.")
        return super().fit(X)


class Misreads(ReferenceDetector):
    """Reads raw memory."""

    def fit(self, X, y=None):
        if isinstance(X, np.ndarray) and not X.flags.c_contiguous:
            X = np.sort(X, axis=None).reshape(X.shape)
        return super().fit(X)


@pytest.mark.parametrize(
    ("cls", "number", "stage"),
    [
        (AcceptsAnything, 1, "fit"),
        (AcceptsAnything, 27, "predict"),
        (NotFinite, 9, "fit"),
        (NotFinite, 14, "predict"),
        (WarnsOnly, 10, "fit"),
        (Terse, 1, "fit"),
        (OtherException, 17, "fit"),
        (OtherException, 20, "fit"),
        (Refuses, 8, "fit"),
        (Refuses, 13, "fit"),
        (Misreads, 33, "fit"),
        (Misreads, 34, "fit"),
        (WritesIntoX, 10, "fit"),
    ],
)
def test_battery_catches(cls, number, stage):
    entry = _entry(cls)
    fault = FAULTS[number - 1]
    if cls is WritesIntoX:  # something that can be seen to change
        fault = FAULTS[33 - 1]
    with pytest.raises(AssertionError):
        judge(fault, stage, entry, clone(entry.instances[0]))


def test_battery_is_not_vacuous():
    """Faults of y are for estimators that need one; all others are for everybody."""
    counts = {
        cls: sum(applies(fault, "fit", cls()) for fault in FAULTS)
        for cls in (ReferenceClassifier, ReferenceDetector)
    }
    assert counts == {ReferenceClassifier: 50, ReferenceDetector: 41}
