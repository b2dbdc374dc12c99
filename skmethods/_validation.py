"""The one file that touches scikit-learn's private-by-name helpers.

Everything that a scikit-learn release may move is imported here and nowhere
else; the rest of the package imports it from here.
"""

import contextlib
import functools
import sys

import numpy as np
from sklearn import config_context
from sklearn.base import _fit_context
from sklearn.utils._param_validation import (
    HasMethods,
    Hidden,
    Interval,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

__all__ = [
    "FitProgress",
    "HasMethods",
    "Hidden",
    "Interval",
    "Options",
    "StrOptions",
    "as_host",
    "check_groups",
    "check_is_fitted",
    "check_row_counts",
    "check_table",
    "check_weights",
    "fit_context",
    "validate_params",
]

#: How numpy says that something is not a number.
_CONVERSION_FAILED = ("could not convert", "argument must be", "too large to convert")

#: The largest sum of weights that count rows.
MAX_ROW_COUNT = 1e15

_NO_Y = object()  # y is not part of the call, which None would not say


def fit_context(*, prefer_skip_nested_validation=True):
    """scikit-learn's ``_fit_context``, and a fit that raises changes nothing.

    Decorates ``fit`` and ``partial_fit``: parameters are validated, callbacks torn
    down, and when the method raises (also KeyboardInterrupt) the attributes of the
    estimator are what they were before the call: unfitted, or the last good fit.

    Parameters
    ----------
    prefer_skip_nested_validation : bool, default=True
        False for estimators that are given other estimators.
    """

    def decorate(method):
        fit = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)
        inner = fit(method)

        @functools.wraps(method)
        def wrapper(estimator, *args, **kwargs):
            before = vars(estimator).copy()
            try:
                return inner(estimator, *args, **kwargs)
            except BaseException:
                vars(estimator).clear()
                vars(estimator).update(before)
                raise

        return wrapper

    return decorate


def as_host(a):
    """Bring a torch tensor of any device to a numpy array; leave the rest alone.

    bfloat16, which numpy does not know, becomes float32 (exact).
    """
    torch = sys.modules.get("torch")  # no tensor exists unless torch is loaded
    if torch is not None and isinstance(a, (list, tuple)):
        return [as_host(v) if isinstance(v, torch.Tensor) else v for v in a]
    if torch is None or not isinstance(a, torch.Tensor):
        return a
    if a.device.type == "meta":
        raise ValueError(
            "Got a tensor on the 'meta' device, which holds no data. Pass a tensor "
            "with data, or a numpy array."
        )
    if a.layout is not torch.strided:
        raise TypeError(
            f"Got a sparse torch tensor ({a.layout}). Pass a dense tensor, or a "
            "scipy.sparse matrix where the estimator accepts one."
        )
    a = a.detach().cpu()
    a = a.float() if a.dtype is torch.bfloat16 else a
    return a.resolve_conj().resolve_neg().numpy()


def _refuse_silent_conversions(a, name):
    """Refuse what ``check_array`` would turn into numbers without a word."""
    if np.ma.isMaskedArray(a) and np.ma.is_masked(a):
        raise ValueError(
            f"{name} is a masked array with {int(np.ma.getmaskarray(a).sum())} masked "
            "entries, whose hidden values would be used as data. Fill or impute them "
            "first, e.g. with sklearn.impute.SimpleImputer."
        )
    if hasattr(a, "columns") and hasattr(a, "dtypes"):  # pandas or polars
        dtypes = [
            (f"Column {c!r}", t) for c, t in zip(a.columns, a.dtypes, strict=True)
        ]
    else:
        if isinstance(a, (list, tuple)):
            try:
                a = np.asarray(a)
            except ValueError:  # ragged: check_array says so
                return
        dtypes = [(name, getattr(a, "dtype", None))]
    for what, dtype in dtypes:
        text = str(dtype).lower()  # numpy's, pandas', pyarrow's or polars' name
        is_time = text.startswith(("date", "time", "duration"))
        if text == "object":
            is_time = any(
                isinstance(v, (np.datetime64, np.timedelta64))
                for v in np.asarray(a, dtype=object).flat
            )
        if is_time or getattr(dtype, "kind", None) in ("M", "m"):
            raise TypeError(
                f"{what} has dtype {dtype} and holds times, not numbers. Convert them "
                "to numbers in a unit of your choice, e.g. "
                "(t - t.min()) / np.timedelta64(1, 's')."
            )


def _refuse_mixed_labels(labels, name):
    """Refuse text beside other labels, which nothing can sort."""
    if labels.dtype.kind != "O":
        return
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        types = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise TypeError(
            f"{name} mixes labels of types {types}, which cannot be ordered. Use one "
            "type, e.g. all strings."
        )


def _columns_without_numbers(X):
    """Names (or positions) of the columns that ``float`` does not take.

    None when X is no table at all.
    """
    names = list(getattr(X, "columns", []))
    table = np.asarray(X, dtype=object)
    if table.ndim != 2:
        return None
    bad = []
    for j, column in enumerate(table.T):
        try:
            column.astype(float)
        except (TypeError, ValueError, OverflowError):
            bad.append(repr(names[j]) if names else str(j))
    return bad


def _not_numbers(exc, X, y):
    """A clearer error than that of the conversion to floats."""
    try:
        bad = _columns_without_numbers(X)
    except (TypeError, ValueError):
        bad = None
    if bad:
        where = f"X is not numeric in column{'s'[: len(bad) > 1]} {', '.join(bad[:10])}"
    elif bad is None or y is _NO_Y or y is None:
        where = "X is not a table of numbers"
    else:
        where = "y is not numeric"
    kind = TypeError if isinstance(exc, TypeError) else ValueError
    return kind(
        f"{where} ({exc}). Encode text as numbers first, e.g. with "
        "sklearn.preprocessing.OrdinalEncoder or OneHotEncoder."
    )


def check_table(estimator, X, y=_NO_Y, *, reset, dtype=(np.float64, np.float32), **kw):
    """``validate_data`` for tables that may also be torch tensors.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_`` when `reset`.
    X : array-like, tensor or frame of shape (n_samples, n_features)
    y : array-like, tensor or None, optional
        None is an error for an estimator that requires a target. Left out, only X is
        checked and returned.
    reset : bool
        True in ``fit``, False in every method that needs a fitted estimator.
    dtype : dtype or sequence of dtypes
        The first is what other dtypes become. The result is C-ordered and may share
        memory with the caller: never write into it.
    **kw
        Passed to ``sklearn.utils.validation.validate_data``.

    Returns
    -------
    X or (X, y)
    """
    X = as_host(X)
    _refuse_silent_conversions(X, "X")
    if isinstance(y, str):
        raise TypeError(f"y must be an array with one target per row of X, got {y!r}.")
    if y is not _NO_Y:
        y = as_host(y)
        _refuse_silent_conversions(y, "y")
        kw["y"] = y
    dtype = list(dtype) if isinstance(dtype, tuple) else dtype
    # With dispatch on, scikit-learn would hand numpy input to its array-API paths,
    # which these estimators do not claim to support.
    # And its check of finite values adds them up, in which infinities may cancel.
    with config_context(array_api_dispatch=False), np.errstate(invalid="ignore"):
        try:
            checked = validate_data(
                estimator, X, reset=reset, dtype=dtype, order="C", **kw
            )
        except (TypeError, ValueError, OverflowError) as exc:
            if any(sign in str(exc) for sign in _CONVERSION_FAILED):
                raise _not_numbers(exc, X, y) from exc
            raise
    if isinstance(checked, tuple):
        _refuse_mixed_labels(checked[1], "y")
    return checked


def check_weights(sample_weight, X):
    """Non-negative finite weights of shape (n_samples,), not all zero.

    None gives ones. The dtype is that of `X`.
    """
    sample_weight = as_host(sample_weight)
    _refuse_silent_conversions(sample_weight, "sample_weight")
    with config_context(array_api_dispatch=False):
        try:
            return _check_sample_weight(
                sample_weight,
                X,
                dtype=X.dtype,
                ensure_non_negative=True,
                allow_all_zero_weights=False,
            )
        except (TypeError, ValueError) as exc:
            text = str(exc)
            if "sample_weight" in text:
                raise
            kind = TypeError if isinstance(exc, TypeError) else ValueError
            raise kind(
                "sample_weight must hold one finite, non-negative number per row of X: "
                f"{text[:1].lower()}{text[1:]}"
            ) from exc


def check_row_counts(weight):
    """Refuse weights that cannot be numbers of rows: their sum is beyond 1e15.

    For estimators with a criterion such as BIC, to which the sum of the weights is the
    number of observations. Beyond 2**53 counts are no longer exact, and sums of huge
    weights overflow.

    Parameters
    ----------
    weight : ndarray of shape (n_samples,)
        From ``check_weights``.
    """
    with np.errstate(over="ignore"):
        total = float(weight.sum(dtype=np.float64))
    if total > MAX_ROW_COUNT:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, but weights count rows here: a weight "
            f"of 2 is the row twice, and more than {MAX_ROW_COUNT:.0e} rows are not "
            "believed. Rescale the weights, e.g. to a mean of 1."
        )


def check_groups(groups, n_samples, *, name="groups", estimator=None):
    """One label per row, as integer codes.

    Parameters
    ----------
    groups : array-like of shape (n_samples,)
        Integers or strings; missing values are refused.
    n_samples : int
    name : str, default="groups"
        The keyword of ``fit``, for messages.
    estimator : estimator, default=None
        When given, None for `groups` is an error that shows how to pass them.

    Returns
    -------
    labels : ndarray of shape (n_groups,)
    codes : ndarray of int of shape (n_samples,)
        ``labels[codes]`` gives `groups` back.
    """
    if groups is None:
        cls = type(estimator).__name__
        raise ValueError(
            f"{cls}.fit needs {name}=, one label per row of X, and got None. Inside a "
            "Pipeline or GridSearchCV ask for it by metadata routing:\n"
            "    sklearn.set_config(enable_metadata_routing=True)\n"
            f"    {cls}(...).set_fit_request({name}=True)"
        )
    groups = np.asarray(as_host(groups))
    if groups.shape != (n_samples,):
        raise ValueError(
            f"{name} must have shape ({n_samples},), one label per row of X; got "
            f"shape {groups.shape}."
        )
    if groups.dtype.kind in "fM":
        missing = groups != groups
    elif groups.dtype.kind == "O":
        # pandas.NA compares to neither True nor False, so it is known by its type.
        missing = np.array(
            [g is None or type(g).__name__ == "NAType" or g != g for g in groups],
            dtype=bool,
        )
    else:
        missing = np.zeros(n_samples, dtype=bool)
    if missing.any():
        raise ValueError(
            f"{name} has {int(missing.sum())} missing values, the first in row "
            f"{int(missing.argmax())}. Give every row a label or drop those rows."
        )
    _refuse_mixed_labels(groups, name)
    labels, codes = np.unique(groups, return_inverse=True)
    return labels, codes


class FitProgress:
    """Report the iterations of one ``fit`` to scikit-learn's callbacks.

    The estimator must mix in ``sklearn.callback.CallbackSupportMixin`` and its
    ``fit`` carry ``@fit_context``, which tears the callbacks down.

    Parameters
    ----------
    estimator : estimator
    max_iter : int
        The number of iterations that a progress bar announces.
    X, y : arrays
        What the callbacks see as the training data.
    attributes : callable
        Returns the dict of fitted attributes that make a copy of the estimator able
        to predict as of now. Called only if a callback asks for it.
    task : str, default="iteration"
        What the progress bar calls one iteration.
    """

    def __init__(self, estimator, max_iter, X, y, attributes, task="iteration"):
        self._data = {"estimator": estimator, "X": X, "y": y}
        self._attributes = attributes
        self._task = task
        self._root = estimator._init_callback_context(max_subtasks=max_iter)
        self._root.call_on_fit_task_begin(**self._data)
        self._sub = None

    def begin(self):
        """An iteration starts."""
        self._sub = self._root.subcontext(task_name=self._task)
        self._sub.call_on_fit_task_begin(**self._data)

    def end(self):
        """An iteration ended; True if a callback asks to stop."""
        return self._sub.call_on_fit_task_end(
            **self._data, reconstruction_attributes=self._attributes
        )

    @contextlib.contextmanager
    def around(self, estimator, task="fit"):
        """The block fits another estimator, to which callbacks are passed on.

        Counts as one iteration.
        """
        sub = self._root.subcontext(task_name=task)
        with sub.propagate_callback_context(estimator):
            sub.call_on_fit_task_begin(**self._data)
            yield
            sub.call_on_fit_task_end(**self._data)

    def close(self):
        """The whole fit ended."""
        self._root.call_on_fit_task_end(
            **self._data, reconstruction_attributes=self._attributes
        )
