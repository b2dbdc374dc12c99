"""Sharpness-aware optimisation: LE-SAM and the estimators that train with it."""

from .._lazy import lazy_exports

# Lazy, since the optimiser subclasses torch's and torch must not load with a package.
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "LESAM": "_lesam",
        "LESAMBatchNormGuard": "_skorch",
        "LESAMClassifier": "_classifier",
        "LESAMRegressor": "_regressor",
        "LESAMSigmaSchedule": "_skorch",
        "SigmaSchedule": "_schedule",
        "sharpness": "_curvature",
        "top_hessian_eigenvalue": "_curvature",
    },
)
