"""What a fitted law says about itself, and how it is written."""

import numpy as np
from sklearn.utils import check_array

from .._lazy import require
from .._validation import as_host, check_is_fitted, check_table
from . import _explain
from ._signomial import (
    check_names,
    check_precision,
    evaluate_terms,
    latex_name,
    latex_signomial,
    sympy_signomial,
    write_signomial,
)


class ExplainedLaw:
    """Explanations and texts of a fitted law.

    The class that mixes it in has ``exponents_``, ``coef_``, ``baseline_``, ``_map``
    (or None for raw columns), ``_clips``, ``_names``, ``_not_positive``, ``_found`` and
    ``_columns`` (for messages).
    """

    # -- values ------------------------------------------------------------------------

    def _mapped(self, X):
        """Checked rows, in the units of the formula, at which it has a value."""
        check_is_fitted(self, "coef_")
        X = check_table(self, X, reset=False, dtype=np.float64)
        U = X if self._map is None else self._map.positive(X, self._clips)
        real = (self.exponents_ != np.round(self.exponents_)).any(axis=0)
        below = (self.exponents_ < 0).any(axis=0)
        for bad, what in (
            (
                (U < 0).any(axis=0) & real,
                "negative values, of which the formula takes a "
                "power that is not an integer",
            ),
            ((U == 0).any(axis=0) & below, "zeros, by which the formula divides"),
        ):
            if bad.any():
                raise ValueError(f"In X, {self._columns(bad)} {what}.")
        return U

    @staticmethod
    def _check_values(values):
        """Refuse values beyond the range of floats; one line for each row."""
        fine = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not fine.all():
            raise ValueError(
                f"The value of the formula at row {int(np.argmin(fine))} of X is "
                "beyond the largest float. That row is too far outside the training "
                "range."
            )

    def _terms(self, U):
        used = (self.exponents_ != 0).any(axis=0)
        terms = evaluate_terms(U[:, used], self.exponents_[:, used], self.coef_)
        self._check_values(terms)
        return terms

    # -- explaining --------------------------------------------------------------------

    def log_gradient(self, X):
        """How the prediction changes with the logarithm of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features)
            ``u * dz / du`` for each feature u, or its map where the columns are
            mapped.
        """
        return _explain.log_gradient(self._terms(self._mapped(X)), self.exponents_)

    def elasticity(self, X):
        """By how many per cent the prediction changes per 1 % of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features)
            ``log_gradient`` over the prediction; for a law of one term its exponents.
            Where a prediction is exactly 0 the ratio does not exist, and the
            log-gradient itself is given.
        """
        terms = self._terms(self._mapped(X))
        gradient = _explain.log_gradient(terms, self.exponents_)
        return _explain.elasticity(gradient, terms.sum(axis=1))

    def attribute(self, X, baseline="mean", kind="path"):
        """Share out the difference of each prediction from a baseline to the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        baseline : "mean" or array-like of shape (n_features,), default="mean"
            The row to compare with, in units of X; "mean" is ``baseline_``.
        kind : {"path", "first_order"}, default="path"
            "path" integrates the log-gradient along the straight path in logarithms:
            the shares add up to the difference exactly. "first_order" is the
            log-gradient at the baseline times the step.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            For rows or a baseline with zero or negative values in a column that the
            formula uses as it is: they have no logarithm.
        """
        if kind not in ("path", "first_order"):
            raise ValueError(f"kind must be 'path' or 'first_order'; got {kind!r}.")
        U = self._mapped(X)
        row = self._baseline_row(baseline)
        used = (self.exponents_ != 0).any(axis=0)
        V = row if self._map is None else self._map.positive(row, self._clips)
        for values, what in ((U, "In X"), (V, "In baseline")):
            bad = used & ~(values > 0).all(axis=0)
            if bad.any():
                raise ValueError(
                    f"{what}, {self._columns(bad)} values that are not positive and "
                    "have no logarithm, along which attribute shares out. Pass "
                    "positive rows, and baseline= where baseline_ is NaN."
                )
        step = np.zeros(U.shape)
        step[:, used] = np.log(U[:, used]) - np.log(V[:, used])
        base = self._terms(V)
        if kind == "path":
            return _explain.path_attribution(
                self._terms(U), base[0], self.exponents_, step
            )
        gradient = _explain.log_gradient(base, self.exponents_)
        return _explain.first_order_attribution(gradient[0], step)

    def _baseline_row(self, baseline):
        """The baseline as an array of shape (1, n_features)."""
        if isinstance(baseline, str):
            if baseline != "mean":
                raise ValueError(
                    f"baseline must be 'mean' or one row of X; got {baseline!r}."
                )
            return self.baseline_[None]
        row = np.asarray(as_host(baseline))
        if row.shape not in ((self.n_features_in_,), (1, self.n_features_in_)):
            raise ValueError(
                f"baseline must be one row of X, of shape ({self.n_features_in_},); "
                f"got shape {row.shape}."
            )
        row = row.reshape(1, -1)
        return check_array(row, dtype=np.float64, input_name="baseline")

    # -- writing -----------------------------------------------------------------------

    @property
    def candidates_(self):
        """The laws that the search weighed, as text; the simplest first."""
        check_is_fitted(self, "coef_")
        return [self._write(e, c, self._names, None) for e, c in self._found]

    def _write(self, exponents, coef, names, precision):
        bases = names if self._map is None else self._map.write(names, precision)
        return write_signomial(exponents, coef, names=bases, precision=precision)

    def _check_names(self, feature_names):
        if feature_names is None:
            return self._names
        return check_names(feature_names, self.n_features_in_)

    def formula(self, feature_names=None, precision=3):
        """The law as plain text that a calculator or a parser reads.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            What to call the columns. None takes the names seen in ``fit`` where all
            are identifiers, else ``x0, x1, ...``.
        precision : int, default=3
            Significant digits of the numbers. None writes them such that reading
            them gives the same floats.

        Returns
        -------
        str
        """
        check_is_fitted(self, "coef_")
        names, precision = self._check_names(feature_names), check_precision(precision)
        return self._write(self.exponents_, self.coef_, names, precision)

    def to_latex(self, feature_names=None, precision=3):
        """The law in LaTeX, without dollar signs.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            As in ``formula``; plain names, not LaTeX.
        precision : int, default=3
            Significant digits of the numbers; None writes all that they have.

        Returns
        -------
        str
        """
        check_is_fitted(self, "coef_")
        bases = [latex_name(name) for name in self._check_names(feature_names)]
        precision = check_precision(precision)
        if self._map is not None:
            bases = self._map.write_latex(bases, precision)
        return latex_signomial(
            self.exponents_, self.coef_, bases=bases, precision=precision
        )

    def to_sympy(self, feature_names=None):
        """The law as a sympy expression; fractions in the exponents are exact.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            Names of the symbols. None takes the names seen in ``fit`` where all are
            identifiers, else ``x0, x1, ...``.

        Returns
        -------
        sympy.Expr
            In symbols that are declared positive where the column was in ``fit``, and
            real elsewhere; to get hold of one, use ``expression.free_symbols``.

        Raises
        ------
        ImportError
            Where sympy, an optional package, is not installed.
        """
        check_is_fitted(self, "coef_")
        sympy = require("sympy", extra="symbolic", for_="ECSELRegressor.to_sympy")
        names = self._check_names(feature_names)
        positive = np.zeros(self.n_features_in_, bool)
        if self._map is None:
            positive = ~self._not_positive
        symbols = [
            sympy.Symbol(name, **({"positive": True} if p else {"real": True}))
            for name, p in zip(names, positive, strict=True)
        ]
        bases = symbols if self._map is None else self._map.to_sympy(sympy, symbols)
        return sympy_signomial(sympy, self.exponents_, self.coef_, bases=bases)
