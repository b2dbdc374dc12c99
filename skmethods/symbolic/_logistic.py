"""Logistic loss of signomial scores: gradient, warm start and sparse minimisation.

One class has the score ``z_c = sum_k coef_ck * exp(exponents_ck @ L) + intercept_c``,
where L holds logarithms of the mapped inputs, centred. Arrays of terms are kept flat,
``(n_scores * n_terms, n_samples)``, so that scores and gradients are matrix products.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

#: Arguments of the exponential are limited to ``[-LIMIT, LIMIT]`` while fitting.
LIMIT = 30.0
#: No term of a fitted formula exceeds e to the power of this; floats end at e^709.
FORMULA_LIMIT = 600.0
#: Corrections that L-BFGS-B remembers.
_MEMORY = 20
#: A relative fall of the loss below this share of the tolerance also ends it: where
#: nothing but rounding is left. At 1e-3 one fit in four stopped on the way (measured).
_FALL = 1e-8


class Parameters(NamedTuple):
    """The numbers of C signomials with K terms in m inputs.

    Attributes
    ----------
    exponents : ndarray of shape (C, K, m)
    coef : ndarray of shape (C, K)
    intercept : ndarray of shape (C,)
    """

    exponents: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


class Solution(NamedTuple):
    """Where a minimisation ended."""

    parameters: Parameters
    loss: float
    n_iter: int
    converged: bool


class SignomialLoss:
    """Mean cross-entropy of signomial scores with a ridge on the coefficients.

    With two classes there is one score, that of the second class, and a sigmoid;
    otherwise one score for each class and a softmax.

    Parameters
    ----------
    L : ndarray of shape (n_samples, n_features)
        Centred logarithms.
    codes : ndarray of int of shape (n_samples,)
        The class of each row.
    weight : ndarray of shape (n_samples,)
        Positive; only their ratios matter.
    n_classes : int
    l2 : float
        ``l2 / 2`` times the sum of the squared coefficients is added.
    """

    def __init__(self, L, codes, weight, n_classes, l2):
        self.L = np.ascontiguousarray(L)
        self._columns = np.ascontiguousarray(L.T)
        self.weight = weight / weight.sum()
        self.n_scores = 1 if n_classes == 2 else n_classes
        self.l2 = l2
        self.codes = codes
        self.n_classes = n_classes
        self._rows = np.arange(len(codes))
        self._is_second = codes.astype(float)

    def of_scores(self, z):
        """Cross-entropy and its derivative; z has shape (n_scores, n_samples)."""
        if self.n_scores == 1:
            size = np.exp(-np.abs(z[0]))
            each = np.maximum(z[0], 0) - self._is_second * z[0] + np.log1p(size)
            residual = expit(z[0]) - self._is_second
            return self.weight @ each, (residual * self.weight)[None]
        z = z - z.max(axis=0)
        odds = np.exp(z)
        total = odds.sum(axis=0)
        each = np.log(total) - z[self.codes, self._rows]
        odds /= total
        odds[self.codes, self._rows] -= 1
        return self.weight @ each, odds * self.weight

    def __call__(self, parameters, limit=LIMIT):
        """The loss and its gradient, itself ``Parameters``."""
        exponents, coef, intercept = parameters
        C, K, m = exponents.shape
        argument = exponents.reshape(C * K, m) @ self._columns
        inside = np.abs(argument) <= limit
        limited = not inside.all()
        if limited:
            np.clip(argument, -limit, limit, out=argument)
        power = np.exp(argument, out=argument)
        terms = power * coef.reshape(-1, 1)
        z = terms.reshape(C, K, -1).sum(axis=1) + intercept[:, None]
        loss, residual = self.of_scores(z)
        spread = np.repeat(residual, K, axis=0) if K > 1 else residual
        power *= spread
        terms *= spread
        if limited:
            terms *= inside
        gradient = Parameters(
            (terms @ self.L).reshape(C, K, m),
            power.sum(axis=1).reshape(C, K) + self.l2 * coef,
            residual.sum(axis=1),
        )
        return float(loss + 0.5 * self.l2 * (coef**2).sum()), gradient


def linear_start(loss, ridge=1e-3, max_iter=100):
    """Logistic regression on L, the scores being ``L @ w.T + b``.

    Parameters
    ----------
    loss : SignomialLoss
        Its rows, weights and classes; not its `l2`.
    ridge : float, default=1e-3
        ``ridge / 2`` times the sum of squared slopes is added.
    max_iter : int, default=100

    Returns
    -------
    slopes : ndarray of shape (n_scores, n_features)
    intercept : ndarray of shape (n_scores,)
    """
    C, m = loss.n_scores, loss.L.shape[1]

    def objective(v):
        W = v.reshape(C, m + 1)
        z = W[:, :m] @ loss._columns + W[:, m:]
        value, residual = loss.of_scores(z)
        slope = residual @ loss.L + ridge * W[:, :m]
        gradient = np.concatenate([slope, residual.sum(axis=1, keepdims=True)], axis=1)
        return value + 0.5 * ridge * (W[:, :m] ** 2).sum(), gradient.ravel()

    options = {"maxiter": max_iter, "maxcor": _MEMORY, "gtol": 1e-6, "ftol": 1e-12}
    found = minimize(
        objective, np.zeros(C * (m + 1)), jac=True, method="L-BFGS-B", options=options
    )
    W = found.x.reshape(C, m + 1)
    return W[:, :m].copy(), W[:, m].copy()


def signomials_like(slopes, intercept, L, n_terms):
    """Signomials whose scores are nearly ``L @ slopes.T + intercept``.

    A pair of terms gives ``2 s sinh(L w / 2s)``, which is ``L w`` up to third order; a
    single term gives ``s exp(L w / s) - s``, up to second order. The pairs (and, for
    an odd number of terms, the single one) share the slopes, at different s: equal
    pairs would have equal gradients and stay equal.

    Parameters
    ----------
    slopes : ndarray of shape (n_scores, n_features)
    intercept : ndarray of shape (n_scores,)
    L : ndarray of shape (n_samples, n_features)
        Its rows set s, such that no argument leaves [-2, 2].
    n_terms : int

    Returns
    -------
    Parameters
    """
    C, m = slopes.shape
    exponents, coef = np.zeros((C, n_terms, m)), np.zeros((C, n_terms))
    intercept = intercept.copy()
    n_shares = (n_terms + 1) // 2
    largest = np.abs(L @ slopes.T).max(axis=0, initial=0) / n_shares
    for k in range(n_shares):
        s = np.maximum(1.0, largest / 4) * (1 + k / 2)
        half = slopes / (2 * n_shares * s[:, None])
        first, second = 2 * k, 2 * k + 1
        if second < n_terms:
            exponents[:, first], exponents[:, second] = half, -half
            coef[:, first], coef[:, second] = s, -s
        else:
            exponents[:, first] = half
            coef[:, first] = 2 * s
            intercept -= 2 * s
    return Parameters(exponents, coef, intercept)


def random_start(shape, rng):
    """Sparse normal exponents and normal coefficients.

    Parameters
    ----------
    shape : (int, int, int)
        Scores, terms, features.
    rng : numpy.random.RandomState

    Returns
    -------
    Parameters
    """
    C, K, _ = shape
    kept = rng.uniform(size=shape) < 0.3
    return Parameters(
        np.where(kept, rng.standard_normal(shape), 0.0),
        rng.standard_normal((C, K)),
        np.zeros(C),
    )


def constant_scores(loss, n_terms, fit_intercept=True):
    """The best model without exponents: the shares of the classes.

    Without an intercept the scores are zero, which is best up to the coefficients.

    Parameters
    ----------
    loss : SignomialLoss
    n_terms : int
    fit_intercept : bool, default=True

    Returns
    -------
    Parameters
    """
    C, m = loss.n_scores, loss.L.shape[1]
    intercept = np.zeros(C)
    if fit_intercept:
        share = np.log(np.bincount(loss.codes, loss.weight, minlength=loss.n_classes))
        intercept = share[1:] - share[0] if C == 1 else share - share.mean()
    return Parameters(np.zeros((C, n_terms, m)), np.zeros((C, n_terms)), intercept)


def penalised(loss, parameters, l1):
    """The loss plus `l1` times the sum of the absolute exponents.

    Of the formula itself: terms are limited only where they leave the range of floats.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        value = loss(parameters, limit=FORMULA_LIMIT)[0]
    if np.isnan(value):
        return np.inf
    size = float(np.abs(parameters.exponents).sum())
    return value + float(l1) * size if size else value


def minimise(
    loss,
    start,
    *,
    l1,
    fit_intercept=True,
    support=None,
    max_iter=300,
    tol=1e-6,
    callback=None,
):
    """Minimise ``loss + l1 * sum |exponents|`` by L-BFGS-B, with exact zeros.

    Each exponent is the difference of two variables that are at least zero, of which
    at the minimum one is zero: the penalty is their sum, which is smooth, and an
    exponent vanishes exactly when both lie on their bound.

    Parameters
    ----------
    loss : SignomialLoss
    start : Parameters
    l1 : float
    fit_intercept : bool, default=True
        False keeps the intercepts at zero.
    support : ndarray of bool of shape (C, K, m), default=None
        The exponents that may differ from zero; None for all.
    max_iter : int, default=300
    tol : float, default=1e-6
        Stop when no entry of the projected gradient is larger.
    callback : callable, default=None
        ``callback(parameters, loss)`` after each iteration; True stops.

    Returns
    -------
    Solution
    """
    shape = start.exponents.shape
    support = np.ones(shape, dtype=bool) if support is None else support
    C, K, _ = shape
    p, n_coef = int(support.sum()), C * K
    n_split = 2 * p if l1 > 0 else p  # without a penalty nothing need be split
    everything = p == support.size

    def unpack(v):
        free = v[:p] - v[p:n_split] if l1 > 0 else v[:p]
        if everything:
            exponents = free.reshape(shape)
        else:
            exponents = np.zeros(shape)
            exponents[support] = free
        coef = v[n_split : n_split + n_coef].reshape(C, K)
        return Parameters(
            exponents, coef, v[n_split + n_coef :] if fit_intercept else np.zeros(C)
        )

    def objective(v):
        value, gradient = loss(unpack(v))
        slope = gradient.exponents
        slope = slope.ravel() if everything else slope[support]
        parts = [slope]
        if l1 > 0:
            value += l1 * v[:n_split].sum()
            parts = [slope + l1, l1 - slope]
        parts.append(gradient.coef.ravel())
        if fit_intercept:
            parts.append(gradient.intercept)
        return value, np.concatenate(parts)

    free = start.exponents[support]
    parts = [np.maximum(free, 0), np.maximum(-free, 0)] if l1 > 0 else [free]
    parts += (
        [start.coef.ravel(), start.intercept] if fit_intercept else [start.coef.ravel()]
    )
    v = np.concatenate(parts)
    bounds = None
    if l1 > 0:
        low = np.full(len(v), -np.inf)
        low[:n_split] = 0
        bounds = np.stack([low, np.full(len(v), np.inf)], axis=1)

    def report(intermediate_result):
        if callback(unpack(intermediate_result.x), float(intermediate_result.fun)):
            raise StopIteration

    def is_minimum(found):
        """No entry of the projected gradient exceeds `tol`."""
        slope = np.array(found.jac)
        if bounds is not None:
            slope[:n_split] = np.minimum(found.x[:n_split], slope[:n_split])
        return np.abs(slope).max(initial=0) <= tol

    n_iter, lowest, options = 0, np.inf, {"maxcor": _MEMORY, "gtol": tol}
    options |= {"ftol": _FALL * tol, "maxfun": 20 * max_iter + 100}
    while True:
        with np.errstate(over="ignore", invalid="ignore"):  # of huge penalties
            found = minimize(
                objective,
                v,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=None if callback is None else report,
                options=options | {"maxiter": max_iter - n_iter},
            )
        n_iter += int(found.nit)
        # A tiny step can end it far from a minimum: then it starts there once more,
        # without its memory, as long as that helps.
        helped = lowest == np.inf or found.fun < lowest - 1e-10 * abs(lowest)
        if found.status != 0 and found.status != 2:  # out of iterations, or stopped
            break
        if not helped or n_iter >= max_iter or is_minimum(found):
            break
        v, lowest = found.x, found.fun
    parameters = Parameters(*(np.array(a) for a in unpack(found.x)))
    # An infinite penalty can leave no number at all: nothing was found then.
    if not all(np.isfinite(a).all() for a in parameters):
        parameters = start
    return Solution(
        parameters,
        penalised(loss, parameters, l1),
        n_iter,
        int(found.status) != 1,
    )


def constant_terms_joined(parameters):
    """Terms without exponents become part of the intercept, with coefficient 0."""
    exponents, coef, intercept = parameters
    constant = ~exponents.any(axis=2)
    joined = intercept + np.where(constant, coef, 0.0).sum(axis=1)
    return Parameters(exponents, np.where(constant, 0.0, coef), joined)
