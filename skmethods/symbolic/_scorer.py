"""EICScorer: numerical sanity of a formula as a scikit-learn score."""

from numbers import Real

import numpy as np
import sklearn
from sklearn.metrics import check_scoring
from sklearn.utils.metadata_routing import MetadataRequest

from .._validation import as_host, check_weights
from ._eic import check_aggregate, check_rows, tape_information
from ._engines import read_formulas

#: A double holds 16 decimal digits: more cannot be lost.
DIGITS = 16.0


class EICScorer:
    """Score a symbolic model by its accuracy and by the digits that it loses.

    A scorer as ``GridSearchCV(scoring=...)`` and ``cross_val_score`` take it.
    It returns ``metric - weight * EIC``, where EIC is the effective information
    criterion of the model's formula at the given rows, in decimal digits. The larger,
    the better.

    Parameters
    ----------
    weight : float, default=1.0
        What one lost digit costs, in units of the metric. With 1.0 a formula that loses
        a digit more must gain all of R2 to be preferred; 0.01 only breaks near ties.
    metric : str, callable or None, default="r2"
        Any scorer or name of a scorer of scikit-learn. None leaves accuracy out:
        the score is ``-weight * EIC``, by which a constant is best.
    aggregate : {"mean", "logmean", "median"} or float in (0, 1), default="logmean"
        How the rows' digits become one number, see `effective_information`.

    See Also
    --------
    effective_information : The criterion itself.
    EICSelectedRegressor : Chooses among the candidates of one fit.

    Notes
    -----
    The formula is read from ``formula()`` (the symbolic estimators of skmethods; a
    model with one formula per class counts as its worst), ``_program`` (gplearn),
    ``model_`` (pyoperon) or ``sympy()`` (PySR). Of a Pipeline it is that of the last
    step, at the rows that the steps before it make of `X`; of a fitted search that of
    its best estimator.

    EIC is cut off at 16 digits, all that a double holds. So a formula that cancels
    exactly, or that has no value at some row, whose criterion is infinite, gets a
    finite score, which searches can rank.

    With metadata routing enabled, ``EICScorer().set_score_request(sample_weight=True)``
    asks for the weights that are given to ``fit`` of a search or to ``cross_validate``.

    *From the paper*: the criterion and its use as an objective beside accuracy. *Ours*:
    the difference as one score, the cut-off, "logmean".

    References
    ----------
    .. [1] Yu, Wang, Ding, Wang, Li, "Beyond Accuracy and Complexity: The Effective
       Information Criterion for Structurally Stable Symbolic Regression",
       International Conference on Machine Learning, 2026, arXiv 2509.21780.

    Examples
    --------
    >>> import numpy as np
    >>> from skmethods import EICScorer
    >>> class Law:
    ...     def __init__(self, text):
    ...         self.text = text
    ...
    ...     def formula(self):
    ...         return self.text
    >>> X = np.linspace(100, 200, 50)[:, None]
    >>> sanity = EICScorer(metric=None)
    >>> print(f"{sanity(Law('1/(sqrt(x0 + 1) + sqrt(x0))'), X):.2f}")
    -0.28
    >>> print(f"{sanity(Law('sqrt(x0 + 1) - sqrt(x0)'), X):.2f}")
    -2.69
    """

    def __init__(self, *, weight=1.0, metric="r2", aggregate="logmean"):
        if not isinstance(weight, Real) or not 0 <= weight < np.inf:
            raise ValueError(
                f"weight must be a finite number from 0 on, got {weight!r}."
            )
        if not (metric is None or isinstance(metric, str) or callable(metric)):
            raise TypeError(
                f"metric must be a scorer, the name of one, or None; got {metric!r}."
            )
        check_aggregate(aggregate)
        self.weight = weight
        self.metric = metric
        self.aggregate = aggregate
        self._asks = None

    def __repr__(self):
        return (
            f"EICScorer(weight={self.weight!r}, metric={self.metric!r}, "
            f"aggregate={self.aggregate!r})"
        )

    def __eq__(self, other):
        if not isinstance(other, EICScorer):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self):
        return hash((self.weight, self.metric, self.aggregate))

    def set_score_request(self, *, sample_weight):
        """Ask for `sample_weight`, or decline it, when metadata is routed.

        Parameters
        ----------
        sample_weight : bool, None or str
            True asks for it, False declines it, None makes giving it an error, and a
            text is the name by which it is given.

        Returns
        -------
        self : object
        """
        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "set_score_request needs metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        request = MetadataRequest(owner=self)  # refuses what is no request
        request.score.add_request(param="sample_weight", alias=sample_weight)
        self._asks = sample_weight
        return self

    def get_metadata_routing(self):
        """Get metadata routing of this object.

        Returns
        -------
        routing : MetadataRequest
        """
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._asks)
        return request

    def _routing_repr(self):
        return repr(self)

    def _accept_sample_weight(self):
        # Asked by scikit-learn's searches over several metrics, without routing.
        return True

    def __call__(self, estimator, X, y=None, sample_weight=None):
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted symbolic model, or a Pipeline that ends in one.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Needed by most metrics; not with ``metric=None``.
        sample_weight : array-like of shape (n_samples,), default=None
            For the metric and for the mean over rows.

        Returns
        -------
        float
        """
        if self.metric is not None and y is None:
            raise ValueError(
                f"metric={self.metric!r} needs y, got None. Pass y, or set "
                "metric=None for EIC alone."
            )
        digits = self._digits(estimator, X, sample_weight)
        score = 0.0
        if self.metric is not None:
            with np.errstate(over="ignore"):
                if sample_weight is not None and np.isinf(
                    np.sum(as_host(sample_weight), dtype=np.float64)
                ):
                    raise ValueError(
                        "sample_weight sums to more than a float holds, which the "
                        "metric cannot average. Rescale it, e.g. to a mean of 1."
                    )
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            scorer = check_scoring(estimator, scoring=self.metric)
            score = float(scorer(estimator, X, y, **weights))
        return score - self.weight * digits

    def _digits(self, estimator, X, sample_weight):
        while hasattr(estimator, "best_estimator_") or hasattr(estimator, "steps"):
            if hasattr(estimator, "best_estimator_"):
                estimator = estimator.best_estimator_
                continue
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator[-1]
        X, names = check_rows(X)
        tapes = read_formulas(estimator, names, X.shape[1])
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, X)
        found = [
            tape_information(tape, X, sample_weight, self.aggregate) for tape in tapes
        ]
        return min(max(found), DIGITS)
