"""ECSELClassifier: what it learns, says about it, and writes."""

import ast
import operator
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmethods import ECSELClassifier
from tests._checks import checks
from tests._instances import Entry, two_blobs

LOADERS = {2: load_breast_cancer, 3: load_iris}


def data(n_classes, columns=6):
    X, y = LOADERS[n_classes](return_X_y=True)
    return X[:, :columns], y


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y = data(request.param)
    return ECSELClassifier(l1=1e-3).fit(X, y), X, y


def logs(clf, X):
    """Logarithms of the mapped rows, from the public attributes."""
    low, high = clf.feature_range
    return np.log(low + (high - low) * (X - clf.scale_min_) / clf.scale_range_)


def rows_at(clf, L):
    """The inverse of ``logs``."""
    low, high = clf.feature_range
    return clf.scale_min_ + (np.exp(L) - low) * clf.scale_range_ / (high - low)


def scores(clf, X):
    """(n, n_scores)."""
    return clf.decision_function(X).reshape(len(X), -1)


def inner_rows(X, n=25):
    """Rows strictly inside the training range."""
    rng = np.random.default_rng(0)
    low, high = X.min(axis=0), X.max(axis=0)
    return low + (high - low) * rng.uniform(0.05, 0.95, size=(n, X.shape[1]))


def differences(clf, X, function, step=1e-5):
    L, found = logs(clf, X), []
    for j in range(X.shape[1]):
        h = np.zeros(X.shape[1])
        h[j] = step
        up, down = (function(rows_at(clf, L + s * h)) for s in (1, -1))
        found.append((up - down) / (2 * step))
    return np.stack(found, axis=-1)


# -- what the attributes mean ----------------------------------------------------------


def test_scores_from_the_public_attributes(fitted):
    clf, X, _ = fitted
    terms = clf.coef_ * np.exp(np.einsum("ckj,nj->nck", clf.exponents_, logs(clf, X)))
    assert np.allclose(terms, clf.terms(X), rtol=1e-10, atol=1e-12)
    assert np.allclose(terms.sum(axis=2) + clf.intercept_, scores(clf, X), atol=1e-9)


def test_shapes(fitted):
    clf, X, y = fitted
    n_classes, (n, m) = len(np.unique(y)), X.shape
    C = 1 if n_classes == 2 else n_classes
    assert clf.exponents_.shape == (C, 2, m) and clf.coef_.shape == (C, 2)
    assert clf.intercept_.shape == (C,) and clf.importances_.shape == (C, m)
    assert clf.terms(X).shape == (n, C, 2)
    assert clf.decision_function(X).shape == ((n,) if C == 1 else (n, C))
    for values in (clf.log_gradient(X), clf.elasticity(X), clf.attribute(X)):
        assert values.shape == (n, C, m)
    assert clf.log_gradient(X, kind="probability").shape == (n, n_classes, m)


def test_exact_zeros_and_sparsity(fitted):
    clf, _, _ = fitted
    zeros = (clf.exponents_ == 0).sum()
    assert 0 < zeros < clf.exponents_.size
    assert clf.sparsity_ == zeros / clf.exponents_.size
    nonzero = np.abs(clf.exponents_[clf.exponents_ != 0])
    assert nonzero.min() > 1e-4  # none is nearly zero instead


def test_more_l1_leaves_fewer_exponents():
    X, y = load_breast_cancer(return_X_y=True)
    counts = [
        np.count_nonzero(ECSELClassifier(l1=l1).fit(X, y).exponents_)
        for l1 in (1e-3, 1e-2, 1e-1)
    ]
    assert counts[0] > counts[1] > counts[2] > 0


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("refit", [False, True])
def test_loss_is_the_penalised_cross_entropy(n_classes, refit):
    X, y = data(n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    clf = ECSELClassifier(l1=0.02, l2=0.0, refit_support=refit).fit(X, y, weight)
    loss = log_loss(y, clf.predict_proba(X), sample_weight=weight)
    if not refit:
        loss += 0.02 * np.abs(clf.exponents_).sum()
    assert clf.loss_ == pytest.approx(loss, rel=1e-8)


def test_l2_is_on_the_coefficients_of_centred_terms():
    X, y = data(2)
    clf = ECSELClassifier(l1=0.0, l2=0.1).fit(X, y)
    mean = logs(clf, X).mean(axis=0)
    centred = clf.coef_ * np.exp(clf.exponents_ @ mean)
    loss = log_loss(y, clf.predict_proba(X)) + 0.05 * (centred**2).sum()
    assert clf.loss_ == pytest.approx(loss, rel=1e-8)


def test_importances_are_mean_absolute_log_gradients(fitted):
    clf, X, y = fitted
    mean = np.abs(clf.log_gradient(X)).mean(axis=0)
    assert np.allclose(clf.importances_, mean, rtol=1e-9)
    weight = np.arange(len(X)) % 3
    weighted = ECSELClassifier(l1=1e-3).fit(X, y, weight)
    G = np.abs(weighted.log_gradient(X))
    by_hand = np.average(G, axis=0, weights=weight)
    assert np.allclose(weighted.importances_, by_hand, rtol=1e-9)


def test_refit_support_keeps_the_zeros_and_lowers_the_loss():
    X, y = load_breast_cancer(return_X_y=True)
    sparse = ECSELClassifier(l1=0.03).fit(X, y)
    refitted = ECSELClassifier(l1=0.03, refit_support=True).fit(X, y)
    assert not refitted.exponents_[sparse.exponents_ == 0].any()
    plain, again = (log_loss(y, c.predict_proba(X)) for c in (sparse, refitted))
    assert again < 0.8 * plain


def test_constant_terms_are_in_the_intercept():
    X, y = load_iris(return_X_y=True)
    clf = ECSELClassifier(n_terms=3, l1=0.05).fit(X, y)
    empty = ~clf.exponents_.any(axis=2)
    assert empty.any() and not clf.coef_[empty].any()


def test_no_intercept():
    X, y = data(2)
    clf = ECSELClassifier(fit_intercept=False, l1=1e-3).fit(X, y)
    assert not clf.intercept_.any() and clf.score(X, y) > 0.85


def test_constant_columns_have_no_exponents():
    X, y = data(3)
    wide = np.column_stack([np.full(len(X), 7.0), X, np.zeros(len(X))])
    clf, plain = ECSELClassifier().fit(wide, y), ECSELClassifier().fit(X, y)
    assert not clf.exponents_[:, :, [0, -1]].any()
    # the rows are in another order, so up to what the solver leaves
    assert np.allclose(clf.exponents_[:, :, 1:-1], plain.exponents_, atol=1e-3)
    other = wide.copy()
    other[:, [0, -1]] = [[1e9, -5.0]]
    assert np.array_equal(clf.decision_function(other), clf.decision_function(wide))


def test_columns_without_any_information():
    clf = ECSELClassifier().fit(np.ones((9, 2)), [0, 1, 1] * 3)
    assert np.allclose(clf.predict_proba([[1.0, 1.0]]), [[1 / 3, 2 / 3]], atol=1e-4)


# -- learning --------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_fits_at_least_as_well_as_logistic_regression(load):
    X, y = load(return_X_y=True)
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    ours = ECSELClassifier(l1=1e-4).fit(X, y)
    assert log_loss(y, ours.predict_proba(X)) <= log_loss(y, linear.predict_proba(X))


def test_a_product_is_found():
    """Classes that differ by the ratio of two columns, which no linear score tells."""
    rng = np.random.default_rng(0)
    X = np.exp(rng.uniform(0, np.log(10), size=(400, 4)))
    y = X[:, 0] / X[:, 2] > 1
    clf = ECSELClassifier(n_terms=1).fit(X, y)
    size = np.abs(clf.exponents_[0, 0])
    assert size[[1, 3]].max() < 0.1 * size[[0, 2]].min()
    one, other = clf.exponents_[0, 0, [0, 2]]
    assert one == pytest.approx(-other, rel=0.1)
    assert clf.score(X, y) > 0.97


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("kind", ["strings", "integers"])
def test_any_labels(n_classes, kind):
    X, y = make_classification(
        300, 8, n_informative=6, n_classes=n_classes, random_state=0, class_sep=2
    )
    names = np.random.default_rng(1).permutation(n_classes) * 7 - 3
    labels = names if kind == "integers" else np.array([f"c{v}" for v in names])
    clf = ECSELClassifier(max_iter=100, tol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, labels[y])
    assert np.array_equal(clf.classes_, np.unique(labels))
    p = clf.predict_proba(X)
    assert p.shape == (300, n_classes) and np.allclose(p.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(clf.predict(X), clf.classes_[p.argmax(axis=1)])
    assert clf.score(X, labels[y]) > 0.6
    assert np.allclose(np.log(p), clf.predict_log_proba(X), atol=1e-9)
    if n_classes == 2:
        z = clf.decision_function(X)
        assert np.allclose(p[:, 1], 1 / (1 + np.exp(-z)))


def test_probabilities_at_extreme_rows(fitted):
    clf, X, _ = fitted
    far = np.vstack([X[:3] * f for f in (1e3, -1e3, 1e150, -1e150)])
    far = np.vstack([far, np.full((1, X.shape[1]), np.finfo(float).max)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = clf.predict_proba(far)
        assert np.isfinite(clf.predict_log_proba(far)).all()
        assert np.isfinite(clf.decision_function(far)).all()
    assert np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1)


def test_rows_in_another_order():
    X, y = data(3)
    order = np.random.default_rng(0).permutation(len(X))
    a, b = ECSELClassifier().fit(X, y), ECSELClassifier().fit(X[order], y[order])
    assert np.allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-4)
    assert np.allclose(a.exponents_, b.exponents_, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_in_another_order(n_classes):
    X, y = data(n_classes)
    order = np.random.default_rng(0).permutation(X.shape[1])
    a, b = ECSELClassifier().fit(X, y), ECSELClassifier().fit(X[:, order], y)
    assert np.allclose(a.exponents_[:, :, order], b.exponents_, atol=1e-3)
    assert np.allclose(a.importances_[:, order], b.importances_, atol=1e-3)


def test_units_of_the_columns_do_not_matter():
    X, y = data(2)
    scale, shift = 10.0 ** np.arange(-3, 3), np.linspace(-50, 50, 6)
    a, b = ECSELClassifier().fit(X, y), ECSELClassifier().fit(X * scale + shift, y)
    assert np.allclose(a.exponents_, b.exponents_, atol=1e-4)


def test_weights_are_repetitions_at_the_minimum():
    X, y = data(2)
    weight = np.arange(len(X)) % 3
    order = np.random.default_rng(0).permutation(weight.sum())
    many, labels = (np.repeat(a, weight, axis=0)[order] for a in (X, y))
    a, b = ECSELClassifier().fit(X, y, weight), ECSELClassifier().fit(many, labels)
    assert np.allclose(a.decision_function(X), b.decision_function(X), atol=1e-4)
    assert np.array_equal(a.scale_min_, X[weight > 0].min(axis=0))


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_weights_order_and_repetitions_do_not_matter_to_the_last_bit(solver):
    X, y = data(3)
    X = np.where(X == X[0, 0], -0.0, X)  # equal to 0.0, not in its bytes
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, size=len(X)).astype(float)
    order = rng.permutation(int(weight.sum()))
    rows = np.repeat(np.arange(len(X)), weight.astype(int))[order]
    clf = ECSELClassifier(solver=solver, random_state=0, max_iter=40, batch_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a = clone(clf).fit(X, y, weight)
        b = clone(clf).fit(X[rows] + 0.0, y[rows])
    for name in ("exponents_", "coef_", "intercept_", "importances_", "baseline_"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert a.loss_ == b.loss_ and a.n_iter_ == b.n_iter_
    # Three copies of each row, of any weights, in another order.
    three, real = np.tile(np.arange(len(X)), 3), rng.uniform(size=3 * len(X))
    order = rng.permutation(len(three))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a = clone(clf).fit(X[three], y[three], real)
        b = clone(clf).fit(X[three][order], y[three][order], real[order])
    assert np.array_equal(a.coef_, b.coef_) and a.loss_ == b.loss_


def test_merged_rows_keep_the_classes_apart():
    from skmethods.symbolic._rows import merge_rows

    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0], [1.0, 2.0], [3.0, -0.0]])
    codes, weight = np.array([0, 1, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 0.5, 0.25])
    Z, c, w, first = merge_rows(X, codes, weight)
    assert {(*x, k, v) for x, k, v in zip(Z.tolist(), c, w, strict=True)} == {
        (1.0, 2.0, 0, 1.5),
        (1.0, 2.0, 1, 2.0),
        (3.0, 0.0, 1, 3.25),
    }
    assert np.array_equal(X[first], Z) and np.array_equal(codes[first], c)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "params",
    [{"l1": 1e10}, {"l1": 1e200}, {"l1": 1e308}, {"l2": 1e14}, {"l2": 1e308}],
    ids=str,
)
def test_no_fit_is_worse_than_the_constant_model(params, n_classes, fit_intercept):
    X, y = data(n_classes)
    weight = np.where(y == 0, 3.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = ECSELClassifier(fit_intercept=fit_intercept, **params).fit(X, y, weight)
    p = np.bincount(y, weight) / weight.sum()
    constant = -(p @ np.log(p)) if fit_intercept else np.log(n_classes)
    assert clf.loss_ <= constant * (1 + 1e-12)
    assert not clf.exponents_.any()
    if fit_intercept:
        assert np.allclose(clf.predict_proba(X[:1]), [p], atol=1e-6)


def test_global_generator_is_used_only_for_what_is_random():
    X, y = data(3)
    before = np.random.get_state()
    try:
        for params, drawn in (
            ({}, False),
            ({"refit_support": True}, False),
            ({"n_init": 2}, True),
            ({"init": "random"}, True),
            ({"solver": "adam"}, True),
        ):
            np.random.seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                ECSELClassifier(max_iter=5, **params).fit(X, y)
            same = np.random.randint(2**31) == np.random.RandomState(0).randint(2**31)
            assert same != drawn, params
    finally:
        np.random.set_state(before)


def test_booleans_are_the_integers_that_scikit_learn_takes_them_for():
    X, y = data(3)
    one = ECSELClassifier(n_terms=1, n_init=1).fit(X, y)
    same = ECSELClassifier(n_terms=True, n_init=True).fit(X, y)
    assert np.array_equal(one.coef_, same.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ECSELClassifier(solver="adam", max_iter=True, batch_size=True).fit(X, y)


EXTREME = {"feature_range": (1e-3, 1e3), "l1": 1e-5, "max_iter": 3000}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_explanations_of_extreme_models_agree(n_classes):
    """Terms beyond e^100 on training rows: text, scores, gradients, attribution."""
    X, y = data(n_classes)
    clf = ECSELClassifier(**EXTREME).fit(X, y)
    loss = log_loss(y, clf.predict_proba(X)) + 1e-5 * np.abs(clf.exponents_).sum()
    mean = logs(clf, X).mean(axis=0)
    centred = clf.coef_ * np.exp(clf.exponents_ @ mean)
    assert clf.loss_ == pytest.approx(loss + 0.5e-4 * (centred**2).sum(), rel=1e-5)
    names = [f"f{j}" for j in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True))
    expected, size = scores(clf, X), np.abs(clf.terms(X)).sum(axis=2)
    for c, text in enumerate(per_class(clf, clf.formula(names, precision=None))):
        gap = np.abs(evaluate(text, **columns) - expected[:, c])
        assert (gap <= 1e-9 * np.maximum(size[:, c], 1)).all()
    gap = clf.attribute(X).sum(axis=2) - expected + scores(clf, clf.baseline_[None])
    assert (np.abs(gap) <= 1e-9 * np.maximum(size, 1)).all()


def beyond_the_limit():
    """A model, and rows at which its term would be e^750 and e^830."""
    X, y = data(2)
    clf = ECSELClassifier(l1=1e-3, n_terms=1).fit(X, y)
    clf.exponents_ = np.zeros_like(clf.exponents_)
    clf.exponents_[0, 0, :2] = [400.0, -100.0]
    clf._centred_coef = np.array([[2.0]])
    rows = np.tile(clf.baseline_, (3, 1))
    L = logs(clf, rows)
    L[0, 0] += 2.0
    L[1, 0] += 2.1
    L[1, 1] += 0.1
    L[2, 0] += 0.001
    return clf, rows_at(clf, L)


def test_terms_at_their_limit():
    clf, rows = beyond_the_limit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z, G = scores(clf, rows), clf.log_gradient(rows)
        shares = clf.attribute(rows)
    assert z[0] == z[1] == pytest.approx(np.exp(600.0), rel=1e-9)
    assert not G[:2].any() and G[2].any()
    base = scores(clf, clf.baseline_[None])
    assert np.allclose(shares.sum(axis=2), z - base, rtol=1e-9)
    # along the path the exponents 400 and -100 share out what the term gained
    assert shares[1, 0, 0] / shares[1, 0, 1] == pytest.approx(400 * 2.1 / (-100 * 0.1))


def test_a_formula_beyond_floats_is_announced(monkeypatch):
    X, y = data(2)
    clf = ECSELClassifier(l1=1e-3).fit(X, y)
    largest = np.log(np.abs(clf.terms(X))).max()
    module = "skmethods.symbolic._classifier."
    for name, value in (("FORMULA_LIMIT", largest - 1), ("_LARGEST_COEF", 0.1)):
        with monkeypatch.context() as patch:
            patch.setattr(module + name, value)
            with pytest.warns(ConvergenceWarning, match="leaves the range") as caught:
                clf.fit(X, y)
            assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.fit(X, y)


def test_class_weight():
    X, y = data(2, columns=5)
    rows = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:30]]
    X, y = X[rows], y[rows]
    plain = ECSELClassifier().fit(X, y)
    balanced = ECSELClassifier(class_weight="balanced").fit(X, y)
    by_hand = ECSELClassifier(class_weight={0: 357 / 30, 1: 1.0}).fit(X, y)
    weights = ECSELClassifier().fit(X, y, np.where(y == 0, 357 / 30, 1.0))
    assert (balanced.predict(X) == 0).sum() > (plain.predict(X) == 0).sum()
    for other in (by_hand, weights):
        assert np.allclose(balanced.predict_proba(X), other.predict_proba(X), atol=1e-4)
    with pytest.raises(ValueError, match="class_weight"):
        ECSELClassifier(class_weight={0: -1.0, 1: 1.0}).fit(X, y)


def test_the_best_start_wins():
    X, y = load_breast_cancer(return_X_y=True)
    params = {"l1": 1e-3, "random_state": 0, "init": "random", "max_iter": 2000}
    one, six = (ECSELClassifier(n_init=n, **params).fit(X[:, :10], y) for n in (1, 6))
    assert six.loss_ < one.loss_ - 1e-4
    assert six.n_iter_ > one.n_iter_


def test_random_start_is_random():
    X, y = data(3)
    a, b, c = (
        ECSELClassifier(init="random", random_state=seed, l1=1e-4).fit(X, y)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(a.coef_, b.coef_) and not np.allclose(a.coef_, c.coef_)


def test_feature_range_sets_the_curvature():
    """With l1 = 0 and a narrow range a score of one term is nearly linear."""
    X, y = data(2)
    clf = ECSELClassifier(n_terms=1, l1=0.0, l2=1e-6, feature_range=(1, 1.01))
    clf.fit(X, y)
    assert logs(clf, X).max() <= np.log(1.01) + 1e-12
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    assert (linear.predict(X) == clf.predict(X)).mean() > 0.97


def test_clip():
    X, y = data(2)
    clf = ECSELClassifier(l1=1e-3).fit(X, y)
    u_low = clf.scale_min_ + (0.1 - 1) * clf.scale_range_ / 9
    u_high = clf.scale_min_ + (100 - 1) * clf.scale_range_ / 9
    far = np.stack([u_low, u_high])
    beyond = np.stack([u_low - 1e3, u_high + 1e3])
    assert np.allclose(clf.decision_function(far), clf.decision_function(beyond))
    open_ended = clone(clf).set_params(clip=False).fit(X, y)
    assert np.allclose(open_ended.decision_function(X), clf.decision_function(X))
    high = open_ended.decision_function(beyond[1:])
    assert not np.allclose(high, clf.decision_function(beyond[1:]))
    names = "row 1, column 2.*mapped value is -.*clip=True"
    bad = X[:3].copy()
    bad[1, 2] = X[:, 2].min() - X[:, 2].max()
    with pytest.raises(ValueError, match=names):
        open_ended.predict(bad)
    assert np.isfinite(clf.decision_function(bad)).all()


def test_threshold_tuning_is_scikit_learns():
    X, y = load_breast_cancer(return_X_y=True)
    tuned = TunedThresholdClassifierCV(
        ECSELClassifier(tol=1e-3), scoring="balanced_accuracy", cv=3
    ).fit(X, y)
    assert tuned.score(X, y) > 0.9


@pytest.mark.parametrize(
    "feature_range", [(0, 1), (2, 1), (1, 1), (1,), (1, np.inf), (1, "a"), (-1, 1)]
)
def test_bad_feature_ranges(feature_range):
    X, y = data(2)
    with pytest.raises(ValueError, match="feature_range must be two finite numbers"):
        ECSELClassifier(feature_range=feature_range).fit(X, y)


def test_errors_say_what_to_do():
    X, y = data(3)
    clf = ECSELClassifier()
    with pytest.raises(NotFittedError):
        clf.formula()
    with pytest.raises(NotFittedError):
        clf.counterfactual(X, 0)
    with pytest.raises(ValueError, match="only one class"):
        clf.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="range beyond the largest float"):
        clf.fit(np.vstack([X * 2e307, -X * 2e307]), np.r_[y, y])
    clf.fit(X, y)
    for call, words in (
        (lambda: clf.log_gradient(X, kind="odds"), "kind must be"),
        (lambda: clf.attribute(X, kind="shap"), "kind must be"),
        (lambda: clf.attribute(X, baseline="zero"), "baseline must be"),
        (lambda: clf.attribute(X, baseline=[1.0]), "baseline must be one row"),
        (lambda: clf.attribute(X, baseline=[np.nan] * 4), "NaN"),
        (lambda: clf.boundary_sensitivity(X, 0, 9), "d=9 is none of the classes"),
        (lambda: clf.counterfactual(X, 4), "feature must be"),
        (lambda: clf.counterfactual(X, "petal"), "none of the column names: x0, x1"),
        (lambda: clf.counterfactual(X, -1), "feature must be"),
        (lambda: clf.counterfactual(X, True), "feature must be"),
        (lambda: clf.attribute(X, baseline={"a": 1.0}), "baseline must be one row"),
        (lambda: clf.attribute(X, baseline=["a"] * 4), "baseline must hold"),
        (lambda: clf.attribute(X, baseline=X[:2]), "baseline must be one row"),
        (lambda: clf.formula(precision=0), "precision must be at least 1"),
        (lambda: clf.to_latex(precision=-1), "precision must be at least 1"),
        (lambda: clf.formula(feature_names=list("aabc")), "'a' comes more than once"),
        (lambda: clf.counterfactual(X, 0, target=7), "target=7 is none"),
        (lambda: clf.formula(feature_names=["a"]), "1 names, but X has 4"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_convergence_warning():
    X, y = data(2)
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as caught:
        ECSELClassifier(max_iter=2).fit(X, y)
    assert caught[0].filename == __file__


# -- explanations ----------------------------------------------------------------------


def test_log_gradient_and_elasticity(fitted):
    clf, X, _ = fitted
    X = inner_rows(X)
    numeric = differences(clf, X, lambda X: scores(clf, X))
    ours = clf.log_gradient(X)
    assert np.allclose(ours, numeric, rtol=1e-6, atol=1e-6 * np.abs(ours).max())
    z = scores(clf, X)[..., None]
    far = np.abs(z[:, :, 0]).min(axis=1) > 0.1  # log|z| bends without bound near 0
    numeric = differences(clf, X, lambda X: np.log(np.abs(scores(clf, X))))
    assert far.sum() > 5
    assert np.allclose(clf.elasticity(X)[far], numeric[far], rtol=1e-6, atol=1e-6)
    assert np.allclose(clf.elasticity(X) * z, ours, rtol=1e-10, atol=1e-12)


def test_log_gradient_of_probabilities(fitted):
    clf, X, _ = fitted
    X = inner_rows(X)
    ours = clf.log_gradient(X, kind="probability")
    numeric = differences(clf, X, clf.predict_proba)
    assert np.allclose(ours, numeric, atol=1e-6)


def test_derivative_in_the_units_of_x(fitted):
    """The chain through the map, as the docstring gives it."""
    clf, X, _ = fitted
    X = inner_rows(X, n=5)
    u = np.exp(logs(clf, X))
    slope = clf.log_gradient(X) * (9 / (clf.scale_range_ * u))[:, None]
    for j in range(X.shape[1]):
        h = np.zeros(X.shape[1])
        h[j] = 1e-6 * clf.scale_range_[j]
        numeric = (scores(clf, X + h) - scores(clf, X - h)) / (2 * h[j])
        assert np.allclose(slope[:, :, j], numeric, rtol=1e-4, atol=1e-6)


def test_elasticity_of_one_term_is_its_exponents():
    X, y = data(2)
    clf = ECSELClassifier(n_terms=1, fit_intercept=False, l1=1e-3).fit(X, y)
    assert np.allclose(clf.elasticity(X)[:, 0], clf.exponents_[0, 0])


def test_boundary_sensitivity(fitted):
    clf, X, _ = fitted
    X = inner_rows(X)
    c, d = clf.classes_[-1], clf.classes_[0]

    def lead(X):
        z = scores(clf, X)
        return z[:, -1] - (z[:, 0] if z.shape[1] > 1 else 0)

    ours = clf.boundary_sensitivity(X, c, d)
    assert np.allclose(ours, differences(clf, X, lead), rtol=1e-6, atol=1e-6)
    assert np.array_equal(ours, -clf.boundary_sensitivity(X, d, c))
    assert not clf.boundary_sensitivity(X, c, c).any()


@pytest.mark.parametrize("baseline", ["mean", "row", "far"])
def test_attribution_sums_to_the_difference(fitted, baseline):
    clf, X, _ = fitted
    row = {"mean": clf.baseline_, "row": X[3], "far": X.max(axis=0) * 100}[baseline]
    ours = clf.attribute(X, baseline="mean" if baseline == "mean" else row)
    gap = scores(clf, X) - scores(clf, row[None])
    scale = max(1, np.abs(clf.terms(np.vstack([X, row]))).max())
    assert np.abs(ours.sum(axis=2) - gap).max() < 1e-10 * scale
    if baseline == "row":
        assert not ours[3].any()


def test_the_baseline_is_the_geometric_mean(fitted):
    clf, X, _ = fitted
    mean = logs(clf, X).mean(axis=0)
    assert np.allclose(logs(clf, clf.baseline_[None])[0], mean, atol=1e-12)


def test_first_order_attribution(fitted):
    clf, X, _ = fitted
    ours = clf.attribute(X, kind="first_order")
    G = clf.log_gradient(clf.baseline_[None])[0]
    step = logs(clf, X) - logs(clf, clf.baseline_[None])
    assert np.allclose(ours, G * step[:, None], atol=1e-12)
    assert not np.allclose(ours, clf.attribute(X))


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_counterfactual_flips_exactly_there(n_classes, offset):
    X, y = data(n_classes)
    X = X + offset
    clf = ECSELClassifier(l1=1e-3).fit(X, y)
    now, u, some = clf.predict(X), np.exp(logs(clf, X)), 0
    for j in range(X.shape[1]):
        factor, value = clf.counterfactual(X, j)
        found = np.isfinite(factor)
        assert np.array_equal(found, np.isfinite(value))
        some += found.sum()
        if not found.any():
            assert not clf.exponents_[:, :, j].any() or n_classes == 3
            continue

        def moved(q, j=j, found=found):
            rows = X[found].copy()
            rows[:, j] = rows_at(clf, np.log(u * q[:, None]))[found, j]
            return rows

        exact = X[found].copy()
        exact[:, j] = value[found]
        assert (clf.predict(exact) != now[found]).all()
        assert np.allclose(value[found], moved(factor)[:, j], rtol=1e-6)
        before = moved(np.exp(np.log(factor) * (1 - 1e-5)))
        tiny = np.abs(np.log(factor[found])) < 1e-4
        assert ((clf.predict(before) == now[found]) | tiny).all()
        # brute force: no smaller scaling of the grid changes the decision
        for share in np.linspace(0.01, 0.99, 40):
            rows = moved(np.exp(np.log(np.where(found, factor, 1)) * share))
            assert (clf.predict(rows) == now[found]).all()
            opposite = np.exp(-np.log(np.where(found, factor, 1)) * share)
            rows, inside = moved(opposite), (u[:, j] * opposite)[found]
            inside = (inside > 0.1) & (inside < 100)
            assert (clf.predict(rows) == now[found])[inside].all()
        # where nothing is found, nothing on a grid of the allowed range does it
        for v in np.geomspace(0.1, 100, 60) if not found.all() else []:
            rows = X[~found].copy()
            rows[:, j] = rows_at(clf, np.log(np.full(X.shape, v)))[~found, j]
            assert (clf.predict(rows) == now[~found]).all()
    assert some > 20


def test_counterfactual_with_a_target():
    X, y = load_iris(return_X_y=True)
    clf = ECSELClassifier().fit(X, y)
    now = clf.predict(X)
    for target in clf.classes_:
        factor, value = clf.counterfactual(X, 2, target=target)
        any_factor = clf.counterfactual(X, 2).factor
        assert (factor[now == target] == 1).all()
        other = np.isfinite(factor) & (now != target)
        moved = X.copy()
        moved[:, 2] = value
        assert (clf.predict(moved[other]) == target).all()
        assert (np.abs(np.log(factor)) >= np.abs(np.log(any_factor)) - 1e-12)[
            other
        ].all()


def test_counterfactual_of_one_term_in_closed_form():
    X, y = data(2)
    clf = ECSELClassifier(n_terms=1, l1=1e-2).fit(X, y)
    j = int(np.abs(clf.exponents_[0, 0]).argmax())
    z, beta = clf.terms(X)[:, 0, 0], clf.exponents_[0, 0, j]
    exact = (-clf.intercept_[0] / z) ** (1 / beta)
    u = np.exp(logs(clf, X))[:, j] * exact
    exact[(u < 0.1) | (u > 100)] = np.nan
    ours = clf.counterfactual(X, j).factor
    assert np.isfinite(exact).sum() > 100
    assert np.allclose(ours, exact, rtol=1e-8, equal_nan=True)


def test_counterfactual_of_rows_that_have_the_target_already():
    X, y = load_iris(return_X_y=True)
    clf = ECSELClassifier().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factor, value = clf.counterfactual(X[:3], 2, target=0)
    assert (factor == 1).all() and np.array_equal(value, X[:3, 2])


def test_counterfactual_of_clipped_rows():
    X, y = load_iris(return_X_y=True)
    clf = ECSELClassifier().fit(X, y)
    rows = X[[0, 120]].copy()
    rows[:, 2] = [-1e4, 1e4]
    now = clf.predict(rows)
    for row, label in zip(rows, now, strict=True):
        factor, value = clf.counterfactual(row[None], 2, target=label)
        assert factor[0] == 1 and value[0] == row[2]
    factor, value = clf.counterfactual(rows, 2)
    assert np.isfinite(factor).any()
    limit = np.where(rows[:, 2] > 0, 100.0, 0.1)  # what is multiplied
    u = 1 + 9 * (value - clf.scale_min_[2]) / clf.scale_range_[2]
    assert np.allclose(u, limit * factor, equal_nan=True)


def test_counterfactual_values_that_no_float_holds():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(80, 2))
    y = X[:, 0] + 0.9 * X[:, 1] > 0.95
    small = ECSELClassifier(l1=1e-3).fit(X, y).counterfactual(X, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = ECSELClassifier(l1=1e-3).fit(X * 1.7e308, y)
        factor, value = clf.counterfactual(X * 1.7e308, 0)
    held = small.value * 1.7 < 1.797
    assert 0 < held.sum() < np.isfinite(small.value).sum()
    assert np.array_equal(np.isfinite(value), held)
    assert np.array_equal(np.isfinite(factor), held)
    assert np.allclose(value[held] / 1.7e308, small.value[held], rtol=1e-4)


def test_default_names_of_features():
    X, y = load_iris(return_X_y=True, as_frame=True)
    bare = ECSELClassifier().fit(X.to_numpy(), y)
    a, b = (bare.counterfactual(X.to_numpy(), f) for f in ("x2", 2))
    assert np.array_equal(a.value, b.value, equal_nan=True)
    named = ECSELClassifier().fit(X, y)
    with pytest.raises(ValueError, match="none of the column names: sepal length"):
        named.counterfactual(X, "x2")


def test_a_baseline_with_names_is_put_in_order():
    X, y = load_iris(return_X_y=True, as_frame=True)
    clf = ECSELClassifier(l1=1e-3).fit(X, y)
    row = X.iloc[70]
    expected = clf.attribute(X, baseline=row.to_numpy())
    other = row[row.index[::-1]]
    for same in (
        row,
        other,
        other.to_frame().T,
        X.iloc[[70]],
        row.to_numpy()[None],
        row.reset_index(drop=True),
        row.tolist(),
        tuple(row),
    ):
        assert np.array_equal(clf.attribute(X, baseline=same), expected)
    for wrong in (row.rename({row.index[0]: "age"}), row.iloc[[0, 1, 2, 2]]):
        with pytest.raises(ValueError, match="baseline must have the names"):
            clf.attribute(X, baseline=wrong)
    bare = ECSELClassifier(l1=1e-3, clip=False).fit(X.to_numpy(), y)
    assert np.array_equal(bare.attribute(X.to_numpy(), baseline=row), expected)
    with pytest.raises(ValueError, match=r"^baseline holds -1000 in row 0, column 1"):
        bare.attribute(X.to_numpy(), baseline=[5.0, -1000.0, 4.0, 1.0])


@pytest.mark.parametrize("label", [[0, 1], np.array([0]), (1,)])
def test_labels_are_no_arrays(label):
    X, y = load_iris(return_X_y=True)
    clf = ECSELClassifier().fit(X, y)
    for call in (
        lambda: clf.boundary_sensitivity(X, label, 1),
        lambda: clf.boundary_sensitivity(X, 1, label),
        lambda: clf.counterfactual(X, 0, target=label),
    ):
        with pytest.raises(TypeError, match="must be one label of classes_"):
            call()


def test_names_and_precision_have_types():
    X, y = load_iris(return_X_y=True)
    clf = ECSELClassifier().fit(X, y)
    for call in (clf.formula, clf.to_latex, clf.to_sympy):
        with pytest.raises(TypeError, match="feature_names must be a list"):
            call(feature_names="abcd")
    for call in (clf.formula, clf.to_latex):
        with pytest.raises(TypeError, match="precision must be a whole number"):
            call(precision=2.5)


def test_features_by_name_and_frames():
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    clf = ECSELClassifier().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named, plain = clf.counterfactual(X, "petal length (cm)"), clf.attribute(X)
    assert np.array_equal(named.factor, clf.counterfactual(X, 2).factor, equal_nan=True)
    bare = ECSELClassifier().fit(X.to_numpy(), y)
    assert np.allclose(bare.attribute(X.to_numpy()), plain)
    assert "petal length (cm)" in clf.formula()[0]
    assert isinstance(X, pandas.DataFrame)


# -- text ------------------------------------------------------------------------------

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def evaluate(text, **values):
    """Plain Python's meaning of the text, without ``eval``."""

    def visit(node):
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](visit(node.operand))
        if isinstance(node, ast.Name):
            return values[node.id]
        assert isinstance(node, ast.Constant), ast.dump(node)
        return node.value

    return visit(ast.parse(text, mode="eval").body)


def per_class(clf, texts):
    if len(clf.classes_) == 2:
        return [texts]
    assert list(texts) == clf.classes_.tolist()
    return list(texts.values())


def test_the_text_is_the_decision_function(fitted):
    clf, X, _ = fitted
    names = [f"f{j}" for j in range(X.shape[1])]
    expected = scores(clf, X)
    columns = dict(zip(names, X.T, strict=True))
    size = np.abs(clf.terms(X)).sum(axis=2).max()
    for c, text in enumerate(per_class(clf, clf.formula(names, precision=None))):
        ours = evaluate(text, **columns)
        assert np.abs(ours - expected[:, c]).max() < 1e-12 * max(size, 1)
    for c, text in enumerate(per_class(clf, clf.formula(names, precision=9))):
        ours = evaluate(text, **columns)
        assert np.abs(ours - expected[:, c]).max() < 1e-5 * max(size, 1)
    short, long = ("".join(per_class(clf, clf.formula(precision=p))) for p in (3, None))
    assert len(short) < 0.6 * len(long) and "x0" in long + "x0"


def test_sympy(fitted):
    sympy = pytest.importorskip("sympy")
    clf, X, _ = fitted
    names = [f"x{j}" for j in range(X.shape[1])]
    expected = scores(clf, X[:4])
    for c, expr in enumerate(per_class(clf, clf.to_sympy())):
        assert isinstance(expr, sympy.Expr)
        for i, row in enumerate(X[:4]):
            value = float(expr.subs(dict(zip(names, row, strict=True))))
            assert value == pytest.approx(expected[i, c], abs=1e-8)
    renamed = per_class(clf, clf.to_sympy([f"a{j}" for j in range(X.shape[1])]))
    free = {s.name for expr in renamed for s in expr.free_symbols}
    assert free and all(name.startswith("a") for name in free)


def test_latex(fitted):
    clf, X, _ = fitted
    texts = per_class(clf, clf.to_latex())
    joined = "".join(texts)
    assert "x_{" in joined and joined.count("{") == joined.count("}")
    longer = "".join(per_class(clf, clf.to_latex(precision=None)))
    assert len(longer) > len(joined)
    named = per_class(clf, clf.to_latex([f"a{j}" for j in range(X.shape[1])]))
    assert "a_{" in "".join(named)


# -- mini-batches ----------------------------------------------------------------------


def test_adam_reaches_the_minimum():
    X, y = load_breast_cancer(return_X_y=True)
    full = ECSELClassifier().fit(X, y)
    batches = ECSELClassifier(
        solver="adam", batch_size=64, max_iter=100, random_state=0
    ).fit(X, y)
    assert batches.loss_ <= 1.01 * full.loss_
    assert (batches.exponents_ == 0).sum() > 30
    assert np.mean(batches.predict(X) == full.predict(X)) > 0.98


def test_proximal_adam_by_itself_comes_near_the_minimum():
    """Without the closing iterations, and with exact zeros."""
    import torch

    from skmethods.symbolic import _logistic, _proximal

    X, y = load_breast_cancer(return_X_y=True)
    clf = ECSELClassifier().fit(X, y)
    L = logs(clf, X)
    L -= L.mean(axis=0)
    loss = _logistic.SignomialLoss(L, y, np.ones(len(y)), 2, 1e-4)
    start = _logistic.signomials_like(*_logistic.linear_start(loss), L, 2)
    found, n_iter, stopped, _ = _proximal.proximal_adam(
        L,
        y,
        np.ones(len(y)),
        start,
        l1=0.01,
        l2=1e-4,
        fit_intercept=True,
        max_iter=300,
        tol=1e-7,
        batch_size=64,
        learning_rate=0.02,
        generator=torch.Generator().manual_seed(0),
        device=torch.device("cpu"),
        callback=lambda parameters, value: False,
    )
    value = _logistic.penalised(loss, found, 0.01)
    assert value < 1.15 * clf.loss_ < _logistic.penalised(loss, start, 0.01)
    assert (found.exponents == 0).mean() > 0.4
    assert 5 < n_iter <= 300 and not stopped


def test_polish_sees_a_subsample_only(monkeypatch):
    from skmethods.symbolic import _proximal

    X, y = load_breast_cancer(return_X_y=True)
    seen = []
    minimise = _proximal.minimise

    def spy(loss, *args, **kwargs):
        seen.append(len(loss.codes))
        return minimise(loss, *args, **kwargs)

    monkeypatch.setattr(_proximal, "N_POLISH", 300)
    monkeypatch.setattr(_proximal, "minimise", spy)
    clf = ECSELClassifier(solver="adam", max_iter=20, batch_size=64, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    assert seen == [300]
    assert clf.score(X, y) > 0.95


def test_weights_in_batches():
    X, y = two_blobs(200)
    weight = np.where(np.arange(200) < 100, 0.1, 5.0)
    params = {"solver": "adam", "max_iter": 60, "batch_size": 32, "random_state": 0}
    batches = ECSELClassifier(**params).fit(X, y, weight)
    full = ECSELClassifier().fit(X, y, weight)
    assert batches.loss_ == pytest.approx(full.loss_, rel=0.02)


@pytest.mark.parametrize("learning_rate", [0.5, 1.0, 1e3, 1e6])
def test_adam_recovers_from_any_step(learning_rate):
    X, y = load_breast_cancer(return_X_y=True)
    params = {"solver": "adam", "learning_rate": learning_rate, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = ECSELClassifier(max_iter=100, **params).fit(X, y)
    assert clf.loss_ <= 1.01 * ECSELClassifier().fit(X, y).loss_


def test_steps_that_diverge_are_divided():
    """Proximal Adam by itself ends below the start, from any step."""
    import torch

    from skmethods.symbolic import _logistic, _proximal

    X, y = load_breast_cancer(return_X_y=True)
    L = logs(ECSELClassifier().fit(X, y), X)
    L -= L.mean(axis=0)
    loss = _logistic.SignomialLoss(L, y, np.ones(len(y)), 2, 1e-4)
    start = _logistic.signomials_like(*_logistic.linear_start(loss), L, 2)
    how = {"l1": 0.01, "l2": 1e-4, "fit_intercept": True, "max_iter": 200, "tol": 1e-6}
    for learning_rate in (1.0, 1e4):
        found, *_ = _proximal.proximal_adam(
            L,
            y,
            np.ones(len(y)),
            start,
            batch_size=64,
            learning_rate=learning_rate,
            generator=torch.Generator().manual_seed(0),
            device=torch.device("cpu"),
            callback=lambda parameters, value: False,
            **how,
        )
        value = _logistic.penalised(loss, found, 0.01)
        assert value < 0.9 * _logistic.penalised(loss, start, 0.01)


def test_adam_keeps_the_start_when_no_epoch_is_better():
    X, y = load_breast_cancer(return_X_y=True)
    clf = ECSELClassifier(solver="adam", learning_rate=1e10, random_state=0, max_iter=3)
    with pytest.warns(ConvergenceWarning, match="No epoch .* which is kept") as caught:
        clf.fit(X, y)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert clf.score(X, y) > 0.95


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_batches_of_one_row():
    X, y = data(3)
    clf = ECSELClassifier(solver="adam", batch_size=1, max_iter=5, random_state=0)
    assert clf.fit(X, y).score(X, y) > 0.9


ADAM = ECSELClassifier(
    solver="adam", max_iter=6, batch_size=16, l1=1e-3, random_state=0
)
OURS = [
    "check_one_iteration",
    "check_divergence",
    "check_supports_callbacks",
    "check_fitted_estimator_predicts",
    "check_callback_stops",
    "check_interrupted_fit",
    "check_pickle_in_fresh_process",
    "check_pickle_holds_no_torch",
    "check_two_fits_equal",
    "check_global_state_untouched",
    "check_refit_with_fewer_classes",
    "check_bad_weights",
    "check_weights_matter",
]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_contract_with_adam(name):
    check = {f.__name__: f for f, _ in checks()}[name]
    entry = Entry([ADAM], two_blobs, {}, lambda est, X: 0, {"l1": [1e-3, 1e-2]})
    check(entry, clone(ADAM))


@pytest.mark.gpu
def test_adam_on_cuda():
    X, y = load_digits(return_X_y=True)
    params = {"solver": "adam", "max_iter": 20, "random_state": 0, "l1": 1e-3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        cpu = ECSELClassifier(**params).fit(X, y)
        gpu = ECSELClassifier(device="cuda", **params).fit(X, y)
    assert gpu.loss_ == pytest.approx(cpu.loss_, rel=0.05)
    assert np.isfinite(pickle.loads(pickle.dumps(gpu)).predict_proba(X)).all()


def test_device_is_checked_for_every_solver():
    X, y = data(2)
    for solver in ("lbfgs", "adam"):
        with pytest.raises(ValueError, match="no-such-device"):
            ECSELClassifier(solver=solver, device="no-such-device").fit(X, y)


def test_lbfgs_needs_no_torch():
    from tests._child import ROOT, output_of

    text = output_of(
        "import sys\n"
        "from sklearn.datasets import load_iris\n"
        "from skmethods import ECSELClassifier\n"
        "X, y = load_iris(return_X_y=True)\n"
        "ECSELClassifier().fit(X, y).counterfactual(X, 2)\n"
        "print('torch' in sys.modules)\n",
        cwd=ROOT,
    )
    assert text.strip() == "False"
