"""The mathematics of DVM-AD: scatters, the bounded pencil, the skeleton."""

import numpy as np
from scipy import linalg


def column_scaling(X, kind):
    """How to centre and scale columns, safe for any finite float64.

    Parameters
    ----------
    X : ndarray of float64 of shape (n, d)
    kind : {"standard", "none"}
        Divide each column by its standard deviation, or all columns by one number
        (which no score depends on).

    Returns
    -------
    unit : ndarray of shape (d,)
        Powers of two, so that ``X / unit`` is exact and of moderate size.
    mean, scale : ndarray of shape (d,)
        Of ``X / unit``.
    slack : ndarray of shape (d,)
        Deviations from the mean (of ``X / unit``) up to this are rounding of a
        constant column and count as none; 0 for other columns.
    """
    largest = np.abs(X).max(0)
    unit = np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - 1)
    if kind == "none":
        unit[:] = unit.max()
    U = X / unit
    constant = U.min(0) == U.max(0)
    mean = np.where(constant, U[0], U.mean(0))
    deviation = U - mean
    spread = np.sqrt(np.einsum("ij,ij->j", deviation, deviation) / len(U))
    constant |= spread <= 10 * np.finfo(float).eps * np.abs(mean)
    slack = np.where(constant, np.abs(deviation).max(0), 0.0)
    slack = np.maximum(slack, constant * 10 * np.finfo(float).eps * np.abs(mean))
    if kind == "none":
        total = np.sqrt(np.mean(spread**2))
        scale = np.full(len(mean), total if total > 0 else 1.0)
    else:
        with np.errstate(over="ignore"):
            one = np.minimum(1 / unit, np.finfo(float).max)  # 1 in the caller's unit
        scale = np.where(constant, one, spread)
    return unit, mean, scale, slack


def apply_scaling(X, scaling):
    """``(X - mean) / scale``, saturating at 1e300."""
    unit, mean, scale, slack = scaling
    with np.errstate(over="ignore", under="ignore"):
        Z = X / unit
        Z -= mean
        if slack.any():
            Z[np.abs(Z) <= slack] = 0.0
        Z /= scale
    return np.clip(Z, -1e300, 1e300, out=Z)


def local_scatter(Z, neighbours):
    """Half the mean outer product of the differences to the nearest rows."""
    S = np.zeros((Z.shape[1], Z.shape[1]))
    for column in neighbours.T:
        E = Z - Z[column]
        S += E.T @ E
    return S / (2 * neighbours.size)


def reference_scatter(Z, reference):
    """Mean outer product of the rows plus that of one reference point, 1/(n+1)."""
    n = len(Z)
    return Z.T @ Z / n + np.outer(reference, reference) / (n + 1)


def bounded_pencil(within, total):
    """Solve ``within w = rho (within + total) w``; the spectrum lies in [0, 1].

    Parameters
    ----------
    within : ndarray of shape (d, d)
        Symmetric positive definite.
    total : ndarray of shape (d, d)
        Symmetric positive semidefinite.

    Returns
    -------
    rho : ndarray of shape (d,)
        Ascending: from directions along which neighbours agree and the whole spreads
        (structure-preserving) to those that hold local noise only (compressive).
    P : ndarray of shape (d, d)
        Columns scaled so that ``P.T @ within @ P`` is the identity. Distances in
        ``Z @ P`` are those of the metric ``inv(within)``, whatever `total` is.
    """
    # `total` may be larger by more than float64 resolves, so `within` is whitened by
    # itself and not by the sum of both: then no distance depends on `total`.
    size, axes = linalg.eigh(within)
    white = axes / np.sqrt(np.maximum(size, size[-1] * np.finfo(float).eps))
    spread, theta = linalg.eigh(white.T @ total @ white)
    rho = 1 / (1 + np.maximum(spread[::-1], 0.0))
    P = white @ theta[:, ::-1]
    # Signs are arbitrary: make the largest entry of a direction positive.
    P *= np.sign(P[np.abs(P).argmax(0), np.arange(P.shape[1])])
    return rho, P


def learn_metric(Z, neighbours, reference, ridge):
    """Directions in which the neighbourhoods of the rows are round.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    neighbours : ndarray of int of shape (n, K)
    reference : ndarray of shape (d,)
    ridge : float
        Added to the local scatter, as a share of its mean eigenvalue.

    Returns
    -------
    rho, P
        As of ``bounded_pencil``, of the local against the reference scatter.
    """
    n, d = Z.shape
    basis = None
    if d > n + 1:  # all scatter is in the span of the rows and the reference
        basis = linalg.qr(np.vstack([Z, reference]).T)[0]
        Z, reference = Z @ basis[:, : n + 1], reference @ basis[:, : n + 1]
    within = local_scatter(Z, neighbours)
    ridge = ridge * (np.trace(within) / d or 1.0)
    within[np.diag_indices_from(within)] += ridge
    rho, P = bounded_pencil(within, reference_scatter(Z, reference))
    if basis is not None:
        rho = np.append(rho, np.ones(d - n - 1))
        outside = basis[:, n + 1 :] / np.sqrt(ridge)
        P = np.hstack([basis[:, : n + 1] @ P, outside])
    return rho, P


def reference_ratio(Z, reference):
    """The one eigenvalue below 1 of within against total scatter, for one reference.

    With S_T = S_W + c v v', v = reference - mean and c = n / (n + 1), the spectrum of
    pinv(S_T) S_W on the range of S_T is 1 except for ``1 - c v' pinv(S_T) v``.
    """
    n, d = Z.shape
    mean = Z.mean(0)
    v = np.sqrt(n / (n + 1)) * (reference - mean)
    A = np.vstack([Z - mean, v])  # S_T = A'A; sought is the leverage of its last row
    if d <= n:
        leverage = v @ linalg.pinvh(A.T @ A) @ v
    else:
        gram = A @ A.T
        leverage = gram[-1] @ linalg.pinvh(gram)[:, -1]
    return float(np.clip(1 - leverage, 0.0, 1.0))


def skeleton_distances(Di, Dj, L, penalty):
    """Squared distance to the nearest penalised point of an edge (i, j).

    The minimum over t in [0, 1] of ``(1-t) Di + t Dj - penalty t (1-t) L``, where
    Di, Dj are the squared distances to its ends and L > 0 its squared length. With
    penalty 1 it is the distance to the segment; with less, inner points are farther
    the longer the edge.
    """
    weight = penalty * L
    t = np.clip((Di - Dj + weight) / (2 * weight), 0.0, 1.0)
    return np.maximum((1 - t) * Di + t * Dj - weight * (t * (1 - t)), 0.0)


class Graph:
    """Edges from each row to its nearest rows.

    Parameters
    ----------
    neighbours : ndarray of int of shape (n, K)
        Nearest first.
    squared : ndarray of float64 of shape (n, K)
        Squared lengths. Edges of length 0 are never used.
    """

    def __init__(self, neighbours, squared):
        small = len(neighbours) <= np.iinfo(np.int32).max
        self.neighbours = neighbours.astype(np.int32 if small else np.int64)
        self.squared = squared

    def typical(self):
        """The median of the distances to the nearest row that are positive, or 1."""
        first = self.squared[:, 0]
        first = first[first > 0]
        return float(np.sqrt(np.median(first))) if len(first) else 1.0

    @property
    def edges(self):
        """Undirected, unique, longer than 0: (i, j, squared length), i < j."""
        n, K = self.neighbours.shape
        i = np.repeat(np.arange(n), K)
        j, L = self.neighbours.ravel().astype(np.int64), self.squared.ravel()
        keep = L > 0
        i, j, L = i[keep], j[keep], L[keep]
        key = np.minimum(i, j) * n + np.maximum(i, j)
        _, first = np.unique(key, return_index=True)
        i, j = i[first], j[first]
        return np.minimum(i, j), np.maximum(i, j), L[first]

    def extended(self, of_new, to_new, k):
        """The graph after rows were added.

        Parameters
        ----------
        of_new : (neighbours, squared), each of shape (m, k)
            Of the new rows among all others.
        to_new : (neighbours, squared), each with n rows
            Of the old rows among the new ones, counted from 0.
        k : int
            The degree of the result.
        """
        squared = np.hstack([self.squared, to_new[1]])
        neighbours = np.hstack([self.neighbours, to_new[0] + len(self.neighbours)])
        order = np.argsort(squared, axis=1, kind="stable")[:, :k]  # ties: old first
        return Graph(
            np.concatenate([np.take_along_axis(neighbours, order, 1), of_new[0]]),
            np.concatenate([np.take_along_axis(squared, order, 1), of_new[1]]),
        )
