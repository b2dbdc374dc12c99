"""
==========================
EIC: is this formula sane?
==========================

Two formulas that are equal on paper need not be equal in a computer.
:func:`~skmethods.effective_information` says how many decimal digits a formula loses to
rounding and where; no target is needed. Among formulas that fit equally well, the one
that cancels large terms against each other is seldom the law.
"""

# %%
# Two ways to solve an equation
# -----------------------------
# A root of z² + b z + c = 0, for b much larger than c. The textbook's formula subtracts
# two numbers that are nearly equal; the rewritten one does not.

import matplotlib.pyplot as plt
import numpy as np

from skmethods import (
    ECSELRegressor,
    EICSelectedRegressor,
    effective_information,
    make_physical_law,
)

b = np.logspace(0.5, 5, 40)
textbook = "(-b + sqrt(b**2 - 4*c))/2"
rewritten = "-2*c/(b + sqrt(b**2 - 4*c))"
rows = np.c_[b, np.ones_like(b)]
print(
    effective_information(
        textbook, rows, feature_names=["b", "c"], return_details=True
    ).report()
)

# %%
# The prediction of the criterion beside what single precision really does. A rounding
# error is random and can be small by luck; the prediction is its typical size.

unit = np.finfo(np.float32).eps / 2
formulas = {
    textbook: lambda b, c: (-b + np.sqrt(b**2 - 4 * c)) / 2,
    rewritten: lambda b, c: -2 * c / (b + np.sqrt(b**2 - 4 * c)),
}
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (text, function), colour in zip(
    formulas.items(), ("#D55E00", "#0072B2"), strict=True
):
    digits = [
        effective_information(text, row[None], feature_names=["b", "c"]) for row in rows
    ]
    ax.plot(b, unit * 10.0 ** np.array(digits), color=colour, label=text)
    single = function(b.astype(np.float32), np.float32(1))
    double = formulas[rewritten](b, 1.0)
    ax.plot(b, np.abs(single / double - 1), "o", color=colour, markersize=4)
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_xlabel("b")
ax.set_ylabel("relative error: predicted (lines), float32 (points)")
ax.legend()

# %%
# Formulas that a machine found
# -----------------------------
# The normal density is no sum of power laws. A search for such sums offers better and
# better fits, and the best one subtracts two large terms: it has found a way to write a
# derivative. The criterion sees that without knowing the law.

law = make_physical_law("gaussian", 300, noise=0.01, random_state=0)
search = EICSelectedRegressor(estimator=ECSELRegressor(random_state=0), random_state=0)
search.fit(law.data, law.target)
error = np.sqrt([candidate.mse for candidate in search.candidates_])
digits = np.array([candidate.eic for candidate in search.candidates_])
human = effective_information(
    law.formula, law.data, feature_names=law.feature_names, aggregate="logmean"
)
for candidate in search.candidates_:
    print(f"{candidate.eic:5.2f} digits, RMSE {candidate.mse**0.5:.4f}")
print(f"{human:5.2f} digits: {law.formula}")

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.plot(error, digits, "o", color="#0072B2", label="candidates of the search")
ax.axhline(human, color="black", linestyle="--", label="the law itself")
ax.set_xscale("log")
ax.set_xlabel("error on the training rows (RMSE)")
ax.set_ylabel("decimal digits lost")
ax.legend()

# %%
# Here no other candidate fits as well as that one, so it is chosen all the same: the
# criterion decides among formulas whose fit is as good in the light of the data
# (``delta_bic``). But it tells that this is not the law.

chosen = search.candidates_[search.best_index_]
print(f"chosen: {chosen.eic:.2f} digits, {search.formula(law.feature_names)}")

plt.show()
