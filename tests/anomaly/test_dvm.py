"""DVMAnomalyDetector: the specification's checks, and every parameter."""

import math
import pickle
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from skmethods import DVMAnomalyDetector
from skmethods.anomaly import _neighbours

PLAIN = {"metric_blocks": "structure", "edge_penalty": 0}
KINDS = [
    {},
    {"metric_blocks": "structure"},
    {"metric_blocks": "joint"},
    {"search": "exact"},
    {"edge_penalty": 0},
    {"metric_blocks": "joint", "edge_penalty": 0},
    PLAIN,
]
ids = {"ids": lambda kw: ",".join(map(str, kw.values())) or "default"}


def cloud(n=80, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d))


def queries(X, seed=1):
    """Ordinary rows, far rows, rows of X."""
    rng = np.random.default_rng(seed)
    far = 3 * X.std(0) * rng.standard_normal((10, X.shape[1]))
    return np.r_[cloud(20, X.shape[1], seed), far, X[:5]]


# -- an independent implementation, loops and differences only -------------------------


def slow_knn(M, K):
    n = len(M)
    D = np.array([[((a - b) ** 2).sum() for b in M] for a in M])
    D[np.arange(n), np.arange(n)] = np.inf
    order = np.argsort(D, axis=1, kind="stable")[:, : min(K, n - 1)]
    return order, D


def slow_skeleton(M, y, lost, K, penalty, exact, graph):
    order, length = graph
    D = ((M - y) ** 2).sum(1)
    if lost is not None:
        D[lost] = np.inf
    best = D.min()
    if penalty == 0:
        return best
    near = np.argsort(D, kind="stable")[: len(M) if exact else min(20, len(M) - 1)]
    for i in near:
        for j in order[i]:
            L = length[i, j]
            if L == 0 or not np.isfinite(D[i]) or not np.isfinite(D[j]):
                continue
            t = (D[i] - D[j] + penalty * L) / (2 * penalty * L)
            if 0 < t < 1:
                best = min(best, D[i] - penalty * t**2 * L)
    return max(best, 0.0)


def slow_metric(Z, K):
    order, _ = slow_knn(Z, K)
    n, d = Z.shape
    S = np.zeros((d, d))
    for i in range(n):
        for j in order[i]:
            S += np.outer(Z[i] - Z[j], Z[i] - Z[j]) / (2 * n * order.shape[1])
    S += 0.01 * (np.trace(S) / d or 1.0) * np.eye(d)
    w, V = np.linalg.eigh(S)
    return V / np.sqrt(w)  # another root of inv(S) than the estimator's


def slow_scores(
    X, Y, *, K=10, metric_blocks="both", edge_penalty=0.9, search="local", frozen=None
):
    """Raw distances of Y, given training rows X; `frozen` rows made the metric."""
    first = X if frozen is None else frozen
    mean, std = first.mean(0), first.std(0)
    Z, Q, first = ((a - mean) / std for a in (X, Y, first))
    lost = [next(iter(np.flatnonzero((X == y).all(1))), None) for y in Y]

    def scale(M):
        nearest = slow_knn(M, 1)[1].min(1)
        return np.sqrt(np.median(nearest[nearest > 0])) if nearest.any() else 1.0

    if metric_blocks == "structure":
        parts = [(Z, Q, 2 / scale(first) ** 2)]
    else:
        P = slow_metric(first, K)
        f, g = scale(first), scale(first @ P)
        parts = [(Z, Q, 2 / f**2), (Z @ P, Q @ P, 1 / g**2)]
        if metric_blocks == "joint":
            joint = (np.hstack([a * np.sqrt(2) / f, a @ P / g]) for a in (Z, Q))
            parts = [(*joint, 1.0)]
    total = np.zeros(len(Y))
    for M, V, weight in parts:
        graph = slow_knn(M, K)
        exact = search == "exact"
        total += weight * np.array(
            [
                slow_skeleton(M, y, i, K, edge_penalty, exact, graph)
                for y, i in zip(V, lost, strict=True)
            ]
        )
    return np.sqrt(total)


@pytest.mark.parametrize("kw", KINDS, **ids)
@pytest.mark.parametrize("K", [1, 3, 10])
def test_scores_by_brute_force(kw, K):
    X = cloud(60)
    Y = queries(X)
    detector = DVMAnomalyDetector(n_neighbors=K, **kw).fit(X)
    unit = slow_scores(X, X, K=K, **kw).max()
    assert_allclose(detector.score_samples(Y), -slow_scores(X, Y, K=K, **kw) / unit)
    assert_allclose(detector.training_scores_, -slow_scores(X, X, K=K, **kw) / unit)
    assert_allclose(detector.scale_max_, unit)


# -- acceptance checks 3, 4, 5 ---------------------------------------------------------


def test_plain_mode_is_nearest_neighbour():
    X = cloud()
    Y = queries(X)[:-5]
    scaler = StandardScaler().fit(X)
    nearest = NearestNeighbors(n_neighbors=1).fit(scaler.transform(X))
    distance = nearest.kneighbors(scaler.transform(Y))[0][:, 0]
    detector = DVMAnomalyDetector(**PLAIN).fit(X)
    ours = -detector.score_samples(Y) * detector.scale_max_
    assert_allclose(ours, math.sqrt(2) * distance / detector.block_scales_[0])
    loo = nearest.kneighbors()[0][:, 0]
    assert_allclose(detector.training_scores_, -loo / loo.max())
    assert_allclose(detector.block_scales_, np.median(loo))


def test_skeleton_is_never_farther_than_the_rows():
    X = cloud()
    Y = queries(X)
    raw = {}
    for penalty in (0, 0.3, 0.9, 1):
        kw = {"edge_penalty": penalty, "search": "exact"}
        detector = DVMAnomalyDetector(**kw).fit(X)
        raw[penalty] = -detector.score_samples(Y) * detector.scale_max_
    for more, less in ((1, 0.9), (0.9, 0.3), (0.3, 0)):
        assert np.all(raw[more] <= raw[less] * (1 + 1e-14))
    assert np.min(raw[1] / raw[0]) < 0.8


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_training_rows_are_scored_without_themselves(kw):
    X = np.r_[cloud(300), cloud(300)[:20]]  # some of them twice
    detector = DVMAnomalyDetector(**kw).fit(X)
    whole = detector.score_samples(X)
    assert_allclose(whole, detector.training_scores_, rtol=1e-12, atol=0)
    single = np.concatenate([detector.score_samples(x[None]) for x in X[::7]])
    assert_allclose(single, detector.training_scores_[::7], rtol=1e-12, atol=0)
    assert_array_equal(whole[:20], 0)  # duplicates
    assert_array_equal(whole[300:], 0)
    assert np.all(whole[20:300] < 0)


def test_a_row_next_to_a_training_row_is_not_that_row():
    X = cloud()
    detector = DVMAnomalyDetector().fit(X)
    near = X + 1e-9
    assert np.all(detector.score_samples(near) > -1e-6)
    assert np.all(detector.score_samples(X) < -1e-3)


def test_zeros_of_either_sign_are_equal():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [-3.0, -3.0]])
    detector = DVMAnomalyDetector().fit(X)
    X[0, 0] = -0.0
    assert_array_equal(detector.score_samples(X), detector.training_scores_)


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_fit_predict(kw):
    X = cloud()
    detector = DVMAnomalyDetector(contamination=0.2, **kw)
    assert_array_equal(detector.fit_predict(X), detector.fit(X).predict(X))


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_columns_may_be_rescaled_and_shifted(kw):
    X = cloud()
    Y = queries(X)
    a, b = np.array([3.0, -0.01, 1e5, 7.0]), np.array([1.0, -5.0, 0.0, 1e3])
    one, two = DVMAnomalyDetector(**kw).fit(X), DVMAnomalyDetector(**kw).fit(X * a + b)
    # Rows of X excepted: rounding makes them other rows.
    assert_allclose(one.training_scores_, two.training_scores_, rtol=1e-9)
    assert_allclose(
        one.score_samples(Y[:-5]), two.score_samples(Y[:-5] * a + b), rtol=1e-9
    )


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_powers_of_two_change_no_bit(kw):
    X = cloud()
    a = np.array([4.0, 0.5, 2.0**100, 2.0**-300])
    one, two = DVMAnomalyDetector(**kw).fit(X), DVMAnomalyDetector(**kw).fit(X * a)
    assert_array_equal(one.score_samples(X), two.score_samples(X * a))


# -- thresholds ------------------------------------------------------------------------


def test_contamination_is_a_share_of_the_training_rows():
    X = cloud(300)
    for share in (0.1, 0.25):
        detector = DVMAnomalyDetector(contamination=share).fit(X)
        assert (detector.predict(X) == -1).sum() == 300 * share
    auto = DVMAnomalyDetector().fit(X)
    assert auto.offset_ == np.percentile(auto.training_scores_, 5)
    assert_array_equal(auto.training_scores_, detector.training_scores_)


def test_decision_and_probability():
    X = cloud()
    Y = queries(X)
    detector = DVMAnomalyDetector().fit(X)
    score = detector.score_samples(Y)
    assert_array_equal(detector.decision_function(Y), score - detector.offset_)
    assert_array_equal(detector.predict(Y), np.where(score >= detector.offset_, 1, -1))
    assert_array_equal(detector.anomaly_probability(Y), np.minimum(-score, 1))
    assert score.min() < -1 and detector.anomaly_probability(Y).max() == 1
    assert detector.training_scores_.min() == -1 and detector.training_scores_.max() < 0


# -- parameters ------------------------------------------------------------------------


def test_local_search_is_close_to_the_exact_one():
    local, exact = (
        DVMAnomalyDetector(metric_blocks="structure", search=search)
        for search in ("local", "exact")
    )
    # All other rows are among the twenty nearest.
    few = [-e.fit(cloud(21)).training_scores_ * e.scale_max_ for e in (local, exact)]
    assert_allclose(*few, rtol=1e-12)
    X = cloud(400)
    Y = queries(X)
    a, b = (-e.fit(X).score_samples(Y) * e.scale_max_ for e in (local, exact))
    assert np.all(b <= a * (1 + 1e-14)) and np.any(b < a)
    assert_allclose(a, b, rtol=0.2)


def test_reference_orders_directions_and_changes_no_score():
    X = cloud()
    Y = queries(X)
    largest, mean = (DVMAnomalyDetector(reference=r).fit(X) for r in ("max", "mean"))
    assert_allclose(largest.score_samples(Y), mean.score_samples(Y), rtol=1e-9)
    scaled = StandardScaler().fit_transform(X)
    assert_allclose(largest.reference_point_, scaled.max(0))
    assert_allclose(mean.reference_point_, 0, atol=1e-14)
    assert not np.allclose(largest.eigenvalues_, mean.eigenvalues_)
    assert not np.allclose(largest.transform(Y), mean.transform(Y))
    assert largest.ratio_ < mean.ratio_ == 1


def test_scaling_none_keeps_the_units():
    X = cloud() * [1, 1, 1, 1000]
    detector = DVMAnomalyDetector(scaling="none", **PLAIN).fit(X)
    loo = NearestNeighbors().fit(X).kneighbors(n_neighbors=1)[0][:, 0]
    assert_allclose(detector.training_scores_, -loo / loo.max())
    again = DVMAnomalyDetector(scaling="none").fit(X * 1e-3)
    assert_allclose(
        again.training_scores_,
        DVMAnomalyDetector(scaling="none").fit(X).training_scores_,
    )


@pytest.mark.parametrize("kw", [k for k in KINDS if "search" not in k], **ids)
def test_faiss_gives_the_same_scores(kw):
    pytest.importorskip("faiss")
    X, _ = make_blobs(500, 12, centers=5, random_state=0)
    Y = np.r_[make_blobs(100, 12, centers=5, random_state=0)[0] + 0.5, X[:20]]
    ours = DVMAnomalyDetector(**kw).fit(X)
    theirs = DVMAnomalyDetector(backend="faiss", **kw).fit(X)
    assert_allclose(theirs.score_samples(Y), ours.score_samples(Y), rtol=1e-9)
    assert_allclose(theirs.training_scores_, ours.training_scores_, rtol=1e-9)
    assert_allclose(theirs.offset_, ours.offset_, rtol=1e-9)


def test_faiss_serves_plain_mode_whatever_the_search(monkeypatch):
    pytest.importorskip("faiss")
    called = []
    run = _neighbours.RowSearch._run_faiss
    monkeypatch.setattr(
        _neighbours.RowSearch,
        "_run_faiss",
        lambda self, *args: called.append(1) or run(self, *args),
    )
    X = cloud()
    detector = DVMAnomalyDetector(**PLAIN, search="exact", backend="faiss").fit(X)
    scores = detector.score_samples(queries(X))
    assert called
    plain = DVMAnomalyDetector(**PLAIN).fit(X)
    assert_array_equal(scores, plain.score_samples(queries(X)))


def test_faiss_has_no_exact_search():
    with pytest.raises(ValueError, match=r"search='exact'.*backend='torch'"):
        DVMAnomalyDetector(backend="faiss", search="exact").fit(cloud())


def test_batch_size_bounds_the_tiles(monkeypatch):
    seen = []
    init = _neighbours._Tile.__init__

    def spy(self, search, Y, *args, **kw):
        seen.append(len(Y))
        init(self, search, Y, *args, **kw)

    monkeypatch.setattr(_neighbours._Tile, "__init__", spy)
    X = cloud(100)
    scores = []
    for batch_size, largest in ((None, 100), (7, 7), (1, 1)):
        seen.clear()
        detector = DVMAnomalyDetector(batch_size=batch_size).fit(X)
        scores.append(detector.score_samples(X))
        assert max(seen) == largest
    assert_allclose(scores[1], scores[0], rtol=1e-12)
    assert_allclose(scores[2], scores[0], rtol=1e-12)


def test_device_that_does_not_exist():
    with pytest.raises(ValueError, match="device='cuda:99'"):
        DVMAnomalyDetector(device="cuda:99").fit(cloud())
    fitted = DVMAnomalyDetector().fit(cloud())
    new = queries(cloud())
    scores = fitted.score_samples(new)
    with pytest.warns(UserWarning, match="runs on the CPU"):
        moved = fitted.set_params(device="cuda:99").score_samples(new)
    assert_array_equal(moved, scores)


def test_parameters_changed_after_fit_do_no_harm():
    X = cloud()
    new = queries(X)
    for kw in ({}, {"search": "exact"}):
        detector = DVMAnomalyDetector(**kw).fit(X)
        before = detector.score_samples(new)
        detector.set_params(
            metric_blocks="structure", edge_penalty=0, n_neighbors=2, scaling="none"
        )
        other = {"local": "exact", "exact": "local"}[detector.search]
        detector.set_params(search=other, robust=True, backend="faiss")
        assert_array_equal(detector.score_samples(new), before)
    assert detector.transform(X).shape == X.shape


# -- transform -------------------------------------------------------------------------


def test_coordinates_carry_the_joint_metric():
    X = cloud()
    detector = DVMAnomalyDetector().fit(X)
    T = detector.transform(X)
    Z = StandardScaler().fit_transform(X)
    P = slow_metric(Z, 10)

    def distances(M):
        return ((M[:, None] - M) ** 2).sum(-1)

    unit = detector.block_scales_[1] ** 2
    assert_allclose(distances(T) * unit, distances(Z @ P), rtol=1e-9, atol=1e-9)
    nearest = np.sort(distances(T) + np.diag([np.inf] * len(X)), axis=1)[:, 0]
    assert_allclose(np.median(nearest**0.5), 1)
    assert detector.get_feature_names_out()[0] == "dvmanomalydetector0"


def test_first_coordinates_keep_structure():
    """Groups that differ along one axis, local noise along the others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    X[:, 1] = np.repeat([-1, 1], 100) + 0.01 * X[:, 1]
    detector = DVMAnomalyDetector().fit(X)
    assert np.abs(detector.components_[0]).argmax() == 1
    assert detector.eigenvalues_[0] < 0.2 * detector.eigenvalues_[1]


def test_structure_learns_no_directions():
    X = cloud()
    detector = DVMAnomalyDetector().fit(X).set_params(metric_blocks="structure").fit(X)
    Z = StandardScaler().fit_transform(X)
    assert_allclose(detector.transform(X), Z / detector.block_scales_[0], atol=1e-13)
    for name in ("components_", "eigenvalues_", "ratio_", "reference_point_"):
        assert not hasattr(detector, name)


# -- hard data -------------------------------------------------------------------------


@pytest.mark.parametrize("kw", KINDS, **ids)
@pytest.mark.parametrize("size", [1e-310, 1e-150, 1e-8, 1e8, 1e150, 1e300])
def test_any_unit(kw, size):
    X = cloud()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = DVMAnomalyDetector(**kw).fit(X).training_scores_
        scaled = DVMAnomalyDetector(**kw).fit(X * size)
        assert_allclose(
            scaled.training_scores_, ours, rtol=1e-9 if size > 1e-300 else 0.1
        )
        far = scaled.score_samples(np.array([[1e308] * 4, [0.0] * 4, [-5e-324] * 4]))
    assert np.isfinite(far).all()


def test_offset():
    X = np.round(cloud() * 1e4) / 1e4
    ours = DVMAnomalyDetector().fit(X).training_scores_
    assert_allclose(DVMAnomalyDetector().fit(X + 1e6).training_scores_, ours, rtol=1e-4)


def test_far_queries_keep_their_order():
    detector = DVMAnomalyDetector().fit(cloud())
    far = np.outer([1e3, 1e10, 1e29, 1e31, 1e60, 1e150], np.ones(4))
    scores = detector.score_samples(far)
    assert np.all(np.diff(scores) < 0)
    assert_allclose(scores[1:] / scores[1], far[1:, 0] / far[1, 0], rtol=1e-6)


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_equal_rows(kw):
    X = np.full((12, 3), 0.1)
    detector = DVMAnomalyDetector(**kw).fit(X)
    assert_array_equal(detector.training_scores_, 0)
    scores = detector.score_samples([[0.1, 0.1, 0.1], [0.1, 0.1, 5.0]])
    assert scores[0] == 0 > scores[1]


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_two_rows(kw):
    detector = DVMAnomalyDetector(**kw).fit([[0.0, 1.0], [1.0, 3.0]])
    assert_allclose(detector.training_scores_, -1)
    assert np.isfinite(detector.score_samples([[0.5, 2.0], [9.0, 9.0]])).all()


def test_one_row_is_an_error():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        DVMAnomalyDetector().fit([[0.0, 1.0]])


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_more_columns_than_rows(kw):
    X = cloud(15, 60)
    detector = DVMAnomalyDetector(**kw).fit(X)
    assert_allclose(detector.score_samples(X), detector.training_scores_, rtol=1e-11)
    Y = cloud(5, 60, seed=3)
    unit = slow_scores(X, X, **kw).max()
    assert_allclose(
        detector.score_samples(Y), -slow_scores(X, Y, **kw) / unit, rtol=1e-6
    )


def test_constant_columns_do_not_matter():
    X = cloud()
    wider = np.c_[X, np.full(len(X), 0.1), np.zeros(len(X))]
    a, b = (DVMAnomalyDetector(**PLAIN).fit(x) for x in (X, wider))
    assert_allclose(a.training_scores_, b.training_scores_)
    assert_array_equal(b.scale_[-2:], 1)
    moved = wider.copy()
    moved[:, -1] = 3.0
    assert np.all(b.score_samples(moved) < b.training_scores_)


def test_callers_rows_are_copied():
    X = cloud()
    detector = DVMAnomalyDetector().fit(X)
    before = X.copy()
    scores = detector.score_samples(before)
    X[:] = 0
    assert_array_equal(detector.score_samples(before), scores)
    detector.partial_fit(before)  # learns again from all rows
    expected = DVMAnomalyDetector().fit(np.r_[before, before])
    assert_array_equal(detector.training_scores_, expected.training_scores_)


def test_float32_rows():
    X = cloud().astype(np.float32)
    single, double = (DVMAnomalyDetector().fit(a) for a in (X, X.astype(np.float64)))
    assert_array_equal(single.training_scores_, double.training_scores_)
    assert single.score_samples(X).dtype == np.float64


# -- partial_fit -----------------------------------------------------------------------


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_partial_fit_is_fit_when_the_memory_has_doubled(kw):
    X = cloud(160)
    Y = queries(X)
    detector = DVMAnomalyDetector(**kw)
    for start, stop in ((0, 10), (10, 20), (20, 45), (45, 80), (80, 160)):
        detector.partial_fit(X[start:stop])
    fitted = DVMAnomalyDetector(**kw).fit(X)
    assert_array_equal(detector.score_samples(Y), fitted.score_samples(Y))
    assert_array_equal(detector.training_scores_, fitted.training_scores_)
    assert detector.offset_ == fitted.offset_


@pytest.mark.parametrize("kw", KINDS, **ids)
@pytest.mark.parametrize("first", [8, 50])
def test_partial_fit_in_between_by_brute_force(kw, first):
    """The metric is that of the first rows; memory and skeleton are of all rows."""
    X = cloud(2 * first - 1)
    detector = DVMAnomalyDetector(**kw).fit(X[:first])
    unit = detector.scale_max_
    detector.partial_fit(X[first : first + 4])
    arrived = detector.training_scores_.copy()
    detector.partial_fit(X[first + 4 :])
    assert detector.scale_max_ == unit
    Y = queries(X)
    expected = slow_scores(X, Y, frozen=X[:first], **kw) / unit
    assert_allclose(detector.score_samples(Y), -expected)
    # Scores on arrival; the last ones are those of now.
    assert_array_equal(detector.training_scores_[: first + 4], arrived)
    last = detector.score_samples(X[first + 4 :])
    assert_allclose(detector.training_scores_[first + 4 :], last, rtol=1e-12)
    assert detector.offset_ == np.percentile(detector.training_scores_, 5)


def test_partial_fit_row_by_row():
    X = cloud(40)
    detector = DVMAnomalyDetector().partial_fit(X[:2])
    for x in X[2:]:
        detector.partial_fit(x[None])
    assert len(detector.training_scores_) == 40
    frozen = X[:32]
    expected = slow_scores(X, queries(X), frozen=frozen) / detector.scale_max_
    assert_allclose(detector.score_samples(queries(X)), -expected)


def test_partial_fit_needs_two_rows_first_and_the_same_columns():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        DVMAnomalyDetector().partial_fit([[1.0, 2.0]])
    detector = DVMAnomalyDetector().fit(cloud())
    with pytest.raises(ValueError, match="expecting 4 features"):
        detector.partial_fit(cloud(d=3))
    assert_array_equal(detector.score_samples(cloud()), detector.training_scores_)


def test_partial_fit_of_an_absurd_row_learns_again():
    X = cloud()
    detector = DVMAnomalyDetector().fit(X).partial_fit(np.full((1, 4), 1e100))
    expected = DVMAnomalyDetector().fit(np.r_[X, np.full((1, 4), 1e100)])
    assert_array_equal(detector.training_scores_, expected.training_scores_)


@pytest.mark.parametrize("kw", KINDS, **ids)
def test_partial_fit_of_an_extreme_row_between_refreshes(kw):
    X, extreme = cloud(50), np.full((1, 4), 1e20)
    detector = DVMAnomalyDetector(**kw).fit(X)
    far = detector.score_samples(extreme)
    detector.partial_fit(extreme)
    assert detector.training_scores_[-1] <= -0.99  # learned again, or as far as before
    assert detector.predict(extreme) == -1
    assert far < -1e15


@pytest.mark.parametrize("spread", [1e7, 1e9, 1e12])
def test_local_scatter_is_not_lost_beside_a_vast_whole(spread):
    """Rows with a sentinel: the metric is that of the local scatter all the same."""
    X = cloud(500)
    X[::25] = -spread
    detector = DVMAnomalyDetector().fit(X)
    Z = (X - detector.mean_) / detector.scale_
    near = NearestNeighbors(n_neighbors=11).fit(Z).kneighbors(Z)[1]
    odd = np.zeros(500, dtype=bool)
    odd[::25] = True
    assert odd[near[odd]].all()  # sentinels are each other's neighbours
    E = Z[~odd, None] - Z[near[~odd, 1:]]
    S = np.einsum("nki,nkj->ij", E, E) / (2 * 500 * 10)
    S += 0.01 * np.trace(S) / 4 * np.eye(4)
    P = detector.components_
    assert_allclose(P @ S @ P.T, np.eye(4), atol=1e-6)


def test_single_rows_are_predicted_as_in_a_batch():
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(101, 3))  # the threshold is a row
        detector = DVMAnomalyDetector().fit(X)
        single = [detector.predict(row[None])[0] for row in X]
        assert_array_equal(single, detector.predict(X))


@pytest.mark.parametrize("call", ["fit", "partial_fit", "fit_predict"])
def test_copies_of_all_rows_are_worth_a_warning(call):
    X = np.repeat(cloud(), 2, axis=0)
    with pytest.warns(UserWarning, match=r"occur more than once") as caught:
        getattr(DVMAnomalyDetector(), call)(X)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(DVMAnomalyDetector(), call)(np.r_[X[::2], X[:40:2]])


def test_fit_forgets():
    X = cloud()
    detector = DVMAnomalyDetector().fit(X).partial_fit(X[:10] + 1).fit(X)
    assert_array_equal(
        detector.training_scores_, DVMAnomalyDetector().fit(X).training_scores_
    )


# -- the rest --------------------------------------------------------------------------


def test_not_fitted():
    for method in ("score_samples", "predict", "transform", "anomaly_probability"):
        with pytest.raises(NotFittedError):
            getattr(DVMAnomalyDetector(), method)(cloud())


def test_pickle_after_partial_fit_goes_on():
    X = cloud(100)
    detector = DVMAnomalyDetector().partial_fit(X[:40])
    loaded = pickle.loads(pickle.dumps(detector))
    a, b = (d.partial_fit(X[40:70]).score_samples(X) for d in (detector, loaded))
    assert_array_equal(a, b)


@pytest.mark.parametrize("kw", [*KINDS, {"robust": True}], **ids)
def test_memory_mapped_pickle(kw, tmp_path):
    X = cloud(100)
    detector = DVMAnomalyDetector(**kw).fit(X)
    joblib.dump(detector, tmp_path / "detector")
    mapped = joblib.load(tmp_path / "detector", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = mapped.score_samples(X)
        assert_array_equal(scores, detector.score_samples(X))
        after = mapped.partial_fit(X[:9] + 1).score_samples(X)
    assert_array_equal(after, detector.partial_fit(X[:9] + 1).score_samples(X))


def test_finds_tumours():
    """Trained on benign rows: beyond plain distance to the mean, as a sanity check."""
    X, y = load_breast_cancer(return_X_y=True)
    train, test = X[y == 1][::2], np.r_[X[y == 1][1::2], X[y == 0]]
    odd = np.r_[np.zeros(len(X[y == 1][1::2])), np.ones((y == 0).sum())]
    for kw in ({}, {"metric_blocks": "joint"}):
        scores = DVMAnomalyDetector(**kw).fit(train).score_samples(test)
        assert roc_auc_score(odd, -scores) > 0.93


@pytest.mark.gpu
@pytest.mark.parametrize("kw", KINDS, **ids)
def test_gpu_gives_the_same_scores(kw):
    X = cloud(3000, 12)
    Y = queries(X)
    cpu = DVMAnomalyDetector(**kw).fit(X)
    gpu = DVMAnomalyDetector(device="cuda", **kw).fit(X)
    assert_allclose(gpu.score_samples(Y), cpu.score_samples(Y), rtol=1e-9)
    assert_allclose(gpu.training_scores_, cpu.training_scores_, rtol=1e-9)
