"""Synthetic anomalies of four kinds around a Gaussian mixture whose truth is known."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._validation import Interval, StrOptions, validate_params

#: What `alpha` is by default, per kind.
_ALPHA = {"local": 5.0, "cluster": 5.0, "global": 1.1}


class Mixture(NamedTuple):
    """A Gaussian mixture."""

    weights: np.ndarray  #: (n_components,)
    means: np.ndarray  #: (n_components, n_features)
    factors: np.ndarray  #: (n_components, n_features, n_features), covariance = F F'


def random_mixture(n_components, n_features, rng):
    """A mixture whose features depend on each other and whose means are far from 0.

    The means lie on a sphere of radius ``3 sqrt(n_features)``, so that scaling a mean
    moves it; the standard deviations along the (random) principal axes are
    log-uniform in [0.2, 1].
    """
    directions = rng.standard_normal((n_components, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    stds = np.exp(rng.uniform(np.log(0.2), 0.0, (n_components, n_features)))
    axes = np.linalg.qr(rng.standard_normal((n_components, n_features, n_features)))[0]
    return Mixture(
        weights=rng.dirichlet(np.full(n_components, 10.0)),
        means=3 * np.sqrt(n_features) * directions,
        factors=axes * stds[:, None, :],
    )


def sample_mixture(mixture, n, rng):
    """`n` rows of a mixture."""
    k = rng.choice(len(mixture.weights), size=n, p=mixture.weights)
    X = rng.standard_normal((n, mixture.means.shape[1]))
    for c, (mean, factor) in enumerate(
        zip(mixture.means, mixture.factors, strict=True)
    ):
        X[k == c] = mean + X[k == c] @ factor.T
    return X


def sample_marginals(mixture, n, rng):
    """`n` rows with the mixture's marginals and independent features."""
    d = mixture.means.shape[1]
    k = rng.choice(len(mixture.weights), size=(n, d), p=mixture.weights)
    stds = np.linalg.norm(mixture.factors, axis=2)  # (n_components, n_features)
    j = np.arange(d)
    return mixture.means[k, j] + stds[k, j] * rng.standard_normal((n, d))


def sample_box(X, alpha, n, rng):
    """`n` rows uniform in the bounding box of `X`, enlarged `alpha` times."""
    low, high = X.min(axis=0), X.max(axis=0)
    centre, half = (low + high) / 2, alpha * (high - low) / 2
    return rng.uniform(centre - half, centre + half, (n, X.shape[1]))


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "contamination": [Interval(Real, 0, 0.5, closed="both")],
        "kind": [StrOptions({"local", "global", "cluster", "dependency"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 1, None, closed="left"), None],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_anomalies(
    n_samples=500,
    n_features=5,
    *,
    contamination=0.1,
    kind="local",
    n_components=3,
    alpha=None,
    shuffle=True,
    random_state=None,
):
    """Generate normal rows from a Gaussian mixture, and anomalies of one kind.

    The four kinds are those of ADBench [1]_. The mixture itself is drawn at random:
    means on a sphere, random covariances with correlated features.

    Parameters
    ----------
    n_samples : int, default=500
        Rows in all, normal and anomalous.
    n_features : int, default=5
        Columns. ``kind="dependency"`` needs two.
    contamination : float, default=0.1
        Share of anomalies, in [0, 0.5]: there are exactly
        ``round(contamination * n_samples)`` of them.
    kind : {"local", "global", "cluster", "dependency"}, default="local"
        - local: the same mixture with covariances `alpha` times as large;
        - global: uniform in the bounding box of the normal rows, enlarged `alpha`
          times about its centre;
        - cluster: the same covariances around `alpha` times the means, which form
          clusters away from the normal ones;
        - dependency: every feature has its normal distribution, but the features are
          independent of each other.
    n_components : int, default=3
        Components of the mixture.
    alpha : float, default=None
        Strength, at least 1. By default ADBench's: 5 for local and cluster, 1.1 for
        global. Dependency anomalies have none.
    shuffle : bool, default=True
        If False, the normal rows come first.
    random_state : int, RandomState instance or None, default=None
        Governs the mixture, the rows and their order.

    Returns
    -------
    X : ndarray of float64 of shape (n_samples, n_features)
    y : ndarray of int of shape (n_samples,)
        0 normal, 1 anomaly.

    See Also
    --------
    fetch_adbench : Real anomaly detection data.
    make_noisy_labels : Wrong labels for a classification problem.

    Notes
    -----
    The kinds and their strengths are ADBench's. There a mixture (for dependency: a
    vine copula) is fitted to a real table; here the mixture is drawn, so that the truth
    is known, and its exact marginals take the place of a kernel density estimate.

    References
    ----------
    .. [1] S. Han, X. Hu, H. Huang, M. Jiang, Y. Zhao, "ADBench: Anomaly Detection
       Benchmark", NeurIPS Datasets and Benchmarks 2022, arXiv:2206.09426.

    Examples
    --------
    >>> from skmethods.datasets import make_anomalies
    >>> X, y = make_anomalies(200, 4, kind="global", random_state=0)
    >>> X.shape, int(y.sum())
    ((200, 4), 20)
    """
    if kind == "dependency" and n_features < 2:
        raise ValueError(
            "kind='dependency' needs n_features >= 2, since it breaks the dependence "
            f"between features; got n_features={n_features}."
        )
    if kind == "dependency" and alpha is not None:
        raise ValueError(
            f"alpha={alpha} has no meaning for kind='dependency'. Leave it out, or "
            "choose another kind."
        )
    if alpha is None:
        alpha = _ALPHA.get(kind)
    rng = check_random_state(random_state)
    n_anomalies = round(contamination * n_samples)
    mixture = random_mixture(n_components, n_features, rng)
    normal = sample_mixture(mixture, n_samples - n_anomalies, rng)
    if kind == "local":
        wide = mixture._replace(factors=np.sqrt(alpha) * mixture.factors)
        anomalies = sample_mixture(wide, n_anomalies, rng)
    elif kind == "cluster":
        away = mixture._replace(means=alpha * mixture.means)
        anomalies = sample_mixture(away, n_anomalies, rng)
    elif kind == "global":
        anomalies = sample_box(normal, alpha, n_anomalies, rng)
    else:
        anomalies = sample_marginals(mixture, n_anomalies, rng)
    X = np.vstack([normal, anomalies])
    y = np.repeat([0, 1], [len(normal), len(anomalies)])
    if shuffle:
        order = rng.permutation(n_samples)
        X, y = X[order], y[order]
    return X, y
