"""The report of where a formula loses digits."""

from numbers import Integral

import numpy as np

from ._parse import can_be_read
from ._signomial import check_precision
from ._tape import texts

#: An operand with this share of the worst node's digits accounts for them.
_SHARE = 0.95
#: Characters of a subexpression in `EICResult.nodes`.
_LONGEST = 1_000


def _shorten(text, length):
    return text if len(text) <= length else text[: length - 3] + "..."


class EICResult:
    """Where in a formula decimal digits are lost.

    Returned by `effective_information` with ``return_details=True``; ``print(result)``
    shows the formula as a tree with the digits lost at each node.

    Parameters
    ----------
    tape : Tape
        The formula as it was read.
    digits : ndarray of shape (n_nodes,)
        Digits lost at each node, in postfix order.
    n_invalid : int
        Rows at which some subexpression has no finite value.
    n_samples : int
        Rows looked at, those with weight zero left out.
    feature_names : sequence of str, default=None
        Names of the columns in the texts; x0, x1, ... if None, or if some name has no
        letter.

    Attributes
    ----------
    eic : float
        The criterion: digits lost at the worst node.
    root_digits : float
        Digits lost in the value of the whole formula.
    nodes : list of (str, float)
        Every subexpression and its digits, operands before operators. Texts of more
        than 1000 characters are shortened.
    worst_subexpression : str
        The smallest subexpression that alone accounts for the loss: from the worst node
        down while an operand has at least 95 % of the worst node's digits.

    See Also
    --------
    effective_information : Makes the result.

    Examples
    --------
    >>> from skmethods import effective_information
    >>> result = effective_information(
    ...     "2*((x0 + 1) - x0)", [[1e3]], return_details=True
    ... )
    >>> result.worst_subexpression
    'x0 + 1 - x0'
    >>> print(result)
    Digits lost to rounding: 3.24 at the worst node, 3.24 in the result; 1 row
    digits    here  subexpression
      3.24   +0.00  2*(x0 + 1 - x0)
      0.00           +- 2
      3.24   +3.09   +- x0 + 1 - x0  <-- worst
      0.15   +0.15      +- x0 + 1
      0.00              |  +- x0
      0.00              |  +- 1
      0.00              +- x0
    """

    def __init__(self, tape, digits, n_invalid, n_samples, feature_names=None):
        self.tape = tape
        self.digits = digits
        self.n_invalid = n_invalid
        self.n_samples = n_samples
        if feature_names is not None and not all(map(can_be_read, feature_names)):
            feature_names = None
        self.feature_names = feature_names
        self.eic = float(digits.max())
        self.root_digits = float(digits[-1])

    @property
    def nodes(self):
        """Every subexpression and its digits, operands before operators."""
        names = texts(self.tape, self.feature_names, limit=_LONGEST)
        names = [_shorten(name, _LONGEST) for name in names]
        return list(zip(names, self.digits.tolist(), strict=True))

    @property
    def worst_subexpression(self):
        """The smallest subexpression that alone accounts for the loss."""
        worst = self.tape.subtree(self._worst())
        return worst.to_text(self.feature_names)

    def _worst(self):
        i = int(np.argmax(self.digits))
        least = _SHARE * self.digits[i]
        while True:
            children = self.tape.children(i)
            j = max(children, key=lambda c: self.digits[c], default=None)
            if j is None or not self.digits[j] >= least > 0:
                return i
            i = j

    def report(self, *, precision=4, max_width=100):
        """The formula as an indented tree with the digits lost at each node.

        Parameters
        ----------
        precision : int, default=4
            Significant digits of the numbers in the formula.
        max_width : int, default=100
            Longer lines are shortened; at least 60.

        Returns
        -------
        str
            "digits" is what the value of the node has lost, "here" what it lost more
            than the worse of its operands.
        """
        precision = check_precision(precision)
        if not isinstance(max_width, Integral) or max_width < 60:
            raise ValueError(
                f"max_width must be a whole number of at least 60, got {max_width!r}."
            )
        rows = "1 row" if self.n_samples == 1 else f"{self.n_samples} rows"
        head = (
            f"Digits lost to rounding: {self.eic:.2f} at the worst node, "
            f"{self.root_digits:.2f} in the result; {rows}"
        )
        if self.n_invalid:
            head += f", {self.n_invalid} of them without a finite value somewhere"
        lines = [head, "digits    here  subexpression"]
        names = list(texts(self.tape, self.feature_names, precision, limit=max_width))
        widest = max_width // 3  # of the lines that draw the tree
        worst = self._worst()
        waiting = [(self.tape.size - 1, "", "", 0)]
        while waiting:
            i, lead, indent, level = waiting.pop()
            if len(lead) > widest:  # too deep to be drawn
                lead = f" ... level {level} +- "
            children = self.tape.children(i)
            before = max((self.digits[j] for j in children), default=0.0)
            own = self.digits[i] - before if before < np.inf else 0.0
            line = f"{self.digits[i]:6.2f}" + (f"{own:+8.2f}" if children else " " * 8)
            mark = "  <-- worst" if i == worst and self.eic > 0 else ""
            text = _shorten(names[i], max_width - len(line + lead + mark) - 2)
            lines.append(f"{line}  {lead}{text}{mark}")
            for j in children[::-1]:
                more = " | " if j != children[-1] else "   "
                # Longer than `widest` it is not drawn, so it grows no further.
                below = indent if len(indent) > widest else indent + more
                waiting.append((j, indent + " +- ", below, level + 1))
        return "\n".join(lines)

    def __str__(self):
        return self.report()

    def __repr__(self):
        return (
            f"EICResult(eic={self.eic:.6g}, root_digits={self.root_digits:.6g}, "
            f"worst_subexpression={self.worst_subexpression!r}, "
            f"n_invalid={self.n_invalid})"
        )
