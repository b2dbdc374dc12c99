"""One BLAS thread for small matrices: waiting for the other can cost 30x."""

import functools
import threading
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

from ._torch.threads import SMALL_WORK

_lock = threading.Lock()
_active = 0
_limiter = None


@functools.cache
def _controller():
    return ThreadpoolController()  # looks through all loaded libraries: 10 ms


@contextmanager
def blas_limit(work):
    """Run the block with one BLAS thread when a step is small.

    An L-BFGS-B iteration on iris took 0.2 ms with one thread and 6 ms with two, on two
    cores with another busy process (measured). The caller's setting is put back on
    exit, also when several threads are inside at once.

    Parameters
    ----------
    work : float
        Multiply-adds of one step.
    """
    global _active, _limiter
    if work >= SMALL_WORK:
        yield
        return
    with _lock:
        if _active == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
        _active += 1
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            if _active == 0:
                _limiter.restore_original_limits()
                _limiter = None
