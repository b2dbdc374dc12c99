"""The optimiser inside an estimator: its moments by name, and its pickle."""

import torch

from ._lesam import LESAM


def trainable(module):
    """``{name: parameter}`` of what is trained."""
    return {k: p for k, p in module.named_parameters() if p.requires_grad}


def make(module, base, *, lr, weight_decay, momentum, **options):
    """LE-SAM over the trainable parameters, around "sgd" or "adamw"."""
    params = trainable(module)
    if not params:
        raise ValueError(
            "Every parameter of module is frozen (requires_grad=False), so there is "
            "nothing to train. Leave at least one trainable."
        )
    common = {"lr": lr, "weight_decay": weight_decay}
    if base == "sgd":
        cls, common["momentum"] = torch.optim.SGD, float(momentum)
    else:
        cls, common["betas"] = torch.optim.AdamW, (float(momentum), 0.999)
    optimizer = LESAM(
        params.values(), cls, module=module, fused=_fused(module), **common, **options
    )
    if base == "sgd" and momentum:
        # The fused kernel wants all buffers or none, also where a layer was idle in
        # the first step or has just been unfrozen; zeros are what none means.
        for p in params.values():
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    return optimizer


def _fused(module):
    return next(module.parameters()).device.type in ("cpu", "cuda")


def moments(optimizer, module):
    """``{name: state}`` of an optimiser of this module."""
    names = {p: name for name, p in module.named_parameters()}
    return {names[p]: s for p, s in optimizer.state.items() if p in names}


def load(optimizer, module, saved):
    """Copy those moments in that fit a parameter which is still trained."""
    whole = optimizer.state_dict()
    for i, (name, p) in enumerate(trainable(module).items()):
        old = {k: v for k, v in saved.get(name, {}).items() if torch.is_tensor(v)}
        # A fused kernel writes as far as the parameter is long: no other may come in.
        if old and all(v.ndim == 0 or v.shape == p.shape for v in old.values()):
            whole["state"][i] = {k: v.clone() for k, v in old.items()}
    optimizer.load_state_dict(whole)


def carry_over(old, old_module, new, module):
    """Continue with the moments of an optimiser, if it was of the same kind."""
    if type(old.base_optimizer) is type(new.base_optimizer):
        load(new, module, moments(old, old_module))


def pack(optimizer, module):
    """An optimiser as numbers and numpy arrays (bfloat16, unknown there, as float32).

    It holds the settings that were used: parameters may have changed since.
    """
    group = optimizer.param_groups[0]
    state = {
        name: {
            k: (v.float() if v.dtype is torch.bfloat16 else v).cpu().numpy().copy()
            for k, v in s.items()
            if torch.is_tensor(v)
        }
        for name, s in moments(optimizer, module).items()
    }
    return {
        "base": "sgd" if "momentum" in group else "adamw",
        "group": {k: v for k, v in group.items() if k != "params"},
        "max_grad_norm": optimizer.max_grad_norm,
        "state": state,
    }


def unpack(packed, module):
    """The optimiser again, for the module that was loaded."""
    group = packed["group"]
    momentum = group["momentum"] if packed["base"] == "sgd" else group["betas"][0]
    optimizer = make(
        module,
        packed["base"],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        momentum=momentum,
        sigma=group["sigma"],
        rho_max=group["rho_max"],
        max_grad_norm=packed["max_grad_norm"],
    )
    optimizer.param_groups[0].update(group, fused=_fused(module))
    saved = {
        name: {k: torch.tensor(v) for k, v in s.items()}
        for name, s in packed["state"].items()
    }
    load(optimizer, module, saved)
    return optimizer
