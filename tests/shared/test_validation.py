"""The adapters of ``_validation.py``: what they convert, refuse and leave alone."""

import datetime
import inspect
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin

from skmethods import _validation
from skmethods._validation import (
    FitProgress,
    as_host,
    check_groups,
    check_row_counts,
    check_table,
    check_weights,
    fit_context,
)


class Plain(BaseEstimator):
    """Something that validate_data can write to."""


class NeedsTarget(Plain):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def table(X, **kw):
    return check_table(Plain(), X, reset=True, **kw)


X = np.arange(12.0).reshape(4, 3)


# -- as_host ---------------------------------------------------------------------------


@pytest.mark.parametrize("other", [X, None, "a", 3.0, {"a": 1}, pd.DataFrame(X)])
def test_as_host_leaves_the_rest_alone(other):
    assert as_host(other) is other


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.int8, torch.bool, torch.uint8],
)
def test_as_host_keeps_dtype_and_numbers(dtype):
    tensor = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype)
    host = as_host(tensor)
    assert host.dtype == tensor.numpy().dtype
    assert np.array_equal(host, [[0, 1], [1, 0]])


def test_as_host_bfloat16_is_exact():
    tensor = torch.randn(50, generator=torch.Generator().manual_seed(0)).bfloat16()
    host = as_host(tensor)
    assert host.dtype == np.float32
    assert torch.equal(torch.tensor(host).bfloat16(), tensor)


def test_as_host_detaches_and_resolves_lazy_bits():
    grad = torch.ones(2, requires_grad=True) * 2
    assert np.array_equal(as_host(grad), [2, 2])
    z = torch.tensor([1 + 2j]).conj()
    assert as_host(z) == 1 - 2j
    assert np.array_equal(as_host(z.imag), [-2])  # has the negative bit set


def test_as_host_takes_lists_of_tensors():
    rows = [torch.ones(3, requires_grad=True), torch.zeros(3)]
    assert np.array_equal(table(rows), [[1, 1, 1], [0, 0, 0]])


def test_as_host_refuses_what_holds_no_dense_data():
    with pytest.raises(ValueError, match="'meta' device"):
        as_host(torch.ones(2, device="meta"))
    with pytest.raises(TypeError, match="sparse torch tensor"):
        as_host(torch.eye(2).to_sparse())


# -- check_table -----------------------------------------------------------------------


def test_table_is_native_contiguous_float():
    for given in (X[::-1, ::-1], np.asfortranarray(X), X.astype(">f8"), X.astype(int)):
        checked = table(given)
        assert checked.dtype == np.float64 and checked.dtype.isnative
        assert checked.flags.c_contiguous
        assert np.array_equal(checked, given)
    assert table(X.astype(np.float32)).dtype == np.float32
    assert table(X.astype(np.float16)).dtype == np.float64
    assert table(X.astype(np.float32), dtype=np.float64).dtype == np.float64


def test_table_does_not_copy_without_need():
    assert np.shares_memory(table(X), X)


def test_table_records_and_compares_columns():
    est = Plain()
    frame = pd.DataFrame(X, columns=list("abc"))
    check_table(est, frame, reset=True)
    assert est.n_features_in_ == 3 and list(est.feature_names_in_) == list("abc")
    with pytest.raises(ValueError, match="feature names"):
        check_table(est, frame[["b", "a", "c"]], reset=False)
    with pytest.raises(ValueError, match="2 features"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_table(est, X[:, :2], reset=False)


def test_table_with_and_without_target():
    assert isinstance(check_table(NeedsTarget(), X, reset=True), np.ndarray)
    both = check_table(NeedsTarget(), X, torch.tensor([0, 1, 0, 1]), reset=True)
    assert len(both) == 2 and np.array_equal(both[1], [0, 1, 0, 1])
    with pytest.raises(ValueError, match="requires y"):
        check_table(NeedsTarget(), X, None, reset=True)
    assert isinstance(check_table(Plain(), X, None, reset=True), np.ndarray)


@pytest.mark.parametrize("y", ["no_validation", "labels.csv"])
def test_a_string_is_no_target(y):
    with pytest.raises(TypeError, match="y must be an array"):
        check_table(Plain(), X, y, reset=True)


STAMP = np.datetime64("2020-01-01")
TIMES = {
    "datetime64": np.full((2, 2), STAMP),
    "timedelta64": np.full((2, 2), STAMP) - np.datetime64("2019-01-01"),
    "list": [[STAMP, STAMP], [STAMP, STAMP]],
    "list of arrays": [np.array([STAMP, STAMP])] * 2,
    "list of mixed": [[1.0, STAMP], [2.0, STAMP]],
    "objects": np.array([[1.0, STAMP], [2.0, STAMP]], dtype=object),
    "datetime objects": np.full((2, 2), datetime.datetime(2020, 1, 1), dtype=object),
    "pandas": pd.DataFrame({"a": [1.0, 2.0], "t": pd.to_datetime([STAMP, STAMP])}),
    "pandas with zone": pd.DataFrame({"t": pd.date_range("2020", periods=2, tz="UTC")}),
    "pandas timedelta": pd.DataFrame({"t": pd.to_timedelta([1, 2], unit="h")}),
    "pandas period": pd.DataFrame({"t": pd.period_range("2020", periods=2)}),
    "pandas objects": pd.DataFrame({"t": pd.Series([STAMP, STAMP], dtype=object)}),
    "pyarrow": pd.DataFrame({"t": pd.array([1, 2], dtype="timestamp[s][pyarrow]")}),
    "polars date": pl.DataFrame({"a": [1.0], "t": [datetime.date(2020, 1, 1)]}),
    "polars time": pl.DataFrame({"t": [datetime.time(1)]}),
    "polars duration": pl.DataFrame({"t": [datetime.timedelta(1)]}),
    "polars datetime": pl.DataFrame({"t": [datetime.datetime(2020, 1, 1)]}),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_are_refused(kind):
    with pytest.raises((TypeError, ValueError)) as caught:
        table(TIMES[kind])
    text = str(caught.value)
    named = "'t'" if hasattr(TIMES[kind], "columns") else "X"
    assert named in text and len(text.split()) > 8


def test_times_in_y_are_refused():
    with pytest.raises(TypeError, match=r"^y has dtype datetime64.* holds times"):
        check_table(Plain(), X, np.full(4, STAMP), reset=True)


def test_text_is_refused_by_column():
    frame = pd.DataFrame({"a": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(ValueError, match=r"column 'colour'.*red.*OrdinalEncoder"):
        table(frame)
    with pytest.raises(ValueError, match="column 1 "):
        table(np.array([[1, "x"], [2, "y"]], dtype=object))
    with pytest.raises(TypeError, match="column 0 "):
        table(np.array([[{}, 1], [{}, 2]], dtype=object))
    with pytest.raises(ValueError, match="column 0 "):
        table([[10**400, 1], [2, 3]])
    with pytest.raises(ValueError, match="y is not numeric"):
        check_table(
            Plain(), X, np.array(["no"] * 4, dtype=object), reset=True, y_numeric=True
        )


def test_what_is_no_table_is_not_blamed_on_y():
    for wrong in ({"a": [1, 2]}, (row for row in X)):
        with pytest.raises((TypeError, ValueError), match="X is not a table"):
            check_table(Plain(), wrong, [0, 1, 0, 1], reset=True)


def test_masked_entries_are_refused_but_not_masks_of_nothing():
    with pytest.raises(ValueError, match="X is a masked array with 1 masked"):
        table(np.ma.masked_array(X, mask=X == 3))
    with pytest.raises(ValueError, match="y is a masked array"):
        y = np.ma.masked_array([0, 1, 0, 1], mask=[0, 0, 0, 1])
        check_table(Plain(), X, y, reset=True)
    assert np.array_equal(table(np.ma.masked_array(X, mask=False)), X)


def test_other_errors_are_scikit_learns():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        table(np.where(X == 3, np.nan, X))
    with pytest.raises(ValueError, match="Complex data not supported"):
        table(X + 1j)
    with pytest.raises(ValueError, match="inhomogeneous"):
        table([[1.0, 2.0], [3.0]])


def test_array_api_dispatch_changes_nothing(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    seen = []
    validate = _validation.validate_data

    def spy(*args, **kw):
        from sklearn import get_config

        seen.append(get_config()["array_api_dispatch"])
        return validate(*args, **kw)

    monkeypatch.setattr(_validation, "validate_data", spy)
    table(torch.tensor(X))
    assert seen == [False]


# -- check_weights ---------------------------------------------------------------------


def test_weights():
    assert np.array_equal(check_weights(None, X), np.ones(4))
    assert np.array_equal(check_weights(2.0, X), np.full(4, 2.0))
    weight = check_weights(torch.tensor([0, 1, 2, 3]), X.astype(np.float32))
    assert weight.dtype == np.float32 and np.array_equal(weight, [0, 1, 2, 3])


@pytest.mark.parametrize(
    "weight",
    [
        [1, 1, 1],
        [[1, 1, 1, 1]],
        [1, -1, 1, 1],
        [0, 0, 0, 0],
        [1, np.nan, 1, 1],
        [1, np.inf, 1, 1],
        ["a", "b", "c", "d"],
        np.ma.masked_array([1, 2, 3, 4], mask=[1, 0, 0, 0]),
        np.full(4, STAMP),
        -1.0,
    ],
    ids=str,
)
def test_bad_weights_are_named(weight):
    with pytest.raises((ValueError, TypeError), match="sample_weight") as caught:
        check_weights(weight, X)
    assert len(str(caught.value).split()) > 3


@pytest.mark.parametrize("weight", [[1e308] * 4, [1e16, 0], [1e306, 1e307]])
def test_weights_that_are_no_numbers_of_rows(weight, recwarn):
    check_row_counts(np.array([1e14, 2.5, 0.0]))
    check_row_counts(np.full(3, 1e-300))
    with pytest.raises(ValueError, match=r"sample_weight sums to .*count rows"):
        check_row_counts(np.array(weight))
    assert not recwarn.list


# -- check_groups ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "groups",
    [
        [3, 1, 3, 2],
        ["b", "a", "b", "c"],
        torch.tensor([3, 1, 3, 2]),
        pd.Series(["b", "a", "b", "c"]),
        pl.Series(["b", "a", "b", "c"]),
        np.array([3.0, 1.0, 3.0, 2.0]),
        ["one"] * 4,
    ],
    ids=str,
)
def test_groups_come_back_from_their_codes(groups):
    labels, codes = check_groups(groups, 4)
    assert np.array_equal(labels[codes], np.asarray(groups))
    assert list(labels) == sorted(set(np.asarray(groups)))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2, 3], "shape"),
        ([[1, 2, 3, 4]], "shape"),
        ([1.0, np.nan, 2.0, 2.0], "1 missing values, the first in row 1"),
        (["a", None, "b", None], "2 missing values, the first in row 1"),
        (pd.Series(["a", pd.NA, "b", "c"], dtype="string"), "missing"),
        (np.array(["a", pd.NA, "b", "c"], dtype=object), "missing"),
        (pd.Series(pd.to_datetime(["2020", None, "2021", "2022"])), "missing"),
        (np.array([1, "a", "b", "c"], dtype=object), "mixes labels of types int, str"),
    ],
)
def test_bad_groups_are_named(groups, words):
    with pytest.raises((ValueError, TypeError), match=f"domains .*{words}"):
        check_groups(groups, 4, name="domains")


def test_no_groups_shows_how_to_pass_them():
    with pytest.raises(ValueError) as caught:
        check_groups(None, 4, name="clients", estimator=Plain())
    text = str(caught.value)
    assert "enable_metadata_routing=True" in text
    assert "Plain(...).set_fit_request(clients=True)" in text


# -- fit_context -----------------------------------------------------------------------


class Counter(CallbackSupportMixin, BaseEstimator):
    _parameter_constraints = {"fail": "no_validation"}

    def __init__(self, *, fail=None):
        self.fail = fail

    @fit_context()
    def fit(self, X, y=None):
        """Fit."""
        self.a_ = 1
        progress = FitProgress(self, 3, X, y, lambda: {"a_": self.a_}, task="round")
        self.n_iter_ = 0
        for _ in range(3):
            progress.begin()
            self.n_iter_ += 1
            if self.fail:
                raise self.fail
            if progress.end():
                break
        progress.close()
        return self


@pytest.mark.parametrize("error", [ValueError("a"), KeyboardInterrupt(), SystemExit(3)])
def test_failed_fit_leaves_everything(error):
    unfitted = Counter(fail=error)
    with pytest.raises(type(error)):
        unfitted.fit(X)
    assert vars(unfitted) == {"fail": error}
    fitted = Counter().fit(X)
    fitted.old_ = "kept"
    fitted.fail = error
    before = vars(fitted).copy()
    with pytest.raises(type(error)):
        fitted.fit(X)
    assert vars(fitted) == before


def test_fit_context_checks_parameters_and_keeps_the_signature():
    class Strict(Counter):
        _parameter_constraints = {"fail": [None]}

    with pytest.raises(ValueError, match="The 'fail' parameter of Strict must be None"):
        Strict(fail=3).fit(X)
    assert list(inspect.signature(Counter.fit).parameters) == ["self", "X", "y"]
    assert Counter.fit.__doc__ == "Fit."


class Watcher:
    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.tasks, self.copies = [], []

    def setup(self, estimator, context):
        self.announced = context.max_subtasks

    def on_fit_task_begin(self, estimator, context, *, X=None):
        assert X is not None

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.tasks.append(context.task_name)
        self.copies.append(fitted_estimator)
        return len(self.tasks) == self.stop_at

    def teardown(self, estimator, context):
        self.tasks.append("teardown")


def test_progress_reports_iterations_and_the_end():
    seen = Watcher()
    Counter().set_callbacks(seen).fit(X)
    assert seen.announced == 3
    assert seen.tasks == ["round"] * 3 + ["fit", "teardown"]
    assert all(copy.a_ == 1 for copy in seen.copies)


def test_progress_passes_the_wish_to_stop_on():
    est = Counter().set_callbacks(Watcher(stop_at=2)).fit(X)
    assert est.n_iter_ == 2


def test_progress_asks_for_attributes_only_when_needed():
    def never():
        raise AssertionError("nobody asked")

    class Lazy(Counter):
        @fit_context()
        def fit(self, X, y=None):
            progress = FitProgress(self, 1, X, y, never)
            progress.begin()
            progress.end()
            progress.close()
            return self

    Lazy().fit(X)


def test_adapter_works_with_dispatch_on():
    with config_context(array_api_dispatch=False):
        assert np.array_equal(table(torch.tensor(X)), X)


def test_mixed_labels_are_refused():
    with pytest.raises(TypeError, match="y mixes labels of types bool, str"):
        y = np.array([True, "yes", False, "yes"], dtype=object)
        check_table(Plain(), X, y, reset=True)
    for y in (np.array([1, True, 2.0, 3], dtype=object), np.array(["a"] * 4, object)):
        assert np.array_equal(check_table(Plain(), X, y, reset=True)[1], y)
