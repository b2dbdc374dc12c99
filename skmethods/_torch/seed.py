"""One ``random_state`` for numpy and torch, without touching global generators."""

import threading
from contextlib import contextmanager

# torch's global generators are one per process: two fits in two threads take turns.
_lock = threading.RLock()


def _global_generators(device):
    import torch

    generators = [torch.default_generator]
    if device is not None and device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    elif device is not None and device.type == "mps":
        generators.append(torch.mps._get_default_mps_generator())
    return generators


class Seeds:
    """Every random stream of one fit, from one ``random_state``.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        As everywhere in scikit-learn; None draws from numpy's global generator.

    Attributes
    ----------
    numpy : numpy.random.RandomState
    torch : torch.Generator
        On the CPU whatever the device, so that a permutation drawn from it is the
        same on every machine.
    """

    def __init__(self, random_state):
        import torch
        from sklearn.utils import check_random_state

        self.numpy = check_random_state(random_state)
        self._start = self._draw()
        self.torch = torch.Generator().manual_seed(self._start)
        self._inside = ()

    def _draw(self):
        return int(self.numpy.randint(2**31 - 1))

    def reseed(self, step):
        """Put the torch streams where they depend on ``random_state`` and `step` only.

        Called at the start of every epoch, it makes a run that was stopped, pickled
        and resumed draw what an uninterrupted one draws. Torch's global generators
        are among the streams inside ``global_torch``.
        """
        for generator in (self.torch, *self._inside):
            generator.manual_seed(self._start + step)

    @contextmanager
    def global_torch(self, device=None):
        """Seed torch's *global* generators inside the block, then put them back.

        For code that draws from them and takes no generator: module initialisation,
        dropout. The CPU's generator is always among them; that of `device` too.
        """
        with _lock:
            generators = _global_generators(device)
            saved = [g.get_state() for g in generators]
            seed = self._draw()
            try:
                for generator in generators:
                    generator.manual_seed(seed)
                self._inside = generators
                yield
            finally:
                self._inside = ()
                for generator, state in zip(generators, saved, strict=True):
                    generator.set_state(state)
