"""Explanations of signomials against finite differences, identities, brute force."""

import numpy as np
import pytest

from skmethods.symbolic import _explain as ex


def signomials(n=7, C=3, K=2, m=4, seed=0):
    """(L, exponents, coef, intercept) of C signomials; one exponent in three is 0."""
    rng = np.random.default_rng(seed)
    exponents = rng.normal(size=(C, K, m)) * (rng.uniform(size=(C, K, m)) > 1 / 3)
    return (
        rng.normal(size=(n, m)),
        exponents,
        rng.normal(size=(C, K)),
        rng.normal(size=C),
    )


def terms_at(L, exponents, coef):
    return coef * np.exp(np.einsum("...kj,nj->n...k", exponents, L))


def scores_at(L, exponents, coef, intercept):
    return terms_at(L, exponents, coef).sum(axis=-1) + intercept


def differences(function, L, step=1e-5):
    """Central differences of ``function(L)`` along each column of L, last axis."""
    found = []
    for j in range(L.shape[1]):
        h = np.zeros(L.shape[1])
        h[j] = step
        found.append((function(L + h) - function(L - h)) / (2 * step))
    return np.stack(found, axis=-1)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("K", [1, 2, 3])
def test_log_gradient(K):
    L, B, a, b = signomials(K=K)
    gradient = ex.log_gradient(terms_at(L, B, a), B)
    numeric = differences(lambda L: scores_at(L, B, a, b), L)
    assert gradient.shape == (7, 3, 4)
    assert np.allclose(gradient, numeric, atol=1e-6)
    one = ex.log_gradient(terms_at(L, B[0], a[0]), B[0])
    assert np.allclose(one, gradient[:, 0], atol=1e-14)


def test_elasticity():
    L, B, a, b = signomials()
    z = scores_at(L, B, a, b)
    ours = ex.elasticity(ex.log_gradient(terms_at(L, B, a), B), z)
    numeric = differences(lambda L: np.log(np.abs(scores_at(L, B, a, b))), L)
    assert np.allclose(ours, numeric, rtol=1e-6, atol=1e-6)
    one_term = ex.log_gradient(terms_at(L, B[0, :1], a[0, :1]), B[0, :1])
    constant = ex.elasticity(one_term, terms_at(L, B[0, :1], a[0, :1])[:, 0])
    assert np.allclose(constant, B[0, 0])
    assert np.array_equal(ex.elasticity(one_term, np.zeros(7)), one_term)


def test_probability_log_gradient():
    L, B, a, b = signomials()
    p = softmax(scores_at(L, B, a, b))
    ours = ex.probability_log_gradient(ex.log_gradient(terms_at(L, B, a), B), p)
    numeric = differences(lambda L: softmax(scores_at(L, B, a, b)), L)
    assert np.allclose(ours, numeric, atol=1e-6)
    assert np.allclose(ours.sum(axis=1), 0, atol=1e-12)


def test_boundary_sensitivity():
    L, B, a, b = signomials()
    G = ex.log_gradient(terms_at(L, B, a), B)
    numeric = differences(lambda L: np.diff(scores_at(L, B, a, b))[:, 0], L)
    assert np.allclose(ex.boundary_sensitivity(G, 1, 0), numeric, atol=1e-6)
    assert np.array_equal(ex.boundary_sensitivity(G, 2, 0), G[:, 2] - G[:, 0])


@pytest.mark.parametrize("K", [1, 2, 3])
def test_path_attribution_sums_to_the_difference(K):
    L, B, a, b = signomials(n=50, K=K)
    base = np.random.default_rng(9).normal(size=(1, 4))
    L[0] = base[0]
    L[1, 1:] = base[0, 1:]
    shares = ex.path_attribution(
        terms_at(L, B, a), terms_at(base, B, a)[0], B, L - base
    )
    gap = scores_at(L, B, a, b) - scores_at(base, B, a, b)
    assert np.abs(shares.sum(axis=2) - gap).max() < 1e-10
    assert not shares[0].any()
    assert not shares[1, :, 1:].any()
    one = ex.path_attribution(
        terms_at(L, B[0], a[0]), terms_at(base, B[0], a[0])[0], B[0], L - base
    )
    assert np.allclose(one, shares[:, 0], atol=1e-13)


def test_path_attribution_is_the_integral_of_the_log_gradient():
    L, B, a, _ = signomials(n=3)
    base = np.zeros((1, 4))
    shares = ex.path_attribution(terms_at(L, B, a), a, B, L - base)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    integral = sum(
        w / 2 * ex.log_gradient(terms_at((t + 1) / 2 * L, B, a), B)
        for t, w in zip(nodes, weights, strict=True)
    )
    assert np.allclose(shares, integral * L[:, None], atol=1e-10)


@pytest.mark.parametrize("ratio", [0.0, 1e-300, 1e-12, 1e-3, 1.0, -1e-9, -5.0, 200.0])
def test_log_mean(ratio):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(400):
        v = mpmath.mpf(2)
        u = v * mpmath.exp(mpmath.mpf(ratio))
        exact = float((u - v) / mpmath.mpf(ratio)) if ratio else 2.0
        u = float(u)
    ours = ex.log_mean(np.array([u, -u]), np.array([2.0, -2.0]), np.array(2 * [ratio]))
    assert np.allclose(ours, [exact, -exact], rtol=1e-14)


def test_first_order_attribution_is_the_limit_of_the_path():
    L, B, a, _ = signomials()
    G = ex.log_gradient(a[None], B)[0]
    errors = []
    for size in (1e-3, 1e-4):
        first = ex.first_order_attribution(G, size * L)
        path = ex.path_attribution(terms_at(size * L, B, a), a, B, size * L)
        errors.append(np.abs(first - path).max())
    assert errors[1] < 0.015 * errors[0]
    one = ex.first_order_attribution(G[0], L)
    assert np.allclose(one, ex.first_order_attribution(G, L)[:, 0])


# -- roots and counterfactuals ---------------------------------------------------------


@pytest.mark.parametrize("N", [2, 3, 4, 5, 7])
def test_all_roots_are_found(N):
    """Planted roots: polynomials in exp(t / 2) with known zeros."""
    rng = np.random.default_rng(N)
    planted = np.sort(rng.uniform(-2, 2, size=(20, N - 1)), axis=1)
    coef = np.stack([np.poly(np.exp(row / 2))[::-1] for row in planted])
    order = rng.permutation(N)
    found = ex.exponential_roots(
        coef[:, order], np.arange(N)[order] / 2, np.full(20, -3.0), np.full(20, 3.0)
    )
    apart = np.diff(planted, axis=1).min(axis=1, initial=1) > 0.05
    assert apart.sum() >= 3
    found = np.sort(found[apart], axis=1)
    assert found.shape[1] == N - 1
    assert np.allclose(found, planted[apart], atol=1e-6)


def test_roots_of_degenerate_sums():
    low, high = np.full(4, -1.0), np.full(4, 1.0)
    coef = np.array([[0, 0, 0], [1, 0, 0], [0, 1, -1], [1, 1, 1]], dtype=float)
    with np.errstate(all="raise"):
        roots = ex.exponential_roots(coef, np.array([0.0, 1.0, 2.0]), low, high)
    assert np.isnan(roots[[0, 1, 3]]).all()
    assert np.nanmax(np.abs(roots[2])) < 1e-12 and (~np.isnan(roots[2])).sum() == 1
    assert ex.exponential_roots(coef[:, :1], np.array([1.0]), low, high).shape == (4, 0)


def brute_force(terms, rates, intercept, low, high, target, n_grid=8001):
    """Smallest |t| on a fine grid that gives the decision, per row."""
    t = np.linspace(low, high, n_grid)
    t = t[np.argsort(np.abs(t), kind="stable")]
    found = []
    for row in terms:
        z = (row * np.exp(t[:, None, None] * rates)).sum(axis=2) + intercept
        now = (row.sum(axis=1) + intercept).argmax()
        won = z.argmax(axis=1)
        good = won != now if target is None else won == target
        found.append(t[good.argmax()] if good.any() else np.nan)
    return np.array(found)


@pytest.mark.parametrize("target", [None, 0, 2])
@pytest.mark.parametrize(("C", "K"), [(2, 1), (2, 2), (3, 1), (3, 2), (4, 3)])
def test_counterfactual_is_the_smallest_on_a_grid(C, K, target):
    if target is not None and target >= C:
        pytest.skip("no such class")
    rng = np.random.default_rng(10 * C + K)
    n, low, high = 40, -1.5, 2.0
    rates, terms = 2 * rng.normal(size=(C, K)), rng.normal(size=(n, C, K))
    rates[0, 0] = 0
    intercept = rng.normal(size=C)
    if C == 2:  # one score, as the classifier has it
        rates[0], terms[:, 0], intercept[0] = 0, 0, 0
    ours = ex.counterfactual_scaling(
        terms, rates, intercept, np.full(n, low), np.full(n, high), target
    )
    grid = brute_force(terms, rates, intercept, low, high, target)
    step = (high - low) / 8000
    # Nothing nearer on the grid, also where we find nothing; and where the grid finds
    # something, we do, at most a step nearer, unless it lies between grid points.
    nearest = np.where(np.isnan(grid), np.inf, np.abs(grid))
    assert not (np.isnan(ours) & np.isfinite(nearest)).any()
    assert (np.nan_to_num(np.abs(ours), nan=np.inf) <= nearest + 1e-8).all()
    same = np.abs(np.abs(ours) - nearest) <= step
    same |= np.isnan(ours) & np.isinf(nearest)
    assert same.mean() > 0.95
    changed = np.isfinite(ours) & (ours != 0)
    assert changed.sum() > 3

    def winner(t):
        powers = np.exp(t[:, None, None] * rates)
        return ((terms * powers).sum(axis=2) + intercept).argmax(axis=1)

    now, then = winner(np.zeros(n)), winner(np.nan_to_num(ours))
    before = winner(np.nan_to_num(ours * (1 - 1e-6)))
    if target is None:
        assert (then != now)[changed].all() and (before == now)[changed].all()
    else:
        assert (then == target)[changed].all() and (before != target)[changed].all()
        assert (ours[now == target] == 0).all()


def test_counterfactual_of_one_term_in_closed_form():
    rng = np.random.default_rng(0)
    z, beta, b = rng.normal(size=40), 1.3, 0.4
    terms = np.stack([np.zeros(40), z], axis=1)[:, :, None]
    ours = ex.counterfactual_scaling(
        terms,
        np.array([[0.0], [beta]]),
        np.array([0.0, b]),
        np.full(40, -3.0),
        np.full(40, 3.0),
    )
    with np.errstate(invalid="ignore"):
        exact = np.log(-b / z) / beta
    exact[np.abs(exact) > 3] = np.nan
    assert np.allclose(ours, exact, atol=2e-9, equal_nan=True)
    assert np.isfinite(ours).any() and np.isnan(ours).any()


def test_a_feature_without_exponents_changes_nothing():
    _, _, a, b = signomials()
    ours = ex.counterfactual_scaling(
        a[None], np.zeros((3, 2)), b, np.array([-9.0]), np.array([9.0])
    )
    assert np.isnan(ours).all()


def test_counterfactuals_of_terms_near_the_end_of_floats():
    """Rows multiplied with a number have the same ties."""
    rng = np.random.default_rng(0)
    terms, rates = rng.normal(size=(30, 3, 2)), 40 * rng.normal(size=(3, 2))
    intercept = rng.normal(size=3)
    low, high = np.full(30, -4.0), np.full(30, 5.0)
    plain = ex.counterfactual_scaling(terms, rates, intercept, low, high)
    with np.errstate(over="raise", invalid="raise"):
        huge = ex.counterfactual_scaling(
            terms * 1e260, rates, intercept * 1e260, low, high
        )
    assert np.isfinite(plain).sum() > 10
    assert np.allclose(huge, plain, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_attribution_of_limited_terms_sums_to_the_difference():
    L, B, a, _ = signomials(n=50)
    base = np.random.default_rng(9).normal(size=(1, 4))
    reach = np.full((3, 2), 0.5)

    def limited(L):
        argument = np.einsum("ckj,nj->nck", B, L)
        return argument, a * np.exp(np.minimum(argument, reach))

    argument, terms = limited(L)
    base_argument, base_terms = limited(base)
    beyond = argument > reach
    assert 5 < beyond.sum() < beyond.size - 5 and (base_argument > reach).any()
    shares = ex.path_attribution(terms, base_terms[0], B, L - base, argument, reach)
    gap = terms.sum(axis=2) - base_terms.sum(axis=2)
    assert np.abs(shares.sum(axis=2) - gap).max() < 1e-10
    nodes, weights = np.polynomial.legendre.leggauss(400)
    integral = 0.0
    for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        argument, terms = limited(base + t * (L - base))
        moving = np.where(argument > reach, 0.0, terms)
        integral = integral + w * ex.log_gradient(moving, B)
    assert np.allclose(shares, integral * (L - base)[:, None], atol=2e-2)
