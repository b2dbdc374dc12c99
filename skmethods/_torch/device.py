"""Which device to compute on."""

import warnings


def resolve_device(device):
    """The ``torch.device`` that a ``device=`` parameter names, proved usable.

    Parameters
    ----------
    device : str
        ``"auto"`` (CUDA, else MPS, else CPU) or anything that ``torch.device``
        accepts, e.g. ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.

    Returns
    -------
    torch.device

    Raises
    ------
    ValueError
        When the device does not exist or cannot hold a tensor.
    """
    import torch

    if device == "auto":
        if torch.cuda.is_available():
            device = "cuda"
        elif torch.backends.mps.is_available():
            device = "mps"
        else:
            device = "cpu"
    try:
        resolved = torch.device(device)
        if resolved.type == "meta":
            raise RuntimeError("it holds no data")
        torch.empty(1, device=resolved)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as exc:
        reason = str(exc).strip().partition("\n")[0] or type(exc).__name__
        raise ValueError(
            f"device={device!r} cannot be used here: {reason}. Use device='cpu', or "
            "device='auto' to take the best device of this machine."
        ) from exc
    return resolved


def device_or_cpu(device, owner):
    """``resolve_device`` for a fitted estimator: the CPU when the device is gone.

    Parameters
    ----------
    device : str
    owner : str
        Whose device it is, for the warning.

    Returns
    -------
    torch.device

    Warns
    -----
    UserWarning
        When `device` cannot be used on this machine.
    """
    import torch

    try:
        return resolve_device(device)
    except ValueError as exc:
        warnings.warn(
            f"{owner}: {exc} It runs on the CPU now.",
            UserWarning,
            stacklevel=3,
        )
        return torch.device("cpu")


def sum_dtype(device):
    """The widest float for reductions on `device` (MPS has no float64)."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64
