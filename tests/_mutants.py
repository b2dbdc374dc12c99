"""Estimators that are broken on purpose.

Each mutant breaks one rule of ``_reference.py`` and names the check that must catch it;
those at the end are for the fault battery. ``test_the_suite.py`` tries them.
"""

import os
import random
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import sklearn

from skmethods._validation import check_is_fitted, check_table, fit_context
from tests import _checks_callbacks as calls
from tests import _checks_compose as compose
from tests import _checks_input as data
from tests import _checks_parameters as parameters
from tests import _checks_state as state
from tests._instances import REFERENCES, Matters
from tests._reference import ReferenceClassifier, ReferenceDetector

MUTANTS = []


def mutant(check, match, **changes):
    """Register a class, the check that must fail on it, and the words it fails with.

    `changes` are made to the entry of the reference that it derives from.
    """

    def register(cls):
        MUTANTS.append(pytest.param(cls, check, match, changes, id=cls.__name__))
        return cls

    return register


def entry_of(cls, **changes):
    base = next(base for base in cls.__mro__ if base.__name__ in REFERENCES)
    entry = REFERENCES[base.__name__]
    instances = [cls(**entry.instances[0].get_params())]
    return replace(entry, instances=instances, **changes)


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


@mutant(parameters.check_one_iteration, "")
class NeedsTwoIterations(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_iter_ = max(self.n_iter_, 2)
        return self


@mutant(parameters.check_stops_early, "")
class NeverConverges(ReferenceClassifier):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_iter_ = self.max_iter
        return self


@mutant(
    parameters.check_every_parameter_is_listed,
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


# -- for the fault battery -------------------------------------------------------------


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
