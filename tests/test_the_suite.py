"""The suite must be able to fail: it is run on estimators broken on purpose."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from skmethods._validation import fit_context
from tests import _checks_parameters as parameters
from tests._checks import checks
from tests._faults import FAULTS, applies, judge
from tests._instances import REFERENCES, Elsewhere, Matters, all_entries
from tests._mutants import (
    MUTANTS,
    AcceptsAnything,
    GlobalRandomness,
    Misreads,
    NotFinite,
    OtherException,
    Refuses,
    Terse,
    WarnsOnly,
    WritesIntoX,
    entry_of,
)
from tests._observe import without, workers
from tests._reference import ReferenceClassifier, ReferenceDetector
from tests.test_common import missing_entries


@pytest.fixture(autouse=True)
def _repair_globals():
    """Mutants leave globals changed."""
    import torch

    threads = torch.get_num_threads()
    with np.errstate():
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("cls", "check", "match", "changes"), MUTANTS)
def test_mutant_is_caught(cls, check, match, changes):
    entry = entry_of(cls, **changes)
    # Most checks end in an assert; some let the estimator's own error through.
    expected = (AssertionError, ValueError, RuntimeError) if match else AssertionError
    with pytest.raises(expected, match=match or None):
        check(entry, clone(entry.instances[0]))


def test_every_check_has_a_mutant():
    tried = {case.values[1] for case in MUTANTS} | {parameters.check_divergence}
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
        parameters.check_divergence(entry, Diverges())


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
    return partial(parameters.check_parameter_matters, entry_of(cls, **changes), name)


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
            parameters.assert_test_exists(case)
    parameters.assert_test_exists(
        Elsewhere("tests/test_process.py::test_full_disk", "ok")
    )


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
    entry = entry_of(cls)
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
