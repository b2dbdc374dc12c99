"""make_anomalies and make_noisy_labels against the truth that they draw from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare, kstest, multivariate_normal, uniform
from sklearn.utils import check_random_state

from skmethods.datasets import make_anomalies, make_noisy_labels
from skmethods.datasets._anomalies import random_mixture

KINDS = ("local", "global", "cluster", "dependency")


def _covariances(mixture):
    return mixture.factors @ mixture.factors.transpose(0, 2, 1)


def _one_component(kind, n_features=4, seed=1, **kw):
    """(normal, anomalies, mean, covariance) for a single Gaussian."""
    X, y = make_anomalies(
        80_000,
        n_features,
        contamination=0.5,
        kind=kind,
        n_components=1,
        random_state=seed,
        **kw,
    )
    mixture = random_mixture(1, n_features, check_random_state(seed))
    return X[y == 0], X[y == 1], mixture.means[0], _covariances(mixture)[0]


def _assert_gaussian(X, mean, covariance):
    """Whitened, `X` has mean 0 and covariance 1 within 5 standard errors."""
    Z = np.linalg.solve(np.linalg.cholesky(covariance), (X - mean).T).T
    tol = 5 / np.sqrt(len(X))
    assert_allclose(Z.mean(axis=0), 0, atol=tol)
    assert_allclose(np.cov(Z.T), np.eye(X.shape[1]), atol=tol * np.sqrt(2))
    for z in Z.T:
        assert kstest(z, "norm").pvalue > 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "rate"), [(500, 0.1), (37, 0.25), (3, 0.1), (1, 0.5)])
def test_exact_counts(kind, n, rate):
    X, y = make_anomalies(n, 3, contamination=rate, kind=kind, random_state=0)
    assert X.shape == (n, 3)
    assert X.dtype == np.float64
    assert np.isfinite(X).all()
    assert y.shape == (n,)
    assert y.sum() == round(n * rate)
    assert set(y) <= {0, 1}


def test_no_contamination():
    assert make_anomalies(50, contamination=0, random_state=0)[1].sum() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_normal_rows_are_the_mixture(kind):
    normal, _, mean, covariance = _one_component(kind)
    _assert_gaussian(normal, mean, covariance)


def test_mixture_density():
    """Rows of several components: the probability integral of the first column."""
    X, y = make_anomalies(40_000, 3, n_components=4, contamination=0, random_state=3)
    mixture = random_mixture(4, 3, check_random_state(3))
    stds = np.sqrt(_covariances(mixture)[:, 0, 0])
    assert y.sum() == 0

    def cdf(x):
        z = (np.asarray(x)[:, None] - mixture.means[:, 0]) / stds
        return multivariate_normal.cdf(z[..., None]) @ mixture.weights

    assert kstest(X[:, 0], cdf).pvalue > 1e-4


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_local(alpha):
    _, anomalies, mean, covariance = _one_component("local", alpha=alpha)
    _assert_gaussian(anomalies, mean, (alpha or 5.0) * covariance)


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_cluster(alpha):
    _, anomalies, mean, covariance = _one_component("cluster", alpha=alpha)
    assert_allclose(np.linalg.norm(mean), 3 * np.sqrt(4))
    _assert_gaussian(anomalies, (alpha or 5.0) * mean, covariance)


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_global(alpha):
    normal, anomalies, *_ = _one_component("global", alpha=alpha)
    low, high = normal.min(axis=0), normal.max(axis=0)
    centre, half = (low + high) / 2, (alpha or 1.1) * (high - low) / 2
    for j in range(4):
        box = uniform(centre[j] - half[j], 2 * half[j])
        assert kstest(anomalies[:, j], box.cdf).pvalue > 1e-4
    assert_allclose(np.corrcoef(anomalies.T), np.eye(4), atol=5 / np.sqrt(40_000))


@pytest.mark.parametrize("n_components", [1, 3])
def test_dependency(n_components):
    X, y = make_anomalies(
        40_000,
        3,
        contamination=0.5,
        kind="dependency",
        n_components=n_components,
        random_state=5,
    )
    normal, anomalies = X[y == 0], X[y == 1]
    for j in range(3):  # same marginals
        assert kstest(anomalies[:, j], normal[:, j]).pvalue > 1e-4
    tol = 5 / np.sqrt(20_000)
    for f in (np.asarray, np.abs):  # independent, also beyond linear correlation
        assert_allclose(np.corrcoef(f(anomalies).T), np.eye(3), atol=tol)
    assert np.abs(np.corrcoef(normal.T) - np.eye(3)).max() > 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_anomalies_are_less_likely(kind):
    """Under the true normal density, in every kind."""
    X, y = make_anomalies(2000, 6, kind=kind, random_state=7)
    mixture = random_mixture(3, 6, check_random_state(7))
    density = sum(
        w * multivariate_normal(m, c).pdf(X)
        for w, m, c in zip(
            mixture.weights, mixture.means, _covariances(mixture), strict=True
        )
    )
    log = np.log(density + 1e-300)
    assert np.median(log[y == 1]) < np.quantile(log[y == 0], 0.1)


def test_shuffle():
    X, y = make_anomalies(100, shuffle=False, random_state=0)
    assert_array_equal(y, np.repeat([0, 1], [90, 10]))
    Xs, ys = make_anomalies(100, shuffle=True, random_state=0)
    assert not np.array_equal(ys, y)
    order, orders = np.lexsort(X.T), np.lexsort(Xs.T)
    assert_array_equal(X[order], Xs[orders])
    assert_array_equal(y[order], ys[orders])


@pytest.mark.parametrize("kind", KINDS)
def test_anomalies_random_state(kind):
    state = np.random.get_state()[1].copy()
    X, y = make_anomalies(60, kind=kind, random_state=0)
    X2, y2 = make_anomalies(60, kind=kind, random_state=np.random.RandomState(0))
    assert_array_equal(X, X2)
    assert_array_equal(y, y2)
    assert not np.array_equal(X, make_anomalies(60, kind=kind, random_state=1)[0])
    assert_array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"kind": "dependency", "n_features": 1}, "n_features >= 2"),
        ({"kind": "dependency", "alpha": 2.0}, "alpha=2.0 has no meaning"),
        ({"alpha": 0.5}, "'alpha' parameter"),
        ({"contamination": 0.6}, "'contamination' parameter"),
        ({"kind": "odd"}, "'kind' parameter"),
        ({"n_samples": 0}, "'n_samples' parameter"),
        ({"n_features": 2.0}, "'n_features' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
        ({"shuffle": "no"}, "'shuffle' parameter"),
        ({"random_state": np.random.default_rng(0)}, "'random_state' parameter"),
    ],
)
def test_anomalies_bad_parameters(bad, match):
    with pytest.raises(ValueError, match=match):
        make_anomalies(**bad)


# -- labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["symmetric", "pairflip"])
@pytest.mark.parametrize("rate", [0, 0.013, 0.4, 1])
@pytest.mark.parametrize(
    "y",
    [
        np.arange(300) % 7,
        (np.arange(300) % 3).astype(np.uint8),
        np.array(["ant", "bee", "cat"])[np.arange(300) % 3],
        np.array(["ant", "bee", "cat"], dtype=object)[np.arange(300) % 3],
        np.arange(300) % 2 == 0,
    ],
    ids=["int", "uint8", "str", "object", "bool"],
)
def test_exact_flips(kind, rate, y):
    before = y.copy()
    noisy, flipped = make_noisy_labels(y, rate, kind=kind, random_state=0)
    assert_array_equal(y, before)
    assert noisy is not y
    assert noisy.dtype == y.dtype
    assert flipped.dtype == bool
    assert flipped.sum() == round(rate * 300)
    assert_array_equal(noisy != y, flipped)
    assert set(noisy) <= set(y)


def test_symmetric_is_uniform_over_the_other_classes():
    y = np.repeat(np.arange(4), 5000)
    noisy, flipped = make_noisy_labels(y, 0.6, random_state=1)
    table = np.zeros((4, 4))
    np.add.at(table, (y[flipped], noisy[flipped]), 1)
    assert table.trace() == 0
    off = table[~np.eye(4, dtype=bool)].reshape(4, 3)
    assert chisquare(off, axis=1).pvalue.min() > 1e-4
    assert chisquare(table.sum(axis=1)).pvalue > 1e-4  # rows chosen evenly


def test_pairflip_takes_the_next_class_in_sorted_order():
    y = np.array(["c", "a", "b"] * 100)
    noisy, flipped = make_noisy_labels(y, 0.5, kind="pairflip", random_state=2)
    after = {"a": "b", "b": "c", "c": "a"}
    assert_array_equal(noisy[flipped], [after[label] for label in y[flipped]])


def test_labels_random_state():
    y = np.arange(200) % 5
    state = np.random.get_state()[1].copy()
    a = make_noisy_labels(y, 0.3, random_state=0)[0]
    assert_array_equal(a, make_noisy_labels(y, 0.3, random_state=0)[0])
    assert not np.array_equal(a, make_noisy_labels(y, 0.3, random_state=1)[0])
    assert_array_equal(np.random.get_state()[1], state)


def test_containers():
    pd = pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    expected = make_noisy_labels([0, 1, 2, 1], 0.5, random_state=0)[0]
    for y in (
        (0, 1, 2, 1),
        pd.Series([0, 1, 2, 1], index=[9, 8, 7, 6]),
        torch.tensor([0, 1, 2, 1]),
    ):
        assert_array_equal(make_noisy_labels(y, 0.5, random_state=0)[0], expected)


def _missing_string():
    pd = pytest.importorskip("pandas")
    return pd.Series(["a", pd.NA, "b"], dtype="string")


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        ([0.1, 0.2, 0.3], ValueError, "continuous"),
        ([0.0, np.nan, 1.0], ValueError, "y has 1 missing"),
        ([0, None, 1], ValueError, "y has 1 missing"),
        (_missing_string, ValueError, "y has 1 missing"),
        (["a", 1], TypeError, "mixes strings with int"),
        (np.array(["a", 1], dtype=object), TypeError, "mixes labels"),
        ([[0, 1], [1, 0]], ValueError, "1d"),
        ([], ValueError, "empty"),
        ([3, 3, 3], ValueError, "one class only, 3"),
        ("abc", ValueError, "'y' parameter"),
    ],
)
def test_bad_labels(y, error, match):
    y = y() if callable(y) else y
    with pytest.raises(error, match=match):
        make_noisy_labels(y, 0.5, random_state=0)


def test_one_class_without_noise():
    noisy, flipped = make_noisy_labels(["a", "a"], 0)
    assert noisy.tolist() == ["a", "a"]
    assert not flipped.any()


@pytest.mark.parametrize(
    "bad",
    [
        {"noise_rate": 1.5},
        {"noise_rate": "0.1"},
        {"noise_rate": 0.5, "kind": "asymmetric"},
        {"noise_rate": 0.5, "random_state": "seed"},
    ],
)
def test_labels_bad_parameters(bad):
    with pytest.raises(ValueError, match="parameter of make_noisy_labels"):
        make_noisy_labels([0, 1, 0, 1], **bad)
