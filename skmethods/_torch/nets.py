"""Small networks, and what is asked of any ``torch.nn.Module``."""

from contextlib import contextmanager

#: Rows of a prediction batch are a multiple of this; 16 was enough where measured.
_ROWS = 64

ACTIVATIONS = ("relu", "tanh", "gelu", "silu", "logistic", "identity")


def mlp(n_in, hidden_layer_sizes, n_out, activation="relu"):
    """A multi-layer perceptron without activation after its last layer.

    Parameters
    ----------
    n_in, n_out : int
    hidden_layer_sizes : sequence of int
        Empty gives a linear model.
    activation : str, default="relu"
        One of ``ACTIVATIONS``.

    Returns
    -------
    torch.nn.Sequential
    """
    from torch import nn

    make = {
        "relu": nn.ReLU,
        "tanh": nn.Tanh,
        "gelu": nn.GELU,
        "silu": nn.SiLU,
        "logistic": nn.Sigmoid,
        "identity": nn.Identity,
    }[activation]
    layers, width = [], n_in
    for size in hidden_layer_sizes:
        layers += [nn.Linear(width, int(size)), make()]
        width = int(size)
    return nn.Sequential(*layers, nn.Linear(width, n_out))


def n_parameters(module):
    """How many trainable numbers a module has."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def all_finite(module):
    """Whether every parameter is finite; waits for the device once."""
    import torch

    flags = [p.detach().isfinite().all() for p in module.parameters()]
    device = flags[0].device
    return bool(torch.stack([flag.to(device) for flag in flags]).all())


@contextmanager
def plain_mode(device):
    """Gradients on, inference mode and autocast off, whatever surrounds the block."""
    import torch

    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        yield


@contextmanager
def frozen_batch_norm(module):
    """Batch and instance norm layers use batch statistics but do not record them.

    The running mean, variance and ``num_batches_tracked`` are the same after the
    block as before it, also when the block trains.
    """
    from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

    layers = [
        m
        for m in module.modules()
        if isinstance(m, _NormBase) and m.training and m.track_running_stats
    ]
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            if isinstance(layer, _BatchNorm):
                layer.track_running_stats = False
            else:  # instance norm records whatever that flag says
                layer.momentum = 0.0
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.track_running_stats, layer.momentum = True, momentum


def predict_batches(module, X, *, batch_size=8192):
    """Outputs of a module for the rows of a host array, as a host array.

    On the CPU the output of a row does not depend on the rows beside it, bit by bit:
    matrix kernels differ with the number of rows, so it is padded to a multiple.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, so that threads may share it.
    X : ndarray of shape (n_samples, ...)
        Goes to the module's device and dtype, `batch_size` rows at a time.

    Returns
    -------
    ndarray of float64
    """
    import numpy as np
    import torch

    from .threads import thread_limit

    like = next(module.parameters())
    outputs = []
    work = min(batch_size, len(X)) * n_parameters(module)
    with (
        plain_mode(like.device),
        torch.inference_mode(),
        thread_limit(work),
    ):
        for start in range(0, len(X), batch_size):
            part = X[start : start + batch_size]
            padding = [(0, -len(part) % _ROWS)] + [(0, 0)] * (X.ndim - 1)
            rows = np.pad(part, padding, mode="edge")
            rows = torch.tensor(rows, dtype=like.dtype, device=like.device)
            outputs.append(module(rows)[: len(part)].cpu().double().numpy())
    return np.concatenate(outputs)
