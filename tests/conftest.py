"""Settings of every test process and of the children that tests start."""

import os

# Before anything imports torch: two workers on two cores, and small tensors, are
# fastest with one thread each. Children inherit the environment.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest

# Failing asserts in the shared checks show their values, as those in tests do.
pytest.register_assert_rewrite(
    "tests._checks_callbacks",
    "tests._checks_compose",
    "tests._checks_input",
    "tests._checks_parameters",
    "tests._checks_state",
    "tests._faults",
    "tests._observe",
)


def pytest_collection_modifyitems(items):
    """Tests marked ``gpu`` are skipped where CUDA cannot be used."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
