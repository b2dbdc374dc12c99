"""Tiles of squared distances, and what is decided from them.

A tile holds the squared distances from a batch of queries to *all* rows, as one matrix
product gives them: fast, but off by cancellation. So a tile only ever decides which
rows or edges *may* be the nearest, with a proven bound on its error; those few are
measured again in float64 from the differences, and the bound says that none was missed.
Results therefore do not depend on the device, the batch or the precision of the tile.
"""

import math

import numpy as np

from ._skeleton import skeleton_distances

#: More candidates than this for one query, and the tile is repeated in float64.
MAX_CANDIDATES = 64
#: Pairs (query, row) measured at once in float64.
PAIRS = 2**17


def pair_distances(Y, rows, r, j):
    """|Y[r] - rows[j]|² for index arrays of equal shape, from the differences."""
    out = np.empty(r.size)
    r, j, shape = r.ravel(), j.ravel(), r.shape
    step = max(1, PAIRS * 32 // max(32, Y.shape[1]))
    for s in range(0, r.size, step):
        diff = Y[r[s : s + step]]
        diff -= rows[j[s : s + step]]
        out[s : s + step] = np.einsum("ij,ij->i", diff, diff)
    return out.reshape(shape)


def _true(mask):
    """Row and column of the true entries of a tensor, row by row."""
    import torch

    if mask.device.type == "cpu":  # four times as fast as torch's nonzero
        flat = torch.from_numpy(np.flatnonzero(mask.numpy()))
    else:
        flat = mask.flatten().nonzero()[:, 0]
    row = torch.div(flat, mask.shape[1], rounding_mode="floor")
    return row, flat - row * mask.shape[1]


def _cat(a, b):
    import torch

    return torch.cat([a, b]) if len(b) else a


def _kth_smallest(A, k):
    """The k-th smallest entry of each row of a tensor."""
    import torch

    if k == 1:
        return A.amin(1)
    if A.device.type == "cpu":  # numpy's partition is vectorised
        part = np.partition(A.numpy(), k - 1, axis=1)[:, k - 1]
        return torch.tensor(part)
    return A.topk(k, dim=1, largest=False).values[:, -1]


def _error_bound(squared, norm, unit):
    """Bound on the error of tile entries, given their values as computed.

    An entry of a product of length d + 2 over rounded vectors is off by at most
    (d + 8) u (|y| + |m|)², and |m| <= |y| + |y - m|. `unit` is (d + 10) u: the rest is
    for the rounding of the bound itself.
    """
    root = squared.clip(min=0) ** 0.5
    return (root + 2 * norm) ** 2 * (unit * (1 + unit**0.5) ** 2)


def _closest(Y, rows, r, j, k, last):
    """The k nearest rows among candidates: pairs of a query r and a row j.

    Returns indices and squared distances, measured in float64, and which queries are
    undecided: they have too few candidates, or too many unless this is the last word.
    """
    m, n = len(Y), len(rows)
    count = np.bincount(r, minlength=m)
    left = (count < k) | ((count > k + MAX_CANDIDATES) & (not last))
    keep = ~left[r]
    key = np.sort(r[keep] * n + j[keep])  # by query, then by index
    r, j = np.divmod(key, n)
    count[left] = 0
    squared = pair_distances(Y, rows, r, j)
    place = np.arange(len(r)) - (np.cumsum(count) - count)[r]
    shape = m, max(k, count.max(initial=0))
    table, column = np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
    table[r, place], column[r, place] = squared, j
    take = np.arange(m)[:, None], np.argsort(table, axis=1, kind="stable")[:, :k]
    return column[take], table[take], left


class _Tile:
    """Squared distances from a batch of queries to all rows, with an error bound."""

    def __init__(self, search, Y, B, space, drop, last):
        import torch

        y = Y - search.centre
        norm2 = np.einsum("ij,ij->i", y, y)
        aug = np.column_stack([y, np.ones(len(y)), norm2])
        aug = torch.tensor(aug, dtype=B.dtype, device=B.device)
        shape = len(y), B.shape[1]
        self.T = torch.mm(aug, B, out=space[: shape[0] * shape[1]].view(shape))
        dropped = np.flatnonzero(drop >= 0)
        if len(dropped):
            self.T[self._to(dropped), self._to(drop[dropped])] = math.inf
        self.search, self.Y, self.rows = search, Y, search.rows
        self.norm = self._to(np.sqrt(norm2), B.dtype)
        self.unit, self.last = search._unit(B.dtype), last

    def _to(self, a, dtype=None):
        import torch

        if not getattr(getattr(a, "flags", None), "writeable", True):
            a = a.copy()  # of a memory-mapped pickle; torch warns about those
        return torch.as_tensor(a, dtype=dtype, device=self.T.device)

    def _candidates(self, k):
        """Queries, rows and entries of the tile that may be among the k nearest."""
        # Columns in groups with a minimum each, and groups of groups. The k-th smallest
        # minimum is a value that k rows reach: a group whose minimum is larger has none
        # of the k nearest.
        levels, top = [], self.T
        for group in (16, 4) if k > 1 else (32,):
            width = top.shape[1] // group
            if width < 8 * k:
                break
            head = top[:, : group * width].unflatten(1, (group, width))
            levels.append((head, top[:, group * width :]))
            top = head.amin(1)
        reach = _kth_smallest(top, k)
        reach += 2 * _error_bound(reach, self.norm, self.unit)
        r, j = _true(top <= reach[:, None])
        for head, tail in reversed(levels):
            group, width = head.shape[1:]
            member, s = _true(head[r, :, j] <= reach[r, None])
            r, j = r[member], j[member] + s * width
            if tail.shape[1]:
                more, s = _true(tail <= reach[:, None])
                r, j = _cat(r, more), _cat(j, s + group * width)
        value = self.T[r, j]
        r, j, value = (a.cpu().numpy() for a in (r, j, value))
        if len(r) > len(self.Y) * (k + MAX_CANDIDATES):
            keep = self.search.copies_before[j] <= k
            r, j, value = r[keep], j[keep], value[keep]
        order = np.argsort(r, kind="stable")
        return r[order], j[order], value[order]

    def nearest(self, k):
        """Index, squared distance, and which queries are undecided."""
        r, j, _ = self._candidates(k)
        return _closest(self.Y, self.rows, r, j, k, self.last)

    def around(self, k):
        """The k nearest rows in any order, their entries in the tile, the nearest.

        Returns index, (rough) squared distances, the smallest squared distance, and
        which queries are undecided. Only what is near to a decision is measured.
        """
        m = len(self.Y)
        r, j, value = self._candidates(k)
        count = np.bincount(r, minlength=m)
        left = (count < k) | self._too_many(count, k + MAX_CANDIDATES)
        if left.any():
            keep = ~left[r]
            r, j, value = r[keep], j[keep], value[keep]
            count[left] = 0
        place = np.arange(len(r)) - (np.cumsum(count) - count)[r]
        shape = m, max(k + 1, count.max(initial=0))
        table = np.full(shape, np.inf, dtype=value.dtype)
        column = np.zeros(shape, dtype=np.int64)
        table[r, place], column[r, place] = value, j
        order = np.argsort(table, axis=1)[:, : k + 1]
        table = np.take_along_axis(table, order, 1)
        index = np.take_along_axis(column, order[:, :k], 1)
        norm = self.norm.cpu().numpy()
        error = 2 * _error_bound(table[:, [0, k - 1]], norm[:, None], self.unit)
        close = (table[:, k] <= table[:, k - 1] + error[:, 1]) & ~left
        table = table[:, :k]
        if close.any():
            which = np.flatnonzero(close)
            mine = close[r]
            r, j = np.searchsorted(which, r[mine]), j[mine]
            found = _closest(self.Y[which], self.rows, r, j, k, last=True)
            index[which], table[which] = found[:2]
        best = np.full(m, np.inf)
        r, c = np.nonzero(table <= table[:, :1] + error[:, :1])
        np.minimum.at(best, r, pair_distances(self.Y, self.rows, r, index[r, c]))
        return index, table, best, left

    def _too_many(self, count, limit):
        """Which queries float64 should decide."""
        return (count > limit) & (not self.last)

    def edges_of(self, index, squared, best, graph, penalty):
        """Lower `best` by the edges that leave the rows `index`.

        Returns which queries are undecided; see RowSearch.skeleton.
        """
        K = graph.neighbours.shape[1]
        neighbours, lengths = self.search.on_device(graph, self.T)
        i = self._to(index)
        j, L = neighbours[i].flatten(1), lengths[i].flatten(1)
        Di = self._to(squared, self.T.dtype).repeat_interleave(K, 1)
        may = self._may(Di, self.T.gather(1, j), L, best, penalty)
        left = self._too_many(may.sum(1).cpu().numpy(), MAX_CANDIDATES)
        if left.any():
            may[self._to(np.flatnonzero(left))] = False
        r, e = (a.cpu().numpy() for a in _true(may))
        near, slot = np.divmod(e, K)
        i = index[r, near]
        j, L = graph.neighbours[i, slot], graph.squared[i, slot]
        _lower(best, self.Y, self.rows, r, i, j, L, penalty)
        return left

    def all_edges(self, best, edges, penalty):
        """Lower `best` by all edges (i, j, L); see RowSearch.skeleton."""
        left = np.zeros(len(best), dtype=bool)
        step = max(1, self.T.shape[1] // 8)  # a dozen temporaries of this width
        for s in range(0, len(edges[0]), step):
            i, j, L = (a[s : s + step] for a in edges)
            Di, Dj = (self.T.index_select(1, self._to(a).long()) for a in (i, j))
            may = self._may(Di, Dj, self._to(L, self.T.dtype)[None], best, penalty)
            left |= self._too_many(may.sum(1).cpu().numpy(), MAX_CANDIDATES)
            may[self._to(np.flatnonzero(left))] = False
            r, e = (a.cpu().numpy() for a in _true(may))
            _lower(best, self.Y, self.rows, r, i[e], j[e], L[e], penalty)
        return left

    def _may(self, Di, Dj, L, best, penalty):
        """Which edges may hold a point nearer than those of all others and `best`."""
        best = self._to(best, self.T.dtype)[:, None]
        error = 2 * _error_bound(Di.maximum(Dj), self.norm[:, None], self.unit)
        W = (2 * penalty) * L
        a = Di - Dj + W / 2  # W times the place of the best point, which is in (0, 1)
        inside = (a > -error) & (a < W + error) & (L > 0)
        a = a.clamp(min=0).minimum(W)
        value = Di - a * (a / W) / 2
        bound = (value + error).where(inside, best).amin(1, keepdim=True).minimum(best)
        # The error also covers the rounding of `best` to the tile's precision.
        return inside & (value - error <= bound)


class _Found(_Tile):
    """What faiss found for a batch of queries; edges are measured directly."""

    last = False

    def __init__(self, search, Y, index, k, drop):
        self.Y, self.rows = Y, search.rows
        y = Y - search.centre
        n = len(self.rows)
        c = min(k + 3, n)
        with np.errstate(over="ignore"):
            value, self.index = index.search(y.astype(np.float32), c)
        value = value.astype(float)
        farthest = value[:, -1].copy()
        value[self.index == drop[:, None]] = np.inf
        self.drop = drop
        norm = np.sqrt(np.einsum("ij,ij->i", y, y))
        unit = (Y.shape[1] + 10) * np.finfo(np.float32).eps / 2
        reach = np.sort(value, axis=1)[:, min(k, c) - 1]
        reach = reach + 2 * _error_bound(reach, norm, unit)
        # Rows that faiss did not return are farther than the last that it did.
        self.sure = (farthest > reach) & (self.index[:, -1] >= 0) | (c == n)
        self.sure &= np.isfinite(reach)

    def nearest(self, k):
        r = np.repeat(np.arange(len(self.Y)), self.index.shape[1])
        j = self.index.ravel()
        keep = self.sure[r] & (j != self.drop[r])
        index, squared, left = _closest(
            self.Y, self.rows, r[keep], j[keep], k, last=False
        )
        return index, squared, left | ~self.sure

    def around(self, k):
        index, squared, left = self.nearest(k)
        return index, squared, squared[:, 0].copy(), left

    def edges_of(self, index, squared, best, graph, penalty):
        K, step = graph.neighbours.shape[1], 64
        for s in range(0, len(index), step):
            i = np.repeat(index[s : s + step], K, axis=1)
            r = s + np.repeat(np.arange(len(i)), i.shape[1])
            j = graph.neighbours[index[s : s + step]].ravel()
            L = graph.squared[index[s : s + step]].ravel()
            use = (L > 0) & (j != self.drop[r]) & self.sure[r]
            r, i, j, L = r[use], i.ravel()[use], j[use], L[use]
            _lower(best, self.Y, self.rows, r, i, j, L, penalty)
        return ~self.sure


def _lower(best, Y, rows, r, i, j, L, penalty):
    """Lower best[r] by the edges (i, j) of squared length L, measured in float64."""
    Di, Dj = (pair_distances(Y, rows, r, end) for end in (i, j))
    np.minimum.at(best, r, skeleton_distances(Di, Dj, L, penalty))
