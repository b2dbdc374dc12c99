"""How an epoch is cut into batches, and what is noted about it."""

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass
class FitRecord:
    """What happened in ``fit_net``."""

    loss_curve: list = field(default_factory=list)  #: mean training loss per epoch
    validation_curve: list = field(default_factory=list)  #: score per epoch
    n_iter: int = 0  #: epochs run


def batch_bounds(n, batch_size):
    """Start and stop of each batch; a last batch of one row joins the one before it.

    Batch norm cannot train on one row, and no row may be dropped.
    """
    edges = [*range(0, n, batch_size), n]
    if batch_size > 1 and len(edges) > 2 and edges[-1] - edges[-2] == 1:
        del edges[-2]
    return list(pairwise(edges))
