"""Lists of tensors at once, and random state: small helpers of the optimiser."""

import torch


def tensor_norms(grads):
    """Norm of each tensor; float16 and bfloat16 are summed and kept in float32."""
    low = (torch.float16, torch.bfloat16)
    dtype = torch.float32 if any(g.dtype in low for g in grads) else None
    return list(torch._foreach_norm(grads, 2, dtype=dtype))


def scale_(tensors, factor):
    """Multiply in place by a number or a 0-d tensor, which moves where it is needed."""
    if not torch.is_tensor(factor) or len({t.device for t in tensors}) == 1:
        if torch.is_tensor(factor):
            factor = factor.to(tensors[0].device)
        torch._foreach_mul_(tensors, factor)
        return
    for t in tensors:
        t.mul_(factor.to(t.device))


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
