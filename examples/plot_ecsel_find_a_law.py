"""
=================
ECSEL: find a law
=================

Many laws of physics are sums of power laws. :class:`~skmethods.ECSELRegressor` looks
for such a sum: it is told neither the exponents nor the number of terms. Exponents that
the data cannot tell from a simple fraction become that fraction, which makes the
formula one that holds beyond the measured range.
"""

# %%
# Three terms in noise
# --------------------
# The energy of a body on a spring: six quantities, 300 measurements, and noise of 5 %
# of the typical energy.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from skmethods import ECSELRegressor, list_physical_laws, make_physical_law

law = make_physical_law("mechanical_energy", 300, noise=0.05, random_state=0)
model = ECSELRegressor(random_state=0).fit(law.data, law.target)
print("the law:", law.formula)
print("found:  ", model.formula(law.feature_names))

# %%
# How many terms? The description length weighs bits for the formula against bits for
# the residuals. On the left the best law of each size: the fourth term does not pay.
#
# On the right the prediction as the speed grows far beyond the range of the
# measurements (grey), beside gradient boosting fitted to the same rows. Trees are flat
# where they have seen nothing.

path = model.mdl_path_
sizes = np.unique(path["n_terms"])
lengths = [path["mdl"][path["n_terms"] == size].min() for size in sizes]

trees = HistGradientBoostingRegressor(random_state=0).fit(law.data, law.target)
speed = law.feature_names.index("v")
rows = np.tile(np.median(law.data, axis=0), (200, 1))
rows[:, speed] = np.linspace(0.5, 15, 200)
truth = np.exp(np.log(rows) @ law.exponents.T) @ law.coef

figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
axes[0].plot(sizes, lengths - np.min(lengths), "o-", color="#0072B2")
axes[0].set_xticks(sizes)
axes[0].set_xlabel("terms of the law")
axes[0].set_ylabel("description length, above the best (half nats)")
axes[1].axvspan(*law.ranges[speed], color="#8C8C8C", alpha=0.2, label="measured")
axes[1].plot(rows[:, speed], truth, color="black", linewidth=4, label="the law")
axes[1].plot(rows[:, speed], model.predict(rows), color="#56B4E9", label="ECSEL")
axes[1].plot(rows[:, speed], trees.predict(rows), color="#D55E00", label="boosting")
axes[1].set_xlabel("speed")
axes[1].set_ylabel("energy")
axes[1].legend()

# %%
# How much noise
# --------------
# Twelve laws, each with 300 measurements. A law counts as found if the number of terms
# and all exponents are exactly right.


def found(name, noise):
    """Whether the exponents are those of the law."""
    law = make_physical_law(name, 300, noise=noise, random_state=1)
    model = ECSELRegressor(random_state=0).fit(law.data, law.target)
    exponents = np.asarray(model.exponents_)
    if exponents.shape != law.exponents.shape:
        return False
    order, true_order = np.lexsort(exponents.T), np.lexsort(law.exponents.T)
    return np.allclose(exponents[order], law.exponents[true_order], atol=1e-9)


names = list_physical_laws("signomial")[:12]
levels = (0.01, 0.1, 0.3)
shares = [np.mean([found(name, noise) for name in names]) for noise in levels]
print(dict(zip(levels, np.round(shares, 2).tolist(), strict=True)))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.bar([f"{noise:.0%}" for noise in levels], shares, color="#0072B2")
ax.set_ylim(0, 1)
ax.set_xlabel("noise, relative to the root mean square of the target")
ax.set_ylabel("laws found exactly")

# %%
# What it cannot find
# -------------------
# A law that is no sum of power laws is fitted by one all the same. The fit may be close
# where there are data; the odd exponents say that this is not the law.

law = make_physical_law("lorentz_factor", 300, noise=0.01, random_state=0)
model = ECSELRegressor(random_state=0).fit(law.data, law.target)
print("the law:", law.formula)
print("found:  ", model.formula(law.feature_names))
print(f"R2 {model.score(law.data, law.target):.4f}")

plt.show()
