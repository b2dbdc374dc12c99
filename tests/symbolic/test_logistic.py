"""The loss of signomial scores: gradient, start, minima."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skmethods import ECSELClassifier
from skmethods.symbolic._logistic import (
    Parameters,
    SignomialLoss,
    constant_terms_joined,
    linear_start,
    minimise,
    penalised,
    random_start,
    signomials_like,
)
from skmethods.symbolic._signomial import PositiveMap


def logs(X, feature_range=(1, 10)):
    L = np.log(PositiveMap.fit(X, feature_range)(X))
    return L - L.mean(axis=0)


def problem(load, l2=1e-4, columns=None, feature_range=(1, 10)):
    X, y = load(return_X_y=True)
    L = logs(X[:, :columns], feature_range)
    return SignomialLoss(L, y, np.ones(len(y)), len(np.unique(y)), l2)


def small(n_classes, n=30, m=3, l2=0.1, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    L = rng.normal(size=(n, m)) + 0.3 * codes[:, None]
    return SignomialLoss(L, codes, rng.uniform(0.5, 2, n), n_classes, l2)


def flat(parameters):
    return np.concatenate([a.ravel() for a in parameters])


def shaped(v, like):
    parts = np.split(v, np.cumsum([a.size for a in like])[:-1])
    return Parameters(*(p.reshape(a.shape) for p, a in zip(parts, like, strict=True)))


def scores(parameters, L):
    terms = np.exp(np.einsum("ckj,nj->nck", parameters.exponents, L)) * parameters.coef
    return terms.sum(axis=2) + parameters.intercept


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_gradient_is_that_of_finite_differences(n_classes):
    loss = small(n_classes)
    at = random_start((loss.n_scores, 2, 3), np.random.RandomState(1))
    at = at._replace(intercept=np.linspace(-1, 1, loss.n_scores))
    numeric = approx_fprime(flat(at), lambda v: loss(shaped(v, at))[0], 1e-7)
    assert np.allclose(flat(loss(at)[1]), numeric, atol=1e-6)


def test_gradient_where_the_argument_is_limited():
    loss = small(2)
    at = random_start((1, 2, 3), np.random.RandomState(1))
    at = at._replace(exponents=at.exponents * 20, coef=at.coef * 1e-9)
    assert (np.abs(at.exponents.reshape(2, 3) @ loss.L.T) > 30).any()
    B = at.exponents.ravel()

    def value(v):
        return loss(at._replace(exponents=v.reshape(at.exponents.shape)))[0]

    steps = 1e-6 * np.eye(len(B))
    numeric = [(value(B + step) - value(B - step)) / 2e-6 for step in steps]
    assert np.allclose(loss(at)[1].exponents.ravel(), numeric, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_is_the_weighted_cross_entropy(n_classes):
    loss = small(n_classes, l2=0.0)
    at = random_start((loss.n_scores, 2, 3), np.random.RandomState(1))
    z = scores(at, loss.L)
    z = np.hstack([np.zeros_like(z), z]) if n_classes == 2 else z
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    oracle = log_loss(loss.codes, p, sample_weight=loss.weight)
    assert loss(at)[0] == pytest.approx(oracle, rel=1e-12)
    ridge = SignomialLoss(loss.L, loss.codes, loss.weight, n_classes, 0.5)
    more = 0.25 * (at.coef**2).sum()
    assert ridge(at)[0] == pytest.approx(oracle + more, rel=1e-12)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_the_linear_start_is_logistic_regression(load):
    loss = problem(load)
    slopes, intercept = linear_start(loss, ridge=1e-3, max_iter=1000)
    C = 1 / (1e-3 * len(loss.codes))
    peer = LogisticRegression(C=C, tol=1e-8, max_iter=10_000).fit(loss.L, loss.codes)
    ours = loss.L @ slopes.T + intercept
    theirs = peer.decision_function(loss.L).reshape(len(ours), -1)
    assert np.allclose(ours, theirs, atol=1e-2 * np.abs(theirs).max())


@pytest.mark.parametrize("n_terms", [2, 3, 4])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_the_start_has_the_loss_of_logistic_regression(load, n_terms):
    loss = problem(load, l2=0.0)
    slopes, intercept = linear_start(loss)
    start = signomials_like(slopes, intercept, loss.L, n_terms)
    linear = loss.of_scores((loss.L @ slopes.T + intercept).T)[0]
    assert loss(start)[0] == pytest.approx(linear, abs=0.02)
    chance = loss.of_scores(np.zeros((loss.n_scores, len(loss.codes))))[0]
    assert linear < 0.3 * chance


@pytest.mark.parametrize(("n_terms", "order"), [(1, 1), (2, 2), (4, 2)])
def test_the_start_tends_to_the_linear_score(n_terms, order):
    """The error falls with the slopes to the power order + 1, i.e. as they vanish."""
    loss = small(3)
    slopes, intercept = linear_start(loss)
    errors = []
    for shrink in (1e-2, 1e-3):
        start = signomials_like(shrink * slopes, intercept, loss.L, n_terms)
        linear = loss.L @ (shrink * slopes).T + intercept
        errors.append(np.abs(scores(start, loss.L) - linear).max())
    assert errors[1] < 1.5 * errors[0] * 10.0 ** -(order + 1) + 1e-14


def test_pairs_of_the_start_can_part():
    loss = small(2, n=60)
    start = signomials_like(*linear_start(loss), loss.L, 4)
    found = minimise(loss, start, l1=0.0, max_iter=200).parameters
    assert not np.allclose(found.exponents[0, 0], found.exponents[0, 2], rtol=1e-3)


def test_near_curvature_zero_one_term_does_what_logistic_regression_does():
    loss = problem(load_breast_cancer, l2=0.0, columns=4, feature_range=(1, 1.001))
    slopes, intercept = linear_start(loss, ridge=0.0, max_iter=3000)
    X, y = load_breast_cancer(return_X_y=True)
    peer = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-8)
    scaled = X[:, :4] / X[:, :4].std(axis=0)
    linear = log_loss(y, peer.fit(scaled, y).predict_proba(scaled))
    tiny = signomials_like(slopes * 1e-6, intercept, loss.L, 1)
    steep = tiny._replace(
        coef=tiny.coef * 1e6, intercept=intercept - tiny.coef[:, 0] * 1e6
    )
    assert loss(steep)[0] == pytest.approx(
        loss.of_scores((loss.L @ slopes.T + intercept).T)[0], abs=1e-4
    )
    assert minimise(loss, steep, l1=0.0, max_iter=300).loss <= linear + 0.02


@pytest.mark.parametrize("method", ["BFGS", "CG", "TNC", "SLSQP"])
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_no_optimiser_of_scipy_ends_lower(load, method):
    l1, loss = 1e-3, problem(load, l2=1e-3, columns=5)
    start = signomials_like(*linear_start(loss), loss.L, 2)
    ours = minimise(loss, start, l1=l1, max_iter=3000)
    p = start.exponents.size
    v = np.concatenate([np.maximum(flat(start), 0)[:p], flat(start)])
    v[p : 2 * p] = np.maximum(-v[p : 2 * p], 0)

    def split(v):  # squares instead of bounds for methods that know none
        w = v[: 2 * p] ** 2 if method in ("BFGS", "CG") else v[: 2 * p]
        return w[:p], w[p:]

    def objective(v):
        plus, minus = split(v)
        rest = np.concatenate([plus - minus, v[2 * p :]])
        value, gradient = loss(shaped(rest, start))
        g = flat(gradient)
        both = np.concatenate([g[:p] + l1, l1 - g[:p]])
        if method in ("BFGS", "CG"):
            both = both * 2 * v[: 2 * p]
        return value + l1 * (plus + minus).sum(), np.concatenate([both, g[p:]])

    if method in ("BFGS", "CG"):
        v[: 2 * p] = np.sqrt(v[: 2 * p] + 1e-3)
    bounds = None
    if method in ("TNC", "SLSQP"):
        bounds = [(0, None)] * (2 * p) + [(None, None)] * (len(v) - 2 * p)
    theirs = minimize(objective, v, jac=True, method=method, bounds=bounds)
    assert ours.loss <= theirs.fun * 1.01


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_optimality_conditions(load):
    """At zero the slope is within the penalty; elsewhere it cancels the penalty."""
    l1, loss = 1e-2, problem(load)
    start = signomials_like(*linear_start(loss), loss.L, 2)
    found = minimise(loss, start, l1=l1, max_iter=5000, tol=1e-7)
    slope = loss(found.parameters)[1]
    B = found.parameters.exponents
    zero = B == 0
    assert 0 < zero.sum() < zero.size
    assert (np.abs(slope.exponents[zero]) <= l1 + 1e-5).all()
    assert np.allclose(slope.exponents[~zero], -l1 * np.sign(B[~zero]), atol=1e-5)
    assert np.abs(slope.coef).max() < 1e-5 and np.abs(slope.intercept).max() < 1e-5
    assert found.loss == pytest.approx(penalised(loss, found.parameters, l1))


def test_a_huge_penalty_leaves_nothing():
    loss = small(3)
    start = signomials_like(*linear_start(loss), loss.L, 2)
    assert not minimise(loss, start, l1=100.0).parameters.exponents.any()


@pytest.mark.parametrize("l1", [0.0, 1e-3])
def test_the_support_is_kept(l1):
    loss = small(3)
    start = random_start((3, 2, 3), np.random.RandomState(0))
    support = start.exponents != 0
    found = minimise(loss, start, l1=l1, support=support).parameters
    assert not found.exponents[~support].any() and found.exponents[support].any()


def test_no_intercept():
    loss = small(2)
    start = random_start((1, 2, 3), np.random.RandomState(0))
    found = minimise(loss, start, l1=1e-3, fit_intercept=False)
    assert not found.parameters.intercept.any()
    assert found.loss >= minimise(loss, found.parameters, l1=1e-3).loss


def test_the_callback_stops():
    loss, seen = small(2), []
    start = signomials_like(*linear_start(loss), loss.L, 2)

    def third(parameters, value):
        seen.append((penalised(loss, parameters, 1e-3), value))
        return len(seen) == 3

    found = minimise(loss, start, l1=1e-3, callback=third)
    assert len(seen) == found.n_iter == 3
    for ours, told in seen:  # what is told is with both parts of the split
        assert ours <= told + 1e-12
    assert minimise(loss, start, l1=1e-3, max_iter=2).converged is False
    assert minimise(loss, start, l1=1e-3, max_iter=2000).converged is True


def test_constant_terms_join_the_intercept():
    at = random_start((2, 2, 3), np.random.RandomState(0))
    exponents = at.exponents.copy()
    exponents[0, 1] = 0
    exponents[1, 0] = 1
    exponents[:, :, 0][exponents[:, :, 0] == 0] = 0.5
    exponents[0, 1] = 0
    joined = constant_terms_joined(at._replace(exponents=exponents))
    L = np.random.default_rng(0).normal(size=(5, 3))
    assert joined.coef[0, 1] == 0 and joined.coef[0, 0] == at.coef[0, 0]
    assert np.allclose(scores(joined, L), scores(at._replace(exponents=exponents), L))


def test_a_start_over_where_a_tiny_step_ended_it():
    """L-BFGS-B calls it converged here, at a projected gradient of 5e-3."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    rows = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:30]]
    X, y = X[rows][:, :5], y[rows]
    share = {"balanced": "balanced", "by hand": {0: 11.9, 1: 1.0}}
    losses = {
        (name, seed): ECSELClassifier(class_weight=weights)
        .fit(X[:, np.random.default_rng(seed).permutation(5)], y)
        .loss_
        for name, weights in share.items()
        for seed in range(6)
    }
    assert max(losses.values()) < min(losses.values()) * (1 + 1e-6), losses
