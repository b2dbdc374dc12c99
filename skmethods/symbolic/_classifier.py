"""ECSEL: a classifier whose scores are signomials, explained in closed form."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._pickle import VersionedPickleMixin
from .._torch.threads import blas_limit
from .._validation import (
    FitProgress,
    Interval,
    StrOptions,
    check_is_fitted,
    check_table,
    check_weights,
    fit_context,
)
from . import _explain
from ._explained import ExplainedScores
from ._logistic import (
    FORMULA_LIMIT,
    SignomialLoss,
    Solution,
    constant_scores,
    constant_terms_joined,
    linear_start,
    minimise,
    penalised,
    random_start,
    signomials_like,
)
from ._rows import merge_rows
from ._signomial import PositiveMap, check_feature_range

#: Coefficients in terms of the mapped columns lie within e to the power of this.
_LARGEST_COEF = 700.0
#: Logarithm of the smallest probability.
_LOWEST = -700.0


def _log_size(coef):
    with np.errstate(divide="ignore"):
        return np.log(np.abs(coef))


class ECSELClassifier(
    VersionedPickleMixin,
    ExplainedScores,
    CallbackSupportMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """Classifier with one short formula per class: a sum of power laws.

    Each class has the score ``z(u) = sum_k coef_k * prod_j u_j ** exponent_kj +
    intercept``, a signomial of the columns mapped to a positive interval; the scores
    go through a softmax, with two classes one score through a sigmoid. An L1 penalty
    makes most exponents exactly zero, so that the formula can be read, and every
    explanation below is exact algebra on it, not a sample of the model.

    Suits tables of up to some hundred columns whose classes differ by products and
    ratios. Images of digits are better served by other models: see Notes.

    Parameters
    ----------
    n_terms : int, default=2
        Power laws per score. Two terms can bend a score either way; more make the
        formula longer and rarely better.
    l1 : float, default=0.01
        Weight of the sum of absolute exponents beside the mean cross-entropy; the
        larger, the fewer exponents. Try 0.001 to 0.03 with the default
        `feature_range`; exponents grow as its ``log(high / low)`` shrinks, so `l1` must
        shrink with it. Beyond some value no exponent is left (``sparsity_`` is 1), and
        the probabilities are the shares of the classes; there is no warning of it.
        With 0 the model overfits: see Notes.
    l2 : float, default=1e-4
        ``l2 / 2`` times the sum of squared coefficients (of the terms divided by their
        geometric mean) is added too: classes that can be separated would drive the
        coefficients to infinity.
    feature_range : (float, float), default=(1, 10)
        The interval that each column is mapped to, ``0 < low < high``. The ratio
        ``high / low`` sets the curvature: near 1 the logarithms are linear in the
        columns (see `l1`).
    clip : bool, default=True
        What to do with rows far outside the training range, read when predicting.
        True limits the mapped value to ``[low / 10, 10 * high]``, and everything below
        explains the row at that limit; False takes it as it is and raises a ValueError
        where it is not positive, so has no logarithm.
    fit_intercept : bool, default=True
        Whether each score has an intercept, which is not penalised.
    init : {"logistic", "random"}, default="logistic"
        "logistic" starts at signomials that are nearly the logistic regression on the
        logarithms; "random" at sparse random ones, which often ends in a worse
        minimum.
    n_init : int, default=1
        Number of starts, those after the first random. The lowest penalised loss wins.
    solver : {"lbfgs", "adam"}, default="lbfgs"
        "lbfgs" is L-BFGS-B on all rows. "adam" is proximal Adam on mini-batches in
        torch, ended by L-BFGS-B on at most 20 000 rows; it is there for accelerators.
        On a CPU take "lbfgs".
    max_iter : int, default=1000
        Iterations of one start; epochs with "adam".
    tol : float, default=1e-6
        L-BFGS-B stops when no entry of the projected gradient exceeds it. For "adam"
        a thousand times it is also the relative fall of an epoch's loss that counts as
        progress.
    batch_size : int, default=1024
        Rows per step of "adam".
    learning_rate : float, default=0.05
        Step of "adam", halved when an epoch brings no progress, an eighth after one
        that diverged. If no epoch ends below the start, the start is kept with a
        ConvergenceWarning.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`.
    refit_support : bool, default=False
        Optimise once more without the L1 penalty, over the exponents that it has left.
        For reading sizes of exponents; probabilities get worse: see Notes.
    device : str, default="cpu"
        Where "adam" computes: "cpu", "cuda", "mps" or "auto". The fitted estimator
        needs no device.
    random_state : int, RandomState instance or None, default=None
        Random starts and the order of the mini-batches. With None and neither of them
        numpy's global generator is not drawn from.
    verbose : bool, default=False
        Print the loss after each iteration.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    exponents_ : ndarray of shape (n_scores, n_terms, n_features)
        ``n_scores`` is 1 with two classes (the score of ``classes_[1]``), else the
        number of classes. Those of columns that are constant in training are 0.
    coef_ : ndarray of shape (n_scores, n_terms)
        A term that lost all its exponents is part of the intercept and has 0 here,
        unless ``fit_intercept=False``.
    intercept_ : ndarray of shape (n_scores,)
    importances_ : ndarray of shape (n_scores, n_features)
        Mean over the training rows (with their weights, those of the classes
        included) of the absolute log-gradient: by how much the score changes per 1 %
        of the mapped feature, times 100.
    baseline_ : ndarray of shape (n_features,)
        The (weighted) geometric mean of the mapped training rows, in the units of X;
        the default of ``attribute``.
    scale_min_, scale_range_ : ndarray of shape (n_features,)
        Smallest value and range of each training column, of which
        ``u = low + (high - low) * (x - scale_min_) / scale_range_``. The range of a
        constant column is given as 1.
    sparsity_ : float
        Number of exponents that are exactly zero over the number of all exponents.
    loss_ : float
        Mean weighted cross-entropy of the training rows plus both penalties; after
        `refit_support` without the L1 penalty.
    n_iter_ : int
        Iterations of all starts together; epochs with "adam". Those that end "adam",
        and those of `refit_support`, are not counted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X has string column names.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The linear score; the peer.
    sklearn.ensemble.HistGradientBoostingClassifier : Trees, when no formula is needed.
    sklearn.model_selection.TunedThresholdClassifierCV : Choose the threshold of two
        classes for a metric, e.g. ``TunedThresholdClassifierCV(ECSELClassifier(),
        scoring="balanced_accuracy")``.

    Notes
    -----
    The scores, the map to [1, 10], the L1 penalty on the exponents alone and the
    elasticity, boundary and counterfactual identities are the paper's. Ours: the split
    of exponents into positive and negative parts, which gives exact zeros (the paper
    uses Adam and hides small exponents); the start at a logistic regression; the ridge
    and the free intercept; the exact attribution along a path; the counterfactual that
    finds all ties of sums of exponentials and so the smallest change.

    Since only the exponents bear `l1`, a term can take small exponents and a large
    coefficient instead, and is then nearly linear in the logarithms; `l2` limits that.
    The loss is not convex: see `n_init`. The model without exponents is always a
    candidate, so that no fit has a larger loss than that.

    Equal rows of a class are merged first: a weight of k and k copies of a row, in any
    order, give the same model to the last bit.

    The penalty is what keeps probabilities honest: `refit_support` and ``l1=0``
    overfit. The log loss of five folds, default and refitted: breast cancer
    0.076 and 0.784, wine 0.088 and 0.957, iris 0.097 and 0.297 (measured here with
    ``cross_val_score(..., cv=5, scoring="neg_log_loss")``).

    No term exceeds e^600 in size, about 1e260: a term at this limit is constant, for
    ``decision_function`` as for every explanation but ``counterfactual``, which goes
    on with the formula. A fit in which a training row reaches it, or ``coef_`` the
    end of floats, ends with a ConvergenceWarning; that takes exponents of hundreds.
    While fitting, terms are limited to e^30 times their coefficient at the centre;
    ``loss_`` is that of the formula itself.

    Explanations are in terms of the mapped columns u, of which 1 % is more for a row
    high in the range than for one low in it. The model is worse than logistic
    regression on the pixels of handwritten digits, by one to two points of accuracy.

    References
    ----------
    Lumadjeng, Birbil and Acar, "ECSEL: Explainable Classification via Signomial
    Equation Learning", ICML 2026, arXiv:2601.21789.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmethods import ECSELClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ECSELClassifier().fit(X, y)
    >>> round(clf.score(X, y), 2)
    0.98
    >>> import numpy as np
    >>> print(np.count_nonzero(clf.exponents_), "of", clf.exponents_.size)
    6 of 24
    >>> factor, value = clf.counterfactual(X[:1], feature=2)
    >>> x = X[:1].copy()
    >>> x[0, 2] = value[0]  # the petal length at which this flower is of another class
    >>> clf.predict(X[:1]), clf.predict(x)
    (array([0]), array([1]))
    """

    _parameter_constraints = {
        "n_terms": [Interval(Integral, 1, None, closed="left")],
        "l1": [Interval(Real, 0, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left")],
        "feature_range": [tuple, list],
        "clip": ["boolean"],
        "fit_intercept": ["boolean"],
        "init": [StrOptions({"logistic", "random"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"lbfgs", "adam"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "refit_support": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        n_terms=2,
        l1=0.01,
        l2=1e-4,
        feature_range=(1, 10),
        clip=True,
        fit_intercept=True,
        init="logistic",
        n_init=1,
        solver="lbfgs",
        max_iter=1000,
        tol=1e-6,
        batch_size=1024,
        learning_rate=0.05,
        class_weight=None,
        refit_support=False,
        device="cpu",
        random_state=None,
        verbose=False,
    ):
        self.n_terms = n_terms
        self.l1 = l1
        self.l2 = l2
        self.feature_range = feature_range
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.init = init
        self.n_init = n_init
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.refit_support = refit_support
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting -----------------------------------------------------------------------

    @fit_context()
    def fit(self, X, y, sample_weight=None):
        """Learn the exponents, coefficients and intercepts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            At least two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative; a row of weight k counts as k rows, one of weight 0 as absent.

        Returns
        -------
        self : object
        """
        device = None
        if self.device != "cpu" or self.solver == "adam":
            from .._torch.device import resolve_device

            device = resolve_device(self.device)
        feature_range = check_feature_range(self.feature_range)
        X, y = check_table(self, X, y, reset=True, dtype=np.float64)
        check_classification_targets(y)
        weight = check_weights(sample_weight, X)
        if sample_weight is not None:
            keep = weight > 0
            X, y, weight = X[keep], y[keep], weight[keep]
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds only one class, {self.classes_[0]!r}; a classifier needs at "
                "least two (among the rows of positive weight)."
            )
        seen = X, y  # by callbacks
        X, codes, weight, first = merge_rows(X, codes, weight)
        weight = self._class_weight(y[first], codes, weight)
        self._map = PositiveMap.fit(X, feature_range)
        if not np.isfinite(self._map.span).all():
            column = int(np.argmin(np.isfinite(self._map.span)))
            raise ValueError(
                f"Column {column} of X has a range beyond the largest float. Rescale "
                "it."
            )
        self.scale_min_, self.scale_range_ = self._map.minimum, self._map.span
        L = np.log(self._map(X))
        self._log_mean = np.average(L, axis=0, weights=weight)
        L -= self._log_mean
        self._live = np.ptp(L, axis=0) > 0
        low = self._map.low
        inverse = (np.exp(self._log_mean) - low) / self._map.slope
        self.baseline_ = self._map.minimum + np.where(self._live, inverse, 0.0)

        live = np.ascontiguousarray(L[:, self._live])
        loss = SignomialLoss(live, codes, weight, len(self.classes_), self.l2)
        work = live.size * loss.n_scores * int(self.n_terms)
        with blas_limit(work), np.errstate(under="ignore"):  # of probabilities
            solution = self._solve(loss, *seen, device)
        vars(self).update(self._fitted(solution.parameters))
        self.loss_, self.n_iter_ = solution.loss, solution.n_iter
        self.sparsity_ = float((self.exponents_ == 0).mean())
        self._warn_of_the_limit(L)
        gradient = _explain.log_gradient(self._moving_terms(L), self.exponents_)
        self.importances_ = np.average(np.abs(gradient), axis=0, weights=weight)
        self._progress.close()
        del self._progress
        return self

    def _class_weight(self, y, codes, weight):
        if self.class_weight is None:
            return weight
        each = compute_class_weight(
            self.class_weight, classes=self.classes_, y=y, sample_weight=weight
        )
        if not (np.isfinite(each).all() and (each > 0).all()):
            raise ValueError(
                "class_weight must hold finite, positive numbers; got "
                f"{self.class_weight!r}. Leave out the rows of a class that shall not "
                "count."
            )
        return weight * each[codes]

    def _warn_of_the_limit(self, L):
        """Say so when the formula does not fit into floats."""
        reached = (self._arguments(L) > self._reach()).any()
        size = _log_size(self._centred_coef) - self.exponents_ @ self._log_mean
        written = np.abs(size[self._centred_coef != 0]) <= _LARGEST_COEF
        if reached or not written.all():
            warnings.warn(
                "The formula leaves the range of floats on the training rows: a term "
                "exceeds e^600, to which it is limited, or its coefficient e^700. The "
                "text of the formula may overflow. Use a larger l1, or a "
                "feature_range with a smaller ratio.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _random(self):
        """The generator of the starts and batches.

        numpy's global one is drawn from only if there are any.
        """
        plain = self.solver == "lbfgs" and self.init == "logistic" and self.n_init == 1
        if plain and self.random_state is None:
            return None
        return np.random.RandomState(
            check_random_state(self.random_state).randint(2**31 - 1)
        )

    def _solve(self, loss, X, y, device):
        """The best of all starts, refitted if asked for."""
        rng = self._random()
        now = [None]  # what a callback sees
        self._progress = FitProgress(
            self,
            int(self.n_init) * int(self.max_iter),
            X,
            y,
            lambda: (
                self._fitted(now[0])
                | {
                    name: vars(self)[name]
                    for name in (
                        "classes_",
                        "_map",
                        "_log_mean",
                        "_live",
                        "n_features_in_",
                    )
                }
            ),
        )
        n_iter, stopped = 0, False

        def after_iteration(parameters, value):
            nonlocal n_iter, stopped
            self._progress.begin()
            n_iter, now[0] = n_iter + 1, parameters
            if self.verbose:
                print(f"iteration {n_iter}  loss {value:.6g}")
            stopped = bool(self._progress.end())
            return stopped

        best, converged = None, False
        for run in range(int(self.n_init)):
            start = self._start(loss, rng, first=run == 0)
            if self.solver == "adam":
                found = self._adam(loss, start, rng, device, after_iteration)
            else:
                found = minimise(
                    loss, start, callback=after_iteration, **self._how(self.l1)
                )
            if best is None or found.loss < best.loss:
                best, converged = found, found.converged
            if stopped:
                break
        # Where a penalty is so large that the line search fails.
        constant = constant_scores(loss, int(self.n_terms), self.fit_intercept)
        value = penalised(loss, constant, self.l1)
        if value < best.loss:
            best = Solution(constant, value, best.n_iter, True)
            converged = True
        if self.refit_support and self.l1 > 0 and not stopped:
            support = best.parameters.exponents != 0
            best = minimise(
                loss,
                best.parameters,
                support=support,
                **self._how(0.0),
            )
            converged = converged and best.converged
        if not converged and not stopped:
            warnings.warn(
                f"The optimisation stopped at max_iter={self.max_iter} before it "
                f"reached tol={self.tol}. The fitted model is usable; increase "
                "max_iter for a better one.",
                ConvergenceWarning,
                stacklevel=5,
            )
        parameters = best.parameters
        if self.fit_intercept:
            parameters = constant_terms_joined(parameters)
        now[0] = parameters
        l1 = 0.0 if self.refit_support else self.l1
        return Solution(parameters, penalised(loss, parameters, l1), n_iter, converged)

    def _how(self, l1):
        return {
            "l1": float(l1),
            "fit_intercept": self.fit_intercept,
            "max_iter": int(self.max_iter),
            "tol": self.tol,
        }

    def _start(self, loss, rng, first):
        shape = (loss.n_scores, int(self.n_terms), loss.L.shape[1])
        if not first or self.init == "random":
            return random_start(shape, rng)
        start = signomials_like(*linear_start(loss), loss.L, int(self.n_terms))
        if not self.fit_intercept:
            start = start._replace(intercept=np.zeros(loss.n_scores))
        return start

    def _adam(self, loss, start, rng, device, after_iteration):
        from .._torch.seed import Seeds
        from ._proximal import polish, proximal_adam

        found, n_iter, stopped, converged = proximal_adam(
            loss.L,
            loss.codes,
            loss.weight,
            start,
            l2=self.l2,
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            generator=Seeds(rng).torch,
            device=device,
            callback=after_iteration,
            **self._how(self.l1),
        )
        if not penalised(loss, found, self.l1) < penalised(loss, start, self.l1):
            found = start
            warnings.warn(
                "No epoch of solver='adam' ended with a lower loss than the start, "
                "which is kept. Change "
                f"learning_rate={self.learning_rate} or batch_size={self.batch_size}, "
                "or use solver='lbfgs'.",
                ConvergenceWarning,
                stacklevel=6,
            )
            converged = True  # one warning is enough
        if not stopped:
            found = polish(loss, found, rng=rng, **self._how(self.l1))
        return Solution(found, penalised(loss, found, self.l1), n_iter, converged)

    def _fitted(self, parameters):
        """The attributes that predicting needs, in the units of all columns."""
        C, K, _ = parameters.exponents.shape
        exponents = np.zeros((C, K, len(self._live)))
        exponents[:, :, self._live] = parameters.exponents
        # exponents @ log_mean, undone: coef_ is that of the mapped columns themselves.
        shift = exponents @ self._log_mean
        size = _log_size(parameters.coef) - shift
        limited = np.clip(size, -_LARGEST_COEF, _LARGEST_COEF)
        coef = np.sign(parameters.coef) * np.exp(limited)
        return {
            "exponents_": exponents,
            "coef_": coef,
            "intercept_": parameters.intercept.copy(),
            "_centred_coef": parameters.coef.copy(),
        }

    # -- predicting --------------------------------------------------------------------

    def _checked(self, X):
        check_is_fitted(self, "exponents_")
        return check_table(self, X, reset=False, dtype=np.float64)

    def _positive(self, X, name="X"):
        return self._map.positive(X, self.clip, name)

    def _logs(self, X):
        """Centred logarithms of the mapped rows."""
        return np.log(self._positive(self._checked(X))) - self._log_mean

    def _arguments(self, L):
        """Logarithms of the terms without their coefficients, (n, C, K)."""
        used = self.exponents_.any(axis=(0, 1))
        # einsum adds in the same order however many rows there are; @ does not.
        return np.einsum("nj,ckj->nck", L[:, used], self.exponents_[:, :, used])

    def _reach(self):
        """The argument at which a term is as large as it may be, (C, K)."""
        return FORMULA_LIMIT - np.maximum(_log_size(self._centred_coef), 0.0)

    def _terms(self, L):
        """Term values (n, C, K) at centred logarithms."""
        with np.errstate(under="ignore"):
            return self._centred_coef * np.exp(
                np.minimum(self._arguments(L), self._reach())
            )

    def _moving_terms(self, L):
        """As ``_terms``, with 0 for those at the limit, whose derivative is 0."""
        return np.where(self._arguments(L) > self._reach(), 0.0, self._terms(L))

    def _scores(self, X):
        """(n, C): one column with two classes."""
        return self._terms(self._logs(X)).sum(axis=2) + self.intercept_

    def decision_function(self, X):
        """The scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_classes)
            With two classes the log odds of ``classes_[1]``.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def _all_scores(self, X):
        """(n, n_classes): with two classes that of the first is zero."""
        return self._with_first(self._scores(X))

    def _with_first(self, values, axis=1):
        if len(self.classes_) > 2:
            return values
        return np.concatenate([np.zeros_like(values), values], axis=axis)

    def predict_proba(self, X):
        """Probabilities of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Logarithms of the probabilities, none below -700, where those would vanish.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes)
        """
        scores = self._all_scores(X)
        with np.errstate(under="ignore"):
            return np.maximum(log_softmax(scores, axis=1), _LOWEST)

    def predict(self, X):
        """The class of the largest score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = self._all_scores(X).argmax(axis=1)  # raises when not fitted
        return self.classes_[best]
