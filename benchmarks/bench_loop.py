"""The shared training loop beside scikit-learn's MLPClassifier and skorch.

    OMP_NUM_THREADS=1 python benchmarks/bench_loop.py

The same network (20-100-2), batch size, number of epochs and kind of optimiser on
20 000 rows of 20 columns; one thread. LESAMClassifier with ``sigma=0`` makes one pass a
step, so what is compared is the loop. Times are seconds of ``fit``, the competitors
taking turns; the ratio is the median of the ratios within a turn.
"""

import statistics
import time
import warnings

import numpy as np
import torch
from bench_lesam import write
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier

from skmethods import LESAMClassifier

EPOCHS, BATCH = 5, 128


def competitors():
    """Name -> an unfitted estimator."""
    common = {"max_iter": EPOCHS, "batch_size": BATCH, "random_state": 0}
    net = torch.nn.Sequential(
        torch.nn.Linear(20, 100), torch.nn.ReLU(), torch.nn.Linear(100, 2)
    )
    ours = common | {"base_optimizer": "adamw", "learning_rate": 1e-3}
    return {
        "MLPClassifier": MLPClassifier(**common, n_iter_no_change=EPOCHS),
        "LESAMClassifier, sigma=0 (one pass)": LESAMClassifier(**ours, sigma=0.0),
        "LESAMClassifier (two passes)": LESAMClassifier(**ours),
        "skorch NeuralNetClassifier": NeuralNetClassifier(
            net,
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.AdamW,
            lr=1e-3,
            max_epochs=EPOCHS,
            batch_size=BATCH,
            iterator_train__shuffle=True,
            train_split=None,
            verbose=0,
        ),
    }


def main(turns=7):
    """Write the table."""
    torch.set_num_threads(1)
    X, y = make_classification(20_000, 20, n_informative=10, random_state=0)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    times = {name: [] for name in competitors()}
    for _ in range(turns):
        for name, estimator in competitors().items():
            start = time.perf_counter()
            estimator.fit(X, y)
            times[name].append(time.perf_counter() - start)
    rows = [
        {
            "estimator": name,
            "seconds": f"{statistics.median(seconds):.2f}",
            "ratio to MLPClassifier": "{:.2f}".format(
                statistics.median(
                    a / b for a, b in zip(seconds, times["MLPClassifier"], strict=True)
                )
            ),
        }
        for name, seconds in times.items()
    ]
    write("training_loop", rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
