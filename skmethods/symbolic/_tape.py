"""Formulas as postfix tapes: what they hold, their values and their text.

A tape lists the nodes of an expression tree such that operands come before their
operator. Everything about it is a loop over that list, so depth costs no recursion.
"""

from collections import deque
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

MAX_NODES = 10_000
_LARGEST_DENOMINATOR = 12


def _sigmoid(a):
    return 1 / (1 + np.exp(-a))


def _quiet_where(condition, value, otherwise):
    return np.where(condition, value, np.asarray(otherwise, dtype=value.dtype))


#: Below this, gplearn's protected functions return a constant.
PROTECTED = 0.001

#: Operators of one operand: op -> value.
UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "sig": _sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
    "sqrtabs": lambda a: np.sqrt(np.abs(a)),
    "logabs": lambda a: np.log(np.abs(a)),
    "plog": lambda a: _quiet_where(np.abs(a) > PROTECTED, np.log(np.abs(a)), 0),
    "pinv": lambda a: _quiet_where(np.abs(a) > PROTECTED, 1 / a, 0),
}

#: Operators of two operands: op -> value.
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "powabs": lambda a, b: np.power(np.abs(a), b),
    "aq": lambda a, b: a / np.hypot(1, b),
    "max": np.maximum,
    "min": np.minimum,
    "pdiv": lambda a, b: _quiet_where(np.abs(b) > PROTECTED, a / b, 1),
}

#: Number of operands. "x" reads a column, "const" is a number, and "powc" raises to a
#: fixed exponent that is exact and so carries no noise of its own.
ARITY = {"x": 0, "const": 0, "powc": 1}
ARITY |= dict.fromkeys(UNARY, 1) | dict.fromkeys(BINARY, 2)

#: Every name that may be called: name -> (op, argument).
FUNCTIONS = {op: (op, None) for op in (*UNARY, *BINARY)}
FUNCTIONS |= {
    "sqrt": ("powc", 0.5),
    "square": ("powc", 2.0),
    "cube": ("powc", 3.0),
    "inv": ("powc", -1.0),
}
_OTHER_NAMES = {
    "abs": "Abs fabs",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "ceil": "ceiling",
    "log": "ln",
    "max": "Max fmax maximum",
    "min": "Min fmin minimum",
    "sig": "sigmoid expit",
}
FUNCTIONS |= {
    n: (op, None) for op, names in _OTHER_NAMES.items() for n in names.split()
}


def exact_exponent(value):
    """Whether `value` is an integer, a half, or p/q with a denominator up to 12."""
    if (2 * value).is_integer():
        return True
    return abs(value) < 1e3 and float(_small_fraction(value)) == value


def _small_fraction(value):
    return Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)


def _exponent_at_end(ops, args):
    """The exact exponent that the last operand spells, and how many nodes do so."""
    if ops[-1] == "const":
        return (args[-1], 1) if (2 * args[-1]).is_integer() else (None, 0)
    sign, end = (-1, len(ops) - 1) if ops[-1] == "neg" else (1, len(ops))
    if ops[max(end - 3, 0) : end] == ["const", "const", "div"]:  # written as p/q
        p, q = args[end - 3 : end - 1]
        if p.is_integer() and q.is_integer() and q != 0 and exact_exponent(p / q):
            return sign * p / q, len(ops) - end + 3
    return None, 0


def push(ops, args, op, arg=None):
    """Append one node to growing lists of ops and arguments.

    A power whose exponent is spelt as an integer, a half or a ratio of small integers
    becomes the operator "powc" with that exponent.
    """
    if op == "pow" and len(ops) >= 2:
        exponent, n_nodes = _exponent_at_end(ops, args)
        if exponent is not None and n_nodes < len(ops):
            del ops[-n_nodes:], args[-n_nodes:]
            op, arg = "powc", exponent
    ops.append(op)
    args.append(arg)


class Tape:
    """A formula as an immutable postfix list of operators.

    Parameters
    ----------
    ops : sequence of str
        The operators in postfix order: "x", "const", "powc", and the keys of `UNARY`
        and `BINARY`.
    args : sequence of the same length
        The column for "x", the number for "const", the exponent for "powc", and None
        for the others.

    Attributes
    ----------
    ops, args : tuple
    left : tuple of int
        For an operator of two operands the position of the first; -1 elsewhere. The
        last operand of node i is always node i - 1.
    depth : int
        Nodes on the longest path from the root to a leaf.
    """

    __slots__ = ("__weakref__", "args", "depth", "left", "ops")

    def __init__(self, ops, args):
        ops, args = tuple(ops), tuple(args)
        if len(ops) != len(args):
            raise ValueError(
                f"ops and args must have one length, got {len(ops)} and {len(args)}."
            )
        if len(ops) > MAX_NODES:
            raise ValueError(
                f"The formula has {len(ops)} nodes; at most {MAX_NODES} are accepted."
            )
        left, roots, depths = [], [], []
        for i, (op, arg) in enumerate(zip(ops, args, strict=True)):
            arity = ARITY.get(op)
            if arity is None:
                raise ValueError(f"Unknown operator {op!r}. Known: {', '.join(ARITY)}.")
            if len(roots) < arity:
                raise ValueError(
                    f"Node {i} ({op}) lacks operands: not in postfix order."
                )
            first = -1
            if arity == 0:
                _check_leaf(op, arg)
                depths.append(1)
            elif arity == 1:
                if op == "powc" and not exact_exponent(arg):
                    raise ValueError(
                        f"The exponent of powc must be exact, got {arg}; use pow."
                    )
                roots.pop()
                depths[-1] += 1
            else:
                roots.pop()
                first = roots.pop()
                depth = depths.pop()
                depths[-1] = 1 + max(depths[-1], depth)
            roots.append(i)
            left.append(first)
        if len(roots) != 1:
            raise ValueError(f"The nodes form {len(roots)} trees instead of one.")
        put = object.__setattr__
        put(self, "ops", ops)
        put(self, "args", args)
        put(self, "left", tuple(left))
        put(self, "depth", depths[0])

    @classmethod
    def from_postfix(cls, nodes):
        """A tape from ``(name, argument)`` pairs in postfix order.

        Parameters
        ----------
        nodes : iterable of (str, number or None)
            ``("x", column)``, ``("const", value)``, ``(function, None)`` with any name
            in `FUNCTIONS`, and ``("powc", exponent)``.
        """
        ops, args = [], []
        for name, arg in nodes:
            if name == "const":
                arg = float(arg)
            elif name in FUNCTIONS:
                name, arg = FUNCTIONS[name]
            push(ops, args, name, arg)
        return cls(ops, args)

    def __setattr__(self, name, value):
        raise AttributeError(f"A Tape is immutable; {name!r} cannot be set.")

    def __delattr__(self, name):
        raise AttributeError(f"A Tape is immutable; {name!r} cannot be deleted.")

    def __reduce__(self):
        return Tape, (self.ops, self.args)

    def __eq__(self, other):
        if not isinstance(other, Tape):
            return NotImplemented
        return self.ops == other.ops and self.args == other.args

    def __hash__(self):
        return hash((self.ops, self.args))

    def __repr__(self):
        return f"<Tape {self.to_text(precision=6)}>"

    def __str__(self):
        return self.to_text()

    @property
    def size(self):
        """The number of nodes."""
        return len(self.ops)

    @property
    def features(self):
        """The columns that are read, ascending."""
        return tuple(
            sorted({a for op, a in zip(self.ops, self.args, strict=True) if op == "x"})
        )

    def children(self, i):
        """Positions of the operands of node i."""
        arity = ARITY[self.ops[i]]
        return ((), (i - 1,), (self.left[i], i - 1))[arity]

    def start(self, i):
        """Where the subtree of node i starts; it ends at i."""
        while ARITY[self.ops[i]]:
            i = self.left[i] if self.left[i] >= 0 else i - 1
        return i

    def subtree(self, i):
        """The tape of node i and what is below it."""
        part = slice(self.start(i), i + 1)
        return Tape(self.ops[part], self.args[part])

    def evaluate(self, X, dtype=np.float64):
        """Values at the rows of X; nan or inf where the formula is not defined.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        dtype : {float64, float32}, default=float64
            The precision of every read and of every operation.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = np.asarray(X)
        columns = check_columns(self, X)
        columns = {j: np.array(X[:, j], dtype=dtype) for j in columns}
        stack = []
        with np.errstate(all="ignore"):
            for op, arg in zip(self.ops, self.args, strict=True):
                if op == "x":
                    stack.append(columns[arg])
                elif op == "const":
                    stack.append(np.full(1, arg, dtype=dtype))
                else:
                    operands = [stack.pop() for _ in range(ARITY[op])]
                    stack.append(value(op, arg, *operands[::-1]))
        # A copy where the formula is a bare column, and of full length if it has none.
        return np.array(np.broadcast_to(stack.pop(), len(X)))

    def to_text(self, feature_names=None, precision=None):
        """The formula as plain infix text.

        Parameters
        ----------
        feature_names : sequence of str, default=None
            Names of the columns; x0, x1, ... if None.
        precision : int, default=None
            Significant digits of the numbers. None writes them such that
            `parse_formula` gives an equal tape.

        Returns
        -------
        str
        """
        return deque(texts(self, feature_names, precision), maxlen=1).pop()


def _check_leaf(op, arg):
    if op == "x":
        if not isinstance(arg, Integral) or arg < 0:
            raise ValueError(f"A column must be an index from 0 on, got {arg!r}.")
    elif not isinstance(arg, Real) or not np.isfinite(arg):
        raise ValueError(f"A constant must be a finite number, got {arg!r}.")


def check_columns(tape, X):
    """The columns that `tape` reads, all of them present in X."""
    if X.ndim != 2:
        raise ValueError(f"X must be a table with rows and columns, got {X.ndim}-D.")
    columns = tape.features
    if columns and columns[-1] >= X.shape[1]:
        raise ValueError(
            f"The formula reads column {columns[-1]}, counted from 0, but X has "
            f"{X.shape[1]} columns."
        )
    return columns


def value(op, arg, *operands):
    """The value of one operator; warnings are the caller's to silence."""
    if op == "powc":
        return _power(*operands, arg)
    return (UNARY[op] if len(operands) == 1 else BINARY[op])(*operands)


def _power(a, exponent):
    if exponent == 2:
        return np.square(a)
    if exponent == 0.5:
        return np.sqrt(a)
    if exponent == -1:
        return np.reciprocal(a)
    return np.power(a, exponent)


# -- text ------------------------------------------------------------------------------

# How tightly the last operator of a text binds.
_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 6)
_INFIX = {
    "add": (" + ", _SUM),
    "sub": (" - ", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
}


def write_number(value, precision=None):
    """A number that ``float`` reads back; exactly if `precision` is None."""
    value = float(value)
    if value.is_integer() and abs(value) < 1e15 and (value or str(value)[0] != "-"):
        return str(int(value))
    return repr(value) if precision is None else f"{value:.{precision}g}"


def _write_exponent(exponent):
    if (2 * exponent).is_integer():
        text = write_number(exponent)
        return text if exponent >= 0 else f"({text})"
    return f"({_small_fraction(exponent)})"


def _enclose(part, at_least, signed=True):
    """The text of an operand, in parentheses where it needs them."""
    text, binds = part
    if binds < at_least or (not signed and text[0] == "-"):
        return f"({text})"
    return text


def texts(tape, feature_names=None, precision=None, limit=None):
    """Yield the text of every subexpression, in the order of the nodes.

    All of them together are quadratic in the depth: with `limit`, only the first
    ``limit + 1`` characters of each are written, by which a longer one is known.
    """
    end = None if limit is None else limit + 1
    stack = []
    for i, (op, arg) in enumerate(zip(tape.ops, tape.args, strict=True)):
        if op == "x":
            name = f"x{arg}" if feature_names is None else str(feature_names[arg])
            part = name, _ATOM
        elif op == "const":
            number = write_number(arg, precision)
            part = number, _SIGN if number[0] == "-" else _ATOM
        elif op == "powc" and arg != 0.5:
            base = _enclose(stack.pop(), _ATOM)
            part = f"{base}**{_write_exponent(arg)}", _POWER
        elif op == "neg" and tape.ops[i - 1] != "const":
            part = "-" + _enclose(stack.pop(), _SIGN, signed=False), _SIGN
        elif op in _INFIX:
            sign, binds = _INFIX[op]
            second = _enclose(stack.pop(), binds + 1, signed=False)
            part = _enclose(stack.pop(), binds) + sign + second, binds
        elif op == "pow":
            second = _enclose(stack.pop(), _ATOM)
            part = f"{_enclose(stack.pop(), _ATOM)}**{second}", _POWER
        else:
            operands = [stack.pop()[0] for _ in range(ARITY[op])][::-1]
            name = "sqrt" if op == "powc" else op
            part = f"{name}({', '.join(operands)})", _ATOM
        part = part[0][:end], part[1]
        stack.append(part)
        yield part[0]
