"""SignomialDisplay, by the numbers that are in the axes."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from skmethods.plotting import SignomialDisplay
from skmethods.symbolic import ECSELClassifier

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#8C8C8C"

#: The arguments that each kind takes besides the rows.
GIVEN = {
    "importance": {"kind": "importance"},
    "attribution": {"kind": "attribution", "row": 2},
    "response": {"kind": "response", "row": 2, "feature": 1},
}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


class Law(BaseEstimator):
    """``score_c = sum_k a_ck prod_j x_j ** b_ckj``, as fixed as it comes."""

    def __init__(self, coef, exponents, classes=None):
        self.coef = coef
        self.exponents = exponents
        self.classes = classes

    def fit(self, X, y=None):
        self.a_ = np.array(self.coef, dtype=float)  # (C, K)
        self.b_ = np.array(self.exponents, dtype=float)  # (C, K, m)
        self.n_features_in_ = self.b_.shape[2]
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(X.columns)
        self.means_ = np.exp(np.log(np.asarray(X, dtype=float)).mean(axis=0))
        if self.classes is not None:
            self.classes_ = np.array(self.classes)
        return self

    def _terms(self, X):
        X = np.asarray(X, dtype=float)
        return self.a_ * np.prod(X[:, None, None, :] ** self.b_, axis=3)

    def log_gradient(self, X):
        return self._drop(np.einsum("nck,ckj->ncj", self._terms(X), self.b_))

    def _drop(self, values):
        return values

    def attribute(self, X, baseline="mean", kind="first_order"):
        """By quadrature along the path."""
        X = np.asarray(X, dtype=float)
        base = self.means_ if isinstance(baseline, str) else np.asarray(baseline)
        assert kind == "path"
        nodes, weights = np.polynomial.legendre.leggauss(60)
        step = np.log(X / base)
        total = 0.0
        for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
            gradient = Law.log_gradient(self, base * np.exp(t * step))
            total = total + w * gradient.reshape(len(X), -1, X.shape[1])
        return self._drop(total * step[:, None, :])

    def decision_function(self, X):
        scores = self._terms(X).sum(axis=2)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X):
        z = self.decision_function(X)
        z = np.c_[np.zeros(len(z)), z] if z.ndim == 1 else z
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X):
        if self.classes is None:
            return self.decision_function(X)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class FlatLaw(Law):
    """The log-gradient of two classes has no axis for the class."""

    def _drop(self, values):
        return values[:, 0]


BINARY = Law(
    [[1.0, -2.0]], [[[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]]], ["no", "yes"]
)
THREE = Law(
    [[1.0], [2.0], [-0.5]],
    [[[1.0, 0, 0, 0]], [[0, -1.0, 0, 1.0]], [[0.5, 0.5, 2.0, 0]]],
    [0, 1, 2],
)
REGRESSOR = Law([[1.0, 0.3]], [[[2.0, 0, -1.0, 0], [0, 0.5, 0, 1.0]]])


@pytest.fixture(scope="module")
def X():
    return np.random.RandomState(0).uniform(1, 4, (60, 4))


def _fit(law, X):
    return Law(law.coef, law.exponents, law.classes).fit(X)


def _slopes(score, X, h=1e-5):
    """d score / d log x by central differences."""
    columns = []
    for j in range(X.shape[1]):
        up, down = X.copy(), X.copy()
        up[:, j] *= np.exp(h)
        down[:, j] *= np.exp(-h)
        columns.append((score(up) - score(down)) / (2 * h))
    return np.array(columns).T


def _colours(display):
    from matplotlib.colors import to_hex

    return [to_hex(bar.get_facecolor()).upper() for bar in display.bars_]


def _edges(display):
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in display.bars_]


def _assert_same(data, other):
    """Every field; sums may be added in another order."""
    assert type(data) is type(other)
    for mine, theirs in zip(data, other, strict=True):
        if getattr(mine, "dtype", None) == np.float64 or isinstance(mine, float):
            assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
        else:
            assert_array_equal(mine, theirs)


# -- importance ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "target", "score"),
    [
        (BINARY, None, lambda m: m.decision_function),
        (BINARY, "yes", lambda m: m.decision_function),
        (BINARY, "no", lambda m: lambda X: -m.decision_function(X)),
        (THREE, 2, lambda m: lambda X: m.decision_function(X)[:, 2]),
        (THREE, 1, lambda m: lambda X: m.decision_function(X)[:, 1]),
        (REGRESSOR, None, lambda m: m.predict),
    ],
)
def test_importance(law, target, score, X):
    model = _fit(law, X)
    display = SignomialDisplay.from_estimator(model, X, target=target)
    slopes = _slopes(score(model), X)
    expected = {f"x{j}": np.abs(slopes[:, j]).mean() for j in range(4)}
    signs = {f"x{j}": np.sign(slopes[:, j].mean()) for j in range(4)}
    drawn = [bar.get_width() for bar in display.bars_]
    assert_allclose(drawn, [expected[name] for name in display.labels_], rtol=1e-6)
    assert drawn == sorted(drawn, reverse=True)
    assert {n for n, v in expected.items() if v > 1e-8} == set(display.labels_)
    for name, colour, bar in zip(
        display.labels_, _colours(display), display.bars_, strict=True
    ):
        assert colour == (BLUE if signs[name] > 0 else VERMILLION)
        assert bool(bar.get_hatch()) is bool(signs[name] < 0)
    assert all(x0 == 0 for x0, _ in _edges(display))
    # the first bar is on top, with its name beside it
    ax = display.ax_
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert [t.get_text() for t in ax.get_yticklabels()] == display.labels_
    assert display.line_ is None
    assert display.threshold_line_ is None


def test_importance_says_which_score(X):
    display = SignomialDisplay.from_estimator(_fit(BINARY, X), X)
    assert display.ax_.get_xlabel() == "mean |∂ score of yes / ∂ log u|"
    assert (
        display.ax_.get_ylabel() == "3 of 4 features; the others are not in the formula"
    )
    display = SignomialDisplay.from_estimator(_fit(REGRESSOR, X), X)
    assert display.ax_.get_xlabel() == "mean |∂ prediction / ∂ log u|"
    assert display.ax_.get_ylabel() == "4 features"


def test_an_axis_for_the_class_or_none(X):
    flat = FlatLaw(BINARY.coef, BINARY.exponents, BINARY.classes).fit(X)
    a = SignomialDisplay.from_estimator(flat, X, target="no")
    b = SignomialDisplay.from_estimator(_fit(BINARY, X), X, target="no")
    assert_allclose(a.data.mean, b.data.mean)
    kw = {"kind": "attribution", "row": 3}
    a = SignomialDisplay.from_estimator(flat, X, **kw)
    b = SignomialDisplay.from_estimator(_fit(BINARY, X), X, **kw)
    assert_allclose(a.data.contributions, b.data.contributions)


@pytest.mark.parametrize("kind", ["importance", "attribution"])
@pytest.mark.parametrize("max_bars", [1, 2, 3, 10])
def test_small_ones_are_summed(kind, max_bars, X):
    model = _fit(REGRESSOR, X)
    full = SignomialDisplay.from_estimator(model, X, **GIVEN[kind])
    few = SignomialDisplay.from_estimator(model, X, max_bars=max_bars, **GIVEN[kind])
    assert len(few.labels_) == min(max_bars, 4)
    widths = [bar.get_width() for bar in full.bars_]
    drawn = [bar.get_width() for bar in few.bars_]
    assert_allclose(np.sum(drawn), np.sum(widths))
    if max_bars < 4:
        assert few.labels_[-1] == f"sum of {5 - max_bars} others"
        assert few.labels_[:-1] == full.labels_[: max_bars - 1]
        assert_allclose(drawn[:-1], widths[: max_bars - 1])
    else:
        assert few.labels_ == full.labels_


# -- attribution -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "target"),
    [
        (BINARY, None),
        (BINARY, "no"),
        (THREE, 0),
        (THREE, 2),
        (REGRESSOR, None),
    ],
)
@pytest.mark.parametrize("row", [0, 17, -1])
def test_waterfall(law, target, row, X):
    model = _fit(law, X)
    base = np.array([2.0, 1.5, 3.0, 1.0])
    display = SignomialDisplay.from_estimator(
        model, X, kind="attribution", row=row, target=target, baseline=base
    )

    def score(x):
        values = np.ravel(model.decision_function(x[None]))
        sign = -1 if target == "no" else 1
        return sign * values[target if law is THREE else 0]

    edges = _edges(display)
    lines = [line for line in display.ax_.lines if line is not display.threshold_line_]
    assert_array_equal(lines[-1].get_xdata(), 2 * [score(X[row])])  # exactly
    assert edges[-1][1] == pytest.approx(score(X[row]), rel=1e-14)
    assert edges[0][0] == pytest.approx(score(base), rel=1e-10)
    for (_, end), (start, _) in pairwise(edges):
        assert end == pytest.approx(start, abs=1e-12)
    # each bar is what the quadrature gives for its feature, the largest first
    phi = model.attribute(X[[row]], baseline=base, kind="path")[0]
    phi = (-1 if target == "no" else 1) * phi[target if law is THREE else 0]
    places = [int(label[1]) for label in display.labels_]
    widths = np.array([bar.get_width() for bar in display.bars_])
    assert_allclose(widths, phi[places], rtol=1e-8, atol=1e-12)
    assert (np.diff(np.abs(widths)) <= 1e-12).all()
    assert set(places) == set(np.flatnonzero(phi))
    for colour, width in zip(_colours(display), widths, strict=True):
        assert colour == (BLUE if width > 0 else VERMILLION)
    for label, j in zip(display.labels_, places, strict=True):
        assert float(label.split(" = ")[1]) == pytest.approx(X[row, j], rel=5e-3)


def test_waterfall_threshold(X):
    """Two classes change at the score 0; nothing else has a threshold."""
    kw = {"kind": "attribution", "row": 0}
    line = SignomialDisplay.from_estimator(_fit(BINARY, X), X, **kw).threshold_line_
    assert_array_equal(line.get_xdata(), [0, 0])
    for model in (_fit(THREE, X), _fit(REGRESSOR, X)):
        target = None if model.classes is None else 1
        display = SignomialDisplay.from_estimator(model, X, target=target, **kw)
        assert display.threshold_line_ is None


def test_the_baseline_itself(X):
    model = _fit(BINARY, X)
    display = SignomialDisplay.from_estimator(
        model, X[:1], kind="attribution", baseline=X[0]
    )
    assert display.labels_ == []
    assert display.data.base == display.data.score


# -- response --------------------------------------------------------------------------


@pytest.mark.parametrize("feature", [1, "x1", np.int64(1)])
@pytest.mark.parametrize("row", [None, 7])
def test_response(feature, row, X):
    model = _fit(BINARY, X)
    display = SignomialDisplay.from_estimator(
        model, X, kind="response", feature=feature, row=row, n_points=50
    )
    grid, drawn = display.line_.get_data()
    assert_allclose(grid, np.linspace(X[:, 1].min(), X[:, 1].max(), 50))
    rows = np.tile(np.median(X, axis=0) if row is None else X[row], (50, 1))
    rows[:, 1] = grid
    assert_array_equal(drawn, model.predict_proba(rows)[:, 1])
    assert_array_equal(display.threshold_line_.get_ydata(), [0.5, 0.5])
    assert display.ax_.get_xlabel() == "x1"
    assert display.ax_.get_ylabel() == "probability of yes"
    chosen = model.predict(rows) == "yes"
    assert 0 < chosen.sum() < 50
    assert_array_equal(display.data.chosen, chosen)
    assert_array_equal(chosen, drawn > 0.5)
    points = [line for line in display.ax_.lines if line.get_marker() == "o"]
    if row is None:
        assert points == []
    else:
        expected = [X[row, 1]], [model.predict_proba(X[[row]])[0, 1]]
        assert_array_equal(points[0].get_data(), expected)


@pytest.mark.parametrize(
    ("method", "target", "threshold"),
    [
        ("decision_function", "yes", 0),
        ("decision_function", "no", 0),
        ("auto", "no", 0.5),
    ],
)
def test_response_of_a_class(method, target, threshold, X):
    model = _fit(BINARY, X)
    display = SignomialDisplay.from_estimator(
        model, X, kind="response", feature=0, target=target, response_method=method
    )
    rows = np.tile(np.median(X, axis=0), (200, 1))
    rows[:, 0] = display.line_.get_xdata()
    if method == "auto":
        expected = model.predict_proba(rows)[:, int(target == "yes")]
    else:
        expected = (1 if target == "yes" else -1) * model.decision_function(rows)
    assert_array_equal(display.line_.get_ydata(), expected)
    assert display.threshold_line_.get_ydata()[0] == threshold
    assert_array_equal(display.data.chosen, expected > threshold)


def test_response_of_three_classes_and_of_a_regressor(X):
    kw = {"kind": "response", "feature": 0}
    model = _fit(THREE, X)
    display = SignomialDisplay.from_estimator(model, X, target=0, **kw)
    rows = np.tile(np.median(X, axis=0), (200, 1))
    rows[:, 0] = display.line_.get_xdata()
    assert_array_equal(display.line_.get_ydata(), model.predict_proba(rows)[:, 0])
    assert display.threshold_line_ is None
    assert_array_equal(display.data.chosen, model.predict(rows) == 0)
    score = SignomialDisplay.from_estimator(
        model, X, target=0, response_method="decision_function", **kw
    )
    assert_array_equal(score.line_.get_ydata(), model.decision_function(rows)[:, 0])

    model = _fit(REGRESSOR, X)
    display = SignomialDisplay.from_estimator(model, X, **kw)
    assert_array_equal(display.line_.get_ydata(), model.predict(rows))
    assert display.threshold_line_ is None
    assert display.data.chosen is None
    assert display.ax_.get_ylabel() == "prediction"


def test_a_model_without_log_gradients_has_responses(X):
    """A peer can be drawn beside the signomial."""
    y = BINARY.fit(X).predict(X)
    model = LogisticRegression().fit(X, y)
    display = SignomialDisplay.from_estimator(model, X, kind="response", feature=2)
    assert display.data.output[0] != display.data.output[-1]


# -- frames, pipelines, searches -------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("kind", ["importance", "attribution", "response"])
def test_frames(library, kind, X, recwarn):
    frames = pytest.importorskip(library)
    columns = ["a", "b", "c", "d"]
    table = frames.DataFrame(dict(zip(columns, X.T, strict=True)))
    y = BINARY.fit(X).predict(X)
    kw = GIVEN[kind] | ({"feature": "b"} if kind == "response" else {})
    display = SignomialDisplay.from_estimator(_fit(BINARY, table), table, **kw)
    plain = SignomialDisplay.from_estimator(
        _fit(BINARY, X), X, feature_names=columns, **kw
    )
    assert display.labels_ == plain.labels_
    _assert_same(display.data, plain.data)
    # An estimator that checks names is given them.
    if kind == "response":
        model = LogisticRegression().fit(table, y)
        SignomialDisplay.from_estimator(model, table, **kw)
    assert not [w for w in recwarn if "feature names" in str(w.message)]


@pytest.mark.parametrize("kind", ["importance", "attribution", "response"])
def test_pipelines_and_searches(kind, X):
    """The last step's features, as it sees them."""
    kw = GIVEN[kind]
    law = Law(BINARY.coef, BINARY.exponents, BINARY.classes)
    y = _fit(BINARY, np.sqrt(X)).predict(np.sqrt(X))
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), law).fit(X, y)
    expected = SignomialDisplay.from_estimator(
        _fit(BINARY, np.sqrt(X)), np.sqrt(X), **kw
    )
    search = GridSearchCV(pipeline, {"law__coef": [BINARY.coef]}, scoring="accuracy")
    for model in (pipeline, search.fit(X, y), make_pipeline(search).fit(X, y)):
        display = SignomialDisplay.from_estimator(model, X, **kw)
        assert display.name == "Law"
        _assert_same(display.data, expected.data)


@pytest.mark.parametrize("kind", ["importance", "attribution", "response"])
def test_names_come_through_pipelines(kind):
    """Fitted with a frame, whatever the steps before make of it."""
    pytest.importorskip("pandas")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, 20:26]
    names = list(X.columns)
    kw = GIVEN[kind] | ({"feature": names[1]} if kind == "response" else {})
    law = ECSELClassifier(l1=1e-3)
    plain = make_pipeline(StandardScaler(), law).fit(X, y)
    data = SignomialDisplay.from_estimator(plain, X, **kw).data
    assert data.name == names[1] if kind == "response" else data.names == names
    search = GridSearchCV(law, {"l1": [1e-3]}, cv=2)
    nested = make_pipeline(StandardScaler(), make_pipeline(MinMaxScaler(), search))
    data = SignomialDisplay.from_estimator(nested.fit(X, y), X, **kw).data
    assert data.name == names[1] if kind == "response" else data.names == names
    if kind == "response":
        return
    columns = ColumnTransformer([("a", StandardScaler(), names[3:])])
    some = make_pipeline(columns, law).fit(X, y)
    data = SignomialDisplay.from_estimator(some, X, **kw).data
    assert data.names == [f"a__{name}" for name in names[3:]]


def test_names_in_messages_are_cut_visibly():
    X, y = load_breast_cancer(return_X_y=True)
    model = ECSELClassifier().fit(X, y)
    kw = {"kind": "response", "feature": "age"}
    with pytest.raises(ValueError, match=r"x0, x1, .*x9, \.\.\.\."):
        SignomialDisplay.from_estimator(model, X, **kw)
    with pytest.raises(ValueError, match=r"none of the features x0, x1, x2, x3\."):
        X = X[:, :4]
        SignomialDisplay.from_estimator(ECSELClassifier().fit(X, y), X, **kw)


def test_feature_names_are_a_list(X):
    for wrong in ("abcd", {"a", "b", "c", "d"}):
        with pytest.raises(TypeError, match="feature_names must be a list of names"):
            SignomialDisplay.from_estimator(_fit(BINARY, X), X, feature_names=wrong)


# -- what is on the axes ---------------------------------------------------------------


@pytest.mark.parametrize("row", [4, 0, 19, 100])
def test_numbers_of_bars_lie_within_the_axes(row):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    figure, axes = plt.subplots(1, 3, figsize=(18, 5), layout="constrained")
    display = SignomialDisplay.from_estimator(
        ECSELClassifier().fit(X, y), X, kind="attribution", row=row, ax=axes[1]
    )
    figure.canvas.draw()
    box = display.ax_.get_window_extent()
    assert len(display.ax_.texts) == len(display.labels_) > 5
    for text in display.ax_.texts:
        own = text.get_window_extent()
        assert box.x0 <= own.x0 and own.x1 <= box.x1, text.get_text()


def test_a_model_without_features_says_so(X):
    model = ECSELClassifier(l1=1e3).fit(X, X[:, 0] > 2)
    display = SignomialDisplay.from_estimator(model, X)
    assert [t.get_text() for t in display.ax_.texts] == [
        "no feature is in the formula:\nthe score is constant"
    ]
    assert display.ax_.get_ylabel() == "none of 4 features"
    display = SignomialDisplay.from_estimator(model, X, kind="attribution", row=0)
    assert "no feature contributes" in display.ax_.texts[0].get_text()
    assert display.ax_.get_ylabel() == "none of 4 features"


# -- arguments -------------------------------------------------------------------------


def test_arguments_reach_the_plot(X):
    model = _fit(BINARY, X)
    axes = plt.subplots(1, 3)[1]
    bars = SignomialDisplay.from_estimator(
        model, X, ax=axes[0], name="Mine", bar_kw={"height": 0.3}
    )
    assert bars.ax_ is axes[0]
    assert bars.figure_ is axes[0].figure
    assert bars.bars_[0].get_height() == pytest.approx(0.3)
    assert bars.ax_.get_legend().get_title().get_text() == "Mine"
    fall = SignomialDisplay.from_estimator(
        model,
        X,
        kind="attribution",
        row=0,
        ax=axes[1],
        threshold_kw={"color": "red"},
        bar_kw={"height": 0.3},
    )
    assert fall.threshold_line_.get_color() == "red"
    assert fall.bars_[0].get_height() == pytest.approx(0.3)
    assert axes[1].get_title().startswith("Law\nscore of yes: ")
    curve = SignomialDisplay.from_estimator(
        model,
        X,
        kind="response",
        feature=0,
        ax=axes[2],
        line_kw={"linestyle": ":"},
        threshold_kw={"label": "limit"},
        n_points=7,
    )
    assert curve.line_.get_linestyle() == ":"
    assert len(curve.line_.get_xdata()) == 7
    assert "limit" in [t.get_text() for t in axes[2].get_legend().get_texts()]
    for display in (bars, fall, curve):
        first = display.ax_
        assert display.plot(name="Again", max_bars=1) is display
        assert display.ax_ is not first


@pytest.mark.parametrize(
    ("kw", "match"),
    [
        ({"kind": "shap"}, "kind must be one of 'importance', 'attribution'"),
        ({"kind": "attribution"}, "explains one row and X has 60"),
        ({"kind": "attribution", "row": 60}, "row=60 must be the number of one of"),
        ({"kind": "attribution", "row": "first"}, "row='first' must be the number"),
        ({"row": 3}, "row=3 has no meaning for kind='importance'"),
        ({"feature": 0}, "feature=0 is moved by kind='response'; kind='importance'"),
        (
            {"kind": "attribution", "row": 0, "feature": 0},
            "feature=0 is moved by kind='response'; kind='attribution'",
        ),
        ({"kind": "response", "feature": -1}, "feature=-1 must be a name"),
        ({"kind": "response", "feature": True}, "feature=True must be a name"),
        ({"feature_names": ["a", "b", "a", "c"]}, "'a' comes more than once"),
        ({"kind": "response"}, "moves one feature. Choose it with feature="),
        ({"kind": "response", "feature": "x9"}, "'x9' is none of the features x0, x1"),
        ({"kind": "response", "feature": 4}, "feature=4 must be a name"),
        ({"kind": "response", "feature": 1.0}, "feature=1.0 must be a name"),
        ({"response_method": "score"}, "response_method must be one of 'auto'"),
        (
            {"kind": "response", "feature": 0, "response_method": "predict"},
            "'predict' does not fit Law",
        ),
        ({"target": "maybe"}, "target='maybe' is none of the classes 'no', 'yes'"),
        ({"n_points": 1}, "n_points must be an integer from 2"),
        ({"max_bars": 0}, "max_bars must be an integer from 1"),
        ({"feature_names": ["a"]}, "feature_names has 1 names, but X has 4"),
    ],
)
def test_bad_arguments(kw, match, X):
    with pytest.raises(ValueError, match=match):
        SignomialDisplay.from_estimator(_fit(BINARY, X), X, **kw)


def test_bad_models_and_tables(X):
    y = BINARY.fit(X).predict(X)
    other = LogisticRegression().fit(X, y)
    with pytest.raises(TypeError, match=r"LogisticRegression has no log_gradient\(\)"):
        SignomialDisplay.from_estimator(other, X)
    with pytest.raises(TypeError, match=r"LogisticRegression has no attribute\(\)"):
        SignomialDisplay.from_estimator(other, X, kind="attribution", row=0)
    kw = {"kind": "response", "feature": 0}
    with pytest.raises(ValueError, match=r"predict_proba.* does not fit LinearReg"):
        SignomialDisplay.from_estimator(
            LinearRegression().fit(X, X[:, 0]), X, response_method="predict_proba", **kw
        )
    with pytest.raises(NotFittedError):
        SignomialDisplay.from_estimator(Law([[1.0]], [[[1.0]]]), X)
    with pytest.raises(ValueError, match=r"one score per class\. Choose a class"):
        SignomialDisplay.from_estimator(_fit(THREE, X), X)
    with pytest.raises(ValueError, match="Law has no classes"):
        SignomialDisplay.from_estimator(_fit(REGRESSOR, X), X, target=1)
    with pytest.raises(ValueError, match="X must be a table"):
        SignomialDisplay.from_estimator(_fit(BINARY, X), X[0])
    with pytest.raises(ValueError, match=r"Feature x0 is .* in all rows"):
        SignomialDisplay.from_estimator(_fit(BINARY, X), X[:1], **kw)
    with pytest.raises(TypeError, match="ax must be one matplotlib Axes"):
        SignomialDisplay.from_estimator(_fit(BINARY, X), X, ax=np.array([1]))


def test_the_callers_rows_stay(X):
    before = X.copy()
    for kind in ("importance", "attribution", "response"):
        SignomialDisplay.from_estimator(_fit(BINARY, X), X, **GIVEN[kind])
    assert_array_equal(X, before)


# -- the estimators that it is for -----------------------------------------------------


@pytest.fixture(scope="module", params=["two", "three"])
def fitted(request):
    """(model, rows, target, the column of the target's score)"""
    load = load_breast_cancer if request.param == "two" else load_iris
    X, y = load(return_X_y=True, as_frame=True)
    model = ECSELClassifier().fit(X, y)
    return model, X, *((None, 0) if request.param == "two" else (2, 2))


def test_ecsel_importance(fitted):
    """Over the training rows they are the attribute importances_."""
    model, X, target, column = fitted
    display = SignomialDisplay.from_estimator(model, X, target=target, max_bars=99)
    names = list(X.columns)
    expected = np.abs(model.log_gradient(X))[:, column].mean(axis=0)
    assert_allclose(model.importances_[column], expected)
    for label, bar in zip(display.labels_, display.bars_, strict=True):
        assert bar.get_width() == pytest.approx(expected[names.index(label)])
    assert len(display.labels_) == np.count_nonzero(expected)


@pytest.mark.parametrize("row", [0, 100])
def test_ecsel_waterfall(fitted, row):
    model, X, target, column = fitted
    display = SignomialDisplay.from_estimator(
        model, X, kind="attribution", row=row, target=target, max_bars=4
    )
    scores = model.decision_function(X.iloc[[row]]).reshape(1, -1)
    lines = [line for line in display.ax_.lines if line is not display.threshold_line_]
    assert lines[-1].get_xdata()[0] == scores[0, column]
    base = X.iloc[[0]].copy()
    base.iloc[0] = model.baseline_
    start = model.decision_function(base).reshape(1, -1)[0, column]
    assert _edges(display)[0][0] == pytest.approx(start, abs=1e-9)


def test_ecsel_response(fitted):
    model, X, target, column = fitted
    name = X.columns[np.argmax(model.importances_[column])]
    display = SignomialDisplay.from_estimator(
        model, X, kind="response", row=3, feature=name, target=target
    )
    rows = X.iloc[[3] * 200].copy()
    rows[name] = display.line_.get_xdata()
    expected = model.predict_proba(rows)[:, 1 if target is None else target]
    assert_allclose(display.line_.get_ydata(), expected, rtol=1e-12)
    assert np.ptp(np.log(expected)) > 1
