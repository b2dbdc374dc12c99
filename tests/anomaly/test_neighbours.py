"""Exact nearest rows: tiles only propose, and no row is missed."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn import config_context

from skmethods.anomaly import _neighbours
from skmethods.anomaly._neighbours import RowMatcher, RowSearch
from skmethods.anomaly._skeleton import Graph, skeleton_distances

CPU = torch.device("cpu")


def clouds(n, seed=0):
    """Rows that are hard for products in float32, one kind each."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((n, 6))
    side = rng.integers(0, 2, size=(n, 1))
    return {
        "normal": normal,
        "offset 1e6": normal + 1e6,
        "two far clusters": normal * 1e-5 + side * 1e3,
        "clusters below float64 products": normal * 1e-12 + side,
        "integers, many ties": rng.integers(0, 3, size=(n, 3)).astype(float),
        "duplicates": np.repeat(normal[: n // 10 + 1], 10, axis=0)[:n],
        "one outlier at 1e6": np.r_[normal[:-1], np.full((1, 6), 1e6)],
        "all equal": np.zeros((n, 2)),
        "wide": rng.standard_normal((n, 300)),
        "one column": normal[:, :1],
    }


KINDS = list(clouds(3))


def brute(Y, X, k, drop=None):
    """The k nearest rows by differences, ties by index."""
    D = ((Y[:, None] - X) ** 2).sum(-1)
    if drop is not None:
        has = np.flatnonzero(drop >= 0)
        D[has, drop[has]] = np.inf
    index = np.argsort(D, axis=1, kind="stable")[:, :k]
    return index, np.take_along_axis(D, index, 1)


def assert_nearest(found, Y, X, k, drop=None):
    index, squared = brute(Y, X, k, drop)
    assert_allclose(found[1], squared, rtol=1e-12)
    differ = found[0] != index  # sums in another order may swap what is equal to 1e-15
    assert_allclose(found[1][differ], squared[differ], rtol=1e-14)
    D = ((Y[:, None] - X[found[0]]) ** 2).sum(-1)
    assert_allclose(D, found[1], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 7])
def test_nearest_other_rows(kind, k):
    X = clouds(403)[kind]
    own = np.arange(len(X))
    search = RowSearch(X, device=CPU)
    assert_nearest(search.nearest(X, k, drop=own), X, X, k, own)


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_rows_of_queries(kind):
    X = clouds(300)[kind]
    Y = np.r_[X[:20], clouds(50, seed=1)[kind][:, : X.shape[1]], X[:3] * 1e8 + 1]
    drop = np.full(len(Y), -1)
    drop[:10] = np.arange(10)
    search = RowSearch(X, device=CPU)
    assert_nearest(search.nearest(Y, 4, drop=drop), Y, X, 4, drop)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [1, 7, 32, 256])
def test_search_in_blocks_is_the_full_one(kind, block, monkeypatch):
    """One nearest row by block minima; other rows by half of the products."""
    monkeypatch.setitem(_neighbours.BLOCK, "cpu", block)
    X = clouds(250)[kind]
    own = np.arange(len(X))
    search = RowSearch(X, device=CPU)
    full = search._nearest(X, 1, own)
    for found in (search.nearest_other(), search.nearest(X, 1, drop=own)):
        assert_array_equal(found[0], full[0])
        assert_array_equal(found[1], full[1])
    Y = np.r_[clouds(70, seed=1)[kind], X[:9] * 1e8 + 1]
    drop = np.arange(len(Y)) * 3 % 11 - 1
    assert_nearest(search.nearest(Y, 1), Y, X, 1)
    assert_nearest(search.nearest(Y, 1, drop=drop), Y, X, 1, drop)


@pytest.mark.parametrize("batch_size", [1, 100, 1000])
def test_search_with_a_batch_size(batch_size):
    X = clouds(300)["normal"]
    search = RowSearch(X, device=CPU, batch_size=batch_size)
    assert_nearest(search.nearest_other(), X, X, 1, np.arange(300))


def test_large_groups_of_columns():
    """Enough rows that columns are grouped, with a tail that fills no group."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((3011, 5)), rng.standard_normal((40, 5))
    X[-1] = Y[0]  # in the tail
    for k in (1, 20):
        index, squared = RowSearch(X, device=CPU).nearest(Y, k)
        D = cdist(Y, X, "sqeuclidean")
        assert_array_equal(index, np.argsort(D, axis=1, kind="stable")[:, :k])
        assert_allclose(squared, np.sort(D, axis=1)[:, :k], rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 20])
def test_few_rows(n):
    X = np.random.default_rng(0).standard_normal((n, 3))
    assert_nearest(RowSearch(X, device=CPU).nearest_other(), X, X, 1, np.arange(n))
    found = RowSearch(X, device=CPU).nearest(X, n - 1, drop=np.arange(n))
    assert_nearest(found, X, X, n - 1, np.arange(n))


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_the_batch(kind):
    X, Y = clouds(200)[kind], clouds(60, seed=1)[kind]
    whole = RowSearch(X, device=CPU).nearest(Y, 3)
    for batch_size in (1, 13):
        part = RowSearch(X, device=CPU, batch_size=batch_size).nearest(Y, 3)
        assert_array_equal(part[0], whole[0])
        assert_array_equal(part[1], whole[1])


# -- precision -------------------------------------------------------------------------


@pytest.fixture
def tiles(monkeypatch):
    """The tiles that are made, as (dtype, shape)."""
    seen = []
    init = _neighbours._Tile.__init__

    def spy(self, *args, **kw):
        init(self, *args, **kw)
        seen.append((self.T.dtype, tuple(self.T.shape)))

    monkeypatch.setattr(_neighbours._Tile, "__init__", spy)
    return seen


def test_float32_suffices_for_ordinary_rows(tiles):
    X = clouds(500)["normal"]
    RowSearch(X, device=CPU).nearest(X, 10, drop=np.arange(500))
    assert {dtype for dtype, _ in tiles} == {torch.float32}


def test_float64_where_float32_cannot_tell(tiles):
    X = clouds(500)["two far clusters"]
    RowSearch(X, device=CPU).nearest(X, 10, drop=np.arange(500))
    assert torch.float64 in {dtype for dtype, _ in tiles}


def test_float32_is_given_up_when_it_decides_nothing(tiles):
    X = clouds(4000)["two far clusters"]
    RowSearch(X, device=CPU, batch_size=256).nearest(X, 3, drop=np.arange(4000))
    single = sum(shape[0] for dtype, shape in tiles if dtype is torch.float32)
    double = sum(shape[0] for dtype, shape in tiles if dtype is torch.float64)
    assert double == 4000 and single < 1000


@pytest.mark.parametrize("setting", ["high", "medium"])
def test_reduced_products_are_not_trusted(tiles, setting):
    """TF32 and bfloat16 products, which users may switch on, void the error bound."""
    before = torch.get_float32_matmul_precision()
    X = clouds(300)["normal"]
    try:
        torch.set_float32_matmul_precision(setting)
        found = RowSearch(X, device=CPU).nearest(X, 5, drop=np.arange(300))
        other = RowSearch(X, device=CPU).nearest_other()
        assert torch.get_float32_matmul_precision() == setting
    finally:
        torch.set_float32_matmul_precision(before)
    assert {dtype for dtype, _ in tiles} == {torch.float64}
    assert_nearest(found, X, X, 5, np.arange(300))
    assert_array_equal(other[0], found[0][:, :1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_error_bound_holds(kind, dtype):
    X = clouds(300)[kind]
    Y = X[:50] * 1.01
    search = RowSearch(X, device=CPU)
    B = search._memory(dtype)
    none = np.full(50, -1)
    tile = _neighbours._Tile(search, Y, B, B.new_empty(50 * len(X)), none, False)
    true = ((Y[:, None].astype(np.longdouble) - X) ** 2).sum(-1).astype(float)
    norm = np.sqrt(((Y - search.centre) ** 2).sum(1))[:, None]
    bound = _neighbours._error_bound(true, norm, search._unit(dtype))
    error = np.abs(tile.T.double().numpy() - true)
    assert np.all(error <= bound)
    if kind == "normal" and dtype is torch.float32:
        assert error.max() > 1e-3 * bound.max()  # and says something


# -- memory ----------------------------------------------------------------------------


def test_tiles_fit_the_cache(tiles):
    X = np.random.default_rng(0).standard_normal((60_000, 2))
    RowSearch(X, device=CPU).nearest(X[:500], 2)
    assert len(tiles) > 1
    largest = max(4 * a * b for _, (a, b) in tiles)
    assert largest <= _neighbours.TILE_BYTES["cpu"]


def test_working_memory_is_kept_to(tiles):
    X = np.random.default_rng(0).standard_normal((20_000, 2))
    with config_context(working_memory=1):
        small = RowSearch(X, device=CPU).nearest(X[:100], 2)
    assert max(4 * a * b for _, (a, b) in tiles) <= 2**20
    assert_array_equal(small[1], RowSearch(X, device=CPU).nearest(X[:100], 2)[1])


# -- the skeleton ----------------------------------------------------------------------


def brute_skeleton(Y, X, graph, penalty, n_near, drop):
    out = []
    for y, lost in zip(Y, drop, strict=True):
        D = ((y - X) ** 2).sum(1)
        if lost >= 0:
            D[lost] = np.inf
        near = np.argsort(D, kind="stable")[: n_near or len(X)]
        best = D.min()
        for i in near:
            for j, L in zip(graph.neighbours[i], graph.squared[i], strict=True):
                if L > 0 and lost not in (i, j):
                    best = min(best, skeleton_distances(D[i], D[j], L, penalty))
        out.append(best)
    return np.array(out)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [0.01, 0.9, 1.0])
@pytest.mark.parametrize("n_near", [None, 5])
def test_skeleton(kind, penalty, n_near):
    X = clouds(70)[kind]
    own = np.arange(70)
    search = RowSearch(X, device=CPU)
    graph = Graph(*search.nearest(X, 4, drop=own))
    Y = np.r_[X, clouds(20, seed=1)[kind]]
    drop = np.r_[own, np.full(20, -1)]
    if kind == "integers, many ties" and n_near:
        Y, drop = Y[:0], drop[:0]  # which rows are nearest is up to rounding
    found = search.skeleton(Y, graph, penalty, n_near=n_near, drop=drop)
    expected = brute_skeleton(Y, X, graph, penalty, n_near, drop)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-15 * graph.squared.max())


def test_skeleton_does_not_depend_on_the_batch():
    X, Y = clouds(300)["normal"], clouds(80, seed=1)["normal"]
    graph = Graph(*RowSearch(X, device=CPU).nearest(X, 5, drop=np.arange(300)))
    for n_near in (None, 20):
        whole = RowSearch(X, device=CPU).skeleton(Y, graph, 0.9, n_near=n_near)
        search = RowSearch(X, device=CPU, batch_size=1)
        assert_array_equal(search.skeleton(Y, graph, 0.9, n_near=n_near), whole)


# -- faiss -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_faiss_finds_the_same(kind):
    faiss = pytest.importorskip("faiss")
    X, Y = clouds(300)[kind], clouds(40, seed=1)[kind]
    Y = np.r_[Y, X[:10]]
    drop = np.r_[np.full(40, -1), np.arange(10)]
    ours, theirs = RowSearch(X, device=CPU), RowSearch(X, device=CPU, faiss=faiss)
    for k in (1, 5):
        a, b = (s.nearest(Y, k, drop=drop) for s in (ours, theirs))
        assert_array_equal(a[0], b[0])
        assert_array_equal(a[1], b[1])
    for a, b in zip(ours.nearest_other(), theirs.nearest_other(), strict=True):
        assert_array_equal(a, b)
    graph = Graph(*ours.nearest(X, 5, drop=np.arange(300)))
    a, b = (s.skeleton(Y, graph, 0.9, n_near=20, drop=drop) for s in (ours, theirs))
    assert_allclose(b, a, rtol=1e-12)


def test_faiss_is_used(tiles):
    faiss = pytest.importorskip("faiss")
    X = clouds(300)["normal"]
    search = RowSearch(X, device=CPU, faiss=faiss)
    graph = Graph(*search.nearest(X, 5, drop=np.arange(300)))
    search.skeleton(clouds(30, seed=1)["normal"], graph, 0.9, n_near=20)
    assert not tiles


# -- equal rows ------------------------------------------------------------------------


def test_matching_rows():
    X = np.array([[1.0, 0.0], [2.0, 3.0], [1.0, -0.0], [1.0, 1e-300], [2.0, 3.0]])
    index, count = RowMatcher(X).match(
        np.array([[1.0, -0.0], [2.0, 3.0], [3.0, 2.0], [1.0, 1e-300], [0.0, 1.0]])
    )
    assert_array_equal(index, [0, 1, -1, 3, -1])
    assert_array_equal(count, [2, 2, 0, 1, 0])


def test_hashes_of_integers_do_not_collide():
    grid = np.stack(np.meshgrid(*[np.arange(20.0)] * 3), -1).reshape(-1, 3)
    assert len(RowMatcher(grid).keys) == len(grid)
    index, count = RowMatcher(grid).match(grid[::-1])
    assert_array_equal(index, np.arange(len(grid))[::-1])
    assert_array_equal(count, 1)


@pytest.mark.parametrize("k", [1, 4, 20])
@pytest.mark.parametrize("n_points", [3, 10])
def test_few_points_in_many_copies(k, n_points):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n_points, 3))
    X = points[rng.integers(n_points, size=1500)]
    search = RowSearch(X, device=CPU)
    everyone = np.arange(1500)
    found = search.nearest(X, k, drop=everyone)
    assert_array_equal(found[0], brute(X, X, k, everyone)[0])
    Y = rng.standard_normal((40, 3))
    assert_nearest(search.nearest(Y, k), Y, X, k)
    assert "copies_before" in vars(search)  # else this test tried nothing
    rank = [(X[:i] == X[i]).all(1).sum() for i in everyone]
    assert_array_equal(search.copies_before, rank)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_gpu_finds_the_same(kind):
    X, Y = clouds(300)[kind], clouds(40, seed=1)[kind]
    cpu, gpu = (RowSearch(X, device=torch.device(d)) for d in ("cpu", "cuda"))
    for k in (1, 5):
        for a, b in zip(cpu.nearest(Y, k), gpu.nearest(Y, k), strict=True):
            assert_array_equal(a, b)
    for a, b in zip(cpu.nearest_other(), gpu.nearest_other(), strict=True):
        assert_array_equal(a, b)
    graph = Graph(*cpu.nearest(X, 5, drop=np.arange(300)))
    for n_near in (None, 20):
        a, b = (s.skeleton(Y, graph, 0.9, n_near=n_near) for s in (cpu, gpu))
        assert_allclose(b, a, rtol=1e-12)


@pytest.mark.parametrize("n", [263, 287, 671, 2573, 2591])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_columns_that_fill_no_group(n, k):
    """Widths at which levels of groups begin, with the longest tails."""
    rng = np.random.default_rng(n)
    X, Y = rng.standard_normal((n, 3)), rng.standard_normal((30, 3))
    Y[:10] = X[-10:] + 1e-3
    search = RowSearch(X, device=CPU)
    assert_nearest(search._nearest(Y, k, np.full(30, -1)), Y, X, k)
