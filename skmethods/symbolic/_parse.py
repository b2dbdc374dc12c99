"""One parser for the formulas that symbolic-regression tools print.

Tokens, then two stacks: nothing is evaluated, looked up in Python, or recursive. That
is why ``ast.parse`` is not used: its tokenizer refuses more than 200 nested brackets,
long chains of signs exhaust the C stack, and it reads ``^`` as "exclusive or".
"""

import math
import re
import unicodedata
from difflib import get_close_matches
from itertools import islice
from keyword import iskeyword

import numpy as np

from ._signomial import check_names
from ._tape import ARITY, BINARY, FUNCTIONS, MAX_NODES, UNARY, Tape, push, value

MAX_TEXT = 500_000
#: Brackets, calls, signs and operators that may wait for their end at one time.
MAX_OPEN = 4_000
#: How many names an error lists.
_MAX_LISTED = 10

_NUMBER = r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_NAME = r"(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
_SIGN = r"(?P<sign>\*\*|[-+*/^(),])"
_PLAIN = re.compile(rf"\s*(?:{_NUMBER}|{_NAME}|{_SIGN})", re.ASCII)
_BRACKET = re.compile(r"\s*\(", re.ASCII)
_INDEXED = re.compile(r"[xX]_?(\d{1,7})", re.ASCII)

_CONSTANTS = {"pi": math.pi}
#: sign -> (binds, op). Powers group from the right and bind tighter than signs.
_OPERATORS = {
    "+": (1, "add"),
    "-": (1, "sub"),
    "*": (2, "mul"),
    "/": (2, "div"),
    "**": (4, "pow"),
    "^": (4, "pow"),
}

#: gplearn's functions return a finite number everywhere.
GPLEARN = {"div": "pdiv", "sqrt": "sqrtabs", "log": "plog", "inv": "pinv"}
_MANY = ("add", "mul", "max", "min")  # of two operands or more
#: For messages: every function, by one of its names.
_CALLED = sorted({*UNARY, *BINARY, "sqrt", "square", "cube", "inv"})
_HINTS = {
    "=": "Give the right-hand side only.",
    ".": "Attributes are not part of a formula.",
    "E": "Write exp(1) for Euler's number.",
    "e": "Write exp(1) for Euler's number.",
    "−": "Write - for it.",
    "–": "Write - for it.",
    "×": "Write * for it.",
    "·": "Write * for it.",
    "⋅": "Write * for it.",
    "÷": "Write / for it.",
    "²": "Write **2 for it.",
    "³": "Write **3 for it.",
    "√": "Write sqrt(...) for it.",
}


def _shown(character):
    """A character for a message; what only looks like another is told by its name."""
    name = "" if character.isascii() else unicodedata.name(character, "")
    return f"{character!r} ({name})" if name else repr(character)


def _suggestion(name, known):
    close = get_close_matches(name, islice(known, 1000), 1, cutoff=0.7)
    return f"Did you mean {close[0]!r}? " if close else ""


class _Names:
    """The names that stand for columns, and the tokens that spell them.

    Given names go first. Indexed ones are read too where no names are given, where
    `also_indexed` asks for it, and where some name is no identifier, since formulas are
    then written in x0, x1, ...; but never where a column is called by another's index.
    """

    def __init__(self, feature_names, n_features, first_index, also_indexed):
        self.first_index, self.n_features = first_index, n_features
        self.columns, self.indexed, self.token = {}, True, _PLAIN
        if feature_names is None:
            return
        names = check_names(feature_names, n_features)
        self.columns = {name: j for j, name in enumerate(names)}
        self.n_features = len(names)
        for name in names:
            if not can_be_read(name):
                raise ValueError(
                    f"The name {name!r} cannot stand for a column in a formula: it has "
                    "no letter. Pass feature_names, or X without names (such as "
                    "X.to_numpy()) for formulas in x0, x1, ..."
                )
        # Names such as "petal length (cm)", "lambda" or "ℏ" are tokens of their own.
        odd = [n for n in names if not re.fullmatch(_NAME, n) or iskeyword(n)]
        self.indexed = (also_indexed or bool(odd)) and all(
            self._index(name) in (None, j) for name, j in self.columns.items()
        )
        if odd:
            odd = "|".join(
                re.escape(n) + (r"(?!\w)" if re.match(r"\w", n[-1]) else "")
                for n in sorted(odd, key=len, reverse=True)
            )
            self.token = re.compile(rf"\s*(?:(?P<odd>{odd})|{_NUMBER}|{_NAME}|{_SIGN})")

    def _index(self, name):
        match = _INDEXED.fullmatch(name)
        return None if match is None else int(match[1]) - self.first_index

    def find(self, name):
        """The column called `name`, or None."""
        j = self.columns.get(name)
        if j is not None or not self.indexed:
            return j
        j = self._index(name)
        if j is None or j < 0:
            return None
        return j if self.n_features is None or j < self.n_features else None

    def known(self):
        """The names that can be read, for a message."""
        if self.columns:
            text = ", ".join(islice(self.columns, _MAX_LISTED))
            if len(self.columns) > _MAX_LISTED:
                text += f", ... ({len(self.columns)} names)"
            return text
        first = self.first_index
        if self.n_features is None:
            return f"x{first}, x{first + 1}, ..."
        return f"x{first} to x{first + self.n_features - 1}"


def can_be_read(name):
    """Whether a column may be called so in a formula."""
    return name.isidentifier() or any(c.isalpha() for c in name)


class _Reader:
    """The state of reading one text: a growing tape and what waits for operands."""

    def __init__(self, text, names, protected, constants):
        self.text, self.names, self.protected = text, names, protected
        self.constants = constants
        self.ops, self.args = [], []
        self.waiting = []  # [binds, op, operands so far, position]

    def fail(self, where, what):
        near = self.text[max(where - 15, 0) : where + 25]
        raise ValueError(
            f"The formula cannot be read at character {where + 1}, near {near!r}: "
            f"{what.strip()}"
        )

    def push(self, op, arg, where):
        if len(self.ops) >= MAX_NODES:
            self.fail(where, f"it has more than {MAX_NODES} nodes.")
        push(self.ops, self.args, op, arg)

    def wait(self, binds, op, where):
        if len(self.waiting) >= MAX_OPEN:
            self.fail(
                where, f"it is nested deeper than {MAX_OPEN} open brackets and signs."
            )
        self.waiting.append([binds, op, 0, where])

    def reduce(self, binds, right_first=False):
        """Write the waiting operators that bind tighter than what comes."""
        while self.waiting and self.waiting[-1][0] > binds - (not right_first):
            _, op, _, where = self.waiting.pop()
            if op != "minus":
                op = "pdiv" if op == "div" and self.protected else op
                self.push(op, None, where)
            elif self.ops[-1] == "const":
                self.args[-1] = -self.args[-1]
            else:
                self.push("neg", None, where)

    def call(self, name, n, where):
        """Write the call of a function on the last n operands."""
        name = GPLEARN.get(name, name) if self.protected else name
        op, arg = FUNCTIONS[name]
        arity = ARITY[op]
        if n != arity and not (n > 2 and op in _MANY):
            self.fail(where, f"{name} takes {arity} argument(s), not {n}.")
        for _ in range(max(n - 1, 1)):
            self.push(op, arg, where)

    def name(self, name, where, is_call):
        column = self.names.find(name)
        is_value = column is not None or name in self.constants
        if is_call:
            if name in FUNCTIONS:
                self.wait(0, name, where)
            elif is_value:
                self.fail(
                    where, f"an operator is missing between {name!r} and its bracket."
                )
            else:
                hint = _suggestion(name, FUNCTIONS) or f"Known: {', '.join(_CALLED)}."
                self.fail(where, f"unknown function {name!r}. {hint}")
        elif column is not None:
            self.push("x", column, where)
        elif is_value:
            self.push("const", self.constants[name], where)
        else:
            hint = _HINTS.get(name, "Write its argument." if name in FUNCTIONS else "")
            hint = hint or _suggestion(name, self.names.columns)
            self.fail(
                where, f"unknown name {name!r}. Known: {self.names.known()}. {hint}"
            )

    def close(self, where):
        """A closing bracket: of a call or of a group."""
        self.reduce(1)
        if not self.waiting:
            self.fail(where, "this bracket closes nothing.")
        _, op, n, opened = self.waiting.pop()
        if op != "open":
            self.call(op, n + 1, opened)

    def comma(self, where):
        self.reduce(1)
        if not self.waiting or self.waiting[-1][1] == "open":
            self.fail(where, "a comma may only separate the arguments of a function.")
        self.waiting[-1][2] += 1

    def read(self):
        position, end = 0, len(self.text.rstrip())
        wants_operand = True
        token = self.names.token
        while position < end:
            match = token.match(self.text, position)
            if match is None:
                position += len(self.text[position:end]) - len(
                    self.text[position:end].lstrip()
                )
                bad = self.text[position]
                hint = _HINTS.get(bad, "")
                self.fail(position, f"{_shown(bad)} is not part of a formula. {hint}")
            kind, position = match.lastgroup, match.end()
            where, word = match.start(kind), match[kind]
            if kind == "sign" and word == ")" and not wants_operand:
                self.close(where)
            elif kind == "sign" and word == "," and not wants_operand:
                self.comma(where)
                wants_operand = True
            elif kind == "sign" and word in _OPERATORS and not wants_operand:
                binds, op = _OPERATORS[word]
                self.reduce(binds, right_first=op == "pow")
                self.wait(binds, op, where)
                wants_operand = True
            elif kind == "sign" and wants_operand:
                if word == "(":
                    self.wait(0, "open", where)
                elif word == "-":
                    self.wait(3, "minus", where)
                elif word != "+":
                    self.fail(where, f"an operand is missing before {word!r}.")
            elif not wants_operand:
                self.fail(where, f"an operator is missing before {word!r}.")
            elif kind == "number":
                value = float(word)
                if not math.isfinite(value):
                    self.fail(where, f"{word[:20]} is too large for a float.")
                self.push("const", value, where)
                wants_operand = False
            elif kind == "odd":
                self.push("x", self.names.find(word), where)
                wants_operand = False
            else:
                following = _BRACKET.match(self.text, position)
                self.name(word, where, following is not None)
                if following is not None:
                    position = following.end()
                wants_operand = following is not None
        if wants_operand:
            self.fail(end, "an operand is missing at the end.")
        self.reduce(1)
        if self.waiting:
            self.fail(self.waiting[-1][3], "this bracket is never closed.")
        return Tape(self.ops, self.args)


def _check_powers(tape):
    """Refuse towers of numbers such as 9**9**9 that no float holds."""
    stack = []  # a number for a subexpression without columns, otherwise None
    with np.errstate(all="ignore"):
        for i, (op, arg) in enumerate(zip(tape.ops, tape.args, strict=True)):
            operands = [stack.pop() for _ in range(ARITY[op])][::-1]
            if op == "x" or None in operands:
                stack.append(None)
                continue
            stack.append(
                np.float64(arg) if op == "const" else value(op, arg, *operands)
            )
            # A square or cube may overflow, as an exponential may: that is a value.
            tower = op == "pow" or (op == "powc" and abs(arg) > 3)
            if (
                tower
                and operands[0] != 0
                and np.isinf(stack[-1])
                and np.isfinite(operands).all()
            ):
                text = tape.subtree(i).to_text(precision=6)
                raise ValueError(f"The formula holds {text[:60]}: too large a number.")


def parse_formula(
    text,
    *,
    feature_names=None,
    n_features=None,
    first_index=0,
    protected=None,
    also_indexed=False,
    constants=None,
):
    """Read a formula as infix text or as calls of named functions.

    Infix with ``**`` or ``^``, what sympy, PySR and operon print, and the prefix calls
    of gplearn such as ``add(mul(X0, X1), 0.5)`` may be mixed freely.

    Parameters
    ----------
    text : str
    feature_names : sequence of str, default=None
        Names of the columns. If None, ``x0``, ``X0`` or ``x_0`` is the first one; so
        it is where some name is no identifier, unless a name says otherwise.
    n_features : int, default=None
        The number of columns, to refuse indices beyond them.
    first_index : int, default=0
        The index of the first column in indexed names; operon counts from 1.
    protected : {None, "gplearn"}, default=None
        With "gplearn", division, ``sqrt``, ``log`` and ``inv`` are its protected ones.
    also_indexed : bool, default=False
        Whether ``x0``, ``x1``, ... are read although all names are identifiers.
    constants : dict of str to float, default=None
        Numbers with a name, besides pi; the names of columns go before them.

    Returns
    -------
    Tape

    Raises
    ------
    ValueError
        If the text is no formula, with the place; or if it names something unknown.
    """
    if not isinstance(text, str):
        raise TypeError(f"A formula must be text, got {type(text).__name__}.")
    if protected not in (None, "gplearn"):
        raise ValueError(f"protected must be None or 'gplearn', got {protected!r}.")
    if len(text) > MAX_TEXT:
        raise ValueError(
            f"The formula has {len(text)} characters; at most {MAX_TEXT} are read."
        )
    names = _Names(feature_names, n_features, first_index, also_indexed)
    tape = _Reader(text, names, protected, _CONSTANTS | (constants or {})).read()
    _check_powers(tape)
    return tape
