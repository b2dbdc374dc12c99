"""Fitted modules that pickle as numpy weights and load on any machine."""

from .._pickle import VersionedPickleMixin


def module_weights(module):
    """The parameters and buffers of a module as ``{name: ndarray}``.

    bfloat16, which numpy does not know, becomes float32 (exact both ways).
    """
    import torch

    weights = {}
    for name, tensor in module.state_dict().items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"The module's state holds {name!r}, a {type(tensor).__name__} and not "
                "a tensor; it cannot be stored as weights."
            )
        tensor = tensor.detach().cpu()
        if tensor.dtype is torch.bfloat16:
            tensor = tensor.float()
        weights[name] = tensor.numpy().copy()
    return weights


def load_module_weights(module, weights):
    """Put ``{name: ndarray}`` into a module, whose dtypes are kept."""
    import torch

    module.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})


class Snapshot:
    """A copy of a module's parameters and buffers, to return to."""

    def __init__(self, module):
        self.module = module
        self.saved = {k: v.detach().clone() for k, v in module.state_dict().items()}

    def update(self):
        """Remember what the module holds now."""
        for k, v in self.module.state_dict().items():
            self.saved[k].copy_(v)

    def restore(self):
        """Put what was remembered back."""
        self.module.load_state_dict(self.saved)


class ModulePickleMixin(VersionedPickleMixin):
    """Pickle ``module_`` as numpy weights; rebuild it where it is loaded.

    The estimator sets in ``fit``, besides ``module_`` (in evaluation mode):

    - ``module_factory_``: a picklable callable without arguments that makes the same
      architecture (a ``functools.partial`` of a module-level function). It is what
      ``fit`` used, so that changing a parameter afterwards does no harm;
    - ``device_``: the ``torch.device`` in use. It is not pickled: loading resolves the
      ``device`` parameter again, and falls back to the CPU with a warning.

    Put it left of ``BaseEstimator``.
    """

    def __getstate__(self):
        state = super().__getstate__().copy()
        state.pop("device_", None)
        module = state.get("module_")
        if module is not None:
            dtype = str(next(module.parameters()).dtype).removeprefix("torch.")
            frozen = [k for k, p in module.named_parameters() if not p.requires_grad]
            weights = module_weights(module)
            state["module_"] = {"dtype": dtype, "weights": weights, "frozen": frozen}
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        packed = self.__dict__.get("module_")
        if packed is None:
            return
        import torch

        from .device import device_or_cpu
        from .seed import Seeds

        device = device_or_cpu(self.device, type(self).__name__)
        with Seeds(0).global_torch(device):
            module = self.module_factory_()
        module = module.to(dtype=getattr(torch, packed["dtype"]))
        load_module_weights(module, packed["weights"])
        for name, p in module.named_parameters():
            p.requires_grad_(name not in packed["frozen"])
        self.module_ = module.to(device).eval()
        self.device_ = device
