"""Columns to zero mean and unit variance, in float64, before float32 sees them."""

import numpy as np


def column_scale(X, sample_weight=None):
    """Weighted mean and standard deviation of every column.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive.

    Returns
    -------
    mean, scale : ndarray of float64 of shape (n_columns,)
        The scale of a constant column is 1.
    """
    X = X.astype(np.float64)
    low, high = X.min(axis=0), X.max(axis=0)
    # Divided by its largest magnitude first, no column overflows when squared.
    size = np.maximum(np.abs(low), np.abs(high))
    size[size == 0] = 1.0
    X /= size
    mean = np.average(X, axis=0, weights=sample_weight)
    X -= mean
    scale = np.sqrt(np.average(np.square(X, out=X), axis=0, weights=sample_weight))
    # What is left by rounding is no variance.
    rounding = 4 * np.finfo(np.float64).eps * np.abs(mean)
    constant = (low == high) | (scale <= rounding) | (scale * size == 0)
    mean = np.where(low == high, low, mean * size)
    return mean, np.where(constant, 1.0, scale * size)


def to_float32(X, mean=None, scale=None, *, name="X"):
    """``(X - mean) / scale`` as a new finite float32 array.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
    mean, scale : ndarray of shape (n_columns,), default=None
        None leaves the columns as they are.
    name : str, default="X"
        For messages.

    Raises
    ------
    ValueError
        When a result does not fit into float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if mean is None:
            Z = X.astype(np.float32)
        else:
            Z = ((X - mean) / scale).astype(np.float32)
    finite = np.isfinite(Z)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        how = "" if mean is None else " after standardisation"
        raise ValueError(
            f"{name} holds {X[row, column]:.6g} in row {row}, column {column}, which "
            f"is too large for float32{how}. Remove such values or rescale the column "
            "(standardize=True does it for columns without outliers of that size)."
        )
    return Z
