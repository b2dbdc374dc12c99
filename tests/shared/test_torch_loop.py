"""The shared training loop."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from skmethods._torch.epoch import batch_bounds
from skmethods._torch.loop import fit_net


def linear(value=0.0):
    module = nn.Linear(2, 1, bias=False).double()
    nn.init.constant_(module.weight, value)
    return module


def squared(module, x, y):
    return (module(x)[:, 0] - y).square().mean()


def data(n=10):
    rng = np.random.RandomState(0)
    x = torch.tensor(rng.standard_normal((n, 2)))
    return x, x @ torch.tensor([1.0, -2.0], dtype=torch.float64)


DATA = data()  # made outside inference mode


def run(module, tensors, loss=squared, lr=0.1, seed=0, **kw):
    options = {"max_iter": 3, "batch_size": 4}
    return fit_net(
        module,
        tensors,
        loss,
        optimizer=kw.pop("optimizer", None) or torch.optim.SGD(module.parameters(), lr),
        generator=torch.Generator().manual_seed(seed),
        **(options | kw),
    )


@pytest.mark.parametrize(
    ("n", "batch_size", "expected"),
    [
        (1, 4, [(0, 1)]),
        (4, 4, [(0, 4)]),
        (5, 4, [(0, 5)]),
        (6, 4, [(0, 4), (4, 6)]),
        (9, 4, [(0, 4), (4, 9)]),
        (3, 1, [(0, 1), (1, 2), (2, 3)]),
        (3, 2, [(0, 3)]),
    ],
)
def test_batch_bounds(n, batch_size, expected):
    assert batch_bounds(n, batch_size) == expected


def test_is_the_loop_by_hand():
    x, y = data()
    module = linear()
    record = run(module, (x, y))
    other, generator = linear(), torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(other.parameters(), 0.1)
    curve = []
    for _ in range(3):
        order = torch.randperm(10, generator=generator)
        total = 0.0
        for rows in order.split(4):
            optimizer.zero_grad()
            loss = squared(other, x[rows], y[rows])
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows) / 10
        curve.append(float(total))
    assert torch.equal(module.weight, other.weight)
    assert record.loss_curve == pytest.approx(curve)
    assert record.n_iter == 3 and not module.training
    assert all(p.grad is None for p in module.parameters())


def test_learns():
    module = linear()
    run(module, data(200), max_iter=50)
    torch.testing.assert_close(
        module.weight.detach()[0], torch.tensor([1.0, -2.0], dtype=torch.float64)
    )


def test_schedule_and_verbose(capsys):
    epochs = []
    run(linear(), data(), before_epoch=epochs.append, verbose=True)
    assert epochs == [0, 1, 2]
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_best_epoch_of_validation_is_kept():
    module, seen, scores = linear(), [], iter([1.0, 3.0, 2.0, 2.5, 0.0])

    def validate():
        assert not module.training
        seen.append(module.weight.detach().clone())
        return next(scores)

    record = run(module, data(), validate=validate, patience=3, max_iter=9)
    assert record.validation_curve == [1.0, 3.0, 2.0, 2.5, 0.0]
    assert torch.equal(module.weight, seen[1]) and record.n_iter == 5


@pytest.mark.parametrize(("tol", "n_iter"), [(0.0, 9), (1.0, 4)])
def test_patience_on_the_training_loss(tol, n_iter):
    """A loss that falls by less than tol does not count as falling."""
    record = run(linear(), data(), lr=1e-3, patience=3, tol=tol, max_iter=9)
    # the first epoch always counts, three more are waited for
    assert record.n_iter == n_iter


class Stop:
    """A progress that asks to stop after two epochs."""

    def __init__(self):
        self.begun = self.ended = 0

    def begin(self):
        self.begun += 1

    def end(self):
        self.ended += 1
        return self.ended == 2


def test_progress_can_stop():
    progress = Stop()
    record = run(linear(), data(), progress=progress, max_iter=9)
    assert (record.n_iter, progress.begun, progress.ended) == (2, 2, 2)


@pytest.mark.parametrize("lr", [1e200, 1e308])
def test_divergence_in_the_first_epoch_raises(lr):
    with pytest.raises(ValueError, match=r"epoch 1 of 3\. Lower the learning rate"):
        run(linear(), data(), lr=lr)


def test_divergence_in_the_last_step_raises():
    """The loss of an epoch is from before its last step."""
    with pytest.raises(ValueError, match="Lower the learning rate"):
        run(linear(), data(4), lr=1e100, max_iter=1, ceiling=1e6)


def test_ceiling():
    module = linear(1e6)
    assert run(module, data(), lr=1e-9).loss_curve[0] > 1e6
    with pytest.raises(ValueError, match="epoch 1"):
        run(module, data(), lr=1e-9, ceiling=1e6)


@pytest.mark.parametrize("last", [True, False])
def test_an_outlier_in_the_last_batch_is_no_divergence(last):
    """Its loss is n times its share of the mean, which is what the ceiling bounds."""
    n = 50
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    x, y = torch.ones(n, 2, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    y[order[-1 if last else 0]] = 100.0  # squared: mean 200, by itself 10 000
    options = {"lr": 1e-12, "batch_size": 1, "max_iter": 1}
    record = run(linear(), (x, y), ceiling=1000.0, **options)
    assert record.loss_curve[0] == pytest.approx(200.0)
    with pytest.raises(ValueError, match="Lower the learning rate"):
        run(linear(), (x, y), ceiling=199.0, **options)


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode, "autocast"])
def test_modes_around_it_do_no_harm(around):
    modules = linear(), linear()
    run(modules[0], data())
    if around == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            run(modules[1].float(), [t.float() for t in data()])
        torch.testing.assert_close(modules[1].double().weight, modules[0].weight)
        return
    with around():
        run(modules[1], data() if around is torch.no_grad else DATA)
    assert torch.equal(modules[0].weight, modules[1].weight)


@pytest.mark.parametrize("what", ["loss", "weight"])
def test_divergence_later_goes_back(what):
    module, epochs = linear(), []
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)

    def loss(module, x, y):
        broken = epochs[-1] == 2 and module.training
        if broken and what == "weight":
            module.weight.data[0, 0] = math.inf
            return (module(x) * 0).nan_to_num().mean()
        return squared(module, x, y) * (math.nan if broken else 1.0)

    kept = []

    def before(epoch):
        epochs.append(epoch)
        kept.append(module.weight.detach().clone())

    with pytest.warns(ConvergenceWarning, match="last good weights are kept"):
        record = run(
            module,
            data(),
            loss=loss,
            before_epoch=before,
            max_iter=5,
            optimizer=optimizer,
        )
    assert record.n_iter == len(record.loss_curve) == 2
    assert torch.equal(module.weight, kept[2])
    assert not optimizer.state


def test_lesam_is_an_optimiser_like_any_other():
    from skmethods.optim import LESAM

    module = linear()
    optimizer = LESAM(module.parameters(), sigma=0.01, lr=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = run(module, data(100), optimizer=optimizer, max_iter=20)
    assert record.loss_curve[-1] < 0.1 * record.loss_curve[0]


def test_global_random_state_and_threads_are_left_alone():
    module = linear()
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    run(module, data())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
