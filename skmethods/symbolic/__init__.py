"""Symbolic models: signomial laws and classifiers, and how sane a formula is."""

from ._classifier import ECSELClassifier

__all__ = ["ECSELClassifier"]
