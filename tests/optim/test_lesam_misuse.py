"""The optimiser where it is used in an unusual way: each case was a defect once."""

import copy
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from skmethods.optim import LESAM


def problem(dtype=torch.float32):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(dtype)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 5, generator=generator, dtype=dtype)
    y = torch.randint(3, (20,), generator=generator)
    losses = []

    def closure_for(optimizer):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            losses.append(loss.item())
            return loss

        return closure

    return model, closure_for, losses


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


# -- autocast --------------------------------------------------------------------------


def test_autocast_around_the_step_is_that_inside_the_closure():
    found = {}
    for where in ("inside", "around"):
        model, closure_for, losses = problem()
        optimizer = LESAM(model.parameters(), sigma=0.5, rho_max=None, lr=0.1)
        closure = closure_for(optimizer)
        if where == "inside":
            closure = torch.autocast("cpu", torch.bfloat16)(closure)
            for _ in range(3):
                optimizer.step(closure)
        else:
            with torch.autocast("cpu", torch.bfloat16):
                for _ in range(3):
                    optimizer.step(closure)
        assert losses[1] > losses[0] + 0.1  # the second pass saw other weights
        found[where] = losses
    assert found["inside"] == found["around"]


# -- one state, one list of groups -----------------------------------------------------


def test_loading_into_the_base_keeps_both_together():
    model, closure_for, _ = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, momentum=0.9, sigma=0.2)
    optimizer.step(closure_for(optimizer))
    base = optimizer.base_optimizer
    base.load_state_dict(copy.deepcopy(base.state_dict()))
    assert optimizer.param_groups is base.param_groups
    assert optimizer.state is base.state and len(base.state) == 4
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = flat(model)
    optimizer.step(closure_for(optimizer))
    assert torch.equal(flat(model), before) and optimizer.sigma == 0.2


def test_a_plain_checkpoint_loaded_into_the_base():
    model, closure_for, _ = problem()
    plain = torch.optim.SGD(model.parameters(), lr=0.1).state_dict()
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.2)
    optimizer.base_optimizer.load_state_dict(plain)
    optimizer.step(closure_for(optimizer))
    assert optimizer.sigma == 0.2


def test_a_group_added_to_the_base_gets_the_settings():
    found = []
    for through_base in (True, False):
        model, closure_for, _ = problem()
        optimizer = LESAM(model[0].parameters(), lr=0.1, sigma=0.05, adaptive=True)
        optimizer.set_sigma(0.02)
        target = optimizer.base_optimizer if through_base else optimizer
        target.add_param_group({"params": list(model[2].parameters())})
        optimizer.step(closure_for(optimizer))
        assert optimizer.param_groups[1]["sigma"] == 0.02
        found.append(flat(model))
    assert torch.equal(*found)


def test_constructing_does_not_touch_the_state_of_an_instance():
    model, closure_for, _ = problem()
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    base.step(closure_for(base))
    state = {p: s["momentum_buffer"].clone() for p, s in base.state.items()}
    optimizer = LESAM(None, base)
    for p, value in state.items():
        assert torch.equal(optimizer.state[p]["momentum_buffer"], value)
    optimizer.state.clear()
    assert not base.state


def test_wrapping_an_instance_again_uses_the_new_settings():
    model, _, _ = problem()
    base = torch.optim.SGD(model.parameters(), lr=0.1)
    LESAM(None, base, sigma=0.1)
    optimizer = LESAM(None, base, sigma=0.5, rho_max=1.0, adaptive=True, norm_eps=1e-9)
    expected = {"sigma": 0.5, "rho_max": 1.0, "adaptive": True, "norm_eps": 1e-9}
    assert base.param_groups[0].items() >= expected.items()
    assert optimizer.sigma == 0.5
    # Said by the user for one group, and not left over from a wrapper: it stays.
    params = enumerate(model.parameters())
    groups = [{"params": p, "adaptive": i > 0} for i, p in params]
    kept = LESAM(None, torch.optim.SGD(groups, lr=0.1))
    assert [g["adaptive"] for g in kept.param_groups] == [False, True, True, True]


# -- by hand ---------------------------------------------------------------------------


def test_a_scheduler_knows_of_steps_by_hand():
    model, closure_for, _ = problem()
    optimizer = LESAM(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    closure = closure_for(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closure()
        optimizer.ascent_step()
        closure()
        optimizer.descent_step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_step_between_ascent_and_descent_is_refused_and_can_be_undone(sigma):
    model, closure_for, losses = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, weight_decay=0.1, momentum=0.9)
    closure, before = closure_for(optimizer), flat(model)
    closure()
    optimizer.ascent_step()
    optimizer.set_sigma(sigma)
    with pytest.raises(RuntimeError, match="zero_grad"):
        optimizer.step(closure)
    assert len(losses) == 1
    optimizer.zero_grad()
    optimizer.descent_step()  # what the message and the guide say
    assert torch.equal(flat(model), before)
    optimizer.step(closure)


def test_batch_norm_records_again_though_module_was_taken_away():
    norm = nn.BatchNorm1d(2)
    optimizer = LESAM(norm.parameters(), lr=0.1, module=norm)
    norm(torch.randn(4, 2)).square().sum().backward()
    optimizer.ascent_step()
    assert not norm.track_running_stats
    optimizer.module = None
    optimizer.descent_step()
    assert norm.track_running_stats


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_expanded_gradient(adaptive):
    moved = []
    for expanded in (True, False):
        p = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        optimizer = LESAM([p], lr=0.1, adaptive=adaptive)
        grad = torch.tensor([0.5]).expand(3)
        p.grad = grad if expanded else grad.clone()
        optimizer.ascent_step()
        moved.append(p.detach().clone())
        assert torch.equal(grad, torch.full((3,), 0.5))
    assert torch.equal(*moved) and not torch.equal(moved[0], torch.arange(1.0, 4.0))


# -- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"sigma": "a"}, TypeError, "sigma must be a number"),
        ({"rho_max": [1]}, TypeError, "rho_max must be a number"),
        ({"center_subtract": math.nan}, ValueError, "center_subtract must be finite"),
        ({"center_subtract": math.inf}, ValueError, "center_subtract must be finite"),
        ({"norm_eps": None}, TypeError, "norm_eps must be a number"),
        ({"max_grad_norm": "x"}, TypeError, "max_grad_norm must be a number"),
        ({"module": 5}, TypeError, "module must be a torch.nn.Module"),
        ({"base_optimizer": lambda p: 5}, TypeError, "not a torch optimiser"),
    ],
)
def test_wrong_arguments(options, error, match):
    with pytest.raises(error, match=match):
        LESAM([nn.Parameter(torch.ones(2))], **options)


@pytest.mark.parametrize(
    ("group", "error", "match"),
    [
        ({"sigma": -1.0}, ValueError, "sigma must not be negative"),
        ({"sigma": "a"}, TypeError, "sigma must be a number"),
        ({"rho_max": -1.0}, ValueError, "rho_max must not be negative"),
        ({"sigma": None, "rho_max": None}, ValueError, "both be unlimited"),
    ],
)
def test_wrong_groups(group, error, match):
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with pytest.raises(error, match=match):
        LESAM([{"params": [p], **group}], lr=0.1)
    optimizer = LESAM([p], lr=0.1)
    with pytest.raises((ValueError, TypeError), match="must"):
        optimizer.add_param_group({"params": [q], **group})
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups[0].update(group)
    p.grad = torch.ones(2)
    with pytest.raises(error, match=match):
        optimizer.ascent_step()
