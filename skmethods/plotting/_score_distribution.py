"""How the scores of an outlier detector are distributed, and where its threshold is."""

from numbers import Integral

import numpy as np

from ._style import (
    BLUE,
    GREY,
    LEGEND,
    VERMILLION,
    curve,
    final_estimator,
    minus,
    new_axes,
    pyplot,
)


def _is_anomaly(y_true, pos_label, n_samples):
    """Which rows are anomalies, as a boolean array."""
    y_true = np.asarray(y_true)
    if y_true.shape != (n_samples,):
        raise ValueError(
            f"y_true must have one label per score, shape ({n_samples},); got shape "
            f"{y_true.shape}."
        )
    labels = set(y_true.tolist())
    if pos_label is None:
        if labels <= {0, 1} and labels != {1}:
            pos_label = 1
        elif labels <= {-1, 1} and labels != {1}:
            pos_label = -1
        else:
            shown = ", ".join(sorted(map(repr, labels))[:5])
            raise ValueError(
                f"y_true holds the labels {shown}, which do not tell what an anomaly "
                "is. Use 0 (normal) and 1 (anomaly), or 1 (normal) and -1 (anomaly), "
                "or name the label of the anomalies with pos_label=."
            )
    elif pos_label not in labels and len(labels) > 1:
        shown = ", ".join(sorted(map(repr, labels))[:5])
        raise ValueError(
            f"pos_label={pos_label!r} is none of the labels in y_true, {shown}. Name "
            "the label of the anomalies."
        )
    return y_true == pos_label


def _threshold_of(estimator, X, scores):
    """Rows that score below it are outliers; None for estimators without a threshold.

    ``decision_function`` is ``score_samples - offset_`` by scikit-learn's convention,
    which also holds for pipelines and searches, whose own ``offset_`` is hidden.
    """
    offset = getattr(final_estimator(estimator), "offset_", None)
    if offset is None and hasattr(estimator, "decision_function"):
        offsets = scores - np.ravel(estimator.decision_function(X))
        if np.allclose(offsets, offsets[0], rtol=1e-6, atol=1e-9):
            offset = offsets[0]
    return None if offset is None else float(np.ravel(offset)[0])


def _edges(scores, reference, threshold, bins):
    """Edges of the bins.

    A number of bins is spread over the range of all scores, cut where it leaves the
    central 96 % of the reference by more than 4 times their extent: else one far
    outlier would leave a single bar for all other rows. The bins are then shifted to
    make the threshold an edge, so that the bars left of it are exactly the flagged
    rows.
    """
    low, high = scores.min(), scores.max()
    if not isinstance(bins, Integral):
        return np.histogram_bin_edges(scores, bins)
    centre = np.quantile(reference, [0.02, 0.98])
    reach = 4 * np.ptp(centre)
    if reach > 0:
        low, high = max(low, centre[0] - reach), min(high, centre[1] + reach)
    if threshold is not None:
        low, high = min(low, threshold), max(high, threshold)
    edges = np.histogram_bin_edges(scores, bins, range=(low, high))
    if threshold is None:
        return edges
    width = edges[1] - edges[0]
    first = np.floor((edges[0] - threshold) / width - 1e-9)  # against rounding
    last = np.floor((edges[-1] - threshold) / width) + 1
    return threshold + width * np.arange(first, last + 1)


def _beyond(scores, edges):
    """Words for scores outside the edges, which are counted in the outer bins."""
    text = []
    if scores.min() < edges[0]:
        text.append(f"first bin: all down to {minus(scores.min())}")
    if scores.max() > edges[-1]:
        text.append(f"last bin: all up to {minus(scores.max())}")
    return "".join(f"\n{line}" for line in text)


class ScoreDistributionDisplay:
    """Histograms of an outlier detector's scores, with its threshold.

    Use `from_estimator` or `from_predictions` to create a display. All parameters are
    stored as attributes.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,)
        Scores of the rows in question; larger is more normal.
    train_scores : ndarray of shape (n_train,), default=None
        Scores of the training rows.
    is_anomaly : ndarray of bool of shape (n_samples,), default=None
        Which rows are known to be anomalies. If given, they are drawn apart.
    threshold : float, default=None
        Rows that score below it are flagged.
    name : str, default=None
        The detector's name, for the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    hists_ : dict of str to matplotlib StepPatch
        The histograms drawn: "train", and "test" or "normal" and "anomaly".
    line_ : matplotlib Line2D or None
        The threshold.

    See Also
    --------
    LossCurveDisplay : Training and validation curves.
    DVMAnomalyDetector : A detector to draw.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.ensemble import IsolationForest
    >>> from skmethods import ScoreDistributionDisplay, make_anomalies
    >>> X, y = make_anomalies(300, contamination=0.2, random_state=0)
    >>> detector = IsolationForest(random_state=0).fit(X[y == 0])
    >>> display = ScoreDistributionDisplay.from_estimator(detector, X, y=y)
    >>> sorted(display.hists_)
    ['anomaly', 'normal']
    """

    def __init__(
        self, *, scores, train_scores=None, is_anomaly=None, threshold=None, name=None
    ):
        self.scores = scores
        self.train_scores = train_scores
        self.is_anomaly = is_anomaly
        self.threshold = threshold
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        X_train=None,
        y=None,
        pos_label=None,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Score rows with a fitted detector and draw the distribution.

        Parameters
        ----------
        estimator : fitted outlier detector
            Anything with ``score_samples``, also a Pipeline or a search over one. Its
            threshold is ``offset_``; without one, none is drawn.
        X : array-like of shape (n_samples, n_features)
            The rows to score.
        X_train : array-like of shape (n_train, n_features), default=None
            The rows that the detector was fitted to.
        y : array-like of shape (n_samples,), default=None
            True labels of `X`: 1 anomaly and 0 normal, or -1 anomaly and 1 normal.
        pos_label : int, float, bool or str, default=None
            The label of the anomalies, if `y` has others.
        name : str, default=None
            For the legend; by default the class name of the detector.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ScoreDistributionDisplay
        """
        pyplot(f"{cls.__name__}.from_estimator")
        if not hasattr(estimator, "score_samples"):
            raise TypeError(
                f"{type(estimator).__name__} has no score_samples. Pass an outlier "
                "detector that has it (LocalOutlierFactor: with novelty=True), or "
                "scores to from_predictions."
            )
        scores = np.asarray(estimator.score_samples(X), dtype=np.float64)
        return cls.from_predictions(
            scores,
            train_scores=None if X_train is None else estimator.score_samples(X_train),
            y_true=y,
            pos_label=pos_label,
            threshold=_threshold_of(estimator, X, scores),
            name=type(final_estimator(estimator)).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        scores,
        *,
        train_scores=None,
        y_true=None,
        pos_label=None,
        threshold=None,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Draw the distribution of given scores.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            Larger is more normal.
        train_scores : array-like of shape (n_train,), default=None
            Scores of the training rows.
        y_true : array-like of shape (n_samples,), default=None
            1 anomaly and 0 normal, or -1 anomaly and 1 normal.
        pos_label : int, float, bool or str, default=None
            The label of the anomalies, if `y_true` has others.
        threshold : float, default=None
            Rows that score below it are flagged.
        name : str, default=None
            For the legend.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ScoreDistributionDisplay
        """
        pyplot(f"{cls.__name__}.from_predictions")
        scores = curve(scores, "scores")
        if scores is None:
            raise TypeError("scores is None. Pass one score per row.")
        if threshold is not None and not np.isfinite(threshold):
            raise ValueError(f"threshold must be a finite number, got {threshold}.")
        if pos_label is not None and y_true is None:
            raise ValueError(
                f"pos_label={pos_label!r} says which of the true labels is the "
                "anomaly, but no labels were given. Pass them as well."
            )
        display = cls(
            scores=scores,
            train_scores=curve(train_scores, "train_scores"),
            is_anomaly=(
                None
                if y_true is None
                else _is_anomaly(y_true, pos_label, n_samples=len(scores))
            ),
            threshold=threshold,
            name=name,
        )
        return display.plot(ax=ax, **kwargs)

    def _groups(self):
        """What to draw: ``{key: (legend, colour, scores)}``."""
        groups = {}
        if self.train_scores is not None:
            groups["train"] = ("training", GREY, np.asarray(self.train_scores))
        scores = np.asarray(self.scores)
        if self.is_anomaly is None:
            groups["test"] = ("test", BLUE, scores)
        else:
            mask = np.asarray(self.is_anomaly, dtype=bool)
            groups["normal"] = ("test, normal", BLUE, scores[~mask])
            groups["anomaly"] = ("test, anomaly", VERMILLION, scores[mask])
        return {key: group for key, group in groups.items() if len(group[2])}

    def plot(
        self,
        ax=None,
        *,
        name=None,
        bins=40,
        stat="share",
        hist_kw=None,
        threshold_kw=None,
    ):
        """Draw the histograms and the threshold.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Title of the legend; by default the `name` of the display.
        bins : int, str or sequence of float, default=40
            As in :func:`numpy.histogram_bin_edges`, over all scores. With a number the
            bins are shifted so that the threshold is an edge, and a long tail is cut.
            Scores outside the bins are counted in the first or last one; the label of
            the axis says so.
        stat : {"share", "count"}, default="share"
            "share" makes the bars of every group sum to 1, so that few anomalies beside
            many normal rows are seen; "count" shows numbers of rows.
        hist_kw : dict, default=None
            Passed to every ``ax.stairs``.
        threshold_kw : dict, default=None
            Passed to the ``ax.axvline`` of the threshold.

        Returns
        -------
        ScoreDistributionDisplay
            This object.
        """
        if stat not in ("share", "count"):
            raise ValueError(f"stat must be 'share' or 'count', got {stat!r}.")
        ax = new_axes(ax, f"{type(self).__name__}.plot")
        groups = self._groups()
        everything = np.concatenate([scores for *_, scores in groups.values()])
        reference = next(iter(groups.values()))[-1]
        edges = _edges(everything, reference, self.threshold, bins)
        self.hists_ = {}
        for key, (text, colour, scores) in groups.items():
            rows = np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0]
            label = f"{text} (n = {len(scores)}"
            if self.threshold is not None:
                label += f", {np.mean(scores < self.threshold):.1%} flagged"
            style = {
                "fill": True,
                "facecolor": (colour, 0.3),
                "edgecolor": colour,
                "linewidth": 0 if key == "train" else 1.5,
                "label": f"{label})",
            }
            self.hists_[key] = ax.stairs(
                rows / len(scores) if stat == "share" else rows,
                edges,
                **(style | (hist_kw or {})),
            )
        self.line_ = None
        if self.threshold is not None:
            style = {"color": "black", "linestyle": "--", "linewidth": 1.2}
            style["label"] = f"threshold {minus(self.threshold)}"
            self.line_ = ax.axvline(self.threshold, **(style | (threshold_kw or {})))
        ax.set_xlabel("score (larger = more normal)" + _beyond(everything, edges))
        ax.set_ylabel("share of the rows" if stat == "share" else "number of rows")
        ax.set_ylim(bottom=0)
        ax.legend(title=self.name if name is None else name, **LEGEND)
        self.ax_, self.figure_ = ax, ax.figure
        return self
