"""Two small estimators that keep every rule: the pattern for a new method.

``ReferenceClassifier`` trains with torch and iterates; ``ReferenceDetector`` is closed
form, and a transformer too. The contract suite runs on them as on the public ones, and
``test_the_suite.py`` breaks them in every way that the suite must notice.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed

from skmethods._pickle import VersionedPickleMixin
from skmethods._torch.device import resolve_device
from skmethods._torch.seed import Seeds
from skmethods._validation import (
    FitProgress,
    Interval,
    check_is_fitted,
    check_table,
    check_weights,
    fit_context,
)


class ReferenceClassifier(
    CallbackSupportMixin, VersionedPickleMixin, ClassifierMixin, BaseEstimator
):
    """Multinomial logistic regression by full-batch L-BFGS from a random start."""

    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C=1.0,
        max_iter=100,
        tol=1e-6,
        device="cpu",
        random_state=None,
        verbose=False,
    ):
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @fit_context()
    def fit(self, X, y, sample_weight=None):
        """Fit to the rows of X; a row of weight zero counts as absent."""
        import torch

        X, y = check_table(self, X, y, reset=True, dtype=np.float64)
        check_classification_targets(y)
        weight = check_weights(sample_weight, X)
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.scale_ = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)

        device = resolve_device(self.device)
        rows, weight = (
            torch.tensor(a, device=device) for a in (X / self.scale_, weight)
        )
        codes = torch.tensor(codes, device=device)
        size = X.shape[1] + 1, len(self.classes_)
        start = 0.01 * Seeds(self.random_state).numpy.standard_normal(size)
        start -= start.mean(axis=1, keepdims=True)
        W = torch.tensor(start, device=device, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [W], max_iter=1, line_search_fn="strong_wolfe", tolerance_change=0
        )

        def closure():
            optimizer.zero_grad()
            logits = rows @ W[:-1] + W[-1]
            terms = torch.nn.functional.cross_entropy(logits, codes, reduction="none")
            loss = self.C * (weight * terms).sum() + 0.5 * W[:-1].square().sum()
            loss.backward()
            return loss

        def attributes():
            coef = W.detach().cpu().numpy().copy()
            return {
                "coef_": coef[:-1],
                "intercept_": coef[-1],
                "classes_": self.classes_,
                "scale_": self.scale_,
                "n_features_in_": X.shape[1],
            }

        progress = FitProgress(self, self.max_iter, X, y, attributes)
        previous = np.inf
        for n_iter in range(1, self.max_iter + 1):
            progress.begin()
            loss = float(optimizer.step(closure).detach())
            if self.verbose:
                print(f"iteration {n_iter}  loss {loss:.6g}")
            done = float(W.grad.abs().max()) <= self.tol or loss == previous
            if progress.end() or done:
                break
            previous = loss
        self.n_iter_ = n_iter
        vars(self).update(attributes())
        progress.close()
        return self

    def decision_function(self, X):
        """Log odds, up to a constant per row."""
        check_is_fitted(self, "coef_")
        X = check_table(self, X, reset=False, dtype=np.float64)
        # einsum adds in the same order however many rows there are; @ does not.
        logits = np.einsum("ij,jk->ik", X / self.scale_, self.coef_) + self.intercept_
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X):
        """Probabilities of ``classes_``."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X):
        """The most probable class."""
        best = self.predict_proba(X).argmax(axis=1)  # raises when not fitted
        return self.classes_[best]


def _distances(block, center, scale):
    z = np.abs((block - center) / scale)
    peak = z.max(axis=1)  # z * z would overflow
    peak[peak == 0] = 1
    return peak * np.sqrt(((z / peak[:, None]) ** 2).mean(axis=1))


class ReferenceDetector(
    CallbackSupportMixin,
    VersionedPickleMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    OutlierMixin,
    BaseEstimator,
):
    """Distance from the mean in units of each column's deviation; also scales."""

    _parameter_constraints = {
        "contamination": [Interval(Real, 0, 0.5, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def __init__(self, *, contamination=0.1, n_jobs=None):
        self.contamination = contamination
        self.n_jobs = n_jobs

    @fit_context()
    def fit(self, X, y=None):
        """Fit; y is ignored."""
        X = check_table(self, X, reset=True, dtype=np.float64)
        self.center_ = X.mean(axis=0)
        peak = np.abs(X - self.center_).max(axis=0)  # X * X would overflow or vanish
        peak[peak == 0] = 1
        scale = peak * np.sqrt((((X - self.center_) / peak) ** 2).mean(axis=0))
        scale[scale <= 10 * np.finfo(float).eps * np.abs(self.center_)] = 1
        self.scale_ = np.where(scale > 0, scale, 1)
        self._n_features_out = X.shape[1]
        self.training_scores_ = self._scores(X)
        self.offset_ = np.percentile(self.training_scores_, 100 * self.contamination)
        progress = FitProgress(self, 0, X, y, lambda: vars(self))
        progress.close()
        return self

    def _scores(self, X):
        blocks = [X[i : i + 4096] for i in range(0, len(X), 4096)]
        done = Parallel(n_jobs=self.n_jobs)(
            delayed(_distances)(b, self.center_, self.scale_) for b in blocks
        )
        return -np.concatenate(done)

    def score_samples(self, X):
        """Minus the scaled distance: larger is more normal."""
        check_is_fitted(self, "offset_")
        return self._scores(check_table(self, X, reset=False, dtype=np.float64))

    def decision_function(self, X):
        """Negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """+1 for inliers, -1 for outliers."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def transform(self, X):
        """Centred and scaled columns."""
        check_is_fitted(self, "offset_")
        X = check_table(self, X, reset=False, dtype=np.float64)
        return (X - self.center_) / self.scale_
