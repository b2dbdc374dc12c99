"""The regressor trained with LE-SAM."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from .._torch.scale import column_scale, to_float32
from .._validation import check_table, fit_context
from ._net import LESAMNet, kept_rows, warn_undefined_scale


class LESAMRegressor(RegressorMixin, LESAMNet):
    """Neural network regressor trained with sharpness-aware minimisation (LE-SAM).

    A multi-layer perceptron, or a torch module of your own, trained on the squared
    error so that it stays low in a neighbourhood of the weights and not only at them.
    The target is standardised inside, so that `sigma` means the same for every data
    set. Several outputs at once are possible.

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
        without an activation. A class or a module-level function, so that it pickles;
        with options as a ``functools.partial``; not a network that exists.
        `hidden_layer_sizes` and `activation` then play no part.
    sigma : float or None, default=0.1
        The loss budget of the perturbation, in shares of the target's variance.
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
    early_stopping : bool, default=False
        Hold rows out, stop when the score on them no longer
        improves, and keep the weights of the best epoch. A run that is
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
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        The same for the target, which is always standardised.
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
    LESAMClassifier : The same for classes.
    LESAM : The optimiser, for training loops of your own and for skorch.
    sklearn.neural_network.MLPRegressor : Trained without the perturbation.

    Notes
    -----
    From the paper: the optimiser and the fall of the budget over the last fifth of the
    epochs. Our design: everything else, among it regression, which the paper does not
    treat as far as we know, and the bound `rho_max`.

    The loss of a row is the mean over the outputs of the squared error, each output
    divided by its variance. A ``ConvergenceWarning`` says when training ended no better
    than a constant prediction.

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
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> from skmethods import LESAMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> reg = LESAMRegressor(max_iter=20, learning_rate=0.01, random_state=0)
    >>> bool(reg.fit(X_train, y_train).score(X_test, y_test) > 0.3)
    True
    """

    _stratified = False

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
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; None weighs all rows the same.

        Returns
        -------
        self : LESAMRegressor
        """
        resume = self.warm_start and hasattr(self, "module_")
        return self._fit_values(
            X,
            y,
            sample_weight,
            epochs=self.max_iter,
            resume=resume,
            keep_state=self.warm_start,
        )

    @fit_context()
    def partial_fit(self, X, y, sample_weight=None):
        """Go once over the rows, at a constant learning rate and budget.

        A fitted estimator is continued; its moments too, if it has ``optimizer_``. The
        first call fixes the scale of `X` and `y`, so give it enough rows to tell.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative, and not rescaled, so that a row of weight 2 counts the same in
            every chunk; None is 1.

        Returns
        -------
        self : LESAMRegressor
        """
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
            in_part=True,
            keep_state=True,
        )

    def _fit_values(self, X, y, sample_weight, *, resume, in_part=False, **how):
        X, y = check_table(
            self, X, y, reset=not resume, y_numeric=True, multi_output=True
        )
        if y.dtype.kind not in "fiub":
            raise ValueError(
                f"y must hold numbers; got dtype {y.dtype}, e.g. {y.ravel()[0]!r}. For "
                "labels use LESAMClassifier."
            )
        w, X, y = kept_rows(sample_weight, X, y)
        flat = y.ndim == 1
        Y = y.reshape(len(y), -1).astype(np.float64)
        n_out = Y.shape[1]
        if not resume:
            self._flat = flat
        elif flat != self._flat:
            raise ValueError(
                "y must have as many dimensions as in the first call; got an array of "
                f"shape {y.shape}."
            )
        elif n_out != len(self.y_mean_):
            raise ValueError(
                f"y has {n_out} outputs; the first call had {len(self.y_mean_)}."
            )
        # An output that was constant in `fit` has no scale yet, as all in a first call.
        unknown = self.y_scale_ == 0 if resume else np.ones(n_out, dtype=bool)
        if unknown.any():
            mean, scale = column_scale(Y, w)
            constant = (Y == Y[0]).all(axis=0)
            if not in_part:  # predict it exactly, whatever the network says
                scale[constant] = 0.0
            elif (constant & unknown).any():
                warn_undefined_scale("y", stacklevel=6)
            if resume:
                mean = np.where(unknown, mean, self.y_mean_)
                scale = np.where(unknown, scale, self.y_scale_)
            self.y_mean_, self.y_scale_ = mean, scale
        scale = np.where(self.y_scale_ == 0, 1.0, self.y_scale_)
        Z = to_float32(Y, self.y_mean_, scale, name="y")
        return self._train(
            X, y, Z, w, n_out, self._chance, resume=resume, in_part=in_part, **how
        )

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
        """The predicted values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As `y` in `fit`.
        """
        out = self._outputs(X) * self.y_scale_ + self.y_mean_
        return out[:, 0] if self._flat else out
