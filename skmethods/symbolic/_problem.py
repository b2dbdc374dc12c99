"""From a table to a scaled problem in logarithms, and back to coefficients."""

import numpy as np

from ._lattice import Setting
from ._varpro import Rows

#: An input of 0 counts as smaller than the smallest one by this, in logarithms.
_BELOW = 40.0
#: Logarithms of the coefficients that a float holds to full precision.
_SMALLEST, _LARGEST = -708.0, 709.0
#: Columns that agree to this share, up to a factor, are one.
_SAME = 1e-13
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
    l1 : float, default=0.0
        Penalty of real exponents.

    Attributes
    ----------
    setting : Setting
    scale : float
        The unit of y.
    weight_unit : float
        Weights are divided by this.
    """

    def __init__(self, X, y, weight, *, loss, exponents, lower, upper, l1=0.0):
        self.n = float(weight.sum())
        self.weight_unit = weight.max() * (weight / weight.max()).mean()
        weight = weight / weight.max()
        weight = weight / weight.mean()
        self._zeros = (X == 0).any(axis=0)
        constant = constant_columns(X)
        whole = whole_columns(X)
        negative = X < 0 if whole.any() else None
        with np.errstate(divide="ignore"):
            L = np.log(np.abs(X))
        least = np.where(L > -np.inf, L, np.inf).min(axis=0)
        L = np.maximum(L, np.where(np.isfinite(least), least, 0.0) - _BELOW)
        self.center = np.average(L, axis=0, weights=weight)
        L -= self.center
        lower = np.where(whole & self._zeros, np.maximum(lower, 0.0), lower)
        lower = np.where(whole, np.ceil(lower), lower)
        upper = np.where(whole, np.floor(upper), upper)
        idle = constant | repeated_columns(X, lower, upper)
        lower = np.where(idle, np.clip(0.0, lower, upper), lower)
        upper = np.where(idle, lower, upper)
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
            l1,
        )

    def _log_coef(self, B, coef, shift):
        with np.errstate(divide="ignore"):
            return np.log(np.abs(coef)) - shift - B @ self.center + self._log_scale

    def _admissible(self, B, coef, shift):
        size = self._log_coef(B, coef, shift)
        size = size[coef != 0]
        writable = ((size > _SMALLEST) & (size < _LARGEST)).all()
        return not (B[:, self._zeros] < 0).any(), bool(writable)

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


def constant_columns(X):
    """Which columns have one value only."""
    return (X == X[:1]).all(axis=0)


def whole_columns(X):
    """Columns with zero or negative values, whose exponents must be integers."""
    return (X <= 0).any(axis=0) & ~constant_columns(X)


def repeated_columns(X, lower, upper):
    """Columns that are an earlier one times a factor, and may have exponent 0.

    Logarithms of them differ by a constant, so that an exponent of one is one of the
    other. The earlier one must have a box that contains that of the later.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    lower, upper : ndarray of shape (n_features,)
        The box of the exponents.

    Returns
    -------
    ndarray of bool of shape (n_features,)
    """
    every = np.arange(X.shape[1])
    peak = X[np.abs(X).argmax(axis=0), every]
    unit = X / np.where(peak == 0, 1.0, peak)
    signed = (X <= 0).any(axis=0)
    repeated = np.zeros(len(every), bool)
    for j in every[1:]:
        if lower[j] > 0 or upper[j] < 0:
            continue
        for i in every[:j][~repeated[:j]]:
            wider = lower[i] <= lower[j] and upper[i] >= upper[j]
            if not wider or signed[i] != signed[j]:
                continue
            off = np.abs(unit[:, i] - unit[:, j])
            if (off <= _SAME * np.abs(unit[:, i])).all():
                repeated[j] = True
                break
    return repeated


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
