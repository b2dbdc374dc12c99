"""LESAM and its callbacks inside skorch."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

from skmethods.optim import (
    LESAM,
    LESAMBatchNormGuard,
    LESAMSigmaSchedule,
    SigmaSchedule,
)


class Module(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        middle = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.layers = nn.Sequential(
            nn.Linear(10, 16), middle, nn.ReLU(), nn.Linear(16, 3)
        )

    def forward(self, x):
        return self.layers(x)


ABSENT = object()


def make_net(**kw):
    options = {
        "criterion": nn.CrossEntropyLoss,
        "optimizer": LESAM,
        "optimizer__base_optimizer": torch.optim.SGD,
        "optimizer__sigma": 0.1,
        "optimizer__momentum": 0.9,
        "lr": 0.05,
        "max_epochs": 5,
        "batch_size": 32,
        "iterator_train__shuffle": False,
        "train_split": None,
        "verbose": 0,
    }
    options = {k: v for k, v in (options | kw).items() if v is not ABSENT}
    torch.manual_seed(0)
    return NeuralNetClassifier(Module, **options)


@pytest.fixture(autouse=True)
def _own_random_state():
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        160, 10, n_informative=6, n_classes=3, random_state=0, class_sep=2.0
    )
    return X.astype(np.float32), y


def weights(net):
    return torch.cat([p.detach().reshape(-1) for p in net.module_.parameters()])


def test_fit_is_the_loop_by_hand(data):
    X, y = data
    net = make_net().fit(X, y)
    assert net.score(X, y) > 0.8

    torch.manual_seed(0)
    module = Module()
    optimizer = LESAM(module.parameters(), sigma=0.1, momentum=0.9, lr=0.05)
    for epoch in range(5):
        total = 0.0
        for rows in torch.arange(len(X)).split(32):

            def closure(rows=rows):
                optimizer.zero_grad()
                out = module(torch.tensor(X)[rows])
                loss = nn.functional.cross_entropy(out, torch.tensor(y)[rows])
                loss.backward()
                return loss

            total += float(optimizer.step(closure).detach()) * len(rows) / len(X)
        # skorch logs the loss at the weights, not at the perturbed ones
        assert net.history[epoch, "train_loss"] == pytest.approx(total, rel=1e-6)
    by_hand = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    torch.testing.assert_close(weights(net), by_hand)


def test_sigma_reaches_the_optimiser(data):
    found = [weights(make_net(optimizer__sigma=s).fit(*data)) for s in (0.0, 0.1)]
    plain = make_net(
        optimizer=torch.optim.SGD,
        optimizer__base_optimizer=ABSENT,
        optimizer__sigma=ABSENT,
    )
    torch.testing.assert_close(found[0], weights(plain.fit(*data)))
    assert not torch.allclose(*found)


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.AdamW])
def test_pickle_then_partial_fit_is_an_uninterrupted_run(data, base):
    options = {"optimizer__base_optimizer": base, "lr": 0.01}
    if base is torch.optim.AdamW:
        options["optimizer__momentum"] = ABSENT
    net = make_net(**options, callbacks=[LESAMBatchNormGuard()], module__norm=True)
    whole = clone(net).set_params(max_epochs=6)
    torch.manual_seed(0)
    whole.fit(*data)
    torch.manual_seed(0)
    parts = net.set_params(max_epochs=3).fit(*data)
    parts = pickle.loads(pickle.dumps(parts))
    optimizer = parts.optimizer_
    assert optimizer.state is optimizer.base_optimizer.state and optimizer.state
    parts.partial_fit(*data)
    assert torch.equal(weights(parts), weights(whole))


def test_save_and_load_params(data, tmp_path):
    whole = make_net(max_epochs=6).fit(*data)
    first = make_net(max_epochs=3).fit(*data)
    files = {"f_params": tmp_path / "p.pt", "f_optimizer": tmp_path / "o.pt"}
    first.save_params(**files)
    second = make_net(max_epochs=3).initialize()
    second.load_params(**files)
    optimizer = second.optimizer_
    assert optimizer.state is optimizer.base_optimizer.state and optimizer.state
    second.partial_fit(*data)
    torch.testing.assert_close(weights(second), weights(whole))


class Record(LESAMSigmaSchedule):
    """The schedule, which writes down what it set."""

    def on_epoch_begin(self, net, **kwargs):
        super().on_epoch_begin(net, **kwargs)
        net.seen = [*getattr(net, "seen", []), net.optimizer_.sigma]


def test_sigma_schedule(data):
    net = make_net(max_epochs=10, callbacks=[Record("linear", 0.5, sigma_min=0.01)])
    net.fit(*data)
    schedule = SigmaSchedule("linear", 0.5, 0.01)
    assert net.seen == [schedule(epoch, 10, 0.1) for epoch in range(10)]
    assert net.seen[-1] == pytest.approx(0.01)


def test_sigma_schedule_goes_on(data):
    """Three epochs, then seven more of ten in all; from a budget of its own."""
    callback = Record(sigma=0.2, max_epochs=10, decay_start=0.0)
    net = make_net(max_epochs=3, callbacks=[callback]).fit(*data)
    net.set_params(max_epochs=7).partial_fit(*data)
    assert net.seen == [SigmaSchedule("cosine", 0.0)(e, 10, 0.2) for e in range(10)]


def test_sigma_schedule_follows_the_parameter_of_the_net(data):
    net = make_net(max_epochs=2, callbacks=[Record("none")]).fit(*data)
    net.set_params(optimizer__sigma=0.3).partial_fit(*data)
    net.set_params(optimizer__sigma=None).partial_fit(*data)
    assert net.seen == [0.1, 0.1, 0.3, 0.3, np.inf, np.inf]
    default = make_net(callbacks=[Record("none")], optimizer__sigma=ABSENT).fit(*data)
    assert default.seen == [0.1] * 5


def test_sigma_schedule_goes_on_from_a_pickle(data):
    """In the middle of the fall, where the budget is not the one it began with."""
    options = {"max_epochs": 3, "callbacks": [Record(max_epochs=6, decay_start=0.0)]}
    net = pickle.loads(pickle.dumps(make_net(**options).fit(*data)))
    net.partial_fit(*data)
    assert net.seen == [SigmaSchedule("cosine", 0.0)(e, 6, 0.1) for e in range(6)]


@pytest.mark.parametrize("guard", [False, True])
def test_batch_norm_guard(data, guard):
    callbacks = [LESAMBatchNormGuard()] if guard else []
    net = make_net(module__norm=True, callbacks=callbacks).fit(*data)
    steps = 5 * 5
    counted = int(net.module_.layers[1].num_batches_tracked)
    assert counted == (steps if guard else 2 * steps)
    again = pickle.loads(pickle.dumps(net)).partial_fit(*data)
    counted = int(again.module_.layers[1].num_batches_tracked)
    assert counted == (2 * steps if guard else 4 * steps)


@pytest.mark.parametrize("callback", [LESAMBatchNormGuard, LESAMSigmaSchedule])
def test_callbacks_need_lesam(data, callback):
    net = NeuralNetClassifier(
        Module, criterion=nn.CrossEntropyLoss, callbacks=[callback()], verbose=0
    )
    with pytest.raises(ValueError, match="trains without LESAM"):
        net.fit(*data)
    with pytest.raises(ValueError, match="decay must be"):
        make_net(callbacks=[LESAMSigmaSchedule("step")]).initialize()


def test_clipping_by_skorch_lengthens_the_perturbation(data):
    """Trap 5: why LESAM has max_grad_norm."""
    clip = 1e-3
    theirs = make_net(
        optimizer__rho_max=None,
        max_epochs=1,
        callbacks=[GradientNormClipping(clip)],
        lr=1e-6,
    ).fit(*data)
    ours = make_net(
        optimizer__rho_max=None, max_epochs=1, optimizer__max_grad_norm=clip, lr=1e-6
    ).fit(*data)
    assert theirs.optimizer_.last_rho_ == pytest.approx(0.1 / clip, rel=1e-3)
    assert ours.optimizer_.last_rho_ < theirs.optimizer_.last_rho_ / 10
    assert ours.optimizer_.last_rho_ == pytest.approx(
        0.1 / ours.optimizer_.last_grad_norm_
    )


def test_grid_search_over_sigma(data):
    net = make_net(callbacks=[LESAMSigmaSchedule(), LESAMBatchNormGuard()])
    search = GridSearchCV(net, {"optimizer__sigma": [0.01, 0.1]}, cv=2).fit(*data)
    assert search.best_score_ > 0.6
