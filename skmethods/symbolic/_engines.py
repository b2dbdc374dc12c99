"""Reading formulas out of fitted symbolic-regression engines.

One small adapter per engine: the formula that it predicts with, and the candidates that
it chose from. An engine is known by the attributes that its users know; none of the
packages is imported.
"""

import inspect
import math
from keyword import iskeyword

import numpy as np

from ._parse import GPLEARN, can_be_read, parse_formula
from ._tape import ARITY, FUNCTIONS, Tape

#: For error messages.
_UNDERSTOOD = (
    "Understood are the symbolic estimators of skmethods (formula, candidates_), "
    "gplearn's SymbolicRegressor (_program, _programs), pyoperon's (model_, "
    "pareto_front_) and PySR's (equations_, sympy)."
)
_OPERON = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
#: Where a function of gplearn and ours of the same name must agree.
_PROBE = np.array([-1e3, -2.5, -1.0, -5e-4, 0.0, 5e-4, 0.3, 1.0, 2.0, 40.0])


def read_formulas(estimator, feature_names=None, n_features=None):
    """The formulas that a fitted estimator predicts with, as tapes.

    Parameters
    ----------
    estimator : estimator
        A fitted one. A classifier may have one formula per class.
    feature_names : sequence of str, default=None
        Names of the columns, for an estimator that has no ``feature_names_in_``.
    n_features : int, default=None
        The number of columns, for an estimator that has no ``n_features_in_``.

    Returns
    -------
    list of Tape
    """
    if callable(getattr(estimator, "formula", None)):
        parameters = inspect.signature(estimator.formula).parameters
        all_digits = {"precision": None} if "precision" in parameters else {}
        texts = estimator.formula(**all_digits)
        if isinstance(texts, dict):
            texts = list(texts.values())
        texts = [texts] if isinstance(texts, str) else texts
        return _parsed(texts, estimator, feature_names, n_features)
    if hasattr(estimator, "_program"):
        return [gplearn_tape(estimator._program)]
    if hasattr(estimator, "model_") and hasattr(estimator, "get_model_string"):
        return [_finite(operon_tape(estimator.model_, operon_columns(estimator)))]
    if callable(getattr(estimator, "sympy", None)):
        texts = [str(estimator.sympy())]  # which writes E for exp(1)
        number = {"E": math.e}
        return _parsed(texts, estimator, feature_names, n_features, constants=number)
    raise TypeError(
        f"No formula is found in {type(estimator).__name__}. {_UNDERSTOOD} Others need "
        "a method formula() that returns the text in x0, x1, ... or in the names of "
        "the columns."
    )


def read_candidates(engine, feature_names=None, n_features=None):
    """All formulas that a fitted engine offers, as tapes.

    Parameters
    ----------
    engine : estimator
        A fitted one.
    feature_names, n_features
        As in `read_formulas`.

    Returns
    -------
    list of Tape
        Without repetition, in the engine's order.
    """
    if hasattr(engine, "candidates_"):
        texts = [getattr(c, "formula", c) for c in engine.candidates_]
        tapes = _parsed(texts, engine, feature_names, n_features, "candidates_")
    elif hasattr(engine, "_programs"):
        last = [program for program in engine._programs[-1] if program is not None]
        tapes = [gplearn_tape(engine._program), *map(gplearn_tape, last)]
    elif hasattr(engine, "pareto_front_"):
        columns = operon_columns(engine)
        tapes = [operon_tape(entry["tree"], columns) for entry in engine.pareto_front_]
    elif hasattr(engine, "equations_"):
        if isinstance(engine.equations_, (list, tuple)):
            raise TypeError(
                "The engine has one table of equations per target; y must be 1-D."
            )
        texts = list(engine.equations_["equation"])
        tapes = _parsed(texts, engine, feature_names, n_features, "equations_")
    else:
        raise TypeError(
            f"No candidates are found in {type(engine).__name__}. {_UNDERSTOOD} For "
            "others give candidates=, a function of the fitted engine that returns a "
            "list of formulas as text."
        )
    return list(dict.fromkeys(tape for tape in tapes if tape is not None))


def called_candidates(function, engine, feature_names=None, n_features=None):
    """The candidates that the user's own function finds, as tapes.

    The names are as in `read_formulas`.
    """
    texts = function(engine)
    if isinstance(texts, str) or not hasattr(texts, "__iter__"):
        raise TypeError(
            "candidates must return a list of formulas as text, got "
            f"{type(texts).__name__}."
        )
    tapes = _parsed(list(texts), engine, feature_names, n_features, "candidates")
    return list(dict.fromkeys(tapes))


def readable_names(estimator):
    """The names of the columns if all can stand in a formula, else None.

    As in `ECSELRegressor`: either all columns have their names, or x0, x1, ...
    """
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    fit = all(name.isidentifier() and not iskeyword(name) for name in names)
    return names if names and fit and len(set(names)) == len(names) else None


def _parsed(texts, estimator, feature_names, n_features, owner=None, constants=None):
    """Texts in the names of the columns or in x0, x1, ..., as tapes.

    An estimator's own names go first. `owner` is what holds the texts, for messages.
    """
    if hasattr(estimator, "feature_names_in_"):
        feature_names = readable_names(estimator)
    elif feature_names is not None and not all(map(can_be_read, feature_names)):
        feature_names = None
    n_features = getattr(estimator, "n_features_in_", n_features)
    tapes = []
    for i, text in enumerate(texts):
        try:
            tapes.append(
                parse_formula(
                    text,
                    feature_names=feature_names,
                    n_features=n_features,
                    also_indexed=True,
                    constants=constants,
                )
            )
        except (TypeError, ValueError) as exc:
            if owner is None:
                raise
            raise type(exc)(f"{owner}[{i}]: {exc}") from exc
    return tapes


def from_prefix(nodes):
    """A tape from nodes in prefix order, or None if a constant is not finite.

    Parameters
    ----------
    nodes : sequence
        A tuple ``(function, n_operands)``, or an operand: the list of its nodes in
        postfix order, as `Tape.from_postfix` takes them.
    """
    stack = []
    for node in reversed(nodes):
        if isinstance(node, list):
            stack.append(node)
            continue
        name, n_operands = node
        part = stack.pop()
        if n_operands == 1:
            part = [*part, (name, None)]
        for _ in range(n_operands - 1):  # from the left: (a - b) - c
            part = [*part, *stack.pop(), (name, None)]
        stack.append(part)
    (postfix,) = stack
    if any(name == "const" and not math.isfinite(arg) for name, arg in postfix):
        return None
    return Tape.from_postfix(postfix)


def _finite(tape):
    if tape is None:
        raise ValueError("The engine's formula has a constant that is not finite.")
    return tape


# -- pyoperon --------------------------------------------------------------------------


def operon_columns(engine):
    """Hash of each variable of a fitted pyoperon engine -> its column."""
    return {variable: j for j, variable in enumerate(engine.variables_)}


def operon_tape(tree, columns, factors=None):
    """The tape of an operon tree, or None if a constant is not finite.

    Operon prints a fixed number of decimals, which turns small constants into zero;
    hence its nodes are read, not its text. The weight of a variable is a factor, as it
    is in the text.

    Parameters
    ----------
    tree : pyoperon.Tree
    columns : dict of int to int
        From `operon_columns`.
    factors : sequence of float, default=None
        What each column was multiplied by before operon saw it; goes into the weights.
    """
    nodes = []
    for node in reversed(tree.Nodes):  # the first operand stands next to its operator
        if node.IsVariable:
            column, weight = columns[node.HashValue], node.Value
            weight = weight if factors is None else weight * factors[column]
            read = ("x", column)
            weighted = [("const", weight), read, ("mul", None)]
            nodes.append([read] if weight == 1 else weighted)
        elif node.IsConstant:
            nodes.append([("const", node.Value)])
        else:
            # The name, not the type: in pyoperon 0.6.2 the type Fmin computes fmax.
            name = _OPERON.get(node.Name, node.Name)
            if name not in FUNCTIONS:
                raise ValueError(f"The operon function {name!r} has no equal here.")
            nodes.append((name, node.Arity))
    return from_prefix(nodes)


# -- gplearn ---------------------------------------------------------------------------


def gplearn_tape(program):
    """The tape of a gplearn program.

    Its text has constants of three decimals, so the program itself is read.
    """
    nodes = []
    for node in program.program:
        if hasattr(node, "arity"):
            nodes.append((_gplearn_name(node), node.arity))
        elif isinstance(node, (int, np.integer)):
            nodes.append([("x", int(node))])
        else:
            nodes.append([("const", float(node))])
    return _finite(from_prefix(nodes))


def _gplearn_name(function):
    """Our name of a gplearn function that computes the same."""
    name = GPLEARN.get(function.name, function.name)
    op, _ = FUNCTIONS.get(name, (None, None))
    same = ARITY.get(op) == function.arity
    if same:
        probe = np.meshgrid(*[_PROBE] * function.arity)
        probe = np.stack([column.ravel() for column in probe], axis=1)
        reads = [("x", j) for j in range(function.arity)]
        ours = Tape.from_postfix([*reads, (name, None)]).evaluate(probe)
        with np.errstate(all="ignore"):
            theirs = function.function(*probe.T)
        same = np.allclose(theirs, ours, rtol=1e-9, atol=0, equal_nan=True)
    if not same:
        raise ValueError(
            f"gplearn's function {function.name!r} was made by make_function, and "
            f"nothing known here as {name!r} computes the same. Give candidates=, a "
            "function of the fitted engine that returns formulas as text."
        )
    return name
