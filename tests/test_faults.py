"""Every estimator against the fifty data faults of ``_faults.py``."""

import pandas  # noqa: F401  (imported here so that no fault's ten seconds pay for it)
import pytest
import torch  # noqa: F401
from sklearn.base import clone

from tests._faults import FAULTS, applies, judge
from tests._instances import all_entries, cases


def _faulty_cases():
    return [
        pytest.param(
            fault,
            stage,
            entry,
            estimator,
            id=f"{case.id}-{fault.number:02d} {fault.name}-{stage}",
        )
        for case in cases()
        for entry, estimator in [case.values]
        for fault in FAULTS
        for stage in ("fit", "predict")
        if applies(fault, stage, estimator)
    ]


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("fault", "stage", "entry", "estimator"), _faulty_cases())
def test_fault(fault, stage, entry, estimator):
    judge(fault, stage, entry, clone(estimator))


def test_the_list_is_complete():
    assert [fault.number for fault in FAULTS] == list(range(1, 51))


@pytest.mark.parametrize("name", all_entries())
def test_overrides_have_reasons(name):
    for number, (expects, reason) in all_entries()[name].faults.items():
        assert 1 <= number <= 50
        assert expects in ("error", "finite", "same", "either")
        assert len(reason.split()) > 3
