"""Training that goes on: frozen layers, other optimisers, streams, pickles."""

import copy
import pickle

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
