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
#: Rows of a block, when only the nearest row is wanted; four blocks make a tile of
#: 1 MiB on a CPU, which stays in its cache.
BLOCK = {"cpu": 256}
BLOCK_ELSEWHERE = 4096
#: More candidates than this for one query, and the tile is repeated in float64.
MAX_CANDIDATES = 64
#: Pairs (query, row) measured at once in float64.
PAIRS = 2**17


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


def _error_bound(squared, norm, unit):
    """Bound on the error of tile entries, given their values as computed.

    An entry of a product of length d + 2 over rounded vectors is off by at most
    (d + 8) u (|y| + |m|)², and |m| <= |y| + |y - m|. `unit` is (d + 10) u: the rest is
    for the rounding of the bound itself.
    """
    root = squared.clip(min=0) ** 0.5
    return (root + 2 * norm) ** 2 * (unit * (1 + unit**0.5) ** 2)


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
