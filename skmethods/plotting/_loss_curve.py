"""Loss, validation score and perturbation radius of a fit, epoch by epoch."""

from typing import NamedTuple

import numpy as np

from ._style import CYCLE, LEGEND, curve, final_estimator, new_axes, pyplot

_LOSS, _VALIDATION, _RHO = (f"skmethods {kind}" for kind in ("loss", "validation", "ρ"))
_NAMES = {
    _LOSS: "training loss",
    _VALIDATION: "validation score",
    _RHO: "perturbation radius ρ",
}
_KEYS = {_LOSS: "solid", _VALIDATION: "dashed, best epoch marked", _RHO: "dotted"}


def _family(ax):
    """The axes on the right that this module made for `ax`, by kind of curve."""
    place = ax.get_position().bounds  # subplots may share an x axis too
    return {
        a.get_gid(): a
        for a in ax.get_shared_x_axes().get_siblings(ax)
        if a.get_gid() in _NAMES and a.get_position().bounds == place
    }


def _twin(ax, kind):
    """The axes on the right for one kind of curve, made when first needed."""
    twins = _family(ax)
    if kind in twins:
        return twins[kind]
    twin = ax.twinx()
    twin.set_gid(kind)
    twin.set_ylabel(f"{_NAMES[kind]} ({_KEYS[kind]})")
    if twins:  # a second axis stands clear of the first one's numbers and label
        twin.spines["right"].set_position(("outward", 55))
    return twin


class _Curve(NamedTuple):
    values: np.ndarray | None
    linestyle: str
    style: dict | None


class LossCurveDisplay:
    """The course of a fit: training loss, validation score, perturbation radius.

    Use `from_estimator` to create a display. Plot several into the same axes to compare
    fits: each gets a colour of its own. All parameters are stored as attributes.

    Parameters
    ----------
    loss_curve : array-like of shape (n_iter,)
        Training loss after each epoch.
    validation_curve : array-like of shape (n_iter,), default=None
        Score on held-out rows after each epoch, drawn on an axis on the right; the best
        epoch is marked.
    rho_curve : array-like of shape (n_iter,), default=None
        Radius of LE-SAM's perturbation in each epoch, drawn on an axis on the right.
    name : str, default=None
        The estimator's name, for the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes of the loss.
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The loss.
    validation_line_, rho_line_ : matplotlib Line2D or None
        The other curves; their ``axes`` are the axes on the right.

    See Also
    --------
    ScoreDistributionDisplay : Scores of an outlier detector.
    LESAMClassifier : An estimator with all three curves.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skmethods import LossCurveDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> net = MLPClassifier(early_stopping=True, random_state=0).fit(X, y)
    >>> display = LossCurveDisplay.from_estimator(net)
    >>> len(display.line_.get_ydata()) == net.n_iter_
    True
    """

    def __init__(self, *, loss_curve, validation_curve=None, rho_curve=None, name=None):
        self.loss_curve = loss_curve
        self.validation_curve = validation_curve
        self.rho_curve = rho_curve
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, *, name=None, ax=None, **kwargs):
        """Draw the curves that a fitted estimator has recorded.

        Parameters
        ----------
        estimator : fitted estimator
            Anything with ``loss_curve_``, also scikit-learn's ``MLPClassifier``; a
            Pipeline that ends in one, or a search over one. ``validation_scores_`` (or
            ``validation_curve_``) and ``rho_curve_`` are drawn if it has them.
        name : str, default=None
            For the legend; by default the class name of the estimator.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        LossCurveDisplay
        """
        pyplot(f"{cls.__name__}.from_estimator")
        final = final_estimator(estimator)
        if getattr(final, "loss_curve_", None) is None:
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(final)
            raise TypeError(
                f"{type(final).__name__} has recorded no loss_curve_. Pass an "
                "estimator that is trained in epochs (MLPClassifier: not with "
                "solver='lbfgs'), or curves to LossCurveDisplay(loss_curve=...).plot()."
            )
        validation = getattr(final, "validation_scores_", None)
        if validation is None:
            validation = getattr(final, "validation_curve_", None)
        display = cls(
            loss_curve=final.loss_curve_,
            validation_curve=validation,
            rho_curve=getattr(final, "rho_curve_", None),
            name=type(final).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self, ax=None, *, name=None, line_kw=None, validation_kw=None, rho_kw=None
    ):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. In axes that have curves already,
            the next colour is taken and the axes on the right are shared.
        name : str, default=None
            For the legend; by default the `name` of the display.
        line_kw, validation_kw, rho_kw : dict, default=None
            Passed to the ``plot`` of the loss, the validation score and the radius.

        Returns
        -------
        LossCurveDisplay
            This object.
        """
        if self.loss_curve is None:
            raise TypeError("loss_curve is None. Pass one loss per epoch.")
        curves = {
            _LOSS: _Curve(curve(self.loss_curve, "loss_curve"), "-", line_kw),
            _VALIDATION: _Curve(
                curve(self.validation_curve, "validation_curve"), "--", validation_kw
            ),
            _RHO: _Curve(curve(self.rho_curve, "rho_curve"), ":", rho_kw),
        }
        ax = new_axes(ax, f"{type(self).__name__}.plot")
        name = self.name if name is None else name
        n_before = sum(line.get_gid() == _LOSS for line in ax.lines)
        lines = dict.fromkeys(curves)
        for kind, (values, linestyle, given) in curves.items():
            if values is None:
                continue
            style = {
                "color": CYCLE[n_before % len(CYCLE)],
                "linestyle": linestyle,
                "label": _NAMES[kind] if name is None else f"{name}: {_NAMES[kind]}",
            }
            if kind == _VALIDATION:
                style |= {"marker": "o", "markevery": [int(values.argmax())]}
            where = ax if kind == _LOSS else _twin(ax, kind)
            epochs = range(1, len(values) + 1)
            (line,) = where.plot(epochs, values, **(style | (given or {})))
            line.set_gid(kind)
            lines[kind] = line
        ax.set_xlabel("epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
        key = f" ({_KEYS[_LOSS]})" if _family(ax) else ""
        ax.set_ylabel(_NAMES[_LOSS] + key)
        # The legend tells the estimators apart by colour; the axes tell what the line
        # styles mean.
        losses = [line for line in ax.lines if line.get_gid() == _LOSS]
        names = [line.get_label().removesuffix(f": {_NAMES[_LOSS]}") for line in losses]
        if name is not None or len(losses) > 1:
            ax.legend(losses, names, ncols=3, **LEGEND)
        self.line_ = lines[_LOSS]
        self.validation_line_, self.rho_line_ = lines[_VALIDATION], lines[_RHO]
        self.ax_, self.figure_ = ax, ax.figure
        return self
