"""Device, seeds, threads, state, networks, scaling."""

import functools
import pickle
import threading
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from torch import nn

from skmethods._torch.device import device_or_cpu, resolve_device, sum_dtype
from skmethods._torch.nets import (
    ACTIVATIONS,
    all_finite,
    frozen_batch_norm,
    mlp,
    n_parameters,
    predict_batches,
)
from skmethods._torch.scale import column_scale, to_float32
from skmethods._torch.seed import Seeds
from skmethods._torch.state import (
    ModulePickleMixin,
    Snapshot,
    load_module_weights,
    module_weights,
)
from skmethods._torch.threads import blas_limit, thread_limit

# -- device ----------------------------------------------------------------------------


def test_resolve_device():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    for bad in ("nonsense", "meta", "cuda:99", ""):
        with pytest.raises(ValueError, match=f"device='{bad}' cannot be used here"):
            resolve_device(bad)


def test_device_or_cpu():
    with pytest.warns(UserWarning, match="Thing: device='cuda:99' cannot be used"):
        assert device_or_cpu("cuda:99", "Thing") == torch.device("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert device_or_cpu("cpu", "Thing") == torch.device("cpu")


def test_sum_dtype():
    assert sum_dtype(torch.device("cpu")) is torch.float64
    assert sum_dtype(torch.device("mps")) is torch.float32


# -- seeds -----------------------------------------------------------------------------


def draws(seeds):
    with seeds.global_torch():
        a = torch.rand(3)
    return a, torch.rand(3, generator=seeds.torch), seeds.numpy.rand(3)


def test_one_seed_governs_every_stream():
    for a, b in zip(draws(Seeds(5)), draws(Seeds(5)), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(draws(Seeds(5)), draws(Seeds(6)), strict=True):
        assert not np.array_equal(a, b)
    state = np.random.RandomState(0)
    first = Seeds(state).torch.initial_seed()
    assert first != Seeds(state).torch.initial_seed()  # the stream goes on
    assert first == Seeds(np.random.RandomState(0)).torch.initial_seed()
    with pytest.raises(ValueError, match="cannot be used to seed"):
        Seeds(np.random.default_rng(0))


def test_global_state_comes_back():
    numpy_state, torch_state = np.random.get_state(), torch.get_rng_state()
    seeds = Seeds(1)
    with pytest.raises(KeyboardInterrupt), seeds.global_torch():
        torch.rand(10)
        raise KeyboardInterrupt
    draws(Seeds(0))
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert all(map(np.array_equal, np.random.get_state()[1:], numpy_state[1:]))


def test_reseed():
    """The streams at a step depend on the seed and the step only."""
    one, other = Seeds(3), Seeds(3)
    torch.rand(7, generator=one.torch)
    one.reseed(4)
    other.reseed(4)
    same = [torch.rand(3, generator=s.torch) for s in (one, other)]
    assert torch.equal(*same)
    other.reseed(5)
    assert not torch.equal(same[0], torch.rand(3, generator=other.torch))
    state, inside = torch.get_rng_state(), []
    for _ in range(2):
        with one.global_torch():
            one.reseed(9)
            inside.append(torch.rand(3))
    assert torch.equal(*inside)
    one.reseed(9)
    assert torch.equal(torch.get_rng_state(), state)  # outside, nothing global moves


def test_threads_take_turns():
    """Two fits in two threads draw what they draw one after the other."""
    expected = [draws(Seeds(k))[0] for k in range(4)]
    found = [None] * 4

    def work(k):
        seeds = Seeds(k)
        with seeds.global_torch():
            found[k] = torch.cat([torch.rand(1) for _ in range(3)])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b)


# -- threads ---------------------------------------------------------------------------


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.get_num_threads()  # makes torch take notice in this thread
    yield
    torch.set_num_threads(before)


def test_thread_limit(two_threads):
    with thread_limit(10):
        assert torch.get_num_threads() == 1
        with thread_limit(10):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() in (1, 2)
    assert torch.get_num_threads() == 2
    with thread_limit(1e9):
        assert torch.get_num_threads() == 2
    with pytest.raises(KeyboardInterrupt), thread_limit(10):
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 2


def test_a_thread_that_starts_inside_gets_its_threads_back(two_threads):
    found = []

    def work():
        with thread_limit(10):
            found.append(torch.get_num_threads())
        found.append(torch.get_num_threads())

    with thread_limit(10):
        t = threading.Thread(target=work)
        t.start()
        t.join()
    assert found == [1, 2] and torch.get_num_threads() == 2


def test_blas_limit():
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController().select(user_api="blas")

    def threads():
        return {lib.num_threads for lib in controller.lib_controllers}

    def work():
        with blas_limit(10):
            found.append(threads())

    found = []
    with controller.limit(limits=2):
        assert threads() == {2}
        with pytest.raises(KeyboardInterrupt), blas_limit(10):
            assert threads() == {1}
            raise KeyboardInterrupt
        assert threads() == {2}
        with blas_limit(1e9):
            assert threads() == {2}
        with blas_limit(10):
            t = threading.Thread(target=work)
            t.start()
            t.join()
            assert threads() == {1}
        assert found == [{1}] and threads() == {2}


# -- state -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_weights_round_trip(dtype):
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype)
    weights = module_weights(module)
    assert all(isinstance(w, np.ndarray) for w in weights.values())
    other = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype)
    load_module_weights(other, weights)
    for name, a in module.state_dict().items():
        b = other.state_dict()[name]
        assert torch.equal(a, b) and a.dtype == b.dtype
    weights["0.weight"][:] = 7  # a copy
    assert not (module[0].weight == 7).any()


class Extra(nn.Linear):
    def get_extra_state(self):
        return {"a": 1}


def test_state_that_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="_extra_state"):
        module_weights(Extra(2, 2))


def test_snapshot():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    snapshot = Snapshot(module)
    before = module_weights(module)
    module(torch.randn(5, 2))  # moves the statistics
    nn.init.zeros_(module[0].weight)
    snapshot.restore()
    assert all(map(np.array_equal, before.values(), module_weights(module).values()))
    nn.init.ones_(module[0].bias)
    snapshot.update()
    nn.init.zeros_(module[0].bias)
    snapshot.restore()
    assert (module[0].bias == 1).all()


class Holder(ModulePickleMixin, BaseEstimator):
    def __init__(self, device="cpu"):
        self.device = device

    def fit(self):
        self.module_factory_ = functools.partial(mlp, 3, (4,), 2)
        self.module_ = self.module_factory_().double().eval()
        self.device_ = torch.device("cpu")
        return self


def test_module_pickles():
    holder = Holder().fit()
    state = torch.get_rng_state()
    again = pickle.loads(pickle.dumps(holder))
    assert torch.equal(torch.get_rng_state(), state)
    assert again.device_ == torch.device("cpu") and not again.module_.training
    x = torch.randn(5, 3, dtype=torch.float64)
    assert torch.equal(holder.module_(x), again.module_(x))
    assert isinstance(holder.module_, nn.Module)  # pickling leaves the original alone
    unfitted = pickle.loads(pickle.dumps(Holder()))
    assert not hasattr(unfitted, "module_")
    with pytest.warns(UserWarning, match="runs on the CPU now"):
        moved = pickle.loads(pickle.dumps(holder.set_params(device="cuda:99")))
    assert torch.equal(holder.module_(x), moved.module_(x))


# -- networks --------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp(activation):
    net = mlp(4, (5, 6), 3, activation)
    assert n_parameters(net) == (4 * 5 + 5) + (5 * 6 + 6) + (6 * 3 + 3)
    assert [type(m) for m in net[::2]] == [nn.Linear] * 3
    x = torch.linspace(-2, 2, 5)
    expected = {
        "relu": x.clamp(min=0),
        "tanh": x.tanh(),
        "gelu": x * (1 + torch.erf(x / 2**0.5)) / 2,
        "silu": x * x.sigmoid(),
        "logistic": x.sigmoid(),
        "identity": x,
    }[activation]
    torch.testing.assert_close(net[1](x), expected)
    net[0].requires_grad_(False)
    assert n_parameters(net) == (5 * 6 + 6) + (6 * 3 + 3)
    assert len(mlp(4, (), 3)) == 1


def test_all_finite():
    net = mlp(2, (3,), 1)
    assert all_finite(net)
    net[2].bias.data[0] = torch.nan
    assert not all_finite(net)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_frozen_batch_norm(momentum):
    def make():
        return nn.Sequential(
            nn.BatchNorm1d(3, momentum=momentum),
            nn.Unflatten(1, (3, 1)),
            nn.BatchNorm1d(3, track_running_stats=False),
            nn.Flatten(),
        )

    module = make()
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)) * 3 + 1
    module(x)
    before = module_weights(module)
    with pytest.raises(KeyboardInterrupt), frozen_batch_norm(module):
        inside = module(x)
        raise KeyboardInterrupt
    assert all(map(np.array_equal, before.values(), module_weights(module).values()))
    torch.testing.assert_close(inside, module(x))  # statistics of the batch, as always
    assert int(module[0].num_batches_tracked) == 2
    assert module[0].momentum == momentum and not module[2].track_running_stats
    module.eval()
    outside = module[0](x)
    with frozen_batch_norm(module):  # nothing to freeze
        assert torch.equal(module[0](x), outside)


@pytest.mark.parametrize("hidden", [(8,), (100, 30)])
def test_predictions_do_not_depend_on_the_batch(hidden):
    """Bit by bit: the same row alone, in a small batch, in a large one."""
    net = mlp(7, hidden, 2).eval()
    X = np.random.RandomState(0).standard_normal((301, 7)).astype(np.float32)
    whole = predict_batches(net, X)
    assert whole.dtype == np.float64 and whole.shape == (301, 2)
    with torch.no_grad():
        direct = net(torch.tensor(X)).double().numpy()
    np.testing.assert_allclose(whole, direct, atol=1e-6)
    for n in (1, 2, 3, 17, 64, 65, 200):
        assert np.array_equal(predict_batches(net, X[5 : 5 + n]), whole[5 : 5 + n])
    assert np.array_equal(predict_batches(net, X, batch_size=128), whole)


def test_prediction_batches_of_images():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1)).eval()
    X = np.zeros((3, 1, 4, 4))
    assert predict_batches(net, X).shape == (3, 1)


# -- scaling ---------------------------------------------------------------------------


def test_column_scale_is_weighted_mean_and_deviation():
    rng = np.random.RandomState(0)
    X, w = rng.standard_normal((50, 3)) * [1, 1e-5, 1e5] + 3, rng.uniform(0.1, 2, 50)
    mean, scale = column_scale(X, w)
    np.testing.assert_allclose(mean, np.average(X, axis=0, weights=w))
    variance = np.average((X - mean) ** 2, axis=0, weights=w)
    np.testing.assert_allclose(scale, np.sqrt(variance))
    np.testing.assert_allclose(column_scale(X)[1], X.std(axis=0))


@pytest.mark.parametrize("factor", [5e-324, 1e-310, 1e-200, 1e200, 1e307])
def test_column_scale_at_the_ends_of_the_range(factor):
    X = np.array([[0.0], [1.0], [2.0], [1.0]]) * factor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, scale = column_scale(X)
        Z = to_float32(X, mean, scale)
    assert Z.dtype == np.float32 and np.isfinite(Z).all()
    if factor > 1e-308:  # below, doubles lose their digits
        np.testing.assert_allclose(Z[:, 0], [-(2**0.5), 0, 2**0.5, 0], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1e39, 5e-324])
def test_constant_columns(value):
    X = np.full((7, 1), value)
    mean, scale = column_scale(X, np.linspace(0.1, 0.9, 7))
    assert (mean[0], scale[0]) == (value, 1.0)
    assert (to_float32(X, mean, scale) == 0).all()


def test_rounding_is_no_variance():
    X = np.array([[1.0], [1.0 + 2**-52], [1.0]])
    assert column_scale(X)[1][0] == 1.0


def test_to_float32():
    X = np.array([[1.0, 2.0], [3.0, 1e39]])
    with pytest.raises(ValueError, match=r"y holds 1e\+39 in row 1, column 1"):
        to_float32(X, name="y")
    with pytest.raises(ValueError, match="after standardisation"):
        to_float32(X, np.zeros(2), np.ones(2))
    found = to_float32(X, np.zeros(2), np.array([1.0, 1e39]))
    np.testing.assert_allclose(found, [[1, 2e-39], [3, 1]], atol=1e-38)
    small = np.ones((2, 2), dtype=np.float32)
    assert not np.shares_memory(to_float32(small), small)
    given = column_scale(small)
    assert (small == 1).all() and given[0].dtype == np.float64
