"""EICSymbolicRegressor: pyoperon's search, with numerical sanity in view."""

from numbers import Integral, Real

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state

from .._lazy import require
from .._validation import (
    FitProgress,
    Interval,
    StrOptions,
    check_table,
    fit_context,
)
from ._eic import tape_information
from ._engines import operon_columns, operon_tape
from ._scorer import DIGITS
from ._selected import FormulaRegressor, numbers, pick_rows
from ._simplify import core, scaled
from ._tape import FUNCTIONS, Tape

#: Columns whose largest magnitude is beyond 2**±this are rescaled for operon, which
#: computes in single precision.
_COMFORTABLE = 10
#: pyoperon knows its objectives by name; what has this one is replaced by ours.
_REPLACED = "shape"
_SYMBOLS = "add,sub,mul,div,constant,variable,sqrt,square,exp,log,sin,cos"
_OBJECTIVES = {
    "rerank": ["r2", "length"],
    "penalty": ["r2", _REPLACED],
    "objective": ["r2", "length", _REPLACED],
}


def power_of_two(a):
    """What to multiply a column by so that single precision can hold it and its cube.

    A power of two, so that nothing is rounded; 1 for ordinary columns.
    """
    largest = np.abs(a).max()
    if largest == 0:
        return 1.0
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) <= _COMFORTABLE:
        return 1.0
    return float(np.ldexp(1.0, min(-exponent, 1023)))


class _Guide:
    """An objective for operon: the digits that a tree loses, alone or with its length.

    Exceptions cannot pass through operon, so the first is kept for the caller.
    """

    def __init__(self, rows, aggregate, weight):
        self.rows, self.aggregate, self.weight = rows, aggregate, weight
        self.columns, self.error = None, None

    def __call__(self, rng, individual):
        tree = individual.Genotype
        digits = DIGITS
        try:
            tape = operon_tape(tree, self.columns)
            if tape is not None:
                digits = tape_information(tape, self.rows, aggregate=self.aggregate)
        except BaseException as exc:
            self.error = self.error or exc
        digits = min(digits, DIGITS)
        if self.weight is None:
            return [digits]
        return [tree.Length + self.weight * digits]


def _engine(guide, **parameters):
    """pyoperon's regressor, with `guide` as one of its objectives."""
    owner = "EICSymbolicRegressor"
    operon = require("pyoperon", extra="symbolic", for_=owner)
    module = require("pyoperon.sklearn", extra="symbolic", for_=owner)

    class Guided(module.SymbolicRegressor):
        def _init_evaluator(self, objective, problem, dtable, uncertainty):
            if objective != _REPLACED:
                return super()._init_evaluator(objective, problem, dtable, uncertainty)
            guide.columns = {v: j for j, v in enumerate(problem.InputHashes)}
            return operon.UserDefinedEvaluator(problem, guide)

    return Guided(**parameters)


class EICSymbolicRegressor(FormulaRegressor, CallbackSupportMixin, BaseEstimator):
    """Symbolic regression by pyoperon that prefers numerically sane formulas.

    A genetic programme (operon's NSGA-II with local optimisation of the constants)
    searches for formulas that are accurate and short. Numerical sanity, the digits that
    a formula loses to rounding by the effective information criterion (EIC), enters
    after the search or inside of it. Needs the optional package pyoperon.

    Parameters
    ----------
    mode : {"rerank", "penalty", "objective"}, default="rerank"
        Where EIC enters besides the final choice. "rerank": nowhere else, the search is
        operon's own. "penalty": the length has `penalty_weight` times EIC added to it.
        "objective": EIC is a third objective beside error and length. The last two call
        back into Python for every formula, which takes three times as long or more.
    penalty_weight : float, default=5.0
        Nodes of a tree that one lost digit counts for; with ``mode="penalty"`` only.
    delta_bic : float, default=6.0
        Of the formulas found, those within this much of the best BIC compete by EIC, as
        in `EICSelectedRegressor`; 0 is the plain choice by BIC.
    aggregate : {"mean", "logmean", "median"} or float in (0, 1), default="logmean"
        How the digits lost at each row become one number, see `effective_information`.
    n_generations : int, default=50
        Generations of the search.
    population_size : int, default=500
        Formulas in a generation.
    max_length : int, default=30
        The largest operon tree, in operon's count: a variable and its factor are one.
    allowed_symbols : str or None, default=None
        What formulas are made of, separated by commas, in operon's names. None is
        "add,sub,mul,div,constant,variable,sqrt,square,exp,log,sin,cos". "variable" and
        at least one function are needed.
    optimizer_iterations : int, default=5
        Levenberg-Marquardt steps on the constants of each new formula.
    max_time : int or None, default=None
        Whole seconds after which the search ends with the generation at hand. Then the
        result depends on the speed of the machine.
    n_rows : int or None, default=64
        Training rows for EIC, drawn at random where there are more; None takes all.
    n_jobs : int or None, default=None
        Threads of the search; None is 1, -1 all processors. It changes no result. Where
        operon calls back into Python, in the modes "penalty" and "objective", there is
        one thread whatever `n_jobs`.
    random_state : int, RandomState instance or None, default=None
        Seeds the search and draws the rows.

    Attributes
    ----------
    formula_ : str
        The chosen formula at full precision, in the names of the columns where all are
        identifiers, else in x0, x1, ...
    eic_ : float
        Decimal digits that it loses at the training rows.
    candidates_ : list of Candidate
        Tuples ``(formula, mse, size, bic, eic)``, the simplest first: all within
        `delta_bic` of the best, and all that no simpler one matches in accuracy.
    best_index_ : int
        Position of the chosen one in ``candidates_``.
    n_generations_ : int
        Generations that the search took.
    n_evaluations_ : int
        How often it computed the values of a formula.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if all are strings.

    See Also
    --------
    EICSelectedRegressor : The same choice among the candidates of any engine.
    ECSELRegressor : Far faster where the law is a sum of power laws.

    Notes
    -----
    Operon gives every variable a factor. In the result the constants of a product are
    joined into one. Operon fits the scale and the offset of each formula; here they are
    fitted again in double precision, once with an offset and once without. Columns
    whose largest magnitude is above 1024 or below 1/1024 are multiplied by a power of
    two for operon, which computes in single precision, and the factors are put into the
    constants. A column with a large offset, such as a date in seconds, loses its digits
    there: subtract the offset first.

    Prediction evaluates the chosen formula without operon, so a fitted estimator can be
    pickled and used where pyoperon is not installed. BIC is that of
    `EICSelectedRegressor`; operon's own default criterion, a description length,
    under-fits when the noise level is not known.

    Without `max_time` the fit is reproducible. Ctrl-C takes effect when the search has
    ended.

    *From the paper*: the criterion, and that it serves as an objective of the search.
    *Ours*: the three modes, their weights, and pyoperon as the search.

    References
    ----------
    .. [1] Yu, Wang, Ding, Wang, Li, "Beyond Accuracy and Complexity: The Effective
       Information Criterion for Structurally Stable Symbolic Regression",
       International Conference on Machine Learning, 2026, arXiv 2509.21780.
    .. [2] Burlacu, Kronberger, Kommenda, "Operon C++: an efficient genetic programming
       framework for symbolic regression", GECCO companion, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skmethods import EICSymbolicRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(1, 5, (100, 2))
    >>> y = X[:, 0] * np.exp(-X[:, 1])
    >>> model = EICSymbolicRegressor(
    ...     n_generations=20, population_size=200, random_state=0
    ... ).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _parameter_constraints = {
        "mode": [StrOptions(set(_OBJECTIVES))],
        "penalty_weight": [Interval(Real, 0, None, closed="left")],
        "delta_bic": [Interval(Real, 0, None, closed="left")],
        "aggregate": [
            StrOptions({"mean", "logmean", "median"}),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "n_generations": [Interval(Integral, 1, None, closed="left")],
        "population_size": [Interval(Integral, 2, None, closed="left")],
        "max_length": [Interval(Integral, 3, None, closed="left")],
        "allowed_symbols": [str, None],
        "optimizer_iterations": [Interval(Integral, 0, None, closed="left")],
        "max_time": [Interval(Integral, 1, None, closed="left"), None],
        "n_rows": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        mode="rerank",
        penalty_weight=5.0,
        delta_bic=6.0,
        aggregate="logmean",
        n_generations=50,
        population_size=500,
        max_length=30,
        allowed_symbols=None,
        optimizer_iterations=5,
        max_time=None,
        n_rows=64,
        n_jobs=None,
        random_state=None,
    ):
        self.mode = mode
        self.penalty_weight = penalty_weight
        self.delta_bic = delta_bic
        self.aggregate = aggregate
        self.n_generations = n_generations
        self.population_size = population_size
        self.max_length = max_length
        self.allowed_symbols = allowed_symbols
        self.optimizer_iterations = optimizer_iterations
        self.max_time = max_time
        self.n_rows = n_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_context()
    def fit(self, X, y):
        """Search for formulas and choose one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        self : object
        """
        n_threads = effective_n_jobs(self.n_jobs)
        X, y = check_table(self, X, y, reset=True, dtype=np.float64, y_numeric=True)
        y = numbers(y)
        progress = FitProgress(self, 0, X, y, lambda: vars(self))
        rng = check_random_state(self.random_state)
        rows = pick_rows(len(X), self.n_rows, rng)
        factors = [power_of_two(column) for column in X.T]
        guide = _Guide(
            X[rows] * factors,
            self.aggregate,
            self.penalty_weight if self.mode == "penalty" else None,
        )
        engine = _engine(
            guide,
            objectives=_OBJECTIVES[self.mode],
            allowed_symbols=self._symbols(),
            population_size=self.population_size,
            generations=self.n_generations,
            max_evaluations=2**62,
            max_length=self.max_length,
            optimizer_iterations=self.optimizer_iterations,
            max_time=self.max_time,
            n_threads=n_threads if self.mode == "rerank" else 1,
            random_state=rng.randint(2**31 - 1),
        )
        engine.fit(X * factors, y * power_of_two(y))
        if guide.error is not None:
            raise guide.error
        self._select(
            self._candidates(engine, X, y, factors),
            X,
            y,
            np.ones(len(X)),
            delta_bic=self.delta_bic,
            aggregate=self.aggregate,
            rows=rows,
        )
        self.n_generations_ = engine.stats_["generations"]
        self.n_evaluations_ = engine.stats_["residual_evaluations"]
        progress.close()
        return self

    def _symbols(self):
        known = sorted({"constant", "variable", *FUNCTIONS})
        symbols = _SYMBOLS if self.allowed_symbols is None else self.allowed_symbols
        symbols = [symbol.strip() for symbol in symbols.split(",")]
        unknown = [symbol for symbol in symbols if symbol not in known]
        functions = set(symbols) - {"constant", "variable"}
        if unknown or "variable" not in symbols or not functions:
            raise ValueError(
                "allowed_symbols must be names of operon's functions separated by "
                "commas, at least one, with 'variable' among them, e.g. "
                f"'add,mul,constant,variable'; got {self.allowed_symbols!r}."
            )
        return ",".join(symbols)

    def _candidates(self, engine, X, y, factors):
        """The mean of y, and what operon found with scale and offset fitted again."""
        columns = operon_columns(engine)
        trees = [entry["tree"] for entry in engine.pareto_front_]
        tapes = [Tape.from_postfix([("const", float(y.mean()))])]
        for tree in trees:
            tape = operon_tape(tree, columns, factors)
            found = None if tape is None else core(tape)
            if found is not None:
                tapes += scaled(*found, X, y)
        return list(dict.fromkeys(tapes))
