"""How sharp the loss is around the weights of a module."""

import warnings
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning


@contextmanager
def _evaluation_mode(module):
    modes = {m: m.training for m in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for m, training in modes.items():
            m.training = training


def _on_device(module, X, y):
    """Data as tensors on the module's device; floats in its dtype."""
    import torch

    like = next((p for p in module.parameters() if p.requires_grad), None)
    if like is None:
        raise ValueError(
            "module has no trainable parameter, so the loss has no slope or curvature."
        )
    out = []
    for name, a in (("X", X), ("y", y)):
        try:
            if not isinstance(a, torch.Tensor):
                a = torch.tensor(np.asarray(a))
        except (TypeError, ValueError) as exc:
            raise TypeError(
                f"{name} must hold numbers, as module and loss take them ({exc})."
                " Encode labels first: np.unique(y, return_inverse=True)[1]."
            ) from exc
        a = a.detach()
        dtype = like.dtype if a.is_floating_point() else a.dtype
        out.append(a.to(device=like.device, dtype=dtype))
    if len(out[0]) != len(out[1]):
        raise ValueError(
            f"X and y must have the same number of rows; got {len(out[0])} and "
            f"{len(out[1])}."
        )
    if not len(out[0]):
        raise ValueError("X and y have no rows, and the loss of none is undefined.")
    return out


def top_hessian_eigenvalue(
    module, X, y, loss, *, n_iter=100, tol=1e-3, batch_size=None, random_state=None
):
    """Largest eigenvalue of the Hessian of the mean loss in the weights.

    The sharpest direction around the weights: a flat minimum has a small one.

    Parameters
    ----------
    module : torch.nn.Module
        Evaluated in evaluation mode and left as it was, gradients included.
    X : array-like or Tensor of shape (n_samples, ...)
        What the module takes.
    y : array-like or Tensor of shape (n_samples, ...)
        What the loss takes.
    loss : callable
        ``loss(module(X), y)`` returns the mean over the rows, e.g.
        ``torch.nn.CrossEntropyLoss()``.
    n_iter : int, default=100
        Products with the Hessian at most.
    tol : float, default=1e-3
        Stop when the estimate changes by less than this share.
    batch_size : int, default=None
        Rows at a time, to bound the memory; None takes all.
    random_state : int, RandomState instance or None, default=None
        The start of the iteration.

    Returns
    -------
    float

    See Also
    --------
    sharpness : The rise of the loss along its gradient.

    Notes
    -----
    Power iteration with products of the Hessian, which converges to the eigenvalue of
    largest magnitude. Where that is negative, a second run on the shifted Hessian finds
    the largest one. A ``ConvergenceWarning`` says when `n_iter` was too small. Our
    design; the paper's figures of curvature were not read.

    References
    ----------
    .. [1] B. A. Pearlmutter, "Fast Exact Multiplication by the Hessian", Neural
       Computation 6(1), 1994.

    Examples
    --------
    >>> import torch
    >>> from skmethods import top_hessian_eigenvalue
    >>> linear = torch.nn.Linear(2, 1, bias=False).double()
    >>> X, y = [[3.0, 0.0], [0.0, 1.0]], [[0.0], [0.0]]
    >>> value = top_hessian_eigenvalue(linear, X, y, torch.nn.MSELoss(), random_state=0)
    >>> round(value, 2)  # of X.T @ X
    9.0
    """
    import torch
    from sklearn.utils import check_random_state

    X, y = _on_device(module, X, y)
    params = [p for p in module.parameters() if p.requires_grad]
    size = len(X) if batch_size is None else batch_size
    if size < 1 or n_iter < 1:
        raise ValueError(
            f"batch_size and n_iter must be at least 1; got {batch_size!r}, {n_iter!r}."
        )

    def product(v):
        total = torch.zeros_like(v)
        parts = torch.split(v, [p.numel() for p in params])
        parts = [part.view_as(p) for part, p in zip(parts, params, strict=True)]
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            value = loss(module(X[rows]), y[rows])
            grads = torch.autograd.grad(
                value, params, create_graph=True, allow_unused=True
            )
            slope = sum(
                (g * part).sum()
                for g, part in zip(grads, parts, strict=True)
                if g is not None
            )
            if not getattr(slope, "requires_grad", False):  # linear in the weights
                continue
            h = torch.autograd.grad(slope, params, allow_unused=True)
            flat = [
                torch.zeros_like(p) if g is None else g
                for g, p in zip(h, params, strict=True)
            ]
            share = len(X[rows]) / len(X)
            total += share * torch.cat([g.reshape(-1) for g in flat])
        return total

    rng = check_random_state(random_state)
    n = sum(p.numel() for p in params)

    def power(shift):
        """Eigenvalue of largest magnitude of the Hessian minus `shift`."""
        v = torch.tensor(rng.standard_normal(n)).to(params[0])
        v /= v.norm()
        value = 0.0
        for _ in range(n_iter):
            w = product(v) - shift * v
            before, value = value, float(v @ w)
            length = float(w.norm())
            if length == 0 or abs(value - before) <= tol * abs(value):
                return value
            v = w / length
        warnings.warn(
            f"The top eigenvalue still changed by {abs(value - before):.3g} of "
            f"{abs(value):.3g} after n_iter={n_iter} products. Raise n_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
        return value

    with _evaluation_mode(module), torch.enable_grad():
        top = power(0.0)
        return top if top >= 0 else power(top) + top


def sharpness(module, X, y, loss, *, sigma=None, rho=None):
    """How much the mean loss rises by one step along its gradient.

    Parameters
    ----------
    module : torch.nn.Module
        Evaluated in evaluation mode and left as it was, gradients included.
    X : array-like or Tensor of shape (n_samples, ...)
        What the module takes.
    y : array-like or Tensor of shape (n_samples, ...)
        What the loss takes.
    loss : callable
        ``loss(module(X), y)`` returns the mean over the rows.
    sigma : float, default=None
        Length of the step such that the loss rises by `sigma` to first order (LE-SAM).
        What the result has above it is curvature.
    rho : float, default=None
        Length of the step (SAM). Give exactly one of the two.

    Returns
    -------
    float
        Loss after the step minus loss before it.

    See Also
    --------
    top_hessian_eigenvalue : The curvature in the sharpest direction.

    Notes
    -----
    The step is the paper's, taken here on all rows at once and without a bound on its
    length. At a point without gradient there is no step and the result is 0.

    References
    ----------
    .. [1] J. Wang, Q. Liu, Z. Xie and Z. Gao, "Fix the Loss, Not the Radius:
       Rethinking the Adversarial Perturbation of Sharpness-Aware Minimization",
       ICML 2026, arXiv:2605.10183.

    Examples
    --------
    >>> import torch
    >>> from skmethods import sharpness
    >>> linear = torch.nn.Linear(1, 1, bias=False).double()
    >>> _ = torch.nn.init.ones_(linear.weight)
    >>> sharpness(linear, [[1.0]], [[0.0]], torch.nn.MSELoss(), rho=0.5)  # 1.5² - 1²
    1.25
    """
    import torch

    if (sigma is None) == (rho is None):
        raise ValueError(
            f"Give exactly one of sigma and rho; got sigma={sigma!r}, rho={rho!r}."
        )
    name, length = ("sigma", sigma) if rho is None else ("rho", rho)
    if not 0 < length < float("inf"):
        raise ValueError(f"{name} must be positive and finite; got {length!r}.")
    X, y = _on_device(module, X, y)
    params = {k: p for k, p in module.named_parameters() if p.requires_grad}
    with _evaluation_mode(module), torch.enable_grad():
        before = loss(module(X), y)
        grads = torch.autograd.grad(before, list(params.values()), allow_unused=True)
        steps = {k: g for k, g in zip(params, grads, strict=True) if g is not None}
        norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in steps.values()]))
        if norm == 0:
            return 0.0
        factor = (sigma / norm if rho is None else rho) / norm
        moved = {k: params[k].detach() + factor * g for k, g in steps.items()}
        with torch.no_grad():
            after = loss(torch.func.functional_call(module, moved, (X,)), y)
    return float(after) - float(before.detach())
