"""Mini-batch proximal Adam for signomial scores on torch, for many rows.

The smooth part of the loss (cross-entropy and the ridge of the coefficients) moves the
parameters as Adam does; then the exponents are soft-thresholded in the metric of that
step, so that the penalty leaves exact zeros and no gradient of |.| is taken.
"""

import numpy as np

from ._logistic import LIMIT, Parameters, SignomialLoss, minimise, penalised

#: Rows that the closing L-BFGS-B iterations see.
N_POLISH = 20_000
#: Epochs without progress until the step is halved, and how often it is.
_PATIENCE, _CUTS = 2, 5
#: An epoch whose loss exceeds the start's this many times has diverged: the parameters
#: go back to the best ones, and the step is divided. So it is when epochs without
#: progress have not come below the start.
_DIVERGED, _DIVISOR = 3.0, 8.0
#: Progress is a relative fall of the loss by this many times the tolerance.
_PROGRESS = 1e3
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


def _batch_loss(torch, L, codes, weight, exponents, coef, intercept, l2):
    """Weighted mean cross-entropy of a batch, and the ridge."""
    C, K, m = exponents.shape
    argument = (L @ exponents.reshape(C * K, m).T).clamp(-LIMIT, LIMIT)
    z = (argument.exp() * coef.reshape(-1)).reshape(-1, C, K).sum(2) + intercept
    if C == 1:
        each = torch.nn.functional.binary_cross_entropy_with_logits(
            z[:, 0], codes.to(z.dtype), reduction="none"
        )
    else:
        each = torch.nn.functional.cross_entropy(z, codes, reduction="none")
    return (weight * each).mean() + 0.5 * l2 * coef.square().sum()


def proximal_adam(
    L,
    codes,
    weight,
    start,
    *,
    l1,
    l2,
    fit_intercept,
    max_iter,
    tol,
    batch_size,
    learning_rate,
    generator,
    device,
    callback,
):
    """Minimise the penalised loss over mini-batches.

    Parameters
    ----------
    L : ndarray of shape (n_samples, n_features)
        Centred logarithms; float32 on the device.
    codes : ndarray of int of shape (n_samples,)
    weight : ndarray of shape (n_samples,)
    start : Parameters
    l1, l2 : float
    fit_intercept : bool
    max_iter : int
        Epochs at most.
    tol : float
        A relative fall of an epoch's loss below a thousand times it is no progress.
    batch_size : int
    learning_rate : float
        Halved after some epochs without progress, at most five times; an eighth after
        an epoch that diverged, or while none ended below the start.
    generator : torch.Generator
        On the CPU; shuffles the rows.
    device : torch.device
    callback : callable
        ``callback(parameters, loss)`` after each epoch; True stops. The loss is the
        mean over the epoch.

    Returns
    -------
    parameters : Parameters
        Of the finite epoch with the lowest loss; `start` if there is none.
    n_iter : int
    stopped : bool
        By the callback.
    converged : bool
    """
    import torch

    from .._torch.epoch import batch_bounds
    from .._torch.nets import plain_mode
    from .._torch.threads import thread_limit

    n = len(L)
    rows = torch.tensor(L, dtype=torch.float32, device=device)
    codes = torch.tensor(codes, device=device)
    scaled = weight * (n / weight.sum())
    weight = torch.tensor(scaled, dtype=torch.float32, device=device)
    flat = torch.tensor(  # one tensor, so that a step is few operations
        np.concatenate([a.ravel() for a in start]), dtype=torch.float32, device=device
    ).requires_grad_()
    sizes = [a.size for a in start]
    mean, square = torch.zeros_like(flat), torch.zeros_like(flat)

    def parts(v):
        return [a.reshape(s.shape) for a, s in zip(v.split(sizes), start, strict=True)]

    def host():
        now = flat.detach().cpu().double().clone()  # nothing of it is written later
        return Parameters(*(a.numpy() for a in parts(now)))

    def restart():
        with torch.no_grad():
            flat.copy_(torch.tensor(np.concatenate([a.ravel() for a in best])))
            mean.zero_()
            square.zero_()

    def value_of_start():
        total = 0.0
        with torch.no_grad():
            for first, last in batch_bounds(n, max(batch_size, 1024)):
                at = slice(first, last)
                args = rows[at], codes[at], weight[at], *parts(flat), l2
                total += float(_batch_loss(torch, *args)) * ((last - first) / n)
        return total + l1 * float(np.abs(start.exponents).sum())

    best, best_loss, reference = start, np.inf, np.inf
    waited = cuts = step = 0
    work = min(batch_size, n) * start.exponents.size
    with plain_mode(device), thread_limit(work):
        start_loss = value_of_start()
        chance = np.log(max(2, len(start.intercept)))
        diverged = _DIVERGED * max(start_loss, chance)
        for epoch in range(max_iter):
            order = torch.randperm(n, generator=generator).to(device)
            total = torch.zeros((), device=device)
            for first, last in batch_bounds(n, batch_size):
                batch = order[first:last]
                loss = _batch_loss(
                    torch, rows[batch], codes[batch], weight[batch], *parts(flat), l2
                )
                (g,) = torch.autograd.grad(loss, flat)
                step += 1
                with torch.no_grad():
                    exponents = flat[: sizes[0]]
                    penalty = l1 * exponents.abs().sum()
                    total += (loss + penalty) * ((last - first) / n)
                    if not fit_intercept:
                        g[-sizes[2] :] = 0
                    mean.lerp_(g, 1 - _BETA1)
                    square.mul_(_BETA2).addcmul_(g, g, value=1 - _BETA2)
                    size = (square / (1 - _BETA2**step)).sqrt_().add_(_EPS)
                    size = size.reciprocal_().mul_(learning_rate)
                    flat.addcmul_(size, mean, value=-1 / (1 - _BETA1**step))
                    if l1 > 0:
                        limit = l1 * size[: sizes[0]]
                        exponents -= exponents.clamp(-limit, limit)
            value, now = float(total), host()
            good = value <= diverged and all(np.isfinite(a).all() for a in now)
            if good and value < best_loss:
                best, best_loss = now, value
            if callback(now if good else best, value):
                return best, epoch + 1, True, False
            if not good:
                restart()
                step, learning_rate = 0, learning_rate / _DIVISOR
                continue
            progress = value < reference - _PROGRESS * tol * abs(reference)
            if not np.isfinite(reference) or progress:
                reference, waited = value, 0
                continue
            waited += 1
            if waited > _PATIENCE and best_loss > start_loss:
                best, best_loss, reference = start, np.inf, np.inf
                restart()
                step, waited, learning_rate = 0, 0, learning_rate / _DIVISOR
            elif waited > _PATIENCE:
                if cuts == _CUTS:
                    return best, epoch + 1, False, True
                cuts, waited, learning_rate = cuts + 1, 0, learning_rate / 2
    return best, max_iter, False, False


def polish(loss, found, *, l1, fit_intercept, max_iter, tol, rng):
    """L-BFGS-B on a subsample, kept if it lowers the loss of all rows.

    Parameters
    ----------
    loss : SignomialLoss
        Of all rows.
    found : Parameters
    l1 : float
    fit_intercept : bool
    max_iter : int
    tol : float
    rng : numpy.random.RandomState
        Draws ``N_POLISH`` rows if there are more.

    Returns
    -------
    Parameters
    """
    part, n = loss, len(loss.codes)
    if n > N_POLISH:
        rows = rng.choice(n, N_POLISH, replace=False)
        n_classes = 2 if loss.n_scores == 1 else loss.n_scores
        part = SignomialLoss(
            loss.L[rows], loss.codes[rows], loss.weight[rows], n_classes, loss.l2
        )
    polished = minimise(
        part, found, l1=l1, fit_intercept=fit_intercept, max_iter=max_iter, tol=tol
    ).parameters
    better = penalised(loss, polished, l1) < penalised(loss, found, l1)
    return polished if better else found
