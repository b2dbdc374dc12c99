"""LE-SAM: sharpness-aware minimisation whose perturbation has a fixed loss budget.

This module subclasses ``torch.optim.Optimizer`` and therefore imports torch; it is
loaded when ``LESAM`` is first used.
"""

import math
from contextlib import ExitStack

import torch

from .._torch.nets import frozen_batch_norm
from ._checks import check_parameters, length, make_base, number, one_is_limited
from ._foreach import (
    add_scaled_,
    perturbation,
    perturbation_on_device,
    rng_states,
    set_rng_states,
    tensor_norms,
    total_norm,
    writable,
)

_NO_CLOSURE = (
    "LESAM.step needs a closure, since it evaluates the loss twice. Write\n"
    "    def closure():\n"
    "        optimizer.zero_grad()\n"
    "        loss = criterion(model(x), y)\n"
    "        loss.backward()\n"
    "        return loss\n"
    "    loss = optimizer.step(closure)\n"
    "or call ascent_step() after the first backward, descent_step() after the second."
)


class LESAM(torch.optim.Optimizer):
    """Loss-equated sharpness-aware minimisation around any base optimiser.

    Each step perturbs the weights along the gradient so far that the loss, to first
    order, rises by `sigma`; takes the gradient there; returns to the weights; and lets
    the base optimiser step with that gradient. SAM fixes the length of the
    perturbation instead, which raises the loss by very different amounts.

    Parameters
    ----------
    params : iterable of Parameter, of (name, Parameter) or of dict
        As for every torch optimiser. None when `base_optimizer` is an instance.
    base_optimizer : type, callable or Optimizer instance, default=torch.optim.SGD
        What steps with the perturbed gradient. A class or callable is called with
        `params` and `base_kwargs`. An instance that was wrapped before takes the
        settings of this call.
    sigma : float or None, default=0.1
        The budget: the first-order rise of the loss, in units of the loss (nats for a
        mean cross-entropy). 0 is the base optimiser alone, at its cost. None (or
        infinity) leaves `rho_max` as the length, which is SAM.
    rho_max : float or None, default=0.3
        The longest perturbation. Without it (None) the perturbation grows without
        bound as the gradient vanishes, and a smooth problem can be thrown far away
        from its minimum. Keep it below the largest radius at which SAM itself works.
    adaptive : bool, default=False
        Measure the perturbation relative to the size of each weight: `rho_max` and
        ``last_rho_`` are then lengths of ``e / |w|``, not of ``e``, so that large
        weights move further. May differ from group to group of `params`.
    norm_eps : float, default=1e-12
        Added to the norm of the gradient where it divides.
    center_subtract : float, default=0.0
        This share of the gradient at the weights is subtracted from the perturbed one.
        Not 0, it costs one more copy of the gradients.
    max_grad_norm : float or None, default=None
        Clip the perturbed gradient to this norm. Clipping in the closure instead would
        lengthen the perturbation, since it would clip the gradient that sets it.
    module : torch.nn.Module or None, default=None
        Its batch norm layers do not record statistics in the second pass, so that
        these are of the weights themselves and counted once a step.
    same_rng : bool, default=False
        Both passes draw the same random numbers, e.g. dropout masks. Only in
        ``step(closure)``.
    **base_kwargs
        Passed to `base_optimizer`, e.g. ``lr`` and ``momentum``.

    Attributes
    ----------
    base_optimizer : Optimizer
        Shares ``state`` and ``param_groups`` with this one.
    last_rho_ : float
        Length of the last perturbation, relative where `adaptive`.
    last_grad_norm_ : float
        Norm of the gradient that set it, over all parameters; NaN with ``sigma=0``.

    Raises
    ------
    ValueError
        For a base optimiser that evaluates the loss by itself (LBFGS) and for sharded
        parameters (DTensor).
    TypeError
        For a `base_optimizer` that is or makes no optimiser, a `module` that is none,
        a setting that is no number.

    See Also
    --------
    SigmaSchedule : Lowers the budget at the end of the training.
    LESAMClassifier, LESAMRegressor : scikit-learn estimators that train with it.

    Notes
    -----
    From the paper: the length ``min(sigma / norm, rho_max)``, the switched-off
    `center_subtract`, and the two passes. Our design: `rho_max` on by default; the
    adaptive form, whose first-order rise is exactly `sigma` (the published code's is
    not); exact restoration; everything about checkpoints, batch norm, clipping and
    mixed precision.

    One norm is taken over the parameters of all groups. ``rho_max``, ``norm_eps`` and
    ``sigma`` are stored in the groups, where checkpoints find them, and must be equal
    in all. Where the gradient is zero or not finite the step is the base optimiser's.

    Memory: one copy of the parameters, between the two passes only. Nothing waits for
    the GPU. ``lr_scheduler`` objects attach to this optimiser.

    References
    ----------
    .. [1] J. Wang, Q. Liu, Z. Xie and Z. Gao, "Fix the Loss, Not the Radius:
       Rethinking the Adversarial Perturbation of Sharpness-Aware Minimization",
       ICML 2026, arXiv:2605.10183.
    .. [2] P. Foret, A. Kleiner, H. Mobahi and B. Neyshabur, "Sharpness-Aware
       Minimization for Efficiently Improving Generalization", ICLR 2021,
       arXiv:2010.01412.

    Examples
    --------
    >>> import torch
    >>> from skmethods import LESAM
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = LESAM(model.parameters(), torch.optim.SGD, sigma=0.05, lr=0.1)
    >>> x, y = torch.eye(2), torch.tensor([[3.0], [-1.0]])
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = torch.nn.functional.mse_loss(model(x), y)
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(100):
    ...     loss = optimizer.step(closure)
    >>> bool(loss < 0.1)
    True
    """

    def __init__(
        self,
        params,
        base_optimizer=torch.optim.SGD,
        *,
        sigma=0.1,
        rho_max=0.3,
        adaptive=False,
        norm_eps=1e-12,
        center_subtract=0.0,
        max_grad_norm=None,
        module=None,
        same_rng=False,
        **base_kwargs,
    ):
        own = {
            "sigma": length(sigma, "sigma"),
            "rho_max": length(rho_max, "rho_max"),
            "norm_eps": number(norm_eps, "norm_eps"),
            "adaptive": bool(adaptive),
        }
        one_is_limited(own["sigma"], own["rho_max"])
        if max_grad_norm is not None and length(max_grad_norm, "max_grad_norm") == 0:
            raise ValueError("max_grad_norm must be positive or None; got 0.")
        if module is not None and not isinstance(module, torch.nn.Module):
            raise TypeError(f"module must be a torch.nn.Module; got {module!r}.")
        base = make_base(params, base_optimizer, base_kwargs)
        if isinstance(base, torch.optim.LBFGS | LESAM):
            raise ValueError(
                f"{type(base).__name__} evaluates the loss several times by itself and "
                "cannot be the base optimiser of LESAM. Use e.g. SGD or AdamW."
            )
        clash = sorted(own.keys() & base.defaults.keys())
        if clash:
            raise ValueError(
                f"{type(base).__name__} has options of its own named "
                f"{', '.join(clash)}, which LESAM uses too. Wrap another optimiser."
            )
        for group in base.param_groups:
            check_parameters(group["params"])
            if base is base_optimizer and own.keys() <= group.keys():
                group.update(own)  # it was wrapped before: what is said now counts
        self._reset()
        self.center_subtract = number(center_subtract, "center_subtract", negative=True)
        self.max_grad_norm = max_grad_norm
        self.module = module
        self.same_rng = bool(same_rng)
        super().__init__(base.param_groups, {**base.defaults, **own})
        self.base_optimizer = base
        self._budget()

    def _reset(self):
        self._perturbed = None  # [(parameters, copies of them, gradients or None)]
        self._frozen = ExitStack()
        self._rho = self._norm = None

    # There is one state and one list of groups: those of the base, which may replace
    # them (load_state_dict) or add to them. Torch's constructor assigns before it is
    # there, to no effect.

    @property
    def state(self):
        return self.base_optimizer.state

    @state.setter
    def state(self, value):
        if "base_optimizer" in vars(self):
            self.base_optimizer.state = value

    @property
    def param_groups(self):
        return self.base_optimizer.param_groups

    @param_groups.setter
    def param_groups(self, value):
        if "base_optimizer" in vars(self):
            self.base_optimizer.param_groups = value

    # -- settings ----------------------------------------------------------------------

    def _shared(self, key):
        """The value of all groups; those that the base got by itself have none yet."""
        groups = self.param_groups
        value = groups[0].setdefault(key, self.defaults[key])
        if len(groups) > 1 and any(g.setdefault(key, value) != value for g in groups):
            raise ValueError(
                f"{key} differs between the parameter groups. LE-SAM takes one norm "
                f"over all parameters: {key} must be the same in every group."
            )
        return length(value, key)

    def _budget(self):
        """`sigma`, `rho_max` and `norm_eps` as of now."""
        for group in self.param_groups:
            group.setdefault("adaptive", self.defaults["adaptive"])
        sigma, rho_max = self._shared("sigma"), self._shared("rho_max")
        one_is_limited(sigma, rho_max)
        return sigma, rho_max, self._shared("norm_eps")

    @property
    def sigma(self):
        """The present budget."""
        return self._shared("sigma")

    def set_sigma(self, sigma):
        """Change the budget, e.g. to what a `SigmaSchedule` says for this epoch.

        Parameters
        ----------
        sigma : float or None
        """
        sigma = length(sigma, "sigma")
        one_is_limited(sigma, self._shared("rho_max"))
        for group in self.param_groups:
            group["sigma"] = sigma

    @property
    def last_rho_(self):
        return math.nan if self._rho is None else float(self._rho)

    @property
    def last_grad_norm_(self):
        return math.nan if self._norm is None else float(self._norm)

    # -- the two passes ----------------------------------------------------------------

    def step(self, closure=None, *, grad_scaler=None):
        """One step: two evaluations of the closure, on the same batch.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss, calls ``backward``, returns the
            loss. To accumulate gradients, loop over the micro-batches inside it.
        grad_scaler : torch.amp.GradScaler, default=None
            For float16: the closure calls ``scaler.scale(loss).backward()``, and the
            caller ``scaler.update()`` afterwards. bfloat16 needs none.

        Returns
        -------
        Tensor
            The loss at the weights, from the first evaluation.
        """
        if closure is None:
            raise ValueError(_NO_CLOSURE)
        if self._perturbed is not None:
            raise RuntimeError(
                "step was called after ascent_step. Call descent_step first; after an "
                "interruption zero_grad() and descent_step() undo the perturbation."
            )
        budget = self._budget()
        if budget[0] == 0 or budget[1] == 0:
            with torch.enable_grad():
                loss = closure()  # nothing to perturb: the base optimiser at its cost
            self._rho, self._norm = 0.0, None
            if self.center_subtract:
                grads = [p.grad for g in self.param_groups for p in g["params"]]
                grads = [g for g in grads if g is not None]
                torch._foreach_mul_(grads, 1 - self.center_subtract)
            self._descend(grad_scaler)
            return loss
        rng = rng_states(self.param_groups) if self.same_rng else None
        with torch.enable_grad():
            loss = closure()
        try:
            self._ascend(budget, grad_scaler.get_scale() if grad_scaler else None)
            if rng:
                set_rng_states(rng)
            with torch.enable_grad():
                closure()
        except BaseException:
            if self._perturbed is not None:
                self._restore()
            raise
        self.descent_step(grad_scaler=grad_scaler)
        return loss

    def ascent_step(self, grad_scale=None):
        """Perturb the weights along their gradients, which are used up.

        The memory of the gradients is overwritten: clone those you want to keep. Hooks
        registered with ``register_step_pre_hook`` and its post counterpart run with
        `step` only; registered on ``base_optimizer`` they run with `descent_step` too.

        Parameters
        ----------
        grad_scale : float or Tensor, default=None
            What the loss was multiplied by before ``backward`` (float16 training).
        """
        if self._perturbed is not None:
            raise RuntimeError(
                "ascent_step was called twice; call descent_step in between."
            )
        self._ascend(self._budget(), grad_scale)

    @torch.no_grad()
    def _ascend(self, budget, grad_scale):
        sigma, rho_max, eps = budget
        work, norms, centers = [], [], []
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [p.grad for p in params]
            if any(g.layout is not torch.strided for g in grads):
                raise RuntimeError(
                    "LESAM got a sparse gradient, of which it cannot take a "
                    "perturbation. Use Embedding(..., sparse=False)."
                )
            if self.center_subtract:
                centers.append([g.clone() for g in grads])
            # From here the gradients' own memory becomes the perturbation.
            grads = [writable(g) for g in grads]
            if group["adaptive"]:
                torch._foreach_mul_(grads, params)
            norms += tensor_norms(grads)
            if group["adaptive"]:
                torch._foreach_mul_(grads, params)
            work.append((params, grads, -1.0 if group.get("maximize") else 1.0))
        if not work:
            raise RuntimeError(
                "No parameter has a gradient. Call backward() before ascent_step()."
            )
        scale = 1.0 if grad_scale is None else grad_scale
        if all(n.is_cpu for n in norms):  # looking at a number is free
            norm = math.hypot(*map(float, norms))
            found = perturbation(norm, float(scale), sigma, rho_max, eps)
        else:
            norm = total_norm(norms)
            found = perturbation_on_device(norm, scale, sigma, rho_max, eps)
        norm, rho, factor, usable = found
        self._rho, self._norm = rho, norm
        self._perturbed = []
        for params, grads, sign in work:
            copies = [torch.empty_like(p) for p in params]
            torch._foreach_copy_(copies, params)
            center = centers.pop(0) if centers else None
            self._perturbed.append((params, copies, center))  # now it can be undone
            add_scaled_(params, grads, factor * sign, usable, copies)
            for p in params:
                p.grad = None
        torch.clear_autocast_cache()  # it holds copies of the weights as they were
        if self.module is not None:
            self._frozen.enter_context(frozen_batch_norm(self.module))

    def _restore(self):
        """Put the weights back, bit by bit, and let batch norm record again."""
        self._frozen.close()
        saved, self._perturbed = self._perturbed, None
        with torch.no_grad():
            for params, copies, _ in saved:
                torch._foreach_copy_(params, copies)
        torch.clear_autocast_cache()
        return saved

    def descent_step(self, *, grad_scaler=None):
        """Return to the weights and step with the gradients of the perturbed ones.

        After ``zero_grad()`` it only returns to the weights: that undoes an ascent.

        Parameters
        ----------
        grad_scaler : torch.amp.GradScaler, default=None
            Unscales the gradients and skips the step where they are not finite.
        """
        if self._perturbed is None:
            raise RuntimeError("descent_step was called without ascent_step before it.")
        for params, _, centers in self._restore():
            if centers is not None:
                for p, center in zip(params, centers, strict=True):
                    if p.grad is not None:
                        p.grad.sub_(center, alpha=self.center_subtract)
        self._descend(grad_scaler)

    def _descend(self, grad_scaler):
        self._opt_called = True  # what lr_scheduler looks at, also without step()
        if self.max_grad_norm is not None:
            if grad_scaler:
                grad_scaler.unscale_(self.base_optimizer)
            params = [p for group in self.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(params, self.max_grad_norm)
        if grad_scaler:
            grad_scaler.step(self.base_optimizer)
        else:
            self.base_optimizer.step()

    # -- groups, checkpoints, copies ---------------------------------------------------

    def add_param_group(self, param_group):
        """Add parameters, to this optimiser and its base.

        Parameters
        ----------
        param_group : dict
        """
        if "base_optimizer" not in vars(self):
            return  # torch's constructor hands over the groups of the base
        params = param_group["params"]
        listed = [params] if isinstance(params, torch.Tensor) else list(params)
        check_parameters(p[1] if isinstance(p, tuple) else p for p in listed)
        self._budget()
        first = {k: self.param_groups[0][k] for k in ("sigma", "rho_max", "norm_eps")}
        for key, value in first.items():  # one value for all groups
            if length(param_group.setdefault(key, value), key) != length(value, key):
                raise ValueError(
                    f"{key} must be the same in every group: {value!r}; got "
                    f"{param_group[key]!r}. Leave it out, or change it in all of them."
                )
        param_group["params"] = listed
        self.base_optimizer.add_param_group(param_group)

    def __getstate__(self):
        if self._perturbed is not None:
            raise RuntimeError(
                "LESAM cannot be copied between ascent_step and descent_step: the "
                "weights are perturbed."
            )
        keys = ("base_optimizer", "center_subtract", "max_grad_norm", "module")
        return {k: getattr(self, k) for k in (*keys, "same_rng", "defaults")}

    def __setstate__(self, state):
        if "base_optimizer" in state:  # unpickling
            self._reset()
            super().__setstate__(state)
        else:  # torch's load_state_dict
            self.base_optimizer.__setstate__(state)
            self._budget()
