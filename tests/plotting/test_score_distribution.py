"""ScoreDistributionDisplay, by what is in the axes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from skmethods.anomaly import DVMAnomalyDetector
from skmethods.datasets import make_anomalies
from skmethods.plotting import ScoreDistributionDisplay

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")

SCORES = np.array([-5.0, -4.0, -2.0, -1.5, -1.0, -0.5])
Y = np.array([1, 1, 0, 0, 0, 1])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    X, y = make_anomalies(400, 3, contamination=0.2, random_state=0)
    return X[y == 0][:150], X, y


def _texts(display):
    return [t.get_text() for t in display.ax_.get_legend().get_texts()]


def _heights(display, key):
    return display.hists_[key].get_data().values


def _edges(display):
    (key, *_) = display.hists_
    return display.hists_[key].get_data().edges


# -- content ---------------------------------------------------------------------------


def test_groups_and_heights():
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, train_scores=[-1.0, -0.5, -0.2], y_true=Y, bins=[-6, -3, -1, 0]
    )
    assert list(display.hists_) == ["train", "normal", "anomaly"]
    assert_allclose(_heights(display, "train"), [0, 0, 1])
    assert_allclose(_heights(display, "normal"), [0, 2 / 3, 1 / 3])
    assert_allclose(_heights(display, "anomaly"), [2 / 3, 0, 1 / 3])
    assert display.line_ is None
    assert _texts(display) == [
        "training (n = 3)",
        "test, normal (n = 3)",
        "test, anomaly (n = 3)",
    ]
    assert display.ax_.get_ylabel() == "share of the rows"
    assert display.ax_.get_xlabel() == "score (larger = more normal)"
    assert display.ax_.get_ylim()[0] == 0


def test_without_labels_the_test_rows_are_one_group():
    display = ScoreDistributionDisplay.from_predictions(SCORES, bins=[-6, -1, 0])
    assert list(display.hists_) == ["test"]
    assert_allclose(_heights(display, "test"), [4 / 6, 2 / 6])


def test_count():
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, y_true=Y, bins=[-6, -3, 0], stat="count"
    )
    assert_array_equal(_heights(display, "anomaly"), [2, 1])
    assert display.ax_.get_ylabel() == "number of rows"


def test_a_class_without_rows_is_not_drawn():
    display = ScoreDistributionDisplay.from_predictions(SCORES, y_true=np.zeros(6))
    assert list(display.hists_) == ["normal"]


def test_threshold():
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, y_true=Y, threshold=-1.5, name="My detector"
    )
    assert_array_equal(display.line_.get_xdata(), [-1.5, -1.5])
    assert display.line_.get_linestyle() == "--"
    assert _texts(display) == [
        "test, normal (n = 3, 33.3% flagged)",
        "test, anomaly (n = 3, 66.7% flagged)",
        "threshold −1.5",
    ]
    assert display.ax_.get_legend().get_title().get_text() == "My detector"


@pytest.mark.parametrize("threshold", [-1.2345, -5.0, -0.5, 3.0, -40.0, -1.5])
@pytest.mark.parametrize("bins", [1, 7, 40, np.int64(40)])
def test_bars_left_of_the_threshold_are_the_flagged_rows(threshold, bins):
    rng = np.random.RandomState(0)
    scores = np.r_[SCORES, rng.standard_normal(200) - 1, -5.0, -0.5]
    y = rng.randint(2, size=len(scores))
    display = ScoreDistributionDisplay.from_predictions(
        scores, y_true=y, threshold=threshold, bins=bins, stat="count"
    )
    edges = _edges(display)
    assert threshold in edges
    assert_allclose(np.diff(edges), edges[1] - edges[0])
    left = edges[:-1] < threshold
    for key, label in (("normal", 0), ("anomaly", 1)):
        heights = _heights(display, key)
        assert heights.sum() == (y == label).sum()
        assert heights[left].sum() == (scores[y == label] < threshold).sum()
    assert display.ax_.get_xlim()[0] < threshold < display.ax_.get_xlim()[1]


def test_number_of_bins():
    display = ScoreDistributionDisplay.from_predictions(SCORES, bins=9)
    assert len(_heights(display, "test")) == 9
    display = ScoreDistributionDisplay.from_predictions(SCORES, bins="sturges")
    assert_allclose(_edges(display), np.histogram_bin_edges(SCORES, "sturges"))


def test_a_long_tail_is_cut_and_said_so():
    scores = np.r_[np.linspace(-1, 0, 101), -1000.0, 50.0]
    y = np.r_[np.zeros(101), 1, 1]
    display = ScoreDistributionDisplay.from_predictions(scores, y_true=y, stat="count")
    edges, anomalies = _edges(display), _heights(display, "anomaly")
    assert edges[0] == pytest.approx(-0.98 - 4 * 0.96)
    assert edges[-1] == pytest.approx(-0.02 + 4 * 0.96)
    assert anomalies[0] == anomalies[-1] == 1  # no row is lost
    assert anomalies.sum() == 2
    lines = display.ax_.get_xlabel().splitlines()
    assert lines[1:] == ["first bin: all down to −1e+03", "last bin: all up to 50"]


def test_given_edges_lose_no_row():
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, bins=[-3, -1, 0], stat="count"
    )
    assert_array_equal(_heights(display, "test"), [4, 2])
    assert "first bin: all down to −5" in display.ax_.get_xlabel()


@pytest.mark.parametrize("threshold", [None, 2.0, 3.0])
def test_all_scores_equal(threshold):
    display = ScoreDistributionDisplay.from_predictions(
        np.full(5, 2.0), threshold=threshold, stat="count"
    )
    assert _heights(display, "test").sum() == 5


def test_groups_are_told_apart():
    """Different colours, and not by colour only: the training bars have no outline."""
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, train_scores=SCORES, y_true=Y
    )
    colours = [h.get_facecolor() for h in display.hists_.values()]
    assert len(set(colours)) == 3
    assert display.hists_["train"].get_linewidth() == 0
    assert display.hists_["normal"].get_linewidth() > 0


def test_nothing_overlaps():
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, train_scores=SCORES, y_true=Y, threshold=-1, name="A name"
    )
    display.figure_.draw_without_rendering()
    legend = display.ax_.get_legend().get_window_extent()
    assert not legend.overlaps(display.ax_.get_window_extent())
    assert display.figure_.bbox.contains(legend.x1, legend.y1)


# -- labels ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "pos_label"),
    [
        (Y, None),
        (Y.astype(bool), None),
        (Y.astype(float).tolist(), None),
        (np.where(Y, -1, 1), None),
        (np.where(Y, "bad", "good"), "bad"),
        (1 - Y, 0),
    ],
)
def test_conventions_of_labels(y, pos_label):
    display = ScoreDistributionDisplay.from_predictions(
        SCORES, y_true=y, pos_label=pos_label
    )
    assert_array_equal(display.is_anomaly, Y == 1)


@pytest.mark.parametrize(
    "y", [np.ones(6), np.arange(6), np.array(list("abcabc")), np.array([0, 1, -1] * 2)]
)
def test_labels_that_do_not_say_what_an_anomaly_is(y):
    with pytest.raises(ValueError, match="pos_label="):
        ScoreDistributionDisplay.from_predictions(SCORES, y_true=y)


# -- estimators ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "detector",
    [
        IsolationForest(n_estimators=20, random_state=0),
        IsolationForest(n_estimators=20, contamination=0.1, random_state=0),
        LocalOutlierFactor(novelty=True),
        OneClassSVM(nu=0.1),
        EllipticEnvelope(random_state=0),
        make_pipeline(StandardScaler(), IsolationForest(random_state=0)),
        DVMAnomalyDetector(contamination=0.1),
    ],
    ids=["forest", "forest .1", "LOF", "SVM", "envelope", "pipeline", "DVM"],
)
def test_any_outlier_detector(data, detector):
    X_train, X, y = data
    detector.fit(X_train)
    display = ScoreDistributionDisplay.from_estimator(detector, X, X_train=X_train, y=y)
    assert_array_equal(display.scores, detector.score_samples(X))
    assert_array_equal(display.train_scores, detector.score_samples(X_train))
    assert_array_equal(display.is_anomaly, y == 1)
    assert_array_equal(display.scores < display.threshold, detector.predict(X) == -1)
    assert display.line_.get_xdata()[0] == display.threshold
    name = "LocalOutlierFactor IsolationForest OneClassSVM EllipticEnvelope"
    assert display.name in [*name.split(), "DVMAnomalyDetector"]


class _Hidden:
    """A detector that has decision_function but shows no offset_."""

    def __init__(self, detector):
        self.n_features_in_ = 3
        self.score_samples = detector.score_samples
        self.decision_function = detector.decision_function

    def fit(self, X):
        return self


def test_threshold_from_decision_function(data):
    X_train, X, _ = data
    detector = IsolationForest(contamination=0.1, random_state=0).fit(X_train)
    display = ScoreDistributionDisplay.from_estimator(_Hidden(detector), X)
    assert display.threshold == pytest.approx(detector.offset_)


@pytest.mark.parametrize("density", [KernelDensity(), GaussianMixture(random_state=0)])
def test_scores_without_a_threshold(data, density):
    display = ScoreDistributionDisplay.from_estimator(density.fit(data[0]), data[1])
    assert display.threshold is None
    assert display.line_ is None


def test_arguments_reach_the_plot(data):
    X_train, X, y = data
    detector = IsolationForest(n_estimators=5, random_state=0).fit(X_train)
    _, axes = plt.subplots(1, 2)
    display = ScoreDistributionDisplay.from_estimator(
        detector,
        X,
        y=np.where(y, "odd", "fine"),
        pos_label="odd",
        name="Forest",
        ax=axes[1],
        stat="count",
        hist_kw={"linewidth": 3},
        threshold_kw={"color": "red", "label": "limit"},
    )
    assert display.ax_ is axes[1]
    assert display.figure_ is axes[1].figure
    assert display.ax_.get_legend().get_title().get_text() == "Forest"
    assert display.hists_["normal"].get_linewidth() == 3
    assert display.line_.get_color() == "red"
    assert _texts(display)[-1] == "limit"
    again = display.plot(name="Again", bins=5)
    assert again is display
    assert display.ax_ is not axes[1]
    assert display.ax_.get_legend().get_title().get_text() == "Again"


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kw", "error", "match"),
    [
        ({"scores": [[1.0, 2.0]]}, ValueError, "scores must be one-dimensional"),
        ({"scores": []}, ValueError, "scores must be one-dimensional"),
        ({"scores": None}, TypeError, "scores is None"),
        ({"scores": [1.0, np.nan]}, ValueError, "scores must be finite; entry 1"),
        ({"train_scores": [np.inf]}, ValueError, "train_scores must be finite"),
        ({"y_true": [0, 1]}, ValueError, "one label per score"),
        ({"threshold": np.nan}, ValueError, "threshold must be a finite"),
        ({"pos_label": 1}, ValueError, "no labels were given"),
        ({"stat": "density"}, ValueError, "stat must be 'share' or 'count'"),
        ({"ax": np.array([1])}, TypeError, "ax must be one matplotlib Axes"),
    ],
)
def test_bad_input(kw, error, match):
    scores = kw.pop("scores", SCORES)
    with pytest.raises(error, match=match):
        ScoreDistributionDisplay.from_predictions(scores, **kw)


def test_bad_estimators(data):
    X_train, X, y = data
    with pytest.raises(NotFittedError):
        ScoreDistributionDisplay.from_estimator(IsolationForest(), X)
    with pytest.raises(TypeError, match="novelty=True"):
        detector = LocalOutlierFactor().fit(X_train)
        ScoreDistributionDisplay.from_estimator(detector, X)
    with pytest.raises(TypeError, match="LogisticRegression has no score_samples"):
        ScoreDistributionDisplay.from_estimator(LogisticRegression().fit(X, y), X)


def test_pos_label_that_does_not_occur():
    scores, y = np.arange(4.0), np.array(["good", "bad", "good", "bad"])
    with pytest.raises(ValueError, match="pos_label='Bad' is none of the labels"):
        ScoreDistributionDisplay.from_predictions(scores, y_true=y, pos_label="Bad")
    display = ScoreDistributionDisplay.from_predictions(
        scores, y_true=np.full(4, "good"), pos_label="bad"
    )
    assert not np.any(display.is_anomaly)  # a batch without anomalies is no mistake


def test_lists_will_do():
    display = ScoreDistributionDisplay(
        scores=[-1.0, -2.0, -3.0], train_scores=[-1.0], is_anomaly=[False, False, True]
    )
    assert display.plot().ax_ is not None
