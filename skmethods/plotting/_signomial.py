"""What a signomial model looks at: overall, for one row, and along one feature."""

from numbers import Integral
from typing import NamedTuple

import numpy as np

from ._style import BLUE, GREY, LEGEND, VERMILLION, minus, new_axes, pyplot

_KINDS = ("importance", "attribution", "response")
#: A bar with less than this share of the width has its number beside it.
_NARROW = 0.15
_METHODS = ("auto", "decision_function", "predict_proba", "predict")


class Importance(NamedTuple):
    """Influence of each feature over many rows.

    Attributes
    ----------
    names : list of str
    size : ndarray of shape (n_features,)
        Mean of |d score / d log u|.
    mean : ndarray of shape (n_features,)
        Mean of d score / d log u; its sign is that of the bar.
    score_name : str
    """

    names: list
    size: np.ndarray
    mean: np.ndarray
    score_name: str


class Attribution(NamedTuple):
    """How the score of a row comes about.

    Attributes
    ----------
    names : list of str
    values : ndarray of shape (n_features,)
        The features of the row.
    contributions : ndarray of shape (n_features,)
        They sum to ``score - base``.
    base, score : float
        Scores of the baseline and of the row.
    threshold : float or None
        Where the decision changes.
    score_name : str
    """

    names: list
    values: np.ndarray
    contributions: np.ndarray
    base: float
    score: float
    threshold: float | None
    score_name: str


class Response(NamedTuple):
    """The output as one feature moves.

    Attributes
    ----------
    name : str
    grid, output : ndarray of shape (n_points,)
    chosen : ndarray of bool of shape (n_points,), or None
        Where the class in question is the one that is predicted.
    point : tuple of two floats, or None
        Where the row is.
    threshold : float or None
        Where the decision changes.
    score_name : str
    target : str or None
        The class in question.
    """

    name: str
    grid: np.ndarray
    output: np.ndarray
    chosen: np.ndarray | None
    point: tuple | None
    threshold: float | None
    score_name: str
    target: str | None


# -- reading the estimator -------------------------------------------------------------


def _check_fitted(estimator):
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)


def _innermost(estimator, X):
    """The estimator inside searches and pipelines, the rows as it sees them, and names.

    The names are those that the steps before it give their output, or None.
    """
    names = None
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            _check_fitted(estimator)
            if len(estimator.steps) > 1:
                before = estimator[:-1]
                X = before.transform(X)
                try:
                    names = list(before.get_feature_names_out(names))
                except (AttributeError, ValueError):  # a step that has none to give
                    names = None
            estimator = estimator.steps[-1][1]
        else:
            return estimator, X, names


def _need(estimator, method, kind):
    if not hasattr(estimator, method):
        raise TypeError(
            f"{type(estimator).__name__} has no {method}(), which kind={kind!r} draws. "
            "Pass a signomial model such as ECSELClassifier, or a Pipeline that ends "
            "in one."
        )
    _check_fitted(estimator)


def _like(X, values):
    """`values` in a frame like X if X is one, so that the column names are kept."""
    if hasattr(X, "iloc"):
        return type(X)(values, columns=X.columns)
    if hasattr(X, "schema") and hasattr(X, "columns"):  # polars
        return type(X)(values, schema=list(X.columns))
    return values


def _names(estimator, X, feature_names, before, n_features):
    given = feature_names is not None
    if not given:
        feature_names = getattr(estimator, "feature_names_in_", before)
    if feature_names is None:
        feature_names = getattr(X, "columns", None)
    if feature_names is None:
        return [f"x{j}" for j in range(n_features)]
    if isinstance(feature_names, (str, bytes, set, dict)):
        raise TypeError(
            "feature_names must be a list of names, one per column, in their order; "
            f"got {feature_names!r}."
        )
    names = [str(name) for name in feature_names]
    if len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names, but X has {n_features} columns."
        )
    if given and len(set(names)) < n_features:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(
            f"feature_names must differ from each other; {twice!r} comes more than "
            "once."
        )
    return names


def _shortened(names):
    """At most ten names for a message."""
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


class _View(NamedTuple):
    """One output of an estimator: the score of a class, or a regressor's target."""

    estimator: object
    column: int | None  # of a score per class; None if there is one score
    sign: int  # -1 for the first of two classes
    target: object  # the class, or None

    @classmethod
    def of(cls, estimator, target):
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            if target is not None:
                raise ValueError(
                    f"target={target!r} names a class, but "
                    f"{type(estimator).__name__} has no classes. Leave it out."
                )
            return cls(estimator, None, 1, None)
        labels = list(classes)
        shown = _shortened([repr(label) for label in classes.tolist()])
        if target is None and len(labels) > 2:
            raise ValueError(
                f"There is one score per class. Choose a class with target=, one of "
                f"{shown}."
            )
        if target is None:
            target = labels[-1]
        if target not in labels:
            raise ValueError(f"target={target!r} is none of the classes {shown}.")
        column = labels.index(target)
        if len(labels) > 2:
            return cls(estimator, column, 1, labels[column])
        return cls(estimator, None, 1 if column == 1 else -1, labels[column])

    @property
    def threshold(self):
        """Of the score; several classes have none."""
        return 0.0 if self.target is not None and self.column is None else None

    @property
    def score_name(self):
        return "prediction" if self.target is None else f"score of {self.target}"

    def pick(self, values):
        """The part of (n, C, m), (n, 1, m) or (n, m) that belongs to the output."""
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 3:
            values = values[:, 0 if self.column is None else self.column]
        return self.sign * values

    def score(self, X):
        """One score per row."""
        if self.target is None:
            return np.asarray(self.estimator.predict(X), dtype=np.float64)
        scores = np.asarray(self.estimator.decision_function(X), dtype=np.float64)
        return scores[:, self.column] if scores.ndim == 2 else self.sign * scores

    def probability(self, X):
        column = list(self.estimator.classes_).index(self.target)
        return np.asarray(self.estimator.predict_proba(X), dtype=np.float64)[:, column]


# -- what is drawn ---------------------------------------------------------------------


def _importance(view, X, names):
    gradient = view.pick(view.estimator.log_gradient(X))
    return Importance(
        names, np.abs(gradient).mean(axis=0), gradient.mean(axis=0), view.score_name
    )


def _attribution(view, X, table, names, row, baseline):
    if row is None and len(table) > 1:
        raise ValueError(
            f"kind='attribution' explains one row and X has {len(table)}. Choose one "
            "with row=."
        )
    row = 0 if row is None else row
    one = _like(X, table[[row]])
    kw = {"baseline": baseline, "kind": "path"}
    contributions = view.pick(view.estimator.attribute(one, **kw))[0]
    score = float(view.score(one)[0])
    return Attribution(
        names,
        table[row],
        contributions,
        # The identity of the path attribution, whatever the baseline is.
        score - float(contributions.sum()),
        score,
        view.threshold,
        view.score_name,
    )


def _response(view, X, table, names, row, feature, method, n_points):
    if feature is None:
        raise ValueError(
            "kind='response' moves one feature. Choose it with feature=, a name or the "
            f"number of a column: {_shortened(names)}."
        )
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(
                f"feature={feature!r} is none of the features {_shortened(names)}."
            )
        feature = names.index(feature)
    elif (
        not isinstance(feature, Integral)
        or isinstance(feature, bool)
        or not 0 <= feature < len(names)
    ):
        raise ValueError(
            f"feature={feature!r} must be a name, or the number of one of the "
            f"{len(names)} columns, from 0 to {len(names) - 1}."
        )
    low, high = table[:, feature].min(), table[:, feature].max()
    if not low < high:
        raise ValueError(
            f"Feature {names[feature]} is {low} in all rows of X, so there is no range "
            "to draw. Pass rows in which it varies."
        )
    if view.target is None:
        method = "predict" if method == "auto" else method
    elif method == "auto":
        can = hasattr(view.estimator, "predict_proba")
        method = "predict_proba" if can else "decision_function"
    if (method == "predict") != (view.target is None):
        raise ValueError(
            f"response_method={method!r} does not fit {type(view.estimator).__name__}: "
            "regressors have 'predict', classifiers 'predict_proba' and "
            "'decision_function'."
        )
    _need(view.estimator, method, "response")
    output = view.probability if method == "predict_proba" else view.score

    others = np.median(table, axis=0) if row is None else table[row]
    rows = np.tile(others, (n_points, 1))
    rows[:, feature] = np.linspace(low, high, n_points)
    grid = _like(X, rows)
    threshold = view.threshold
    if threshold is not None and method == "predict_proba":
        threshold = 0.5
    point = None
    if row is not None:
        point = table[row, feature], float(output(_like(X, table[[row]]))[0])
    chosen = None
    if view.target is not None:
        chosen = np.asarray(view.estimator.predict(grid)) == view.target
    name = view.score_name
    if method == "predict_proba":
        name = f"probability of {view.target}"
    target = None if view.target is None else str(view.target)
    return Response(
        names[feature],
        rows[:, feature].copy(),
        output(grid),
        chosen,
        point,
        threshold,
        name,
        target,
    )


def _largest(values, n_bars):
    """Places of the largest values, at most `n_bars`, and of the others.

    Features with the value 0 are in neither.
    """
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[values[order] != 0]
    if len(order) <= n_bars:
        return order, order[:0]
    return order[: n_bars - 1], order[n_bars - 1 :]


def _coloured(signs):
    """Blue for what raises the score, hatched vermillion for what lowers it."""
    return {
        "color": [(BLUE if s > 0 else VERMILLION if s < 0 else GREY) for s in signs],
        "hatch": ["" if s > 0 else "//" if s < 0 else "xx" for s in signs],
        "edgecolor": "white",
        "linewidth": 0,
    }


def _nothing(ax, text):
    """Say in the middle of empty axes why there are no bars."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center")
    ax.set_yticks([])


def _count(n_drawn, n_features, others):
    if n_drawn == 0:
        return f"none of {n_features} features"
    if n_drawn == n_features:
        return f"{n_features} features"
    return f"{n_drawn} of {n_features} features; the others {others}"


class SignomialDisplay:
    """What a signomial model looks at: overall, for one row, or along one feature.

    Use `from_estimator` to create a display.

    Parameters
    ----------
    data : named tuple
        What `from_estimator` has read off the model: its fields are the numbers that
        are drawn.
    name : str, default=None
        The model's name, for the title of the legend or of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer or None
        The bars of importances and attributions, from the top.
    labels_ : list of str or None
        What the bars stand for.
    line_ : matplotlib Line2D or None
        The response curve.
    threshold_line_ : matplotlib Line2D or None
        Where the decision changes.

    See Also
    --------
    ECSELClassifier : A classifier with a signomial per class.
    ECSELRegressor : A regressor that finds a signomial law.
    sklearn.inspection.PartialDependenceDisplay : The response on average over rows.

    Notes
    -----
    The displays draw closed forms of the ECSEL paper [1]_, except that attributions are
    exact along the straight path in logarithms, which is our design: they sum to the
    difference of the two scores. u is the feature as the model sees it, after its map
    to positive numbers; a change of log u by 0.01 is a change of u by 1 %.

    References
    ----------
    .. [1] A. Lumadjeng, I. Birbil, E. Acar, "ECSEL: Explainable Classification via
       Signomial Equation Learning", ICML 2026, arXiv:2601.21789.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skmethods import ECSELClassifier, SignomialDisplay
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = ECSELClassifier().fit(X, y)
    >>> display = SignomialDisplay.from_estimator(model, X, kind="attribution", row=0)
    >>> bool(display.data.score == model.decision_function(X[:1])[0])
    True
    """

    def __init__(self, data, *, name=None):
        self.data = data
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        kind="importance",
        row=None,
        feature=None,
        target=None,
        baseline="mean",
        response_method="auto",
        n_points=200,
        feature_names=None,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Read one view off a fitted model and draw it.

        Parameters
        ----------
        estimator : fitted estimator
            ``ECSELClassifier``, or another classifier or regressor with
            ``log_gradient`` (for importances) and ``attribute`` (for attributions); a
            Pipeline that ends in one, or a search over one. Responses need neither, so
            any estimator serves. Features are those that the last step sees.
        X : array-like or frame of shape (n_samples, n_features)
            Rows to average over, to choose `row` from, or that span the range of
            `feature`.
        kind : {"importance", "attribution", "response"}, default="importance"
            - importance: the mean of |d score / d log u| over the rows, per feature;
            - attribution: from the score of the baseline to that of one row, feature
              by feature;
            - response: the output as one feature moves over its range.
        row : int, default=None
            Which row of `X` is explained; needed for attributions if `X` has several,
            refused for importances.
            For responses the row that the other features are taken from; by default
            their medians.
        feature : int or str, default=None
            The feature that moves, for responses only.
        target : int, float, bool or str, default=None
            The class whose score is drawn. Needed for three classes or more; of two,
            the second one is the default.
        baseline : str or array-like, default="mean"
            Where attributions start; passed to ``estimator.attribute``.
        response_method : {"auto", "predict_proba", "decision_function", "predict"}, \
                default="auto"
            The output of a response. By default the probability, or the score of a
            classifier without probabilities, or a regressor's prediction.
        n_points : int, default=200
            Points of a response curve.
        feature_names : sequence of str, default=None
            By default the names that the model saw in ``fit``, those that the steps
            before it in a Pipeline give, those of `X`, or x0, x1, ...
        name : str, default=None
            By default the class name of the estimator.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        SignomialDisplay
        """
        pyplot(f"{cls.__name__}.from_estimator")
        for given, options, what in (
            (kind, _KINDS, "kind"),
            (response_method, _METHODS, "response_method"),
        ):
            if given not in options:
                raise ValueError(
                    f"{what} must be one of {', '.join(map(repr, options))}; got "
                    f"{given!r}."
                )
        if not isinstance(n_points, Integral) or n_points < 2:
            raise ValueError(f"n_points must be an integer from 2, got {n_points!r}.")
        if feature is not None and kind != "response":
            raise ValueError(
                f"feature={feature!r} is moved by kind='response'; kind={kind!r} "
                "shows all features. Leave it out."
            )
        if row is not None and kind == "importance":
            raise ValueError(
                f"row={row!r} has no meaning for kind='importance', which is a mean "
                "over all rows of X. Leave it out, or use kind='attribution'."
            )
        model, X, before = _innermost(estimator, X)
        needed = {"importance": "log_gradient", "attribution": "attribute"}
        _need(model, needed.get(kind, "predict"), kind)
        view = _View.of(model, target)
        table = np.asarray(X)
        if table.ndim != 2 or len(table) == 0:
            raise ValueError(
                f"X must be a table with one row at least; got shape {table.shape}."
            )
        if row is not None and (
            not isinstance(row, Integral) or not -len(table) <= row < len(table)
        ):
            raise ValueError(
                f"row={row!r} must be the number of one of the {len(table)} rows of X."
            )
        names = _names(model, X, feature_names, before, table.shape[1])
        if kind == "importance":
            data = _importance(view, X, names)
        else:
            table = table.astype(np.float64)
            if kind == "attribution":
                data = _attribution(view, X, table, names, row, baseline)
            else:
                data = _response(
                    view, X, table, names, row, feature, response_method, n_points
                )
        display = cls(data, name=type(model).__name__ if name is None else name)
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax=None,
        *,
        name=None,
        max_bars=10,
        bar_kw=None,
        line_kw=None,
        threshold_kw=None,
    ):
        """Draw the view.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            By default the `name` of the display.
        max_bars : int, default=10
            Bars of importances and attributions. With more features than that, the
            last bar is the sum of the smallest. Features without any influence get no
            bar; the label of the axis says how many there are.
        bar_kw, line_kw, threshold_kw : dict, default=None
            Passed to the ``barh`` of the bars, the ``plot`` of the response, and the
            ``axvline`` or ``axhline`` of the threshold.

        Returns
        -------
        SignomialDisplay
            This object.
        """
        if not isinstance(max_bars, Integral) or max_bars < 1:
            raise ValueError(f"max_bars must be an integer from 1, got {max_bars!r}.")
        ax = new_axes(ax, f"{type(self).__name__}.plot")
        self.bars_ = self.labels_ = self.line_ = self.threshold_line_ = None
        name = self.name if name is None else name
        if isinstance(self.data, Response):
            self._plot_response(ax, name, line_kw or {}, threshold_kw or {})
        elif isinstance(self.data, Attribution):
            self._plot_attribution(ax, name, max_bars, bar_kw or {}, threshold_kw or {})
        else:
            self._plot_importance(ax, name, max_bars, bar_kw or {})
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _bars(self, ax, labels, left, width, signs, bar_kw):
        """Horizontal bars from the top."""
        places = np.arange(len(labels))
        style = _coloured(signs) | bar_kw
        self.bars_ = ax.barh(places, width, left=left, **style)
        self.labels_ = labels
        ax.set_yticks(places, labels)

    def _plot_importance(self, ax, name, max_bars, bar_kw):
        data = self.data
        shown, rest = _largest(data.size, max_bars)
        labels = [data.names[j] for j in shown]
        width, signs = list(data.size[shown]), list(np.sign(data.mean[shown]))
        if len(rest):
            labels.append(f"sum of {len(rest)} others")
            width.append(data.size[rest].sum())
            signs.append(0.0)
        self._bars(ax, labels, 0.0, width, signs, bar_kw)
        ax.set_xlim(left=0)
        ax.set_ylim(max(len(labels), 1) - 0.4, -0.6)
        ax.set_xlabel(f"mean |∂ {data.score_name} / ∂ log u|")
        n_drawn = len(shown) + len(rest)
        ax.set_ylabel(_count(n_drawn, len(data.names), "are not in the formula"))
        meaning = {1.0: "raises it on average", -1.0: "lowers it on average"}
        patches = {s: p for s, p in zip(signs, self.bars_, strict=True) if s in meaning}
        ax.legend(
            patches.values(),
            [meaning[s] for s in patches],
            title=name,
            ncols=2,
            **LEGEND,
        )
        if not labels:
            _nothing(ax, "no feature is in the formula:\nthe score is constant")

    def _plot_attribution(self, ax, name, max_bars, bar_kw, threshold_kw):
        data = self.data
        shown, rest = _largest(data.contributions, max_bars)
        labels = [f"{data.names[j]} = {minus(data.values[j], 4)}" for j in shown]
        width = data.contributions[shown]
        if len(rest):
            labels.append(f"sum of {len(rest)} others")
            width = np.append(width, data.contributions[rest].sum())
        # Added up from the end, which makes the last bar end in the row's very score.
        edges = data.score - np.append(np.cumsum(width[::-1])[::-1], 0.0)
        self._bars(ax, labels, edges[:-1], np.diff(edges), np.sign(width), bar_kw)
        ends = np.append(edges, [] if data.threshold is None else data.threshold)
        span = ends.min(), np.ptp(ends) or 1.0
        for i, w in enumerate(width):
            # Down to the next bar; below the last one it marks the row's score.
            ax.plot(2 * [edges[i + 1]], [i - 0.4, i + 1.4], color=GREY, linewidth=0.8)
            self._annotate(ax, i, w, edges, span)
        ax.set_ylim(max(len(labels), 1) - 0.4, -0.6)
        title = (
            f"{data.score_name}: {minus(data.base)} at the baseline, "
            f"{minus(data.score)} here"
        )
        ax.set_title(title if name is None else f"{name}\n{title}", fontsize="medium")
        if data.threshold is not None:
            style = {"color": "black", "linestyle": "--", "linewidth": 1.2}
            self.threshold_line_ = ax.axvline(
                data.threshold, **(style | {"label": "threshold"} | threshold_kw)
            )
        pad = 0.06 * span[1]
        ax.set_xlim(ends.min() - pad, ends.max() + pad)
        ax.set_xlabel(
            data.score_name + (" (dashed: threshold)" if data.threshold == 0 else "")
        )
        n_drawn = len(shown) + len(rest)
        ax.set_ylabel(_count(n_drawn, len(data.names), "contribute nothing"))
        if not len(labels):
            _nothing(ax, "no feature contributes:\nthe row scores as the baseline")

    def _annotate(self, ax, i, size, edges, span):
        """Write the size on bar i; beside it, towards the middle, if it is narrow."""
        left, right = sorted(edges[i : i + 2])
        middle = (left + right) / 2
        at, ha, gap = middle, "center", 0
        if right - left < _NARROW * span[1]:
            to_the_right = middle - span[0] < span[1] / 2
            at, ha, gap = (right, "left", 4) if to_the_right else (left, "right", -4)
        ax.annotate(
            f"{'+' if size > 0 else ''}{minus(size)}",
            (at, i),
            xytext=(gap, 0),
            textcoords="offset points",
            ha=ha,
            va="center",
            fontsize="small",
            bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"},
        )

    def _plot_response(self, ax, name, line_kw, threshold_kw):
        data = self.data
        style = {"color": BLUE, "linewidth": 2, "label": data.score_name}
        (self.line_,) = ax.plot(data.grid, data.output, **(style | line_kw))
        if data.point is not None:
            ax.plot(*data.point, "o", color=VERMILLION, label="the row")
        if data.threshold is not None:
            style = {"color": "black", "linestyle": "--", "linewidth": 1.2}
            style["label"] = f"threshold {minus(data.threshold)}"
            self.threshold_line_ = ax.axhline(data.threshold, **(style | threshold_kw))
        if data.chosen is not None and data.chosen.any():
            ax.fill_between(
                data.grid,
                0,
                1,
                where=data.chosen,
                transform=ax.get_xaxis_transform(),
                facecolor=(GREY, 0.2),
                edgecolor="none",
                label=f"predicted: {data.target}",
            )
        ax.set_xlabel(data.name)
        ax.set_ylabel(data.score_name)
        ax.legend(title=name, ncols=2, **LEGEND)
