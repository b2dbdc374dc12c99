"""ECSEL for regression: laws that are sums of power laws."""

import warnings
from keyword import iskeyword
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._pickle import VersionedPickleMixin
from .._validation import (
    FitProgress,
    Interval,
    StrOptions,
    check_row_counts,
    check_table,
    check_weights,
    fit_context,
)
from ._explained_law import ExplainedLaw
from ._growth import Budget, constant_law, finish, search
from ._lattice import exponent_errors
from ._problem import (
    Problem,
    constant_columns,
    most_terms,
)
from ._rows import merge_rows
from ._signomial import (
    PositiveMap,
    check_feature_range,
    evaluate_signomial,
)

#: The box of the exponents when the user gives none.
_BOX = 12.0
#: Rows that are predicted at once.
_ROWS = 65_536


class ECSELRegressor(
    ExplainedLaw,
    VersionedPickleMixin,
    CallbackSupportMixin,
    RegressorMixin,
    BaseEstimator,
):
    """A law in data: a sum of few power laws, found by its description length.

    The model is a signomial, ``sum_k coef_k * prod_j x_j ** exponent_kj``: physical
    laws, allometries, polynomials with few terms, production functions. Its exponents
    are fitted as real numbers, then each is rounded to a simple fraction if that
    describes the data in fewer bits; the number of terms is chosen in the same way.
    So an exact law comes back exactly, also from noisy rows, and the result is a
    formula that can be read. It extrapolates as the formula does.

    Parameters
    ----------
    max_terms : int, default=4
        Most terms of the law. Growth ends before that when another term does not pay,
        so a large value costs time only. Rows limit it too: a term of d features is
        ``d + 1`` numbers, and each takes two rows.
    exponents : {"auto", "real", "rational"}, default="auto"
        "auto" lets the description length decide for each exponent whether it is a
        simple fraction (0, integers, halves, thirds) or a real number; "rational"
        allows fractions only, for laws that are known to be such; "real" rounds none.
    loss : {"auto", "squared", "log"}, default="auto"
        "squared" is least squares. "auto" is too, unless the noise is seen to be
        proportional to the law, as when everything is measured to some per cent: the
        squares are then those of the relative residuals, and ``noise_`` says so. "log"
        compares logarithms, for strong multiplicative noise, and needs y > 0. Outliers
        pull at squares; remove them, or use "log", which is pulled at less.
    positive : {"auto", "raw", "map"}, default="auto"
        Powers need positive inputs. "raw" takes the columns as they are and refuses
        other ones; only so do exact laws come back. "map" maps each column affinely to
        `feature_range`, and the formula contains the map. "auto" is raw if all X > 0,
        and else maps all columns, also the positive ones, without a warning. Constant
        columns have no say in this.
    feature_range : (float, float), default=(1, 10)
        What columns are mapped to, if they are. The ratio of the two is how curved
        powers of a column can be: near 1 every law is almost linear.
    clip : bool, default=True
        Rows outside the training range may be mapped to negative numbers. True limits
        the mapped columns to ``[low / 10, 10 * high]``, so that the prediction of such
        a row differs from what ``formula`` gives for it; False refuses these rows when
        predicting. Raw columns are never limited.
    signed : bool, default=False
        Take columns with zero or negative values as they are, with integer exponents
        (real powers of negative numbers do not exist). The law is searched over which
        of the exponents are odd. Suits polynomials.
    exponent_bounds : (lower, upper), default=None
        Bounds of the exponents, each a number or one for every feature. They hold for
        the returned law, also after rounding. They must be finite, a large number
        stands for an open side. None is -12 to 12.
    l1 : float, default=0.0
        Only with ``exponents="real"``: times the sum of the magnitudes of the
        exponents, added to the mean squared residual over the mean square of y. Drives
        exponents to exactly 0, and shrinks the others; the description length does the
        first without the second.
    n_init : int, default=10
        Starts for each number of terms from two on. More find laws of many terms more
        surely, and take proportionally longer.
    max_iter : int, default=1000
        Most steps of the search in all; all starts take a step together. A law of
        four terms takes some hundred.
    tol : float, default=1e-8
        A fit ends when a step lowers the sum of squares by less than this share.
    random_state : int, RandomState instance or None, default=None
        Of the starts. Matters for laws of several terms only.

    Attributes
    ----------
    exponents_ : ndarray of float64 of shape (n_terms, n_features)
        The terms in the order of what they contribute, the largest first.
    coef_ : ndarray of float64 of shape (n_terms,)
        Of the terms, in the units of y and of X (or of the mapped columns).
    is_rational_ : ndarray of bool of shape (n_terms, n_features)
        Which exponents were rounded to 0, an integer, a half or a third. Others that
        are equal to a fraction to 1e-12, as 3/10 from rows without noise, are written
        as one in the formula, but were fitted as real numbers.
    exponent_stderr_ : ndarray of float64 of shape (n_terms, n_features)
        Standard errors of the real exponents, given the form of the law; NaN for the
        rounded ones. They hold for noise of uneven size too (sandwich estimate).
    noise_ : {"additive", "proportional"}
        What describes the residuals in fewer bits: the same size everywhere, or the
        size of the law. Always "proportional" with ``loss="log"``.
    mdl_path_ : dict of str to ndarray
        One entry for each of ``candidates_``: ``n_terms``; ``rss``, the weighted sum
        of squared residuals (of log y with ``loss="log"``); ``mdl``, the description
        length in units of half a nat, up to a constant.
    candidates_ : list of str
        The laws that were weighed, with numbers in full precision, for each number of
        terms and in variants from all-rounded to real-valued; the simplest first.
    baseline_ : ndarray of shape (n_features,)
        The geometric mean of the (mapped) training rows, in the units of X; the default
        of ``attribute``. NaN for columns with zero or negative values that are taken as
        they are.
    n_iter_ : int
        Steps taken.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if all are strings.

    See Also
    --------
    ECSELClassifier : Signomials as the scores of classes.
    sklearn.linear_model.LinearRegression : On logarithms: one term, no rounding.

    Notes
    -----
    *From the paper*: the signomial as the class of models, the map to positive inputs
    and the L1 penalty on the exponents. *Ours*: everything about how it is fitted. The
    coefficients are eliminated (variable projection), all starts take their
    Levenberg-Marquardt steps in one batch, and starts come from log-log least squares
    and from pursuing the residuals with sparse terms. The description length is
    ``n log(RSS / n) + log n * n_terms + 2 sum cost + 2 log2(n_terms)`` with a cost of
    1.9 for an exponent 0, ``2.4 + log p + 1.5 log q`` for a fraction p/q and
    ``log(n) / 2 + 5.9`` for a real number (4 less with ``exponents="real"``), which
    makes it a code. Exponents are rounded one after another, each time the one that
    pays best, while the others follow as their covariance
    says; then single exponents and whole terms are exchanged.

    The data are described by noise of constant size or of noise proportional to the
    law, whichever is shorter, since least squares under proportional noise would
    reward terms that fit the few rows where the noise is largest.

    When nothing better is found, when y is constant, or when there are fewer than
    ``n_features + 2`` distinct rows, the law is a constant, the mean of y (with
    exponents as near to 0 as `exponent_bounds` allow). Constant columns get exponent
    0, or the bound nearest to it, and so do columns that are an earlier one times a
    factor, which could only share its exponents. Of other columns that are strongly
    correlated, the description length chooses.

    Where y is positive and its largest value more than 1e4 times the median, the search
    starts from relative residuals (with ``loss="auto"``), since squares would be those
    of a few rows. Equal rows are merged and the rows sorted first, so neither the order
    of the rows nor weights in place of repeated rows make a difference.

    Of more than 5 000 rows, the form of the law is searched on so many, evenly taken;
    all of them then decide between the laws found, and fit their numbers.

    Weights count rows: weight k is the row k times. The number of rows in the
    description length is the sum of the weights.

    References
    ----------
    .. [1] Lumadjeng, Birbil and Acar, "ECSEL: Explainable Classification via Signomial
       Equation Learning", International Conference on Machine Learning, 2026.
       arXiv:2601.21789.

    Examples
    --------
    >>> import numpy as np
    >>> from skmethods import ECSELRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(1, 5, size=(200, 3))
    >>> y = 6.674 * X[:, 0] * X[:, 1] / X[:, 2] ** 2
    >>> law = ECSELRegressor(random_state=0).fit(X, y)
    >>> law.formula(["m1", "m2", "r"], precision=4)
    '6.674*m1*m2/r**2'
    >>> law.predict([[1, 1, 10]]).round(5)
    array([0.06674])
    """

    _parameter_constraints = {
        "max_terms": [Interval(Integral, 1, None, closed="left")],
        "exponents": [StrOptions({"auto", "real", "rational"})],
        "loss": [StrOptions({"auto", "squared", "log"})],
        "positive": [StrOptions({"auto", "raw", "map"})],
        "feature_range": [tuple, list, np.ndarray],
        "clip": ["boolean"],
        "signed": ["boolean"],
        "exponent_bounds": [tuple, list, np.ndarray, None],
        "l1": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        max_terms=4,
        exponents="auto",
        loss="auto",
        positive="auto",
        feature_range=(1, 10),
        clip=True,
        signed=False,
        exponent_bounds=None,
        l1=0.0,
        n_init=10,
        max_iter=1000,
        tol=1e-8,
        random_state=None,
    ):
        self.max_terms = max_terms
        self.exponents = exponents
        self.loss = loss
        self.positive = positive
        self.feature_range = feature_range
        self.clip = clip
        self.signed = signed
        self.exponent_bounds = exponent_bounds
        self.l1 = l1
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context()
    def fit(self, X, y, sample_weight=None):
        """Search for the law.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Positive for ``loss="log"``.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts: weight 2 is the row twice, 0 is no row.

        Returns
        -------
        self : object
        """
        X, y = check_table(self, X, y, reset=True, dtype=np.float64, y_numeric=True)
        if y.dtype.kind not in "biuf":
            raise ValueError(f"y must hold numbers; got an array of dtype {y.dtype}.")
        weight = check_weights(sample_weight, X).astype(np.float64)
        check_row_counts(weight)
        lower, upper = self._check_parameters(X.shape[1])
        y = y.astype(np.float64)
        rng = check_random_state(self.random_state)
        keep = weight > 0
        X, y, weight = X[keep], y[keep], weight[keep]
        seen = X, y  # what callbacks are told
        X, y, weight, _ = merge_rows(X, y, weight)
        if self.loss == "log" and not (y > 0).all():
            raise ValueError(
                "loss='log' compares logarithms and needs y > 0; the smallest y is "
                f"{y.min():.6g}. Use loss='squared', or shift y."
            )
        self._map = self._positive_map(X, lower, upper)
        # What predict does follows the parameters as they were here.
        self._clips = self.clip
        self._names = self._formula_names()
        U = X if self._map is None else self._map(X)
        self._baseline = _geometric_mean(X, U, weight, self._map)
        if not y.any():
            B = np.clip(np.zeros((1, X.shape[1])), lower, upper)
            found = [(B, np.zeros(1), np.ones(B.shape, bool), np.full(B.shape, np.nan))]
            path = {"n_terms": [1], "rss": [0.0], "mdl": [-np.inf]}
            attributes = self._attributes(found[0], found, path, "additive")
            budget = self._steps(*seen, lambda: attributes | {"n_iter_": 1})
            budget()
        else:
            problem = Problem(
                U,
                y,
                weight,
                loss=self.loss,
                exponents=self.exponents,
                lower=lower,
                upper=upper,
                l1=self.l1,
            )
            setting = problem.setting
            budget = self._steps(*seen, lambda: self._laws_so_far(problem, budget))
            varies = y.max() > y.min()
            search(
                setting,
                max_terms=most_terms(U, problem.n, self.max_terms) if varies else 0,
                n_init=self.n_init,
                tol=self.tol,
                rng=rng,
                budget=budget,
            )
            unfinished = budget.spent and not budget.asked
            if not budget.count:
                budget()
            if setting.unwritable < budget.best.mdl or not np.isfinite(budget.best.mdl):
                raise ValueError(_unwritable(U, y, self._map))
            finish(setting, budget)
            attributes = self._laws_so_far(problem, budget)
            if unfinished:
                warnings.warn(
                    f"The search ended after max_iter={self.max_iter} steps, before "
                    "it was through. Increase max_iter, or decrease max_terms or "
                    "n_init.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        vars(self).update(attributes, n_iter_=budget.count)
        budget.progress.close()
        return self

    def _check_parameters(self, m):
        """The box of the exponents, after checks between parameters."""
        if self.signed and self.positive == "map":
            raise ValueError(
                "signed=True keeps the signs of X, which positive='map' maps away. Use "
                "signed=False, or positive='auto'."
            )
        if self.l1 > 0 and self.exponents != "real":
            raise ValueError(
                f"l1={self.l1} shrinks real exponents and needs exponents='real'; with "
                f"exponents={self.exponents!r} the description length already drops "
                "what does not pay. Set l1=0 or exponents='real'."
            )
        if self.l1 > 0 and self.loss == "log":
            raise ValueError(
                f"l1={self.l1} goes with least squares and not with loss='log'. Set "
                "l1=0 or loss='squared'."
            )
        bounds = (-_BOX, _BOX) if self.exponent_bounds is None else self.exponent_bounds
        message = (
            "exponent_bounds must be (lower, upper), each a finite number or one per "
            f"feature ({m}), with lower <= upper; got {self.exponent_bounds!r}. Use a "
            f"large number such as {_BOX:.0f} for an open side."
        )
        if len(bounds) != 2:
            raise ValueError(message)
        try:
            lower, upper = (
                np.broadcast_to(np.asarray(b, dtype=float), m).copy() for b in bounds
            )
        except (TypeError, ValueError) as exc:
            raise ValueError(message) from exc
        if not (lower <= upper).all() or not np.isfinite([lower, upper]).all():
            raise ValueError(message)
        return lower, upper

    def _positive_map(self, X, lower, upper):
        """The map of the columns to positive numbers, or None for raw ones."""
        feature_range = check_feature_range(self.feature_range)
        self._not_positive = (X <= 0).any(axis=0)
        # Constant columns get exponent 0, and decide nothing.
        bad = self._not_positive & ~(constant_columns(X) & (lower <= 0) & (upper >= 0))
        if self.signed:
            least = np.where((X == 0).any(axis=0), np.maximum(lower, 0), lower)
            empty = bad & (np.ceil(least) > np.floor(upper))
            if empty.any():
                raise ValueError(
                    f"In X, {self._columns(empty)} zero or negative values, so that "
                    "signed=True takes integer powers only (of zeros: from 0 on), but "
                    "exponent_bounds hold none there. Widen the bounds, or use "
                    "signed=False."
                )
            return None
        if self.positive == "raw" and bad.any():
            raise ValueError(
                f"positive='raw' takes powers of X as it is, but {self._columns(bad)} "
                "values that are zero or negative. Use positive='map', or signed=True "
                "for integer exponents of them."
            )
        if self.positive == "map" or bad.any():
            found = PositiveMap.fit(X, feature_range)
            if not np.isfinite(found.span).all():
                far = self._columns(~np.isfinite(found.span))
                raise ValueError(
                    f"In X, {far} a range beyond the largest float. Rescale X."
                )
            return found
        return None

    def _columns(self, mask):
        """Names of columns for messages, as the subject of what they have."""
        names = getattr(self, "feature_names_in_", np.arange(len(mask)))[mask]
        text = ", ".join(repr(n) if isinstance(n, str) else str(n) for n in names[:10])
        text += ", ..." if len(names) > 10 else ""
        return f"columns {text} have" if len(names) > 1 else f"column {text} has"

    def _formula_names(self):
        """The names of the features where all can stand in a formula, or x0, x1..."""
        names = getattr(self, "feature_names_in_", [])
        if len(names) and all(
            name.isidentifier() and not iskeyword(name) for name in names
        ):
            return [str(name) for name in names]
        return [f"x{j}" for j in range(self.n_features_in_)]

    def _steps(self, X, y, attributes):
        """Counts the steps of the search and tells the callbacks."""
        progress = FitProgress(self, self.max_iter, X, y, attributes)

        def report():
            progress.begin()
            return progress.end()

        budget = Budget(self.max_iter, report)
        budget.progress = progress
        return budget

    def _laws_so_far(self, problem, budget):
        """Fitted attributes from what the search has found."""
        best, laws = budget.best, budget.laws
        if best is None:
            best = constant_law(problem.setting)
            laws = [best]
        # By number of terms and then of numbers; the real-valued ones last.
        laws = sorted(
            (law for law in laws if np.isfinite(law.mdl)),
            key=lambda law: (
                len(law.B),
                problem.setting.exponent_cost(law.B, law.snapped),
            ),
        )
        laws = laws or [best]
        found, kept = [], []
        for law in laws:
            new = self._in_units(problem, law)
            if not any(_equal(new, old) for old in found):
                found.append(new)
                kept.append(law)
        path = {
            "n_terms": [len(law.B) for law in kept],
            "rss": [problem.rss(law) for law in kept],
            "mdl": [law.mdl for law in kept],
        }
        proportional = best.proportional or self.loss == "log"
        noise = "proportional" if proportional else "additive"
        first = self._in_units(problem, best, errors=True)
        return self._attributes(first, found, path, noise) | {
            "n_iter_": max(budget.count, 1)
        }

    @staticmethod
    def _in_units(problem, law, errors=False):
        exponents, coef, order = problem.written(law)
        if errors:
            errors = exponent_errors(law, problem.setting)[order]
        return exponents, coef, law.snapped[order], errors

    def _attributes(self, best, found, path, noise):
        exponents, coef, snapped, errors = best
        return {
            "exponents_": exponents,
            "coef_": coef,
            "is_rational_": snapped,
            "exponent_stderr_": errors,
            "noise_": noise,
            "mdl_path_": {name: np.array(values) for name, values in path.items()},
            "_found": [(e, c) for e, c, *_ in found],
            "baseline_": self._baseline,
            "_map": self._map,
            "_not_positive": self._not_positive,
            "_clips": self._clips,
            "_names": self._names,
            "n_features_in_": self.n_features_in_,
        }

    def predict(self, X):
        """The value of the formula.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            With ``clip=True`` and mapped columns: for a row beyond the limits, the
            formula at the limits, not at the row itself.

        Raises
        ------
        ValueError
            Where the formula has no value: a real power of a number that is not
            positive, a division by 0, a result beyond the largest float; and, with
            ``clip=False``, where a mapped column leaves the range it was mapped from
            so far that its image is not positive.
        """
        U = self._mapped(X)
        used = (self.exponents_ != 0).any(axis=0)
        out = np.concatenate(
            [
                evaluate_signomial(
                    U[i : i + _ROWS][:, used], self.exponents_[:, used], self.coef_
                )
                for i in range(0, len(U), _ROWS)
            ]
        )
        self._check_values(out)
        return out


def _geometric_mean(X, U, weight, positive_map):
    """Of each column, in its own units; NaN where it has none."""
    with np.errstate(all="ignore"):
        mean = np.exp(np.average(np.log(U), axis=0, weights=weight / weight.max()))
    mean = np.where((U > 0).all(axis=0), mean, np.nan)
    constant = constant_columns(X)
    if positive_map is None:
        return np.where(constant, X[0], mean)
    inverse = positive_map.minimum + (mean - positive_map.low) / positive_map.slope
    return np.where(constant, X[0], inverse)


def _unwritable(U, y, positive_map):
    """The message where no float holds the coefficients."""
    columns = np.abs(U).max(axis=0)
    what = "X" if positive_map is None else "the mapped X"
    return (
        "The coefficients of the law are beyond the range of floats: the largest "
        f"values of the columns of {what} reach from {columns.min():.3g} to "
        f"{columns.max():.3g}, the largest of |y| is {np.abs(y).max():.3g}. Rescale X "
        "and y, that is, choose units in which values are near 1."
    )


def _equal(a, b):
    return a[0].shape == b[0].shape and all(
        np.allclose(x, y, rtol=1e-9, atol=1e-9 if i == 0 else 0.0)
        for i, (x, y) in enumerate(zip(a[:2], b[:2], strict=True))
    )
