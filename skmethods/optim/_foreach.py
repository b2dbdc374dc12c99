"""Lists of tensors at once, and random state: small helpers of the optimiser."""

import math

import torch


def tensor_norms(grads):
    """Norm of each tensor; float16 and bfloat16 are summed and kept in float32."""
    low = (torch.float16, torch.bfloat16)
    dtypes = {g.dtype for g in grads}
    if len(dtypes) == 1:
        wide = torch.float32 if dtypes & set(low) else None
        return list(torch._foreach_norm(grads, 2, dtype=wide))
    wide = [torch.float32 if g.dtype in low else None for g in grads]
    norm = torch.linalg.vector_norm
    return [norm(g, dtype=d) for g, d in zip(grads, wide, strict=True)]


def writable(grad):
    """The gradient, or a copy where elements share memory (an expanded view)."""
    return grad if grad.is_contiguous() or all(grad.stride()) else grad.contiguous()


def total_norm(norms):
    """Norm of the norms, where the first of them is."""
    device = norms[0].device
    return torch.linalg.vector_norm(torch.stack([n.to(device) for n in norms]))


def perturbation(norm, grad_scale, sigma, rho_max, eps):
    """How far LE-SAM goes, from the norm of a gradient that was scaled.

    Returns
    -------
    norm : float
        Of the gradient without the scale.
    rho : float
        The length of the perturbation.
    factor : float
        What the scaled gradient is multiplied by to get the perturbation.
    usable : bool
        Whether there is a perturbation: not if the norm is 0 or not finite.
    """
    norm = norm / grad_scale
    if not 0 < norm < math.inf:
        return norm, 0.0, 0.0, False
    rho = min(sigma / (norm + eps), rho_max)
    return norm, rho, rho / (norm + eps) / grad_scale, True


def perturbation_on_device(norm, grad_scale, sigma, rho_max, eps):
    """The same with 0-d tensors, so that nobody waits for the device."""
    norm = norm / grad_scale
    usable = norm.isfinite() & (norm > 0)
    rho = torch.where(usable, (sigma / (norm + eps)).clamp(max=rho_max), 0.0)
    return norm, rho, rho / (norm + eps) / grad_scale, usable


def add_scaled_(params, grads, factor, usable, copies):
    """``params += factor * grads``, or `copies` where the factor is not usable.

    `factor` and `usable` are a number and a bool, or 0-d tensors; the memory of `grads`
    may be used up.
    """
    if not torch.is_tensor(factor):
        if usable:
            torch._foreach_add_(params, grads, alpha=factor)
        return
    if len({p.device for p in params}) == 1:
        torch._foreach_mul_(grads, factor.to(params[0].device))
    else:
        for g in grads:
            g.mul_(factor.to(g.device))
    torch._foreach_add_(params, grads)
    for p, copy in zip(params, copies, strict=True):  # since 0 * inf is not 0
        torch.where(usable.to(p.device), p, copy, out=p)


def rng_states(groups):
    """States of the global generators that a forward pass there draws from."""
    devices = {p.device for g in groups for p in g["params"]} - {torch.device("cpu")}
    states = {d: _generators(d)[0](*_generators(d)[2]) for d in devices}
    return {torch.device("cpu"): torch.get_rng_state(), **states}


def set_rng_states(states):
    """Put those states back."""
    for device, state in states.items():
        _, set_state, args = _generators(device)
        set_state(state, *args)


def _generators(device):
    if device.type == "cpu":
        return torch.get_rng_state, torch.set_rng_state, ()
    module = torch.get_device_module(device)
    args = () if device.type == "mps" else (device,)
    return module.get_rng_state, module.set_rng_state, args
