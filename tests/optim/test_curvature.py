"""Curvature against the whole Hessian, and against the definition."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from skmethods.optim import sharpness, top_hessian_eigenvalue


def network(seed=0, layers=()):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), *layers, nn.Linear(5, 3)).to(
            torch.float64
        )


def data(n=30, seed=0):
    rng = np.random.RandomState(seed)
    return rng.standard_normal((n, 3)), rng.randint(3, size=n)


def eigenvalues(module, X, y, loss):
    """Of the whole Hessian."""
    names = [k for k, p in module.named_parameters() if p.requires_grad]
    shapes = [module.get_parameter(k).shape for k in names]
    sizes = [s.numel() for s in shapes]
    X, y = torch.tensor(X), torch.tensor(y)

    def value(flat):
        parts = dict(
            zip(
                names,
                (p.view(s) for p, s in zip(flat.split(sizes), shapes, strict=True)),
                strict=True,
            )
        )
        return loss(torch.func.functional_call(module, parts, (X,)), y)

    flat = torch.cat([module.get_parameter(k).detach().reshape(-1) for k in names])
    module.eval()
    return torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, flat)).numpy()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch_size", [None, 7])
def test_top_eigenvalue(seed, batch_size):
    module, (X, y), loss = network(seed), data(), nn.CrossEntropyLoss()
    found = top_hessian_eigenvalue(
        module,
        X,
        y,
        loss,
        n_iter=2000,
        tol=1e-6,
        batch_size=batch_size,
        random_state=seed,
    )
    assert found == pytest.approx(eigenvalues(module, X, y, loss)[-1], rel=1e-3)


def test_top_eigenvalue_where_the_most_negative_is_larger():
    module, (X, y) = network(), data()

    def loss(out, y):
        return -nn.functional.cross_entropy(out, y)

    exact = eigenvalues(module, X, y, loss)
    assert -exact[0] > 1.2 * exact[-1] > 0  # the case that is meant
    found = top_hessian_eigenvalue(
        module, X, y, loss, n_iter=5000, tol=1e-9, random_state=0
    )
    assert found == pytest.approx(exact[-1], rel=0.02)


def test_only_trained_parameters_count():
    module, (X, y), loss = network(), data(), nn.CrossEntropyLoss()
    whole = top_hessian_eigenvalue(module, X, y, loss, n_iter=500, random_state=0)
    module[0].requires_grad_(False)
    part = top_hessian_eigenvalue(module, X, y, loss, n_iter=500, random_state=0)
    assert part == pytest.approx(eigenvalues(module, X, y, loss)[-1], rel=1e-2)
    assert part < whole


def test_linear_loss_has_no_curvature():
    module = nn.Linear(3, 1).double()
    X, _ = data()
    found = top_hessian_eigenvalue(module, X, X[:, :1], lambda out, y: out.mean())
    assert found == 0


def test_tol_n_iter_and_random_state():
    module, (X, y), loss = network(), data(), nn.CrossEntropyLoss()
    values = [
        top_hessian_eigenvalue(module, X, y, loss, tol=t, n_iter=500, random_state=s)
        for t, s in ((1e-1, 0), (1e-1, 0), (1e-1, 1), (1e-6, 0))
    ]
    assert values[0] == values[1]
    assert values[0] != values[2] and values[0] != values[3]
    with pytest.warns(ConvergenceWarning, match="n_iter=2"):
        top_hessian_eigenvalue(module, X, y, loss, n_iter=2, tol=0, random_state=0)


@pytest.mark.parametrize("call", [top_hessian_eigenvalue, sharpness])
def test_module_is_left_as_it_was(call):
    module = network(layers=[nn.BatchNorm1d(5), nn.Dropout()])
    module[2].eval()
    modes = [m.training for m in module.modules()]
    state = {k: v.clone() for k, v in module.state_dict().items()}
    X, y = data()
    kw = {"rho": 0.1} if call is sharpness else {"random_state": 0}
    before = torch.get_rng_state()
    first = call(module, X, y, nn.CrossEntropyLoss(), **kw)
    assert first == call(module, X, y, nn.CrossEntropyLoss(), **kw)  # no dropout
    assert torch.equal(torch.get_rng_state(), before)
    assert [m.training for m in module.modules()] == modes
    assert all(p.grad is None for p in module.parameters())
    for k, v in module.state_dict().items():
        assert torch.equal(v, state[k])


def test_sharpness_of_a_parabola():
    """L = x²/2 at x = 3: one step to 3 + r raises it by 3 r + r²/2."""
    module = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(module.weight, 3.0)

    def loss(out, y):
        return (out**2).mean() / 2

    X = [[1.0]]
    assert sharpness(module, X, X, loss, rho=0.5) == pytest.approx(1.5 + 0.125)
    # A budget of 0.6 is a step of 0.2.
    assert sharpness(module, X, X, loss, sigma=0.6) == pytest.approx(0.6 + 0.02)
    nn.init.zeros_(module.weight)
    assert sharpness(module, X, X, loss, rho=0.5) == 0


def test_sharpness_is_the_rise_that_the_optimiser_makes():
    from skmethods.optim import LESAM

    module, (X, y), loss = network(), data(), nn.CrossEntropyLoss()
    found = sharpness(module, X, y, loss, sigma=0.1)
    optimizer = LESAM(module.parameters(), sigma=0.1, rho_max=None)
    X, y = torch.tensor(X), torch.tensor(y)
    before = loss(module(X), y)
    before.backward()
    optimizer.ascent_step()
    assert found == pytest.approx(float((loss(module(X), y) - before).detach()))


def test_refusals():
    module, (X, y), loss = network(), data(), nn.CrossEntropyLoss()
    with pytest.raises(ValueError, match="exactly one"):
        sharpness(module, X, y, loss)
    with pytest.raises(ValueError, match="exactly one"):
        sharpness(module, X, y, loss, sigma=0.1, rho=0.1)
    with pytest.raises(ValueError, match="sigma must be positive"):
        sharpness(module, X, y, loss, sigma=-1.0)
    with pytest.raises(ValueError, match="rho must be positive"):
        sharpness(module, X, y, loss, rho=np.inf)
    with pytest.raises(ValueError, match="same number of rows"):
        sharpness(module, X, y[:-1], loss, rho=0.1)
    with pytest.raises(ValueError, match="batch_size and n_iter"):
        top_hessian_eigenvalue(module, X, y, loss, batch_size=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda *a: sharpness(*a, rho=0.1),
        lambda *a: top_hessian_eigenvalue(*a, random_state=0),
    ],
)
def test_refuses_data_without_numbers_or_rows(call):
    module, (X, y), loss = network(), data(), nn.CrossEntropyLoss()
    with pytest.raises(TypeError, match=r"y must hold numbers(.|\n)*return_inverse"):
        call(module, X, np.where(np.asarray(y) > 0, "yes", "no"), loss)
    with pytest.raises(ValueError, match="no rows"):
        call(module, X[:0], y[:0], loss)
    with pytest.raises(ValueError, match="no trainable parameter"):
        call(network().requires_grad_(False), X, y, loss)
