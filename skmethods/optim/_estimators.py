"""scikit-learn estimators trained with LE-SAM."""

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._torch.scale import column_scale, to_float32
from .._validation import (
    Interval,
    StrOptions,
    check_table,
    check_weights,
    fit_context,
)
from ._net import LESAMNet, Real


def _kept_rows(sample_weight, X, *arrays):
    """Rows with a weight above zero; the weights are None when not given."""
    if sample_weight is None:
        return (None, X, *arrays)
    w = check_weights(sample_weight, X).astype(np.float64)
    keep = w > 0
    if keep.all():
        return (w, X, *arrays)
    return (w[keep], X[keep], *(a[keep] for a in arrays))


class LESAMClassifier(ClassifierMixin, LESAMNet):
    _parameter_constraints = {
        **LESAMNet._parameter_constraints,
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _stratified = True

    def __init__(
        self,
        hidden_layer_sizes=(100,),
        *,
        activation="relu",
        module=None,
        sigma=0.1,
        rho_max=0.3,
        adaptive=False,
        sigma_decay="cosine",
        sigma_decay_start=0.8,
        base_optimizer="sgd",
        learning_rate=0.05,
        lr_schedule="cosine",
        momentum=0.9,
        weight_decay=5e-4,
        max_grad_norm=None,
        batch_size=64,
        max_iter=100,
        label_smoothing=0.0,
        class_weight=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        standardize=True,
        warm_start=False,
        device="cpu",
        random_state=None,
        verbose=False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.module = module
        self.sigma = sigma
        self.rho_max = rho_max
        self.adaptive = adaptive
        self.sigma_decay = sigma_decay
        self.sigma_decay_start = sigma_decay_start
        self.base_optimizer = base_optimizer
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.label_smoothing = label_smoothing
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.standardize = standardize
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @fit_context()
    def fit(self, X, y, sample_weight=None):
        resume = self.warm_start and hasattr(self, "module_")
        X, y = check_table(self, X, y, reset=not resume)
        check_classification_targets(y)
        w, X, y = _kept_rows(sample_weight, X, y)
        classes = np.unique(y)
        if resume and not np.array_equal(classes, self.classes_):
            raise ValueError(
                "warm_start=True continues with the classes of the first fit, "
                f"{list(self.classes_)}; y has {list(classes)}."
            )
        self.classes_ = classes
        return self._fit_classes(
            X, y, w, epochs=self.max_iter, resume=resume, keep_state=self.warm_start
        )

    @fit_context()
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        resume = hasattr(self, "module_")
        self._check_partial_fit()
        X, y = check_table(self, X, y, reset=not resume)
        check_classification_targets(y)
        if not resume:
            if classes is None:
                raise ValueError(
                    "The first call of partial_fit needs classes=, all labels that "
                    "will ever occur in y."
                )
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes={list(classes)} differs from those of the first call, "
                f"{list(self.classes_)}."
            )
        w, X, y = _kept_rows(sample_weight, X, y)
        return self._fit_classes(X, y, w, epochs=1, resume=resume, partial=True)

    def _fit_classes(self, X, y, w, *, partial=False, keep_state=True, **how):
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not in classes: {list(unknown)}.")
        codes = np.searchsorted(self.classes_, y)
        if self.class_weight is not None:
            each = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=w
            )[codes]
            w = each if w is None else each * w
        return self._train(
            X,
            y,
            codes,
            w,
            len(self.classes_),
            self._chance,
            schedules=not partial,
            keep_state=keep_state,
            **how,
        )

    def _check_partial_fit(self):
        if self.early_stopping:
            raise ValueError(
                "partial_fit cannot hold rows out: use early_stopping=False, or fit."
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "partial_fit sees a part of the rows and cannot balance the classes. "
                "Pass class_weight as a dict, e.g. from "
                "sklearn.utils.class_weight.compute_class_weight on all of them."
            )

    def _check_split(self, y, n_train, n_test):
        counts = np.bincount(y, minlength=len(self.classes_))
        k = len(self.classes_)
        if counts.min() < 2 or min(n_train, n_test) < k:
            raise ValueError(
                "early_stopping=True holds rows of every class out, and there are too "
                f"few: {len(y)} rows, {k} classes, {counts.min()} rows in the "
                f"smallest; validation_fraction={self.validation_fraction} leaves "
                f"{n_train} rows to train and {n_test} to validate on. Use "
                "early_stopping=False."
            )

    def _loss(self, out, y):
        import torch

        return torch.nn.functional.cross_entropy(
            out, y, reduction="none", label_smoothing=self.label_smoothing
        )

    def _score(self, out, y, w):
        return accuracy_score(y, out.argmax(axis=1), sample_weight=w)

    def _chance(self, y, w):
        """Loss of the best constant prediction."""
        k = len(self.classes_)
        p = np.bincount(y, weights=w, minlength=k) / (len(y) if w is None else w.sum())
        p = (1 - self.label_smoothing) * p + self.label_smoothing / k
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())

    def decision_function(self, X):
        out = self._outputs(X)
        if len(self.classes_) > 2:
            return out
        return out[:, -1] - out[:, 0]  # of a single class: 0

    def predict_proba(self, X):
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        out = self._outputs(X)
        out -= out.max(axis=1, keepdims=True)
        return out - np.log(np.exp(out).sum(axis=1, keepdims=True))

    def predict(self, X):
        codes = self._outputs(X).argmax(axis=1)
        return self.classes_[codes]


class LESAMRegressor(RegressorMixin, LESAMNet):
    _stratified = False

    def __init__(
        self,
        hidden_layer_sizes=(100,),
        *,
        activation="relu",
        module=None,
        sigma=0.1,
        rho_max=0.3,
        adaptive=False,
        sigma_decay="cosine",
        sigma_decay_start=0.8,
        base_optimizer="sgd",
        learning_rate=0.05,
        lr_schedule="cosine",
        momentum=0.9,
        weight_decay=5e-4,
        max_grad_norm=None,
        batch_size=64,
        max_iter=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        standardize=True,
        warm_start=False,
        device="cpu",
        random_state=None,
        verbose=False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.module = module
        self.sigma = sigma
        self.rho_max = rho_max
        self.adaptive = adaptive
        self.sigma_decay = sigma_decay
        self.sigma_decay_start = sigma_decay_start
        self.base_optimizer = base_optimizer
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.standardize = standardize
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @fit_context()
    def fit(self, X, y, sample_weight=None):
        resume = self.warm_start and hasattr(self, "module_")
        return self._fit_values(
            X,
            y,
            sample_weight,
            epochs=self.max_iter,
            resume=resume,
            schedules=True,
            keep_state=self.warm_start,
        )

    @fit_context()
    def partial_fit(self, X, y, sample_weight=None):
        if self.early_stopping:
            raise ValueError(
                "partial_fit cannot hold rows out: use early_stopping=False, or fit."
            )
        return self._fit_values(
            X,
            y,
            sample_weight,
            epochs=1,
            resume=hasattr(self, "module_"),
            schedules=False,
            keep_state=True,
        )

    def _fit_values(self, X, y, sample_weight, *, resume, **how):
        X, y = check_table(
            self, X, y, reset=not resume, y_numeric=True, multi_output=True
        )
        w, X, y = _kept_rows(sample_weight, X, y)
        flat = y.ndim == 1
        Y = y.reshape(len(y), -1).astype(np.float64)
        if not resume:
            self.y_mean_, self.y_scale_ = column_scale(Y, w)
            self._flat = flat
            if not how["keep_state"]:  # nothing can follow: predict the constant
                constant = Y.min(axis=0) == Y.max(axis=0)
                self.y_scale_[constant] = 0.0
        elif flat != self._flat:
            raise ValueError(
                "y must have as many dimensions as in the first call; got an array of "
                f"shape {y.shape}."
            )
        n_out = Y.shape[1]
        if resume and n_out != len(self.y_mean_):
            raise ValueError(
                f"y has {n_out} outputs; the first call had {len(self.y_mean_)}."
            )
        scale = np.where(self.y_scale_ == 0, 1.0, self.y_scale_)
        Z = to_float32(Y, self.y_mean_, scale, name="y")
        return self._train(X, y, Z, w, n_out, self._chance, resume=resume, **how)

    def _check_split(self, y, n_train, n_test):
        if n_test < 2 or n_train < 1:
            raise ValueError(
                "early_stopping=True holds at least two rows out, and there are too "
                f"few: {len(y)} rows, validation_fraction={self.validation_fraction}. "
                "Use early_stopping=False, or a larger validation_fraction."
            )

    def _loss(self, out, y):
        return (out - y).square().mean(dim=1)

    def _score(self, out, y, w):
        return r2_score(y, out, sample_weight=w)

    def _chance(self, y, w):
        """Loss of the best constant prediction."""
        mean = np.average(y, axis=0, weights=w)
        return float(np.average(np.square(y - mean), axis=0, weights=w).mean())

    def predict(self, X):
        out = self._outputs(X) * self.y_scale_ + self.y_mean_
        return out[:, 0] if self._flat else out
