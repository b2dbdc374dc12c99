"""
=====================================
ECSEL: a classifier that one can read
=====================================

:class:`~skmethods.ECSELClassifier` gives each class a score that is a sum of a few
power laws of the features, and most exponents are exactly zero. The model *is* its
explanation: what it looks at, why it scores a row as it does, and what would change the
decision are closed forms.
"""

# %%
# One formula for the diagnosis
# -----------------------------
# The Wisconsin breast cancer data: 30 measurements of cell nuclei. With two classes
# there is one score, the log odds of "malignant". Each feature is mapped to [1, 10]
# first, which is what the parentheses in the formula do.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmethods import ECSELClassifier, SignomialDisplay

cancer = load_breast_cancer(as_frame=True)
X, y = cancer.data, cancer.target_names[cancer.target]
X_train, X_test, y_train, y_test = train_test_split(
    X, y, stratify=y, test_size=0.3, random_state=0
)
model = ECSELClassifier(random_state=0).fit(X_train, y_train)
peer = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
print(model.formula())
print(f"ECSEL    {model.score(X_test, y_test):.3f} on test rows")
print(f"logistic {peer.score(X_test, y_test):.3f}, with {X.shape[1]} weights")

# %%
# What it looks at
# ----------------
# Left: how strongly the score reacts to each feature, on average over the training
# rows. Middle: how the score of one malignant case comes about, from that of an average
# case; it is the case nearest to the threshold. Right: the probability as one
# measurement of that case moves.

malignant = np.flatnonzero(y_test == "malignant")
row = int(malignant[np.abs(model.decision_function(X_test))[malignant].argmin()])
strongest = X.columns[np.argmax(model.importances_[0])]
figure, axes = plt.subplots(1, 3, figsize=(18, 5), layout="constrained")
draw = SignomialDisplay.from_estimator
draw(model, X_train, max_bars=8, ax=axes[0])
draw(model, X_test, kind="attribution", row=row, max_bars=8, ax=axes[1])
draw(model, X_test, kind="response", row=row, feature=strongest, ax=axes[2])

# %%
# How short may it be?
# --------------------
# The penalty on the exponents trades length for accuracy. Of 60 exponents a dozen are
# enough to be as accurate as the logistic regression, up to the noise of
# cross-validation.

penalties = (0.003, 0.01, 0.03, 0.1)
sizes, scores = [], []
for l1 in penalties:
    candidate = ECSELClassifier(l1=l1, random_state=0)
    scores.append(cross_val_score(candidate, X, y, cv=5).mean())
    sizes.append(np.count_nonzero(candidate.fit(X, y).exponents_))
    print(f"l1={l1}: {sizes[-1]} exponents, accuracy {scores[-1]:.3f}")
reference = cross_val_score(peer, X, y, cv=5).mean()

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(sizes, scores, "o-", color="#0072B2", label="ECSEL")
ax.axhline(reference, color="#D55E00", linestyle="--", label="logistic regression")
ax.set_xlabel("exponents that are not zero")
ax.set_ylabel("accuracy in cross-validation")
ax.legend()

plt.show()
