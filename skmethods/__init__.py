"""Machine-learning methods of 2026 as scikit-learn estimators.

Every public name is imported from its task package when it is first used, so
``import skmethods`` by itself loads neither scikit-learn nor torch.
"""

from ._lazy import lazy_exports

__version__ = "0.1.0"

#: Public name -> the task package that is its documented home.
_PUBLIC = {
    "DVMAnomalyDetector": "anomaly",
    "ECSELClassifier": "symbolic",
    "ECSELRegressor": "symbolic",
    "EICResult": "symbolic",
    "EICScorer": "symbolic",
    "EICSelectedRegressor": "symbolic",
    "EICSymbolicRegressor": "symbolic",
    "LESAM": "optim",
    "LESAMClassifier": "optim",
    "LESAMRegressor": "optim",
    "LossCurveDisplay": "plotting",
    "ScoreDistributionDisplay": "plotting",
    "SigmaSchedule": "optim",
    "SignomialDisplay": "plotting",
    "effective_information": "symbolic",
    "fetch_adbench": "datasets",
    "filter_formulas": "symbolic",
    "list_adbench": "datasets",
    "list_physical_laws": "datasets",
    "make_anomalies": "datasets",
    "make_noisy_labels": "datasets",
    "make_physical_law": "datasets",
    "make_signomial": "datasets",
    "random_formulas": "symbolic",
    "sharpness": "optim",
    "top_hessian_eigenvalue": "optim",
}

__getattr__, __dir__, __all__ = lazy_exports(__name__, _PUBLIC)
