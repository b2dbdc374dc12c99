"""skorch callbacks for LE-SAM; loaded, with skorch, when first used."""

from skorch.callbacks import Callback

from ._schedule import SigmaSchedule


def _optimizers(net):
    """The LE-SAM optimisers of a net, usually one."""
    from ._lesam import LESAM

    found = [v for v in vars(net).values() if isinstance(v, LESAM)]
    if not found:
        raise ValueError(
            f"{type(net).__name__} trains without LESAM, so this callback has nothing "
            "to do. Pass optimizer=LESAM, or remove the callback."
        )
    return found


class LESAMSigmaSchedule(Callback):
    """Let the budget of LE-SAM fall at the end of a skorch training.

    Parameters
    ----------
    decay : {"cosine", "linear", "none"}, default="cosine"
        The shape of the fall.
    decay_start : float, default=0.8
        The fraction of the epochs, in [0, 1], after which the budget falls.
    sigma_min : float, default=0.0
        The budget of the last epoch, in units of the loss.
    sigma : float, default=None
        The budget before the fall. None takes that of the optimiser, which is the
        ``optimizer__sigma`` of the net, also after ``net.set_params``.
    max_epochs : int, default=None
        All the epochs that there will be. None takes ``net.max_epochs``; say it when
        the training is continued by ``partial_fit``.

    See Also
    --------
    SigmaSchedule : The schedule itself.
    LESAMBatchNormGuard : The other callback.

    Notes
    -----
    The fall over the last fifth of the epochs is from the paper; the callback is ours.
    Epochs are counted by the history of the net, which ``partial_fit`` continues.

    References
    ----------
    .. [1] J. Wang, Q. Liu, Z. Xie and Z. Gao, "Fix the Loss, Not the Radius:
       Rethinking the Adversarial Perturbation of Sharpness-Aware Minimization",
       ICML 2026, arXiv:2605.10183.

    Examples
    --------
    >>> from skmethods.optim import LESAMSigmaSchedule
    >>> callback = LESAMSigmaSchedule(decay="linear", decay_start=0.5)
    """

    def __init__(
        self,
        decay="cosine",
        decay_start=0.8,
        sigma_min=0.0,
        sigma=None,
        max_epochs=None,
    ):
        self.decay = decay
        self.decay_start = decay_start
        self.sigma_min = sigma_min
        self.sigma = sigma
        self.max_epochs = max_epochs

    def initialize(self):
        """Check the parameters."""
        self.schedule_ = SigmaSchedule(self.decay, self.decay_start, self.sigma_min)
        return self

    def on_epoch_begin(self, net, **kwargs):
        """Set the budget of this epoch.

        Parameters
        ----------
        net : skorch.NeuralNet
        **kwargs
            Not used.
        """
        epochs = net.max_epochs if self.max_epochs is None else self.max_epochs
        epoch = len(net.history) - 1
        for optimizer in _optimizers(net):
            # In the group, as torch's schedulers do, so that it is in checkpoints.
            group = optimizer.param_groups[0]
            if group.get("scheduled_sigma") != optimizer.sigma:  # set by someone else
                group["initial_sigma"] = optimizer.sigma
            sigma = group["initial_sigma"] if self.sigma is None else self.sigma
            optimizer.set_sigma(self.schedule_(epoch, epochs, sigma))
            group["scheduled_sigma"] = optimizer.sigma


class LESAMBatchNormGuard(Callback):
    """Keep LE-SAM's second pass out of the statistics of batch norm in skorch.

    Without it every step records two batches, one of them at perturbed weights.

    See Also
    --------
    LESAMSigmaSchedule : The other callback.

    Notes
    -----
    Our design. It sets ``LESAM(module=...)``, which skorch cannot, since the module
    does not exist when the parameters are given.

    Examples
    --------
    >>> from skmethods.optim import LESAMBatchNormGuard
    >>> callback = LESAMBatchNormGuard()
    """

    def on_train_begin(self, net, **kwargs):
        """Tell the optimiser its modules.

        Parameters
        ----------
        net : skorch.NeuralNet
        **kwargs
            Not used.
        """
        import torch

        modules = torch.nn.ModuleList(
            v for v in vars(net).values() if isinstance(v, torch.nn.Module)
        )
        for optimizer in _optimizers(net):
            optimizer.module = modules
