"""What a classifier with signomial scores says about itself, and writes."""

from numbers import Integral

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_array

from .._lazy import require
from .._validation import as_host, check_is_fitted
from . import _explain
from ._signomial import (
    check_names,
    check_precision,
    latex_name,
    latex_signomial,
    sympy_signomial,
    write_signomial,
)

#: Rows whose counterfactuals are sought at a time.
_ROWS = 2048


def _shortened(names):
    """At most ten names for a message."""
    names = [str(name) for name in names]
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


class ExplainedScores:
    """Explanations and texts of the scores of a fitted classifier.

    The class that mixes it in has ``classes_``, ``exponents_``, ``coef_``,
    ``intercept_``, ``baseline_``, ``_map`` and ``_log_mean``; ``_checked(X)`` (rows
    as an array), ``_positive(X)`` (those as positive numbers), ``_logs(X)`` of rows,
    ``_terms(L)``, ``_moving_terms(L)`` (0 for a term at its limit), ``_arguments(L)``,
    ``_reach()`` and ``_with_first`` (a zero score for the first of two classes).
    """

    # -- explaining --------------------------------------------------------------------

    def terms(self, X):
        """The value of each term; with the intercept they add up to the score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_scores, n_terms)
        """
        return self._terms(self._logs(X))

    def log_gradient(self, X, kind="score"):
        """How the scores change with the logarithm of each mapped feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        kind : {"score", "probability"}, default="score"
            "probability" gives the change of each class's probability instead.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_scores, n_features)
            ``n_classes`` in place of ``n_scores`` for probabilities. Multiply with
            ``(high - low) / (scale_range_ * u)`` for the derivative by the feature
            in its own units; where `clip` limits u, that derivative is 0 instead.
        """
        if kind not in ("score", "probability"):
            raise ValueError(f"kind must be 'score' or 'probability'; got {kind!r}.")
        L = self._logs(X)
        gradient = _explain.log_gradient(self._moving_terms(L), self.exponents_)
        if kind == "score":
            return gradient
        scores = self._with_first(self._terms(L).sum(axis=2) + self.intercept_)
        return _explain.probability_log_gradient(
            self._with_first(gradient), softmax(scores, axis=1)
        )

    def elasticity(self, X):
        """By how many per cent each score changes per 1 % of a mapped feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_scores, n_features)
            ``log_gradient`` over the score, intercept included. Where a score is
            exactly 0 the ratio does not exist, and the log-gradient itself is given.
        """
        L = self._logs(X)
        gradient = _explain.log_gradient(self._moving_terms(L), self.exponents_)
        score = self._terms(L).sum(axis=2) + self.intercept_
        return _explain.elasticity(gradient, score)

    def boundary_sensitivity(self, X, c, d):
        """How the lead of one class over another changes with each log feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        c, d : labels
            Two of ``classes_``.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features)
            The log-gradient of the score of `c` minus that of `d`.
        """
        gradient = self._with_first(self.log_gradient(X))
        first, second = (self._code(v, n) for v, n in ((c, "c"), (d, "d")))
        return _explain.boundary_sensitivity(gradient, first, second)

    def _code(self, label, name):
        if np.ndim(label) > 0:
            raise TypeError(
                f"{name} must be one label of classes_, not an array; got {label!r}."
            )
        found = [i for i, one in enumerate(self.classes_.tolist()) if one == label]
        if len(found) != 1:
            raise ValueError(
                f"{name}={label!r} is none of the classes {self.classes_.tolist()}."
            )
        return found[0]

    def attribute(self, X, baseline="mean", kind="path"):
        """Share out the difference of each score from a baseline to the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        baseline : "mean" or one row of X, default="mean"
            The row to compare with, in units of X; "mean" is ``baseline_``. An
            array-like of shape (n_features,) or (1, n_features), or a Series or frame,
            whose names are put into the order of those that ``fit`` saw.
        kind : {"path", "first_order"}, default="path"
            "path" integrates the log-gradient along the straight path in logarithms:
            the shares add up to the difference exactly. "first_order" is the
            log-gradient at the baseline times the step, the paper's approximation.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_scores, n_features)
        """
        if kind not in ("path", "first_order"):
            raise ValueError(f"kind must be 'path' or 'first_order'; got {kind!r}.")
        L = self._logs(X)
        if isinstance(baseline, str):
            if baseline != "mean":
                raise ValueError(
                    f"baseline must be 'mean' or one row of X; got {baseline!r}."
                )
            row = self.baseline_[None]
        else:
            row = self._baseline_row(baseline)
        base = np.log(self._positive(row, "baseline")) - self._log_mean
        if kind == "path":
            return _explain.path_attribution(
                self._terms(L),
                self._terms(base)[0],
                self.exponents_,
                L - base,
                self._arguments(L),
                self._reach(),
            )
        gradient = _explain.log_gradient(self._moving_terms(base), self.exponents_)
        return _explain.first_order_attribution(gradient[0], L - base)

    def _baseline_row(self, baseline):
        """The baseline as an array of shape (1, n_features)."""
        m = self.n_features_in_
        names = getattr(baseline, "columns", getattr(baseline, "index", None))
        if callable(names):  # of a list or tuple
            names = None
        seen = getattr(self, "feature_names_in_", None)
        row = np.asarray(as_host(baseline), dtype=object)
        if row.shape not in ((m,), (1, m)):
            raise ValueError(
                f"baseline must be one row of X, of shape ({m},) or (1, {m}); got "
                f"shape {row.shape}."
            )
        row = row.reshape(1, -1)
        if seen is not None and names is not None:
            names = list(names)
            if any(isinstance(name, str) for name in names):
                unknown = [name for name in names if name not in set(seen)]
                if unknown or len(set(names)) < m:
                    raise ValueError(
                        "baseline must have the names that fit saw, each once: "
                        f"{_shortened(seen)}; got {_shortened(names)}."
                    )
                row = row[:, [names.index(name) for name in seen]]
        try:
            return check_array(row, dtype=np.float64, input_name="baseline")
        except (TypeError, ValueError) as exc:
            if "baseline" in str(exc):
                raise
            raise ValueError(f"baseline must hold finite numbers: {exc}") from exc

    def counterfactual(self, X, feature, target=None):
        """The smallest scaling of one feature that changes the decision.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        feature : int or str
            Position or name of the feature that is scaled, the others staying as they
            are. Names are those of the columns in ``fit``, or x0, x1, ...
        target : label, default=None
            The class that shall be predicted; None for any other than now.

        Returns
        -------
        factor : ndarray of shape (n_samples,)
            What multiplies the mapped feature, with the smallest ``|log factor|``: the
            tie itself, moved by 1e-9 to its far side. 1 where the target is predicted
            already, NaN where no value in the mapped range ``[low / 10, 10 * high]``
            gives the decision, or one that no float can hold. Of a row that `clip`
            limits, the limit is what is multiplied.
        value : ndarray of shape (n_samples,)
            The new value in units of X; the row's own with a factor of 1, also where
            `clip` limits it; NaN with the factor.
        """
        check_is_fitted(self, "exponents_")
        j = self._position(feature)
        code = None if target is None else self._code(target, "target")
        X = self._checked(X)
        u = self._positive(X)
        terms = self._with_first(self._terms(np.log(u) - self._log_mean))
        rates = self._with_first(self.exponents_[:, :, j], axis=0)
        intercept = self._with_first(self.intercept_, axis=0)
        limits = np.log(self._map.limits)
        change = np.empty(len(u))
        for start in range(0, len(u), _ROWS):
            part = slice(start, start + _ROWS)
            here = np.log(u[part, j])
            low, high = (
                np.minimum(limits[0] - here, 0),
                np.maximum(limits[1] - here, 0),
            )
            change[part] = _explain.counterfactual_scaling(
                terms[part], rates, intercept, low, high, code
            )
        factor = np.exp(change)
        with np.errstate(over="ignore"):
            value = self._map.minimum[j] + (
                (u[:, j] * factor - self._map.low) / self._map.slope[j]
            )
            # Rounding must not bring the value back to this side of the tie.
            value = np.nextafter(value, np.where(change > 0, np.inf, -np.inf))
        value = np.where(change == 0, X[:, j], value)
        beyond = ~np.isfinite(value)
        factor[beyond] = value[beyond] = np.nan
        return _explain.Counterfactual(factor, value)

    def _position(self, feature):
        if isinstance(feature, str):
            names = self._names(None)
            if feature not in names:
                raise ValueError(
                    f"feature={feature!r} is none of the column names: "
                    f"{_shortened(names)}."
                )
            return names.index(feature)
        good = isinstance(feature, Integral) and not isinstance(feature, bool)
        if not good or not 0 <= feature < self.n_features_in_:
            raise ValueError(
                f"feature must be a column name or a position from 0 to "
                f"{self.n_features_in_ - 1}; got {feature!r}."
            )
        return int(feature)

    # -- writing -----------------------------------------------------------------------

    def _names(self, feature_names):
        if feature_names is None:
            default = [f"x{j}" for j in range(self.n_features_in_)]
            return list(getattr(self, "feature_names_in_", default))
        return check_names(feature_names, self.n_features_in_)

    def _per_class(self, write):
        texts = [
            write(*score)
            for score in zip(self.exponents_, self.coef_, self.intercept_, strict=True)
        ]
        if len(self.classes_) == 2:
            return texts[0]
        return dict(zip(self.classes_.tolist(), texts, strict=True))

    def formula(self, feature_names=None, precision=3):
        """The scores as text, the map to positive numbers written out.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            None for the column names of ``fit``, or x0, x1, ... Names that are no
            Python identifiers are written as they are.
        precision : int, default=3
            Significant digits; None writes all, such that evaluating the text in
            Python gives ``decision_function`` up to rounding, for rows that `clip`
            does not limit.

        Returns
        -------
        str or dict of str
            One text with two classes, that of the score of ``classes_[1]``; otherwise
            a text for each label.
        """
        check_is_fitted(self, "exponents_")
        precision = check_precision(precision)
        bases = self._map.write(self._names(feature_names), precision)
        return self._per_class(
            lambda e, c, b: write_signomial(e, c, b, names=bases, precision=precision)
        )

    def to_latex(self, feature_names=None, precision=3):
        """The scores in LaTeX.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            As in ``formula``.
        precision : int, default=3
            Significant digits; None writes all.

        Returns
        -------
        str or dict of str
            As ``formula``.
        """
        check_is_fitted(self, "exponents_")
        precision = check_precision(precision)
        names = [latex_name(name) for name in self._names(feature_names)]
        bases = self._map.write_latex(names, precision)
        return self._per_class(
            lambda e, c, b: latex_signomial(e, c, b, bases=bases, precision=precision)
        )

    def to_sympy(self, feature_names=None):
        """The scores as sympy expressions of symbols with the features' names.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            As in ``formula``.

        Returns
        -------
        sympy.Expr or dict of sympy.Expr
            As ``formula``.
        """
        check_is_fitted(self, "exponents_")
        sympy = require(
            "sympy", extra="symbolic", for_=f"{type(self).__name__}.to_sympy"
        )
        symbols = [sympy.Symbol(name) for name in self._names(feature_names)]
        bases = self._map.to_sympy(sympy, symbols)
        return self._per_class(
            lambda e, c, b: sympy_signomial(sympy, e, c, b, bases=bases)
        )
