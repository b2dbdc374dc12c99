"""The optimiser: the rule itself (A1-A5) and its settings."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from skmethods.optim import LESAM

BASES = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01}),
    "adadelta": (torch.optim.Adadelta, {"lr": 1.0, "rho": 0.8}),
}


def problem(dtype=torch.float64):
    """A small network, and what makes its closure for an optimiser."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(dtype)
    return model, closures(model)


def data(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 5, generator=generator, dtype=dtype)
    return x, torch.randint(3, (20,), generator=generator)


def closures(model):
    x, y = data(next(model.parameters()).dtype)

    def closure_for(optimizer, scaler=None):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            (loss if scaler is None else scaler.scale(loss)).backward()
            return loss

        return closure

    return closure_for


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def train(model, closure_for, optimizer, steps=10):
    closure = closure_for(optimizer)
    for _ in range(steps):
        optimizer.step(closure)
    return flat(model)


def sam_reference(model, closure_for, base, rho, steps, eps=1e-12):
    """SAM as its paper writes it, parameter by parameter."""
    closure = closure_for(base)
    params = list(model.parameters())
    for _ in range(steps):
        closure()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in params))
        kept = [p.detach().clone() for p in params]
        with torch.no_grad():
            for p in params:
                p += rho * p.grad / (norm + eps)
        closure()
        with torch.no_grad():
            for p, old in zip(params, kept, strict=True):
                p.copy_(old)
        base.step()
    return flat(model)


# -- A1: the linear rise of the loss is sigma ------------------------------------------


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("sigma", [1e-1, 1e-2, 1e-3, 1e-4])
def test_linear_rise_is_sigma(sigma, adaptive):
    model, closure_for = problem()
    optimizer = LESAM(
        model.parameters(), lr=0.1, sigma=sigma, rho_max=None, adaptive=adaptive
    )
    before, loss = flat(model), closure_for(optimizer)()
    gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    optimizer.ascent_step()
    e = flat(model) - before
    assert abs(float(gradient @ e) / sigma - 1) < 1e-9
    if not adaptive:
        assert float(e.norm()) == pytest.approx(optimizer.last_rho_, rel=1e-9)
        assert optimizer.last_rho_ == pytest.approx(sigma / float(gradient.norm()))
    # The true rise differs by a term of second order.
    risen = rise(closure_for, optimizer, loss)
    assert abs(risen / sigma - 1) < 3 * sigma


def rise(closure_for, optimizer, loss):
    return float((closure_for(optimizer)() - loss).detach())


def test_true_rise_tends_to_sigma_linearly():
    excess = []
    for sigma in (1e-1, 1e-2, 1e-3, 1e-4):
        model, closure_for = problem()
        optimizer = LESAM(model.parameters(), lr=0.1, sigma=sigma, rho_max=None)
        loss = closure_for(optimizer)()
        optimizer.ascent_step()
        excess.append(rise(closure_for, optimizer, loss) / sigma - 1)
    for larger, smaller in pairwise(excess):
        assert larger / smaller == pytest.approx(10, rel=0.15)


def test_adaptive_may_differ_between_groups():
    model, closure_for = problem()
    groups = [
        {"params": model[0].parameters(), "adaptive": True},
        {"params": model[2].parameters()},
    ]
    optimizer = LESAM(groups, lr=0.1, sigma=0.01, rho_max=None)
    before = flat(model)
    closure_for(optimizer)()
    grads = [p.grad.clone() for p in model.parameters()]
    thetas = [p.detach().clone() for p in model.parameters()]
    optimizer.ascent_step()
    e = flat(model) - before
    gradient = torch.cat([g.reshape(-1) for g in grads])
    assert float(gradient @ e) == pytest.approx(0.01, rel=1e-9)
    direction = [t**2 * g for t, g in zip(thetas[:2], grads[:2], strict=True)]
    direction = torch.cat([d.reshape(-1) for d in (*direction, *grads[2:])])
    torch.testing.assert_close(e / e.norm(), direction / direction.norm())


# -- A2, trap 1: sigma = 0 is the base optimiser, whatever its options are called ------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("explicit", [False, True])
def test_sigma_zero_is_the_base_optimiser(base, explicit):
    cls, options = BASES[base]
    model, closure_for = problem()
    expected = train(model, closure_for, cls(model.parameters(), **options))
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), cls, sigma=0.0, **options)
    if explicit:  # both passes, with a perturbation of length zero
        closure = closure_for(optimizer)
        for _ in range(10):
            closure()
            optimizer.ascent_step()
            closure()
            optimizer.descent_step()
    else:
        train(model, closure_for, optimizer)
    assert torch.equal(flat(model), expected)


def test_sigma_zero_evaluates_once():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.0)
    closure, calls = closure_for(optimizer), []

    def counted():
        calls.append(1)
        return closure()

    optimizer.step(counted)
    assert len(calls) == 1
    assert optimizer.last_rho_ == 0 and math.isnan(optimizer.last_grad_norm_)
    optimizer.set_sigma(0.1)
    optimizer.step(counted)
    assert len(calls) == 3 and optimizer.last_rho_ > 0


def test_own_keys_do_not_reach_the_base():
    model, _ = problem()
    adam = LESAM(model.parameters(), torch.optim.Adam, norm_eps=1e-5)
    assert adam.base_optimizer.defaults["eps"] == 1e-8
    group = adam.param_groups[0]
    assert (group["eps"], group["norm_eps"]) == (1e-8, 1e-5)
    adadelta = LESAM(model.parameters(), torch.optim.Adadelta, rho_max=0.7)
    assert adadelta.param_groups[0]["rho"] == 0.9

    class Greedy(torch.optim.SGD):
        def __init__(self, params, **kw):
            super().__init__(params, **kw)
            self.defaults["sigma"] = 1.0

    with pytest.raises(ValueError, match="sigma"):
        LESAM(model.parameters(), Greedy)


# -- A3: without a budget it is SAM ----------------------------------------------------


@pytest.mark.parametrize("sigma", [None, math.inf])
def test_is_sam_without_a_budget(sigma):
    options = {"lr": 0.1, "momentum": 0.9}
    model, closure_for = problem()
    base = torch.optim.SGD(model.parameters(), **options)
    expected = sam_reference(model, closure_for, base, rho=0.2, steps=20)
    model, closure_for = problem()
    ours = LESAM(model.parameters(), sigma=sigma, rho_max=0.2, **options)
    assert (train(model, closure_for, ours, 20) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("adaptive", [False, True])
def test_agrees_with_pytorch_optimizer(adaptive):
    peers = pytest.importorskip("pytorch_optimizer")
    options = {"lr": 0.1, "momentum": 0.9}
    model, closure_for = problem()
    peer = peers.SAM(
        model.parameters(), torch.optim.SGD, rho=0.2, adaptive=adaptive, **options
    )
    closure = closure_for(peer)
    for _ in range(20):
        closure()
        peer.first_step()
        closure()
        peer.second_step()
    expected = flat(model)
    model, closure_for = problem()
    ours = LESAM(
        model.parameters(), sigma=None, rho_max=0.2, adaptive=adaptive, **options
    )
    # The peer sums the norm in float32, hence not 1e-12.
    assert (train(model, closure_for, ours, 20) - expected).abs().max() < 1e-7


# -- A4: the orbit on a parabola -------------------------------------------------------


def orbit(curvature, lr, steps=2000, **lesam):
    x = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))
    optimizer = LESAM([x], lr=lr, **lesam)

    def closure():
        optimizer.zero_grad()
        loss = (curvature * x**2 / 2).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return abs(float(x.detach()))


@pytest.mark.parametrize(
    ("curvature", "lr", "sigma", "expected"),
    [(1.5, 1, 0.1, 0.4472136), (1.2, 1, 0.05, 0.25), (3, 0.5, 0.1, 0.3162278)],
)
def test_orbit(curvature, lr, sigma, expected):
    found = orbit(curvature, lr, sigma=sigma, rho_max=None)
    exact = math.sqrt(lr * sigma / (2 - lr * curvature))
    assert exact == pytest.approx(expected, abs=1e-7)
    assert abs(found - exact) < 1e-9


def test_orbit_with_a_bound():
    found = orbit(1.0, 0.1, sigma=0.1, rho_max=0.1)
    assert abs(found - 0.1 * 0.1 / (2 - 0.1)) < 1e-9


def test_without_a_bound_the_iterate_is_thrown_away():
    x = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))
    optimizer = LESAM([x], lr=0.1, sigma=0.1, rho_max=None)
    largest = 0.0
    for _ in range(18000):
        x.grad = x.detach().clone()
        optimizer.ascent_step()
        x.grad = x.detach().clone()
        optimizer.descent_step()
        largest = max(largest, abs(float(x.detach())))
    assert largest > 20


# -- traps 4, 5, 7, 11, 13, and the other settings -------------------------------------


def test_weights_come_back_bit_by_bit():
    model, closure_for = problem(dtype=torch.float32)
    optimizer = LESAM(model.parameters(), lr=0.0, sigma=0.1)
    before = flat(model)
    train(model, closure_for, optimizer, 50)
    assert torch.equal(flat(model), before)
    assert optimizer.last_rho_ > 0


def test_weights_come_back_when_the_second_pass_fails():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.1)
    closure, calls = closure_for(optimizer), []

    def fails():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return closure()

    before = flat(model)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(fails)
    assert torch.equal(flat(model), before)
    optimizer.step(closure)  # and it goes on


def test_nothing_is_kept_in_the_state():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, momentum=0.9, sigma=0.1)
    train(model, closure_for, optimizer, 3)
    assert {k for s in optimizer.state.values() for k in s} == {"momentum_buffer"}


def test_returns_the_loss_at_the_weights():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.1)
    expected = closure_for(optimizer)().detach()
    assert torch.equal(optimizer.step(closure_for(optimizer)).detach(), expected)


def test_max_grad_norm_clips_the_second_gradient_only():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=1.0, sigma=0.01, max_grad_norm=1e-3)
    before = flat(model)
    closure_for(optimizer)()
    norm = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).norm()
    optimizer.step(closure_for(optimizer))
    assert optimizer.last_rho_ == pytest.approx(0.01 / float(norm))
    assert float((flat(model) - before).norm()) == pytest.approx(1e-3, rel=1e-4)


def test_center_subtract():
    """g_hat - alpha g, of which SGD shows every bit."""
    model, closure_for = problem()
    plain = LESAM(model.parameters(), lr=1.0, sigma=0.05)
    before = flat(model)
    closure_for(plain)()
    g = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    g_hat = before - train(model, closure_for, plain, 1)
    for sigma, expected in ((0.05, g_hat - 0.3 * g), (0.0, 0.7 * g)):
        model, closure_for = problem()
        optimizer = LESAM(model.parameters(), lr=1.0, sigma=sigma, center_subtract=0.3)
        moved = before - train(model, closure_for, optimizer, 1)
        torch.testing.assert_close(moved, expected)


def test_norm_eps():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters(), lr=1.0, sigma=0.01, norm_eps=10.0)
    optimizer.step(closure_for(optimizer))
    assert optimizer.last_rho_ == pytest.approx(0.01 / (optimizer.last_grad_norm_ + 10))


def test_same_rng_shares_the_dropout_mask():
    """With one mask, dropout on the input is a fixed linear layer."""
    masks = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(50, 2)

        def forward(self, x):
            x = F.dropout(x, 0.5, training=True)
            masks.append(x != 0)
            return self.linear(x)

    x, y = torch.ones(4, 50), torch.tensor([0, 1, 0, 1])
    for same in (False, True):
        model = Net()
        optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.1, same_rng=same)

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        masks.clear()
        optimizer.step(closure)
        optimizer.step(closure)
        assert torch.equal(masks[0], masks[1]) is same
        assert not torch.equal(masks[1], masks[2])  # a new mask for the next step


def test_maximize():
    """The perturbation lowers an objective that is maximised."""
    results = []
    for sign in (1.0, -1.0):
        x = nn.Parameter(torch.tensor([0.7, -0.2], dtype=torch.float64))
        optimizer = LESAM([x], lr=0.1, sigma=0.05, maximize=sign < 0)

        def closure(x=x, optimizer=optimizer, sign=sign):
            optimizer.zero_grad()
            value = sign * (x**4 + x.prod()).sum()
            value.backward()
            return value

        for _ in range(5):
            optimizer.step(closure)
        results.append(x.detach())
    assert torch.equal(*results)


def test_parameters_without_gradient():
    used, late, never = (nn.Parameter(torch.ones(2)) for _ in range(3))
    optimizer = LESAM([used, late, never], lr=0.5, sigma=0.1)
    calls = []

    def closure():
        optimizer.zero_grad()
        calls.append(1)
        loss = (used**2).sum()
        if len(calls) == 2:
            with torch.no_grad():
                late.fill_(3.0)  # e.g. initialised at its first use
            loss = loss + late.sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    # Not perturbed, so not restored either: it steps from where it is.
    assert torch.equal(late.detach(), torch.full((2,), 2.5))
    assert torch.equal(never.detach(), torch.ones(2))


def test_zero_gradient_is_a_plain_step():
    x = nn.Parameter(torch.zeros(3))
    optimizer = LESAM([x], lr=0.1, sigma=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert torch.equal(x.detach(), torch.zeros(3)) and optimizer.last_rho_ == 0


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_gradient_that_is_not_finite_does_not_perturb(bad):
    x, z = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    optimizer = LESAM([x, z], lr=0.1, sigma=0.1)
    x.grad, z.grad = torch.tensor([1.0, bad, 1.0]), torch.ones(2)
    optimizer.ascent_step()
    assert torch.equal(x.detach(), torch.ones(3)) and optimizer.last_rho_ == 0
    assert torch.equal(z.detach(), torch.ones(2))
    x.grad = torch.ones(3)
    optimizer.descent_step()
    torch.testing.assert_close(x.detach(), torch.full((3,), 0.9))


def test_sigma_is_in_units_of_the_loss():
    """Trap 13: a sum instead of a mean needs a budget n times as large."""
    rhos = []
    for factor in (1.0, 20.0):
        model, closure_for = problem()
        optimizer = LESAM(model.parameters(), lr=0.1, sigma=0.01 * factor)
        closure_for(optimizer)()
        for p in model.parameters():
            p.grad *= factor
        optimizer.ascent_step()
        rhos.append(optimizer.last_rho_)
    assert rhos[0] == pytest.approx(rhos[1])


def test_one_norm_over_all_groups():
    model, closure_for = problem()
    whole = LESAM(model.parameters(), lr=0.1, sigma=0.1)
    expected = train(model, closure_for, whole)
    model, closure_for = problem()
    groups = [{"params": [p]} for p in model.parameters()]
    assert torch.equal(
        train(model, closure_for, LESAM(groups, lr=0.1, sigma=0.1)), expected
    )
    optimizer = LESAM(groups, lr=0.1)
    optimizer.param_groups[0]["sigma"] = 0.5
    with pytest.raises(ValueError, match="sigma differs between the parameter groups"):
        optimizer.step(closure_for(optimizer))


def test_mixed_dtypes():
    a = nn.Parameter(torch.ones(4, dtype=torch.float64))
    b = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = LESAM([a, b], lr=0.1, sigma=0.1, rho_max=None)
    a.grad, b.grad = torch.full_like(a, 3.0), torch.full_like(b, 4.0)
    optimizer.ascent_step()
    assert optimizer.last_grad_norm_ == pytest.approx(10.0)
    assert float((a - 1).detach().norm()) == pytest.approx(0.1 / 10 * 6 / 10)


# -- refusals --------------------------------------------------------------------------


def test_refuses_what_it_cannot_do():
    model, _ = problem()
    params = list(model.parameters())
    with pytest.raises(ValueError, match=r"closure(.|\n)*zero_grad"):
        LESAM(params).step()
    with pytest.raises(ValueError, match="LBFGS"):
        LESAM(params, torch.optim.LBFGS)
    with pytest.raises(ValueError, match="LESAM evaluates"):
        LESAM(params, LESAM)
    with pytest.raises(TypeError, match="base_optimizer"):
        LESAM(params, "sgd")
    with pytest.raises(ValueError, match="sigma must not be negative"):
        LESAM(params, sigma=-0.1)
    with pytest.raises(ValueError, match="sigma must not be negative"):
        LESAM(params, sigma=math.nan)
    with pytest.raises(ValueError, match="rho_max"):
        LESAM(params, rho_max=-1)
    with pytest.raises(ValueError, match="norm_eps"):
        LESAM(params, norm_eps=-1)
    with pytest.raises(ValueError, match="max_grad_norm"):
        LESAM(params, max_grad_norm=0)
    with pytest.raises(ValueError, match="both be unlimited"):
        LESAM(params, sigma=None, rho_max=None)
    with pytest.raises(ValueError, match="both be unlimited"):
        LESAM(params, rho_max=None).set_sigma(None)
    optimizer = LESAM(params)
    with pytest.raises(RuntimeError, match="No parameter has a gradient"):
        optimizer.ascent_step()
    with pytest.raises(RuntimeError, match="without ascent_step"):
        optimizer.descent_step()


def test_refuses_sparse_gradients():
    embedding = nn.Embedding(5, 2, sparse=True)
    optimizer = LESAM(embedding.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = embedding(torch.tensor([1, 2])).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="sparse gradient"):
        optimizer.step(closure)


def test_refuses_two_ascents():
    model, closure_for = problem()
    optimizer = LESAM(model.parameters())
    closure_for(optimizer)()
    optimizer.ascent_step()
    closure_for(optimizer)()
    with pytest.raises(RuntimeError, match="twice"):
        optimizer.ascent_step()
    with pytest.raises(RuntimeError, match="between ascent_step and descent_step"):
        optimizer.__getstate__()


def test_base_optimizer_as_instance_or_callable():
    options = {"lr": 0.1, "momentum": 0.9}
    model, closure_for = problem()
    expected = train(model, closure_for, LESAM(model.parameters(), **options))
    model, closure_for = problem()
    base = torch.optim.SGD(model.parameters(), **options)
    assert torch.equal(train(model, closure_for, LESAM(None, base)), expected)
    model, closure_for = problem()
    made = LESAM(model.parameters(), lambda p: torch.optim.SGD(p, **options))
    assert torch.equal(train(model, closure_for, made), expected)
    LESAM(model.named_parameters(), base.__class__, **options)
    base = torch.optim.SGD(model.parameters(), **options)
    LESAM([{"params": model.parameters()}], base)
    with pytest.raises(ValueError, match="not the same"):
        LESAM(list(model.parameters())[:2], base)
    with pytest.raises(ValueError, match="instance already; set lr there"):
        LESAM(None, base, lr=0.1)
