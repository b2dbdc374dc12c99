"""What LESAM accepts: its numbers, its base optimiser, its parameters."""

import math
import sys

import torch


def number(value, name, *, negative=False, finite=True):
    """The value as a float."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number; got {value!r}.") from None
    if not negative and not found >= 0:
        raise ValueError(f"{name} must not be negative; got {value!r}.")
    if finite and not math.isfinite(found):
        raise ValueError(f"{name} must be finite; got {value!r}.")
    return found


def length(value, name):
    """A budget or a length as a float; None is infinity."""
    return math.inf if value is None else number(value, name, finite=False)


def one_is_limited(sigma, rho_max):
    """Refuse a perturbation without any bound."""
    if math.isinf(sigma) and math.isinf(rho_max):
        raise ValueError(
            "sigma and rho_max cannot both be unlimited; give at least one."
        )


def make_base(params, base_optimizer, kwargs):
    """The base optimiser: made, or the instance that was given."""
    if isinstance(base_optimizer, torch.optim.Optimizer):
        base = base_optimizer
        if kwargs:
            raise ValueError(
                f"base_optimizer is an instance already; set {', '.join(kwargs)} there."
            )
        if params is not None:
            ours = {id(p) for group in base.param_groups for p in group["params"]}
            theirs = {id(p) for p in _flat(params)}
            if ours != theirs:
                raise ValueError(
                    "params and the parameters of base_optimizer are not the same. "
                    "Pass params=None to take those of base_optimizer."
                )
    elif callable(base_optimizer):
        base = base_optimizer(params, **kwargs)
    else:
        raise TypeError(
            "base_optimizer must be a torch optimiser class, a callable that makes one "
            f"or an instance; got {base_optimizer!r}."
        )
    if not isinstance(base, torch.optim.Optimizer):
        raise TypeError(
            f"base_optimizer returned {base!r}, which is not a torch optimiser. Pass a "
            "class such as torch.optim.AdamW, or a callable that makes one."
        )
    return base


def _flat(params):
    for item in params:
        if isinstance(item, dict):
            yield from _flat(
                [item["params"]] if torch.is_tensor(item["params"]) else item["params"]
            )
        else:
            yield item[1] if isinstance(item, tuple) else item


def check_parameters(params):
    """Refuse parameters of which this process holds a part only."""
    # A DTensor cannot exist unless this module has been imported.
    distributed = sys.modules.get("torch.distributed.tensor")
    if distributed and any(isinstance(p, distributed.DTensor) for p in params):
        raise ValueError(
            "LESAM got sharded parameters (DTensor), whose norm it would take over one "
            "shard only. Use DistributedDataParallel, which keeps parameters whole."
        )
