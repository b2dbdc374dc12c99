"""Rows in an order of their own, each of them once."""

import numpy as np


def merge_rows(X, y, weight):
    """Equal rows with equal targets as one, with the sum of their weights.

    Sorted, so that neither the order of the rows nor whether a row has the weight k
    or is there k times makes a difference, not even by rounding.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of int or float of shape (n_samples,)
    weight : ndarray of shape (n_samples,)

    Returns
    -------
    X, y, weight : ndarrays
        Copies, of as many rows as there are different ones.
    first : ndarray of int
        Where each of them is found in the input.
    """
    n, m = X.shape
    order = np.argsort(X[:, 0], kind="stable")
    tie = X[order[1:], 0] == X[order[:-1], 0]
    if tie.any():
        # Those that share their first value are ordered by the bytes of the others,
        # which is as good an order as any and much the fastest.
        group = np.concatenate([[0], np.cumsum(~tie)])
        at = np.flatnonzero(np.append(tie, False) | np.append(False, tie))
        rows = order[at]
        table = np.empty((len(at), m + 2), dtype=np.uint64)
        table[:, 0] = group[at].astype(">u8").view(np.uint64)  # so it stays the first
        table[:, 1:m] = (X[rows, 1:] + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        table[:, m] = (y[rows] + 0.0).view(np.uint64)
        table[:, m + 1] = weight[rows].astype(np.float64).view(np.uint64)
        keys = table.view(np.dtype((np.void, 8 * (m + 2)))).ravel()
        order[at] = rows[np.argsort(keys, kind="stable")]
    X, y, weight = X[order], y[order], weight[order]
    X += 0.0
    new = np.ones(n, dtype=bool)
    near = np.flatnonzero(tie)
    new[near + 1] = (X[near + 1] != X[near]).any(axis=1) | (y[near + 1] != y[near])
    if not new.all():
        starts = np.flatnonzero(new)
        X, y, order = X[starts], y[starts], order[starts]
        weight = np.add.reduceat(weight, starts)
    return X, y, weight, order
