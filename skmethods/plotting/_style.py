"""What the displays share: colours, axes, the estimator inside a meta-estimator."""

import numpy as np

from .._lazy import require

# Okabe and Ito's palette: told apart with every common form of colour blindness. Its
# yellow is left out, which is too faint for a line on white.
BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY, BLACK = "#CC79A7", "#E69F00", "#56B4E9", "#000000"
GREY = "#8C8C8C"
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)

# Above the axes, where it can hide nothing.
LEGEND = {
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
    "alignment": "left",
    "frameon": False,
}


def pyplot(for_):
    """matplotlib.pyplot, which is optional. Ask before computing anything."""
    return require("matplotlib.pyplot", extra="plot", for_=for_)


def new_axes(ax, for_):
    """`ax`, or new axes in a figure of their own."""
    plt = pyplot(for_)
    if ax is None:
        return plt.subplots(layout="constrained")[1]
    if not hasattr(ax, "stairs"):
        raise TypeError(
            f"ax must be one matplotlib Axes, got {type(ax).__name__}. Of an array of "
            "axes pass one, e.g. axes[0]."
        )
    return ax


def final_estimator(estimator):
    """The estimator inside search objects and at the end of pipelines."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator


def minus(number, digits=3):
    """A number to so many digits, with the minus sign that axes have."""
    return f"{number:.{digits}g}".replace("-", "−")


def curve(values, name):
    """`values` as a non-empty finite 1-D float array, or None for None."""
    if values is None:
        return None
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"{name} must be one-dimensional with at least one number; got shape "
            f"{values.shape}."
        )
    if not np.isfinite(values).all():
        bad = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"{name} must be finite; entry {bad} is {values[bad]}. Leave out what "
            "cannot be drawn."
        )
    return values
