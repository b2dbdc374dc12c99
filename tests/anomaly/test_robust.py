"""The robust mode of DVM-AD against scipy's single linkage and brute force."""

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score

from skmethods import DVMAnomalyDetector
from skmethods.anomaly import _robust
from skmethods.anomaly._neighbours import RowSearch
from skmethods.anomaly._skeleton import Graph


def _rows(n, d, kind, seed=0):
    rng = np.random.RandomState(seed)
    rows = np.r_[rng.randn(n // 2, d), 5 + 0.01 * rng.randn(n - n // 2, d)]
    return {"two": rows, "grid": np.round(rows, 1), "far": rows + 1e6}[kind]


def _search(rows):
    return RowSearch(rows, device=torch.device("cpu"))


def _tree(rows, n_neighbors=4):
    search = _search(rows)
    everyone = np.arange(len(rows))
    k = min(n_neighbors, len(rows) - 1)
    graph = Graph(*search.nearest(rows, k, drop=everyone))
    return _robust.single_linkage(rows, graph, search)


CASES = [(300, 3, "two"), (50, 20, "two"), (201, 1, "grid"), (120, 2, "grid")]
CASES += [(2, 2, "two"), (150, 2, "far")]


@pytest.mark.parametrize(("n", "d", "kind"), CASES)
def test_tree_is_that_of_single_linkage(n, d, kind):
    rows = _rows(n, d, kind)
    i, j, squared = _tree(rows)
    expected = linkage(rows, "single")[:, 2]
    np.testing.assert_allclose(np.sqrt(squared), expected, rtol=1e-12)
    lengths = np.linalg.norm(rows[i] - rows[j], axis=1)
    np.testing.assert_allclose(np.sqrt(squared), lengths, rtol=1e-12)


@pytest.mark.parametrize("n_neighbors", [1, 3, 30])
def test_tree_does_not_depend_on_the_lists(n_neighbors):
    rows = _rows(80, 2, "two")
    for a, b in zip(_tree(rows, 79), _tree(rows, n_neighbors), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("n", "d", "kind"), CASES)
@pytest.mark.parametrize("share", [0.05, 0.1, 0.6, 1.0])
def test_levels_are_where_the_clusters_reach_the_mass(n, d, kind, share):
    rows = _rows(n, d, kind)
    mass = min(n, max(2, int(np.ceil(share * n))))
    levels = np.sqrt(_robust.mass_levels(*_tree(rows), n, mass))
    merges = linkage(rows, "single")
    expected = np.full(n, np.inf)
    for height in merges[:, 2]:
        label = fcluster(merges, height * (1 + 1e-12) + 1e-300, "distance")
        large = np.bincount(label)[label] >= mass
        expected[large] = np.minimum(expected[large], height)
    np.testing.assert_allclose(levels, expected, rtol=2e-7)


@pytest.mark.parametrize(("n", "d", "kind"), CASES)
def test_reach_is_the_brute_force_minimum(n, d, kind):
    rows = _rows(n, d, kind)
    mass = max(2, n // 10)
    levels = _robust.mass_levels(*_tree(rows), n, mass)
    queries = np.r_[3 * np.random.RandomState(1).randn(50, d) + rows[0], rows]
    drop = np.r_[np.full(50, -1), np.arange(n)]
    squared = cdist(queries, rows, "sqeuclidean")
    squared[np.arange(50, 50 + n), np.arange(n)] = np.inf
    expected = np.maximum(squared, levels).min(1)
    reach = _robust.mass_reach(_search(rows), queries, levels, drop)
    np.testing.assert_allclose(reach, expected, rtol=2e-7)
    # A row that is left out comes back at the level that it has.
    np.testing.assert_array_equal(reach[50:], levels)


def test_reach_depends_on_no_batch():
    rows = _rows(400, 6, "two")
    levels = _robust.mass_levels(*_tree(rows), 400, 40)
    queries = np.random.RandomState(1).randn(100, 6) * 2
    none = np.full(100, -1)
    whole = _robust.mass_reach(_search(rows), queries, levels, none)
    single = [
        _robust.mass_reach(_search(rows), q[None], levels, none[:1])[0] for q in queries
    ]
    np.testing.assert_array_equal(whole, single)


def test_combination_never_lowers_the_skeleton_distance():
    rng = np.random.RandomState(0)
    parts = [rng.lognormal(size=200) for _ in range(3)]
    ranges = [_robust.typical_range(p) for p in parts]
    together = _robust.combined(parts, ranges)
    assert (together >= parts[0]).all()
    alone = _robust.combined([parts[0], parts[1] * 0, parts[2] * 0], ranges)
    np.testing.assert_array_equal(alone, parts[0])
    high = [parts[0], parts[1] + 1e6, parts[2]]
    assert (_robust.combined(high, ranges) > together).all()


def test_conversion_keeps_the_place_in_the_range_and_grows_in_proportion():
    typical, target = (2.0, 0.5), (30.0, 3.0)
    for margin in (0.0, 0.6):
        places = np.array([-2.0, -0.3, 0.0, 1.0])
        x = 2.0 * np.exp(0.5 * (places + margin))
        expected = 30.0 * np.exp(3.0 * places)
        y = _robust.converted(x, typical, margin, target)
        np.testing.assert_allclose(y, expected, rtol=1e-12)
        far = _robust.converted(1e6 * x[-1:], typical, margin, target)
        np.testing.assert_allclose(far, 1e6 * y[-1:], rtol=1e-9)
    assert _robust.converted(np.zeros(1), typical, 0.3, target) == 0


def test_wild_training_rows_leave_scores_of_a_sensible_size():
    rng = np.random.RandomState(0)
    X = rng.randn(500, 4)
    X[:20] = -99999.0
    detector = DVMAnomalyDetector(robust=True).fit(X)
    normal, far = detector.score_samples(X[20:]), detector.score_samples([[8.0] * 4])
    assert np.median(normal) < -1e-7
    assert far < normal.min()
    assert (detector.predict(X[:20]) == -1).all()


def test_typical_range_of_nothing_typical():
    assert _robust.typical_range(np.zeros(5)) == (1.0, 1.0)
    assert _robust.typical_range(np.full(5, 3.0)) == (3.0, 1.0)


@pytest.fixture(scope="module")
def clump():
    """A normal cloud; 5 % of the training rows are a tight clump of anomalies."""
    rng = np.random.RandomState(0)
    normal, odd = rng.randn(600, 4), 0.05 * rng.randn(60, 4) + 3.5
    train = np.r_[normal[:380], odd[:20]]
    test = np.r_[normal[380:], odd[20:]]
    return train, test, np.arange(len(test)) >= 220


def test_a_clump_is_no_alibi(clump):
    train, test, odd = clump
    auroc = {
        robust: roc_auc_score(
            odd, -DVMAnomalyDetector(robust=robust).fit(train).score_samples(test)
        )
        for robust in (False, True)
    }
    assert auroc[True] > 0.99
    assert auroc[False] < 0.6


def test_a_clump_of_more_than_a_tenth_counts_as_normal(clump):
    train, test, odd = clump
    few = DVMAnomalyDetector(robust=True).fit(train).training_scores_
    many = DVMAnomalyDetector(robust=True).fit(np.r_[train, test[odd]]).training_scores_
    assert np.median(few[380:]) < np.quantile(few[:380], 0.02)  # 20 of 400 rows
    assert np.median(many[380:]) > np.quantile(many[:380], 0.25)  # 60 of 440 rows


@pytest.mark.parametrize("metric_blocks", ["both", "structure", "joint"])
@pytest.mark.parametrize("edge_penalty", [0.0, 0.9])
def test_training_scores_come_back(clump, metric_blocks, edge_penalty):
    train = np.r_[clump[0], clump[0][:7]]  # some rows twice
    detector = DVMAnomalyDetector(
        robust=True, metric_blocks=metric_blocks, edge_penalty=edge_penalty
    ).fit(train)
    np.testing.assert_array_equal(
        detector.score_samples(train), detector.training_scores_
    )
    single = [detector.score_samples(row[None])[0] for row in train[:40]]
    np.testing.assert_allclose(single, detector.training_scores_[:40], rtol=1e-12)


def test_column_units_do_not_matter(clump):
    train, test, _ = clump
    factor, offset = np.array([1e-3, 2.0, -1e4, 1.0]), np.array([5.0, 0.0, 1e3, -7.0])
    a = DVMAnomalyDetector(robust=True).fit(train).score_samples(test)
    changed = DVMAnomalyDetector(robust=True).fit(train * factor + offset)
    np.testing.assert_allclose(changed.score_samples(test * factor + offset), a, 1e-6)


def test_partial_fit_learns_again_when_the_memory_has_doubled(clump):
    train, test, _ = clump
    stream = DVMAnomalyDetector(robust=True)
    for part in (train[::2][:100], train[1::2][:60], train[200:]):
        stream.partial_fit(part)
    seen = np.r_[train[::2][:100], train[1::2][:60], train[200:]]
    whole = DVMAnomalyDetector(robust=True).fit(seen)
    np.testing.assert_array_equal(stream.score_samples(test), whole.score_samples(test))


def test_between_refreshes_new_rows_join_at_the_radius_they_reach(clump):
    train, _, _ = clump
    detector = DVMAnomalyDetector(robust=True).fit(train[:300])
    levels, Z = detector._levels, detector._matcher.rows
    detector.partial_fit(train[300:])
    new = detector._matcher.rows[300:]
    expected = np.maximum(cdist(new, Z, "sqeuclidean"), levels).min(1)
    np.testing.assert_array_equal(detector._levels[:300], levels)
    np.testing.assert_allclose(detector._levels[300:], expected, rtol=2e-7)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((6, 3)),
        np.arange(4.0).reshape(2, 2),
        np.random.RandomState(0).randn(5, 40),
        np.repeat(np.random.RandomState(0).randn(4, 2), 25, axis=0),
        np.random.RandomState(0).randn(30, 2) * [1e-150, 1e150],
    ],
    ids=["equal rows", "two rows", "wide", "duplicates", "scales"],
)
def test_degenerate_rows_give_finite_scores(X):
    detector = DVMAnomalyDetector(robust=True).fit(X)
    for scores in (detector.training_scores_, detector.score_samples(X + X.std())):
        assert np.isfinite(scores).all()
        assert (scores <= 0).all()
