"""Training that goes on: frozen layers, other optimisers, streams, pickles."""

import copy
import functools
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from skmethods import LESAMClassifier, LESAMRegressor

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


def moments(est):
    names = {p: name for name, p in est.module_.named_parameters()}
    return {
        names[p]: {k: v.clone() for k, v in s.items() if torch.is_tensor(v)}
        for p, s in est.optimizer_.state.items()
    }


# -- moments ---------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["sgd", "adamw"])
@BOTH
def test_freezing_a_layer_keeps_the_moments_of_the_others(cls, base):
    X, y = table(cls)
    est = cls(**SMALL, warm_start=True, base_optimizer=base, learning_rate=0.01)
    est.fit(X, y)
    before, first = moments(est), est.module_[0].weight.detach().clone()
    est.module_[0].requires_grad_(False)
    frozen = copy.deepcopy(est)
    assert [p.requires_grad for p in frozen.module_.parameters()] == [False] * 2 + [
        True
    ] * 2
    # Looked at before a step changes them: what is loaded is what the layer had.
    from skmethods.optim._moments import carry_over

    new = est._make_optimizer(est.module_)
    carry_over(est.optimizer_, est.module_, new, est.module_)
    named = dict(est.module_.named_parameters())
    for name in ("2.weight", "2.bias"):
        for key, value in before[name].items():
            assert torch.equal(new.state[named[name]][key], value)
    assert len(new.state) == 2
    est.fit(X, y)
    assert torch.equal(est.module_[0].weight, first)
    assert not torch.equal(before["2.weight"][key], moments(est)["2.weight"][key]) or (
        key == "step"
    )
    assert np.array_equal(outputs(frozen.fit(X, y), X), outputs(est, X))  # the pickle
    est.module_[0].requires_grad_(True)
    est.fit(X, y)
    assert not torch.equal(est.module_[0].weight, first)


@pytest.mark.parametrize("order", [("sgd", "adamw"), ("adamw", "sgd")])
@pytest.mark.parametrize("pickled", [False, True])
def test_another_base_optimizer_starts_without_moments(order, pickled):
    X, y = table(LESAMClassifier)
    est = LESAMClassifier(
        **SMALL, warm_start=True, learning_rate=1e-3, base_optimizer=order[0]
    ).fit(X, y)
    fresh = copy.deepcopy(est)
    del fresh.optimizer_
    est.set_params(base_optimizer=order[1])
    if pickled:
        est = pickle.loads(pickle.dumps(est))
    fresh.set_params(base_optimizer=order[1])
    expected = outputs(fresh.fit(X, y), X)
    assert np.array_equal(outputs(est.fit(X, y), X), expected)


@pytest.mark.parametrize(
    "changes", [{"sigma": None, "rho_max": None}, {"learning_rate": -1.0}]
)
def test_a_pickle_holds_the_settings_that_were_used(changes):
    X, y = table(LESAMClassifier)
    est = partial(LESAMClassifier(**SMALL, adaptive=True, max_grad_norm=2.0), X, y)
    group = est.optimizer_.param_groups[0]
    est.set_params(**changes, adaptive=False, momentum=0.1, max_grad_norm=None)
    for other in (pickle.loads(pickle.dumps(est)), copy.deepcopy(est)):
        assert np.array_equal(outputs(other, X), outputs(est, X))
        loaded = dict(other.optimizer_.param_groups[0])
        assert len(loaded.pop("params")) == 4
        assert loaded == {k: v for k, v in group.items() if k != "params"}
        assert other.optimizer_.max_grad_norm == 2.0


class LowPrecision(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out).bfloat16()

    def forward(self, x):
        return self.linear(x.bfloat16()).float()


def test_moments_in_bfloat16_pickle():
    X, y = table(LESAMClassifier)
    est = LESAMClassifier(module=LowPrecision, warm_start=True, max_iter=3).fit(X, y)
    other = pickle.loads(pickle.dumps(est))
    for name, state in moments(est).items():
        assert torch.equal(
            moments(other)[name]["momentum_buffer"], state["momentum_buffer"]
        )
        assert state["momentum_buffer"].dtype is torch.bfloat16
    assert np.array_equal(outputs(est.fit(X, y), X), outputs(other.fit(X, y), X))


@pytest.mark.parametrize("momentum", [0, np.float32(0.5)])
@pytest.mark.parametrize("base", ["sgd", "adamw"])
def test_momentum_of_any_number_type(base, momentum):
    X, y = table(LESAMClassifier)
    options = {**SMALL, "base_optimizer": base, "learning_rate": 0.01}
    one = LESAMClassifier(**options, momentum=momentum).fit(X, y)
    other = LESAMClassifier(**options, momentum=float(momentum)).fit(X, y)
    assert np.array_equal(outputs(one, X), outputs(other, X))


# -- what a network may not be continued with ------------------------------------------


class Wide(nn.Sequential):
    def __init__(self, n_in, n_out, width=4):
        super().__init__(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, n_out))


@BOTH
def test_other_options_of_a_module_or_standardize_are_refused(cls):
    X, y = table(cls)
    options = {"max_iter": 2, "warm_start": True, "random_state": 0}
    est = cls(module=functools.partial(Wide, width=8), **options).fit(X, y)
    est.set_params(module=functools.partial(Wide, width=8)).fit(X, y)
    before = outputs(est, X)
    with pytest.raises(ValueError, match="another one"):
        est.set_params(module=functools.partial(Wide, width=16)).fit(X, y)
    est.set_params(module=functools.partial(Wide, width=8), standardize=False)
    for call in (est.fit, est.partial_fit):
        with pytest.raises(ValueError, match="standardize was changed"):
            call(X, y)
    assert np.array_equal(outputs(est, X), before)


@BOTH
def test_validation_scores_go_with_the_loss_curve(cls):
    X, y = table(cls, 100)
    est = cls(**SMALL, warm_start=True, early_stopping=True).fit(X, y)
    first = est.validation_scores_
    est.fit(X, y)
    assert est.validation_scores_[: len(first)] == first
    assert len(est.validation_scores_) == len(est.loss_curve_) == est.n_iter_
    est.set_params(early_stopping=False).fit(X, y)
    assert not hasattr(est, "validation_scores_")
    est.set_params(early_stopping=True).fit(X, y)  # 15 epochs have no score
    assert not hasattr(est, "validation_scores_")
    est.set_params(warm_start=False).fit(X, y)
    assert len(est.validation_scores_) == len(est.loss_curve_) == est.n_iter_


# -- streams ---------------------------------------------------------------------------


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_regressor_fitted_on_a_constant_learns_later(multi, warm_start):
    X, y = table(LESAMRegressor, 100)
    y = 1000 * y
    targets = np.c_[np.full(100, 5.0), y] if multi else np.full(100, 5.0)
    reg = LESAMRegressor(**SMALL, learning_rate=0.01, warm_start=warm_start)
    out = reg.fit(X, targets).predict(X)
    assert (out.reshape(100, -1)[:, 0] == 5.0).all()
    for _ in range(60):
        reg.partial_fit(X, np.c_[y, y] if multi else y)
    out = reg.predict(X).reshape(100, -1)
    for column in out.T:
        assert 1 - np.mean((column - y) ** 2) / np.var(y) > 0.9
    if warm_start:
        reg.fit(X, y if not multi else targets).fit(X, y if not multi else targets)


def test_a_constant_target_that_changes_is_followed():
    X, _ = table(LESAMRegressor)
    reg = LESAMRegressor(**SMALL, warm_start=True).fit(X, np.full(40, 5.0))
    assert (reg.fit(X, np.full(40, 7.0)).predict(X) == 7.0).all()
    reg.set_params(learning_rate=0.01)
    with pytest.warns(UserWarning, match="scale of y"):
        reg.partial_fit(X, np.full(40, 9.0))
    for _ in range(100):
        reg.partial_fit(X, np.full(40, 12.0))
    assert np.abs(reg.predict(X) - 12).max() < 0.5


@BOTH
def test_a_first_chunk_without_a_scale_warns(cls):
    X, y = table(cls)
    for rows in (X[:1], np.repeat(X[:1], 10, axis=0)):
        with pytest.warns(UserWarning, match="scale of") as seen:
            partial(cls(**SMALL), rows, y[: len(rows)])
        assert "scale of X" in str(seen[-1].message)
        assert {w.filename for w in seen} == {__file__}
    if cls is LESAMRegressor:
        with pytest.warns(UserWarning, match="scale of y"):
            partial(cls(**SMALL), X, np.ones(len(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = partial(cls(**SMALL), X, y)
        partial(est, X[:1], y[:1])
        cls(**SMALL).fit(X[:1], y[:1])
        one = np.c_[X, np.ones(len(X))]
        partial(cls(**SMALL), one, y)
        if cls is LESAMClassifier:
            partial(cls(**SMALL, standardize=False), X[:1], y[:1])


@BOTH
def test_partial_fit_takes_weights_as_they_are(cls):
    """Twice the weight at half the rate of plain gradient descent is the same step."""
    X, y = table(cls)
    options = {**SMALL, "sigma": 0.0, "momentum": 0.0, "weight_decay": 0.0}
    start = partial(cls(**options, learning_rate=0.02), X, y)
    after = {}
    for name, weight, rate in (
        ("plain", None, 0.02),
        ("ones", np.ones(40), 0.02),
        ("double", np.full(40, 2.0), 0.01),
        ("half rate", None, 0.01),
    ):
        est = copy.deepcopy(start).set_params(learning_rate=rate)
        after[name] = outputs(est.partial_fit(X, y, sample_weight=weight), X)
    np.testing.assert_allclose(after["ones"], after["plain"], rtol=1e-6)
    np.testing.assert_allclose(after["double"], after["plain"], rtol=1e-5)
    assert np.abs(after["half rate"] - after["plain"]).max() > 1e-4


def test_class_weight_acts_in_a_chunk_of_one_class():
    X, y = table(LESAMClassifier)
    start = partial(LESAMClassifier(**SMALL, momentum=0.0), X, y)
    only = y == "no"
    moved = []
    for weight in (1.0, 3.0):
        est = copy.deepcopy(start).set_params(class_weight={"no": weight, "yes": 1.0})
        moved.append(outputs(est.partial_fit(X[only], y[only]), X)[:, 0])
    assert moved[1].mean() > moved[0].mean() + 1e-3  # "no" is pulled up further


def test_large_weights_are_no_divergence():
    X, y = table(LESAMClassifier)
    options = {**SMALL, "learning_rate": 1e-7, "weight_decay": 0.0}
    est = partial(LESAMClassifier(**options), X, y, sample_weight=np.full(40, 1e5))
    assert est.loss_curve_[0] > 1000


# -- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "class_weight",
    [
        {"no": -1.0, "yes": 1.0},
        {"no": np.nan, "yes": 1.0},
        {"no": np.inf, "yes": 1.0},
        {"no": 1e39, "yes": 1.0},
        {"no": 0.0, "yes": 0.0},
    ],
)
def test_wrong_class_weight(class_weight):
    X, y = table(LESAMClassifier)
    with pytest.raises(ValueError, match="class_weight"):
        LESAMClassifier(**SMALL, class_weight=class_weight).fit(X, y)


@BOTH
def test_huge_sample_weight(cls):
    X, y = table(cls)
    weight = np.ones(40)
    weight[7] = 1e300
    with pytest.raises(ValueError, match=r"sample_weight holds 1e\+300 in row 7"):
        cls(**SMALL).fit(X, y, sample_weight=weight)
    ratio = np.random.RandomState(0).uniform(1, 2, 40)
    one = cls(**SMALL).fit(X, y, sample_weight=ratio)
    other = cls(**SMALL).fit(X, y, sample_weight=ratio * 2.0**100)
    np.testing.assert_allclose(outputs(one, X), outputs(other, X), rtol=1e-5)


@pytest.mark.parametrize(
    "classes",
    [
        ["no", None],
        [["no", "yes"]],
        [0.0, np.nan],
        [],
        np.array(["no", np.nan], dtype=object),
        5,
    ],
)
def test_wrong_classes(classes):
    X, y = table(LESAMClassifier)
    with pytest.raises(ValueError, match="classes must be"):
        LESAMClassifier(**SMALL).partial_fit(X, y, classes=classes)
    with pytest.raises(TypeError, match="cannot be ordered"):
        LESAMClassifier(**SMALL).partial_fit(
            X, y, classes=np.array(["no", 1], dtype=object)
        )


# -- modules ---------------------------------------------------------------------------


class Pair(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


class Nothing(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.n_out = n_out

    def forward(self, x):
        return x[:, : self.n_out]


def frozen(n_in, n_out):
    return nn.Linear(n_in, n_out).requires_grad_(False)


def normed(n_in, n_out):
    return nn.Sequential(nn.BatchNorm1d(n_in), nn.Linear(n_in, n_out))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"module": nn.Linear(4, 1)}, TypeError, "Pass its class"),
        ({"module": Pair}, TypeError, "returns a tuple"),
        ({"module": Nothing}, ValueError, "without parameters"),
        ({"module": frozen}, ValueError, "Every parameter of module is frozen"),
        ({"module": normed, "batch_size": 1}, ValueError, "batch norm"),
    ],
)
@BOTH
def test_wrong_modules(cls, options, error, match):
    X, y = table(cls)
    with pytest.raises(error, match=match):
        cls(**options, max_iter=2).fit(X, y)


def test_freezing_everything_is_refused():
    X, y = table(LESAMClassifier)
    est = partial(LESAMClassifier(**SMALL), X, y)
    est.module_.requires_grad_(False)
    with pytest.raises(ValueError, match="frozen"):
        est.partial_fit(X, y)


class Double(nn.Linear):
    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out, dtype=torch.float64)


@BOTH
def test_float64_modules(cls):
    X, y = table(cls)
    est = cls(module=Double, max_iter=3, random_state=0, warm_start=True).fit(X, y)
    assert est.module_.weight.dtype is torch.float64
    other = pickle.loads(pickle.dumps(est))
    assert np.array_equal(outputs(other.fit(X, y), X), outputs(est.fit(X, y), X))
    torch.set_default_dtype(torch.float64)
    try:
        wide = cls(**SMALL).fit(X, y)
        assert wide.module_[0].weight.dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    narrow = pickle.loads(pickle.dumps(wide))
    assert np.array_equal(outputs(narrow, X), outputs(wide, X))


@pytest.mark.parametrize(
    "around",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
    ],
)
@BOTH
def test_modes_around_a_fit_do_no_harm(cls, around):
    X, y = table(cls)
    expected = cls(**SMALL, warm_start=True).fit(X, y)
    with around():
        est = cls(**SMALL, warm_start=True).fit(X, y)
        assert np.array_equal(outputs(est, X), outputs(expected, X))
        est = pickle.loads(pickle.dumps(est)).fit(X, y)
    assert np.array_equal(outputs(est, X), outputs(expected.fit(X, y), X))
    assert np.array_equal(
        outputs(est.partial_fit(X, y), X), outputs(expected.partial_fit(X, y), X)
    )


@BOTH
def test_sigma_none_is_infinity(cls):
    X, y = table(cls)
    one = cls(**SMALL, sigma=None).fit(X, y)
    other = cls(**SMALL, sigma=np.inf).fit(X, y)
    assert np.array_equal(outputs(one, X), outputs(other, X))
    with pytest.raises(ValueError, match="both be unlimited"):
        cls(**SMALL, sigma=None, rho_max=np.inf).fit(X, y)
