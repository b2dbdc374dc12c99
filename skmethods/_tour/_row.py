"""One line of the tour: a method beside the peer that a user would pick otherwise."""

from dataclasses import dataclass

#: Figures closer than this are a match: the last digit that the table shows.
TIE = 0.0005


@dataclass
class Result:
    """What one method reached.

    Attributes
    ----------
    ours, peer : float
        The metric of both on the same data, computed in the same run.
    higher_is_better : bool
    peer_name : str or None
        If the run chose among several peers, the name of the best one.
    note : str
        What else was measured; a line below the row.
    """

    ours: float
    peer: float
    higher_is_better: bool = True
    peer_name: str | None = None
    note: str = ""

    @property
    def beats_or_matches(self):
        """Whether ours is not worse than the peer by more than a tie."""
        gain = self.ours - self.peer if self.higher_is_better else self.peer - self.ours
        return gain > -TIE


@dataclass
class Row:
    """A method of the tour, and how to run it.

    Attributes
    ----------
    method, task, data, metric, peer : str
        Words for the table; `peer` is the name of the other estimator.
    run : callable
        ``run(quick, device)`` returns a ``Result``. It uses public names only, and
        data that ships with scikit-learn or this package. `quick` asks for less data
        or fewer iterations.
    """

    method: str
    task: str
    data: str
    metric: str
    peer: str
    run: callable
