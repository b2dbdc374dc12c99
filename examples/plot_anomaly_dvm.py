"""
==============================================
DVM-AD: the distance to a skeleton of the data
==============================================

Nearest-neighbour anomaly detection asks how far a row is from the nearest training row.
Where training rows are sparse, normal rows that fall between two of them look odd.
:class:`~skmethods.DVMAnomalyDetector` joins neighbouring rows by edges and asks how far
a row is from the nearest point of that skeleton.

The first picture shows what this does on a curve in the plane. The second shows the
scores on a real table, with the threshold that the detector chose.
"""

# %%
# A sparsely sampled curve
# ------------------------
# The normal rows lie along a spiral, 90 of them. Test rows come from the same spiral,
# anomalies from the square around it, at least 0.35 away from the curve.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from skmethods import DVMAnomalyDetector, ScoreDistributionDisplay

rng = np.random.RandomState(0)


def spiral(n, noise=0.06):
    """Rows along a spiral of two turns, evenly by arc length."""
    angle = 4.2 * np.pi * np.sqrt(rng.uniform(0.02, 1, n))
    curve = angle[:, None] * np.c_[np.cos(angle), np.sin(angle)] / 4
    return curve + noise * rng.standard_normal((n, 2))


X_train, X_normal = spiral(90), spiral(1000)
X_anomaly = rng.uniform(-4, 4, (4000, 2))
curve = NearestNeighbors(n_neighbors=1).fit(spiral(20_000, noise=0))
X_anomaly = X_anomaly[curve.kneighbors(X_anomaly)[0][:, 0] > 0.35][:1000]
X_test = np.vstack([X_normal, X_anomaly])
is_anomaly = np.repeat([0, 1], [len(X_normal), len(X_anomaly)])

# %%
# Three detectors with the same rule for the threshold: 5 % of the training rows are
# beyond it. Without edges and with one metric, DVM-AD is plain nearest-neighbour
# distance on standardised columns. Blue is normal, and the black line is the threshold.

detectors = {
    "DVM-AD": DVMAnomalyDetector(contamination=0.05),
    "nearest neighbour": DVMAnomalyDetector(
        contamination=0.05, metric_blocks="structure", edge_penalty=0
    ),
    "isolation forest": IsolationForest(contamination=0.05, random_state=0),
}
first, second = np.meshgrid(*2 * [np.linspace(-4.2, 4.2, 161)])
grid = np.c_[first.ravel(), second.ravel()]
figure, axes = plt.subplots(
    1, 3, figsize=(12, 4.6), sharex=True, sharey=True, layout="constrained"
)
for ax, (name, detector) in zip(axes, detectors.items(), strict=True):
    detector.fit(X_train)
    surface = detector.decision_function(grid).reshape(first.shape)
    # The same colours for scores of different units: ranks among the grid's points.
    ranks = surface.ravel().argsort().argsort().reshape(first.shape) / surface.size
    ax.contourf(first, second, ranks, levels=12, cmap="Blues")
    ax.contour(first, second, surface, levels=[0], colors="black")
    ax.scatter(*X_train.T, s=9, c="#D55E00", label="training rows")
    auroc = roc_auc_score(is_anomaly, -detector.score_samples(X_test))
    false_alarms = np.mean(detector.predict(X_normal) == -1)
    missed = np.mean(detector.predict(X_anomaly) == 1)
    ax.set_title(
        f"{name}\nAUROC {auroc:.3f}, false alarms {false_alarms:.0%}, "
        f"missed {missed:.0%}",
        fontsize=11,
    )
    ax.set_aspect("equal")
    ax.set_xlabel("first feature")
axes[0].set_ylabel("second feature")
axes[0].legend(loc="lower left")

# %%
# The skeleton follows the curve where the discs of the nearest-neighbour rule leave
# gaps. Some edges cut across a bend, visible as darker fields between the arms; the
# penalty on long edges keeps them beyond the threshold. The forest, which splits along
# the axes, does not see the curve.
#
# A real table
# ------------
# The Wisconsin breast cancer data: the detectors learn from benign cases only, and
# score held-out benign cases and all malignant ones. The bars left of the dashed line
# are the rows that are flagged. The malignant cases lie apart in many columns, so here
# the forest does as well.

X, y = load_breast_cancer(return_X_y=True)
benign, malignant = X[y == 1], X[y == 0]
X_train, X_held = train_test_split(benign, test_size=0.3, random_state=0)
X_test = np.vstack([X_held, malignant])
is_anomaly = np.repeat([0, 1], [len(X_held), len(malignant)])

figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
for ax, name in zip(axes, ("DVM-AD", "isolation forest"), strict=True):
    detector = detectors[name].fit(X_train)
    auroc = roc_auc_score(is_anomaly, -detector.score_samples(X_test))
    ScoreDistributionDisplay.from_estimator(
        detector,
        X_test,
        X_train=X_train,
        y=is_anomaly,
        name=f"{name}, AUROC {auroc:.3f}",
        ax=ax,
    )

plt.show()
