"""The batched solver against finite differences, explicit projections and scipy."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import least_squares

from skmethods.symbolic import _varpro
from skmethods.symbolic._varpro import Rows, log_state, minimise, squared_state


def problem(n=60, m=3, K=2, noise=0.05, seed=0, weighted=False):
    """Rows of a positive signomial with noise, and its exponents."""
    rng = np.random.default_rng(seed)
    L = rng.uniform(-1, 1, (n, m))
    L -= L.mean(axis=0)
    B = rng.uniform(-2, 2, (K, m))
    y = np.exp(L @ B.T) @ rng.uniform(1, 2, K) * np.exp(noise * rng.standard_normal(n))
    weight = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    return Rows(L, y, weight), B


def design(rows, B):
    return np.exp(rows.L @ B.T)


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_those_of_least_squares(weighted):
    rows, B = problem(weighted=weighted)
    state = squared_state(rows, B[None])
    root = np.sqrt(rows.weight)
    best, *_ = np.linalg.lstsq(
        design(rows, B) * root[:, None], rows.y * root, rcond=None
    )
    np.testing.assert_allclose(state.coef[0] * np.exp(-state.shift[0]), best)
    left = rows.y - design(rows, B) @ best
    np.testing.assert_allclose(state.rss[0], rows.weight @ left**2)


def test_gradient_is_that_of_the_projected_residual():
    rows, B = problem(weighted=True, noise=0.3)
    B = B + 0.1

    def objective(b):
        return squared_state(rows, b.reshape(1, *B.shape)).rss[0]

    h = 1e-5
    steps = h * np.eye(B.size)
    by_hand = [
        (objective(B.ravel() + s) - objective(B.ravel() - s)) / (2 * h) for s in steps
    ]
    gradient = -2 * squared_state(rows, B[None]).gradient[0]
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_normal_matrix_is_kaufmans(weighted):
    """``D^T (I - P) D`` with an orthogonal projection that is formed by QR."""
    rows, B = problem(weighted=weighted, noise=0.3)
    state = squared_state(rows, B[None])
    root = np.sqrt(rows.weight)[:, None]
    Phi = design(rows, B) * root
    coef = state.coef[0] * np.exp(-state.shift[0])
    D = ((coef * Phi)[:, :, None] * rows.L[:, None]).reshape(rows.n, -1)
    Q = np.linalg.qr(Phi)[0]
    projected = D - Q @ (Q.T @ D)
    np.testing.assert_allclose(state.normal[0], projected.T @ projected, atol=1e-9)


def test_kaufman_is_the_full_jacobian_without_residuals():
    """Where the residual is zero, Kaufman's columns are those of the residual."""
    rows, B = problem(noise=0.0)
    Phi = design(rows, B)

    def residual(b):
        F = np.exp(rows.L @ b.reshape(B.shape).T)
        return rows.y - F @ np.linalg.lstsq(F, rows.y, rcond=None)[0]

    h = 1e-6
    J = np.column_stack(
        [
            (residual(B.ravel() + s) - residual(B.ravel() - s)) / (2 * h)
            for s in h * np.eye(B.size)
        ]
    )
    assert np.abs(rows.y - Phi @ np.linalg.lstsq(Phi, rows.y, rcond=None)[0]).max() < (
        1e-10
    )
    np.testing.assert_allclose(
        squared_state(rows, B[None]).normal[0], J.T @ J, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_same_minimum_as_scipy(loss):
    rows, B = problem(n=200, noise=0.1)
    K = len(B)
    start = B + 0.1
    state = minimise(rows, start[None], loss=loss, max_iter=200, tol=1e-15)

    def residual(p):
        z = np.exp(rows.L @ p[K:].reshape(B.shape).T) @ p[:K]
        if loss == "squared":
            return rows.y - z
        return np.log(rows.y) - np.log(np.maximum(z, 1e-300))

    first = np.linalg.lstsq(design(rows, start), rows.y, rcond=None)[0]
    peer = least_squares(
        residual,
        np.concatenate([first, start.ravel()]),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    np.testing.assert_allclose(state.rss[0], 2 * peer.cost, rtol=1e-9)
    np.testing.assert_allclose(state.B[0].ravel(), peer.x[K:], atol=1e-5)
    np.testing.assert_allclose(
        state.coef[0] * np.exp(-state.shift[0]), peer.x[:K], rtol=1e-5
    )


def test_one_term_of_the_logarithmic_loss_is_linear_regression():
    rows, _ = problem(K=1, noise=0.4, weighted=True)
    state = minimise(rows, np.zeros((1, 1, 3)), loss="log", tol=1e-15)
    root = np.sqrt(rows.weight)
    A = np.column_stack([np.ones(rows.n), rows.L]) * root[:, None]
    best, *_ = np.linalg.lstsq(A, np.log(rows.y) * root, rcond=None)
    np.testing.assert_allclose(state.B[0, 0], best[1:], atol=1e-9)
    constant = np.log(state.coef[0, 0]) - state.shift[0, 0]
    np.testing.assert_allclose(constant, best[0], atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_a_batch_is_its_starts_one_at_a_time(loss):
    rows, B = problem()
    rng = np.random.default_rng(1)
    starts = B + 0.5 * rng.standard_normal((7, *B.shape))
    batch = minimise(rows, starts, loss=loss, tol=1e-12)
    for i, start in enumerate(starts):
        single = minimise(rows, start[None], loss=loss, tol=1e-12)
        np.testing.assert_allclose(batch.rss[i], single.rss[0], rtol=1e-6)
        np.testing.assert_allclose(batch.B[i], single.B[0], atol=1e-3)


def test_chunks_of_rows_add_up(monkeypatch):
    rows, B = problem(n=1000, weighted=True)
    whole = (
        squared_state(rows, B[None]),
        log_state(rows, B[None], np.ones((1, 2)), np.zeros((1, 2))),
    )
    monkeypatch.setattr(_varpro, "_CHUNK", 2000)
    for keep in (0, 10**9):
        monkeypatch.setattr(_varpro, "_KEEP", keep)
        rows, B = problem(n=1000, weighted=True)
        assert len(_varpro._chunks(rows, 1, 2)) > 3
        parts = (
            squared_state(rows, B[None]),
            log_state(rows, B[None], np.ones((1, 2)), np.zeros((1, 2))),
        )
        for one, other in zip(whole, parts, strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_memory_does_not_grow_with_starts_times_rows():
    rows, B = problem(n=200_000, m=10, K=3)
    starts = np.repeat(B[None], 10, axis=0)
    tracemalloc.start()
    squared_state(rows, starts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    everything = 8 * rows.n * 10 * 6  # products of terms, all rows at once
    assert peak < everything / 2


def test_weights_are_repetitions():
    rows, B = problem()
    k = np.arange(rows.n) % 3 + 1
    weighted = Rows(rows.L, rows.y, k.astype(float))
    repeated = Rows(
        np.repeat(rows.L, k, axis=0), np.repeat(rows.y, k), np.ones(k.sum())
    )
    a = minimise(weighted, B[None], tol=1e-14)
    b = minimise(repeated, B[None], tol=1e-14)
    np.testing.assert_allclose(a.B, b.B, atol=1e-8)
    np.testing.assert_allclose(a.rss, b.rss)


def test_box_and_fixed_exponents():
    rows, B = problem(n=200, noise=0.0)
    free = np.ones((1, *B.shape), bool)
    free[0, 0, 1] = False
    start = np.zeros((1, *B.shape)) + 0.1 * np.arange(6).reshape(1, 2, 3)
    state = minimise(rows, start, free=free, lower=-0.5, upper=1.0)
    assert state.B[0, 0, 1] == start[0, 0, 1]
    assert state.B.min() >= -0.5 and state.B.max() <= 1.0
    # At the bound the objective would fall beyond it, inside it is flat.
    gradient = state.gradient[0].reshape(B.shape)
    inside = (state.B[0] > -0.5) & (state.B[0] < 1.0) & free[0]
    unit = np.sqrt(np.einsum("ii->i", state.normal[0])).reshape(B.shape)
    assert np.abs(gradient[inside] / unit[inside]).max() < 1e-2 * np.sqrt(state.rss[0])
    assert (gradient[state.B[0] == 1.0] >= -1e-9).all()


def test_penalty_meets_the_conditions_of_a_minimum():
    rows, _ = problem(n=300, K=1, m=4, noise=0.1)
    penalty = 20.0
    state = minimise(
        rows, np.full((1, 1, 4), 0.3), penalty=penalty, max_iter=300, tol=0.0
    )
    b, slope = state.B.ravel(), state.gradient.ravel()
    zero = b == 0
    assert (np.abs(slope[zero]) <= penalty * (1 + 1e-6)).all()
    np.testing.assert_allclose(
        slope[~zero], penalty * np.sign(b[~zero]), rtol=1e-3, atol=1e-2
    )
    more = minimise(rows, np.full((1, 1, 4), 0.3), penalty=1e6, max_iter=300)
    assert not more.B.any()


def test_signs_of_negative_inputs():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    y = 3 * X[:, 0] * X[:, 1] ** 2
    rows = Rows(np.log(np.abs(X)), y, np.ones(80), X < 0)
    B = np.array([[[1.0, 2.0]]])
    odd = np.array([[[1.0, 0.0]]])
    assert squared_state(rows, B, odd).rss[0] < 1e-25 * rows.yy
    assert squared_state(rows, B, 0 * odd).rss[0] > 0.1 * rows.yy


@pytest.mark.parametrize("span", [1e-9, 300.0])
def test_extreme_logarithms_stay_finite(span):
    rng = np.random.default_rng(0)
    L = span * rng.uniform(-1, 1, (50, 2))
    rows = Rows(L, rng.uniform(1, 2, 50), np.ones(50))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        state = minimise(rows, rng.standard_normal((5, 2, 2)), max_iter=20)
    fine = np.isfinite(state.rss)
    assert fine.any()
    assert np.isfinite(state.B).all()
    assert (state.rss[fine] <= rows.yy * (1 + 1e-9)).all()


def test_equal_columns_and_constant_columns():
    rng = np.random.default_rng(0)
    one = rng.uniform(-1, 1, 50)
    rows = Rows(np.column_stack([one, one, np.zeros(50)]), np.exp(2 * one), np.ones(50))
    state = minimise(rows, np.full((1, 1, 3), 0.2), tol=1e-14)
    assert state.rss[0] < 1e-18 * rows.yy
    assert state.B[0, 0, :2].sum() == pytest.approx(2)
    assert state.B[0, 0, 2] == 0.2  # nothing pulls at it


def test_a_callback_ends_the_iterations():
    rows, B = problem()
    steps = []

    def stop():
        steps.append(1)
        return len(steps) == 3

    minimise(rows, B[None] + 1.0, on_step=stop, tol=0.0)
    assert len(steps) == 3
