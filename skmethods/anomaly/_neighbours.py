"""Exact nearest rows and nearest skeleton points by matrix products.

See ``_tiles`` for why the results do not depend on precision, device or batch.
"""

import math
from functools import cached_property

import numpy as np
from sklearn import get_config

from .._torch.device import sum_dtype
from .._torch.threads import thread_limit
from ._tiles import _closest, _error_bound, _Found, _Tile, _true

#: Bytes of a tile on a CPU (the best of 4 to 64 MiB at 20 000 rows) and elsewhere.
TILE_BYTES = {"cpu": 24 * 2**20}
TILE_BYTES_ELSEWHERE = 512 * 2**20
#: Rows of a block, when only the nearest row is wanted; four blocks make a tile of
#: 1 MiB on a CPU, which stays in its cache.
BLOCK = {"cpu": 256}
BLOCK_ELSEWHERE = 4096


class RowMatcher:
    """Finds rows that are equal, bit by bit except for the sign of zero.

    Parameters
    ----------
    rows : ndarray of float64 of shape (n, d)
    """

    def __init__(self, rows):
        self.rows = rows
        self.keys, self.first, self.counts = np.unique(
            _hash_rows(rows), return_index=True, return_counts=True
        )

    def match(self, queries):
        """The first row that equals each query, or -1; and how many rows do."""
        h = _hash_rows(queries)
        place = np.minimum(np.searchsorted(self.keys, h), len(self.keys) - 1)
        hit = np.flatnonzero(self.keys[place] == h)
        same = self.rows[self.first[place[hit]]] == queries[hit]
        hit = hit[same.all(1)]
        index = np.full(len(queries), -1)
        count = np.zeros(len(queries), dtype=int)
        index[hit] = self.first[place[hit]]
        count[hit] = self.counts[place[hit]]
        return index, count


def _hash_rows(a):
    """64-bit hashes of the rows of a float64 matrix (integer sums: order-free)."""
    bits = (a + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    odd = np.random.RandomState(0).randint(2**63 - 1, size=a.shape[1], dtype=np.int64)
    bits = (bits ^ (bits >> np.uint64(29))) * (odd.astype(np.uint64) | np.uint64(1))
    return (bits ^ (bits >> np.uint64(32))).sum(1, dtype=np.uint64)


class RowSearch:
    """Nearest rows, and nearest skeleton points, among a fixed set of rows.

    Parameters
    ----------
    rows : ndarray of float64 of shape (n, d)
        Of moderate size (up to 1e15), as standardised columns are.
    device : torch.device
    batch_size : int, default=None
        Queries in a tile; None takes what fits the cache and scikit-learn's
        ``working_memory``.
    faiss : module, default=None
        When given, candidates come from its exact flat index in float32; what that
        precision cannot decide is left to torch.
    """

    def __init__(self, rows, *, device, batch_size=None, faiss=None):
        import torch

        self.rows = rows
        self.faiss = faiss
        self.device = device
        self.batch_size = batch_size
        self.centre = rows.mean(0)
        self._augmented, self._graphs = {}, {}
        # Reduced-precision products would void the error bound.
        single = torch.get_float32_matmul_precision() == "highest"
        self._levels = (torch.float32, torch.float64) if single else (torch.float64,)

    @cached_property
    def copies_before(self):
        """How many equal rows stand before each row.

        No more than k + 1 copies of a row matter to a query for k rows (one of them
        may be dropped), so that data full of copies need not be measured in full.
        """
        distinct = np.unique(self.rows + 0.0, axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(distinct, kind="stable")
        start = np.searchsorted(distinct[order], np.arange(distinct.max() + 1))
        rank = np.empty(len(distinct), dtype=np.int64)
        rank[order] = np.arange(len(distinct)) - start[distinct[order]]
        return rank

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

    def on_device(self, graph, like):
        """Neighbours and squared lengths as tensors, as long as this object lives."""
        import torch

        if like.dtype not in self._graphs:
            neighbours = torch.tensor(graph.neighbours, dtype=torch.int64)
            lengths = torch.tensor(graph.squared, dtype=like.dtype)
            pair = neighbours.to(like.device), lengths.to(like.device)
            self._graphs[like.dtype] = pair
        return self._graphs[like.dtype]

    def _unit(self, dtype):
        """See ``_error_bound``."""
        return (self.rows.shape[1] + 10) * np.finfo(str(dtype)[6:]).eps / 2

    def _run(self, Y, drop, solve, k):
        """Call ``solve(batch, rows)`` on batches of queries until all are decided.

        `solve` returns which queries the precision of the batch could not decide;
        the last level, float64, decides all.
        """
        todo = np.arange(len(Y))
        if self.faiss and len(todo):
            todo = self._run_faiss(Y, drop, solve, k)
        for dtype in self._levels:
            if not len(todo):
                break
            last = dtype is self._levels[-1]
            B = self._memory(dtype)
            batch = self._batch(dtype.itemsize)
            space = B.new_empty(min(batch, len(todo)) * B.shape[1])
            undecided, n_undecided, done = [], 0, 0
            with thread_limit(min(batch, len(todo)) * B.numel()):
                while done < len(todo):
                    rows = todo[done : done + batch]
                    tile = _Tile(self, Y[rows], B, space, drop[rows], last)
                    left = rows[solve(tile, rows)]
                    undecided.append(left)
                    n_undecided += len(left)
                    done += len(rows)
                    if not last and done >= 512 and n_undecided > done // 2:
                        undecided.append(todo[done:])  # float32 is of no use here
                        break
            todo = np.concatenate(undecided)

    def _run_faiss(self, Y, drop, solve, k):
        index = self.faiss.IndexFlatL2(self.rows.shape[1])
        index.add((self.rows - self.centre).astype(np.float32))
        batch = self.batch_size or 1024
        undecided = []
        for start in range(0, len(Y), batch):
            rows = np.arange(start, min(start + batch, len(Y)))
            found = _Found(self, Y[rows], index, k, drop[rows])
            undecided.append(rows[solve(found, rows)])
        return np.concatenate(undecided)

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
        if k == 1 and self._in_blocks():
            return self._nearest_one(Y, drop, symmetric=False)
        return self._nearest(Y, k, drop)

    def _nearest(self, Y, k, drop):
        out = (np.empty((len(Y), k), dtype=np.int64), np.empty((len(Y), k)))

        def solve(batch, rows):
            out[0][rows], out[1][rows], left = batch.nearest(k)
            return left

        self._run(Y, drop, solve, k)
        return out

    def nearest_other(self):
        """For each row the nearest other row: ``nearest(rows, 1, drop=arange(n))``.

        A product of two rows serves both, so that half of the products suffice.

        Returns
        -------
        index : ndarray of int of shape (n, 1)
        squared : ndarray of float64 of shape (n, 1)
        """
        own = np.arange(len(self.rows))
        if self._in_blocks():
            return self._nearest_one(self.rows, own, symmetric=True)
        return self.nearest(self.rows, 1, drop=own)

    def _block(self):
        return BLOCK.get(self.device.type, BLOCK_ELSEWHERE)

    def _in_blocks(self):
        small = self.batch_size is not None and self.batch_size < self._block()
        return self.faiss is None and not small

    def _nearest_one(self, Y, drop, symmetric):
        """``nearest`` for one row: only minima over blocks of rows are kept.

        The block that holds the smallest minimum is then looked into. Where another
        block may hold a nearer row within the error, the query is asked again.
        """
        import torch

        dtype, step = self._levels[0], self._block()
        B = self._memory(dtype)
        m, n = len(Y), len(self.rows)
        y = Y - self.centre
        norm2 = np.einsum("ij,ij->i", y, y)
        A = np.column_stack([y, np.ones(m), norm2])
        A = torch.tensor(A, dtype=dtype, device=B.device)
        space = B.new_empty(min(step, m) * min(4 * step, n))

        def tile(part, at, stop):
            shape = len(part), min(stop, n) - at
            T = space[: shape[0] * shape[1]].view(shape)
            return torch.mm(part, B[:, at:stop], out=T)

        def without(T, lost, at):
            r = np.flatnonzero((lost >= at) & (lost < at + T.shape[1]))
            T[r, lost[r] - at] = math.inf

        found = _BlockMinima(m, B)
        any_lost = (drop >= 0).any()
        with thread_limit(space.numel() * len(B)):
            for start in range(0, m, step):
                part, lost = A[start : start + step], drop[start : start + step]
                first = start if symmetric else 0
                minima, columns = [], []
                for at in range(first, n, 4 * step):
                    T = tile(part, at, at + 4 * step)
                    if symmetric and at == first:
                        T.fill_diagonal_(math.inf)
                    elif any_lost and not symmetric:
                        without(T, lost, at)
                    minima.append(_block_minima(T, step))
                    if symmetric:
                        columns.append(T.amin(0))
                found.rows(start, torch.cat(minima, 1), first, step)
                if symmetric:
                    found.columns(start + step, torch.cat(columns)[step:], start)

            best, second, where = found.host()
            norm = np.sqrt(norm2)
            reach = np.maximum(best, 0)
            reach += 2 * _error_bound(reach, norm, self._unit(dtype))
            unsure = ~(second > reach)
            limit = torch.tensor(reach, dtype=dtype, device=B.device)[:, None]
            todo = np.flatnonzero(~unsure)
            todo = todo[np.argsort(where[todo], kind="stable")]
            pairs = [(todo[:0], todo[:0])]
            starts = np.unique(where[todo], return_index=True)[1]
            for block in np.split(todo, starts[1:]):
                for mine in np.split(block, range(step, len(block), step)):
                    if not len(mine):
                        continue
                    at, which = where[mine[0]], torch.as_tensor(mine, device=B.device)
                    T = tile(A[which], at, at + step)
                    if any_lost:
                        without(T, drop[mine], at)
                    r, j = (a.cpu().numpy() for a in _true(limit[which] >= T))
                    pairs.append((mine[r], j + at))
        r, j = map(np.concatenate, zip(*pairs, strict=True))
        index, squared, left = _closest(Y, self.rows, r, j, 1, last=False)
        unsure |= left
        again = np.flatnonzero(unsure)
        if len(again):
            index[again], squared[again] = self._nearest(Y[again], 1, drop[again])
        return index, squared

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

        out = np.empty(len(Y))
        edges = graph.edges if n_near is None else None

        def solve(batch, rows):
            if edges is None:
                index, squared, best, left = batch.around(k)
                more = batch.edges_of(index, squared, best, graph, penalty)
            else:
                _, squared, left = batch.nearest(1)
                best = squared[:, 0]
                more = batch.all_edges(best, edges, penalty)
            out[rows] = best
            return left | more

        self._run(Y, drop, solve, k)
        return out


def _block_minima(T, step):
    """The smallest entry of each row of T in each `step` columns."""
    import torch

    whole = T.shape[1] // step
    parts = []
    if whole:
        parts.append(T[:, : whole * step].unflatten(1, (whole, step)).amin(2))
    if whole * step < T.shape[1]:
        parts.append(T[:, whole * step :].amin(1, keepdim=True))
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class _BlockMinima:
    """For each query the smallest and second smallest minimum of a block, and where.

    A block is known by its first row.
    """

    def __init__(self, m, like):
        import torch

        self.best = like.new_full((m,), math.inf)
        self.second = self.best.clone()
        self.where = torch.zeros(m, dtype=torch.int64, device=like.device)

    def rows(self, start, minima, first, step):
        """Minima of the queries from `start` on, over consecutive blocks."""
        for_these = slice(start, start + len(minima))
        value, block = minima.topk(min(2, minima.shape[1]), dim=1, largest=False)
        self._merge(for_these, value[:, 0], first + step * block[:, 0])
        if value.shape[1] == 2:
            second = self.second[for_these]
            second.copy_(second.minimum(value[:, 1]))

    def columns(self, start, minima, block):
        """Minima over one block of the queries from `start` on."""
        self._merge(slice(start, start + len(minima)), minima, block)

    def _merge(self, which, value, block):
        best, second, where = self.best[which], self.second[which], self.where[which]
        second.copy_(second.minimum(best.maximum(value)))
        where.copy_(where.where(best <= value, block))
        best.copy_(best.minimum(value))

    def host(self):
        tensors = self.best.double(), self.second.double(), self.where
        return [a.cpu().numpy() for a in tensors]
