"""Few threads for small work: spinning OpenMP workers can cost 9x."""

import functools
import threading
from contextlib import contextmanager

#: Below this many multiply-adds a step, one thread. Next to one other busy process on
#: two cores, two threads took 4 to 60 times as long as one at 2e6 to 1e7 (measured),
#: since every operation waits for both; on an idle machine they gain at most 2x.
SMALL_WORK = 30_000_000

_lock = threading.Lock()
_active = 0
_original = None
_blas_active = 0
_blas_limiter = None


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

    with _lock:
        # A thread that starts while another is inside finds that one's limit.
        original = _original if _active else torch.get_num_threads()
        limit = work < SMALL_WORK and original > 1
        if limit:
            _original = original
            _active += 1
            torch.set_num_threads(1)
    if not limit:
        yield
        return
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            torch.set_num_threads(original)


@functools.cache
def _blas():
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # looks through all loaded libraries: 10 ms


@contextmanager
def blas_limit(work):
    """Run the block with one thread in numpy's and scipy's BLAS when a step is small.

    An iteration of L-BFGS-B on iris took 0.2 ms with one thread and 6 ms with two, on
    two cores beside another busy process (measured). The caller's setting is put back
    on exit, also when several threads are inside at once.

    Parameters
    ----------
    work : float
        Multiply-adds of one step.
    """
    global _blas_active, _blas_limiter
    if work >= SMALL_WORK:
        yield
        return
    with _lock:
        if _blas_active == 0:
            _blas_limiter = _blas().limit(limits=1, user_api="blas")
        _blas_active += 1
    try:
        yield
    finally:
        with _lock:
            _blas_active -= 1
            if _blas_active == 0:
                _blas_limiter.restore_original_limits()
                _blas_limiter = None
