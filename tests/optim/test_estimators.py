"""LESAMClassifier and LESAMRegressor beyond the contract suite."""

import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_diabetes, load_digits, load_wine, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from skmethods import LESAMClassifier, LESAMRegressor, make_noisy_labels

BOTH = pytest.mark.parametrize("cls", [LESAMClassifier, LESAMRegressor])
SMALL = {"hidden_layer_sizes": (8,), "max_iter": 5, "random_state": 0}


def table(cls, n=40, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 4))
    target = X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(n)
    return X, (np.where(target > 0, "yes", "no") if cls is LESAMClassifier else target)


def outputs(est, X):
    return est.predict_proba(X) if hasattr(est, "predict_proba") else est.predict(X)


def partial(est, X, y, **kw):
    if isinstance(est, LESAMClassifier) and not hasattr(est, "module_"):
        kw["classes"] = ["no", "yes"]
    return est.partial_fit(X, y, **kw)


class Net(nn.Module):
    """A user's module with everything that has state."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, n_out)
        )

    def forward(self, x):
        return self.layers(x)


def lazy_net(n_in, n_out):
    return nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(n_out))


# -- conformance -----------------------------------------------------------------------


@BOTH
def test_check_estimator(cls):
    """The contract suite has tiny nets; this is the default one, for few epochs."""
    results = check_estimator(cls(max_iter=5), on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed <= {"check_sample_weight_equivalence_on_dense_data"}
    assert len(results) > 50


# -- what it computes ------------------------------------------------------------------


def test_linear_classifier_is_logistic_regression():
    """No hidden layer, no perturbation, full batch: the convex problem's solution."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = LESAMClassifier(
        hidden_layer_sizes=(),
        sigma=0.0,
        batch_size=len(X),
        learning_rate=1.0,
        weight_decay=0.05,
        max_iter=1000,
        random_state=0,
    ).fit(X, y)
    # Mean loss + wd/2 |W|² (bias included here): sklearn's C = 1 / (n wd).
    X1 = np.c_[X, np.ones(len(X))]
    peer = LogisticRegression(
        C=1 / (len(X) * 0.05), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(X1, y)
    np.testing.assert_allclose(
        ours.predict_proba(X), peer.predict_proba(X1), rtol=0, atol=2e-4
    )


def test_linear_regressor_is_ridge():
    X, y = load_diabetes(return_X_y=True)
    w = np.random.RandomState(0).uniform(0.5, 2, len(X))
    ours = LESAMRegressor(
        hidden_layer_sizes=(),
        sigma=0.0,
        batch_size=len(X),
        learning_rate=0.1,
        weight_decay=0.1,
        max_iter=1000,
        random_state=0,
    ).fit(X, y, sample_weight=w)
    Z = (X - ours.mean_) / ours.scale_
    target = (y - ours.y_mean_) / ours.y_scale_
    assert np.average(Z, axis=0, weights=w) == pytest.approx(0, abs=1e-9)
    assert np.average(Z**2, axis=0, weights=w) == pytest.approx(1)
    assert np.average(target**2, weights=w) == pytest.approx(1)
    # mean(w r²) + wd/2 |b|²; the intercept is 0, since everything is centred
    peer = Ridge(alpha=0.1 / 2 * w.sum(), fit_intercept=False).fit(
        Z, target, sample_weight=w
    )
    expected = peer.predict(Z) * ours.y_scale_ + ours.y_mean_
    np.testing.assert_allclose(ours.predict(X), expected, rtol=1e-4)


def test_loss_and_schedules_are_those_of_a_loop_by_hand():
    """Every formula once more, by the optimiser's public interface."""
    from skmethods import LESAM, SigmaSchedule

    X, y = table(LESAMClassifier)
    est = LESAMClassifier(
        hidden_layer_sizes=(),
        batch_size=len(X),
        max_iter=10,
        sigma_decay_start=0.4,
        label_smoothing=0.1,
        class_weight={"yes": 3.0, "no": 1.0},
        sigma=0.05,
        rho_max=None,
        random_state=0,
    ).fit(X, y)

    again = clone(est).set_params(max_iter=1, learning_rate=1e-30, weight_decay=0.0)
    start = again.fit(X, y).module_
    optimizer = LESAM(
        start.parameters(), sigma=0.05, rho_max=None, momentum=0.9, weight_decay=5e-4
    )
    Z = torch.tensor((X - est.mean_) / est.scale_).float()
    codes = torch.tensor(np.searchsorted(est.classes_, y))
    w = torch.where(codes == 1, 3.0, 1.0)
    w /= w.mean()

    def closure():
        optimizer.zero_grad()
        logp = start(Z).log_softmax(dim=1)
        smooth = torch.full_like(logp, 0.05)
        smooth[torch.arange(len(Z)), codes] += 0.9
        loss = (-(smooth * logp).sum(dim=1) * w).mean()
        loss.backward()
        return loss

    for epoch in range(10):
        optimizer.set_sigma(SigmaSchedule("cosine", 0.4)(epoch, 10, 0.05))
        optimizer.param_groups[0]["lr"] = (
            0.05 * (1 + math.cos(math.pi * epoch / 10)) / 2
        )
        loss = optimizer.step(closure)
        assert est.loss_curve_[epoch] == pytest.approx(float(loss.detach()), rel=1e-4)
        assert est.rho_curve_[epoch] == pytest.approx(optimizer.last_rho_, rel=1e-3)
    np.testing.assert_allclose(
        outputs(est, X), start(Z).softmax(dim=1).detach().numpy(), atol=1e-4
    )


@BOTH
def test_a_batch_of_all_rows_is_weight_equivalent(cls):
    X, y = table(cls)
    w = np.random.RandomState(0).randint(0, 4, size=len(X))
    est = cls(**SMALL).set_params(batch_size=1000)
    weighted = clone(est).fit(X, y, sample_weight=w)
    repeated = clone(est).fit(X.repeat(w, axis=0), y.repeat(w))
    np.testing.assert_allclose(outputs(weighted, X), outputs(repeated, X), rtol=1e-3)


@BOTH
def test_rows_of_weight_zero_are_absent(cls):
    X, y = table(cls)
    w = np.ones(len(X))
    w[::3] = 0
    X_bad = X.copy()
    X_bad[::3] = 1e6
    one = cls(**SMALL).fit(X_bad, y, sample_weight=w)
    other = cls(**SMALL).fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert np.array_equal(outputs(one, X), outputs(other, X))


def test_class_of_weight_zero_is_absent():
    X, y = table(LESAMClassifier)
    clf = LESAMClassifier(**SMALL).fit(X, y, sample_weight=(y == "no").astype(float))
    assert list(clf.classes_) == ["no"]
    assert set(clf.predict(X)) == {"no"}
    assert np.array_equal(clf.predict_proba(X), np.ones((len(X), 1)))
    assert np.array_equal(clf.decision_function(X), np.zeros(len(X)))


def test_balanced_class_weight():
    X, y = table(LESAMClassifier)
    est = LESAMClassifier(**SMALL)
    balanced = clone(est).set_params(class_weight="balanced").fit(X, y)
    share = {c: len(y) / 2 / np.sum(y == c) for c in ("no", "yes")}
    by_hand = clone(est).set_params(class_weight=share).fit(X, y)
    assert np.array_equal(outputs(balanced, X), outputs(by_hand, X))


def test_decision_function_and_probabilities():
    X, y = load_wine(return_X_y=True)
    three = LESAMClassifier(**SMALL).fit(X, y)
    logits = three.decision_function(X)
    assert logits.shape == (len(X), 3)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(three.predict_proba(X), p)
    np.testing.assert_allclose(three.predict_log_proba(X), np.log(p), atol=1e-12)
    assert np.array_equal(three.predict(X), three.classes_[logits.argmax(axis=1)])
    two = LESAMClassifier(**SMALL).fit(X[y < 2], y[y < 2])
    log_odds = two.decision_function(X)
    assert log_odds.shape == (len(X),)
    p = two.predict_proba(X)
    np.testing.assert_allclose(log_odds, np.log(p[:, 1] / p[:, 0]), rtol=1e-6)
    assert np.array_equal(two.predict(X), two.classes_[(log_odds > 0).astype(int)])


def test_log_probabilities_do_not_underflow():
    X, y = table(LESAMClassifier)
    clf = LESAMClassifier(**SMALL).fit(X, y)
    with torch.no_grad():
        clf.module_[-1].weight.mul_(1e5)
    logp = clf.predict_log_proba(X)
    assert np.isfinite(logp).all() and logp.min() < -1000


def test_multi_output():
    X, Y = make_regression(200, 5, n_targets=3, noise=1.0, random_state=0)
    Y = Y * [1e-3, 1.0, 1e6] + [0, 5, -1e7]
    reg = LESAMRegressor(max_iter=60, random_state=0).fit(X, Y)
    assert reg.predict(X).shape == (200, 3)
    for k in range(3):
        assert np.corrcoef(reg.predict(X)[:, k], Y[:, k])[0, 1] > 0.99
    column = LESAMRegressor(**SMALL).fit(X, Y[:, :1])
    flat = LESAMRegressor(**SMALL).fit(X, Y[:, 0])
    assert column.predict(X).shape == (200, 1)
    assert np.array_equal(column.predict(X)[:, 0], flat.predict(X))


def test_regression_does_not_depend_on_the_unit_of_y():
    X, y = table(LESAMRegressor)
    base = LESAMRegressor(**SMALL).fit(X, y).predict(X)
    for factor, shift in ((2.0**40, 0.0), (2.0**-40, 0.0)):
        other = LESAMRegressor(**SMALL).fit(X, y * factor + shift).predict(X)
        np.testing.assert_allclose(other / factor, base, rtol=1e-5)


def test_constant_target_is_predicted_exactly():
    X, _ = table(LESAMRegressor)
    y = np.c_[np.full(len(X), 0.1), X[:, 0]]
    out = LESAMRegressor(**SMALL).fit(X, y).predict(X)
    assert (out[:, 0] == 0.1).all() and np.ptp(out[:, 1]) > 0.1
    # where training goes on, later targets may vary
    reg = LESAMRegressor(random_state=0)
    with pytest.warns(UserWarning, match="scale of y"):
        reg.partial_fit(X, y[:, 0])
    for _ in range(200):
        reg.partial_fit(X, y[:, 1])
    assert np.corrcoef(reg.predict(X), y[:, 1])[0, 1] > 0.9


@BOTH
@pytest.mark.parametrize("factor", [1e-300, 1e-12, 1e12, 1e39, 1e150, 1e300])
def test_scale_of_the_features_does_not_matter(cls, factor):
    X, y = table(cls)
    expected = outputs(cls(**SMALL).fit(X, y), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = cls(**SMALL).fit(X * factor, y)
        found = outputs(est, X * factor)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@BOTH
def test_a_large_offset_costs_no_precision(cls):
    X, y = table(cls)
    expected = outputs(cls(**SMALL).fit(X, y), X)
    X = X + 1e8
    np.testing.assert_allclose(
        outputs(cls(**SMALL).fit(X, y), X), expected, rtol=1e-4, atol=1e-5
    )


@BOTH
def test_too_large_for_float32_is_refused(cls):
    X, y = table(cls)
    X_far = X.copy()
    X_far[7, 2] = 1e60
    est = cls(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match=r"row 7, column 2.*too large for float32"):
        est.predict(X_far)
    raw = cls(**SMALL, standardize=False)
    with pytest.raises(ValueError, match=r"row 7, column 2.*standardize=True"):
        raw.fit(X_far, y)
    raw.fit(X, y)
    assert raw.mean_ is None and raw.scale_ is None


@BOTH
def test_constant_column(cls):
    X, y = table(cls)
    X[:, 1] = 0.1  # whose mean is not 0.1 in floating point
    est = cls(**SMALL).fit(X, y)
    assert (est.mean_[1], est.scale_[1]) == (0.1, 1.0)
    X[:, 1] = 7.0
    assert np.isfinite(outputs(est, X)).all()


def test_batch_size_auto():
    for n, batch in ((40, 40), (500, 200)):
        X, y = table(LESAMClassifier, n)
        auto = LESAMClassifier(**SMALL).set_params(batch_size="auto").fit(X, y)
        given = LESAMClassifier(**SMALL).set_params(batch_size=batch).fit(X, y)
        assert np.array_equal(outputs(auto, X), outputs(given, X))


# -- modules of the user's -------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("module", [Net, lazy_net])
def test_module(cls, module):
    X, y = table(cls)
    est = cls(**SMALL, module=module).set_params(batch_size=16).fit(X, y)
    again = pickle.loads(pickle.dumps(est))
    assert np.array_equal(outputs(est, X), outputs(again, X))
    if module is Net:
        steps = 5 * 3  # epochs times batches; not twice that
        assert int(est.module_.layers[1].num_batches_tracked) == steps
    before = torch.get_rng_state()
    twin = clone(est).fit(X, y)  # dropout included
    assert np.array_equal(outputs(est, X), outputs(twin, X))
    assert torch.equal(torch.get_rng_state(), before)


@BOTH
def test_module_of_the_wrong_kind(cls):
    X, y = table(cls)
    with pytest.raises(ValueError, match=r"shape \(1, 7\)"):
        cls(**SMALL, module=wrong_width).fit(X, y)
    with pytest.raises(TypeError, match="returned int"):
        cls(**SMALL, module=no_module).fit(X, y)


def wrong_width(n_in, n_out):
    return nn.Linear(n_in, 7)


def no_module(n_in, n_out):
    return 3


@BOTH
def test_frozen_parameters_stay(cls):
    X, y = table(cls)
    est = cls(**SMALL, module=half_frozen).fit(X, y)
    assert torch.equal(est.module_[0].weight, torch.ones(6, 4))


def half_frozen(n_in, n_out):
    first = nn.Linear(n_in, 6)
    nn.init.ones_(first.weight)
    return nn.Sequential(first.requires_grad_(False), nn.Tanh(), nn.Linear(6, n_out))


# -- going on --------------------------------------------------------------------------

CONSTANT = {"lr_schedule": "constant", "sigma_decay": "none"}


@BOTH
@pytest.mark.parametrize("base", ["sgd", "adamw"])
@pytest.mark.parametrize("module", [None, Net])
def test_resume_is_an_uninterrupted_run(cls, base, module):
    """fit(6 epochs) = 6 x partial_fit = 2 x warm fit(3), pickled on the way."""
    X, y = table(cls)
    options = {"base_optimizer": base, "module": module, "learning_rate": 0.01}
    options |= {"hidden_layer_sizes": (8,), "random_state": 3, "batch_size": 16}
    whole = cls(**options, **CONSTANT, max_iter=6).fit(X, y)
    assert not hasattr(whole, "optimizer_")

    parts = cls(**options)
    for k in range(6):
        partial(parts, X, y)
        if k in (1, 3):
            parts = pickle.loads(pickle.dumps(parts))
            assert parts.optimizer_.param_groups[0]["params"][0] is next(
                parts.module_.parameters()
            )
    warm = cls(**options, **CONSTANT, max_iter=3, warm_start=True).fit(X, y)
    warm = pickle.loads(pickle.dumps(warm)).fit(X, y)
    for other in (parts, warm):
        assert np.array_equal(outputs(whole, X), outputs(other, X))
        assert whole.loss_curve_ == other.loss_curve_
        assert whole.rho_curve_ == other.rho_curve_
        assert whole.n_iter_ == other.n_iter_ == len(other.loss_curve_) == 6


@BOTH
def test_without_moments_it_goes_on_from_the_weights(cls):
    X, y = table(cls)
    est = cls(**SMALL).fit(X, y)
    before = est.loss_curve_[-1]
    partial(est, X, y)
    assert est.n_iter_ == 6 and est.loss_curve_[-1] < 1.5 * before


@BOTH
def test_refit_forgets(cls):
    X, y = table(cls)
    est = partial(cls(**SMALL), X, y)
    est.fit(X, y)
    fresh = cls(**SMALL).fit(X, y)
    assert np.array_equal(outputs(est, X), outputs(fresh, X))
    assert vars(est).keys() == vars(fresh).keys()


@BOTH
def test_warm_start_uses_new_parameters_or_refuses(cls):
    X, y = table(cls)
    est = cls(**SMALL, warm_start=True).fit(X, y)
    weights = est.module_[0].weight.detach().clone()
    slow = clone(est).fit(X, y).set_params(learning_rate=1e-12, weight_decay=0.0)
    slow.fit(X, y)
    torch.testing.assert_close(slow.module_[0].weight.detach(), weights)
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        est.set_params(hidden_layer_sizes=(9,)).fit(X, y)
    est.set_params(hidden_layer_sizes=(8,))
    with pytest.raises(ValueError, match="features"):
        est.fit(X[:, :3], y)
    if cls is LESAMClassifier:
        with pytest.raises(ValueError, match="classes of the first fit"):
            est.fit(X, np.where(y == "no", "no", "maybe"))
    else:
        with pytest.raises(ValueError, match="dimensions"):
            est.fit(X, y[:, None])


@BOTH
def test_a_call_that_fails_changes_nothing(cls):
    X, y = table(cls)
    est = cls(**SMALL, warm_start=True).fit(X, y)
    before, optimizer = outputs(est, X), est.optimizer_
    momentum = [s["momentum_buffer"].clone() for s in optimizer.state.values()]
    est.set_params(learning_rate=1e10)
    with pytest.raises(ValueError, match="Lower the learning rate"):
        est.fit(X, y)
    assert np.array_equal(outputs(est, X), before) and est.optimizer_ is optimizer
    for s, old in zip(optimizer.state.values(), momentum, strict=True):
        assert torch.equal(s["momentum_buffer"], old)


def test_partial_fit_of_the_classifier():
    X, y = table(LESAMClassifier)
    clf = LESAMClassifier(**SMALL)
    with pytest.raises(ValueError, match="needs classes="):
        clf.partial_fit(X, y)
    with pytest.raises(ValueError, match="not in classes"):
        clf.partial_fit(X, y, classes=["no", "maybe"])
    assert not hasattr(clf, "classes_")
    only = y == "no"
    clf.partial_fit(X[only], y[only], classes=["yes", "no", "maybe"])
    assert list(clf.classes_) == ["maybe", "no", "yes"]
    clf.partial_fit(X, y)
    with pytest.raises(ValueError, match="differs from those of the first"):
        clf.partial_fit(X, y, classes=["no", "yes"])
    with pytest.raises(ValueError, match="not in classes"):
        clf.partial_fit(X, np.where(only, "no", "perhaps"))
    with pytest.raises(ValueError, match="class_weight as a dict"):
        LESAMClassifier(class_weight="balanced").partial_fit(
            X, y, classes=["no", "yes"]
        )


@BOTH
def test_partial_fit_weights_and_early_stopping(cls):
    X, y = table(cls)
    w = np.random.RandomState(0).uniform(0.1, 3, len(X))
    one = partial(cls(**SMALL), X, y, sample_weight=w)
    other = partial(cls(**SMALL), X, y)
    assert not np.array_equal(outputs(one, X), outputs(other, X))
    with pytest.raises(ValueError, match="early_stopping=False"):
        partial(cls(early_stopping=True), X, y)


# -- stopping --------------------------------------------------------------------------


@BOTH
def test_early_stopping_keeps_the_best_epoch(cls):
    X, y = table(cls, 100)
    est = cls(
        hidden_layer_sizes=(20,),
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=3,
        max_iter=50,
        random_state=0,
    ).fit(X, y)
    scores = est.validation_scores_
    assert len(scores) == est.n_iter_ < 50
    best = int(np.argmax(scores))
    assert max(scores[-3:]) <= scores[-4] + est.tol or est.n_iter_ - best > 1
    # The held-out rows, found again from the seed the way fit draws them.
    from skmethods._torch.seed import Seeds

    codes = (
        np.searchsorted(getattr(est, "classes_", []), y)
        if cls is not (LESAMRegressor)
        else y
    )
    train, test = est._split(codes, Seeds(est._seed).numpy)
    assert len(test) == 30 and not set(train) & set(test)
    assert est.score(X[test], y[test]) == pytest.approx(scores[best], abs=1e-6)
    if cls is LESAMClassifier:
        share = np.mean(y == "no")
        assert np.mean(y[test] == "no") == pytest.approx(share, abs=0.02)
    assert not hasattr(cls(**SMALL).fit(X, y), "validation_scores_")


def test_early_stopping_with_too_few_rows():
    X, _ = table(LESAMClassifier)
    with pytest.raises(ValueError, match="rows in the smallest"):
        LESAMClassifier(early_stopping=True).fit(X, np.r_[["a"], ["b"] * 39])
    with pytest.raises(ValueError, match="3 rows to train and 1 to validate on"):
        LESAMClassifier(early_stopping=True).fit(X[:4], ["a", "b", "a", "b"])
    with pytest.raises(ValueError, match="at least two rows"):
        LESAMRegressor(early_stopping=True).fit(X[:5], np.arange(5.0))


@BOTH
def test_callbacks_see_a_fitted_estimator(cls):
    """ScoringMonitor predicts with it after every epoch, on labels of the user's."""
    X, y = table(cls)
    name = "accuracy" if cls is LESAMClassifier else "r2"
    monitor = ScoringMonitor(scoring=name)
    est = cls(**SMALL).set_callbacks(monitor)
    est.fit(X, y)
    rows = monitor.get_logs().data
    scores = [row[name] for row in rows if row["task_name"] == "epoch"]
    assert len(scores) == 5
    assert scores[-1] == pytest.approx(est.score(X, y)) and scores[0] != scores[-1]
    assert np.array_equal(outputs(est, X), outputs(cls(**SMALL).fit(X, y), X))


# -- A6: collapse, divergence ----------------------------------------------------------


def test_collapse_is_reported():
    """The published setting without a bound destroys this network, and says so."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    clf = LESAMClassifier(
        hidden_layer_sizes=(128, 128), sigma=0.5, rho_max=5.0, max_iter=40
    ).set_params(random_state=0, sigma_decay="none")
    with pytest.warns(ConvergenceWarning, match=r"lower rho_max \(now 5.0\)"):
        clf.fit(X, y)
    assert clf.loss_curve_[-1] > 0.98 * math.log(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        clone(clf).set_params(rho_max=0.3, sigma=0.1).fit(X, y)


@BOTH
def test_short_training_does_not_warn(cls):
    X, y = table(cls)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = cls(max_iter=1, random_state=0).fit(X, y)
    assert np.isfinite(outputs(est, X)).all()


@BOTH
def test_chance_is_the_loss_of_the_best_constant(cls):
    """Found by training on features without information, at length."""
    rng = np.random.RandomState(0)
    X, y = np.zeros((60, 2)), table(cls, 60)[1]
    if cls is LESAMClassifier:
        y = np.where(np.arange(60) < 15, "no", "yes")
    w = rng.uniform(0.5, 2, 60)
    est = cls(hidden_layer_sizes=(), sigma=0.0, weight_decay=0.0, batch_size=60)
    est.set_params(max_iter=400, random_state=0)
    if cls is LESAMClassifier:
        est.set_params(label_smoothing=0.2)
    with pytest.warns(ConvergenceWarning, match="no better than the best constant"):
        est.fit(X, y, sample_weight=w)
    with pytest.warns(ConvergenceWarning) as caught:
        clone(est).fit(X, y, sample_weight=w)
    text = str(caught[0].message)
    chance = float(text.split("prediction (")[1].split(")")[0])
    assert est.loss_curve_[-1] == pytest.approx(chance, rel=1e-3)


@BOTH
@pytest.mark.parametrize("max_iter", [1, 5])
def test_huge_learning_rate_is_refused(cls, max_iter):
    X, y = table(cls)
    est = cls(**SMALL).set_params(learning_rate=1e10, max_iter=max_iter)
    with pytest.raises(ValueError, match="Lower the learning rate"):
        est.fit(X, y)
    assert not hasattr(est, "module_")


@BOTH
def test_divergence_later_keeps_the_last_good_weights(cls):
    """AdamW at a rate at which it goes wrong after some epochs."""
    X, y = table(cls)
    est = cls(**SMALL, module=explodes, warm_start=True).set_params(max_iter=8)
    with pytest.warns(ConvergenceWarning, match="last good weights are kept"):
        est.fit(X, y)
    assert 0 < est.n_iter_ < 8 and len(est.rho_curve_) == est.n_iter_
    assert np.isfinite(outputs(est, X)).all()
    assert not est.optimizer_.state  # its moments were not finite


class Explodes(nn.Linear):
    """Returns NaN from its tenth training pass on."""

    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + self.training
        broken = self.training and self.calls > 10
        return super().forward(x) * (float("nan") if broken else 1.0)


def explodes(n_in, n_out):
    return Explodes(n_in, n_out)


# -- pickles, searches -----------------------------------------------------------------


@BOTH
def test_pickle_is_as_small_as_the_weights(cls):
    X, y = table(cls)
    est = cls(hidden_layer_sizes=(100, 100), max_iter=2, random_state=0).fit(X, y)
    weights = sum(p.nelement() * 4 for p in est.module_.parameters())
    assert len(pickle.dumps(est)) <= 1.2 * weights


def test_grid_search():
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(
        LESAMClassifier(max_iter=10, random_state=0), {"sigma": [0.05, 0.1]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.9


def test_verbose(capsys):
    X, y = table(LESAMClassifier)
    LESAMClassifier(**SMALL, verbose=True).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and lines[0].startswith("epoch 1/5  loss ")


# -- A6: accuracy and curvature --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_accuracy_and_curvature_on_digits(noise):
    """A6, over six splits; pixels divided by 16, as in the specification."""
    from skmethods import top_hessian_eigenvalue

    X, y = load_digits(return_X_y=True)
    X = X / 16
    settings = {
        "sgd": {"sigma": 0.0},
        "sam": {"sigma": None, "rho_max": 0.2},
        "lesam": {},
    }
    accuracy = {name: [] for name in settings}
    curvature = {name: [] for name in settings}
    for seed in range(6):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=500, stratify=y, random_state=seed
        )
        if noise:
            y_train = make_noisy_labels(y_train, noise, random_state=seed)[0]
        for name, options in settings.items():
            clf = LESAMClassifier(
                hidden_layer_sizes=(128, 128),
                max_iter=80,
                standardize=False,
                random_state=seed,
                **options,
            ).fit(X_train, y_train)
            accuracy[name].append(clf.score(X_test, y_test))
            loss = nn.CrossEntropyLoss()
            curvature[name].append(
                top_hessian_eigenvalue(
                    clf.module_, X_train, y_train, loss, n_iter=300, random_state=0
                )
            )
    mean = {name: np.mean(values) for name, values in accuracy.items()}
    assert mean["lesam"] > mean["sgd"] + (0.07 if noise else 0.008)
    assert mean["lesam"] > mean["sam"] - (0.015 if noise else 0.005)
    assert np.median(curvature["lesam"]) < np.median(curvature["sgd"]) / 3
