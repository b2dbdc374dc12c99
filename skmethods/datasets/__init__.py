"""Data sets: fetchers of public benchmarks and generators with a known truth."""

from ._adbench import fetch_adbench, list_adbench
from ._anomalies import make_anomalies
from ._laws import list_physical_laws, make_physical_law, make_signomial
from ._noise import make_noisy_labels

__all__ = [
    "fetch_adbench",
    "list_adbench",
    "list_physical_laws",
    "make_anomalies",
    "make_noisy_labels",
    "make_physical_law",
    "make_signomial",
]
