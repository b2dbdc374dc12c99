"""Decimal digits that a formula loses to rounding, node by node."""

import sys
from numbers import Real

import numpy as np
from sklearn.utils import check_array

from .._validation import as_host, check_weights
from ._condition import condition_numbers
from ._eic_result import EICResult
from ._engines import gplearn_tape, read_formulas
from ._parse import parse_formula
from ._signomial import check_names
from ._tape import BINARY, Tape, check_columns, value

_ONE, _INF = np.ones(1), np.inf


def _careful(op, conditions, s2, y):
    """``1 + sum of kappa**2 * s2`` with the rules for zero and undefined values."""
    total, zero = np.ones(len(y)), y == 0
    for k, s in zip(conditions, s2, strict=True):
        # At a zero value only a change that does not vanish itself is infinite; that of
        # a power vanishes, though its condition number alone does not.
        if type(k) is not float and op not in ("pow", "powabs"):
            zero_k = zero & ~np.isinf(k)
        else:
            zero_k = zero
        k = np.where(zero_k, 0.0, k)
        # An operand without influence passes nothing on, however noisy it is.
        total += np.where(k == 0, 0.0, k * k * s)
    total[~np.isfinite(y) | np.isnan(total)] = np.inf
    return total


def _aggregate_log(s2, weight, aggregate):
    """The aggregate over rows of log10(s2)."""
    log = np.log10(s2)
    if aggregate == "logmean":
        return weight.dot(log)
    return _quantile(log, weight, 0.5 if aggregate == "median" else aggregate)


def _quantile(values, weight, q):
    """The value below which a share q of the weight lies; two are averaged at a step.

    Twice the weight is the same as the row twice.
    """
    order = np.argsort(values)
    share = np.cumsum(weight[order])
    share /= share[-1]
    slack = 1e-12  # of rounding in the sum
    low = np.searchsorted(share, q - slack)
    high = np.searchsorted(share, q + slack, side="right")
    low, high = values[order[[low, min(high, len(values) - 1)]]]
    return low if low == high else 0.5 * (low + high)


def _amplification(conditions, s2):
    """``1 + sum of kappa**2 * s2``: a number if no operand depends on the row."""
    constant, varying = 1.0, None
    for k, s in zip(conditions, s2, strict=True):
        if type(k) is float:
            term = s if k * k == 1.0 else k * k * s
            if type(term) is float:
                constant += term
                continue
            varying = term if varying is None else varying + term
            continue
        term = k * k
        if type(s) is not float or s != 1.0:
            term = term * s  # their lengths differ below a constant
        varying = term if varying is None else varying + term
    return constant if varying is None else varying + constant


def _propagate(tape, columns, weight, aggregate, *, stop=False):
    """Digits of every node, and which rows have a value that is not finite.

    With `stop`, what comes after a node that has lost all digits is left out.

    Values and squared amplifications live on a stack, so memory grows with the depth of
    the formula. Those of a subexpression without columns are arrays of length one, and
    an amplification that is the same in all rows is a float.
    """
    n = len(weight)
    found, log_s2 = [], {}  # s2 of each node; log10 of it where that is aggregated
    bad = None
    stack = []
    with np.errstate(all="ignore"):
        for op, arg in zip(tape.ops, tape.args, strict=True):
            if op == "x" or op == "const":
                stack.append((columns[arg] if op == "x" else np.array([arg]), 1.0))
                found.append(1.0)
                continue
            b, sb = stack.pop()
            if op in BINARY:
                a, sa = stack.pop()
                operands, s2 = (a, b), (sa, sb)
            else:
                operands, s2 = (b,), (sb,)
            y = value(op, arg, *operands)
            conditions = condition_numbers(op, arg, operands, y)
            total = _amplification(conditions, s2)
            if type(total) is not float and len(total) < n:
                total = float(total[0])
            # y / y is nan where y is zero or not finite: those rows have rules.
            over = weight if len(y) == n else _ONE
            check = over.dot(y / y)
            check += total if type(total) is float else over.dot(total)
            if not check < _INF:
                total = _careful(op, conditions, s2, y)
                total = total if len(total) == n else float(total[0])
                wrong = ~np.isfinite(y)
                if wrong.any():
                    bad = wrong if bad is None else bad | wrong
            if type(total) is float:
                found.append(total)
            elif aggregate == "mean":
                found.append(weight.dot(total))
            else:
                log_s2[len(found)] = log = _aggregate_log(total, weight, aggregate)
                found.append(1.0 if log < _INF else _INF)
            if stop and not found[-1] < _INF:
                break
            stack.append((y, total))
    digits = 0.5 * np.log10(found)
    for i, log in log_s2.items():
        digits[i] = 0.5 * log
    np.maximum(digits, 0, out=digits)  # weights may add to a little less than one
    bad = np.zeros(n, dtype=bool) if bad is None else np.broadcast_to(bad, n)
    return digits, bad


def _columns(tape, X, keep=None):
    """The columns that the tape reads, contiguous, of the rows to keep."""
    rows = slice(None) if keep is None else keep
    return {
        j: np.ascontiguousarray(X[rows, j], dtype=np.float64)
        for j in check_columns(tape, X)
    }


def _node_digits(tape, X, sample_weight, aggregate, on_invalid, *, stop=False):
    """Digits of every node and the number of rows where a value is not defined."""
    if sample_weight is None:
        keep, weight = None, np.full(len(X), 1 / len(X))
    else:
        keep = sample_weight > 0
        weight = sample_weight[keep].astype(np.float64)
        # Neither sum nor shares leave the range of floats, whatever the scale.
        weight = np.maximum(weight / weight.max(), np.finfo(np.float64).tiny)
        weight /= weight.sum()
    columns = _columns(tape, X, keep)
    stop = stop and on_invalid == "inf"
    digits, bad = _propagate(tape, columns, weight, aggregate, stop=stop)
    n_bad = int(np.count_nonzero(bad))
    if on_invalid == "ignore" and 0 < n_bad < len(bad):
        columns = {j: column[~bad] for j, column in columns.items()}
        weight = weight[~bad]
        digits, _ = _propagate(tape, columns, weight / weight.sum(), aggregate)
    return digits, n_bad


def node_digits(tape, X, sample_weight=None, aggregate="mean", on_invalid="inf"):
    """Decimal digits lost at every node of a tape.

    Parameters
    ----------
    tape : Tape
    X : ndarray of shape (n_samples, n_features)
        Finite numbers.
    sample_weight : ndarray of shape (n_samples,), default=None
    aggregate : {"mean", "logmean", "median"} or float in (0, 1), default="mean"
    on_invalid : {"inf", "ignore"}, default="inf"

    Returns
    -------
    ndarray of shape (tape.size,)
    """
    return _node_digits(tape, X, sample_weight, aggregate, on_invalid)[0]


def tape_information(tape, X, sample_weight=None, aggregate="mean", on_invalid="inf"):
    """The effective information criterion of a tape: the worst of its nodes.

    Parameters are those of `node_digits`. Once a node has lost all digits the rest of
    the formula is not looked at.
    """
    digits, _ = _node_digits(tape, X, sample_weight, aggregate, on_invalid, stop=True)
    return float(digits.max())


def as_tape(expr, *, feature_names=None, n_features=None, protected=None):
    """The tape of anything that holds a formula; see `effective_information`."""
    if isinstance(expr, Tape):
        return expr
    if hasattr(expr, "program") and hasattr(expr, "execute"):
        return gplearn_tape(expr)
    constants = None
    if _is_sympy(expr):
        constants = _sympy_constants(expr, feature_names)
        expr = str(expr)
    if isinstance(expr, str):
        return parse_formula(
            expr,
            feature_names=feature_names,
            n_features=n_features,
            protected=protected,
            constants=constants,
        )
    if not hasattr(expr, "fit") and not hasattr(expr, "formula"):
        raise TypeError(
            "expr must be text, a sympy expression, a gplearn program or a fitted "
            f"estimator with a formula, got {type(expr).__name__}."
        )
    tapes = read_formulas(expr, feature_names, n_features)
    if len(tapes) != 1:
        raise ValueError(
            f"{type(expr).__name__} has {len(tapes)} formulas, one for each class. "
            "Pass the text of one of them, from its formula() method."
        )
    return tapes[0]


def _is_sympy(expr):
    sympy = sys.modules.get("sympy")  # no expression exists unless it is loaded
    return sympy is not None and isinstance(expr, sympy.Basic)


def _sympy_constants(expr, feature_names):
    """The numbers with a name, such as E and pi, that a sympy expression holds."""
    from sympy import NumberSymbol

    constants = {str(number): float(number) for number in expr.atoms(NumberSymbol)}
    taken = {str(symbol) for symbol in expr.free_symbols}.union(feature_names or ())
    for name in constants:
        if name in taken:
            raise ValueError(
                f"The expression holds the number {name}, and {name} is also the name "
                "of a column or symbol, so its text has two meanings. Rename the "
                f"column, or replace the number: expr.xreplace({{sympy.{name}: "
                f"sympy.{name}.evalf(17)}})."
            )
    return constants


def _names_of_estimator(expr, X):
    """Names that a fitted estimator gives to the columns, which must be those of X."""
    names = getattr(expr, "feature_names_in_", None)
    n_features = getattr(expr, "n_features_in_", None)
    if n_features is not None and n_features != np.shape(X)[-1]:
        raise ValueError(
            f"X has {np.shape(X)[-1]} columns, but {type(expr).__name__} was fitted on "
            f"{n_features}."
        )
    if names is None:
        return None
    names = [str(name) for name in names]
    columns = list(getattr(X, "columns", names))
    if columns != names and all(isinstance(c, str) for c in columns):
        raise ValueError(
            f"The columns of X must be those that {type(expr).__name__} was fitted on, "
            f"in their order: {names}, got {columns}."
        )
    return names


def check_rows(X, feature_names=None):
    """X as finite float64 rows, and the names of its columns if it has any.

    Parameters
    ----------
    X : array-like, tensor or frame of shape (n_samples, n_features)
    feature_names : sequence of str, default=None
        Names that go before those of the frame.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    feature_names : list of str or None
    """
    if feature_names is None and hasattr(X, "columns"):
        columns = list(X.columns)
        feature_names = columns if all(isinstance(c, str) for c in columns) else None
    elif feature_names is not None:
        feature_names = check_names(feature_names)
    X = check_array(as_host(X), dtype=np.float64, input_name="X")
    if feature_names is not None and len(feature_names) != X.shape[1]:
        raise ValueError(
            f"feature_names has {len(feature_names)} names, but X has {X.shape[1]} "
            "columns."
        )
    return X, feature_names


def check_aggregate(aggregate):
    """Raise for an aggregate that has no meaning."""
    number = isinstance(aggregate, Real) and not isinstance(aggregate, bool)
    if aggregate not in ("mean", "logmean", "median") and not (
        number and 0 < aggregate < 1
    ):
        raise ValueError(
            "aggregate must be 'mean', 'logmean', 'median' or a quantile between 0 and "
            f"1, got {aggregate!r}."
        )


def check_options(aggregate, on_invalid, protected):
    """Raise for what `effective_information` does not know."""
    check_aggregate(aggregate)
    if on_invalid not in ("inf", "ignore"):
        raise ValueError(f"on_invalid must be 'inf' or 'ignore', got {on_invalid!r}.")
    if protected not in (None, "gplearn"):
        raise ValueError(f"protected must be None or 'gplearn', got {protected!r}.")


def effective_information(
    expr,
    X,
    *,
    feature_names=None,
    aggregate="mean",
    sample_weight=None,
    protected=None,
    on_invalid="inf",
    return_details=False,
):
    """Decimal digits that a formula loses to rounding at its worst node.

    The effective information criterion (EIC). Every read of a variable or constant and
    every operation adds independent relative rounding noise of one size; what reaches a
    node is amplified by the condition numbers of the operators below it. The criterion
    is the largest amplification among the nodes, as a number of decimal digits: 0 for
    a bare variable, about 1 or more for a suspicious formula, inf where a difference
    cancels exactly. No target is needed.

    It is a property of the formula *as written*: ``(x0 + 1) - x0`` loses digits, ``1``
    does not.

    Parameters
    ----------
    expr : str, sympy expression, gplearn program or estimator
        Text may be infix with ``**`` or ``^``, what sympy, PySR or operon print, or
        calls such as ``add(mul(X0, X1), 0.5)``. A sympy expression is read as
        ``str(expr)``: sympy has reordered and merged terms before; its numbers with a
        name, such as E and pi, are known. Programs of gplearn
        keep all digits of their constants and gplearn's protected functions. Fitted
        estimators: those with a ``formula()`` method such as `ECSELRegressor`, and the
        regressors of gplearn, pyoperon and PySR.
    X : array-like of shape (n_samples, n_features)
        The inputs at which the formula is to be judged, finite.
    feature_names : sequence of str, default=None
        Names of the columns in the text. If None, those of a data frame, or else x0,
        x1, ... (also X0 or x_0), which are read too where some name is no identifier,
        unless a column is called so. A name goes before all else: with a column
        "a-b", that text is the column and no difference. An estimator with
        ``feature_names_in_`` is read in those. For text of operon, which counts from
        one, give X1, X2, ...
    aggregate : {"mean", "logmean", "median"} or float in (0, 1), default="mean"
        How a node's rows become one number. "mean": half the log10 of the mean squared
        amplification, as in the paper; a few rows close to a cancellation decide it,
        and it may grow with the number of rows without end. "logmean": the mean number
        of digits. "median" or a quantile: of the number of digits.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, not negative; their scale does not matter. A row of weight
        zero counts as absent.
    protected : {None, "gplearn"}, default=None
        With "gplearn", ``div``, ``sqrt``, ``log``, ``inv`` and ``/`` in text are its
        protected versions, which are finite everywhere.
    on_invalid : {"inf", "ignore"}, default="inf"
        What rows do at which some subexpression has no finite value, such as the
        logarithm of a negative number or an overflow. "inf": the node has lost all
        digits there. "ignore": such rows are left out of every node, unless none would
        be left. A row is left out whichever node is invalid, so a cancellation below,
        in that row only, goes unseen. Exact cancellation has a value, 0, and counts as
        inf either way.
    return_details : bool, default=False
        Return an `EICResult`, which shows where the digits are lost.

    Returns
    -------
    float or EICResult

    Raises
    ------
    ValueError
        If the text is no formula or has unknown names. It is parsed, never executed;
        more than 10 000 nodes, 4 000 nested brackets, calls and signs or 500 000
        characters are refused.

    See Also
    --------
    EICResult : What `return_details` gives.
    filter_formulas : Keeps the formulas of a list that lose few digits.

    Notes
    -----
    Node k with value ``y_k`` and operands i has the squared amplification
    ``s_k² = 1 + Σ_i κ_ki² s_i²`` with ``κ_ki = (y_i / y_k) ∂y_k/∂y_i``, and 1 for a
    leaf. Where ``y_k = 0``, κ is 0 if ``y_i ∂y_k/∂y_i`` vanishes too and inf otherwise;
    an operand with κ = 0 adds nothing, however noisy. Two equal leaves are two reads
    with independent noise. An underflow to zero is not seen as a loss. Amplifications
    beyond 1e154, whose squares overflow, count as inf.

    Memory is proportional to the depth of the formula times the rows.

    From the paper: the criterion, these rules, and the mean over rows. Ours: the other
    aggregates, weights, `on_invalid`, the report, and that a literal exponent which is
    an integer, a half or a ratio such as ``(1/3)`` is exact (κ = exponent, no noise of
    its own) while any other exponent is a rounded constant.

    References
    ----------
    Yu, Wang, Ding, Wang and Li, "Beyond Accuracy and Complexity: The Effective
    Information Criterion for Structurally Stable Symbolic Regression", ICML 2026,
    arXiv:2509.21780.

    Examples
    --------
    The textbook root of a quadratic cancels when b is large; its rewriting does not.

    >>> from skmethods import effective_information
    >>> X, names = [[1.0, 1e4, 1.0]], ["a", "b", "c"]
    >>> root = "(-b + sqrt(b^2 - 4*a*c)) / (2*a)"
    >>> round(effective_information(root, X, feature_names=names), 2)
    8.03
    >>> root = "2*c / (-b - sqrt(b^2 - 4*a*c))"
    >>> round(effective_information(root, X, feature_names=names), 2)
    0.39
    """
    check_options(aggregate, on_invalid, protected)
    own = _names_of_estimator(expr, X) if hasattr(expr, "fit") else None
    X, feature_names = check_rows(X, own if feature_names is None else feature_names)
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight, X)
    tape = as_tape(
        expr, feature_names=feature_names, n_features=X.shape[1], protected=protected
    )
    digits, n_invalid = _node_digits(tape, X, sample_weight, aggregate, on_invalid)
    if not return_details:
        return float(digits.max())
    n_samples = len(X) if sample_weight is None else np.count_nonzero(sample_weight)
    return EICResult(tape, digits, n_invalid, int(n_samples), feature_names)
