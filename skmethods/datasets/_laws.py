"""Regression data whose law is known: random signomials and textbook physics."""

import difflib
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .._validation import Interval, StrOptions, validate_params
from ._laws_table import TABLE

#: Distance between neighbouring exponents of each kind.
_STEP = {"integer": 1.0, "half": 0.5, "real": None}
#: The smallest size of a real exponent that is not zero.
_SMALLEST_REAL = 0.25
#: Rows of exponents that are drawn per term before giving up.
_TRIES = 1000


class SignomialLaw(NamedTuple):
    """The signomial ``sum_k coef[k] * prod_j x_j ** exponents[k, j]``.

    Attributes
    ----------
    exponents : ndarray of shape (n_terms, n_features)
    coef : ndarray of shape (n_terms,)
    formula : str
        The same as plain infix text in ``x0``, ``x1``, ...
    """

    exponents: np.ndarray
    coef: np.ndarray
    formula: str


def signomial(X, exponents, coef):
    """The values of a signomial at rows of positive numbers."""
    return np.prod(X[:, None, :] ** exponents, axis=2) @ coef


def add_noise(y, noise, kind, rng):
    """`y` with noise of a relative size; see `make_signomial`."""
    if noise == 0:
        return y
    z = rng.standard_normal(len(y))
    if kind == "multiplicative":
        # The standard deviation of exp(s z) over its mean is sqrt(exp(s^2) - 1).
        return y * np.exp(np.sqrt(np.log1p(noise**2)) * z)
    return y + noise * np.sqrt(np.mean(y**2)) * z


def write(exponents, coef, names):
    """A signomial as text that gives the same floats when it is read."""

    def power(name, exponent):
        text = f"{exponent:g}" if exponent == int(exponent) else repr(float(exponent))
        return name if text == "1" else f"{name}**{text}"

    text = ""
    for c, row in zip(coef, exponents, strict=True):
        factors = [(n, e) for n, e in zip(names, row, strict=True) if e != 0]
        text += f" {'-' if c < 0 else '+'} {abs(float(c))!r}"
        text += "".join(f"*{power(n, e)}" for n, e in factors if e > 0)
        text += "".join(f"/{power(n, -e)}" for n, e in factors if e < 0)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _mean_square(exponents, low, high):
    """``E[prod_j x_j ** (2 p_j)]`` per term for x uniform in ``[low, high]``."""
    p = 2 * exponents + 1
    safe = np.where(p == 0, 1.0, p)
    moments = (high**safe - low**safe) / safe
    moments = np.where(p == 0, np.log(high / low), moments) / (high - low)
    return moments.prod(axis=1)


def _draw_exponents(n_features, n_terms, kind, max_exponent, sparsity, rng):
    """Distinct rows, each with a non-zero exponent."""
    step = _STEP[kind]
    rows = {}
    for _ in range(_TRIES * n_terms):
        present = rng.uniform(size=n_features) >= sparsity
        if not present.any():
            present[rng.randint(n_features)] = True
        if step is None:
            size = rng.uniform(_SMALLEST_REAL, max_exponent, n_features)
        else:
            size = step * rng.randint(1, int(max_exponent / step) + 1, n_features)
        row = np.where(present, rng.choice([-1.0, 1.0], n_features) * size, 0.0)
        rows[tuple(row)] = row
        if len(rows) == n_terms:
            return np.array(list(rows.values()))
    raise ValueError(
        f"No {n_terms} distinct terms were found in {_TRIES * n_terms} draws: there "
        f"are too few with n_features={n_features}, max_exponent={max_exponent} and "
        f"sparsity={sparsity}. Ask for fewer terms, or allow more exponents."
    )


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "n_terms": [Interval(Integral, 1, None, closed="left")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "noise_kind": [StrOptions({"additive", "multiplicative"})],
        "low": [Interval(Real, 0, None, closed="neither")],
        "high": [Interval(Real, 0, None, closed="neither")],
        "exponent_kind": [StrOptions({"integer", "half", "real"})],
        "max_exponent": [Interval(Real, 0, 20, closed="right")],
        "sparsity": [Interval(Real, 0, 1, closed="both")],
        "positive": ["boolean"],
        "return_law": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_signomial(
    n_samples=500,
    n_features=5,
    n_terms=2,
    *,
    noise=0.0,
    noise_kind="additive",
    low=1.0,
    high=5.0,
    exponent_kind="integer",
    max_exponent=2.0,
    sparsity=0.5,
    positive=False,
    return_law=False,
    random_state=None,
):
    """Generate a regression problem whose law is a random signomial.

    The target is a sum of power laws, ``sum_k coef_k * prod_j x_j ** exponent_kj``, of
    features that are uniform in an interval of positive numbers. No two terms have the
    same exponents, and each has a root mean square between about 0.5 and 2 over that
    interval, so that none hides behind the others. Coefficients have three significant
    digits.

    Parameters
    ----------
    n_samples : int, default=500
        Rows.
    n_features : int, default=5
        Columns. Some may occur in no term.
    n_terms : int, default=2
        Terms of the signomial.
    noise : float, default=0.0
        Size of the noise relative to the target, at least 0.
    noise_kind : {"additive", "multiplicative"}, default="additive"
        - additive: a normal variable with `noise` times the root mean square of the
          target as its standard deviation is added;
        - multiplicative: the target is multiplied by a log-normal variable whose median
          is 1 and whose standard deviation is `noise` times its mean. Signs are kept.
    low : float, default=1.0
        The features are uniform between `low`, which is positive, ...
    high : float, default=5.0
        ... and `high`.
    exponent_kind : {"integer", "half", "real"}, default="integer"
        The exponents that are not zero: integers, multiples of 1/2, or uniform in size
        between 0.25 and `max_exponent`. Signs are drawn evenly.
    max_exponent : float, default=2.0
        The largest size of an exponent, up to 20.
    sparsity : float, default=0.5
        Probability that a feature is absent from a term, in [0, 1]. Each term keeps at
        least one feature.
    positive : bool, default=False
        Whether all coefficients are positive, and the noiseless target with them.
        Otherwise the signs are drawn evenly.
    return_law : bool, default=False
        Return the law too.
    random_state : int, RandomState instance or None, default=None
        Governs the law, the rows and the noise. Laws and rows do not depend on `noise`.

    Returns
    -------
    X : ndarray of float64 of shape (n_samples, n_features)
    y : ndarray of float64 of shape (n_samples,)
    law : SignomialLaw
        A named tuple ``(exponents, coef, formula)``, with `return_law`: arrays of shape
        (n_terms, n_features) and (n_terms,), and the law as text in ``x0``, ``x1``, ...

    Raises
    ------
    ValueError
        When there are not as many distinct terms as asked for.

    See Also
    --------
    make_physical_law : Data from the laws of textbooks.
    sklearn.datasets.make_regression : Data from a linear law.

    Examples
    --------
    >>> from skmethods.datasets import make_signomial
    >>> X, y, law = make_signomial(100, 3, return_law=True, random_state=0)
    >>> X.shape
    (100, 3)
    >>> law.formula
    '0.0245*x0**2*x1**2/x2**2 - 0.323*x1**2/x2'
    """
    if low >= high:
        raise ValueError(f"low must be less than high, got low={low}, high={high}.")
    smallest = _STEP[exponent_kind] or _SMALLEST_REAL
    if max_exponent < smallest:
        raise ValueError(
            f"max_exponent={max_exponent} leaves no exponent: with "
            f"exponent_kind={exponent_kind!r} it must be at least {smallest}."
        )
    rng = check_random_state(random_state)
    exponents = _draw_exponents(
        n_features, n_terms, exponent_kind, max_exponent, sparsity, rng
    )
    size = np.exp(rng.uniform(np.log(0.5), np.log(2.0), n_terms))
    sign = rng.choice([-1.0, 1.0], n_terms)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        coef = size / np.sqrt(_mean_square(exponents, float(low), float(high)))
    if not (np.isfinite(coef) & (coef > 1e-300)).all():
        raise ValueError(
            f"Powers up to {max_exponent} of numbers in [{low}, {high}] overflow. "
            "Lower max_exponent, or bring low and high closer to 1."
        )
    coef = np.array([float(f"{c:.3g}") for c in coef])
    if not positive:
        coef = sign * coef
    X = rng.uniform(low, high, (n_samples, n_features))
    y = add_noise(signomial(X, exponents, coef), noise, noise_kind, rng)
    if not return_law:
        return X, y
    names = [f"x{j}" for j in range(n_features)]
    return X, y, SignomialLaw(exponents, coef, write(exponents, coef, names))


@validate_params(
    {"kind": [StrOptions({"all", "signomial", "other"})]},
    prefer_skip_nested_validation=True,
)
def list_physical_laws(kind="all"):
    """Names of the laws that `make_physical_law` knows.

    Parameters
    ----------
    kind : {"all", "signomial", "other"}, default="all"
        Only the laws that are sums of power laws, or only those that are not.

    Returns
    -------
    list of str
        Signomials first, each kind in alphabetical order.

    See Also
    --------
    make_physical_law : Data from one of them.

    Examples
    --------
    >>> from skmethods.datasets import list_physical_laws
    >>> list_physical_laws("signomial")[:3]
    ['bernoulli', 'coulomb_force', 'de_broglie']
    >>> list_physical_laws("other")[-1]
    'van_der_waals'
    """
    return [
        name
        for name, law in TABLE.items()
        if kind == "all" or (law.terms is not None) == (kind == "signomial")
    ]


@validate_params(
    {
        "name": [str],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "noise_kind": [StrOptions({"additive", "multiplicative"})],
        "return_X_y": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_physical_law(
    name,
    n_samples=500,
    *,
    noise=0.0,
    noise_kind="additive",
    return_X_y=False,
    random_state=None,
):
    """Generate measurements that follow a law of a physics textbook.

    Parameters
    ----------
    name : str
        One of `list_physical_laws`.
    n_samples : int, default=500
        Rows.
    noise : float, default=0.0
        Size of the noise relative to the target, at least 0.
    noise_kind : {"additive", "multiplicative"}, default="additive"
        - additive: a normal variable with `noise` times the root mean square of the
          target as its standard deviation is added;
        - multiplicative: the target is multiplied by a log-normal variable whose median
          is 1 and whose standard deviation is `noise` times its mean. Signs are kept.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    random_state : int, RandomState instance or None, default=None
        Governs the rows and the noise. The rows do not depend on `noise`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of float64 of shape (n_samples, n_features)
            Each variable uniform in its range, all of them positive.
        target : ndarray of float64 of shape (n_samples,)
            The law's values, with noise if asked for.
        feature_names : list of str
        target_name : str
        formula : str
            The law as plain infix text in the feature names.
        description : str
            What the law says, in one sentence.
        ranges : ndarray of shape (n_features, 2)
            Between which numbers each variable was drawn.
        exponents : ndarray of shape (n_terms, n_features), or None
        coef : ndarray of shape (n_terms,), or None
            The law is ``sum_k coef[k] * prod_j x_j ** exponents[k, j]`` if it is a
            signomial; None if it is not.
    (data, target) : tuple
        If `return_X_y`.

    Raises
    ------
    ValueError
        For an unknown name; the message has similar ones.

    See Also
    --------
    list_physical_laws : The names.
    make_signomial : Data from a random sum of power laws.

    Notes
    -----
    Quantities have no units: most ranges are [1, 5], and a constant of nature is either
    a variable or 1. The choice of laws and ranges is ours.

    Examples
    --------
    >>> from skmethods.datasets import make_physical_law
    >>> law = make_physical_law("kepler_third", 100, random_state=0)
    >>> law.target_name, law.formula
    ('period', '2*pi*sqrt(a**3/(G*M))')
    >>> law.feature_names
    ['a', 'G', 'M']
    >>> law.exponents.tolist()
    [[1.5, -0.5, -0.5]]
    """
    if name not in TABLE:
        near = difflib.get_close_matches(name.casefold(), TABLE, n=5, cutoff=0.5)
        hint = f"Did you mean {', '.join(map(repr, near))}? " if near else ""
        raise ValueError(
            f"name={name!r} is not a law that is known here. {hint}"
            "skmethods.datasets.list_physical_laws() gives all names."
        )
    law = TABLE[name]
    names = list(law.ranges)
    ranges = np.array(list(law.ranges.values()))
    rng = check_random_state(random_state)
    X = rng.uniform(*ranges.T, (n_samples, len(names)))
    y = add_noise(law.function(*X.T), noise, noise_kind, rng)
    if return_X_y:
        return X, y
    exponents = coef = None
    if law.terms is not None:
        coef = np.array([c for c, _ in law.terms])
        exponents = np.array([[p.get(n, 0.0) for n in names] for _, p in law.terms])
    return Bunch(
        data=X,
        target=y,
        feature_names=names,
        target_name=law.target,
        formula=law.formula,
        description=law.description,
        ranges=ranges,
        exponents=exponents,
        coef=coef,
    )
