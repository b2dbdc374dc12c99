"""The training loop that every torch-trained estimator shares."""

import warnings
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .nets import n_parameters
from .threads import thread_limit

DIVERGED = (
    "The training loss became {value} in epoch {epoch} of {max_iter}. Lower the "
    "learning rate, scale the features (and a regression target), or clip gradients."
)


@dataclass
class FitRecord:
    """What happened in ``fit_net``."""

    loss_curve: list = field(default_factory=list)  #: mean training loss per epoch
    validation_curve: list = field(default_factory=list)  #: score per epoch
    n_iter: int = 0  #: epochs run


def batch_bounds(n, batch_size):
    """Start and stop of each batch; a last batch of one row joins the one before it.

    Batch norm cannot train on one row, and no row may be dropped.
    """
    edges = [*range(0, n, batch_size), n]
    if batch_size > 1 and len(edges) > 2 and edges[-1] - edges[-2] == 1:
        del edges[-2]
    return list(zip(edges[:-1], edges[1:], strict=True))


class _Snapshot:
    """A copy of a module's parameters and buffers, to return to."""

    def __init__(self, module):
        self.module = module
        self.saved = {k: v.detach().clone() for k, v in module.state_dict().items()}

    def update(self):
        for k, v in self.module.state_dict().items():
            self.saved[k].copy_(v)

    def restore(self):
        self.module.load_state_dict(self.saved)


def _finite(module):
    flags = [p.detach().isfinite().all() for p in module.parameters()]
    return all(bool(flag) for flag in flags)


def fit_net(
    module,
    tensors,
    loss,
    *,
    optimizer,
    max_iter,
    batch_size,
    generator,
    before_epoch=None,
    validate=None,
    patience=None,
    tol=1e-4,
    progress=None,
    verbose=False,
):
    """Train a module on tensors that are already on its device.

    Parameters
    ----------
    module : torch.nn.Module
        Trained in place; in evaluation mode afterwards.
    tensors : sequence of torch.Tensor
        Same first dimension; a batch takes the same rows of each.
    loss : callable
        ``loss(module, *batch)`` returns a scalar tensor, the mean over the batch.
    optimizer : torch.optim.Optimizer
        Its ``step`` is given a closure, so LESAM works as any other.
    max_iter : int
        Epochs.
    batch_size : int
    generator : torch.Generator
        On the CPU; shuffles the rows.
    before_epoch : callable, default=None
        ``before_epoch(epoch)``, epoch from 0; sets schedules.
    validate : callable, default=None
        Returns a score of the module in evaluation mode (larger is better) after each
        epoch. The weights of the best epoch are kept.
    patience : int, default=None
        Stop after this many epochs in a row without an improvement by more than `tol`
        of the validation score or, without `validate`, of the training loss.
    tol : float, default=1e-4
    progress : FitProgress, default=None
    verbose : bool, default=False
        Print a line per epoch.

    Returns
    -------
    FitRecord

    Raises
    ------
    ValueError
        When the loss or a weight is not finite in the first epoch; the module is as it
        came. Later the last finite state is restored, with a ``ConvergenceWarning``,
        and the optimizer's moments, which are not finite either, are dropped.
    """
    import torch

    n, device = len(tensors[0]), tensors[0].device
    bounds = batch_bounds(n, batch_size)
    record = FitRecord()
    good = _Snapshot(module)
    best_state = _Snapshot(module) if validate else None
    best, waited = -np.inf, 0
    batch = None

    def closure():
        optimizer.zero_grad()
        value = loss(module, *batch)
        value.backward()
        return value

    with thread_limit(min(batch_size, n) * n_parameters(module)):
        for epoch in range(max_iter):
            if progress:
                progress.begin()
            if before_epoch:
                before_epoch(epoch)
            module.train()
            order = torch.randperm(n, generator=generator).to(device)
            total = torch.zeros((), device=device)
            for start, stop in bounds:
                rows = order[start:stop]
                batch = [t.index_select(0, rows) for t in tensors]
                total += optimizer.step(closure).detach() * ((stop - start) / n)
            module.eval()

            value = float(total)  # the one synchronisation of an epoch
            if not np.isfinite(value) or not _finite(module):
                good.restore()
                optimizer.state.clear()
                text = DIVERGED.format(value=value, epoch=epoch + 1, max_iter=max_iter)
                if epoch == 0:
                    raise ValueError(text)
                text += f" The weights are those after epoch {epoch}."
                warnings.warn(text, ConvergenceWarning, stacklevel=3)
                break
            good.update()
            record.loss_curve.append(value)
            record.n_iter = epoch + 1

            score = -value
            if validate:
                score = float(validate())
                record.validation_curve.append(score)
            if verbose:
                text = f"epoch {epoch + 1}/{max_iter}  loss {value:.6g}"
                print(f"{text}  validation {score:.6g}" if validate else text)
            improved = score > best + tol
            waited = 0 if improved else waited + 1
            if score > best:
                best = score
                if validate:
                    best_state.update()
            stop_asked = progress.end() if progress else False
            if stop_asked or (patience is not None and waited >= patience):
                break
        module.eval()
        optimizer.zero_grad()  # gradients are as large as the weights
        if validate and record.n_iter:
            best_state.restore()
    return record
