"""Closed-form explanations of signomials.

Everything is a function of term values (coefficient included), exponents and
logarithms of the mapped inputs. Shapes begin with the rows; the rest is that of one
signomial, terms ``(n, K)`` and exponents ``(K, m)``, or of C of them, ``(n, C, K)`` and
``(C, K, m)``.
"""

from typing import NamedTuple

import numpy as np

#: A scaling is moved this far beyond the tie, so that rounding does not undo it.
_BEYOND = 1e-9
#: Halvings of an interval between critical points.
_HALVINGS = 64
#: Exponentials end here: e^700 is about 1e304.
_LARGEST = 700.0


def log_gradient(terms, exponents):
    """dz / dlog u_j of each signomial.

    Parameters
    ----------
    terms : ndarray of shape (n, K) or (n, C, K)
    exponents : ndarray of shape (K, m) or (C, K, m)

    Returns
    -------
    ndarray of shape (n, m) or (n, C, m)
    """
    return np.einsum("n...k,...kj->n...j", terms, exponents)


def elasticity(gradient, score):
    """dlog|z| / dlog u_j: the log-gradient over the score.

    Parameters
    ----------
    gradient : ndarray of shape (n, m) or (n, C, m)
    score : ndarray of shape (n,) or (n, C)
        Intercept included.

    Returns
    -------
    ndarray like `gradient`
        Where the score is exactly 0 it does not exist, and the log-gradient is given.
    """
    return gradient / np.where(score == 0, 1.0, score)[..., None]


def probability_log_gradient(gradient, probability):
    """dp_c / dlog u_j of a softmax.

    Parameters
    ----------
    gradient : ndarray of shape (n, C, m)
        Log-gradients of the C scores.
    probability : ndarray of shape (n, C)

    Returns
    -------
    ndarray of shape (n, C, m)
    """
    mean = np.einsum("nc,ncj->nj", probability, gradient)
    return probability[..., None] * (gradient - mean[:, None])


def boundary_sensitivity(gradient, c, d):
    """d(z_c - z_d) / dlog u_j, from log-gradients of shape (n, C, m)."""
    return gradient[:, c] - gradient[:, d]


def log_mean(u, v, log_ratio):
    """The logarithmic mean ``(u - v) / log(u / v)`` of numbers of the same sign.

    Parameters
    ----------
    u, v : ndarray
    log_ratio : ndarray
        ``log(u / v)``, which the caller knows better than it can be computed.

    Returns
    -------
    ndarray
        u where the two are equal.
    """
    size = np.abs(log_ratio)
    larger = np.where(log_ratio > 0, u, v)
    return larger * np.where(size == 0, 1.0, -np.expm1(-size) / np.where(size, size, 1))


def path_attribution(terms, base_terms, exponents, step, argument=None, reach=np.inf):
    """How much each input contributes on the straight path in logarithms.

    The integral of the log-gradient from the baseline to the row, in closed form; over
    the inputs it sums to the difference of the two scores.

    Parameters
    ----------
    terms : ndarray of shape (n, K) or (n, C, K)
    base_terms : ndarray of shape (K,) or (C, K)
        At the baseline.
    exponents : ndarray of shape (K, m) or (C, K, m)
    step : ndarray of shape (n, m)
        Logarithms of the rows minus those of the baseline.
    argument : ndarray of shape (n, K) or (n, C, K), default=None
        Logarithms of the terms of the rows without coefficients; only for `reach`.
    reach : ndarray of shape (K,) or (C, K), default=inf
        Where the arguments of both `terms` and `base_terms` were limited. Beyond it a
        term is constant, and contributes nothing along the path.

    Returns
    -------
    ndarray of shape (n, m) or (n, C, m)
    """
    log_ratio = np.einsum("nj,...kj->n...k", step, exponents)
    if argument is None:
        means = log_mean(terms, base_terms[None], log_ratio)
    else:
        limited = np.minimum(argument, reach)
        limited = limited - np.minimum(argument - log_ratio, reach)
        within = np.where(log_ratio == 0, 1.0, log_ratio)
        share = np.where(log_ratio == 0, 1.0, limited / within)
        means = log_mean(terms, base_terms[None], limited) * share
    return np.einsum("n...k,...kj,nj->n...j", means, exponents, step)


def first_order_attribution(base_gradient, step):
    """Log-gradient at the baseline times the step in logarithms.

    Parameters
    ----------
    base_gradient : ndarray of shape (m,) or (C, m)
    step : ndarray of shape (n, m)

    Returns
    -------
    ndarray of shape (n, m) or (n, C, m)
    """
    return np.einsum("...j,nj->n...j", base_gradient, step)


# -- counterfactual scaling ------------------------------------------------------------


def _power(argument):
    """The exponential, kept within floats."""
    return np.exp(np.clip(argument, -_LARGEST, _LARGEST))


def exponential_roots(coef, rates, low, high):
    """All roots of ``sum_i coef_i exp(rates_i t)`` in an interval.

    Between two roots lies a root of the derivative, and the derivative of the sum
    divided by one of its exponentials has a term less (Rolle): so the roots of N terms
    are bracketed by those of N - 1. Two terms are solved in closed form.

    Parameters
    ----------
    coef : ndarray of shape (n, N)
    rates : ndarray of shape (N,)
        All different.
    low, high : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n, max(N - 1, 0))
        NaN in place of roots that do not exist.
    """
    n, N = coef.shape
    if N < 2:
        return np.empty((n, 0))
    if N == 2:
        with np.errstate(all="ignore"):
            size = np.log(np.abs(coef))
            root = (size[:, 1] - size[:, 0]) / (rates[0] - rates[1])
            root = np.where(coef[:, 0] * np.sign(coef[:, 1]) < 0, root, np.nan)
        inside = np.isfinite(root) & (root > low) & (root < high)
        return np.where(inside, root, np.nan)[:, None]
    rates = rates - rates[0]
    turns = exponential_roots(coef[:, 1:] * rates[1:], rates[1:], low, high)
    turns = np.sort(np.where(np.isnan(turns), high[:, None], turns), axis=1)
    left = np.concatenate([low[:, None], turns], axis=1)
    right = np.concatenate([turns, high[:, None]], axis=1)

    def value(t):
        total = np.zeros_like(t)
        for i, rate in enumerate(rates):
            total += coef[:, i, None] * _power(rate * t)
        return total

    sign_left = np.sign(value(left))
    crosses = sign_left * np.sign(value(right)) < 0
    row, column = np.nonzero(crosses)
    coef = coef[row]  # only what is left to be halved
    a, b, sign = left[row, column], right[row, column], sign_left[row, column]
    for _ in range(_HALVINGS):
        middle = 0.5 * (a + b)
        same = np.sign(np.einsum("ri,ri->r", coef, _power(middle[:, None] * rates)))
        a, b = np.where(same == sign, middle, a), np.where(same == sign, b, middle)
    roots = np.full(left.shape, np.nan)
    roots[row, column] = b
    return roots


def _ties(terms, rates, intercept, one, low, high):
    """Where class `one` has the score of another class; NaN-padded."""
    found = []
    for other in range(terms.shape[1]):
        if other == one:
            continue
        gap = (intercept[:, one] - intercept[:, other])[:, None]
        coef = np.concatenate([terms[:, one], -terms[:, other], gap], axis=1)
        different, which = np.unique(
            np.concatenate([rates[one], rates[other], [0.0]]), return_inverse=True
        )
        merged = coef @ np.eye(len(different))[which]
        found.append(exponential_roots(merged, different, low, high))
    return np.concatenate(found, axis=1)


class Counterfactual(NamedTuple):
    """What changes a decision: see ``ECSELClassifier.counterfactual``.

    Attributes
    ----------
    factor : ndarray of shape (n_samples,)
        What the feature is multiplied with, in mapped units; NaN if nothing does it.
    value : ndarray of shape (n_samples,)
        The new value of the feature in its own units.
    """

    factor: np.ndarray
    value: np.ndarray


def counterfactual_scaling(terms, rates, intercept, low, high, target=None):
    """The smallest change of ``log u_j`` that changes which score is largest.

    Parameters
    ----------
    terms : ndarray of shape (n, C, K)
        Two classes have two scores here too; that of the first may be zero.
    rates : ndarray of shape (C, K)
        Exponents of the input that is scaled.
    intercept : ndarray of shape (C,)
    low, high : ndarray of shape (n,)
        The change lies in ``[low, high]``, which contains 0.
    target : int, default=None
        The class that shall have the largest score; None for any other.

    Returns
    -------
    ndarray of shape (n,)
        The change, moved by about 1e-9 beyond the tie; 0 where the row is in the
        target class already; NaN where no change does it.
    """
    n, C, _ = terms.shape
    # Each row is divided by the largest size that a term of it can reach, so that
    # nothing overflows; neither ties nor winners change by that.
    growth = np.maximum(low[:, None, None] * rates, high[:, None, None] * rates)
    with np.errstate(divide="ignore"):
        log_terms, log_intercept = np.log(np.abs(terms)), np.log(np.abs(intercept))
    size = np.maximum((log_terms + growth).max(axis=(1, 2)), log_intercept.max())
    scale = np.where(size > _LARGEST / 2, size, 0.0)
    if scale.any():
        with np.errstate(under="ignore"):
            terms = np.sign(terms) * np.exp(log_terms - scale[:, None, None])
            intercept = np.sign(intercept) * np.exp(log_intercept - scale[:, None])
    else:
        intercept = np.broadcast_to(intercept, (n, C))

    def winner(rows, t):
        """The class of the largest score, for t of shape (rows, points)."""
        powers = _power(t[:, :, None, None] * rates)
        scores = np.einsum("nck,nrck->nrc", terms[rows], powers)
        return (scores + intercept[rows, None]).argmax(2)

    now = winner(np.arange(n), np.zeros((n, 1)))[:, 0]
    best = np.full(n, np.nan)
    for one in range(C) if target is None else [target]:
        rows = np.flatnonzero(now == one) if target is None else np.arange(n)
        if not len(rows):
            continue
        ties = _ties(terms[rows], rates, intercept[rows], one, low[rows], high[rows])
        for sign, limit in ((1, high[rows]), (-1, -low[rows])):
            distance = np.where(sign * ties > 0, sign * ties, limit[:, None])
            distance = np.sort(np.nan_to_num(distance, nan=np.inf), axis=1)
            distance = np.minimum(distance, limit[:, None])
            start = np.concatenate([np.zeros((len(rows), 1)), distance], axis=1)
            stop = np.concatenate([distance, limit[:, None]], axis=1)
            won = winner(rows, sign * 0.5 * (start + stop))
            good = (won == one) == (target is not None)
            good &= stop > start
            first = good.argmax(axis=1)
            each = np.arange(len(rows))
            a, b = start[each, first], stop[each, first]
            change = sign * np.minimum(a + _BEYOND, 0.5 * (a + b))
            nearer = good.any(axis=1) & ~(np.abs(best[rows]) <= np.abs(change))
            best[rows[nearer]] = change[nearer]
    return best if target is None else np.where(now == target, 0.0, best)
