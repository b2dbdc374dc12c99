"""The classifier trained with LE-SAM."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._validation import Interval, StrOptions, as_host, check_table, fit_context
from ._net import LESAMNet, Real, kept_rows


class LESAMClassifier(ClassifierMixin, LESAMNet):
    """Neural network classifier trained with sharpness-aware minimisation (LE-SAM).

    A multi-layer perceptron, or a torch module of your own, trained so that the loss
    stays low in a neighbourhood of the weights and not only at them. That generalises
    better than plain SGD above all where some labels are wrong, for twice the time.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        Width of each hidden layer. Empty gives a linear model.
    activation : {"relu", "tanh", "gelu", "silu", "logistic", "identity"}, \
            default="relu"
        What follows each hidden layer.
    module : callable or None, default=None
        A network of your own instead of the perceptron: called with ``(n_features,
        n_outputs)`` it returns a ``torch.nn.Module`` whose output is `n_outputs` wide,
        without a softmax. A class or a module-level function, so that it pickles;
        with options as a ``functools.partial``; not a network that exists.
        `hidden_layer_sizes` and `activation` then play no part.
    sigma : float or None, default=0.1
        The loss budget of the perturbation, in nats.
        0 trains with the base optimiser alone; None (or infinity) makes it SAM of
        radius `rho_max`.
    rho_max : float or None, default=0.3
        The longest perturbation; None sets no limit. Keep it below the largest radius
        at which SAM works: training collapses above it.
    adaptive : bool, default=False
        Measure the perturbation, and with it `rho_max`, relative to the size of each
        weight.
    sigma_decay : {"cosine", "linear", "none"}, default="cosine"
        How the budget falls to 0 at the end of the training. See `SigmaSchedule`.
    sigma_decay_start : float, default=0.8
        The fraction of the epochs, in [0, 1], after which it falls.
    base_optimizer : {"sgd", "adamw"}, default="sgd"
        What steps with the perturbed gradient. With ``"adamw"`` use a smaller
        `learning_rate`, e.g. 1e-3.
    learning_rate : float, default=0.05
        Step size at the start.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        Whether the step size falls to 0 over the epochs of `fit`.
    momentum : float, default=0.9
        Momentum of SGD, or the first beta of AdamW.
    weight_decay : float, default=5e-4
        L2 penalty with SGD, decoupled decay with AdamW.
    max_grad_norm : float or None, default=None
        Clip the perturbed gradient to this norm.
    batch_size : int or "auto", default=64
        Rows per step; ``"auto"`` is ``min(200, n_samples)``.
    max_iter : int, default=100
        Epochs of `fit`. The schedules are spread over them, so training does not stop
        before unless `early_stopping` or a callback says so.
    label_smoothing : float, default=0.0
        This share of each label is spread over all classes; in [0, 1).
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`.
    early_stopping : bool, default=False
        Hold rows out, the same share of each class, stop when the score on them no
        longer improves, and keep the weights of the best epoch. A run that is
        stopped has not seen the end of the schedules, which are spread over `max_iter`:
        choose that near the number of epochs needed, or ``lr_schedule="constant"``.
    validation_fraction : float, default=0.1
        The share of rows that `early_stopping` holds out; in (0, 1).
    n_iter_no_change : int, default=10
        Epochs without improvement that `early_stopping` waits for.
    tol : float, default=1e-4
        The least rise of the validation score that counts as an improvement.
    standardize : bool, default=True
        Shift and scale each column to zero weighted mean and unit variance, by
        statistics of the training rows. In `partial_fit` those of the first call stay.
    warm_start : bool, default=False
        `fit` continues with the weights and moments of the last one, but without
        moments after a change of `base_optimizer`. With `early_stopping` rows are held
        out anew each time, and may have been trained on before.
    device : str, default="cpu"
        Where to train and predict: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or
        ``"auto"`` for the best there is.
    random_state : int, RandomState instance or None, default=None
        Governs the initial weights, the order of the rows, the held-out rows, and what
        a module of your own draws.
    verbose : bool or int, default=False
        Print a line per epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when all are strings.
    module_ : torch.nn.Module
        The network, in evaluation mode; its input is standardised.
    module_factory_ : callable
        Makes a network of the same architecture, for loading a pickle.
    mean_, scale_ : ndarray of shape (n_features_in_,) or None
        What `standardize` subtracts and divides by.
    loss_curve_ : list of float
        Training loss of each epoch, at the weights, not at the perturbed ones.
    rho_curve_ : list of float
        Mean length of the perturbation in each epoch.
    validation_scores_ : list of float
        Score on the held-out rows after each epoch. Only if `early_stopping` was on in
        all of them. After one `fit`, ``np.argmax(validation_scores_) + 1`` is the epoch
        whose weights were kept.
    n_iter_ : int
        Epochs run, over all calls when training was continued.
    optimizer_ : LESAM
        Only where training can go on: after `partial_fit` or with `warm_start`.
    device_ : torch.device
        Where `module_` is.

    See Also
    --------
    LESAMRegressor : The same for real-valued targets.
    LESAM : The optimiser, for training loops of your own and for skorch.
    sklearn.neural_network.MLPClassifier : Trained without the perturbation.

    Notes
    -----
    From the paper: the optimiser and the fall of the budget over the last fifth of the
    epochs. Our design: the estimator, its defaults (chosen on scikit-learn's digits;
    see the guide) and the bound `rho_max`.

    A ``ConvergenceWarning`` says when training ended no better than a constant
    prediction, which is what too large a perturbation leads to.

    With `sample_weight` the loss of a batch is ``mean(w * loss)``, `w` scaled to mean 1
    over all rows in `fit`, and as given in `partial_fit`, where mean 1 is up to the
    caller. Repeating a row and doubling its weight is the same only when a batch
    holds all rows, up to float32 rounding. Rows of weight 0 are left out.

    References
    ----------
    .. [1] J. Wang, Q. Liu, Z. Xie and Z. Gao, "Fix the Loss, Not the Radius:
       Rethinking the Adversarial Perturbation of Sharpness-Aware Minimization",
       ICML 2026, arXiv:2605.10183.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from skmethods import LESAMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> clf = LESAMClassifier(max_iter=20, random_state=0).fit(X_train, y_train)
    >>> bool(clf.score(X_test, y_test) > 0.9)
    True
    """

    _parameter_constraints = {
        **LESAMNet._parameter_constraints,
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _stratified = True

    def __init__(
        self,
        *,
        hidden_layer_sizes=(100,),
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
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: numbers or strings.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; None weighs all rows the same.

        Returns
        -------
        self : LESAMClassifier
        """
        resume = self.warm_start and hasattr(self, "module_")
        X, y = check_table(self, X, y, reset=not resume)
        check_classification_targets(y)
        w, X, y = kept_rows(sample_weight, X, y)
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
        """Go once over the rows, at a constant learning rate and budget.

        A fitted estimator is continued; its moments too, if it has ``optimizer_``. The
        first call fixes the scale of `X`, so give it enough rows to tell.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur. Needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative, and not rescaled, so that a row of weight 2 counts the same in
            every chunk; None is 1.

        Returns
        -------
        self : LESAMClassifier
        """
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
            self.classes_ = _sorted_labels(classes)
        elif classes is not None and not np.array_equal(
            _sorted_labels(classes), self.classes_
        ):
            raise ValueError(
                f"classes={list(classes)} differs from those of the first call, "
                f"{list(self.classes_)}."
            )
        w, X, y = kept_rows(sample_weight, X, y)
        return self._fit_classes(X, y, w, epochs=1, resume=resume, in_part=True)

    def _fit_classes(self, X, y, w, *, keep_state=True, **how):
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not in classes: {list(unknown)}.")
        codes = np.searchsorted(self.classes_, y)
        if self.class_weight is not None:
            each = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=w
            )
            if not ((each >= 0) & (each <= np.finfo(np.float32).max)).all():
                raise ValueError(
                    "class_weight must hold finite, non-negative numbers; got "
                    f"{self.class_weight!r}."
                )
            each = each[codes]
            if not each.any():
                raise ValueError(
                    f"class_weight={self.class_weight!r} gives every row of this call "
                    "the weight 0, so there is nothing to learn from."
                )
            w = each if w is None else each * w
        return self._train(
            X,
            y,
            codes,
            w,
            len(self.classes_),
            self._chance,
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
        """Log-odds of the second class, or the logits when there are more than two.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        out = self._outputs(X)
        if len(self.classes_) > 2:
            return out
        return out[:, -1] - out[:, 0]  # of a single class: 0

    def predict_proba(self, X):
        """Probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Logarithms of the probabilities, exact also where these round to 0.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        out = self._outputs(X)
        out -= out.max(axis=1, keepdims=True)
        return out - np.log(np.exp(out).sum(axis=1, keepdims=True))

    def predict(self, X):
        """The most probable label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self._outputs(X).argmax(axis=1)
        return self.classes_[codes]


def _sorted_labels(classes):
    """The labels that partial_fit is told of."""
    labels = np.asarray(as_host(classes))
    missing = [label is None or label != label for label in labels.ravel().tolist()]
    if labels.ndim != 1 or not labels.size or any(missing):
        raise ValueError(
            "classes must be a list of labels, one-dimensional and without None or "
            f"NaN; got {classes!r}."
        )
    try:
        return np.unique(labels)
    except TypeError as exc:
        raise TypeError(
            f"classes mixes types that cannot be ordered: {classes!r}."
        ) from exc
