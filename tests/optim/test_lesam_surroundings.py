"""LESAM beside checkpoints, schedulers, batch norm, mixed precision, accumulation."""

import copy
import io
import os
import pickle
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from skmethods.optim import LESAM
from skmethods.optim._foreach import (
    add_scaled_,
    perturbation,
    perturbation_on_device,
    total_norm,
)
from tests.optim.test_lesam import BASES, closures, data, flat, problem, train

# -- traps 2 and 3: one state; checkpoints, pickles, copies ----------------------------


def assert_linked(optimizer):
    assert optimizer.state is optimizer.base_optimizer.state
    assert optimizer.param_groups is optimizer.base_optimizer.param_groups


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("way", ["state_dict", "torch.save", "pickle", "deepcopy"])
def test_resume_is_exact(base, way):
    cls, options = BASES[base]
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), cls, sigma=0.05, **options)
    train(model, closure_for, optimizer, 5)
    optimizer.set_sigma(0.03)
    # What is restored, before the original goes on.
    if way == "pickle":
        twin, other = pickle.loads(pickle.dumps((model, optimizer)))
    elif way == "deepcopy":
        twin, other = copy.deepcopy((model, optimizer))
    else:
        twin = copy.deepcopy(model)
        other = LESAM(twin.parameters(), cls, **options)
        state = optimizer.state_dict()
        if way == "torch.save":
            file = io.BytesIO()
            torch.save(state, file)
            file.seek(0)
            state = torch.load(file, weights_only=True)
        other.load_state_dict(copy.deepcopy(state))
    assert_linked(other)
    assert other.sigma == 0.03
    assert other.param_groups[0]["params"][0] is next(twin.parameters())
    expected = train(model, closure_for, optimizer, 5)
    assert torch.equal(train(twin, closures(twin), other, 5), expected)


def test_settings_survive_a_copy():
    model, _ = problem()
    optimizer = LESAM(
        model.parameters(),
        torch.optim.AdamW,
        sigma=0.02,
        rho_max=0.7,
        adaptive=True,
        norm_eps=1e-9,
        center_subtract=0.1,
        max_grad_norm=2.0,
        module=model,
        same_rng=True,
        lr=0.3,
    )
    twin, other = copy.deepcopy((model, optimizer))
    assert other.param_groups[0].items() >= {"sigma": 0.02, "rho_max": 0.7}.items()
    assert other.param_groups[0].items() >= {"norm_eps": 1e-9, "lr": 0.3}.items()
    assert (other.center_subtract, other.max_grad_norm) == (0.1, 2.0)
    assert other.module is twin and other.same_rng
    assert other.defaults == optimizer.defaults


def test_loads_a_checkpoint_of_the_base():
    model, closure_for = problem()
    options = {"lr": 0.1, "momentum": 0.9}
    base = torch.optim.SGD(model.parameters(), **options)
    train(model, closure_for, base, 3)
    optimizer = LESAM(model.parameters(), sigma=0.07, **options)
    optimizer.load_state_dict(base.state_dict())
    assert optimizer.sigma == 0.07 and len(optimizer.state) == 4
    train(model, closure_for, optimizer, 3)


def test_load_state_dict_hooks_are_called():
    model, _ = problem()
    optimizer = LESAM(model.parameters(), lr=0.1)
    seen = []
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [optimizer]


def test_add_param_group():
    model, closure_for = problem()
    first, last = model[0], model[2]
    optimizer = LESAM(first.parameters(), torch.optim.AdamW, sigma=0.2, lr=0.1)
    optimizer.set_sigma(0.05)
    optimizer.add_param_group({"params": last.parameters(), "lr": 0.5})
    assert_linked(optimizer)
    assert optimizer.param_groups[1].items() >= {"sigma": 0.05, "lr": 0.5}.items()
    assert optimizer.param_groups[1]["betas"] == (0.9, 0.999)
    before = last.weight.detach().clone()
    train(model, closure_for, optimizer, 1)
    assert not torch.equal(last.weight.detach(), before)
    optimizer.add_param_group({"params": nn.Parameter(torch.ones(2))})
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": list(last.parameters())})


def test_schedulers_attach_to_it():
    rates = []
    for wrapped in (False, True):
        model, closure_for = problem()
        options = {"lr": 0.1, "momentum": 0.9}
        optimizer = (
            LESAM(model.parameters(), **options)
            if wrapped
            else torch.optim.SGD(model.parameters(), **options)
        )
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=0.5, total_steps=10
        )
        base = optimizer.base_optimizer if wrapped else optimizer
        seen = []
        for _ in range(10):
            optimizer.step(closure_for(optimizer))
            seen.append((base.param_groups[0]["lr"], base.param_groups[0]["momentum"]))
            if len(seen) < 10:
                scheduler.step()
        rates.append(seen)
    assert rates[0] == rates[1]


def test_step_hooks():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.base_optimizer.register_step_post_hook(lambda *_: seen.append("base"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    train(model, closure_for, optimizer, 1)
    assert seen == ["before", "base", "after"]


# -- trap 6: batch norm ----------------------------------------------------------------


def norm_net(layer):
    torch.manual_seed(0)
    if layer is nn.InstanceNorm1d:
        middle = nn.Sequential(
            nn.Unflatten(1, (2, 3)), layer(2, track_running_stats=True), nn.Flatten()
        )
    else:
        middle = layer(6)
    return nn.Sequential(nn.Linear(4, 6), middle, nn.Linear(6, 2))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.InstanceNorm1d])
@pytest.mark.parametrize("explicit", [False, True])
def test_norm_statistics_are_of_the_first_pass(layer, explicit):
    with torch.random.fork_rng(devices=[]):
        model = norm_net(layer)
    reference = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    optimizer = LESAM(model.parameters(), lr=0.0, sigma=0.1, module=model)
    for _ in range(50):
        x = torch.randn(16, 4, generator=generator)

        def closure(x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        if explicit:
            closure()
            optimizer.ascent_step()
            closure()
            optimizer.descent_step()
        else:
            optimizer.step(closure)
        reference(x)
    found = dict(model.named_buffers())
    for name, buffer in reference.named_buffers():
        torch.testing.assert_close(found[name], buffer, rtol=0, atol=0)
    if layer is nn.BatchNorm1d:
        assert int(model[1].num_batches_tracked) == 50


def test_without_module_batch_norm_records_twice():
    """What the parameter is for; it must not pass by accident."""
    with torch.random.fork_rng(devices=[]):
        model = norm_net(nn.BatchNorm1d)
    optimizer = LESAM(model.parameters(), lr=0.0)
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert int(model[1].num_batches_tracked) == 2


def test_batch_norm_records_again_after_a_failure():
    with torch.random.fork_rng(devices=[]):
        model = norm_net(nn.BatchNorm1d)
    optimizer = LESAM(model.parameters(), lr=0.1, module=model)
    calls = []

    def closure():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        optimizer.zero_grad()
        loss = model(torch.ones(4, 4)).square().mean()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="out of memory"):
        optimizer.step(closure)
    model(torch.ones(4, 4))
    assert int(model[1].num_batches_tracked) == 2


# -- trap 8: mixed precision -----------------------------------------------------------


def scaled(model, closure_for, scaler, **options):
    """Five steps with a gradient scaler; the lengths of the perturbations."""
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.05, **options)
    closure, rhos = closure_for(optimizer, scaler), []

    for _ in range(5):
        optimizer.step(closure, grad_scaler=scaler)
        scaler.update()
        rhos.append(optimizer.last_rho_)
    return flat(model), rhos


@pytest.mark.parametrize("options", [{}, {"max_grad_norm": 0.1}, {"adaptive": True}])
def test_grad_scaler_changes_nothing(options):
    model, closure_for = problem()
    plain = LESAM(model.parameters(), lr=0.1, sigma=0.05, **options)
    expected, rhos = [], []
    for _ in range(5):
        expected = train(model, closure_for, plain, 1)
        rhos.append(plain.last_rho_)
    model, closure_for = problem()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    found, found_rhos = scaled(model, closure_for, scaler, **options)
    assert found_rhos == pytest.approx(rhos)
    torch.testing.assert_close(found, expected)


def test_without_grad_scale_the_perturbation_is_too_short():
    """What the argument is for."""
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.05)
    closure_for(optimizer)()
    for p in model.parameters():
        p.grad *= 1024
    optimizer.ascent_step()
    too_short = optimizer.last_rho_
    optimizer._restore()
    closure_for(optimizer)()
    for p in model.parameters():
        p.grad *= 1024
    optimizer.ascent_step(grad_scale=torch.tensor(1024.0))
    assert optimizer.last_rho_ == pytest.approx(1024 * too_short)


def test_grad_scaler_skips_an_overflow():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    closure = closure_for(optimizer)

    def overflows():
        loss = closure()
        next(model.parameters()).grad[0, 0] = torch.inf
        scaler.scale(loss.detach())
        return loss

    before = flat(model)
    optimizer.step(overflows, grad_scaler=scaler)
    scaler.update()
    assert torch.equal(flat(model), before) and scaler.get_scale() == 2.0**11


def test_bfloat16_autocast():
    model, _ = problem(dtype=torch.float32)
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.05)
    x, y = data(torch.float32)

    def closure():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure).detach()) for _ in range(30)]
    assert losses[-1] < losses[0] and 0 < optimizer.last_rho_ <= 0.3


# -- traps 9 and 10, cost --------------------------------------------------------------


def test_accumulation_inside_the_closure_is_the_whole_batch():
    model, closure_for = problem()
    expected = train(model, closure_for, LESAM(model.parameters(), lr=0.1))
    model, _ = problem()
    optimizer = LESAM(model.parameters(), lr=0.1)
    x, y = data()

    def closure():
        optimizer.zero_grad()
        total = 0.0
        for rows in torch.arange(20).split(6):
            loss = F.cross_entropy(model(x[rows]), y[rows]) * len(rows) / 20
            loss.backward()
            total += loss.detach()
        return total

    for _ in range(10):
        optimizer.step(closure)
    torch.testing.assert_close(flat(model), expected, rtol=1e-12, atol=1e-12)


def test_refuses_sharded_parameters(monkeypatch):
    """A stand-in, since a DTensor needs a process group."""

    class DTensor(torch.Tensor):
        pass

    fake = type(sys)("torch.distributed.tensor")
    fake.DTensor = DTensor
    monkeypatch.setitem(sys.modules, "torch.distributed.tensor", fake)
    sharded = torch.ones(3).as_subclass(DTensor).requires_grad_()
    with pytest.raises(ValueError, match="DTensor"):
        LESAM([sharded], lr=0.1)
    optimizer = LESAM([nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(ValueError, match="DTensor"):
        optimizer.add_param_group({"params": sharded})


def test_memory_is_one_copy_of_the_parameters():
    """A7, in bytes that tensors alive between the two passes hold."""
    size = 500_000
    x = nn.Parameter(torch.ones(size))
    optimizer = LESAM([x], lr=0.1, sigma=0.1)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        x.grad = torch.ones(size)
        optimizer.ascent_step()
        assert x.grad is None
        x.grad = torch.ones(size)
        optimizer.descent_step()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    # A gradient, which every optimiser needs, and the copy of the parameters.
    assert 2 * 4 * size <= peak <= 2.05 * 4 * size


def test_global_random_state_is_left_alone():
    model, closure_for = problem()
    before = torch.get_rng_state()
    train(model, closure_for, LESAM(model.parameters(), lr=0.1, same_rng=True))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
def test_nothing_waits_for_the_gpu():
    model = nn.Linear(8, 8).cuda()
    optimizer = LESAM(model.parameters(), lr=0.1, module=model)
    x = torch.ones(4, 8, device="cuda")

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.step(closure)
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    assert optimizer.last_rho_ > 0


# -- trap 9: several processes ---------------------------------------------------------

_WORKER = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from skmethods.optim import LESAM
rank, port, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                        world_size=2)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(),
                            torch.nn.Linear(7, 3)).double()
net = DistributedDataParallel(model)
optimizer = LESAM(net.parameters(), lr=0.1, momentum=0.9, sigma=0.05)
generator = torch.Generator().manual_seed(1)
x = torch.randn(40, 5, generator=generator, dtype=torch.float64)
y = torch.randint(3, (40,), generator=generator)
x, y = x[rank::2], y[rank::2]
def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    return loss
rhos = []
for _ in range(10):
    optimizer.step(closure)
    rhos.append(optimizer.last_rho_)
torch.save({"weights": [p.detach() for p in model.parameters()],
            "rhos": rhos}, f"{out}/{rank}.pt")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_are_one_on_the_union(tmp_path):
    import socket
    import subprocess

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(rank), port, str(tmp_path)], env=env
        )
        for rank in range(2)
    ]
    try:
        assert [w.wait(timeout=240) for w in workers] == [0, 0]
    finally:
        for w in workers:
            w.kill()
    one, two = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert one["rhos"] == two["rhos"]
    for a, b in zip(one["weights"], two["weights"], strict=True):
        assert torch.equal(a, b)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    optimizer = LESAM(model.parameters(), lr=0.1, momentum=0.9, sigma=0.05)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (40,), generator=generator)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for rho in one["rhos"]:
        optimizer.step(closure)
        assert optimizer.last_rho_ == pytest.approx(rho, rel=1e-12)
    for a, b in zip(one["weights"], model.parameters(), strict=True):
        torch.testing.assert_close(a, b.detach(), rtol=1e-10, atol=1e-12)


# -- the tensor arithmetic that other devices use --------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1024.0])
@pytest.mark.parametrize("norm", [0.0, 1e-9, 0.2, 1e30, float("inf"), float("nan")])
def test_arithmetic_of_devices_is_that_of_the_cpu(norm, scale):
    for sigma, rho_max in ((0.1, 0.3), (0.1, float("inf")), (float("inf"), 0.3)):
        on_host = perturbation(norm * scale, scale, sigma, rho_max, 1e-12)
        tensor = torch.tensor(norm * scale, dtype=torch.float64)
        on_device = perturbation_on_device(tensor, scale, sigma, rho_max, 1e-12)
        found_norm, rho, factor, usable = map(float, on_device)
        assert rho == pytest.approx(on_host[1]) and bool(usable) is on_host[3]
        assert found_norm == pytest.approx(on_host[0], nan_ok=True)
        if usable:
            assert factor == pytest.approx(on_host[2])
        params, grads = [torch.ones(3)], [torch.tensor([1.0, -1.0, norm * scale])]
        copies, expected = [params[0].clone()], [params[0].clone()]
        kept = [grads[0].clone()]
        add_scaled_(expected, kept, on_host[2], on_host[3], copies)
        add_scaled_(params, grads, on_device[2], on_device[3], copies)
        torch.testing.assert_close(params, expected)
        if not usable:
            assert torch.equal(params[0], torch.ones(3))


def test_total_norm():
    norms = [torch.tensor(3.0), torch.tensor(4.0, dtype=torch.float64)]
    assert float(total_norm(norms)) == 5.0
