"""EICSelectedRegressor: of an engine's equally good formulas, the sanest one."""

import pickle
import warnings
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import has_fit_parameter

from .._pickle import VersionedPickleMixin
from .._validation import (
    FitProgress,
    HasMethods,
    Interval,
    StrOptions,
    check_is_fitted,
    check_row_counts,
    check_table,
    check_weights,
    fit_context,
)
from ._eic import tape_information
from ._engines import called_candidates, read_candidates, readable_names
from ._regressor import ECSELRegressor
from ._signomial import check_names, check_precision

#: Residuals below this share of y are rounding, in which formulas do not differ.
ROUNDING = 64 * np.finfo(float).eps


class Candidate(NamedTuple):
    """A formula that an engine offers, and how good it is on the training rows.

    Attributes
    ----------
    formula : str
        Plain text at full precision.
    mse : float
        Mean squared error; inf if the formula has no value at some row.
    size : int
        Nodes of the expression tree.
    bic : float
        Bayesian information criterion.
    eic : float
        Effective information criterion: digits that are lost to rounding.
    """

    formula: str
    mse: float
    size: int
    bic: float
    eic: float


def errors(tapes, X, y, weight):
    """Mean squared error of each tape, as ``log`` and in units of y.

    Parameters
    ----------
    tapes : list of Tape
    X : ndarray of shape (n_samples, n_features)
    y, weight : ndarray of shape (n_samples,)
        Weights are positive.

    Returns
    -------
    log_mse, mse : ndarray of shape (n_tapes,)
        inf for a tape without a finite value at some row. The logarithm does not
        overflow, and does not fall below that of rounding errors.
    """
    unit = np.abs(y).max() or 1.0
    share = weight / weight.sum()
    relative = np.full(len(tapes), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for i, tape in enumerate(tapes):
            residual = (tape.evaluate(X) - y) / unit
            value = float(share @ (residual * residual))
            relative[i] = value if np.isfinite(value) else np.inf
        log_mse = np.log(np.maximum(relative, ROUNDING**2)) + 2 * np.log(unit)
        return log_mse, relative * unit * unit


def information(log_mse, size, n):
    """``n * log(mse) + (size + 1) / 2 * log(n)``: BIC with one coefficient per leaf.

    A tree of binary operators has ``(size + 1) / 2`` leaves; an operator of one operand
    counts as half of one.
    """
    return n * log_mse + 0.5 * (size + 1) * np.log(max(n, 1.0))


def choose(bic, eic, delta_bic):
    """The position of the lowest `eic` among those with nearly the best `bic`.

    Ties, also those up to rounding, go to the lower `bic`.
    """
    near = np.flatnonzero(bic <= bic.min() + delta_bic)
    order = np.lexsort((bic[near], np.round(eic[near], 9)))
    return int(near[order[0]])


def numbers(y):
    """Targets in double precision; text is refused."""
    if y.dtype.kind not in "fiub":
        raise ValueError(f"y must hold numbers; got dtype {y.dtype}, e.g. {y[0]!r}.")
    return y.astype(np.float64)


def pick_rows(n, n_rows, rng):
    """Positions of at most `n_rows` of n rows, ascending; all of them if None."""
    seed = rng.randint(2**31 - 1)  # always drawn: what follows does not depend on n
    if n_rows is None or n <= n_rows:
        return np.arange(n)
    return np.sort(np.random.RandomState(seed).permutation(n)[:n_rows])


class FormulaRegressor(VersionedPickleMixin, RegressorMixin):
    """What regressors that predict with one tape have in common."""

    def _select(self, tapes, X, y, weight, *, delta_bic, aggregate, rows):
        """Rank tapes on the training rows and keep the chosen one.

        Rows are those with a positive weight. Sets the fitted attributes.
        """
        n = float(weight.sum())
        log_mse, mse = errors(tapes, X, y, weight)
        if not np.isfinite(log_mse).any():
            raise ValueError(
                f"None of the {len(tapes)} candidate formulas has a finite value at "
                "every row of X. Choose functions that are defined there, or scale X."
            )
        size = np.array([tape.size for tape in tapes])
        bic = information(log_mse, size, n)
        keep = _not_dominated(size, mse) | (bic <= bic.min() + delta_bic)
        keep = np.flatnonzero(keep)
        keep = keep[np.lexsort((bic[keep], size[keep]))]
        rows, row_weight = X[rows], weight[rows]
        eic = [tape_information(tapes[i], rows, row_weight, aggregate) for i in keep]
        names = readable_names(self)
        self.candidates_ = [
            Candidate(
                tapes[i].to_text(names), float(mse[i]), int(size[i]), float(bic[i]), e
            )
            for i, e in zip(keep, eic, strict=True)
        ]
        self.best_index_ = choose(bic[keep], np.array(eic), delta_bic)
        self._tape = tapes[keep[self.best_index_]]
        self._mean = 2 * float(np.average(y / 2, weights=weight))  # cannot overflow
        self.formula_ = self.candidates_[self.best_index_].formula
        self.eic_ = self.candidates_[self.best_index_].eic

    def predict(self, X):
        """The values of the formula.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples,)
            Where the formula has no finite value (a division by zero, the logarithm of
            a negative number), the mean of the training targets, with a warning.
        """
        check_is_fitted(self, "eic_")
        X = check_table(self, X, reset=False, dtype=np.float64)
        values = np.array(self._tape.evaluate(X), dtype=np.float64)
        wrong = ~np.isfinite(values)
        if wrong.any():
            warnings.warn(
                f"The formula has no finite value at {int(wrong.sum())} of {len(X)} "
                f"rows of X, the first in row {int(wrong.argmax())}. The mean of the "
                "training targets is predicted there.",
                UserWarning,
                stacklevel=2,
            )
            values[wrong] = self._mean
        return values

    def formula(self, feature_names=None, precision=3):
        """The formula as plain text.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            None takes the names seen in ``fit`` where all are identifiers, else x0,
            x1, ...
        precision : int, default=3
            Significant digits; None writes all, as ``formula_`` does.

        Returns
        -------
        str
        """
        check_is_fitted(self, "eic_")
        names = readable_names(self)
        if feature_names is not None:
            names = check_names(feature_names, self.n_features_in_)
        return self._tape.to_text(names, check_precision(precision))


def _warn_of_single_objective(engine, tapes):
    """Say that pyoperon must be asked for more than one formula."""
    objectives = engine.get_params().get("objectives") or ["r2"]
    if len(tapes) == 1 and hasattr(engine, "pareto_front_") and len(objectives) == 1:
        warnings.warn(
            f"{type(engine).__name__} offers one formula, so there is nothing to "
            f"choose from: its only objective is {objectives[0]!r}. Give it "
            "objectives=['r2', 'length'] for a front from simple to accurate.",
            UserWarning,
            stacklevel=5,
        )


def _not_dominated(size, mse):
    """Whether no other candidate is at most as large and more accurate."""
    order = np.lexsort((mse, size))
    before = np.minimum.accumulate(np.concatenate([[np.inf], mse[order][:-1]]))
    front = np.zeros(len(size), dtype=bool)
    front[order] = mse[order] < before
    return front


class EICSelectedRegressor(
    FormulaRegressor, CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator
):
    """Choose the numerically sanest of the formulas that an engine finds as good.

    A symbolic-regression engine ends with a list of formulas from simple to accurate.
    Several are usually as good as the best in the light of the data. This
    meta-estimator fits the engine, keeps the candidates whose Bayesian information
    criterion (BIC) is within `delta_bic` of the best, and predicts with the one that
    loses the fewest digits to rounding, by the effective information criterion (EIC).

    Parameters
    ----------
    estimator : estimator, default=None
        The engine, cloned: a symbolic estimator of skmethods, or a SymbolicRegressor of
        gplearn, pyoperon or PySR. None takes ``ECSELRegressor()``. pyoperon needs
        ``objectives=["r2", "length"]``: with its default it offers a single formula.
    delta_bic : float, default=6.0
        How much worse than the best a candidate's BIC may be. 6 is what counts as
        strong evidence: the best would be 20 times as probable. 0 is the plain
        choice by BIC.
    aggregate : {"mean", "logmean", "median"} or float in (0, 1), default="logmean"
        How the digits lost at each row become one number, see
        `effective_information`. "mean", the paper's, has no limit for a formula with a
        difference that may vanish: more rows make it larger.
    candidates : callable, default=None
        For other engines: a function of the fitted engine that returns its candidates,
        a list of formulas as text, in the names of the columns where all are
        identifiers, or in x0, x1, ... (read so unless a column is called by another's
        index).
    n_rows : int or None, default=1000
        Training rows for EIC, drawn at random where there are more; None takes all.
        The error is that of all rows.
    random_state : int, RandomState instance or None, default=None
        Draws the rows, and is passed on to an engine whose own ``random_state`` is
        None.

    Attributes
    ----------
    estimator_ : estimator
        The fitted engine. It is not needed to predict, and is left out of the pickle if
        it cannot be pickled, as with pyoperon.
    formula_ : str
        The chosen formula at full precision, in the names of the columns where all are
        identifiers, else in x0, x1, ...
    eic_ : float
        Decimal digits that it loses at the training rows.
    candidates_ : list of Candidate
        Tuples ``(formula, mse, size, bic, eic)``, the simplest first: all within
        `delta_bic` of the best, and all that no simpler one matches in accuracy.
    best_index_ : int
        Position of the chosen one in ``candidates_``.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if all are strings.

    See Also
    --------
    EICScorer : For choosing hyperparameters rather than candidates.
    EICSymbolicRegressor : EIC inside the search of a genetic programme.
    ECSELRegressor : The engine that is always there.

    Notes
    -----
    ``bic = n * log(mse) + (size + 1) / 2 * log(n)``, where `size` counts the nodes of
    the expression tree, so that a tree of binary operators pays for one coefficient per
    leaf. With `sample_weight`, n is the sum of the weights: 2 is the same as the row
    twice. Errors below 64 rounding units of y count as equal. A candidate
    without a finite value at some training row is never chosen.

    Constants are taken as the engine found them. The formula alone predicts: what an
    engine does besides, such as limiting the inputs to the range of the training rows
    (`clip` of `ECSELRegressor`), is not part of it. gplearn's protected functions keep
    their protection (they are written ``pdiv``, ``plog``, ``sqrtabs``, ``pinv``).

    `sample_weight` reaches the engine and the choice. An engine that takes none is
    refused with weights.

    *From the paper*: the criterion and the idea of a third one besides error and size.
    *Ours*: re-ranking within a window of BIC, which needs no change to the engine and
    costs little accuracy, and "logmean".

    References
    ----------
    .. [1] Yu, Wang, Ding, Wang, Li, "Beyond Accuracy and Complexity: The Effective
       Information Criterion for Structurally Stable Symbolic Regression",
       International Conference on Machine Learning, 2026, arXiv 2509.21780.

    Examples
    --------
    >>> import numpy as np
    >>> from skmethods import EICSelectedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(1, 5, (100, 2))
    >>> y = 3 * X[:, 0] / X[:, 1] ** 2
    >>> model = EICSelectedRegressor(random_state=0).fit(X, y)
    >>> model.formula()
    '3*x0/x1**2'
    >>> print(f"{model.eic_:.2f}")
    0.48
    """

    _parameter_constraints = {
        "estimator": [HasMethods("fit"), None],
        "delta_bic": [Interval(Real, 0, None, closed="left")],
        "aggregate": [
            StrOptions({"mean", "logmean", "median"}),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "candidates": [callable, None],
        "n_rows": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        estimator=None,
        delta_bic=6.0,
        aggregate="logmean",
        candidates=None,
        n_rows=1000,
        random_state=None,
    ):
        self.estimator = estimator
        self.delta_bic = delta_bic
        self.aggregate = aggregate
        self.candidates = candidates
        self.n_rows = n_rows
        self.random_state = random_state

    def _engine(self):
        """An unfitted engine of our own."""
        if self.estimator is not None:
            return clone(self.estimator)
        engine = ECSELRegressor()
        if sklearn.get_config()["enable_metadata_routing"]:
            engine.set_fit_request(sample_weight=True)
        return engine

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the engine and choose among its candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; None gives every row the weight 1. They count observations:
            their sum is the n of BIC, so do not scale them to a sum of 1. A sum
            beyond 1e15 is refused.
        **fit_params : dict
            Passed to the engine's ``fit``.

        Returns
        -------
        self : object
        """
        engine = self._engine()
        table = X
        X, y = check_table(self, X, y, reset=True, dtype=np.float64, y_numeric=True)
        y = numbers(y)
        weight = check_weights(sample_weight, X)
        check_row_counts(weight)
        rng = check_random_state(self.random_state)
        rows = weight > 0
        chosen = pick_rows(int(rows.sum()), self.n_rows, rng)
        if "random_state" in engine.get_params() and engine.random_state is None:
            engine.set_params(random_state=rng.randint(2**31 - 1))
        progress = FitProgress(self, 1, X, y, lambda: vars(self))
        # Frames go on as they are: the engine may want the names.
        named = hasattr(table, "columns") and readable_names(self) is not None
        with progress.around(engine):
            engine.fit(
                table if named else X,
                y,
                **self._engine_parameters(engine, sample_weight, weight, fit_params),
            )
        names = readable_names(self) if named else None
        if self.candidates is None:
            tapes = read_candidates(engine, names, X.shape[1])
            _warn_of_single_objective(engine, tapes)
        else:
            tapes = called_candidates(self.candidates, engine, names, X.shape[1])
        if not tapes:
            raise ValueError(
                f"{type(engine).__name__} offers no formula that could be chosen; see "
                "candidates=."
            )
        self._select(
            tapes,
            X[rows],
            y[rows],
            weight[rows],
            delta_bic=self.delta_bic,
            aggregate=self.aggregate,
            rows=chosen,
        )
        self.estimator_ = engine
        progress.close()
        return self

    def _engine_parameters(self, engine, sample_weight, weight, fit_params):
        """What the engine's ``fit`` gets besides X and y."""
        if sklearn.get_config()["enable_metadata_routing"]:
            routed = process_routing(
                self, "fit", sample_weight=sample_weight, **fit_params
            )
            return routed.estimator.fit
        if sample_weight is None:
            return fit_params
        if not has_fit_parameter(engine, "sample_weight"):
            raise ValueError(
                f"{type(engine).__name__} takes no sample_weight, so its candidates "
                "would ignore the weights. Leave sample_weight out, or take another "
                "estimator."
            )
        return fit_params | {"sample_weight": weight}

    def get_metadata_routing(self):
        """Get metadata routing of this object.

        Returns
        -------
        routing : MetadataRouter
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self._engine(),
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._engine()).input_tags
        tags.input_tags.positive_only = inner.positive_only
        return tags

    def __getstate__(self):
        state = super().__getstate__().copy()
        if "estimator_" in state:
            try:
                pickle.dumps(state["estimator_"])
            except Exception:  # whatever the engine's own pickling runs into
                del state["estimator_"]
        return state
