"""Sharpness-aware training: LE-SAM beside scikit-learn's MLPClassifier."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skmethods import LESAMClassifier, make_noisy_labels

from ._row import Result, Row


def lesam(quick, device):
    """Accuracy on clean test rows after training on 40 % wrong labels."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=500, stratify=y, random_state=0
    )
    y_train = make_noisy_labels(y_train, noise_rate=0.4, random_state=0)[0]
    net = {"hidden_layer_sizes": (128, 128), "random_state": 0}
    # Pixels share one unit: scaled to [0, 1] for both, not standardised one by one.
    ours = make_pipeline(
        MinMaxScaler(),
        LESAMClassifier(
            **net, standardize=False, max_iter=20 if quick else 80, device=device
        ),
    )
    peer = make_pipeline(MinMaxScaler(), MLPClassifier(**net, max_iter=200))
    return Result(
        ours.fit(X_train, y_train).score(X_test, y_test),
        peer.fit(X_train, y_train).score(X_test, y_test),
    )


ROWS = [
    Row(
        method="LE-SAM",
        task="train under label noise",
        data="digits, 40 % labels wrong",
        metric="accuracy",
        peer="MLPClassifier",
        run=lesam,
    )
]
