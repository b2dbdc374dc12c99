"""Wrong labels, an exact number of them."""

from numbers import Real

import numpy as np
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from .._validation import Interval, StrOptions, as_host, check_groups, validate_params


@validate_params(
    {
        "y": ["array-like"],
        "noise_rate": [Interval(Real, 0, 1, closed="both")],
        "kind": [StrOptions({"symmetric", "pairflip"})],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_noisy_labels(y, noise_rate, *, kind="symmetric", random_state=None):
    """Replace an exact number of class labels by wrong ones.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels: integers, booleans or strings. It is not changed.
    noise_rate : float
        Share of wrong labels, in [0, 1]: exactly ``round(noise_rate * n_samples)``
        rows, drawn without replacement, get a label other than their own.
    kind : {"symmetric", "pairflip"}, default="symmetric"
        - symmetric: the wrong label is drawn uniformly from the other classes;
        - pairflip: it is the next class in sorted order, after the last the first.
    random_state : int, RandomState instance or None, default=None
        Governs which rows are chosen and which labels they get.

    Returns
    -------
    y_noisy : ndarray of shape (n_samples,)
        Of the dtype of `y`.
    flipped : ndarray of bool of shape (n_samples,)
        Which labels are wrong.

    See Also
    --------
    make_anomalies : Tables with anomalies.

    Notes
    -----
    The two kinds are those usual in the literature on label noise [1]_. There each
    label flips by itself with probability `noise_rate`; here the number is exact, so
    that a comparison over seeds has one source of variance less.

    References
    ----------
    .. [1] B. Han, Q. Yao, X. Yu, G. Niu, M. Xu, W. Hu, I. Tsang, M. Sugiyama,
       "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy
       Labels", NeurIPS 2018, arXiv:1804.06872.

    Examples
    --------
    >>> from skmethods.datasets import make_noisy_labels
    >>> y = ["cat", "dog", "cat", "owl", "dog"]
    >>> y_noisy, flipped = make_noisy_labels(y, 0.4, kind="pairflip", random_state=0)
    >>> y_noisy.tolist()
    ['dog', 'dog', 'dog', 'owl', 'dog']
    >>> flipped.tolist()
    [True, False, True, False, False]
    """
    given = y
    y = column_or_1d(as_host(y))
    if isinstance(given, (list, tuple)) and y.dtype.kind == "U":
        others = {type(label).__name__ for label in given if not isinstance(label, str)}
        if others:  # numpy has made strings of them
            raise TypeError(
                f"y mixes strings with {', '.join(sorted(others))}. Use labels of one "
                "type."
            )
    if len(y) == 0:
        raise ValueError("y is empty. Pass at least one label.")
    classes, codes = check_groups(y, len(y), name="y")  # refuses missing labels
    check_classification_targets(y)
    n_flips = round(noise_rate * len(y))
    if n_flips and len(classes) < 2:
        raise ValueError(
            f"y has one class only, {classes[0]}, so no label can be made wrong. "
            "Pass labels of two or more classes, or noise_rate=0."
        )
    rng = check_random_state(random_state)
    rows = rng.permutation(len(y))[:n_flips]
    if kind == "pairflip" or len(classes) < 2:
        shift = 1
    else:
        shift = rng.randint(1, len(classes), size=n_flips)
    codes[rows] = (codes[rows] + shift) % len(classes)
    flipped = np.zeros(len(y), dtype=bool)
    flipped[rows] = True
    return classes[codes], flipped
