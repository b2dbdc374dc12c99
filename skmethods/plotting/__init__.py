"""Plots, after the pattern of scikit-learn's displays."""

from ._loss_curve import LossCurveDisplay
from ._score_distribution import ScoreDistributionDisplay
from ._signomial import SignomialDisplay

__all__ = ["LossCurveDisplay", "ScoreDistributionDisplay", "SignomialDisplay"]
