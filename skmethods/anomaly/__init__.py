"""Anomaly detection."""

from ._dvm import DVMAnomalyDetector

__all__ = ["DVMAnomalyDetector"]
