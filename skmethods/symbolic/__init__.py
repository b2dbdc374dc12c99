"""Symbolic models: signomial laws and classifiers, and how sane a formula is."""

from ._classifier import ECSELClassifier
from ._eic import EICResult, effective_information
from ._filter import filter_formulas, random_formulas
from ._regressor import ECSELRegressor
from ._scorer import EICScorer
from ._search import EICSymbolicRegressor
from ._selected import EICSelectedRegressor

__all__ = [
    "ECSELClassifier",
    "ECSELRegressor",
    "EICResult",
    "EICScorer",
    "EICSelectedRegressor",
    "EICSymbolicRegressor",
    "effective_information",
    "filter_formulas",
    "random_formulas",
]
