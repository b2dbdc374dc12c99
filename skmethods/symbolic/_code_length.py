"""What a law costs in a description: its numbers, its terms, what it leaves."""

import numpy as np

#: Twice the logarithm of the odds, 55 to 1, that an exponent is a simple fraction.
#: Without it, noise makes one exponent of a hundred look real at every sample size.
REAL_PRIOR = 8.0
#: Paid for every exponent, zeros too, such that the code of one is a code: twice the
#: logarithm of the sum of ``exp(-cost)`` over the fractions up to 12. It keeps a search
#: over millions of possible terms from finding one by chance.
EACH_EXPONENT = 2 * np.log(3.92)


def fraction_cost(exponents):
    """Cost of exponents as fractions: 0.5 for 0, ``1 + log p + 1.5 log q`` for p/q.

    Parameters
    ----------
    exponents : ndarray

    Returns
    -------
    ndarray of the same shape
        Infinite where the exponent has no denominator up to 3.
    """
    exponents = np.abs(np.asarray(exponents, dtype=float))
    cost = np.full(exponents.shape, np.inf)
    for q in (3, 2, 1):
        p = np.round(exponents * q)
        fits = (np.abs(exponents * q - p) < 1e-9) & (p > 0)
        cost[fits] = 1 + np.log(p[fits]) + 1.5 * np.log(q)
    cost[exponents == 0] = 0.5
    return cost


def description_length(rss, n, n_terms, exponent_cost, floor):
    """``n log(RSS / n) + log n * n_terms + exponent_cost + 2 log2(n_terms)``.

    Parameters
    ----------
    rss : float or ndarray
    n : float
        Number of rows, or the sum of their weights.
    n_terms : int
    exponent_cost : float or ndarray
        Of all exponents: twice ``fraction_cost``, or ``real_cost``.
    floor : float
        What `rss` is at least.

    Returns
    -------
    float or ndarray
    """
    fit = n * np.log(np.maximum(rss, floor) / n)
    return fit + np.log(max(n, 2.0)) * n_terms + exponent_cost + 2 * np.log2(n_terms)


def real_cost(n, prior=REAL_PRIOR):
    """Cost of an exponent that is a real number estimated from n rows.

    ``log n + 1`` as for a coefficient, and what it takes to believe that an exponent
    is no simple fraction.
    """
    return np.log(max(n, 2.0)) + 1.0 + prior
