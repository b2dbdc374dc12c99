"""DVM-AD on training rows that hold anomalies: what does not hang together is no alibi.

A nearest-neighbour rule trusts every training row, so an anomaly among them hides the
anomalies that resemble it. Here a row vouches for a query only at the radius at which a
chain of neighbours leads from it to a tenth of all training rows.
"""

import math

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ._tiles import MAX_CANDIDATES, _error_bound, _true, pair_distances

#: Share of the training rows that a chain of neighbours must reach.
MASS = 0.1
#: How far beyond the typical range the reach and the distance to the mean may lie
#: before they count, in units of the 10-90 % range of the logarithm.
REACH_MARGIN, CENTRE_MARGIN = 0.3, 0.6


def single_linkage(rows, graph, search):
    """The minimum spanning tree of the rows (Boruvka).

    Parameters
    ----------
    rows : ndarray of float64 of shape (n, d)
    graph : Graph
        Of these rows: their nearest rows answer most questions.
    search : RowSearch
        Of these rows: answers the rest, for rows whose list is used up.

    Returns
    -------
    i, j : ndarray of int of shape (n - 1,)
    squared : ndarray of float64 of shape (n - 1,)
        Squared lengths, ascending.
    """
    n = len(rows)
    everyone = np.arange(n)
    component = np.zeros(n, dtype=int) if n == 1 else everyone
    edges = []
    while component.max() > 0:
        outside = component[graph.neighbours] != component[:, None]
        listed = outside.any(1)
        slot = outside.argmax(1)
        to = np.where(listed, graph.neighbours[everyone, slot], -1)
        squared = np.where(listed, graph.squared[everyone, slot], np.inf)
        best = np.full(component.max() + 1, np.inf)
        np.minimum.at(best, component, squared)
        unknown = ~listed & (graph.squared[:, -1] <= best[component])
        asked = np.flatnonzero(unknown)
        if len(asked):
            to[asked], squared[asked] = _nearest_outside(search, asked, component)
        # Ties are broken by the pair, the same from both ends: no cycles.
        low, high = np.minimum(everyone, to), np.maximum(everyone, to)
        order = np.lexsort((high, low, squared, component))
        first = np.unique(component[order], return_index=True)[1]
        pick = order[first]
        pick = pick[np.unique(low[pick] * n + high[pick], return_index=True)[1]]
        edges.append((low[pick], high[pick], squared[pick]))
        links = (np.ones(len(pick)), (component[low[pick]], component[high[pick]]))
        size = component.max() + 1
        merged = sparse.coo_array(links, shape=(size, size))
        component = connected_components(merged, directed=False)[1][component]
    i, j, squared = (np.concatenate(parts) for parts in zip(*edges, strict=True))
    order = np.lexsort((j, i, squared))
    return i[order], j[order], squared[order]


def _nearest_outside(search, asked, component):
    """For the rows `asked`, the nearest row of another component."""
    index, squared = np.empty(len(asked), dtype=np.int64), np.empty(len(asked))

    def solve(tile, which):
        own = component[asked[which]][:, None] == component
        tile.T[tile._to(own)] = np.inf
        j, d, left = tile.nearest(1)
        index[which], squared[which] = j[:, 0], d[:, 0]
        return left

    search._run(search.rows[asked], np.full(len(asked), -1), solve, 1)
    return index, squared


def mass_levels(i, j, squared, n, mass):
    """The squared radius at which the component of each row reaches a mass.

    Parameters
    ----------
    i, j, squared : ndarrays of shape (n - 1,)
        A minimum spanning tree, ascending.
    n : int
    mass : int
        Number of rows, from 2 to n.

    Returns
    -------
    ndarray of float64 of shape (n,)
        Rounded up to 24 bits, which are exact in a tile of any precision.
    """
    levels = np.zeros(n)
    root = list(range(n))
    members = [[k] for k in range(n)]
    for a, b, length in zip(i.tolist(), j.tolist(), squared.tolist(), strict=True):
        a, b = root[a], root[b]
        if len(members[a]) < len(members[b]):
            a, b = b, a
        large, small = members[a], members[b]
        if len(large) + len(small) >= mass:
            for part in (large, small):
                if len(part) < mass:
                    levels[part] = length
        for k in small:
            root[k] = a
        large += small
        members[b] = None
    return _up_to_24_bits(levels)


def _up_to_24_bits(a):
    fraction, exponent = np.frexp(a)
    return np.ldexp(np.ceil(np.ldexp(fraction, 24)), exponent - 24)


def _min(A):
    """Smallest entry of each row of a tensor, and where it is."""
    import torch

    if A.device.type == "cpu":  # numpy's argmin is vectorised
        place = torch.from_numpy(A.numpy().argmin(1))
        return A.gather(1, place[:, None])[:, 0], place
    return A.min(1)


def _at_most(A, bound):
    """Row and column of the entries of a tensor that are at most ``bound[row]``."""
    import torch

    width = A.shape[1] // 32
    head = A[:, : 32 * width].unflatten(1, (32, width))
    r, j = _true(head.amin(1) <= bound[:, None])
    member, s = _true(head[r, :, j] <= bound[r, None])
    tail = _true(A[:, 32 * width :] <= bound[:, None])
    return (
        torch.cat([r[member], tail[0]]),
        torch.cat([j[member] + s * width, tail[1] + 32 * width]),
    )


def mass_reach(search, Y, levels, drop):
    """The squared radius at which each query joins a component of the given mass.

    That is the minimum over the rows j of ``max(|y - z_j|², levels[j])``.

    Parameters
    ----------
    search : RowSearch
    Y : ndarray of float64 of shape (m, d)
    levels : ndarray of float64 of shape (n,)
        See `mass_levels`.
    drop : ndarray of int of shape (m,)
        A row that does not count for this query, or -1. With a training row dropped
        for itself the result is its own level.

    Returns
    -------
    ndarray of float64 of shape (m,)
        Rounded up to 24 bits, as the levels are.
    """
    out, space = np.empty(len(Y)), {}

    def solve(tile, which):
        import torch

        T, level = tile.T, tile._to(levels, tile.T.dtype)
        work = space.setdefault(T.dtype, torch.empty_like(T))[: len(T)]
        value, place = _min(torch.maximum(T, level, out=work))
        slack = 2 * _error_bound(value, tile.norm, tile.unit)
        # Nearer than the level of the row: the level it is, which is exact.
        is_level = level[place] == value
        sure = is_level & (T.gather(1, place[:, None])[:, 0] < value - slack)
        for q in (is_level & ~sure).nonzero()[:, 0]:  # any other row of that level?
            sure[q] = ((T[q] < value[q] - slack[q]) & (level == value[q])).any()
        best = value.where(sure, math.inf).double().cpu().numpy()
        # Rows whose distance decides, or may: measure them.
        torch.sub(T, value[:, None], out=work).abs_()
        r, j = _at_most(work, slack)
        near = (level[j] <= (value + slack)[r]).cpu().numpy()
        r, j = r.cpu().numpy()[near], j.cpu().numpy()[near]
        if len(r) > len(T) * MAX_CANDIDATES:
            keep = search.copies_before[j] <= 1
            r, j = r[keep], j[keep]
        exact = (value > 1e-30) & (value < 1e30)  # as float32 holds levels
        left = tile._too_many(np.bincount(r, minlength=len(T)), MAX_CANDIDATES)
        left |= tile._too_many(~exact.cpu().numpy(), 0)
        r, j = r[~left[r]], j[~left[r]]
        measured = np.maximum(pair_distances(tile.Y, tile.rows, r, j), levels[j])
        np.minimum.at(best, r, _up_to_24_bits(measured))
        out[which] = best
        return left

    search._run(Y, drop, solve, 1)
    return out


def typical_range(x):
    """Median and 10-90 % range of the logarithm of the positive values."""
    largest = x.max(initial=0.0)
    x = x[x > 1e-7 * largest]
    if not len(x):
        return 1.0, 1.0
    low, middle, high = np.quantile(x, [0.1, 0.5, 0.9])
    width = np.log(high / low) if high > low else 1.0
    return float(middle), float(max(width, 1e-3))


def converted(x, typical, margin, target):
    """Values in the unit of another quantity, by their place in the typical range.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Not negative.
    typical, target : pair
        ``typical_range`` of `x` and of the other quantity over the training rows.
    margin : float
        How much lower than its place in the range a value counts, in widths.

    Returns
    -------
    ndarray of float64 of shape (m,)
        Equal places on the two logarithmic scales correspond. From one width above
        the median on (margin included) the result grows in proportion to `x`: no
        range that few rows set is extrapolated as a power.
    """
    (middle, width), (to_middle, to_width) = typical, target
    with np.errstate(divide="ignore"):
        place = np.log(x / middle) / width - margin
    beyond = np.maximum(x / (middle * np.exp(width * (1 + margin))), 1.0)
    return to_middle * np.exp(to_width * np.minimum(place, 1.0)) * beyond


def combined(parts, ranges):
    """The skeleton distance, raised where reach or distance to the mean stand out.

    Parameters
    ----------
    parts : sequence of three ndarrays of shape (m,)
        Skeleton distance, reach, distance to the mean.
    ranges : sequence of three pairs
        ``typical_range`` of each over the training rows.

    Returns
    -------
    ndarray of float64 of shape (m,)
        In the unit of the skeleton distance and never below it.
    """
    skeleton, reach, radius = parts
    return np.maximum.reduce(
        [
            skeleton,
            converted(reach, ranges[1], REACH_MARGIN, ranges[0]),
            converted(radius, ranges[2], CENTRE_MARGIN, ranges[0]),
        ]
    )
