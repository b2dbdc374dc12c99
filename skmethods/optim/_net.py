"""What the LE-SAM classifier and regressor share: parameters, training, pickling."""

import copy
import math
import warnings
from contextlib import nullcontext
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from .._torch.device import resolve_device
from .._torch.loop import fit_net
from .._torch.nets import ACTIVATIONS, mlp, plain_mode, predict_batches
from .._torch.scale import column_scale, to_float32
from .._torch.seed import Seeds
from .._torch.state import ModulePickleMixin
from .._validation import (
    FitProgress,
    Interval,
    StrOptions,
    check_is_fitted,
    check_table,
    check_weights,
)
from ._schedule import SigmaSchedule

#: Fewer optimiser steps than this say nothing about whether training failed.
_STEPS_TO_JUDGE = 100
#: A constant prediction loses 1 (standardised y) or at most log(n_classes).
_LOSS_CEILING = 1000.0
#: A constant prediction with a lower loss leaves nothing worth a warning.
_NOTHING_TO_LEARN = 1e-3
#: Calls between ``fit`` of the user and the training, for warnings.
_CALLER = 8


def kept_rows(sample_weight, X, *arrays):
    """Rows with a weight above zero; the weights are None when not given."""
    if sample_weight is None:
        return (None, X, *arrays)
    w = check_weights(sample_weight, X).astype(np.float64)
    if w.max() > np.finfo(np.float32).max:
        raise ValueError(
            f"sample_weight holds {w.max():.6g} in row {w.argmax()}, which is too "
            "large for float32. Divide the weights by their mean."
        )
    keep = w > 0
    if keep.all():
        return (w, X, *arrays)
    return (w[keep], X[keep], *(a[keep] for a in arrays))


class LESAMNet(CallbackSupportMixin, ModulePickleMixin, BaseEstimator):
    """Private base of ``LESAMClassifier`` and ``LESAMRegressor``."""

    _parameter_constraints = {
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "module": [callable, None],
        "sigma": [Interval(Real, 0, None, closed="both"), None],
        "rho_max": [Interval(Real, 0, None, closed="both"), None],
        "adaptive": ["boolean"],
        "sigma_decay": [StrOptions({"cosine", "linear", "none"})],
        "sigma_decay_start": [Interval(Real, 0, 1, closed="both")],
        "base_optimizer": [StrOptions({"sgd", "adamw"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "lr_schedule": [StrOptions({"cosine", "constant"})],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "standardize": ["boolean"],
        "warm_start": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # Given by the subclasses: _loss(out, y) -> loss of each row; _score(out, y, w) on
    # host arrays; and whether a validation part keeps the share of each class.

    # -- building ----------------------------------------------------------------------

    def _factory(self, n_in, n_out):
        """A picklable callable that makes the network."""
        if self.module is not None:
            import torch

            if isinstance(self.module, torch.nn.Module):
                raise TypeError(
                    "module is a network already. Pass its class, or a function that "
                    "is called with (n_features, n_outputs) and returns a new network, "
                    "since every fit and every clone needs one of its own."
                )
            return partial(self.module, n_in, n_out)
        try:
            given = np.atleast_1d(self.hidden_layer_sizes).tolist()
            sizes = tuple(int(s) for s in given)
            valid = all(s > 0 for s in sizes) and list(sizes) == given
        except (TypeError, ValueError):
            valid = False
        if not valid:
            raise ValueError(
                "hidden_layer_sizes must hold one positive integer per hidden layer; "
                f"got {self.hidden_layer_sizes!r}."
            )
        return partial(mlp, n_in, sizes, n_out, self.activation)

    def _build(self, factory, n_in, n_out, device):
        import torch

        module = factory()
        if not isinstance(module, torch.nn.Module):
            raise TypeError(
                "module must return a torch.nn.Module when called with (n_features, "
                f"n_outputs); it returned {type(module).__name__}."
            )
        like = next(module.parameters(), None)
        if like is None:
            raise ValueError("module made a network without parameters to train.")
        module = module.to(device).eval()
        with torch.no_grad():  # fills lazy layers in before the optimiser sees them
            out = module(torch.zeros(1, n_in, dtype=like.dtype, device=device))
        if not isinstance(out, torch.Tensor):
            raise TypeError(
                "module made a network that returns a "
                f"{type(out).__name__}; it must return one tensor."
            )
        if tuple(out.shape) != (1, n_out):
            raise ValueError(
                f"module made a network whose output for one row has shape "
                f"{tuple(out.shape)}; it must be (1, {n_out}), without a softmax."
            )
        return module

    def _make_optimizer(self, module):
        """LE-SAM with the present parameters."""
        from . import _moments

        return _moments.make(
            module,
            self.base_optimizer,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            sigma=self.sigma,
            rho_max=self.rho_max,
            adaptive=self.adaptive,
            max_grad_norm=self.max_grad_norm,
        )

    # -- training ----------------------------------------------------------------------

    def _check_same_network(self, factory):
        asked = [(f.func, f.args, f.keywords) for f in (self.module_factory_, factory)]
        if asked[0] != asked[1]:
            raise ValueError(
                "This call continues the training of a fitted network, and the data or "
                "the parameters ask for another one (number of features or outputs, "
                "hidden_layer_sizes, activation, module). Use a new estimator, or fit "
                "with warm_start=False."
            )
        if bool(self.standardize) == (self.mean_ is None):
            raise ValueError(
                "standardize was changed, and this call continues the training of a "
                "network that saw the features otherwise. Put it back, use a new "
                "estimator, or fit with warm_start=False."
            )

    def _train(self, *args, **how):
        """Train on checked rows, whatever modes of torch surround the call."""
        device = resolve_device(self.device)
        with plain_mode(device):
            return self._train_on(device, *args, **how)

    def _train_on(
        self,
        device,
        X,
        y_seen,
        y,
        w,
        n_out,
        chance,
        *,
        epochs,
        resume,
        in_part=False,
        keep_state,
    ):
        """`y` is what ``_loss`` wants, `w` weights or None, `in_part` partial_fit."""
        import torch

        from ._moments import carry_over

        factory = self._factory(X.shape[1], n_out)
        if resume:
            self._check_same_network(factory)
            seeds, done = Seeds(self._seed), self.n_iter_
        else:
            for name in ("module_", "optimizer_", "validation_scores_"):
                vars(self).pop(name, None)
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            seeds, done = Seeds(self._seed), 0
            self.loss_curve_, self.rho_curve_ = [], []

        held_out = None
        if self.early_stopping:
            train, test = self._split(y, seeds.numpy)
            held_out = X[test], y[test], None if w is None else w[test]
            X, y, w = X[train], y[train], None if w is None else w[train]
            y_seen = y_seen[train]
        if not resume:
            self.mean_, self.scale_ = (
                column_scale(X, w) if self.standardize else (None, None)
            )
            if in_part and self.standardize and (X == X[0]).all():
                warn_undefined_scale(
                    "X", " (with standardize=False)", stacklevel=_CALLER
                )
        if w is not None and not in_part:
            w = w / w.mean()
        size = 1.0 if w is None else w.mean()  # of the loss, beside one unweighted
        arrays = [to_float32(X, self.mean_, self.scale_), y]
        arrays += [] if w is None else [w.astype(np.float32)]
        batch_size = min(200, len(X)) if self.batch_size == "auto" else self.batch_size
        schedule = SigmaSchedule(self.sigma_decay, self.sigma_decay_start)
        rhos, rho_curve = [], []

        def before_epoch(epoch):
            if rhos:
                rho_curve.append(_mean(rhos))
                rhos.clear()
            seeds.reseed(done + epoch)
            if not in_part:
                optimizer.set_sigma(schedule(epoch, epochs, self.sigma))
                if self.lr_schedule == "cosine":
                    share = (1 + math.cos(math.pi * epoch / epochs)) / 2
                    for group in optimizer.param_groups:
                        group["lr"] = self.learning_rate * share

        def loss(module, X, y, w=None):
            each = self._loss(_forward(module, X), y)
            return (each if w is None else each * w).mean()

        # Only a module of the user's may draw from the global generators (dropout).
        own_net = self.module is None
        with seeds.global_torch(device):
            if resume:  # a copy, so that a call that fails changes nothing
                module = copy.deepcopy(self.module_).to(device)
            else:
                module = self._build(factory, X.shape[1], n_out, device)
        tensors = [torch.tensor(a, device=device) for a in arrays]
        tensors[0] = tensors[0].to(next(module.parameters()).dtype)
        optimizer = self._make_optimizer(module)
        if hasattr(self, "optimizer_"):
            carry_over(self.optimizer_, self.module_, optimizer, module)
        hook = optimizer.register_step_post_hook(lambda opt, *_: rhos.append(opt._rho))
        fitted = {
            "module_": module,
            "module_factory_": factory,
            "device_": device,
            "n_iter_": done + epochs,
        }
        with nullcontext() if own_net else seeds.global_torch(device):
            record = fit_net(
                module,
                tensors,
                loss,
                optimizer=optimizer,
                max_iter=epochs,
                batch_size=batch_size,
                generator=seeds.torch,
                before_epoch=before_epoch,
                validate=held_out and partial(self._validate, module, *held_out),
                patience=self.n_iter_no_change if held_out else None,
                tol=self.tol,
                ceiling=_LOSS_CEILING * max(size, 1.0),
                progress=(
                    progress := FitProgress(
                        self, epochs, X, y_seen, lambda: fitted, task="epoch"
                    )
                ),
                verbose=self.verbose,
            )
        hook.remove()
        rho_curve.append(_mean(rhos))
        scores = vars(self).pop("validation_scores_", [])
        if held_out and len(scores) == len(self.loss_curve_):  # one score per epoch
            self.validation_scores_ = [*scores, *record.validation_curve]
        self.loss_curve_ = [*self.loss_curve_, *record.loss_curve]
        self.rho_curve_ = [*self.rho_curve_, *rho_curve[: record.n_iter]]
        fitted["n_iter_"] = done + record.n_iter
        vars(self).update(fitted)
        if keep_state:
            self.optimizer_ = optimizer
        progress.close()
        steps = record.n_iter * max(len(X) // batch_size, 1)
        self._warn_if_collapsed(record.loss_curve, size * chance(y, w), steps)
        return self

    def _warn_if_collapsed(self, losses, chance, steps):
        if steps < _STEPS_TO_JUDGE or chance < _NOTHING_TO_LEARN:
            return
        if losses[-1] > 0.98 * chance:
            warnings.warn(
                f"Training ended with a loss of {losses[-1]:.4g}, no better than the "
                f"best constant prediction ({chance:.4g}). The perturbation may be "
                f"too large: lower rho_max (now {self.rho_max}) or sigma (now "
                f"{self.sigma}). Otherwise lower learning_rate (now "
                f"{self.learning_rate}), or the features tell nothing about y.",
                ConvergenceWarning,
                stacklevel=_CALLER,
            )

    def _split(self, y, rng):
        """Rows to train on and rows to validate on."""
        n = len(y)
        n_test = math.ceil(self.validation_fraction * n)
        self._check_split(y, n - n_test, n_test)
        return train_test_split(
            np.arange(n),
            test_size=n_test,
            stratify=y if self._stratified else None,
            random_state=rng,
        )

    def _validate(self, module, X, y, w):
        X = to_float32(X, self.mean_, self.scale_)
        return self._score(predict_batches(module, X), y, w)

    # -- after fit ---------------------------------------------------------------------

    def _outputs(self, X):
        """Raw outputs of the network, float64."""
        check_is_fitted(self, "module_")
        X = check_table(self, X, reset=False)
        return predict_batches(self.module_, to_float32(X, self.mean_, self.scale_))

    def __getstate__(self):
        state = super().__getstate__()
        if "optimizer_" in state:
            from ._moments import pack

            state["optimizer_"] = pack(state["optimizer_"], self.module_)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "optimizer_" in vars(self):
            from ._moments import unpack

            self.optimizer_ = unpack(self.optimizer_, self.module_)


def warn_undefined_scale(name, how="", *, stacklevel):
    """The first chunk of a stream says nothing about the size of what is to come."""
    warnings.warn(
        f"The first call of partial_fit fixes the scale of {name}, and {name} is "
        "constant in it, so that the scale stays 1. Begin with a chunk of more rows, "
        f"or scale {name} yourself{how}.",
        UserWarning,
        stacklevel=stacklevel,
    )


def _forward(module, X):
    try:
        return module(X)
    except ValueError as exc:
        if "more than 1 value per channel" not in str(exc):
            raise
        raise ValueError(
            "module has batch norm, which cannot train on a batch of one row. Use a "
            "batch_size of at least 2, and at least two rows per call."
        ) from exc


def _mean(numbers):
    """Of floats, or of 0-d tensors of a device, which is asked once."""
    return float(sum(numbers) / len(numbers))
