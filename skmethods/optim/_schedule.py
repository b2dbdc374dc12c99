"""How LE-SAM's loss budget falls over the epochs; needs no torch."""

import math


class SigmaSchedule:
    """The loss budget of LE-SAM as a function of the epoch.

    Constant at first, then falling to `sigma_min`, which the last epoch reaches: the
    end of the training is then ordinary descent into the flat region that was found.

    Parameters
    ----------
    decay : {"cosine", "linear", "none"}, default="cosine"
        The shape of the fall.
    decay_start : float, default=0.8
        The fraction of the epochs, in [0, 1], after which the budget falls. 1 never
        lets it fall.
    sigma_min : float, default=0.0
        The budget of the last epoch, in units of the loss.

    See Also
    --------
    LESAM : The optimiser whose ``set_sigma`` takes the value.
    LESAMClassifier : An estimator that uses this schedule.

    Notes
    -----
    The cosine over the last fifth of the epochs is the paper's published recipe; as a
    fraction of the epochs, and the linear form, it is our design. A fall of a single
    epoch is none: `sigma` stays as it is. An infinite `sigma` (plain SAM) stays
    infinite.

    References
    ----------
    .. [1] J. Wang, Q. Liu, Z. Xie and Z. Gao, "Fix the Loss, Not the Radius:
       Rethinking the Adversarial Perturbation of Sharpness-Aware Minimization",
       ICML 2026, arXiv:2605.10183.

    Examples
    --------
    >>> from skmethods import SigmaSchedule
    >>> schedule = SigmaSchedule(decay="linear", decay_start=0.5)
    >>> [round(schedule(epoch, max_epochs=6, sigma=0.1), 3) for epoch in range(6)]
    [0.1, 0.1, 0.1, 0.1, 0.05, 0.0]
    """

    def __init__(self, decay="cosine", decay_start=0.8, sigma_min=0.0):
        if decay not in ("cosine", "linear", "none"):
            raise ValueError(
                f"decay must be 'cosine', 'linear' or 'none'; got {decay!r}."
            )
        if not 0 <= decay_start <= 1:
            raise ValueError(
                "decay_start is a fraction of the epochs and must lie in [0, 1]; got "
                f"{decay_start!r}."
            )
        if not 0 <= sigma_min < math.inf:
            raise ValueError(
                f"sigma_min must be finite and not negative; got {sigma_min!r}."
            )
        self.decay = decay
        self.decay_start = decay_start
        self.sigma_min = sigma_min

    def __repr__(self):
        return (
            f"SigmaSchedule(decay={self.decay!r}, decay_start={self.decay_start!r}, "
            f"sigma_min={self.sigma_min!r})"
        )

    def __call__(self, epoch, max_epochs, sigma):
        """The budget of an epoch.

        Parameters
        ----------
        epoch : int
            From 0; from `max_epochs` on the value is that of the last epoch.
        max_epochs : int
        sigma : float or None
            The budget before the fall, at least `sigma_min`. None is infinity.

        Returns
        -------
        float
        """
        sigma = math.inf if sigma is None else sigma
        if sigma < self.sigma_min:
            raise ValueError(
                f"sigma={sigma!r} is below sigma_min={self.sigma_min!r}; the schedule "
                "only falls. Lower sigma_min or raise sigma."
            )
        start = int(self.decay_start * max_epochs + 1e-9)  # 0.29 * 100 is 28.99...
        length = max_epochs - start - 1
        if self.decay == "none" or epoch < start or length < 1 or math.isinf(sigma):
            return sigma
        done = min((epoch - start) / length, 1.0)
        if self.decay == "linear":
            left = 1.0 - done
        else:
            left = (1.0 + math.cos(math.pi * done)) / 2.0
        return self.sigma_min + (sigma - self.sigma_min) * left
