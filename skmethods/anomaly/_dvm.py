"""DVM-AD: nearest-skeleton anomaly detection in two metrics."""

import math
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.callback import CallbackSupportMixin

from .._lazy import require
from .._pickle import VersionedPickleMixin
from .._torch.device import device_or_cpu, resolve_device
from .._validation import (
    FitProgress,
    Interval,
    StrOptions,
    check_is_fitted,
    check_table,
    fit_context,
)
from ._neighbours import RowMatcher, RowSearch
from ._robust import (
    MASS,
    combined,
    mass_levels,
    mass_reach,
    single_linkage,
    typical_range,
)
from ._skeleton import (
    Graph,
    apply_scaling,
    column_scaling,
    learn_metric,
    reference_ratio,
)

#: Weights of the squared distances in the two metrics.
STRUCTURE, JOINT = 2.0, 1.0
#: Ridge of the local scatter, as a share of its mean eigenvalue.
RIDGE = 0.01
#: ``search="local"`` looks at the edges that leave this many nearest rows.
N_NEAR = 20
#: A query beyond this is measured in a larger unit: it is as far from every row.
FAR = 1e15  # its square is far from the end of float32


class DVMAnomalyDetector(
    VersionedPickleMixin,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    OutlierMixin,
    BaseEstimator,
):
    """Anomaly detection by the distance to the skeleton of the normal data.

    The training rows are joined to their nearest neighbours by edges. A row is as
    anomalous as it is far from the nearest point of this skeleton, measured in two
    metrics: that of the scaled columns (*structure*), and that in which the
    neighbourhoods of the training rows are round (*joint*: the inverse of the local
    scatter). There is nothing to tune and nothing random.

    Train it on normal rows, or set ``robust=True`` if some per cent of them may be
    anomalies. Where a sizeable part of the training rows are anomalies, they become
    part of the memory and hide others: see Notes.

    Parameters
    ----------
    contamination : "auto" or float in (0, 0.5], default="auto"
        The share of the training rows that ``predict`` calls anomalies; it sets
        ``offset_`` and no score. ``"auto"`` is 0.05: the 5 % of the training rows that
        are farthest from the others count as anomalies.
    n_neighbors : int, default=10
        Edges from each row of the skeleton, and the neighbours that make the local
        scatter. At most n - 1 are used.
    metric_blocks : {"both", "structure", "joint"}, default="both"
        "both" adds the squared distances in the two metrics with weights 2 and 1;
        "structure" takes the first alone, which costs half and is slightly worse on
        tables, clearly on embeddings; "joint" looks for one nearest point in the space
        where both metrics add up: as good, a third faster to score, not to fit.
    edge_penalty : float in [0, 1], default=0.9
        How near the inside of an edge is. With 1 an edge is a segment; with less, its
        inner points are farther, the more so the longer it is; 0 leaves the rows
        alone: plain nearest-neighbour distance, three times as fast.
    search : {"local", "exact"}, default="local"
        "local" looks at the edges that leave the 20 nearest rows; "exact" at every
        edge, which is many times slower and changes few scores, by little.
    robust : bool, default=False
        For training rows that hold some per cent of unknown anomalies. Each anomaly
        there makes its like look normal; with True a training row counts only at the
        radius at which a chain of neighbours leads from it to a tenth of all training
        rows, and rows far from the mean of the scaled columns stand out as well.
        Costs about a third of a point of AUROC on clean training rows, hence not the
        default.
    reference : {"max", "mean"}, default="max"
        The point about which the total scatter is taken: the largest value of each
        column, as in the paper's predecessor, or the mean. It decides the directions
        and their order, thus ``components_``, ``eigenvalues_``, ``ratio_`` and
        ``transform``; it cannot change a score (see Notes).
    scaling : {"standard", "none"}, default="standard"
        Divide columns by their standard deviation, or leave them in their units, which
        suits columns that share one, such as embeddings.
    backend : {"torch", "faiss"}, default="torch"
        Who proposes the nearest rows. The scores are the same. faiss is an optional
        package, runs on the CPU whatever `device` and does not serve
        ``search="exact"``.
    device : str, default="cpu"
        Where distances are computed: "cpu", "cuda", "cuda:1", "mps" or "auto".
    batch_size : int, default=None
        Rows that are scored at once; None takes what suits the cache and keeps to
        ``sklearn.get_config()["working_memory"]``. It cannot change a score.

    Attributes
    ----------
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this.
    training_scores_ : ndarray of float64 of shape (n_samples,)
        Score of each training row when it, with its edges, is left out.
    scale_max_ : float
        The largest distance of a training row, the unit of the scores.
    block_scales_ : ndarray of float64 of shape (1,) or (2,)
        The median distance to the nearest other row in each metric, the unit of the
        distances in it.
    mean_, scale_ : ndarray of float64 of shape (n_features,)
        Centre and scale of the columns. A constant column has scale 1.
    components_ : ndarray of float64 of shape (n_features, n_features)
        Directions of the joint metric, one per row: ``components_.T @ components_`` is
        the inverse of the local scatter (half the mean outer product of the
        differences between neighbours, and a ridge of 1 % of its mean eigenvalue). Not
        with
        ``metric_blocks="structure"``; the same goes for the next three.
    eigenvalues_ : ndarray of float64 of shape (n_features,)
        Local scatter as a share of local plus total scatter along each direction,
        ascending, in [0, 1]. Near 0: neighbours agree while the whole spreads. Near 1:
        nothing but local noise.
    reference_point_ : ndarray of float64 of shape (n_features,)
        In scaled columns.
    ratio_ : float
        The one eigenvalue below 1 of global within scatter against total scatter
        about the reference point; 0 if the point leaves the span of the data.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if all are strings.

    See Also
    --------
    sklearn.neighbors.LocalOutlierFactor : Density relative to that of the neighbours.
    sklearn.ensemble.IsolationForest : Better when the training rows are contaminated.

    Notes
    -----
    *From the paper*, of which only the abstract was available: a deterministic
    reference point, a generalised eigenproblem with a bounded spectrum whose two ends
    keep structure and compress noise, nearest-neighbour distance in the learned space,
    scores in units of the training geometry, one fixed configuration. *Ours*: with one
    reference point that eigenproblem has a single eigenvalue below 1 (``ratio_``), and
    nearest-neighbour distances in its space are those of the columns; so the local
    scatter stands in for the within scatter, the skeleton for the rows, and the
    distances of the two metrics are added. For any total scatter the scaled directions
    satisfy ``components_.T @ components_ == inv(local scatter)``, which is why
    `reference` changes no score.

    A row that equals a training row is measured as if that one were left out, so that
    training rows are not their own neighbours. A row ever so slightly off has distance
    zero instead: at training rows the score jumps. So a step before this one in a
    pipeline must give the same bits for a row whatever it is passed with, which
    scalers do and projections such as PCA do not.

    Neighbours at equal distance are told apart by their order. On integer or rounded
    data the order of the training rows can therefore move single scores by some per
    cent, and hardly their ranks.

    With contaminated training rows every nearest-neighbour method loses to forests and
    PCA, and so does this one. `robust`, which is ours, makes up for it at a few per
    cent of anomalies, not at a fifth; the user guide has the figures.

    Distances come from matrix products in float32, but only to decide which rows may
    be nearest, with a bound on their error; what counts is measured in float64. Time
    is O(n² d) for ``fit`` and O(n d) per scored row, memory O(n d + d²) and a tile.

    References
    ----------
    .. [1] "Tuning-Free One-Class Discriminant Learning for Tabular Anomaly Detection",
       International Conference on Machine Learning, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from skmethods import DVMAnomalyDetector
    >>> angle = np.linspace(0, 2 * np.pi, 100)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> detector = DVMAnomalyDetector().fit(ring)
    >>> detector.predict([[1, 0.01], [0, 0], [1.5, 0]])
    array([ 1, -1, -1])
    >>> detector.anomaly_probability([[0.6, 0.8], [0, 0]]).round(2)
    array([0.48, 1.  ])
    """

    _parameter_constraints = {
        "contamination": [
            StrOptions({"auto"}),
            Interval(Real, 0, 0.5, closed="right"),
        ],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric_blocks": [StrOptions({"both", "structure", "joint"})],
        "edge_penalty": [Interval(Real, 0, 1, closed="both")],
        "search": [StrOptions({"local", "exact"})],
        "robust": ["boolean"],
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
        robust=False,
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
        self.robust = robust
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
            Training rows, at least two, mostly or only normal ones.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        X = check_table(self, X, reset=True, ensure_min_samples=2)
        progress = FitProgress(self, 0, X, None, dict)
        self._learn(np.array(X))
        progress.close()
        return self

    @fit_context()
    def partial_fit(self, X, y=None):
        """Add rows to the memory.

        Scaling, metrics, ``block_scales_`` and ``scale_max_`` stay as they are until
        the memory is twice as large as when they were learned; then they are learned
        again from all rows seen, and the estimator is what ``fit`` on all of them
        gives. In between the new rows join the memory and its skeleton exactly,
        ``training_scores_`` gets the scores they have on arrival, and ``offset_``
        follows. So the whole stream costs a small multiple of one ``fit``. Parameters
        that were changed meanwhile act when it learns again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least two rows in the first call.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        first = not hasattr(self, "offset_")
        X = check_table(self, X, reset=first, ensure_min_samples=2 if first else 1)
        progress = FitProgress(self, 0, X, None, dict)
        seen = np.array(X) if first else np.concatenate([self._seen, X])
        Z = None if first else apply_scaling(X.astype(np.float64), self._scaling)
        if first or len(seen) >= 2 * self._n_learned or np.abs(Z).max() > FAR:
            self._learn(seen)
        else:
            self._seen = seen
            self._extend(Z)
        progress.close()
        return self

    def _check_parameters(self):
        resolve_device(self.device)  # fit does not fall back to the CPU
        if self.backend == "faiss" and self.search == "exact" and self.edge_penalty > 0:
            raise ValueError(
                "search='exact' looks at every edge of the skeleton, for which faiss "
                "has no index. Use backend='torch', or search='local'."
            )

    def _learn(self, seen):
        """Everything, from the rows `seen` (not the caller's array)."""
        self._seen, self._n_learned = seen, len(seen)
        X = seen.astype(np.float64)
        # Parameters that the fitted state depends on: as they were in fit.
        self._kind, self._penalty = self.metric_blocks, self.edge_penalty
        self._degree, self._robust = self.n_neighbors, self.robust
        self._exact = self.search == "exact" and self.edge_penalty > 0
        self._scaling = column_scaling(X, self.scaling)
        unit, mean, scale, _ = self._scaling
        self.mean_, self.scale_ = unit * mean, unit * scale
        Z = apply_scaling(X, self._scaling)
        self._matcher = RowMatcher(Z)
        graph = self._learn_blocks(Z)
        if self._robust:
            self._learn_levels(Z, graph)
        raw = self._raw(Z, training=True)
        self.scale_max_ = float(raw.max()) or 1.0
        self.training_scores_ = -raw / self.scale_max_
        self._set_offset()

    def _set_offset(self):
        share = 0.05 if self.contamination == "auto" else self.contamination
        self.offset_ = float(np.percentile(self.training_scores_, 100 * share))
        if self.offset_ == 0:
            warnings.warn(
                f"At least {1 - share:.0%} of the training rows occur more than once "
                "(or one huge value makes them look alike after scaling) and have "
                "distance 0, so predict calls every other row an anomaly. Remove "
                "copies, e.g. with numpy.unique(X, axis=0), and values that stand for "
                "something else.",
                UserWarning,
                stacklevel=6,  # the caller of fit
            )

    def _learn_blocks(self, Z):
        plain = self._penalty == 0
        learns = self._kind != "structure"
        degree = 1 if plain else self._degree
        for name in ("reference_point_", "eigenvalues_", "components_", "ratio_"):
            vars(self).pop(name, None)  # of an earlier fit
        wide = learns or self._robust
        graph = self._graph(Z, self._degree if wide else degree)
        self._blocks = [(Z, graph)]
        if learns:
            self._learn_metric(Z, graph)
            G = Z @ self.components_.T
            self._blocks.append((G, self._graph(G, degree)))
        self.block_scales_ = np.array([g.typical() for _, g in self._blocks])
        if self._kind == "joint":
            J = self._joint(Z, G)
            self._blocks = [(J, self._graph(J, degree))]
        return graph

    def _learn_levels(self, Z, graph):
        """At which radius each row hangs together with a share of all rows."""
        n = len(Z)
        tree = single_linkage(Z, graph, self._search(Z, "torch"))
        self._levels = mass_levels(*tree, n, min(n, max(2, math.ceil(MASS * n))))

    def _learn_metric(self, Z, graph):
        """Local within scatter against the scatter about the reference point."""
        reference = Z.max(0) if self.reference == "max" else Z.mean(0)
        self.eigenvalues_, P = learn_metric(Z, graph.neighbours, reference, RIDGE)
        self.components_ = np.ascontiguousarray(P.T)
        self.reference_point_ = reference
        self.ratio_ = reference_ratio(Z, reference)

    def _search(self, rows, backend=None):
        faiss = None
        if (backend or self.backend) == "faiss" and not self._exact:
            owner = f"{type(self).__name__}(backend='faiss')"
            faiss = require("faiss", extra="faiss", for_=owner)
        return RowSearch(
            rows,
            device=device_or_cpu(self.device, type(self).__name__),
            batch_size=self.batch_size,
            faiss=faiss,
        )

    def _graph(self, rows, degree):
        k = min(degree, len(rows) - 1)
        search = self._search(rows)
        if k == 1:
            return Graph(*search.nearest_other())
        return Graph(*search.nearest(rows, k, drop=np.arange(len(rows))))

    def _extend(self, Z):
        """Add scaled rows to the memory, in the metrics as they are."""
        if self._robust:  # new rows join the mass; they do not yet bring others to it
            old, none = self._matcher.rows, np.full(len(Z), -1)
            reach = mass_reach(self._search(old, "torch"), Z, self._levels, none)
            self._levels = np.concatenate([self._levels, reach])
        blocks = []
        for (rows, graph), new in zip(self._blocks, self._coordinates(Z), strict=True):
            n, m = len(rows), len(new)
            degree = 1 if self._penalty == 0 else self._degree
            degree = max(degree, graph.neighbours.shape[1])
            rows_all = np.concatenate([rows, new])
            k = min(degree, n + m - 1)
            of_new = self._search(rows_all).nearest(new, k, drop=np.arange(n, n + m))
            to_new = self._search(new).nearest(rows, min(k, m))
            graph = graph.extended(of_new, to_new, k)
            blocks.append((rows_all, graph))
        self._blocks = blocks
        self._matcher = RowMatcher(np.concatenate([self._matcher.rows, Z]))
        scores = -self._raw(Z) / self.scale_max_
        self.training_scores_ = np.concatenate([self.training_scores_, scores])
        self._set_offset()

    def _joint(self, Z, G):
        f, g = self.block_scales_
        return np.hstack([Z * (np.sqrt(STRUCTURE) / f), G * (np.sqrt(JOINT) / g)])

    def _coordinates(self, Z):
        """Scaled rows in the metric of each block."""
        if self._kind == "structure":
            return [Z]
        G = Z @ self.components_.T
        return [Z, G] if self._kind == "both" else [self._joint(Z, G)]

    def _weights(self):
        """What multiplies the squared distance in each block."""
        if self._kind == "joint":
            return [1.0]
        return [
            w / s**2
            for w, s in zip((STRUCTURE, JOINT), self.block_scales_, strict=False)
        ]

    def _raw(self, Z, training=False):
        """Distances to the skeleton, before they are divided by ``scale_max_``.

        A row that equals a row of the memory is measured as if that row (one of them)
        and its edges were not there, which is what training rows need. `training`
        says that Z is the memory itself.
        """
        drop, count = self._matcher.match(Z)
        unit = np.maximum(1.0, np.abs(Z).max(1, initial=0) / FAR)
        near = Z / unit[:, None]
        squared = [self._skeleton(near, drop, training)]
        squared[0][count > 1] = 0.0  # exactly: another row equals it
        if self._robust:
            search = self._search(self._matcher.rows, "torch")
            squared.append(mass_reach(search, near, self._levels, drop))
            squared.append(np.einsum("ij,ij->i", near, near))
        largest = np.finfo(float).max
        with np.errstate(over="ignore"):
            parts = [np.minimum(np.sqrt(s) * unit, largest) for s in squared]
            if not self._robust:
                return parts[0]
            if training:
                self._ranges = [typical_range(part) for part in parts]
            return np.minimum(combined(parts, self._ranges), largest)

    def _skeleton(self, Z, drop, training):
        """Squared distances to the skeleton, summed over the metrics."""
        total = np.zeros(len(Z))
        for (rows, graph), Y, weight in zip(
            self._blocks, self._coordinates(Z), self._weights(), strict=True
        ):
            if self._penalty == 0 and training:
                squared = graph.squared[:, 0]
            elif self._penalty == 0:
                squared = self._search(rows).nearest(Y, 1, drop=drop)[1][:, 0]
            else:
                squared = self._search(rows).skeleton(
                    Y,
                    graph,
                    self._penalty,
                    n_near=None if self._exact else N_NEAR,
                    drop=drop,
                )
            total += weight * squared
        return total

    def _scaled(self, X):
        check_is_fitted(self, "offset_")
        X = check_table(self, X, reset=False, dtype=np.float64)
        return apply_scaling(X, self._scaling)

    def score_samples(self, X):
        """Minus the distance to the skeleton, in units of the farthest training row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A row that equals a training row is scored as if that row had been left
            out of the memory, so that ``score_samples(X_train)`` is
            ``training_scores_`` (after ``partial_fit``, only when it learned again).

        Returns
        -------
        ndarray of float64 of shape (n_samples,)
            The larger, the more normal. At most 0; training rows lie in [-1, 0], and
            anomalies may lie below -1.
        """
        Z = self._scaled(X)
        scores = np.empty(len(Z))
        known = np.full(len(Z), -1)
        if len(self.training_scores_) == self._n_learned:
            known = self._matcher.match(Z)[0]
            scores[known >= 0] = self.training_scores_[known[known >= 0]]
        if (known < 0).any():
            with np.errstate(over="ignore"):
                scores[known < 0] = -self._raw(Z[known < 0]) / self.scale_max_
        return np.maximum(scores, -np.finfo(float).max)

    def decision_function(self, X):
        """``score_samples(X) - offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """1 for normal rows, -1 for anomalies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def fit_predict(self, X, y=None):
        """``fit(X).predict(X)``, without measuring the training rows twice.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        self.fit(X)
        return np.where(self.training_scores_ - self.offset_ >= 0, 1, -1)

    def anomaly_probability(self, X):
        """The distance to the skeleton as a share of the largest training distance.

        A bounded score, not a calibrated probability: one wild training row makes it
        small everywhere.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples,)
            In [0, 1]; 1 for every row that is farther than the farthest training row.
        """
        return np.minimum(-self.score_samples(X), 1.0)

    def transform(self, X):
        """The discriminant coordinates of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features)
            Structure-preserving directions first (see ``eigenvalues_``), in units of
            the typical distance between neighbours. With
            ``metric_blocks="structure"``, which learns no directions, the scaled
            columns in that unit.
        """
        Z = self._scaled(X)
        if self._kind == "structure":
            return Z / self.block_scales_[0]
        return Z @ self.components_.T / self.block_scales_[1]

    @property
    def _n_features_out(self):
        return self.n_features_in_
