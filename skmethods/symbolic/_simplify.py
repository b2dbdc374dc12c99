"""Formulas of a genetic programme with their redundant constants joined.

Such formulas carry a factor at every variable. Within a product all of them are one,
and what is outermost is a scale and an offset that linear regression gives.
"""

import numpy as np

from ._tape import BINARY, Tape


def _chain(nodes, factors):
    """`nodes`, if any, times all the factors, from the left."""
    for factor in factors:
        nodes = [*nodes, *factor, ("mul", None)] if nodes else factor
    return nodes


def write(coef, above, below):
    """``coef * above / below`` in postfix order, without factors of 1."""
    negated = coef == -1 and above
    number = [] if above and coef in (1, -1) else [("const", coef)]
    nodes = _chain(number, above)
    if negated:
        nodes = [*nodes, ("neg", None)]
    return [*nodes, *_chain([], below), ("div", None)] if below else nodes


def _constant(op, arg, numbers):
    """The value of an operator of numbers."""
    nodes = [("const", number) for number in numbers]
    tape = Tape([*(n for n, _ in nodes), op], [*(a for _, a in nodes), arg])
    return float(tape.evaluate(np.empty((1, 0)))[0])


def _power(coef, above, below, exponent):
    """``(coef * above / below) ** exponent`` in three parts."""
    if exponent < 0:
        coef, above, below, exponent = 1 / coef, below, above, -exponent
    if coef < 0 and not float(exponent).is_integer():
        above, below, coef = [write(-1.0, above, below)], [], -coef
    elif above and below:
        # Apart, each could be negative where their ratio is not.
        above, below = [write(1.0, above, below)], []
    if exponent != 1:
        above, below = (
            [[*_chain([], part), ("powc", exponent)]] if part else []
            for part in (above, below)
        )
    return coef**exponent, above, below


def parts(tape):
    """A tape as ``coef * above / below`` with the constants of products joined.

    Returns
    -------
    coef : float
    above, below : list of list of (str, number or None)
        Factors, each as nodes in postfix order. The values are those of the tape up to
        rounding.

    Raises
    ------
    ZeroDivisionError, OverflowError
        If a joined constant is zero or not finite.
    """
    stack = []
    for op, arg in zip(tape.ops, tape.args, strict=True):
        if op == "x":
            stack.append((1.0, [[(op, arg)]], []))
            continue
        if op == "const":
            stack.append((arg, [], []))
            continue
        second = stack.pop()
        operands = [stack.pop(), second] if op in BINARY else [second]
        if not any(above or below for _, above, below in operands):
            part = _constant(op, arg, [coef for coef, _, _ in operands]), [], []
        elif op in ("mul", "div"):
            (a, above, below), (b, over, under) = operands
            if op == "div":
                b, over, under = 1 / b, under, over
            part = a * b, above + over, below + under
        elif op == "neg":
            part = -second[0], *second[1:]
        elif op == "powc":
            part = _power(*second, arg)
        else:
            if op in ("add", "sub") and second[0] < 0:  # a - (-b)
                op = "sub" if op == "add" else "add"
                operands[1] = -second[0], *second[1:]
            nodes = [node for operand in operands for node in write(*operand)]
            part = 1.0, [[*nodes, (op, arg)]], []
        if part[0] == 0 or not np.isfinite(part[0]):
            raise OverflowError("A joined constant is zero or not finite.")
        stack.append(part)
    (part,) = stack
    return part


def core(tape):
    """What remains of a tape without its outermost scale and offset.

    Returns
    -------
    (above, below) or None
        As of `parts`; None for a constant.
    """
    while True:
        try:
            _, above, below = parts(tape)
        except (ZeroDivisionError, OverflowError):  # as it is, then
            nodes = list(zip(tape.ops, tape.args, strict=True))
            return ([nodes], []) if tape.features else None
        if not above and not below:
            return None
        if not below and len(above) == 1 and above[0][-1][0] in ("add", "sub"):
            tape = Tape.from_postfix(above[0])
            operands = [tape.subtree(c) for c in tape.children(tape.size - 1)]
            varying = [operand for operand in operands if operand.features]
            if len(varying) == 1:
                (tape,) = varying
                continue
        return above, below


def scaled(above, below, X, y):
    """``a * f + b`` and ``a * f`` by least squares, as tapes.

    Parameters
    ----------
    above, below
        What `core` returns: f is their ratio.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    Returns
    -------
    list of Tape
        Empty where f has no finite values or is zero.
    """
    values = Tape.from_postfix(write(1.0, above, below)).evaluate(X)
    unit, size = np.abs(values).max(), np.abs(y).max()
    if not np.isfinite(unit) or unit == 0 or size == 0:
        return []
    v, t = values / unit, y / size
    found = [((v @ t) / (v @ v), 0.0)]
    centred = v - v.mean()
    variance = centred @ centred
    if variance > 1e-24 * len(v):
        slope = centred @ (t - t.mean()) / variance
        found.append((slope, t.mean() - slope * v.mean()))
    tapes = []
    for slope, intercept in found:
        with np.errstate(over="ignore"):
            slope, intercept = float(slope / unit * size), float(intercept * size)
        if slope == 0 or not (np.isfinite(slope) and np.isfinite(intercept)):
            continue
        nodes = write(slope, above, below)
        if intercept != 0:
            op = "add" if intercept > 0 else "sub"
            nodes = [*nodes, ("const", abs(intercept)), (op, None)]
        tapes.append(Tape.from_postfix(nodes))
    return tapes
