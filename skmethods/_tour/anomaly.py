"""Anomaly detection: DVM-AD beside IsolationForest."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skmethods import DVMAnomalyDetector

from ._row import Result, Row


def _one_class_tasks(quick):
    """(normal training rows, test rows, is anomaly): one class is the normal one."""
    normal_classes = (
        (load_breast_cancer, [1]),
        (load_wine, [0, 1, 2]),
        (load_digits, [0, 1] if quick else range(10)),
    )
    for load, classes in normal_classes:
        X, y = load(return_X_y=True)
        for normal in classes:
            inside, outside = X[y == normal], X[y != normal]
            train, held = train_test_split(inside, test_size=0.3, random_state=0)
            test = np.vstack([held, outside])
            yield train, test, np.r_[np.zeros(len(held)), np.ones(len(outside))]


def dvm(quick, device):
    """Mean AUROC over one-class problems made of scikit-learn's bundled tables."""
    ours, peer = [], []
    for train, test, anomaly in _one_class_tasks(quick):
        detector = DVMAnomalyDetector(device=device).fit(train)
        ours.append(roc_auc_score(anomaly, -detector.score_samples(test)))
        forest = IsolationForest(random_state=0).fit(train)
        peer.append(roc_auc_score(anomaly, -forest.score_samples(test)))
    return Result(np.mean(ours), np.mean(peer))


ROWS = [
    Row(
        method="DVM-AD",
        task="find anomalies",
        data="breast cancer, wine, digits",
        metric="AUROC",
        peer="IsolationForest",
        run=dvm,
    )
]
