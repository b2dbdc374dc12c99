"""
======================================
LE-SAM: training when labels are wrong
======================================

A network that is trained for long enough learns wrong labels by heart. LE-SAM looks for
flat minima: it takes the gradient not where the weights are, but where the loss has, to
first order, risen by a fixed budget. Here it trains the same network as plain SGD, on
handwritten digits of which 40 % carry a wrong label.
"""

# %%
# Wrong labels
# ------------
# :func:`~skmethods.make_noisy_labels` replaces an exact number of labels and says
# which. The labels of the test rows stay right.

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skmethods import LESAMClassifier, LossCurveDisplay, make_noisy_labels

X, y = load_digits(return_X_y=True)
X = X / 16  # grey values from 0 to 1
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=500, stratify=y, random_state=0
)
y_noisy, flipped = make_noisy_labels(y_train, 0.4, random_state=0)
print(f"{flipped.sum()} of {len(flipped)} training labels are wrong")

# %%
# The course of one fit
# ---------------------
# With ``sigma=0`` there is no perturbation, and :class:`~skmethods.LESAMClassifier` is
# its base optimiser, SGD with momentum. The grey line is the loss of an oracle that
# knows the right labels and the noise rate: whoever is below it has learnt wrong labels
# by heart. The dotted line is the length of LE-SAM's perturbation: it is chosen anew in
# every step, never above ``rho_max=0.3``, and decays with the budget at the end.

budgets = {"SGD": 0.0, "LE-SAM": 0.1}
colours = ["#0072B2", "#D55E00"]


@cache  # the second picture uses the fits of the first again
def fit(sigma, max_iter, seed, standardize):
    """The network of this example."""
    net = LESAMClassifier(
        hidden_layer_sizes=(128, 128),
        sigma=sigma,
        max_iter=max_iter,
        standardize=standardize,
        random_state=seed,
    )
    return net.fit(X_train, y_noisy)


figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
for name, sigma in budgets.items():
    net = fit(sigma, max_iter=80, seed=0, standardize=False)
    LossCurveDisplay.from_estimator(net, name=name, ax=axes[0])
    learnt = np.mean(net.predict(X_train[flipped]) == y_noisy[flipped])
    print(f"{name} has learnt {learnt:.0%} of the wrong labels by heart")

oracle = -0.6 * np.log(0.6) - 0.4 * np.log(0.4 / 9)
axes[0].axhline(oracle, color="grey", linewidth=0.8)
axes[0].text(80, oracle + 0.01, "oracle", color="grey", ha="right")

# %%
# Accuracy against the length of training
# ---------------------------------------
# Every point is a training run of its own, since the learning rate decays over the
# whole run. Two seeds each, as small dots; the lines join their means.
#
# LE-SAM is slower: it follows the gradient of a perturbed loss. SGD is at its best
# early and then loses what it had won, while LE-SAM still gains. So it spares you from
# finding the right moment to stop, which under label noise takes clean validation
# labels; against SGD stopped at the right moment, the gain is small.
#
# The hollow marks are the same networks on *standardised* columns, the default of the
# estimator. Standardising blows up the pixels at the rim that are nearly always empty;
# they tell the training rows apart, and both optimisers learn all wrong labels by
# heart. How the features are scaled matters more here than the optimiser.


def accuracies(sigma, max_iter, standardize=False):
    """Accuracy on the test rows for two seeds."""
    return [
        fit(sigma, max_iter=max_iter, seed=seed, standardize=standardize).score(
            X_test, y_test
        )
        for seed in range(2)
    ]


lengths = [20, 40, 80]
ax = axes[1]
for (name, sigma), colour in zip(budgets.items(), colours, strict=True):
    scores = np.array([accuracies(sigma, max_iter) for max_iter in lengths])
    scaled = np.mean(accuracies(sigma, 80, standardize=True))
    ax.plot(lengths, scores.mean(axis=1), "o-", color=colour, label=name)
    ax.plot(lengths, scores, ".", color=colour, alpha=0.5)
    label = f"{name}, standardised"
    ax.plot([80], [scaled], "s", color=colour, fillstyle="none", label=label)
    print(name, scores.mean(axis=1).round(3), "standardised:", scaled.round(3))
ax.set_xlabel("epochs")
ax.set_ylabel("accuracy on right test labels")
ax.set_xticks(lengths)
ax.legend(frameon=False)

plt.show()
