"""Symbolic models: signomial laws and classifiers, and how sane a formula is."""

__all__ = []
