"""Exact nearest rows and nearest skeleton points by matrix products.

A tile holds the squared distances from a batch of queries to *all* rows, as one matrix
product gives them: fast, but off by cancellation. So a tile only ever decides which
rows or edges *may* be the nearest, with a proven bound on its error; those few are
measured again in float64 from the differences, and the bound says that none was missed.
Results therefore do not depend on the device, the batch or the precision of the tile.
"""

import math

import numpy as np
from sklearn import get_config

from .._torch.device import sum_dtype
from .._torch.threads import thread_limit
from ._skeleton import skeleton_distances

#: Bytes of a tile on a CPU and on an accelerator (measured; see bench_dvm.py).
TILE_BYTES = {"cpu": 24 * 2**20}
TILE_BYTES_ELSEWHERE = 512 * 2**20
#: Columns of a tile that share one minimum when the smallest are looked for.
GROUP = 32
#: More candidates than this for one query, and the tile is repeated in float64.
MAX_CANDIDATES = 64
#: Pairs (query, row) measured at once in float64.
PAIRS = 2**17


def match_rows(queries, rows):
    """For each query, an equal row and how many rows equal it.

    Parameters
    ----------
    queries, rows : ndarray of float64 of shape (n_queries, d) and (n, d)
        Zeros of either sign are equal.

    Returns
    -------
    index : ndarray of int of shape (n_queries,)
        The first row that equals the query, or -1.
    count : ndarray of int of shape (n_queries,)
        The number of rows that equal the query.
    """
    _, first, inverse_count = np.unique(
        _hash_rows(rows), return_index=True, return_counts=True
    )
    keys = _hash_rows(rows[first])
    h = _hash_rows(queries)
    place = np.minimum(np.searchsorted(keys, h), len(keys) - 1)
    hit = np.flatnonzero(keys[place] == h)
    hit = hit[(queries[hit] == rows[first[place[hit]]]).all(1)]
    index = np.full(len(queries), -1)
    count = np.zeros(len(queries), dtype=int)
    index[hit] = first[place[hit]]
    count[hit] = inverse_count[place[hit]]
    return index, count


def _hash_rows(a):
    """64-bit hashes of the rows of a float64 matrix (integer sums: order-free)."""
    bits = (a + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    odd = np.random.RandomState(0).randint(2**63 - 1, size=a.shape[1], dtype=np.int64)
    bits = (bits ^ (bits >> np.uint64(29))) * (odd.astype(np.uint64) | np.uint64(1))
    return (bits ^ (bits >> np.uint64(32))).sum(1, dtype=np.uint64)


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


def _smallest(T, c):
    """Values and columns of the `c` smallest entries of each row of a tile.

    The c smallest lie in the c groups of columns with the smallest minima, so that
    only those groups are sorted.
    """
    import torch

    width = T.shape[1] // GROUP
    if width < 4 * c:
        return T.topk(c, dim=1, largest=False)
    head = T[:, : width * GROUP].unflatten(1, (GROUP, width)).amin(1)
    groups = head.topk(c, dim=1, largest=False, sorted=False).indices
    steps = torch.arange(0, width * GROUP, width, device=T.device)
    columns = (groups[:, None, :] + steps[None, :, None]).flatten(1)
    tail = torch.arange(width * GROUP, T.shape[1], device=T.device)
    columns = torch.cat([columns, tail.expand(len(T), -1)], 1)
    values, place = T.gather(1, columns).topk(c, dim=1, largest=False)
    return values, columns.gather(1, place)


class RowSearch:
    """Nearest rows, and nearest skeleton points, among a fixed set of rows.

    Parameters
    ----------
    rows : ndarray of float64 of shape (n, d)
        Of moderate size (up to 1e30), as standardised columns are.
    device : torch.device
    batch_size : int, default=None
        Queries in a tile; None takes what fits the cache and scikit-learn's
        ``working_memory``.
    """

    def __init__(self, rows, *, device, batch_size=None):
        import torch

        self.rows = rows
        self.device = device
        self.batch_size = batch_size
        self.centre = rows.mean(0)
        self._augmented = {}
        # Reduced-precision products would void the error bound.
        single = torch.get_float32_matmul_precision() == "highest"
        self._levels = (torch.float32, torch.float64) if single else (torch.float64,)

    def _device_of(self, dtype):
        import torch

        # MPS has no float64: the rare second look happens on the host.
        wide = dtype is torch.float64 and sum_dtype(self.device) is torch.float32
        return torch.device("cpu") if wide else self.device

    def _memory(self, dtype):
        """(d + 2, n): the product with (y, 1, |y|²) is |y|² + |m|² - 2 y·m."""
        import torch

        if dtype not in self._augmented:
            rows = self.rows - self.centre
            norm2 = np.einsum("ij,ij->i", rows, rows)
            aug = np.column_stack([-2 * rows, norm2, np.ones(len(rows))])
            self._augmented[dtype] = torch.tensor(
                aug, dtype=dtype, device=self._device_of(dtype)
            ).T
        return self._augmented[dtype]

    def _batch(self, itemsize):
        if self.batch_size is not None:
            return self.batch_size
        size = TILE_BYTES.get(self.device.type, TILE_BYTES_ELSEWHERE)
        row = itemsize * len(self.rows)
        limit = get_config()["working_memory"] * 2**20 // row
        return int(np.clip(max(16, size // row), 1, max(1, min(limit, 4096))))

    def _run(self, Y, drop, solve, out):
        """Call ``solve(tile, rows)`` on batches, again in float64 where it asks.

        `solve` returns which of the rows it could not decide, and writes the results
        of the others into `out`.
        """
        import torch

        todo = np.arange(len(Y))
        for dtype in self._levels:
            last = dtype is self._levels[-1]
            B = self._memory(dtype)
            batch = self._batch(dtype.itemsize)
            unit = (B.shape[0] + 6) * torch.finfo(dtype).eps / 2
            undecided, seen, start = [], 0, 0
            with thread_limit(min(batch, len(todo)) * B.numel()):
                while start < len(todo):
                    rows = todo[start : start + batch]
                    start += len(rows)
                    tile = _Tile(self, Y[rows], B, unit, drop[rows], last)
                    left = solve(tile, rows, out)
                    undecided.append(rows[left])
                    seen += len(rows)
                    bad = sum(map(len, undecided))
                    if not last and bad > seen // 2 and seen >= 512:
                        undecided.append(todo[start:])  # float32 is of no use here
                        break
            todo = np.concatenate(undecided) if undecided else todo[:0]
            if not len(todo):
                break
        return out

    def nearest(self, Y, k, drop=None):
        """The `k` nearest rows, ties by index.

        Parameters
        ----------
        Y : ndarray of float64 of shape (m, d)
        k : int
            At most n, or n - 1 where a row is dropped.
        drop : ndarray of int of shape (m,), default=None
            A row that does not count for this query, or -1.

        Returns
        -------
        index : ndarray of int of shape (m, k)
        squared : ndarray of float64 of shape (m, k)
            Squared distances, ascending.
        """
        drop = np.full(len(Y), -1) if drop is None else drop
        out = (np.empty((len(Y), k), dtype=np.int64), np.empty((len(Y), k)))

        def solve(tile, rows, out):
            index, squared, left = tile.nearest(k)
            out[0][rows], out[1][rows] = index, squared
            return left

        return self._run(Y, drop, solve, out)

    def skeleton(self, Y, graph, penalty, *, n_near=None, drop=None):
        """Squared distance to the nearest point of the skeleton.

        Parameters
        ----------
        Y : ndarray of float64 of shape (m, d)
        graph : Graph
            Of these rows.
        penalty : float
            In (0, 1].
        n_near : int, default=None
            Look only at the edges that leave this many nearest rows; None: at all.
        drop : ndarray of int of shape (m,), default=None
            A row that does not count for this query, nor do its edges; or -1.

        Returns
        -------
        ndarray of float64 of shape (m,)
        """
        drop = np.full(len(Y), -1) if drop is None else drop
        # One less than all, so that it is the same with and without a dropped row.
        k = 1 if n_near is None else min(n_near, len(self.rows) - 1)

        def solve(tile, rows, out):
            index, squared, left = tile.nearest(k)
            if n_near is None:
                best, more = tile.all_edges(squared[:, 0], graph, penalty)
            else:
                best, more = tile.edges_of(index, squared, graph, penalty)
            out[rows] = best
            return left | more

        return self._run(Y, drop, solve, np.empty(len(Y)))


class _Tile:
    """Squared distances from a batch of queries to all rows, with an error bound."""

    def __init__(self, search, Y, B, unit, drop, last):
        import torch

        y = Y - search.centre
        norm2 = np.einsum("ij,ij->i", y, y)
        aug = np.column_stack([y, np.ones(len(y)), norm2])
        self.T = torch.tensor(aug, dtype=B.dtype, device=B.device) @ B
        dropped = np.flatnonzero(drop >= 0)
        if len(dropped):
            self.T[self._to(dropped), self._to(drop[dropped])] = math.inf
        self.Y, self.rows, self.drop = Y, search.rows, drop
        self.norm = np.sqrt(norm2)
        self.unit, self.last = unit, last

    def _to(self, a, dtype=None):
        import torch

        return torch.as_tensor(a, dtype=dtype, device=self.T.device)

    def _error(self, norm, squared):
        """Bound on the error of an entry whose true value is at most `squared`.

        An entry of a product of length d + 2 over rounded vectors is off by at most
        (d + 8) u (|y| + |m|)², and |m| <= |y| + |y - m|.
        """
        return self.unit * (2 * norm + squared**0.5) ** 2

    def nearest(self, k):
        """Index, squared distance, and which queries are undecided."""
        c = min(k + 2, self.T.shape[1])
        value, index = _smallest(self.T, c)
        value = value[:, -1].double().cpu().numpy()
        index = index.cpu().numpy()
        index.sort(axis=1)
        r = np.repeat(np.arange(len(index))[:, None], c, 1)
        squared = pair_distances(self.Y, self.rows, r, index)
        squared[index == self.drop[:, None]] = np.inf
        order = np.argsort(squared, axis=1, kind="stable")[:, :k]
        index = np.take_along_axis(index, order, 1)
        squared = np.take_along_axis(squared, order, 1)
        kth = squared[:, -1]
        bound = kth + self._error(self.norm, kth)
        # Among rows that equal the query all choices are the same choice.
        sure = (value > bound) | (kth == 0) | (c == self.T.shape[1])
        left = ~sure
        if left.any():
            self._widen(np.flatnonzero(left), bound, k, index, squared, left)
        return index, squared, left

    def _widen(self, which, bound, k, index, squared, left):
        """Measure every row that may be among the k nearest of these queries."""
        T = self.T[self._to(which)]
        may = T <= self._to(bound[which], T.dtype)[:, None]
        many = (may.sum(1) > MAX_CANDIDATES + k).cpu().numpy() & (not self.last)
        # A tile with entries that are not numbers decides nothing.
        many |= ~(T.isfinite() | T.isposinf()).all(1).cpu().numpy()
        for s in range(0, len(which), max(1, PAIRS // T.shape[1] + 1)):
            part = np.arange(s, min(len(which), s + max(1, PAIRS // T.shape[1] + 1)))
            part = part[~many[part]]
            if not len(part):
                continue
            r, j = (a.cpu().numpy() for a in may[self._to(part)].nonzero(as_tuple=True))
            d = pair_distances(self.Y, self.rows, which[part[r]], j)
            order = np.lexsort((j, d, r))
            r, j, d = r[order], j[order], d[order]
            start = np.searchsorted(r, np.arange(len(part)))
            take = start[:, None] + np.arange(k)
            index[which[part]], squared[which[part]] = j[take], d[take]
            left[which[part]] = False

    def edges_of(self, index, squared, graph, penalty):
        """Best over the edges that leave the rows `index`; see RowSearch.skeleton."""
        i = self._to(index)
        j = graph.on("neighbours", self.T)[i]
        L = graph.on("squared", self.T)[i].flatten(1)
        Di = self._to(squared, self.T.dtype)[:, :, None]
        Di = Di.expand(j.shape).flatten(1)
        j = j.flatten(1)
        may = self._may(Di, self.T.gather(1, j), L, squared[:, 0], penalty)
        left = (may.sum(1) > MAX_CANDIDATES).cpu().numpy() & (not self.last)
        r, e = (a.cpu().numpy() for a in may.nonzero(as_tuple=True))
        keep = ~left[r]
        r, e = r[keep], e[keep]
        near, slot = np.divmod(e, graph.neighbours.shape[1])
        i = index[r, near]
        best = squared[:, 0].copy()
        self._measure(
            best, r, i, graph.neighbours[i, slot], graph.squared[i, slot], penalty
        )
        return best, left

    def all_edges(self, nearest, graph, penalty):
        """Best over all edges of the graph; see RowSearch.skeleton."""
        i, j, L = graph.edges
        best, left = nearest.copy(), np.zeros(len(nearest), dtype=bool)
        if not len(i):
            return best, left
        step = max(1, self.T.shape[1] // 8)  # a few temporaries of this width
        for s in range(0, len(i), step):
            cut = slice(s, s + step)
            ti, tj = self._to(i[cut]), self._to(j[cut])
            may = self._may(
                self.T[:, ti],
                self.T[:, tj],
                self._to(L[cut], self.T.dtype)[None],
                best,
                penalty,
            )
            left |= (may.sum(1) > MAX_CANDIDATES).cpu().numpy() & (not self.last)
            may[self._to(np.flatnonzero(left))] = False
            r, e = (a.cpu().numpy() for a in may.nonzero(as_tuple=True))
            self._measure(best, r, i[cut][e], j[cut][e], L[cut][e], penalty)
        return best, left

    def _may(self, Di, Dj, L, best, penalty):
        """Which edges may hold a point nearer than all others and than `best`."""
        norm = self._to(self.norm, self.T.dtype)[:, None]
        best = self._to(best, self.T.dtype)[:, None]
        error = Di.maximum(Dj).clamp_(min=0).sqrt_().add_(2 * norm).square_()
        error.mul_(2 * self.unit)
        W = (2 * penalty) * L
        a = Di - Dj + W / 2
        inside = (a > -error) & (a < W + error) & (L > 0)
        a = a.clamp_(min=0).minimum(W)
        value = Di - a * (a / (2 * W))
        inf = self._to(math.inf, self.T.dtype)
        bound = inf.where(~inside, value + error).amin(1, keepdim=True).minimum(best)
        # best was rounded to the tile's precision: the error covers that too.
        return inside & (value - error <= bound)

    def _measure(self, best, r, i, j, L, penalty):
        """Lower best[r] by these edges, measured in float64."""
        Di = pair_distances(self.Y, self.rows, r, i)
        Dj = pair_distances(self.Y, self.rows, r, j)
        np.minimum.at(best, r, skeleton_distances(Di, Dj, L, penalty))
