"""Condition numbers of the operators of a tape."""

import numpy as np
from scipy.special import xlogy

from ._tape import PROTECTED

_LN2, _LN10 = np.log(2.0), np.log(10.0)


def _root_of_one_minus_square(a):
    return np.sqrt((1 - a) * (1 + a))


#: op -> condition number ``a * f'(a) / f(a)``: a number, or a function of (a, f(a)).
UNARY_CONDITION = {
    "neg": 1.0,
    "abs": 1.0,
    "cbrt": 1 / 3,
    "sqrtabs": 0.5,
    "pinv": -1.0,
    "floor": 0.0,
    "ceil": 0.0,
    "sign": 0.0,
    "exp": lambda a, y: a,
    "expm1": lambda a, y: a * (y + 1) / y,
    "log": lambda a, y: 1 / y,
    "logabs": lambda a, y: 1 / y,
    "plog": lambda a, y: np.where(np.abs(a) > PROTECTED, 1 / y, 0.0),
    "log2": lambda a, y: 1 / (_LN2 * y),
    "log10": lambda a, y: 1 / (_LN10 * y),
    "log1p": lambda a, y: a / ((1 + a) * y),
    "sin": lambda a, y: a * np.cos(a) / y,
    "cos": lambda a, y: -a * np.tan(a),
    "tan": lambda a, y: a * (1 + y * y) / y,
    "asin": lambda a, y: a / (_root_of_one_minus_square(a) * y),
    "acos": lambda a, y: -a / (_root_of_one_minus_square(a) * y),
    "atan": lambda a, y: a / ((1 + a * a) * y),
    "sinh": lambda a, y: a / np.tanh(a),
    "cosh": lambda a, y: a * np.tanh(a),
    "tanh": lambda a, y: 2 * a / np.sinh(2 * a),
    "asinh": lambda a, y: a / (np.hypot(1, a) * y),
    "acosh": lambda a, y: a / (np.sqrt((a - 1) * (a + 1)) * y),
    "atanh": lambda a, y: a / ((1 - a) * (1 + a) * y),
    "sig": lambda a, y: a / (1 + np.exp(a)),
}


def _active(a, b, first):
    """1 for the operand that is passed on, 0 for the other, halves where they tie."""
    share = np.where(a == b, 0.5, first)
    return share, 1 - share


def _divided(a, b, y):
    by_b = (np.abs(b) > PROTECTED).astype(float)
    return by_b, -by_b


def _analytic_quotient(a, b, y):
    return 1.0, -((b / np.hypot(1, b)) ** 2)


#: op -> both condition numbers: a pair, or a function of (a, b, f(a, b)).
BINARY_CONDITION = {
    "add": lambda a, b, y: (a / y, b / y),
    "sub": lambda a, b, y: (a / y, -b / y),
    "mul": (1.0, 1.0),
    "div": (1.0, -1.0),
    "pow": lambda a, b, y: (b, xlogy(b, a)),
    "powabs": lambda a, b, y: (b, xlogy(b, np.abs(a))),
    "aq": _analytic_quotient,
    "max": lambda a, b, y: _active(a, b, a > b),
    "min": lambda a, b, y: _active(a, b, a < b),
    "pdiv": _divided,
}


def condition_numbers(op, arg, operands, y):
    """Relative change of the value per relative change of each operand.

    Parameters
    ----------
    op, arg
        A node of a tape.
    operands : tuple of ndarray
    y : ndarray
        The value of the node.

    Returns
    -------
    tuple of float or ndarray
        nan or inf where the value is zero or not defined.
    """
    if op == "powc":
        return (arg,)
    if len(operands) == 1:
        rule = UNARY_CONDITION[op]
        return (rule(*operands, y) if callable(rule) else rule,)
    rule = BINARY_CONDITION[op]
    return rule(*operands, y) if callable(rule) else rule
