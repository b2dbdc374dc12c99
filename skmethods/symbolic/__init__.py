"""Symbolic models: signomial laws and classifiers, and how sane a formula is."""

from ._classifier import ECSELClassifier
from ._eic import EICResult, effective_information
from ._filter import filter_formulas, random_formulas

__all__ = [
    "ECSELClassifier",
    "EICResult",
    "effective_information",
    "filter_formulas",
    "random_formulas",
]
