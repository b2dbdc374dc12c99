"""The contract of every public estimator: scikit-learn's checks, and ours.

``_instances.py`` says what is tested, ``_checks_*.py`` what of. To run one estimator:
``pytest tests/test_common.py -k DVM``.
"""

import inspect
import warnings

import pytest
from sklearn.base import clone
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning, SkipTestWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests import _instances
from tests._checks import checks
from tests._checks_parameters import check_parameter_matters
from tests._checks_state import in_fresh_process
from tests._child import output_of
from tests._instances import all_entries, cases, public_estimators, public_names
from tests._observe import assert_close, fit, results


def _instances_for_sklearn():
    return [e for entry in all_entries().values() for e in entry.instances]


def _expected_failures(estimator):
    entry = all_entries().get(type(estimator).__name__)
    return entry.expected_failed_checks if entry else {}


def missing_entries(estimators, entries):
    """What to tell the author of an estimator that is not in ``ENTRIES``."""
    return [
        f"{name} is public but has no entry in tests/_instances.py, so nothing tests "
        f'it. Add ENTRIES["{name}"] = Entry(...); the docstring there says how.'
        for name in sorted(estimators.keys() - entries.keys())
    ]


def test_every_public_name_imports():
    broken = {n: obj for n, obj in public_names() if isinstance(obj, Exception)}
    assert not broken


def test_every_public_estimator_has_an_entry():
    missing = missing_entries(public_estimators(), _instances.ENTRIES)
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", all_entries())
def test_entry_is_complete(name):
    entry = all_entries()[name]
    assert {type(e).__name__ for e in entry.instances} == {name}
    assert len(entry.expected_failed_checks) <= 1, "one expected failure at most"
    known = {n for n, f in inspect.getmembers(estimator_checks, inspect.isfunction)}
    for check, reason in entry.expected_failed_checks.items():
        assert check in known, f"scikit-learn has no check {check!r}"
        assert len(reason.split()) > 3, f"{check} needs a reason"
    X, y = entry.make_data()
    assert 30 <= len(X) <= 100 and X.shape[1] == 4
    assert y is None or len(y) == len(X)
    assert entry.grid.keys() <= entry.instances[0].get_params().keys()


@pytest.mark.parametrize("name", all_entries())
def test_shape_of_the_class(name):
    cls = all_entries()[name].cls
    assert issubclass(cls, CallbackSupportMixin)
    kinds = {p.kind for p in inspect.signature(cls).parameters.values()}
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY}, "parameters are keyword-only"
    if "device" in inspect.signature(cls).parameters:
        assert cls().device == "cpu"
    # two_d_array=False would silently reduce scikit-learn's suite to one check
    assert (
        clone(all_entries()[name].instances[0])
        .__sklearn_tags__()
        .input_tags.two_d_array
    )


@parametrize_with_checks(
    _instances_for_sklearn(),
    expected_failed_checks=_expected_failures,
    xfail_strict=True,
)
def test_sklearn(estimator, check):
    if getattr(check, "func", check).__name__ == "check_array_api_input":
        pytest.skip("runs in test_sklearn_array_api, which sets SCIPY_ARRAY_API")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", SkipTestWarning)
        check(estimator)


#: Not run by parametrize_with_checks: name -> the method that makes it apply.
BY_HAND = {
    "check_param_validation": "fit",
    "check_dataframe_column_names_consistency": "fit",
    "check_all_zero_sample_weights_error": "set_fit_request",
    "check_get_feature_names_out_error": "get_feature_names_out",
    "check_set_output_transform": "set_output",
    "check_set_output_transform_pandas": "set_output",
    "check_set_output_transform_polars": "set_output",
    "check_global_output_transform_pandas": "set_output",
    "check_global_set_output_transform_polars": "set_output",
    "check_transformer_get_feature_names_out": "transform",
    "check_transformer_get_feature_names_out_pandas": "transform",
}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize(("entry", "estimator"), cases())
def test_sklearn_by_hand(entry, estimator, name):
    if not hasattr(estimator, BY_HAND[name]):
        pytest.skip(f"{type(estimator).__name__} has no {BY_HAND[name]}")
    if (
        "weights" in name
        and "sample_weight" not in inspect.signature(estimator.fit).parameters
    ):
        pytest.skip("fit takes no sample_weight")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("name", all_entries())
def test_inplace(name):
    """No estimator of ours works in place: the check for those has nothing to do."""
    parameters = all_entries()[name].instances[0].get_params()
    assert not {"copy", "copy_X"} & parameters.keys(), (
        "an estimator that may write into X must run check_inplace_ensure_writeable: "
        "call it here as scikit-learn's own test_common.py does"
    )


_ARRAY_API = """
import sys, warnings
warnings.simplefilter("ignore")
import sklearn
from sklearn.utils.estimator_checks import estimator_checks_generator
from tests._checks_input import check_torch_tensors
from tests._instances import all_entries
for name, entry in all_entries().items():
    for estimator in entry.instances:
        for est, check in estimator_checks_generator(estimator):
            if "check_array_api_input" in str(getattr(check, "func", check)):
                check(est)
                print(name)
        with sklearn.config_context(array_api_dispatch=True):
            check_torch_tensors(entry, estimator)
"""


def test_sklearn_array_api(tmp_path):
    """The one check that scikit-learn skips without SCIPY_ARRAY_API=1."""
    found = output_of(
        _ARRAY_API, cwd=tmp_path, env={"SCIPY_ARRAY_API": "1"}, timeout=280
    )
    lines = found.splitlines()
    assert len(lines) == len(_instances_for_sklearn())


def _our_cases():
    for case in cases():
        entry, estimator = case.values
        for check, applies in checks():
            if applies(entry, estimator):
                name = check.__name__.removeprefix("check_")
                yield pytest.param(check, entry, estimator, id=f"{case.id}-{name}")


@pytest.mark.parametrize(("check", "entry", "estimator"), list(_our_cases()))
def test_ours(check, entry, estimator):
    check(entry, clone(estimator))


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        pytest.param(entry, parameter, id=f"{name}-{parameter}")
        for name, entry in all_entries().items()
        for parameter in entry.parameters
    ],
)
def test_parameter_matters(entry, parameter):
    check_parameter_matters(entry, parameter)


@pytest.mark.gpu
@pytest.mark.parametrize(("entry", "estimator"), cases())
def test_cuda_agrees_with_cpu(entry, estimator):
    if "device" not in estimator.get_params():
        pytest.skip("has no device")
    X, y = entry.make_data()
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    here = results(fit(clone(estimator), X, y), X)
    there = fit(clone(estimator).set_params(device="cuda"), X, y)
    if hasattr(there, "device_"):
        assert there.device_.type == "cuda"
    assert_close(here, results(there, X), "CUDA", rtol=1e-2)
    back, text = in_fresh_process([there], X)
    assert_close(here, back[0], "a machine without CUDA", rtol=1e-2)
    assert "cuda" in text
