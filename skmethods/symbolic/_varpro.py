"""Least squares for signomials: batched variable projection, Levenberg-Marquardt.

The coefficients of ``z = sum_k c_k exp(L b_k)`` are linear given the exponents, so
they are eliminated and the steps are taken in the exponents alone, with Kaufman's
Jacobian. Everything a step needs is a sum over rows of products of two terms times a
fixed column (1, L_j, L_j L_i), so that one matrix product serves all starts at once.
Such sums square the condition number; the residuals, and with them the gradient, are
therefore formed row by row, and the coefficients refined with them.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

#: Numbers that the largest temporary of one chunk of rows may hold.
_CHUNK = 400_000
#: Terms, or factors, of all rows up to this many numbers are kept for the next use.
_KEEP = 4_000_000
#: Added to the diagonal of the scaled Gram matrix of the terms.
_RIDGE = 1e-14
_LARGEST_STEP = 1.0
#: Logarithm of the smallest term, relative to a bound of the largest.
_SMALLEST = -300.0


@lru_cache(maxsize=64)
def _upper(size):
    """``np.triu_indices``, which takes as long as a small step."""
    return np.triu_indices(size)


class Rows:
    """The rows of a problem.

    Parameters
    ----------
    L : ndarray of shape (n_samples, n_features)
        Centred logarithms of the inputs.
    y : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,)
    negative : ndarray of bool of shape (n_samples, n_features), default=None
        Where an input is negative and `L` is the logarithm of its magnitude.
    """

    def __init__(self, L, y, weight, negative=None):
        self.L, self.y, self.weight = L, y, weight
        self.negative = None if negative is None else negative.astype(float)
        self.n, self.m = L.shape
        self.low, self.high = L.min(axis=0), L.max(axis=0)
        self.yy = float(weight @ (y * y))
        self._pairs = _upper(self.m)
        self._columns = {}

    def subset(self, rows):
        """The problem of some rows."""
        negative = None if self.negative is None else self.negative[rows]
        return Rows(self.L[rows], self.y[rows], self.weight[rows], negative)

    def reweighted(self, weight):
        """The same rows with other weights."""
        other = Rows(self.L, self.y, weight, self.negative)
        other._columns = self._columns
        return other

    def columns(self, rows):
        """The fixed factors of the moments, ``1, L_j, L_j L_i``, one per line."""
        known = self._columns.get((rows.start, rows.stop))
        if known is not None:
            return known
        L = np.ascontiguousarray(self.L[rows].T)
        i, j = self._pairs
        columns = np.empty((1 + self.m + len(i), L.shape[1]))
        columns[0] = 1.0
        columns[1 : 1 + self.m] = L
        np.multiply(L[i], L[j], out=columns[1 + self.m :])
        if self.n * len(columns) <= _KEEP:
            self._columns[rows.start, rows.stop] = columns
        return columns

    def shift(self, B):
        """An upper bound of ``L @ b`` over the rows, of shape B.shape[:-1]."""
        return np.maximum(B * self.low, B * self.high).sum(axis=-1)

    def terms(self, B, shift, odd, rows):
        """``exp(L b - shift)`` with its sign, of shape (n_starts, n_terms, n_rows)."""
        S, K, m = B.shape
        values = B.reshape(S * K, m) @ self.L[rows].T
        values -= shift.reshape(S * K, 1)
        # Products of smaller ones are denormal, which is forty times as slow.
        np.maximum(values, _SMALLEST, out=values)
        np.exp(values, out=values)
        if odd is not None:
            values *= 1 - 2 * ((odd.reshape(S * K, m) @ self.negative[rows].T) % 2)
        return values.reshape(S, K, -1)


class State(NamedTuple):
    """Points in the space of exponents and what Levenberg-Marquardt needs there.

    Attributes
    ----------
    B : ndarray of shape (n_starts, n_terms, n_features)
    coef : ndarray of shape (n_starts, n_terms)
        Of the terms divided by ``exp(shift)``.
    shift : ndarray of shape (n_starts, n_terms)
    rss : ndarray of shape (n_starts,)
        Weighted sum of squared residuals; infinite where there is no solution.
    normal : ndarray of shape (n_starts, n_terms * n_features, the same)
        ``J^T J`` in the exponents, coefficients projected out.
    gradient : ndarray of shape (n_starts, n_terms * n_features)
        ``J^T r``.
    size : ndarray of shape (n_starts,)
        Root of the largest sum of squares of a single term: cancellation shows here.
    follow : ndarray of shape (n_starts, n_terms, 1 + n_terms * n_features)
        How the coefficients follow: ``coef + follow[0] - follow[1:] @ step``; only
        used by the logarithmic loss.
    """

    B: np.ndarray
    coef: np.ndarray
    shift: np.ndarray
    rss: np.ndarray
    normal: np.ndarray
    gradient: np.ndarray
    size: np.ndarray
    follow: np.ndarray

    def take(self, index):
        """The state of some starts."""
        return State(*(a[index] for a in self))


def _merged(old, new, better):
    return State(
        *(
            np.where(better.reshape(-1, *[1] * (a.ndim - 1)), b, a)
            for a, b in zip(old, new, strict=True)
        )
    )


def _joined(states):
    return State(*(np.concatenate(parts) for parts in zip(*states, strict=True)))


def _chunks(rows, S, K):
    return row_chunks(rows, max(S * K * (K + 1) // 2, rows.m * (rows.m + 3) // 2))


def row_chunks(rows, width):
    """Slices of the rows such that `width` numbers for each of them stay in memory."""
    size = max(128, _CHUNK // width)
    if size >= rows.n:
        return [slice(0, rows.n)]
    return [slice(i, min(i + size, rows.n)) for i in range(0, rows.n, size)]


def _pair_moments(values, weight, columns):
    """Sums over rows of ``w Phi_k Phi_l`` times each column, for k <= l."""
    S, K, n = values.shape
    first, second = _upper(K)
    weighted = values * weight
    products = (values[:, first] * weighted[:, second]).reshape(-1, n)
    return (products @ columns.T).reshape(S, len(first), -1)


def _unpacked(moments, K, m):
    """``Phi^T Phi``, ``(Phi L_j)^T Phi`` and ``(Phi L_j)^T (Phi L_i)``."""
    S = len(moments)
    one, two = _upper(K)
    full = np.empty((S, K, K, moments.shape[2]))
    full[:, one, two] = moments
    full[:, two, one] = moments
    i, j = _upper(m)
    second = np.empty((S, K, K, m, m))
    second[..., i, j] = full[..., 1 + m :]
    second[..., j, i] = full[..., 1 + m :]
    return full[..., 0], full[..., 1 : 1 + m], second


def _unit_inverse(gram):
    """Inverse of the Gram matrix of the terms, scaled to a unit diagonal first."""
    K = gram.shape[-1]
    diagonal = np.einsum("skk->sk", gram)
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-300))
    scaled = gram * unit[:, :, None] * unit[:, None, :]
    inverse = np.linalg.inv(scaled + _RIDGE * np.eye(K))
    return inverse * unit[:, :, None] * unit[:, None, :]


def _normal(coef, first, second, inverse):
    """``D^T (I - Phi Phi^+) D`` with ``D_kj = c_k Phi_k L_j``, and ``Phi^+ D``."""
    S, K = coef.shape
    m = first.shape[-1]
    # D^T Phi: [s, k, j, l]
    cross = coef[:, :, None, None] * first.transpose(0, 1, 3, 2)
    cross = cross.reshape(S, K * m, K)
    outer = coef[:, :, None] * coef[:, None, :]
    full = second * outer[..., None, None]
    full = full.transpose(0, 1, 3, 2, 4).reshape(S, K * m, K * m)
    follow = inverse @ cross.transpose(0, 2, 1)
    return full - cross @ follow, follow


def squared_state(rows, B, odd=None):
    """Solve for the coefficients of least squares and linearise there.

    Parameters
    ----------
    rows : Rows
    B : ndarray of shape (n_starts, n_terms, n_features)
    odd : ndarray of the same shape, default=None
        1 where a negative input makes the term negative.

    Returns
    -------
    State
    """
    S, K, m = B.shape
    shift = rows.shift(B)
    chunks = _chunks(rows, S, K)
    keep = S * K * rows.n <= _KEEP
    kept, moments, target = [], 0.0, 0.0
    for chunk in chunks:
        values = rows.terms(B, shift, odd, chunk)
        weight = rows.weight[chunk]
        moments = moments + _pair_moments(values, weight, rows.columns(chunk))
        target = target + values @ (weight * rows.y[chunk])
        if keep:
            kept.append(values)
    gram, first, second = _unpacked(moments, K, m)
    inverse = _unit_inverse(gram)
    coef = np.einsum("skl,sl->sk", inverse, target)
    for last in (False, True):  # once more from the residuals: no squared condition
        rss, left, slope = 0.0, 0.0, 0.0
        for c, chunk in enumerate(chunks):
            values = kept[c] if keep else rows.terms(B, shift, odd, chunk)
            residual = rows.y[chunk] - np.einsum("sk,skn->sn", coef, values)
            weighted = residual * rows.weight[chunk]
            if last:
                rss = rss + np.einsum("sn,sn->s", residual, weighted)
                slope = slope + (values * weighted[:, None]) @ rows.L[chunk]
            else:
                left = left + np.einsum("skn,sn->sk", values, weighted)
        if not last:
            coef = coef + np.einsum("skl,sl->sk", inverse, left)
    normal, follow = _normal(coef, first, second, inverse)
    gradient = (coef[:, :, None] * slope).reshape(S, K * m)
    diagonal = np.einsum("skk->sk", gram)
    size = np.sqrt((coef * coef * diagonal).max(axis=1))
    follow = np.concatenate([np.zeros((S, K, 1)), follow], axis=2)
    fine = np.isfinite(coef).all(axis=1) & (diagonal > 1e-290).all(axis=1)
    rss = np.where(fine & np.isfinite(rss), rss, np.inf)
    return State(B, coef, shift, rss, normal, gradient, size, follow)


def log_state(rows, B, coef, shift, odd=None):
    """Linearise ``log y - log z`` at given exponents and coefficients.

    Parameters
    ----------
    rows : Rows
        With y > 0.
    B : ndarray of shape (n_starts, n_terms, n_features)
    coef, shift : ndarray of shape (n_starts, n_terms)
        The coefficients are those of the terms divided by ``exp(shift)``.
    odd : ndarray of the same shape as `B`, default=None

    Returns
    -------
    State
        With an infinite ``rss`` where z is not positive at a row.
    """
    S, K, m = B.shape
    new = rows.shift(B)
    with np.errstate(over="ignore", invalid="ignore"):
        coef = coef * np.exp(new - shift)
    moments = rss = left = slope = 0.0
    fine = np.isfinite(coef).all(axis=1)
    coef = np.where(np.isfinite(coef), coef, 1.0)
    for chunk in _chunks(rows, S, K):
        values = rows.terms(B, new, odd, chunk)
        z = np.einsum("sk,skn->sn", coef, values)
        positive = z > 1e-290
        fine &= positive.all(axis=1)
        z = np.where(positive, z, 1.0)
        residual = np.log(rows.y[chunk]) - np.log(z)
        weight = rows.weight[chunk]
        values /= z[:, None]
        moments = moments + _pair_moments(values, weight, rows.columns(chunk))
        weighted = residual * weight
        rss = rss + np.einsum("sn,sn->s", residual, weighted)
        left = left + np.einsum("skn,sn->sk", values, weighted)
        slope = slope + (values * weighted[:, None]) @ rows.L[chunk]
    gram, first, second = _unpacked(moments, K, m)
    inverse = _unit_inverse(gram)
    normal, follow = _normal(coef, first, second, inverse)
    lead = np.einsum("skl,sl->sk", inverse, left)
    gradient = (coef[:, :, None] * slope).reshape(S, K * m)
    # The residual is not orthogonal to the terms here: project it.
    cross = coef[:, :, None, None] * first.transpose(0, 1, 3, 2)
    gradient -= np.einsum("sjl,sl->sj", cross.reshape(S, K * m, K), lead)
    diagonal = np.einsum("skk->sk", gram)
    size = np.sqrt((coef * coef * diagonal).max(axis=1))
    fine &= np.isfinite(rss)
    rss = np.where(fine, rss, np.inf)
    follow = np.concatenate([lead[:, :, None], follow], axis=2)
    return State(B, coef, new, rss, normal, gradient, size, follow)


def _damped_step(normal, gradient, free, damping):
    """Solve ``(N + damping * diag N) step = gradient`` in the free exponents."""
    diagonal = np.einsum("sii->si", normal)
    floor = 1e-12 * np.abs(diagonal).max(axis=1, keepdims=True) + 1e-300
    diagonal = np.maximum(diagonal, floor)
    unit = 1 / np.sqrt(diagonal)
    scaled = normal * unit[:, :, None] * unit[:, None, :]
    both = free[:, :, None] & free[:, None, :]
    scaled = np.where(both, scaled, 0.0)
    index = np.arange(scaled.shape[1])
    scaled[:, index, index] = 1 + damping[:, None]
    right = np.where(free, gradient * unit, 0.0)
    return np.linalg.solve(scaled, right[..., None])[..., 0] * unit


def _lasso_step(normal, gradient, free, damping, beta, penalty, sweeps=60):
    """Minimise the quadratic model plus the penalty, one exponent after another."""
    diagonal = np.einsum("sii->si", normal)
    diagonal = np.maximum(
        diagonal, 1e-12 * diagonal.max(axis=1, keepdims=True) + 1e-300
    )
    lifted = normal.copy()
    index = np.arange(normal.shape[1])
    curvature = diagonal * (1 + damping[:, None])
    lifted[:, index, index] = curvature
    step = np.zeros_like(gradient)
    slope = gradient.copy()
    for _ in range(sweeps):
        largest = 0.0
        for j in index:
            at = beta[:, j] + step[:, j]
            aim = at + slope[:, j] / curvature[:, j]
            soft = np.sign(aim) * np.maximum(
                np.abs(aim) - penalty / curvature[:, j], 0.0
            )
            move = np.where(free[:, j], soft - at, 0.0)
            move = (
                np.clip(step[:, j] + move, -_LARGEST_STEP, _LARGEST_STEP) - step[:, j]
            )
            step[:, j] += move
            slope -= lifted[:, :, j] * move[:, None]
            largest = max(largest, float(np.abs(move).max()))
        if largest < 1e-12:
            break
    return step


def minimise(
    rows,
    B,
    *,
    odd=None,
    free=None,
    lower=-8.0,
    upper=8.0,
    loss="squared",
    start=None,
    penalty=0.0,
    max_iter=60,
    tol=1e-6,
    on_step=None,
):
    """Levenberg-Marquardt from several starts at once.

    Parameters
    ----------
    rows : Rows
    B : ndarray of shape (n_starts, n_terms, n_features)
    odd : ndarray of the same shape, default=None
        See ``squared_state``.
    free : ndarray of bool of the same shape, default=None
        False where an exponent stays as it is.
    lower, upper : float or ndarray of shape (n_features,)
        The box of the exponents.
    loss : {"squared", "log"}, default="squared"
    start : (coef, shift), default=None
        For ``loss="log"``: where the coefficients start. None takes those of least
        squares with weights ``1 / y**2``, as far as they give a positive z.
    penalty : float, default=0.0
        Times the sum of the magnitudes of the exponents, added to half the sum of
        squares.
    max_iter : int, default=60
    tol : float, default=1e-6
        A start ends when the objective falls by less than this share in a step.
    on_step : callable, default=None
        Called after every step of the batch; a true value ends the iterations.

    Returns
    -------
    State
    """
    S, K, m = B.shape
    B = np.clip(B, lower, upper)
    free = np.ones((S, K * m), bool) if free is None else free.reshape(S, K * m)
    lower, upper = (
        np.broadcast_to(np.tile(np.broadcast_to(b, m), K), (S, K * m))
        for b in (lower, upper)
    )
    smallest = 1e-26 * rows.yy if loss == "squared" else 1e-28 * rows.weight.sum()

    def state_at(B, index, coef=None, shift=None):
        part = None if odd is None else odd[index]
        if loss == "squared":
            return squared_state(rows, B, part)
        return log_state(rows, B, coef, shift, part)

    def objective(state):
        if not penalty:
            return state.rss
        return state.rss + 2 * penalty * np.abs(state.B).sum(axis=(1, 2))

    every = np.arange(S)
    if loss == "log":
        coef, shift = _relative_coef(rows, B, odd) if start is None else start
        state = state_at(B, every, coef, shift)
    else:
        state = state_at(B, every)
    damping = np.full(S, 1e-2)
    failures = np.zeros(S, int)
    active = every[np.isfinite(state.rss)]
    done, finished = (
        [state.take(np.flatnonzero(~np.isfinite(state.rss)))],
        [every[~np.isfinite(state.rss)]],
    )
    now = state.take(active)
    if not free.any() and loss == "squared":
        return state
    for _ in range(max_iter):
        if not len(active):
            break
        at = now.B.reshape(-1, K * m)
        lo, hi = lower[active], upper[active]
        may = free[active]
        if penalty:
            step = _lasso_step(
                now.normal, now.gradient, may, damping[active], at, penalty
            )
        else:
            stuck = ((at <= lo) & (now.gradient < 0)) | (
                (at >= hi) & (now.gradient > 0)
            )
            step = _damped_step(now.normal, now.gradient, may & ~stuck, damping[active])
        step = np.where(np.isfinite(step), step, 0.0)
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        trial_B = np.clip(at + step, lo, hi)
        step = trial_B - at
        trial_B = trial_B.reshape(-1, K, m)
        coef = shift = None
        if loss == "log":
            follow = now.follow
            move = follow[..., 0] - np.einsum("skj,sj->sk", follow[..., 1:], step)
            coef, shift = now.coef + move, now.shift
        trial = state_at(trial_B, active, coef, shift)
        before, after = objective(now), objective(trial)
        better = after < before
        gain = np.where(better, before - after, 0.0)
        now = _merged(now, trial, better)
        damping[active] = np.where(
            better, np.maximum(damping[active] / 5, 1e-12), damping[active] * 4
        )
        failures[active] = np.where(better, 0, failures[active] + 1)
        still = np.abs(step).max(axis=1, initial=0) < 1e-13
        ends = (
            (better & (gain < tol * before))
            | (failures[active] > 12)
            | (still & ~better)
            | (now.rss <= smallest)
        )
        stop = bool(on_step()) if on_step is not None else False
        if ends.any():
            done.append(now.take(np.flatnonzero(ends)))
            finished.append(active[ends])
            active, now = active[~ends], now.take(np.flatnonzero(~ends))
        if stop:
            break
    done.append(now)
    finished.append(active)
    order = np.argsort(np.concatenate(finished))
    return _joined(done).take(order)


def _relative_coef(rows, B, odd):
    """Coefficients to start the logarithmic loss from; the best ones of one term."""
    shift = rows.shift(B)
    if B.shape[1] == 1:
        log_z = B[:, 0] @ rows.L.T - shift
        left = (np.log(rows.y) - log_z) @ rows.weight / rows.weight.sum()
        return np.exp(left)[:, None], shift
    relative = rows.reweighted(rows.weight / (rows.y * rows.y))
    state = squared_state(relative, B, odd)
    return np.where(np.isfinite(state.coef), state.coef, 1.0), state.shift
