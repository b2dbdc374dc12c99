"""Which exponents are simple fractions: description length, rounding, descent.

A law is as good as it is short: ``n log(RSS / n)`` for what it leaves over, ``log n``
for each coefficient, little for an exponent that is a simple fraction and
``log n + 1`` for one that is a real number. So an exponent is rounded if that costs
less in fit than it saves, and a term is added if it pays for its numbers.
"""

from typing import NamedTuple

import numpy as np

from ._code_length import (
    EACH_EXPONENT,
    REAL_PRIOR,
    description_length,
    fraction_cost,
    real_cost,
)
from ._varpro import minimise, row_chunks

#: Residuals below this share of the target are rounding errors.
FLOOR = 1e-24
#: Rows that the descent ranks its moves on.
_RANK_ROWS = 4000
_CANCEL = 1e4
#: Correlation of logarithms from which exponents are moved between columns.
_ALIKE = 0.9
_POWERS = np.array([1 / 3, 1 / 2, 2 / 3, 1, 3 / 2, 2, 3])


class Law(NamedTuple):
    """A signomial with what is known about it.

    Attributes
    ----------
    B : ndarray of shape (n_terms, n_features)
    snapped : ndarray of bool of shape (n_terms, n_features)
        Which exponents are fractions by choice.
    odd : ndarray of shape (n_terms, n_features) or None
    coef, shift : ndarray of shape (n_terms,)
        The coefficients are those of the terms divided by ``exp(shift)``.
    rss : float
    mdl : float
        Description length; infinite for a law that is refused.
    normal : ndarray
        As in ``State``.
    error : float
        Sum of squared residuals by the original weights; `rss` is by those of the fit.
    proportional : bool
        The residuals are described in fewer bits as noise proportional to the law.
    """

    B: np.ndarray
    snapped: np.ndarray
    odd: np.ndarray | None
    coef: np.ndarray
    shift: np.ndarray
    rss: float
    mdl: float
    normal: np.ndarray
    error: float = np.inf
    proportional: bool = False


class Setting:
    """What all steps of one search share.

    Parameters
    ----------
    rows : Rows
    n : float
        Sum of the weights.
    loss : {"auto", "squared", "log"}
        "auto" may leave the weights that suit the noise in place.
    exponents : {"auto", "real", "rational"}
    lower, upper : ndarray of shape (n_features,)
        The box of the exponents.
    whole : ndarray of bool of shape (n_features,)
        Columns with negative inputs, whose exponents are integers.
    admissible : callable, default=None
        ``admissible(B, coef, shift)`` says whether the law has a value at the rows, and
        whether floats can hold its coefficients.
    l1 : float, default=0.0
        Penalty of real exponents, as in ``ECSELRegressor``.

    Attributes
    ----------
    unwritable : float
        The least description length of a law whose coefficients no float holds.
    """

    def __init__(
        self,
        rows,
        n,
        loss,
        exponents,
        lower,
        upper,
        whole,
        admissible=None,
        l1=0.0,
    ):
        self.n, self.exponents, self.strict = n, exponents, loss != "auto"
        self.loss = "log" if loss == "log" else "squared"
        self.lower, self.upper, self.whole = lower, upper, whole
        self.admissible, self.l1 = admissible, l1
        self.unwritable = np.inf
        self._alike = None
        self.real_cost = real_cost(n, 0.0 if exponents == "real" else REAL_PRIOR)
        self.base = rows
        self._use(rows)

    def on(self, rows, n):
        """The same setting for other rows, whose weights add up to n."""
        return Setting(
            rows,
            n,
            "auto" if self.loss == "squared" else "log",
            self.exponents,
            self.lower,
            self.upper,
            self.whole,
            self.admissible,
            self.l1,
        )

    @property
    def penalty(self):
        """Of the exponents, for ``minimise``."""
        return self.l1 * self.target / 2

    def _use(self, rows):
        self.rows, self.relative = rows, rows is not self.base
        self._sample = None
        self.target = rows.weight.sum() if self.loss == "log" else rows.yy
        self.floor = FLOOR * self.target

    def weigh(self, law=None):
        """Fit with weights ``1 / z**2`` of a law from now on; None: equal ones."""
        if law is None:
            self._use(self.base)
            return
        chunks = row_chunks(self.base, len(law.B))
        self.weigh_by(np.concatenate([self.values(law, chunk) for chunk in chunks]))

    def weigh_by(self, z):
        """Fit with weights ``1 / z**2`` from now on; equal ones if z is zero."""
        rows = self.base
        z = z / (np.abs(z).max() or 1.0)
        if not z.any():
            z = np.ones(len(z))
        size = np.maximum(np.abs(z), 1e-6 * np.sqrt(np.mean(z * z)))
        weight = rows.weight / size**2
        self._use(rows.reweighted(weight * (rows.weight.sum() / weight.sum())))

    def exponent_cost(self, B, snapped):
        """Cost of all exponents of a law, or of each in a batch of laws."""
        whole = np.where(snapped, 2 * fraction_cost(B), self.real_cost)
        return whole.sum(axis=(-2, -1)) + EACH_EXPONENT * B.shape[-2] * B.shape[-1]

    def parity(self, B):
        """Which exponents of columns with negative inputs are odd, or None."""
        if not self.whole.any():
            return None
        return np.where(self.whole, np.abs(np.round(B)) % 2, 0.0)

    def law(self, state, snapped, odd, at=0):
        """One start of a state as a law."""
        B, coef, shift = state.B[at], state.coef[at], state.shift[at]
        rss = float(state.rss[at])
        law = Law(B, snapped, odd, coef, shift, rss, np.inf, state.normal[at])
        unit = self.rows.weight.sum() if self.loss == "log" else self.target
        if not np.isfinite(rss) or state.size[at] > _CANCEL * np.sqrt(unit):
            return law
        valid, writable = True, True
        if self.admissible is not None:
            valid, writable = self.admissible(B, coef, shift)
        if not valid:
            return law
        fit, error, proportional = self._fit_length(law)
        cost = self.exponent_cost(B, snapped)
        mdl = fit + description_length(self.n, self.n, len(B), cost, 0.0)
        if not writable:
            self.unwritable = min(self.unwritable, float(mdl))
            return law
        return law._replace(
            mdl=float(mdl), error=float(error), proportional=proportional
        )

    def _fit_length(self, law):
        """``n log(RSS / n)``, RSS, and whether the noise is better called proportional.

        Least squares under noise that is proportional to the law fits extra terms to
        the few rows where it is largest; the description length must not reward
        that. So it takes the shorter of two descriptions of the residuals: noise of
        constant size, and of the size of the law.
        """
        rows, total = self.base, self.base.weight.sum()
        if self.loss == "log":
            return self.n * np.log(max(law.rss, self.floor) / total), law.rss, False
        rss = relative = logs = 0.0
        for chunk in row_chunks(rows, len(law.B)):
            z = self.values(law, chunk)
            weight, left = rows.weight[chunk], rows.y[chunk] - z
            size = np.maximum(np.abs(z), 1e-150)
            rss += weight @ left**2
            relative += weight @ (left / size) ** 2
            logs += weight @ np.log(size)
        additive = np.log(max(rss, FLOOR * rows.yy) / total)
        other = np.log(max(relative, FLOOR * total) / total) + 2 * logs / total
        # They are equal for a constant law, up to rounding.
        proportional = bool(np.isfinite(other) and other < additive - 1e-9)
        return self.n * (other if proportional else additive), rss, proportional

    def values(self, law, chunk):
        """The law at some rows."""
        odd = None if law.odd is None else law.odd[None]
        return law.coef @ self.base.terms(law.B[None], law.shift[None], odd, chunk)[0]

    def information(self, law):
        """``J^T J`` in units of the scatter of the exponents, whatever the noise.

        The inverse of the sandwich estimate of the covariance times the residual
        variance: equal to ``law.normal`` under noise of constant size.
        """
        if law.rss <= 1e-18 * self.target or self.loss == "log":
            return law.normal
        # Columns that hardly vary, and terms that cancel, leave rounding errors only.
        with np.errstate(all="ignore"):
            try:
                found = self._sandwich(law)
            except np.linalg.LinAlgError:
                return law.normal
        return found if np.isfinite(found).all() else law.normal

    def _sandwich(self, law):
        rows = self.rows
        K, m = law.B.shape
        odd = None if law.odd is None else law.odd[None]
        gram = cross = meat = follow = 0.0
        for second in (False, True):
            for chunk in row_chunks(rows, K * (m + 1)):
                values = rows.terms(law.B[None], law.shift[None], odd, chunk)[0].T
                weight = rows.weight[chunk, None]
                D = (values * law.coef)[:, :, None] * rows.L[chunk][:, None]
                D = D.reshape(-1, K * m)
                if not second:
                    gram = gram + values.T @ (weight * values)
                    cross = cross + values.T @ (weight * D)
                else:
                    D -= values @ follow
                    residual = rows.y[chunk] - values @ law.coef
                    # Base weights count rows, the others are of the residuals.
                    each = weight[:, 0] ** 2 / self.base.weight[chunk] * residual**2
                    meat = meat + (D * each[:, None]).T @ D
            if not second:
                unit = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
                scaled = gram * unit[:, None] * unit + 1e-13 * np.eye(K)
                follow = np.linalg.solve(scaled, cross * unit[:, None]) * unit[:, None]
        meat /= law.rss / rows.weight.sum()
        size = np.sqrt(np.maximum(np.diag(law.normal), 1e-300))
        size = np.maximum(size, 1e-8 * size.max())
        bread = law.normal / size[:, None] / size
        filling = meat / size[:, None] / size
        filling[np.diag_indices(K * m)] += 1e-10
        # (N^-1 M N^-1)^-1 = N M^-1 N
        inner = bread @ np.linalg.solve(filling, bread)
        return (inner + inner.T) / 2 * size[:, None] * size

    def refit(self, B, snapped, odd=None, start=None, max_iter=30):
        """The law with these exponents, the free ones and the coefficients refitted."""
        odd = self.parity(B) if odd is None else odd
        state = minimise(
            self.rows,
            B[None],
            odd=None if odd is None else odd[None],
            free=~snapped[None],
            lower=np.minimum(self.lower, B.min(axis=0)),
            upper=np.maximum(self.upper, B.max(axis=0)),
            loss=self.loss,
            start=start,
            penalty=self.penalty,
            max_iter=max_iter,
            tol=1e-12,
        )
        return self.law(state, snapped, odd)

    @property
    def sampled_weight(self):
        """Sum of the weights of the rows that rank moves."""
        return self._ranking().weight.sum()

    def _ranking(self):
        if self._sample is None:
            rows = self.rows
            if rows.n > _RANK_ROWS:
                take = np.linspace(0, rows.n - 1, _RANK_ROWS).astype(int)
                rows = rows.subset(take)
            self._sample = rows
        return self._sample

    def alike(self):
        """``(j, i, s)`` for columns of which ``L_j`` is nearly ``s L_i``, s simple."""
        if self._alike is None:
            self._alike = like_columns(self._ranking().L)
        return self._alike

    def ranking_rows(self, law):
        """A part of the rows with target and weights that rank moves from `law`.

        For the logarithmic loss: the least-squares problem that is its first-order
        model at the law.
        """
        rows = self._ranking()
        if self.loss == "squared":
            return rows.L, rows.y, rows.weight, rows.negative
        odd = None if law.odd is None else law.odd[None]
        z = law.coef @ rows.terms(law.B[None], law.shift[None], odd, slice(None))[0]
        z = np.maximum(z, 1e-140)  # its square is not 0
        y = z * (1 + np.log(rows.y) - np.log(z))
        return rows.L, y, rows.weight / (z * z), rows.negative


def like_columns(L):
    """Pairs of strongly correlated columns, and the power that turns one to the other.

    Parameters
    ----------
    L : ndarray of shape (n_samples, n_features)

    Returns
    -------
    list of (j, i, s)
        ``L_j`` is nearly ``s L_i`` up to a constant, s a simple fraction; for each j
        the most correlated i.
    """
    L = L - L.mean(axis=0)
    size = np.sqrt((L * L).sum(axis=0))
    varies = np.flatnonzero(size > 1e-12 * size.max(initial=0))
    unit = L[:, varies] / size[varies]
    correlation = unit.T @ unit
    np.fill_diagonal(correlation, 0.0)
    found = []
    for a, j in enumerate(varies):
        for b in np.argsort(-np.abs(correlation[a]), kind="stable")[:1]:
            i = varies[b]
            ratio = size[j] / size[i]
            power = _POWERS[np.abs(np.log(_POWERS / ratio)).argmin()]
            if np.abs(correlation[a, b]) > _ALIKE and abs(np.log(power / ratio)) < 0.2:
                found.append((j, i, np.sign(correlation[a, b]) * power))
    return found


def nearby_fractions(beta, lower, upper, whole, odd=None):
    """Simple fractions near each exponent.

    Parameters
    ----------
    beta, lower, upper : ndarray of shape (n,)
    whole : ndarray of bool of shape (n,)
        Integers only there, of the parity of `odd`.
    odd : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of shape (n, n_candidates)
        NaN where there is no candidate.
    """
    down = np.floor(beta)
    found = [np.zeros_like(beta), down, down + 1]
    for q in (2, 3):
        p = np.round(beta * q)
        found.append(np.where(np.abs(p) <= 6, p / q, np.nan))
    found += [down - 1, down + 2]
    found = np.stack(found, axis=1)
    found[:, 5:][~whole] = np.nan
    inside = (found >= lower[:, None]) & (found <= upper[:, None])
    if whole.any():
        right = np.abs(found) % 2 == (0 if odd is None else odd[:, None])
        inside &= ~whole[:, None] | right
    return np.where(inside, found, np.nan)


def rounding_path(law, setting, whole_only=False):
    """Fix one exponent after another at a fraction, the cheapest in sum first.

    Each time the others follow as the quadratic model of the sum of squares says, so
    correlated exponents are rounded together sensibly.

    Returns
    -------
    list of (B, snapped)
        The point of the path with the least description length, and its end. None
        where the covariance has no finite value.
    """
    K, m = law.B.shape
    tile = lambda a: np.tile(a, K)  # noqa: E731
    lower, upper, whole = (
        tile(a) for a in (setting.lower, setting.upper, setting.whole)
    )
    odd = None if law.odd is None else law.odd.ravel()
    beta, snapped = law.B.ravel().copy(), law.snapped.ravel().copy()
    n, floor = setting.n, setting.floor
    normal = setting.information(law)
    diagonal = np.einsum("ii->i", normal)
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-14 * diagonal.max(initial=0) or 1.0))
    with np.errstate(all="ignore"):
        scaled = normal * unit[:, None] * unit
    if not np.isfinite(scaled).all():
        return []  # nothing is known about how the exponents go together
    lost, length, best = 0.0, 0.0, (0.0, None)
    free = np.flatnonzero(~snapped)
    if len(free):
        values, vectors = np.linalg.eigh(scaled[np.ix_(free, free)])
        values = np.maximum(values, 1e-11 * values[-1])
        covariance = (vectors / values) @ vectors.T
    while len(free):
        near = nearby_fractions(
            beta[free],
            lower[free],
            upper[free],
            whole[free],
            None if odd is None else odd[free],
        )
        variance = np.maximum(np.diag(covariance), 1e-12)
        away = (near - beta[free, None]) / unit[free, None]
        more = np.minimum(np.abs(away), 1e100) ** 2 / variance[:, None]
        more[np.isnan(near)] = np.nan
        here = max(law.rss + lost, floor)
        change = n * np.log(np.maximum(law.rss + lost + more, floor) / here)
        change += (
            2 * fraction_cost(np.where(np.isnan(near), 0, near)) - setting.real_cost
        )
        change[np.isnan(near)] = np.inf
        if whole_only:
            change[~whole[free]] = np.inf
        at = int(np.argmin(change))
        i, g = divmod(at, change.shape[1])
        if not np.isfinite(change[i, g]):
            break
        beta[free] += covariance[:, i] / variance[i] * away[i, g] * unit[free]
        beta[free] = np.clip(beta[free], lower[free], upper[free])
        beta[free[i]] = near[i, g]
        snapped[free[i]] = True
        lost += more[i, g]
        length += change[i, g]
        rest = np.arange(len(free)) != i
        covariance = (
            covariance - np.outer(covariance[:, i], covariance[:, i]) / variance[i]
        )[np.ix_(rest, rest)]
        free = free[rest]
        if length <= best[0]:
            best = length, (beta.copy(), snapped.copy())
    ends = [] if best[1] is None or whole_only else [best[1]]
    if best[1] is None or not best[1][1].all():
        ends.append((beta, snapped))
    return [(np.clip(b, lower, upper).reshape(K, m), s.reshape(K, m)) for b, s in ends]


def _nearest(law, setting, q):
    """All free exponents at the nearest multiple of 1/q."""
    B = np.where(law.snapped, law.B, np.round(q * law.B) / q)
    B = np.where(setting.whole, law.B, B)
    B = np.where((B < setting.lower) | (B > setting.upper), law.B, B)
    return B, law.snapped | (np.isfinite(fraction_cost(B)) & ~setting.whole)


def snap(law, setting):
    """Laws with some or all exponents rounded, refitted.

    Returns
    -------
    list of Law
        The shortest first.
    """
    ways = rounding_path(law, setting)
    # Where the quadratic model is bad, in sums of like terms, this may still be right.
    for q in (1, 2):
        B, snapped = _nearest(law, setting, q)
        if not any(np.array_equal(B, C) for C, _ in ways):
            ways.append((B, snapped))
    found = [refit_from(law, setting, B, snapped) for B, snapped in ways]
    return sorted(found, key=lambda law: law.mdl)


def snap_whole(law, setting):
    """Laws with the exponents of ``setting.whole`` rounded and the others real."""
    ways = rounding_path(law, setting, whole_only=True)
    found = [refit_from(law, setting, B, snapped) for B, snapped in ways]
    return [
        law
        for law in found
        if law.snapped[:, setting.whole].all() and np.isfinite(law.mdl)
    ]


def refit_from(law, setting, B, snapped):
    """``setting.refit``, of a logarithmic loss from the coefficients of `law`."""
    start = None
    if setting.loss == "log" and len(B) == len(law.B):
        shift = setting.rows.shift(B)
        start = (
            law.coef[None] * np.exp(np.clip(shift - law.shift, -300, 300)),
            shift[None],
        )
    again = setting.refit(B, snapped, start=start)
    if start is not None and not np.isfinite(again.rss):
        again = setting.refit(B, snapped)
    return again


def exponent_errors(law, setting):
    """Standard errors of the exponents; NaN for those that are fractions.

    Those of the sandwich estimate with the coefficients projected out, times
    ``sqrt(n / (n - p))`` for p fitted numbers.
    """
    errors = np.full(law.B.size, np.nan)
    free = np.flatnonzero(~law.snapped.ravel())
    left = setting.n - len(free) - len(law.B)
    if len(free) and left > 0:
        normal = setting.information(law)[np.ix_(free, free)]
        if not np.isfinite(normal).all():
            return errors.reshape(law.B.shape)
        diagonal = np.diag(normal)
        # An exponent that nothing depends on has no finite error: NaN as well.
        told = diagonal > 1e-14 * diagonal.max(initial=0)
        free, normal = free[told], normal[np.ix_(told, told)]
        unit = 1 / np.sqrt(diagonal[told])
        scaled = normal * unit[:, None] * unit
        inverse = np.linalg.pinv(scaled, hermitian=True, rcond=1e-14)
        variance = np.maximum(np.diag(inverse), 0) * unit**2
        errors[free] = np.sqrt(law.rss / left * variance)
    return errors.reshape(law.B.shape)
