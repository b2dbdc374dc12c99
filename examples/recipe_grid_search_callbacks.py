"""
======================================================
Recipe: grid search with a progress bar and early stop
======================================================

Every estimator of this library reports its iterations to scikit-learn's callbacks, also
inside a Pipeline inside GridSearchCV. So a progress bar can show the whole search, and
a callback of your own can end each fit early.
"""

# %%
# A callback that ends a fit
# --------------------------
# A callback is any class with these four methods. Set on an estimator it is called for
# each of its tasks: here the whole fit, and every epoch. It asks for what it needs by
# keyword. ``fitted_estimator`` is a copy of the estimator that can predict as of now;
# it is made only for callbacks that ask for it. When ``on_fit_task_end`` returns True
# at the end of an epoch, training ends.

import time

from sklearn.callback import ProgressBar
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skmethods import LESAMClassifier


class StopAtAccuracy:
    """End a fit when the training accuracy has reached a target."""

    def __init__(self, target):
        self.target = target

    def setup(self, estimator, context):
        """The fit begins."""

    def teardown(self, estimator, context):
        """The fit is over, whether it succeeded or not."""

    def on_fit_task_begin(self, estimator, context):
        """A task begins."""

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        """A task ends; True asks to leave the loop that it belongs to."""
        if context.task_name != "epoch":
            return False
        return fitted_estimator.score(X, y) >= self.target


# %%
# The search
# ----------
# ``set_callbacks`` survives ``clone``, so the callback of the net is there in each of
# the search's fits. The progress bar is set on the search and finds its way inwards.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=400, stratify=y, random_state=0
)
net = LESAMClassifier(
    hidden_layer_sizes=(64,), max_iter=40, standardize=False, random_state=0
)
grid = {
    "lesamclassifier__sigma": [0.0, 0.1],
    "lesamclassifier__learning_rate": [0.05, 0.1],
}

for title, callbacks in {
    "to the end": [],
    "until 99 % training accuracy": [StopAtAccuracy(0.99)],
}.items():
    net.set_callbacks(*callbacks)
    search = GridSearchCV(make_pipeline(MinMaxScaler(), net), grid, cv=2)
    search.set_callbacks(ProgressBar(max_propagation_depth=1))
    start = time.perf_counter()
    search.fit(X_train, y_train)
    best = search.best_estimator_[-1]
    print(f"{title}: {time.perf_counter() - start:.1f} s, best {search.best_params_}")
    print(f"    {best.n_iter_} epochs, accuracy {search.score(X_test, y_test):.3f}")

# %%
# The progress bar needs the package rich (``pip install "skmethods[progress]"``). With
# ``max_propagation_depth=None`` it goes down to the epochs of every fit.
#
# ``early_stopping=True`` of the estimator itself stops on held-out rows, and keeps the
# weights of the best epoch; a callback is for rules that it does not know.
