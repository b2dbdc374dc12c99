"""The mathematics of DVM-AD against its theorems."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg

from skmethods.anomaly._skeleton import (
    Graph,
    apply_scaling,
    bounded_pencil,
    column_scaling,
    learn_metric,
    local_scatter,
    reference_ratio,
    reference_scatter,
    skeleton_distances,
)


def rows(n=30, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.arange(1, d + 1)


def knn(Z, k):
    D = ((Z[:, None] - Z) ** 2).sum(-1)
    np.fill_diagonal(D, np.inf)
    return np.argsort(D, axis=1, kind="stable")[:, :k]


def scatters(Z, reference):
    """Within and total scatter of the rows and one reference point, by definition."""
    centred = Z - Z.mean(0)
    both = np.vstack([Z, reference])
    both = both - both.mean(0)
    return centred.T @ centred, both.T @ both


# -- one reference point: facts 1 to 4 of the specification ----------------------------


def test_total_scatter_is_within_plus_rank_one():
    Z = rows()
    reference = Z.max(0)
    within, total = scatters(Z, reference)
    v = reference - Z.mean(0)
    n = len(Z)
    assert_allclose(total, within + n / (n + 1) * np.outer(v, v), rtol=1e-10)


@pytest.mark.parametrize("n, d", [(30, 5), (12, 12), (8, 20)])
def test_spectrum_is_one_except_the_ratio(n, d):
    Z = rows(n, d)
    if n > d:
        Z[:, -1] = Z[:, 0] - Z[:, 1]  # rank-deficient; the largest values are not
    reference = Z.max(0)
    within, total = scatters(Z, reference)
    spectrum = np.sort(np.linalg.eigvals(linalg.pinvh(total) @ within).real)
    rank = np.linalg.matrix_rank(total)
    # zero on the null space, the ratio, and ones
    expected = np.r_[np.zeros(d - rank), reference_ratio(Z, reference)]
    expected = np.sort(np.r_[expected, np.ones(rank - 1)])
    assert_allclose(spectrum, expected, atol=1e-10)


def test_ratio_three_ways():
    Z = rows()
    reference = Z.max(0)
    within, total = scatters(Z, reference)
    v, c = reference - Z.mean(0), len(Z) / (len(Z) + 1)
    ratio = reference_ratio(Z, reference)
    assert 0 < ratio < 1
    assert_allclose(ratio, 1 - c * v @ np.linalg.solve(total, v), rtol=1e-10)
    assert_allclose(ratio, 1 / (1 + c * v @ np.linalg.solve(within, v)), rtol=1e-10)
    eigenvalues = linalg.eigh(within, total, eigvals_only=True)
    assert_allclose(ratio, eigenvalues[0], rtol=1e-10)


def test_ratio_ends():
    Z = rows()
    assert reference_ratio(Z, Z.mean(0)) == 1
    flat = np.c_[Z, np.zeros(len(Z))]
    assert_allclose(reference_ratio(flat, np.r_[Z.mean(0), 1.0]), 0, atol=1e-12)
    wide = rows(6, 40)
    assert_allclose(reference_ratio(wide, wide.max(0)), 0, atol=1e-10)
    assert_allclose(reference_ratio(wide, wide[0]), reference_ratio(*rotated(wide)))


def rotated(wide):
    """The same rows and first row in an orthonormal basis of a larger space."""
    Q = linalg.qr(np.random.default_rng(1).standard_normal((50, 50)))[0][
        : wide.shape[1]
    ]
    return wide @ Q, wide[0] @ Q


def test_all_directions_of_the_degenerate_pencil_change_no_distance():
    """Fact 4: theta with theta' S_T theta = 1 for S_T = I + rank one, any basis."""
    Z = rows()
    Q = linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))[0]
    assert_allclose(distances(Z @ Q), distances(Z), rtol=1e-10)


def distances(M):
    return ((M[:, None] - M) ** 2).sum(-1)


# -- the bounded pencil ----------------------------------------------------------------


@pytest.mark.parametrize("reference", ["max", "mean", "far"])
def test_pencil(reference):
    Z = rows()
    r = {"max": Z.max(0), "mean": Z.mean(0), "far": np.full(5, 1e3)}[reference]
    within = local_scatter(Z, knn(Z, 4)) + 0.1 * np.eye(5)
    total = reference_scatter(Z, r)
    rho, P = bounded_pencil(within, total)
    assert np.all((rho >= 0) & (rho <= 1)) and np.all(np.diff(rho) >= 0)
    theta = P * np.sqrt(rho)
    assert_allclose(
        within @ theta, (within + total) @ theta * rho, rtol=1e-7, atol=1e-9
    )
    assert_allclose(theta.T @ (within + total) @ theta, np.eye(5), atol=1e-10)
    # The metric is that of inv(within), whatever the reference.
    assert_allclose(P @ P.T, np.linalg.inv(within), rtol=1e-9)
    root = linalg.fractional_matrix_power(within, -0.5)
    assert_allclose(distances(Z @ P), distances(Z @ root), rtol=1e-9, atol=1e-9)


def test_signs_of_directions_are_fixed():
    Z = rows()
    within, total = np.eye(5), reference_scatter(Z, Z.max(0))
    _, P = bounded_pencil(within, total)
    assert np.all(P[np.abs(P).argmax(0), np.arange(5)] > 0)


@pytest.mark.parametrize("d", [5, 33, 60])
def test_metric_of_wide_tables_is_the_dense_one(d):
    Z = rows(30, d)
    neighbours, r = knn(Z, 4), Z.max(0)
    rho, P = learn_metric(Z, neighbours, r, 0.01)
    within = local_scatter(Z, neighbours)
    within += 0.01 * np.trace(within) / d * np.eye(d)
    total = reference_scatter(Z, r)
    assert_allclose(P.T @ within @ P, np.eye(d), atol=1e-9)
    assert_allclose(P @ P.T @ within, np.eye(d), atol=1e-9)
    expected = linalg.eigh(within, within + total, eigvals_only=True)
    assert_allclose(rho, expected, atol=1e-10)


def test_metric_of_equal_rows():
    Z = np.zeros((4, 3))
    rho, P = learn_metric(Z, knn(Z, 2), np.zeros(3), 0.01)
    assert_allclose(P @ P.T, 100 * np.eye(3))
    assert_allclose(rho, 1)


def test_local_scatter_by_definition():
    Z = rows(12, 3)
    neighbours = knn(Z, 3)
    expected = sum(
        np.outer(Z[i] - Z[j], Z[i] - Z[j]) for i in range(12) for j in neighbours[i]
    )
    assert_allclose(local_scatter(Z, neighbours), expected / (2 * 12 * 3))


# -- the skeleton distance -------------------------------------------------------------


def edge_problem(seed, d=4):
    y, a, b = np.random.default_rng(seed).standard_normal((3, d))
    return y, a, b, ((y - a) ** 2).sum(), ((y - b) ** 2).sum(), ((a - b) ** 2).sum()


@pytest.mark.parametrize("penalty", [1e-3, 0.5, 0.9, 1.0])
def test_closed_form_is_the_minimum_over_the_edge(penalty):
    t = np.linspace(0, 1, 20001)
    for seed in range(50):
        *_, Di, Dj, L = edge_problem(seed)
        grid = ((1 - t) * Di + t * Dj - penalty * t * (1 - t) * L).min()
        closed = skeleton_distances(Di, Dj, L, penalty)
        assert closed <= grid + 1e-12
        assert_allclose(closed, grid, rtol=1e-6)
        assert closed <= min(Di, Dj)


def test_without_penalty_it_is_the_distance_to_the_segment():
    t = np.linspace(0, 1, 20001)[:, None]
    for seed in range(50):
        y, a, b, Di, Dj, L = edge_problem(seed)
        points = (1 - t) * a + t * b
        identity = (1 - t) * Di + t * Dj - t * (1 - t) * L
        assert_allclose(((y - points) ** 2).sum(1), identity[:, 0], rtol=1e-10)
        segment = ((y - points) ** 2).sum(1).min()
        assert_allclose(skeleton_distances(Di, Dj, L, 1.0), segment, rtol=1e-6)


def test_negative_minima_are_cut_at_zero():
    assert skeleton_distances(1.0, 1.0, 4.0, 1.0) == 0
    assert skeleton_distances(1.0, 1.0, 4.0 + 1e-9, 1.0) == 0


# -- graphs ----------------------------------------------------------------------------


def test_edges_are_undirected_unique_and_of_positive_length():
    Z = np.r_[rows(15, 3), rows(15, 3)[:4]]
    neighbours = knn(Z, 3)
    squared = np.take_along_axis(distances(Z), neighbours, 1)
    i, j, L = Graph(neighbours, squared).edges
    expected = {
        (min(a, b), max(a, b))
        for a in range(len(Z))
        for b in neighbours[a]
        if not np.array_equal(Z[a], Z[b])
    }
    assert list(zip(i, j, strict=True)) == sorted(expected)
    assert_array_equal(L, ((Z[i] - Z[j]) ** 2).sum(1))


def test_typical_distance():
    squared = np.array([[0.0, 1], [4, 9], [9, 9], [25, 30]])
    graph = Graph(np.zeros((4, 2), dtype=int), squared)
    assert graph.typical() == 3.0
    assert Graph(np.zeros((2, 1), dtype=int), np.zeros((2, 1))).typical() == 1.0


# -- scaling ---------------------------------------------------------------------------


def test_standard_scaling():
    X = rows() + 100
    Z = apply_scaling(X, column_scaling(X, "standard"))
    assert_allclose(Z, (X - X.mean(0)) / X.std(0), rtol=1e-12, atol=1e-13)


def test_common_scaling_keeps_the_shape():
    X = rows() + 100
    Z = apply_scaling(X, column_scaling(X, "none"))
    ratio = distances(Z)[0, 1:] / distances(X)[0, 1:]
    assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert_allclose(np.mean(Z**2), 1)


@pytest.mark.parametrize("kind", ["standard", "none"])
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-150, 1.0, 1e150, 1e307])
def test_scaling_of_any_size(size, kind):
    X = np.array([[0.0, 1], [1, 1], [2, 3], [7, 5]])
    with np.errstate(all="raise"):
        Z = apply_scaling(X * size, column_scaling(X * size, kind))
    assert_allclose(
        Z, apply_scaling(X, column_scaling(X, kind)), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e8, 1e150])
def test_constant_columns(value):
    X = np.c_[np.full(7, value), np.arange(7.0)]
    scaling = column_scaling(X, "standard")
    Z = apply_scaling(X, scaling)
    assert_array_equal(Z[:, 0], 0)
    # Also where it is constant but for rounding.
    X[::2, 0] += np.spacing(value)
    scaling = column_scaling(X, "standard")
    if value:
        assert_array_equal(apply_scaling(X, scaling)[:, 0], 0)
    # In a constant column a difference counts in the caller's unit.
    if 0 < abs(value) < 10:
        other = apply_scaling(np.array([[value + 0.5, 3.0]]), scaling)
        assert_allclose(other[0, 0], 0.5, rtol=1e-12)
