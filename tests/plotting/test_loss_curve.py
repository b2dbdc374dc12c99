"""LossCurveDisplay, by what is in the axes."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmethods.optim import LESAMClassifier
from skmethods.plotting import LossCurveDisplay, ScoreDistributionDisplay

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


X, Y = load_iris(return_X_y=True)


class _Net:
    """A fitted estimator with whatever attributes are given."""

    def __init__(self, **attributes):
        self.n_features_in_ = 1
        vars(self).update(attributes)

    def fit(self, X, y):
        return self


ALL = {
    "loss_curve_": [3.0, 2.0, 1.5, 1.2],
    "validation_scores_": [0.5, 0.9, 0.8, 0.7],
    "rho_curve_": [0.1, 0.2, 0.3, 0.3],
}


def _legend(display):
    legend = display.ax_.get_legend()
    return None if legend is None else [t.get_text() for t in legend.get_texts()]


# -- content ---------------------------------------------------------------------------


def test_three_curves():
    display = LossCurveDisplay.from_estimator(_Net(**ALL))
    lines = (display.line_, display.validation_line_, display.rho_line_)
    for line, values in zip(lines, ALL.values(), strict=True):
        assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
        assert_array_equal(line.get_ydata(), values)
    assert [line.get_linestyle() for line in lines] == ["-", "--", ":"]
    assert len({line.get_color() for line in lines}) == 1
    axes = [line.axes for line in lines]
    assert axes[0] is display.ax_
    assert len(set(axes)) == 3
    assert [ax.get_ylabel() for ax in axes] == [
        "training loss (solid)",
        "validation score (dashed, best epoch marked)",
        "perturbation radius ρ (dotted)",
    ]
    assert display.ax_.get_xlabel() == "epoch"
    assert display.validation_line_.get_markevery() == [1]
    assert _legend(display) == ["_Net"]
    assert [line.get_label() for line in lines] == [
        "_Net: training loss",
        "_Net: validation score",
        "_Net: perturbation radius ρ",
    ]


def test_loss_alone_needs_no_key():
    display = LossCurveDisplay(loss_curve=[2.0, 1.0]).plot()
    assert display.validation_line_ is None
    assert display.rho_line_ is None
    assert display.ax_.get_ylabel() == "training loss"
    assert _legend(display) is None
    assert len(display.figure_.axes) == 1


def test_numbers_and_labels_do_not_overlap():
    display = LossCurveDisplay.from_estimator(_Net(**ALL), name="A name")
    display.figure_.draw_without_rendering()
    axes = [line.axes for line in (display.validation_line_, display.rho_line_)]
    boxes = [ax.yaxis.get_tightbbox() for ax in axes]
    boxes += [display.ax_.get_window_extent(), display.ax_.yaxis.get_tightbbox()]
    boxes += [display.ax_.get_legend().get_window_extent()]
    for i, a in enumerate(boxes):
        assert display.figure_.bbox.padded(1).contains(a.x1, a.y1)
        for b in boxes[:i]:
            # Ticks and spines lie on the border of the axes.
            overlap = np.minimum(a.max, b.max) - np.maximum(a.min, b.min)
            assert overlap.min() < 2


def test_epochs_are_integers():
    display = LossCurveDisplay(loss_curve=[2.0, 1.0, 0.5]).plot()
    low, high = display.ax_.get_xlim()
    ticks = [t for t in display.ax_.get_xticks() if low <= t <= high]
    assert ticks == [1, 2, 3]


def test_repeated_plots_share_the_axes():
    first = LossCurveDisplay.from_estimator(_Net(**ALL), name="a")
    only_loss = LossCurveDisplay.from_estimator(
        _Net(loss_curve_=[5.0, 4.0]), name="b", ax=first.ax_
    )
    third = LossCurveDisplay.from_estimator(_Net(**ALL), name="c", ax=first.ax_)
    assert len(first.figure_.axes) == 3
    assert third.ax_ is only_loss.ax_ is first.ax_
    assert third.validation_line_.axes is first.validation_line_.axes
    assert third.rho_line_.axes is first.rho_line_.axes
    colours = [d.line_.get_color() for d in (first, only_loss, third)]
    assert len(set(colours)) == 3
    assert third.rho_line_.get_color() == third.line_.get_color()
    assert _legend(third) == ["a", "b", "c"]


def test_subplots_that_share_an_axis_are_kept_apart():
    _, axes = plt.subplots(1, 2, sharex=True)
    displays = [LossCurveDisplay.from_estimator(_Net(**ALL), ax=ax) for ax in axes]
    assert displays[0].rho_line_.axes is not displays[1].rho_line_.axes
    assert len(axes[0].figure.axes) == 6
    assert displays[1].line_.get_color() == displays[0].line_.get_color()


# -- estimators ------------------------------------------------------------------------


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("cls", [MLPClassifier, MLPRegressor])
def test_scikit_learn_nets(cls, early_stopping):
    net = cls(
        hidden_layer_sizes=(5,),
        early_stopping=early_stopping,
        max_iter=12,
        random_state=0,
    )
    display = LossCurveDisplay.from_estimator(net.fit(X, Y))
    assert_array_equal(display.line_.get_ydata(), net.loss_curve_)
    assert display.name == cls.__name__
    if early_stopping:
        line = display.validation_line_
        assert_array_equal(line.get_ydata(), net.validation_scores_)
        assert line.get_markevery() == [int(np.argmax(net.validation_scores_))]
    else:
        assert display.validation_line_ is None


def test_lesam():
    net = LESAMClassifier(
        hidden_layer_sizes=(5,), max_iter=6, early_stopping=True, random_state=0
    ).fit(X, Y)
    display = LossCurveDisplay.from_estimator(net)
    assert_array_equal(display.line_.get_ydata(), net.loss_curve_)
    assert_array_equal(display.validation_line_.get_ydata(), net.validation_scores_)
    assert_array_equal(display.rho_line_.get_ydata(), net.rho_curve_)
    assert display.rho_line_.get_xdata()[-1] == net.n_iter_


def test_inside_a_search_over_a_pipeline():
    net = MLPClassifier((4,), max_iter=5, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), net), {"mlpclassifier__alpha": [0.1, 1]}, cv=2
    ).fit(X, Y)
    display = LossCurveDisplay.from_estimator(search)
    fitted = search.best_estimator_[-1]
    assert_array_equal(display.line_.get_ydata(), fitted.loss_curve_)
    assert display.name == "MLPClassifier"


def test_validation_curve_attribute():
    net = _Net(loss_curve_=[2.0, 1.0], validation_curve_=np.array([0.1, 0.2]))
    display = LossCurveDisplay.from_estimator(net)
    assert_array_equal(display.validation_line_.get_ydata(), [0.1, 0.2])


def test_arguments_reach_the_plot():
    _, ax = plt.subplots()
    display = LossCurveDisplay.from_estimator(
        _Net(**ALL),
        name="mine",
        ax=ax,
        line_kw={"color": "red", "label": "my loss"},
        validation_kw={"linewidth": 4},
        rho_kw={"color": "green"},
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.line_.get_color() == "red"
    assert display.validation_line_.get_linewidth() == 4
    assert display.rho_line_.get_color() == "green"
    assert _legend(display) == ["my loss"]
    again = display.plot(name="other")
    assert again is display
    assert display.ax_ is not ax
    assert _legend(display) == ["other"]


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kw", "error", "match"),
    [
        ({"loss_curve": None}, TypeError, "loss_curve is None"),
        ({"loss_curve": []}, ValueError, "loss_curve must be one-dimensional"),
        ({"loss_curve": [[1.0]]}, ValueError, "loss_curve must be one-dimensional"),
        ({"loss_curve": [1.0, np.inf]}, ValueError, "entry 1 is inf"),
        (
            {"loss_curve": [1.0], "validation_curve": [np.nan]},
            ValueError,
            "validation_curve must be finite",
        ),
        ({"loss_curve": [1.0], "rho_curve": 3.0}, ValueError, "rho_curve must be"),
    ],
)
def test_bad_curves(kw, error, match):
    with pytest.raises(error, match=match):
        LossCurveDisplay(**kw).plot()
    assert plt.get_fignums() == []


def test_bad_estimators():
    with pytest.raises(NotFittedError):
        LossCurveDisplay.from_estimator(MLPClassifier())
    with pytest.raises(TypeError, match="LogisticRegression has recorded no loss_"):
        LossCurveDisplay.from_estimator(LogisticRegression(C=0.1).fit(X, Y))
    with pytest.raises(TypeError, match="not with solver='lbfgs'"):
        net = MLPClassifier((2,), solver="lbfgs", max_iter=2).fit(X, Y)
        LossCurveDisplay.from_estimator(net)
    with pytest.raises(TypeError, match="ax must be one matplotlib Axes"):
        LossCurveDisplay.from_estimator(_Net(**ALL), ax=[1])


# -- imports ---------------------------------------------------------------------------


def test_importing_is_light():
    code = (
        "import sys, skmethods.plotting; "
        "print([m for m in ('matplotlib', 'sklearn', 'torch') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for make in (
        LossCurveDisplay(loss_curve=[1.0]).plot,
        lambda: LossCurveDisplay.from_estimator(object()),
        lambda: ScoreDistributionDisplay.from_estimator(object(), None),
        lambda: ScoreDistributionDisplay.from_predictions(None),
        ScoreDistributionDisplay(scores=np.ones(2)).plot,
    ):
        with pytest.raises(ImportError, match=r"Display\.\w+ needs .*\[plot\]"):
            make()
