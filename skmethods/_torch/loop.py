"""The training loop that every torch-trained estimator shares."""

import math
import warnings

from sklearn.exceptions import ConvergenceWarning

from .epoch import FitRecord, batch_bounds
from .nets import all_finite, n_parameters, plain_mode
from .state import Snapshot
from .threads import thread_limit

DIVERGED = (
    "The training loss became {:.3g} in epoch {} of {}. Lower the learning rate, scale "
    "the features (and a regression target), or clip gradients."
)


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
    ceiling=math.inf,
    progress=None,
    verbose=False,
):
    """Train a module in place on tensors that are already on its device.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode afterwards.
    tensors : sequence of torch.Tensor
        Same first dimension; a batch takes the same rows of each.
    loss : callable
        ``loss(module, *batch)`` returns a scalar tensor, the mean over the batch.
    optimizer : torch.optim.Optimizer
        Its ``step`` is given a closure, so LESAM works as any other.
    max_iter, batch_size : int
        Epochs, and rows per step.
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
    ceiling : float, default=inf
        A mean loss of an epoch above it counts as not finite.
    progress : FitProgress, default=None
    verbose : bool, default=False

    Returns
    -------
    FitRecord

    Raises
    ------
    ValueError
        When the loss or a weight is not finite in the first epoch, or there are no good
        weights at the end; train a copy if the module must survive it. A later epoch
        that fails is undone, the optimizer's moments dropped (they are not finite
        either), and a ``ConvergenceWarning`` given.
    """
    import torch

    n, device = len(tensors[0]), tensors[0].device
    bounds, record = batch_bounds(n, batch_size), FitRecord()
    best, waited, batch, diverged = -math.inf, 0, None, None

    def closure():
        optimizer.zero_grad()
        value = loss(module, *batch)
        value.backward()
        return value

    def usable(value):
        return math.isfinite(value) and value <= ceiling

    with plain_mode(device), thread_limit(min(batch_size, n) * n_parameters(module)):
        good = Snapshot(module)
        best_state = Snapshot(module) if validate else None
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
            if not (usable(value) and all_finite(module)):
                diverged = DIVERGED.format(value, epoch + 1, max_iter)
                if epoch == 0:
                    raise ValueError(diverged)
                good.restore()
                optimizer.state.clear()
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
            waited = 0 if score > best + tol else waited + 1
            if score > best:
                best = score
                if validate:
                    best_state.update()
            stop_asked = progress.end() if progress else False
            if stop_asked or (patience is not None and waited >= patience):
                break
        if validate:
            best_state.restore()
        optimizer.zero_grad()  # gradients take as much memory as the weights
        # An epoch's loss is from before its last step: look at the weights themselves.
        with torch.no_grad():
            value = float(loss(module, *batch))
        if not usable(value * (len(batch[0]) / n)):  # its share in an epoch's mean
            raise ValueError(
                diverged or DIVERGED.format(value, record.n_iter, max_iter)
            )
    if diverged:
        diverged += " The last good weights are kept."
        warnings.warn(diverged, ConvergenceWarning, stacklevel=3)
    return record
