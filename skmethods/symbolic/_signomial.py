"""Signomials: sums of power laws, their positive inputs and how they are written.

A signomial is ``z(x) = sum_k coef_k * prod_j x_j ** exponent_kj + intercept``. Each
term is linear in log x, up to its sign and the exponential.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

#: Exponents this close to a fraction with a small denominator are written as one.
_WRITTEN_AS_FRACTION = 1e-12
_LARGEST_DENOMINATOR = 12


class PositiveMap(NamedTuple):
    """An affine map of each column to a positive interval.

    ``u_j = low + (high - low) * (x_j - minimum_j) / span_j``. A column without spread
    has ``span_j = 1`` and becomes `low`.

    Attributes
    ----------
    low, high : float
        The interval, ``0 < low < high``.
    minimum, span : ndarray of shape (n_features,)
        Smallest value and range of each column in the training rows.
    """

    low: float
    high: float
    minimum: np.ndarray
    span: np.ndarray

    @classmethod
    def fit(cls, X, feature_range):
        """Learn the map from the rows of X, all of them with a positive weight."""
        low, high = map(float, feature_range)
        minimum = X.min(axis=0)
        # Halved first: a range of the largest floats does not overflow then.
        span = 2 * (X.max(axis=0) / 2 - minimum / 2)
        return cls(low, high, minimum, np.where(span > 0, span, 1.0))

    @property
    def slope(self):
        """du_j / dx_j, of shape (n_features,)."""
        return (self.high - self.low) / self.span

    def __call__(self, X):
        """The mapped rows; outside the training range they may be negative."""
        return self.low + (X - self.minimum) * self.slope

    def write(self, names, precision=None):
        """The text of each mapped column, in parentheses."""
        written = []
        for name, minimum, slope in zip(names, self.minimum, self.slope, strict=True):
            shift = _write_number(abs(minimum), precision)
            base = (
                name
                if minimum == 0
                else f"({name} {'+' if minimum < 0 else '-'} {shift})"
            )
            low = _write_number(self.low, precision)
            written.append(f"({low} + {_write_number(slope, precision)}*{base})")
        return written


def term_values(L, exponents, coef, limit=60.0):
    """Each term of a signomial at each row.

    Parameters
    ----------
    L : ndarray of shape (n_samples, n_features)
        Logarithms of the inputs; centred ones if `coef` is for those.
    exponents : ndarray of shape (n_terms, n_features)
    coef : ndarray of shape (n_terms,)
    limit : float, default=60.0
        The argument of the exponential is kept in ``[-limit, limit]``, so that no
        term overflows.

    Returns
    -------
    ndarray of shape (n_samples, n_terms)
    """
    return coef * np.exp(np.clip(L @ exponents.T, -limit, limit))


def as_fraction(exponent):
    """The fraction with a small denominator that `exponent` is, or None."""
    fraction = Fraction(float(exponent)).limit_denominator(_LARGEST_DENOMINATOR)
    return fraction if abs(fraction - exponent) <= _WRITTEN_AS_FRACTION else None


def _write_number(value, precision):
    """A number that ``float`` reads back; exactly if `precision` is None."""
    value = float(value)
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if precision is None else f"{value:.{precision}g}"


def _write_exponent(exponent, precision):
    fraction = as_fraction(exponent)
    if fraction is None or fraction.denominator in (1, 2):
        return _write_number(exponent, precision)
    return f"({fraction})"


def _write_term(coef, exponents, bases, precision):
    """``|coef| * ...`` of one term, without its sign."""
    text = ""
    number = _write_number(abs(coef), precision)
    factors = [(b, e) for b, e in zip(bases, exponents, strict=True) if e != 0]
    factors.sort(key=lambda factor: factor[1] < 0)  # what divides comes last
    for base, exponent in factors:
        power = _write_exponent(abs(exponent), precision)
        power = base if power == "1" else f"{base}**{power}"
        if exponent < 0:
            text += f"/{power}"
        else:
            text += f"*{power}"
    if number == "1" and text.startswith("*"):
        return text[1:]
    return number + text


def write_signomial(exponents, coef, intercept=0.0, *, names, precision=None):
    """A signomial as plain text, e.g. ``13.1*x2**1.56*x3/x0**1.76 - 2``.

    Parameters
    ----------
    exponents : ndarray of shape (n_terms, n_features)
    coef : ndarray of shape (n_terms,)
    intercept : float, default=0.0
    names : sequence of str of length n_features
        What stands for each input: its name, or an expression in parentheses.
    precision : int, default=None
        Significant digits of the numbers. None writes them such that reading them
        gives the same floats.

    Returns
    -------
    str
    """
    parts = [
        (c < 0, _write_term(c, row, names, precision))
        for c, row in zip(coef, exponents, strict=True)
        if c != 0
    ]
    if intercept != 0 or not parts:
        parts.append((intercept < 0, _write_number(abs(intercept), precision)))
    text = "".join(f" {'-' if minus else '+'} {part}" for minus, part in parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]
