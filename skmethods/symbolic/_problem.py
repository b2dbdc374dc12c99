"""From a table to a scaled problem in logarithms, and back to coefficients."""

import numpy as np

from ._lattice import Setting
from ._varpro import Rows

#: An input of 0 counts as smaller than the smallest one by this, in logarithms.
_BELOW = 40.0
#: Logarithms of the coefficients that a float holds with room to spare.
_LARGEST = 690.0
#: Up to this many rows, equal ones are counted once to see how much they can tell.
_COUNTED = 20_000


class Problem:
    """A signomial regression in scaled units.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Inputs; zero or negative ones only in columns with integer exponents.
    y : ndarray of shape (n_samples,)
        Not all zero; positive for ``loss="log"``.
    weight : ndarray of shape (n_samples,)
        Positive.
    loss : {"auto", "squared", "log"}
    exponents : {"auto", "real", "rational"}
    lower, upper : ndarray of shape (n_features,)
        The box of the exponents.

    Attributes
    ----------
    setting : Setting
    scale : float
        The unit of y.
    weight_unit : float
        Weights are divided by this.
    """

    def __init__(self, X, y, weight, *, loss, exponents, lower, upper):
        self.n = float(weight.sum())
        self.weight_unit = weight.max() * (weight / weight.max()).mean()
        weight = weight / weight.max()
        weight = weight / weight.mean()
        self._zeros = (X == 0).any(axis=0)
        whole = (X <= 0).any(axis=0)
        negative = X < 0 if whole.any() else None
        with np.errstate(divide="ignore"):
            L = np.log(np.abs(X))
        least = np.where(L > -np.inf, L, np.inf).min(axis=0)
        L = np.maximum(L, np.where(np.isfinite(least), least, 0.0) - _BELOW)
        self.center = np.average(L, axis=0, weights=weight)
        L -= self.center
        constant = np.ptp(X, axis=0) == 0
        lower = np.where(constant, np.clip(0.0, lower, upper), lower)
        upper = np.where(constant, lower, upper)
        top = np.abs(y).max()
        unit = y / top
        if loss == "log":
            mean = np.exp(np.average(np.log(unit), weights=weight))
        else:
            mean = np.sqrt(np.average(unit * unit, weights=weight))
        self._log_scale = np.log(top) + np.log(mean)
        self.scale = top * mean
        self.setting = Setting(
            Rows(L, unit / mean, weight, negative),
            self.n,
            loss,
            exponents,
            lower,
            upper,
            whole,
            self._admissible,
        )

    def _log_coef(self, B, coef, shift):
        with np.errstate(divide="ignore"):
            return np.log(np.abs(coef)) - shift - B @ self.center + self._log_scale

    def _admissible(self, B, coef, shift):
        if (B[:, self._zeros] < 0).any():
            return False
        return bool((np.abs(self._log_coef(B, coef, shift)) < _LARGEST).all())

    def written(self, law):
        """Exponents and coefficients of a law in the units of X and y."""
        coef = np.sign(law.coef) * np.exp(self._log_coef(law.B, law.coef, law.shift))
        order = np.lexsort((*law.B.T, -np.abs(law.coef)))
        return law.B[order] + 0.0, coef[order], order

    def rss(self, law):
        """Weighted sum of squared residuals in the units of y (or of log y)."""
        unit = 1.0 if self.setting.loss == "log" else self.scale
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(law.error) * self.weight_unit * unit * unit)


def most_terms(X, n, max_terms):
    """How many terms the rows can tell apart: two rows for each number.

    0 where not even one term is determined, which takes ``n_features + 2`` rows.
    """
    rows = len(X)
    if rows <= _COUNTED:
        rows = len(np.unique(X, axis=0))
    rows = min(rows, n)
    numbers = X.shape[1] + 1
    if rows < numbers + 1:
        return 0
    return max(1, min(max_terms, int(rows // (2 * numbers))))
