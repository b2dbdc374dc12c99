"""Keep the formulas of a corpus that lose few digits; draw random formulas."""

import itertools
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from .._validation import check_weights
from ._eic import as_tape, check_options, check_rows, tape_information
from ._tape import ARITY, FUNCTIONS, MAX_NODES, Tape

_CHUNK = 256


def _information_of(expressions, start, X, feature_names, protected, options):
    """The criterion of each expression of a chunk."""
    found = np.empty(len(expressions))
    for i, expr in enumerate(expressions):
        try:
            tape = as_tape(
                expr,
                feature_names=feature_names,
                n_features=X.shape[1],
                protected=protected,
            )
            found[i] = tape_information(tape, X, *options)
        except (TypeError, ValueError) as exc:
            raise type(exc)(f"exprs[{start + i}]: {exc}") from exc
    return found


def filter_formulas(
    exprs,
    X,
    *,
    threshold=1.0,
    feature_names=None,
    aggregate="mean",
    sample_weight=None,
    protected=None,
    on_invalid="inf",
    n_jobs=None,
    return_eic=False,
):
    """Keep the formulas that lose at most `threshold` digits to rounding.

    For corpora on which a model is trained, or candidates that an engine proposes.

    Parameters
    ----------
    exprs : iterable of str, sympy expression, gplearn program or estimator
        Whatever `effective_information` takes.
    X : array-like of shape (n_samples, n_features)
        The inputs at which the formulas are judged. 64 rows suffice for a filter.
    threshold : float, default=1.0
        Largest number of decimal digits that a formula may lose.
    feature_names : sequence of str, default=None
        Names of the columns, as in `effective_information`.
    aggregate : {"mean", "logmean", "median"} or float in (0, 1), default="mean"
        How rows become one number, as in `effective_information`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    protected : {None, "gplearn"}, default=None
        Whose division, root and logarithm the text means.
    on_invalid : {"inf", "ignore"}, default="inf"
        What rows without a finite value do; with "inf", such a formula is left out.
    n_jobs : int, default=None
        Processes. The result does not depend on it. One process suffices for some ten
        thousand formulas.
    return_eic : bool, default=False
        Also return the criterion of every formula.

    Returns
    -------
    kept : list
        The members of `exprs` that pass, in their order.
    eic : ndarray of shape (n_formulas,)
        Of all formulas, kept or not. Only if `return_eic`.

    See Also
    --------
    effective_information : One formula, and where its digits are lost.

    Notes
    -----
    That a corpus be filtered by EIC is from the paper; the threshold of one digit is
    ours, since the paper's could not be seen.

    References
    ----------
    Yu, Wang, Ding, Wang and Li, "Beyond Accuracy and Complexity: The Effective
    Information Criterion for Structurally Stable Symbolic Regression", ICML 2026,
    arXiv:2509.21780.

    Examples
    --------
    >>> import numpy as np
    >>> from skmethods import filter_formulas
    >>> X = np.linspace(1, 2, 8).reshape(-1, 1)
    >>> filter_formulas(["x0**2 + 1", "(x0 + 1000) - 1000", "log(-x0)"], X)
    ['x0**2 + 1']
    """
    check_options(aggregate, on_invalid, protected)
    if not isinstance(threshold, Real) or np.isnan(threshold):
        raise ValueError(f"threshold must be a number of digits, got {threshold!r}.")
    if isinstance(exprs, (str, Tape)) or not hasattr(exprs, "__iter__"):
        raise TypeError(
            "exprs must be a list of several formulas; put a single one into a list. "
            f"Got {type(exprs).__name__}: {str(exprs)[:60]!r}."
        )
    X, feature_names = check_rows(X, feature_names)
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight, X)
    exprs = list(exprs)
    options = sample_weight, aggregate, on_invalid
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_information_of)(
            exprs[i : i + _CHUNK], i, X, feature_names, protected, options
        )
        for i in range(0, len(exprs), _CHUNK)
    )
    eic = np.concatenate([np.empty(0), *parts])
    kept = list(itertools.compress(exprs, eic <= threshold))
    return (kept, eic) if return_eic else kept


def random_formulas(
    n_formulas,
    *,
    n_features,
    operators=(
        "add",
        "sub",
        "mul",
        "div",
        "sqrt",
        "square",
        "exp",
        "log",
        "sin",
        "cos",
    ),
    size=(5, 35),
    constant_share=0.25,
    random_state=None,
):
    """Draw formulas at random, e.g. to be filtered and trained on.

    Parameters
    ----------
    n_formulas : int
        How many.
    n_features : int
        The number of columns, which are called x0, x1, ...
    operators : sequence of str, default=("add", "sub", "mul", "div", "sqrt", \
"square", "exp", "log", "sin", "cos")
        Names of functions, at least one of one operand and one of two, so that every
        size can be drawn. Each is as likely as its neighbours; repeat one to draw it
        more often.
    size : tuple of (int, int), default=(5, 35)
        Smallest and largest number of nodes; the number is uniform between them.
    constant_share : float, default=0.25
        How many of the leaves are constants; these are uniform in (-5, 5), rounded to
        three digits.
    random_state : int, RandomState instance or None, default=None
        Governs everything that is drawn.

    Returns
    -------
    list of str
        Nothing makes sure that they are defined everywhere: `filter_formulas` does.

    See Also
    --------
    filter_formulas : Keeps those that are numerically sane.

    Notes
    -----
    Our design. A node of size s gets an operator; one of two operands splits the s - 1
    nodes below it uniformly.

    Examples
    --------
    >>> from skmethods import random_formulas
    >>> random_formulas(2, n_features=2, size=(3, 5), random_state=0)
    ['cos(sqrt(x1))', 'log(cos(exp(x0)))']
    """
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise TypeError(
            "size must be a pair, the smallest and the largest number of nodes, e.g. "
            f"(5, 35); got {size!r}."
        )
    for name, number, least in (
        ("n_formulas", n_formulas, 0),
        ("n_features", n_features, 1),
        ("size[0]", size[0], 1),
        ("size[1]", size[1], size[0]),
    ):
        if not isinstance(number, Integral) or number < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {number!r}.")
    if size[1] > MAX_NODES:
        raise ValueError(f"size[1] must be at most {MAX_NODES}, got {size[1]}.")
    if not 0 <= constant_share <= 1:
        raise ValueError(f"constant_share must be in [0, 1], got {constant_share!r}.")
    operators = list(operators)
    unknown = [name for name in operators if name not in FUNCTIONS]
    if unknown:
        raise ValueError(
            f"operators has unknown names {unknown}. Known: {', '.join(FUNCTIONS)}."
        )
    unary = [f for f in operators if ARITY[FUNCTIONS[f][0]] == 1]
    binary = [f for f in operators if ARITY[FUNCTIONS[f][0]] == 2]
    if not unary or not binary:
        raise ValueError(
            "operators must have at least one function of one operand and one of two, "
            f"got {operators}."
        )
    rng = check_random_state(random_state)
    formulas = []
    for _ in range(n_formulas):
        n_nodes = rng.randint(size[0], size[1] + 1)
        tape = _random_tape(rng, n_nodes, n_features, unary, binary, constant_share)
        formulas.append(tape.to_text())
    return formulas


def _random_tape(rng, n_nodes, n_features, unary, binary, constant_share):
    # Drawn from the root on, second operands first: prefix order, read backwards.
    ops, args, sizes = [], [], [n_nodes]
    while sizes:
        n = sizes.pop()
        if n == 1:
            if rng.uniform() < constant_share:
                node = "const", float(f"{rng.uniform(-5, 5):.3g}")
            else:
                node = "x", int(rng.randint(n_features))
        else:
            choice = unary if n == 2 else unary + binary
            name = choice[rng.randint(len(choice))]
            node = FUNCTIONS[name]
            if name in binary:
                first = rng.randint(1, n - 1)
                sizes += [first, n - 1 - first]
            else:
                sizes.append(n - 1)
        ops.append(node[0])
        args.append(node[1])
    return Tape(ops[::-1], args[::-1])
