"""DVM-AD: nearest-skeleton anomaly detection in two metrics."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.callback import CallbackSupportMixin

from .._torch.device import resolve_device
from .._validation import (
    FitProgress,
    Interval,
    StrOptions,
    check_is_fitted,
    check_table,
    fit_context,
)
from ._neighbours import RowSearch, match_rows
from ._skeleton import (
    Graph,
    apply_scaling,
    bounded_pencil,
    column_scaling,
    local_scatter,
    reference_ratio,
    reference_scatter,
)

#: Weights of the squared distances in the two metrics.
STRUCTURE, JOINT = 2.0, 1.0
#: Ridge of the local scatter, as a share of its mean eigenvalue.
RIDGE = 0.01
#: ``search="local"`` looks at the edges that leave this many nearest rows.
N_NEAR = 20
#: A query beyond this is measured in a larger unit: it is as far from every row.
FAR = 1e30


class DVMAnomalyDetector(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    OutlierMixin,
    BaseEstimator,
):
    """Anomaly detection by the distance to the skeleton of the normal data."""

    _parameter_constraints = {
        "contamination": [
            StrOptions({"auto"}),
            Interval(Real, 0, 0.5, closed="right"),
        ],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric_blocks": [StrOptions({"both", "structure", "joint"})],
        "edge_penalty": [Interval(Real, 0, 1, closed="both")],
        "search": [StrOptions({"local", "exact"})],
        "reference": [StrOptions({"max", "mean"})],
        "scaling": [StrOptions({"standard", "none"})],
        "backend": [StrOptions({"torch", "faiss"})],
        "device": [str],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        *,
        contamination="auto",
        n_neighbors=10,
        metric_blocks="both",
        edge_penalty=0.9,
        search="local",
        reference="max",
        scaling="standard",
        backend="torch",
        device="cpu",
        batch_size=None,
    ):
        self.contamination = contamination
        self.n_neighbors = n_neighbors
        self.metric_blocks = metric_blocks
        self.edge_penalty = edge_penalty
        self.search = search
        self.reference = reference
        self.scaling = scaling
        self.backend = backend
        self.device = device
        self.batch_size = batch_size

    @fit_context()
    def fit(self, X, y=None):
        """Learn the memory, its metrics and the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, mostly or only normal. At least two.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        X = check_table(self, X, reset=True, dtype=np.float64, ensure_min_samples=2)
        progress = FitProgress(self, 0, X, None, dict)
        self._learn(X)
        progress.close()
        return self

    def _learn(self, X):
        self._scaling = column_scaling(X, self.scaling)
        unit, mean, scale, _ = self._scaling
        self.mean_, self.scale_ = unit * mean, unit * scale
        Z = apply_scaling(X, self._scaling)
        self._learn_blocks(Z)
        raw = self._raw(Z)
        self._set_threshold(raw)

    def _search(self, rows):
        return RowSearch(
            rows,
            device=resolve_device(self.device),
            batch_size=self.batch_size,
        )

    def _graph(self, rows, degree):
        """The skeleton of the rows, and their median positive nearest distance."""
        k = min(degree, len(rows) - 1)
        index, squared = self._search(rows).nearest(rows, k, drop=np.arange(len(rows)))
        first = squared[:, 0]
        positive = first[first > 0]
        typical = float(np.sqrt(np.median(positive))) if len(positive) else 1.0
        return Graph(index, squared), typical

    def _learn_blocks(self, Z):
        self._rows = Z
        plain = self.edge_penalty == 0
        learns = self.metric_blocks != "structure"
        K = self.n_neighbors if learns or not plain else 1
        graph, typical = self._graph(Z, K)
        self._blocks = [(Z, graph, STRUCTURE / typical**2)]
        scales = [typical]
        if learns:
            self.reference_point_ = Z.max(0) if self.reference == "max" else Z.mean(0)
            within = local_scatter(Z, graph.neighbours)
            g = np.trace(within) / len(within) or 1.0
            within[np.diag_indices_from(within)] += RIDGE * g
            total = reference_scatter(Z, self.reference_point_)
            self.eigenvalues_, P = bounded_pencil(within, total)
            self.components_ = np.ascontiguousarray(P.T)
            self.ratio_ = reference_ratio(Z, self.reference_point_)
            G = Z @ P
            graph, typical = self._graph(G, 1 if plain else self.n_neighbors)
            self._blocks.append((G, graph, JOINT / typical**2))
            scales.append(typical)
        self.block_scales_ = np.array(scales)
        if self.metric_blocks == "joint":
            J = self._joint(Z, G)
            self._blocks = [(J, self._graph(J, self.n_neighbors)[0], 1.0)]

    def _joint(self, Z, G):
        f, g = self.block_scales_
        return np.hstack([Z * (np.sqrt(STRUCTURE) / f), G * (np.sqrt(JOINT) / g)])

    def _coordinates(self, Z):
        """The rows of Z in the metric of each block."""
        if self.metric_blocks == "structure":
            return [Z]
        G = Z @ self.components_.T
        return [Z, G] if self.metric_blocks == "both" else [self._joint(Z, G)]

    def _raw(self, Z):
        """Distances to the skeleton, before they are divided by ``scale_max_``.

        A row that equals a row of the memory is measured as if that row (one of them)
        and its edges were not there, which is what training rows need.
        """
        drop, count = match_rows(Z, self._rows)
        unit = np.maximum(1.0, np.abs(Z).max(1, initial=0) / FAR)
        Z = Z / unit[:, None]
        total = np.zeros(len(Z))
        blocks = zip(self._blocks, self._coordinates(Z), strict=True)
        for (rows, graph, weight), Y in blocks:
            search = self._search(rows)
            if self.edge_penalty == 0:
                squared = search.nearest(Y, 1, drop=drop)[1][:, 0]
            else:
                squared = search.skeleton(
                    Y,
                    graph,
                    self.edge_penalty,
                    n_near=N_NEAR if self.search == "local" else None,
                    drop=drop,
                )
            total += weight * squared
        with np.errstate(over="ignore"):
            raw = np.minimum(np.sqrt(total) * unit, np.finfo(float).max)
        raw[count > 1] = 0.0  # exactly, where another row equals it
        return raw

    def _set_threshold(self, raw):
        self.scale_max_ = float(raw.max()) or 1.0
        self.training_scores_ = -raw / self.scale_max_
        share = 0.05 if self.contamination == "auto" else self.contamination
        self.offset_ = float(np.percentile(self.training_scores_, 100 * share))

    def _scaled(self, X):
        check_is_fitted(self, "offset_")
        X = check_table(self, X, reset=False, dtype=np.float64)
        return apply_scaling(X, self._scaling)

    def score_samples(self, X):
        with np.errstate(over="ignore"):
            scores = -self._raw(self._scaled(X)) / self.scale_max_
        return np.maximum(scores, -np.finfo(float).max)

    def decision_function(self, X):
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def fit_predict(self, X, y=None):
        self.fit(X)
        return np.where(self.training_scores_ - self.offset_ >= 0, 1, -1)

    def anomaly_probability(self, X):
        return np.minimum(-self.score_samples(X), 1.0)

    def transform(self, X):
        Z = self._scaled(X)
        if self.metric_blocks == "structure":
            return Z / self.block_scales_[0]
        return Z @ self.components_.T / self.block_scales_[1]

    @property
    def _n_features_out(self):
        return self.n_features_in_
