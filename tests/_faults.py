"""The fault battery: fifty kinds of bad or odd data, and the verdict on each.

A fault makes ``(X, y)`` from good data. What must happen is one of

- ``"error"``: a ValueError or TypeError of at least a sentence; where our own code
  raises it, the sentence names the argument or the parameter;
- ``"finite"``: outputs that are finite, one for each row;
- ``"same"``: the very outputs of the plain array with the same numbers;
- ``"either"``: an error or finite outputs, as above.

Never: another exception, NaN or infinity in an output, a RuntimeWarning, or a change of
the caller's data. Faults of X come twice: in ``fit``, and when predicting.
"""

import copy
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags

from tests._observe import assert_same, fit, methods_of


@dataclass
class Fault:
    """One kind of bad input.

    Attributes
    ----------
    number : int
        As in the list that the project reports by.
    name : str
    make : callable
        ``make(X, y)`` returns the faulty pair; both are copies that it may change.
    expects : str or callable
        Or ``expects(estimator)``.
    on_y : bool
        A fault of y, for estimators that need one.
    """

    number: int
    name: str
    make: Callable
    expects: str | Callable
    on_y: bool = False


FAULTS = []


def fault(number, name, expects, on_y=False):
    """Register ``make(X, y)`` as a fault."""

    def register(make):
        FAULTS.append(Fault(number, name, make, expects, on_y))
        return make

    return register


def _x(number, name, expects, change):
    """A fault that only changes X."""
    FAULTS.append(Fault(number, name, lambda X, y: (change(X), y), expects))


def _put(X, value):
    X[3, 1] = value
    return X


def _column(X, value):
    X[:, 1] = value
    return X


_x(1, "NaN in X", "error", lambda X: _put(X, np.nan))
_x(2, "+inf in X", "error", lambda X: _put(X, np.inf))
_x(3, "1e39, beyond float32", "either", lambda X: _put(X, 1e39))
_x(4, "denormals", "finite", lambda X: X * 1e-310)
_x(5, "scale 1e150", "either", lambda X: X * 1e150)
_x(6, "scales 1e-8 to 1e8", "finite", lambda X: X * 10.0 ** np.linspace(-8, 8, 4))
_x(7, "offset 1e8", "finite", lambda X: X + 1e8)
_x(8, "all rows equal", "finite", lambda X: np.repeat(X[:1], len(X), axis=0))
_x(9, "constant column", "finite", lambda X: _column(X, 7.0))
_x(10, "all zero", "finite", np.zeros_like)
_x(11, "90 % duplicates", "finite", lambda X: X[np.arange(len(X)) // 10])
_x(12, "rank-1 columns", "finite", lambda X: X[:, :1] * np.arange(1, 5))


@fault(13, "fewer rows than columns", "finite")
def _(X, y):
    return X[:3], None if y is None else y[:3]


@fault(14, "one row", "either")
def _(X, y):
    return X[:1], None if y is None else y[:1]


@fault(15, "no rows", "error")
def _(X, y):
    return X[:0], None if y is None else y[:0]


_x(16, "no columns", "error", lambda X: X[:, :0])
_x(17, "1-D X", "error", lambda X: X[:, 0])
_x(18, "3-D X", "error", lambda X: X[:, :, None])
_x(19, "scalar X", "error", lambda X: 3.0)
_x(20, "None", "error", lambda X: None)
_x(21, "a path", "error", lambda X: "data/train.csv")
_x(22, "a dict", "error", lambda X: {"a": list(X[:, 0]), "b": list(X[:, 1])})
_x(23, "a generator", "error", lambda X: (row for row in X))
_x(24, "ragged list", "error", lambda X: [[1.0, 2.0], *X[1:].tolist()])
_x(25, "strings", "error", lambda X: _put(X.astype(object), "red"))
_x(26, "complex", "error", lambda X: X + 1j)
_x(27, "datetime64", "error", lambda X: (1e6 * X).astype("datetime64[s]"))
_x(28, "bool", "same", lambda X: X > X.mean(axis=0))
_x(29, "int8", "same", lambda X: np.clip(10 * X, -127, 127).astype(np.int8))


@fault(30, "uint64 beyond 2^63", "same")
def _(X, y):
    scaled = (X - X.min()) / (X.max() - X.min())
    return (scaled * 2.0**62).astype(np.uint64) + np.uint64(2**63), y


_x(31, "float16", "same", lambda X: X.astype(np.float16))
_x(32, "big-endian", "same", lambda X: X.astype(">f8"))
_x(33, "negative strides", "same", lambda X: X[:, ::-1])
_x(34, "Fortran order", "same", np.asfortranarray)


@fault(35, "read-only", "same")
def _(X, y):
    X.flags.writeable = False
    if y is not None:
        y.flags.writeable = False
    return X, y


def _matrix(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix(X)


def _sparse_expects(estimator):
    return "finite" if get_tags(estimator).input_tags.sparse else "error"


def _masked(X):
    return np.ma.masked_array(X, mask=X > np.percentile(X, 95))


def _frame(X, columns=None):
    import pandas as pd

    return pd.DataFrame(X, columns=list("abcd") if columns is None else columns)


def _frame_with_na(X):
    import pandas as pd

    frame = _frame(X).convert_dtypes()
    frame.loc[3, "b"] = pd.NA
    return frame


_x(36, "np.matrix", "error", _matrix)
_x(37, "masked array", "error", _masked)
_x(38, "CSR matrix", _sparse_expects, scipy.sparse.csr_matrix)
_x(39, "frame with pd.NA", "error", _frame_with_na)
_x(40, "duplicate column names", "either", lambda X: _frame(X, ["a", "b", "b", "c"]))
_x(41, "mixed str/int columns", "error", lambda X: _frame(X, ["a", 1, "b", 2]))


def _for_classifiers(classifier, regressor):
    return lambda estimator: classifier if is_classifier(estimator) else regressor


@fault(42, "NaN in y", "error", on_y=True)
def _(X, y):
    y = y.astype(float)
    y[3] = np.nan
    return X, y


@fault(43, "one class", "either", on_y=True)
def _(X, y):
    return X, np.full_like(y, 1)


@fault(44, "y too short", "error", on_y=True)
def _(X, y):
    return X, y[:-1]


@fault(45, "y is None", "error", on_y=True)
def _(X, y):
    return X, None


@fault(46, "one-hot y", _for_classifiers("error", "either"), on_y=True)
def _(X, y):
    return X, np.eye(2)[(y > y.mean()).astype(int)]


@fault(47, "continuous y", _for_classifiers("error", "finite"), on_y=True)
def _(X, y):
    return X, y + 0.1 * X[:, 0]


@fault(48, "class of one row", "finite", on_y=True)
def _(X, y):
    y = (y > y.mean()).astype(int)
    y[0] = 2
    return X, y


@fault(49, "string labels", _for_classifiers("finite", "error"), on_y=True)
def _(X, y):
    return X, np.array(["no", "yes"])[(y > y.mean()).astype(int)]


@fault(50, "labels of mixed types", "error", on_y=True)
def _(X, y):
    y = (y > y.mean()).astype(object)
    y[::2] = "yes"
    return X, y


def applies(fault, stage, estimator):
    """Faults of y are for ``fit`` of estimators that need one."""
    if not fault.on_y:
        return True
    return stage == "fit" and (is_classifier(estimator) or is_regressor(estimator))


def expectation(fault, stage, entry, estimator):
    """What must happen, after the overrides of the entry."""
    if fault.number in entry.faults:
        return entry.faults[fault.number][0]
    if stage == "predict" and fault.number == 14:
        return "finite"
    return fault.expects(estimator) if callable(fault.expects) else fault.expects


def judge(fault, stage, entry, estimator):
    """Run one fault and raise AssertionError unless it is survived."""
    good_X, good_y = entry.make_data()
    X, y = fault.make(good_X.copy(), None if good_y is None else good_y.copy())
    before = _frozen(X), _frozen(y)
    expects = expectation(fault, stage, entry, estimator)
    where = f"{fault.number} {fault.name}"
    if stage == "predict":
        estimator = fit(clone(estimator), good_X, good_y)
        names = methods_of(estimator)
        calls = {name: getattr(estimator, name) for name in names}
        for name, call in calls.items():
            _outcome(
                f"{where} in {name}", expects, estimator, lambda c=call: {"": c(X)}
            )
    else:
        estimator = clone(estimator)
        found = _outcome(
            where, expects, estimator, lambda: _all(estimator, X, y, expects == "error")
        )
        if expects == "same" and found is not None:
            plain = np.ascontiguousarray(np.asarray(X), dtype=np.float64)
            again = fit(clone(estimator), plain, y)
            assert_same(_outputs(again, plain), found, where)
    assert (_frozen(X), _frozen(y)) == before, f"{where}: the caller's data changed"


def _all(estimator, X, y, refused):
    needs_y = is_classifier(estimator) or is_regressor(estimator)
    fitted = estimator.fit(X, y) if needs_y else estimator.fit(X)
    # What must be refused must be refused by `fit`, not by the next method.
    return {} if refused else _outputs(fitted, X)


def _outputs(estimator, X):
    return {m: getattr(estimator, m)(X) for m in methods_of(estimator)}


def _outcome(where, expects, estimator, call):
    """The finite outputs of the call, or None after an acceptable error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except (ValueError, TypeError) as exc:
            assert expects in ("error", "either"), f"{where} is refused: {exc!r}"
            assert_is_clear(exc, estimator)
            found = None
        except Exception as exc:
            raise AssertionError(
                f"{where} ends in {type(exc).__name__}: {exc}"
            ) from exc
        else:
            assert expects != "error", f"{where} is accepted"
    stray = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert not stray, f"{where}: RuntimeWarning {stray[0].message}"
    for name, values in (found or {}).items():
        values = np.asarray(values)
        if values.dtype.kind in "fc":
            assert np.isfinite(values).all(), f"{where}: {name} is not finite"
    return found


#: Python's own words for code that trips over what it was given.
_ACCIDENT = re.compile(
    r"^object of type|^'\w+' object |^'.+' not supported between|^unhashable|"
    r"^unsupported operand|^cannot unpack|^iteration over|^invalid literal|"
    r"^operands could not be|^only integer scalar|^zero-size array"
)


def assert_is_clear(exc, estimator):
    """At least a sentence; from our own code, one that names what is wrong."""
    text = str(exc)
    words = re.findall(r"[A-Za-z]{2,}", text)
    assert len(text) >= 10 and len(words) >= 3, f"not a sentence: {text!r}"
    assert not _ACCIDENT.search(text), f"an accident, not a check: {text!r}"
    raised_in = traceback.extract_tb(exc.__traceback__)[-1].filename
    if "skmethods" in raised_in.replace("\\", "/").split("/")[-3:-1]:
        names = {"X", "y", "Column", "tensor", "sample_weight", "groups", "rows"}
        names |= estimator.get_params(deep=False).keys()
        assert names & set(re.findall(r"\w+", text)), f"names no argument: {text!r}"


def _frozen(a):
    """Something that changes when the caller's data does."""
    if isinstance(a, np.ndarray):
        body = np.asarray(a)
        data = repr(body.tolist()) if body.dtype == object else body.tobytes()
        return data, str(a.dtype), a.shape, a.strides, a.flags.writeable
    if scipy.sparse.issparse(a):
        return a.data.tobytes(), a.indices.tobytes(), a.indptr.tobytes()
    if hasattr(a, "to_numpy"):
        return repr(a.to_numpy().tolist()), str(list(a.columns)), str(list(a.dtypes))
    return repr(copy.copy(a)) if isinstance(a, (list, dict, str)) else type(a)
