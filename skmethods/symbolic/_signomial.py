"""Signomials: sums of power laws, their positive inputs and how they are written.

A signomial is ``z(x) = sum_k coef_k * prod_j x_j ** exponent_kj + intercept``. Each
term is linear in log x, up to its sign and the exponential.
"""

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from ._tape import write_number

#: Exponents this close to a fraction with a small denominator are written as one.
_WRITTEN_AS_FRACTION = 1e-12
#: Columns that are farther from 0 than this many mapped units are written with their
#: minimum, which is an exact float.
_FAR = 1e6
#: Mapped rows are kept within [low / _REACH, high * _REACH].
_REACH = 10.0
_LARGEST_DENOMINATOR = 12


def check_feature_range(feature_range):
    """The interval to map to as two floats, after a check."""
    values = tuple(feature_range)
    good = len(values) == 2 and all(isinstance(v, Real) for v in values)
    if not good or not 0 < values[0] < values[1] < np.inf:
        raise ValueError(
            "feature_range must be two finite numbers (low, high) with 0 < low < "
            f"high, since logarithms are taken; got {feature_range!r}."
        )
    return float(values[0]), float(values[1])


def check_precision(precision):
    """Significant digits to write, as None (all) or an int from 1 on, after a check."""
    if precision is None:
        return None
    if not isinstance(precision, Integral) or isinstance(precision, bool):
        raise TypeError(
            "precision must be a whole number of significant digits, or None for all "
            f"of them; got {precision!r}."
        )
    if precision < 1:
        raise ValueError(f"precision must be at least 1, or None; got {precision!r}.")
    return int(precision)


def check_names(feature_names, n_features=None):
    """Names of columns as a list of different strings, after a check.

    Parameters
    ----------
    feature_names : sequence of str
    n_features : int, default=None
        How many there must be; None takes any number.

    Returns
    -------
    list of str
    """
    ordered = hasattr(feature_names, "__iter__") and not isinstance(
        feature_names, (str, bytes, set, frozenset, dict)
    )
    if not ordered:
        raise TypeError(
            "feature_names must be a list of names, one per column of X, in their "
            f"order; got {feature_names!r}."
        )
    names = list(feature_names)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                "feature_names must be strings; got "
                f"{name!r}, which is {type(name).__name__}."
            )
        if not name.strip():
            raise ValueError(f"feature_names has an empty name, {name!r}.")
    if n_features is not None and len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names, but X has {n_features} columns."
        )
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(
            f"feature_names must differ from each other; {twice!r} comes more than "
            "once."
        )
    return [str(name) for name in names]


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
        low, high = feature_range
        minimum = X.min(axis=0)
        with np.errstate(over="ignore"):  # infinite: for the caller to refuse
            span = X.max(axis=0) - minimum
        # A range so small that the slope overflows counts as none.
        spread = span > (high - low) / np.finfo(float).max
        return cls(low, high, minimum, np.where(spread, span, 1.0))

    @property
    def slope(self):
        """du_j / dx_j, of shape (n_features,)."""
        return (self.high - self.low) / self.span

    @property
    def limits(self):
        """Smallest and largest mapped value that predictions take."""
        return self.low / _REACH, self.high * _REACH

    def __call__(self, X):
        """The mapped rows; outside the training range they may be negative."""
        return self.low + (X - self.minimum) * self.slope

    def positive(self, X, clip, name="X"):
        """The mapped rows, kept within ``limits``; without `clip` refused outside of 0.

        Raises
        ------
        ValueError
            Without `clip`, for a mapped value that has no logarithm.
        """
        with np.errstate(over="ignore"):
            U = self(X)
        if clip:
            return np.clip(U, *self.limits)
        bad = ~((U > 0) & np.isfinite(U))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                f"{name} holds {X[row, column]:.6g} in row {row}, column {column}, so "
                "far outside the training range that its mapped value is "
                f"{U[row, column]:.3g}, which has no logarithm. Use clip=True, or a "
                "feature_range with a smaller ratio."
            )
        return U

    def _written(self, precision):
        """``(low, slope, shift, digits of shift)`` of ``low + slope * (x - shift)``.

        `low` is 0, with the shift to match, unless the columns are so far from 0 that
        the shift would lose digits of theirs.
        """
        for minimum, slope in zip(self.minimum, self.slope, strict=True):
            offset = abs(minimum) * slope / self.low
            fold = offset < _FAR
            shift = minimum - self.low / slope if fold else minimum
            digits = precision
            if precision is not None and offset > 1:
                digits += math.ceil(math.log10(offset))
            yield 0.0 if fold else self.low, slope, shift, digits

    def write(self, names, precision=None):
        """The text of each mapped column, in parentheses."""
        written = []
        for name, column in zip(names, self._written(precision), strict=True):
            low, slope, shift, digits = column
            sign = "+" if shift < 0 else "-"
            number = write_number(abs(shift), digits)
            base = name if shift == 0 else f"({name} {sign} {number})"
            text = f"{write_number(slope, precision)}*{base}"
            if low:
                text = f"{write_number(low, precision)} + {text}"
            written.append(f"({text})")
        return written

    def write_latex(self, names, precision=None):
        """Each mapped column in LaTeX, in parentheses; `names` are LaTeX already."""
        written = []
        for name, column in zip(names, self._written(precision), strict=True):
            low, slope, shift, digits = column
            sign = "+" if shift < 0 else "-"
            number = _latex_number(abs(shift), digits)
            base = rf"\, {name}" if shift == 0 else rf"({name} {sign} {number})"
            text = f"{_latex_number(slope, precision)} {base}"
            if low:
                text = f"{_latex_number(low, precision)} + {text}"
            written.append(rf"\left({text}\right)")
        return written

    def to_sympy(self, sympy, symbols):
        """Each mapped column as a sympy expression of its symbol."""
        return [
            sympy_number(sympy, low)
            + sympy_number(sympy, slope) * (symbol - sympy_number(sympy, shift))
            for symbol, (low, slope, shift, _) in zip(
                symbols, self._written(None), strict=True
            )
        ]


def evaluate_signomial(U, exponents, coef):
    """The value at each row: the sum of ``evaluate_terms``."""
    with np.errstate(all="ignore"):
        return evaluate_terms(U, exponents, coef).sum(axis=1)


def evaluate_terms(U, exponents, coef):
    """The terms of a signomial at each row, without its map and its intercept.

    In logarithms, so that factors beyond the range of floats may cancel.

    Parameters
    ----------
    U : ndarray of shape (n_samples, n_features)
        Inputs; where one is negative its exponents are integers, where one is 0 they
        are not negative.
    exponents : ndarray of shape (n_terms, n_features)
    coef : ndarray of shape (n_terms,)

    Returns
    -------
    ndarray of shape (n_samples, n_terms)
        Infinite beyond the range of floats.
    """
    signs = 1.0
    negative, zero = U < 0, U == 0
    size = np.log(np.where(zero, 1.0, np.abs(U)))
    if negative.any():
        odd = np.abs(exponents) % 2
        signs = 1 - 2 * ((negative.astype(float) @ odd.T) % 2)
    if zero.any():
        signs = signs * (zero.astype(float) @ (exponents > 0).T == 0)
    with np.errstate(all="ignore"):
        log_coef = np.log(np.abs(coef))  # -inf for 0
        return signs * np.sign(coef) * np.exp(size @ exponents.T + log_coef)


def as_fraction(exponent):
    """The fraction with a small denominator that `exponent` is, or None."""
    fraction = Fraction(float(exponent)).limit_denominator(_LARGEST_DENOMINATOR)
    return fraction if abs(fraction - exponent) <= _WRITTEN_AS_FRACTION else None


def _write_exponent(exponent, precision):
    fraction = as_fraction(exponent)
    if fraction is None or fraction.denominator in (1, 2):
        return write_number(exponent, precision)
    return f"({fraction})"


def _write_term(coef, exponents, bases, precision):
    """``|coef| * ...`` of one term, without its sign."""
    text = ""
    number = write_number(abs(coef), precision)
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


def _joined(parts):
    """The text of a sum from ``(is negative, text of the magnitude)`` of its parts."""
    text = "".join(f" {'-' if minus else '+'} {part}" for minus, part in parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


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
        parts.append((intercept < 0, write_number(abs(intercept), precision)))
    return _joined(parts)


def latex_name(name):
    """A feature's name in LaTeX: ``x12`` becomes ``x_{12}``, other names upright.

    Parameters
    ----------
    name : str

    Returns
    -------
    str
    """
    letter, digits = name[:1], name[1:]
    if letter.isalpha() and digits.isdigit() and name.isascii():
        return f"{letter}_{{{digits}}}"
    if len(name) == 1 and name.isalpha():
        return name
    special = {"\\": r"\backslash{}", "~": r"\sim{}", "^": r"\hat{}", " ": r"\ "}
    text = "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in str(name))
    return rf"\mathrm{{{text}}}"


def _latex_number(value, precision):
    mantissa, e, exponent = write_number(value, precision).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if e else mantissa


def _latex_term(coef, exponents, bases, precision):
    above, below = [], []
    for base, exponent in zip(bases, exponents, strict=True):
        if exponent == 0:
            continue
        power = _write_exponent(abs(exponent), precision).strip("()")
        numerator, slash, denominator = power.partition("/")
        if slash:
            power = rf"{numerator}/{denominator}"
        power = base if power == "1" else f"{base}^{{{power}}}"
        (below if exponent < 0 else above).append(power)
    number = _latex_number(abs(coef), precision)
    if number != "1" or not above:
        above.insert(0, number)
    top, bottom = r" \, ".join(above), r" \, ".join(below)
    return rf"\frac{{{top}}}{{{bottom}}}" if below else top


def latex_signomial(exponents, coef, intercept=0.0, *, bases, precision=3):
    r"""A signomial in LaTeX, e.g. ``\frac{13.1 \, x_{2}^{1.56}}{x_{0}^{1.76}} - 2``.

    Parameters
    ----------
    exponents : ndarray of shape (n_terms, n_features)
    coef : ndarray of shape (n_terms,)
    intercept : float, default=0.0
    bases : sequence of str of length n_features
        What stands for each input: ``latex_name`` of its name, or
        ``PositiveMap.write_latex``.
    precision : int, default=3
        Significant digits of the numbers; None writes all that they have.

    Returns
    -------
    str
    """
    parts = [
        (c < 0, _latex_term(c, row, bases, precision))
        for c, row in zip(coef, exponents, strict=True)
        if c != 0
    ]
    if intercept != 0 or not parts:
        parts.append((intercept < 0, _latex_number(abs(intercept), precision)))
    return _joined(parts)


def sympy_number(sympy, value):
    """The number as sympy's: an integer if it is one, else a float of 17 digits."""
    value = float(value)
    if value == int(value) and abs(value) < 1e15:
        return sympy.Integer(int(value))
    return sympy.Float(value, 17)


def sympy_signomial(sympy, exponents, coef, intercept=0.0, *, bases):
    """A signomial as a sympy expression.

    Parameters
    ----------
    sympy : module
        From ``_lazy.require("sympy", extra="symbolic", for_=...)``.
    exponents : ndarray of shape (n_terms, n_features)
    coef : ndarray of shape (n_terms,)
    intercept : float, default=0.0
    bases : sequence of sympy expressions of length n_features
        Symbols, or ``PositiveMap.to_sympy`` of symbols.

    Returns
    -------
    sympy.Expr
        Exponents that are fractions with a small denominator are exact.
    """

    def power(exponent):
        fraction = as_fraction(exponent)
        if fraction is None:
            return sympy_number(sympy, exponent)
        return sympy.Rational(fraction.numerator, fraction.denominator)

    # One product and one sum: joined one by one their cost would be quadratic.
    terms = [sympy_number(sympy, intercept)]
    for c, row in zip(coef, exponents, strict=True):
        factors = [
            base ** power(exponent)
            for base, exponent in zip(bases, row, strict=True)
            if exponent != 0
        ]
        terms.append(sympy.Mul(sympy_number(sympy, c), *factors))
    return sympy.Add(*terms)
