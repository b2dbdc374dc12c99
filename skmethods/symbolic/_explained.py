"""What a classifier with signomial scores says about itself, and writes."""

from numbers import Integral

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_array

from .._lazy import require
from .._validation import as_host, check_is_fitted
from . import _explain
from ._signomial import (
    latex_name,
    latex_signomial,
    sympy_signomial,
    write_signomial,
)

#: Rows whose counterfactuals are sought at a time.
_ROWS = 2048


class ExplainedScores:
    """Explanations and texts of the scores of a fitted classifier.

    The class that mixes it in has ``classes_``, ``exponents_``, ``coef_``,
    ``intercept_``, ``baseline_``, ``_map`` and ``_log_mean``; ``_mapped(X)`` (checked
    rows as positive numbers), ``_positive(X)`` (without the check), ``_logs(X)``,
    ``_terms(L)`` and ``_with_first`` (a zero score for the first of two classes).
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
            in its own units.
        """
        if kind not in ("score", "probability"):
            raise ValueError(f"kind must be 'score' or 'probability'; got {kind!r}.")
        terms = self.terms(X)
        gradient = _explain.log_gradient(terms, self.exponents_)
        if kind == "score":
            return gradient
        scores = self._with_first(terms.sum(axis=2) + self.intercept_)
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
        terms = self.terms(X)
        gradient = _explain.log_gradient(terms, self.exponents_)
        return _explain.elasticity(gradient, terms.sum(axis=2) + self.intercept_)

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
        found = np.flatnonzero(self.classes_ == label)
        if len(found) != 1:
            raise ValueError(
                f"{name}={label!r} is none of the classes {self.classes_.tolist()}."
            )
        return int(found[0])

    def attribute(self, X, baseline="mean", kind="path"):
        """Share out the difference of each score from a baseline to the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        baseline : "mean" or array-like of shape (n_features,), default="mean"
            The row to compare with, in units of X; "mean" is ``baseline_``.
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
            row = as_host(baseline)
            if np.shape(row) != (self.n_features_in_,):
                raise ValueError(
                    f"baseline must be one row of X, of shape ({self.n_features_in_},);"
                    f" got shape {np.shape(row)}."
                )
            row = check_array([row], dtype=np.float64, input_name="baseline")
        base = np.log(self._positive(row)) - self._log_mean
        base_terms = self._terms(base)[0]
        if kind == "path":
            return _explain.path_attribution(
                self._terms(L), base_terms, self.exponents_, L - base
            )
        gradient = _explain.log_gradient(base_terms[None], self.exponents_)[0]
        return _explain.first_order_attribution(gradient, L - base)

    def counterfactual(self, X, feature, target=None):
        """The smallest scaling of one feature that changes the decision.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        feature : int or str
            Position or name of the feature that is scaled, the others staying as they
            are.
        target : label, default=None
            The class that shall be predicted; None for any other than now.

        Returns
        -------
        factor : ndarray of shape (n_samples,)
            What multiplies the mapped feature, with the smallest ``|log factor|``: the
            tie itself, moved by 1e-9 to its far side. 1 where the target is predicted
            already, NaN where no value in the mapped range ``[low / 10, 10 * high]``
            gives the decision.
        value : ndarray of shape (n_samples,)
            The new value in units of X; NaN with the factor.
        """
        check_is_fitted(self, "exponents_")
        j = self._position(feature)
        code = None if target is None else self._code(target, "target")
        u = self._mapped(X)
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
        value = self._map.minimum[j] + (
            (u[:, j] * factor - self._map.low) / self._map.slope[j]
        )
        # Rounding must not bring the value back to this side of the tie.
        value = np.where(change == 0, value, np.nextafter(value, change * np.inf))
        return _explain.Counterfactual(factor, value)

    def _position(self, feature):
        if isinstance(feature, str):
            names = list(getattr(self, "feature_names_in_", []))
            if feature not in names:
                raise ValueError(
                    f"feature={feature!r} is no column name seen in fit: {names}."
                )
            return names.index(feature)
        if not isinstance(feature, Integral) or not 0 <= feature < self.n_features_in_:
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
        names = list(feature_names)
        if len(names) != self.n_features_in_ or isinstance(feature_names, str):
            raise ValueError(
                f"feature_names must hold {self.n_features_in_} names, one for each "
                f"feature; got {feature_names!r}."
            )
        return names

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
