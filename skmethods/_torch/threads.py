"""Few threads for small work: spinning OpenMP workers can cost 9x."""

import threading
from contextlib import contextmanager

#: Below this many multiply-adds a step, one thread is fastest (measured).
SMALL_WORK = 1_000_000

_lock = threading.Lock()
_active = 0
_original = None


@contextmanager
def thread_limit(work):
    """Run the block with one torch thread when a step is small.

    The caller's setting is put back on exit, also when several threads are inside
    at once (the last one out restores what the first one found).

    Parameters
    ----------
    work : float
        Multiply-adds of one step, e.g. ``batch_size * n_parameters``.
    """
    global _active, _original
    import torch

    if work >= SMALL_WORK or torch.get_num_threads() == 1:
        yield
        return
    with _lock:
        if _active == 0:
            _original = torch.get_num_threads()
        _active += 1
        original = _original
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            torch.set_num_threads(original)
