"""The search for a signomial law: where to start, and how many terms."""

from itertools import combinations_with_replacement
from math import comb

import numpy as np

from ._code_length import EACH_EXPONENT
from ._descent import descend, exchange
from ._lattice import snap, snap_whole
from ._varpro import minimise

#: Rows on which starts are screened, at least; and per fitted number.
_SCREEN_ROWS, _ROWS_PER_NUMBER = 300, 8
_PURSUIT_ROWS = 256
_BEAM, _DEPTH = 8, 4
_SPARSE = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
_WHOLE = np.array([-2.0, -1.0, 1.0, 2.0, 3.0, 4.0])
#: With at most so many features there is time for larger exponents.
_FEW_FEATURES = 3
_MORE = np.array([-4.0, -3.0, -2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2, 3, 4, 5, 6])
_MORE_WHOLE = np.array([-4.0, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
#: A law that leaves less than this share of the target over is exact.
EXACT = 1e-20
_KEPT = 3
#: Size of the largest polynomial that is thinned out, and rows for that.
_MONOMIALS, _POLYNOMIAL_ROWS = 36, 400
#: Rows that the form of a law is searched on, and laws that all rows decide between.
_SEARCH_ROWS, _CARRIED = 5_000, 6
#: Where a fit to few digits ends, and by how much a better one may be better.
_LOOSE, _SLACK = 1e-4, 1e-3
#: Largest y over its median beyond which the search starts with relative residuals.
_DECADES = 1e4
#: Rows of exponents that are tried in place of each term.
_EXCHANGED = 20


def constant_law(setting):
    """The law without features (or with the exponents nearest to 0 in the box)."""
    B = np.clip(np.zeros((1, setting.rows.m)), setting.lower, setting.upper)
    return setting.refit(B, np.ones(B.shape, bool))


def spans_decades(setting):
    """Whether y is positive and its largest values are far above all others.

    Least squares would then see those few rows only, whatever the noise.
    """
    y = setting.base.y
    if setting.strict or setting.l1 or not (y > 0).all():
        return False
    return bool(y.max() > _DECADES * np.median(y))


def first_starts(setting):
    """Rows of exponents to start one term from: log-log least squares.

    With negative inputs: for the parities under which most of ``|y|`` has the sign
    of the term, the best first.

    Returns
    -------
    B, odd : ndarray of shape (n_starts, 1, n_features)
        The second is None without negative inputs.
    """
    rows = setting.rows
    y = np.abs(rows.y)
    use = y > 1e-12 * y.max()
    log_y = np.log(y[use])
    # One Gauss-Newton step of the squared loss weighs by y**2.
    weight = rows.weight[use] * (1 if setting.loss == "log" else y[use] ** 2)
    design = np.column_stack([np.ones(len(log_y)), rows.L[use]])
    normal = (design * weight[:, None]).T @ design
    normal += 1e-12 * np.diag(np.diag(normal)) + 1e-300 * np.eye(len(normal))
    right = design.T @ (weight * log_y)
    solution = np.linalg.solve(normal, right)
    left = log_y - design @ solution  # refined, as in the coefficients
    solution += np.linalg.solve(normal, design.T @ (weight * left))
    beta = solution[1:]
    if not setting.whole.any():
        return beta[None, None], None
    columns = np.flatnonzero(setting.whole)[:10]
    patterns = (np.arange(2 ** len(columns))[:, None] >> np.arange(len(columns))) & 1
    # A box with one integer leaves one parity.
    lower, upper = setting.lower[columns], setting.upper[columns]
    possible = (lower < upper) | (patterns == np.abs(lower) % 2)
    patterns = patterns[possible.all(axis=1)]
    signs = 1 - 2 * ((patterns @ rows.negative[:, columns].T) % 2)
    agreement = np.abs(signs @ (rows.weight * rows.y))
    best = np.argsort(-agreement, kind="stable")[:6]
    odd = np.zeros((len(best), 1, rows.m))
    odd[:, 0, columns] = patterns[best]
    return np.repeat(beta[None, None], len(best), axis=0), odd


def pursue(setting, rows, law, count):
    """Sparse rows of simple exponents that explain most of what `law` leaves over.

    A beam search that gives a term one more feature at a time.

    Parameters
    ----------
    setting : Setting
    rows : Rows
        Few, evenly taken ones.
    law : Law or None
        None looks for the first term.
    count : int

    Returns
    -------
    ndarray of shape (at most count, n_features)
    """
    root = np.sqrt(rows.weight)

    def terms(B):
        values = B @ rows.L.T
        values -= values.max(axis=1, keepdims=True)
        values = np.exp(values)
        odd = setting.parity(B)
        if odd is not None:
            values *= 1 - 2 * ((odd @ rows.negative.T) % 2)
        return values * root

    rest, basis = rows.y * root, None
    if law is not None:
        basis = np.linalg.qr(terms(law.B).T)[0]
        rest = rest - basis @ (basis.T @ rest)

    def gains(B):
        new = terms(B)
        if basis is not None:
            new -= (new @ basis) @ basis.T
        size = np.einsum("qn,qn->q", new, new)
        return (new @ rest) ** 2 / np.maximum(size, 1e-12 * size.max() + 1e-300)

    m = rows.m
    if m <= _FEW_FEATURES:
        steps = np.where(setting.whole[:, None], _MORE_WHOLE, _MORE)
    else:
        steps = np.where(setting.whole[:, None], _WHOLE, _SPARSE)
    n_steps = steps.shape[1]
    start = np.clip(np.zeros((1, m)), setting.lower, setting.upper)
    beam, found, values = start, [start], [gains(start)]
    for _ in range(min(m, _DEPTH)):
        empty = beam == start  # only features that a row does not have yet
        i, j = np.nonzero(empty)
        if not len(i):
            break
        new = np.repeat(beam[i], n_steps, axis=0)
        new[np.arange(len(new)), np.repeat(j, n_steps)] = steps[j].ravel()
        inside = ((new >= setting.lower) & (new <= setting.upper)).all(axis=1)
        new = np.unique(new[inside], axis=0)
        if not len(new):
            break
        gain = gains(new)
        order = np.argsort(-gain, kind="stable")[:_BEAM]
        beam = new[order]
        found.append(beam)
        values.append(gain[order])
    found, values = np.concatenate(found), np.concatenate(values)
    return found[np.argsort(-values, kind="stable")[:count]]


def further_starts(setting, rows, bases, n_init, rng):
    """Starts with one term more than the laws `bases`, the best of which is first."""
    m = rows.m
    starts = []

    def add(law, row):
        starts.append(np.vstack([law.B, row]))

    first = bases[0]
    share = max(1, (n_init + 1) // 2)
    for row in pursue(setting, rows, first, share):
        add(first, row)
    for law in bases[1:]:
        for row in pursue(setting, rows, law, max(1, n_init // 10)):
            add(law, row)
    for k in rng.permutation(len(first.B)):
        if len(starts) >= max(2, n_init - 2):
            break
        step = 0.7 * rng.standard_normal(m) * (~setting.whole)
        B = np.vstack([first.B, first.B[k] + step])
        B[k] -= step
        starts.append(B)
    while len(starts) < n_init:
        size = len(first.B) + 1
        B = rng.choice([-2, -1, -0.5, 0, 0, 0, 0.5, 1, 2], size=(size, m))
        starts.append(np.where(setting.whole, np.round(B), B))
    B = np.clip(np.stack(starts[:n_init]), setting.lower, setting.upper)
    odd = setting.parity(B)
    B = B + 0.02 * rng.standard_normal(B.shape)
    return np.clip(B, setting.lower, setting.upper), odd


def polynomials(setting, max_terms):
    """Sparse polynomials by backward elimination from all of a low degree.

    Sums of whole powers of few features are so alike that fits of real exponents
    cannot tell them apart in floats; as a linear problem they are easy.

    Returns
    -------
    list of Law
        Of `max_terms`, `max_terms` - 1, ... terms.
    """
    rows, m = setting.rows, setting.rows.m
    degree = next(d for d in range(8, 0, -1) if comb(m + d, d) <= _MONOMIALS or d == 1)
    if m + 1 > _MONOMIALS:
        return []
    B = np.array(
        [
            np.bincount(np.array(c, dtype=int), minlength=m)
            for d in range(degree + 1)
            for c in combinations_with_replacement(range(m), d)
        ],
        dtype=float,
    )
    B = B[((B >= setting.lower) & (B <= setting.upper)).all(axis=1)]
    if len(B) < 2 or 2 * len(B) > rows.n:
        return []
    few = _sample(rows, _POLYNOMIAL_ROWS)
    odd = setting.parity(B)
    values = few.terms(
        B[None], few.shift(B)[None], None if odd is None else odd[None], slice(None)
    )[0]
    values = values * np.sqrt(few.weight)
    values /= np.maximum(np.sqrt((values * values).sum(axis=1)), 1e-300)[:, None]
    A = np.linalg.qr(np.vstack([values, few.y * np.sqrt(few.weight)]).T, mode="r")
    keep = np.arange(len(B))
    found = []
    while len(keep):
        if len(keep) <= max_terms:
            law = setting.refit(B[keep], np.ones((len(keep), m), bool))
            found.append(law)
        if len(keep) == 1:
            break
        R = np.linalg.qr(A[:, [*keep, -1]], mode="r")
        R, right = R[: len(keep), :-1], R[: len(keep), -1]
        step = np.arange(len(keep))
        pivots = R[step, step]
        R[step, step] = np.where(np.abs(pivots) > 1e-14, pivots, 1e-14)
        inverse = np.linalg.inv(R)
        increase = (inverse @ right) ** 2 / (inverse**2).sum(axis=1)
        keep = np.delete(keep, np.argmin(increase))
    return [law for law in found if np.isfinite(law.mdl)]


def _sample(rows, count):
    if rows.n <= 1.5 * count:
        return rows
    return rows.subset(np.linspace(0, rows.n - 1, count).astype(int))


def _distinct(state, count):
    """Indices of the best starts that are not the same minimum."""
    kept, values = [], []
    for i in np.argsort(state.rss, kind="stable"):
        rss = state.rss[i]
        if not np.isfinite(rss):
            break
        if all(abs(rss - v) > 1e-3 * v for v in values):
            kept.append(i)
            values.append(rss)
        if len(kept) == count:
            break
    return kept


def _fitted(setting, B, odd, tol, budget, screen=True):
    """The best distinct minima from the starts, on all rows, as real-valued laws."""
    S, K, m = B.shape
    rows = setting.rows
    box = {
        "lower": setting.lower,
        "upper": setting.upper,
        "penalty": setting.penalty,
    }
    if screen and S > 1:
        part = _sample(rows, max(_SCREEN_ROWS, _ROWS_PER_NUMBER * K * (m + 1)))
        if setting.loss == "log":
            part = part.reweighted(part.weight / part.y**2)
        state = minimise(part, B, odd=odd, max_iter=20, tol=1e-3, on_step=budget, **box)
        kept = _distinct(state, _KEPT)
        B, odd = state.B[kept], None if odd is None else odd[kept]
        if not len(B):
            return []
    free = np.zeros((K, m), bool)
    for loose in (True, False) if screen else (False,):
        state = minimise(
            rows,
            B,
            odd=odd,
            loss=setting.loss,
            max_iter=60,
            tol=max(tol, _LOOSE) if loose else tol,
            on_step=budget,
            **box,
        )
        laws = [
            setting.law(state, free, None if odd is None else odd[i], i)
            for i in _distinct(state, _KEPT)
        ]
        if not loose:
            break
        # Few fits of one term too many are worth their last digits.
        if len(budget.best.B) < K:
            laws = [law for law in laws if _hope(setting, law) < budget.best.mdl]
        if not laws:
            return []
        B = np.stack([law.B for law in laws])
        odd = None if odd is None else np.stack([law.odd for law in laws])
    laws = [law for law in laws if np.isfinite(law.rss)]
    return sorted(laws, key=lambda law: law.rss)


def _hope(setting, law):
    """A description length that rounding the exponents of `law` cannot beat."""
    if not np.isfinite(law.mdl):
        return -np.inf  # unusable as it is; rounded it may be fine
    if setting.exponents == "real":
        return law.mdl - _SLACK * setting.n
    K, m = law.B.shape
    least = (
        K * m * (1 + EACH_EXPONENT) + K - 1
    )  # all exponents 0 but one, a 1, in all terms but one
    cost = setting.exponent_cost(law.B, law.snapped)
    return law.mdl - cost + least - _SLACK * setting.n


def _rounded(setting, laws, few):
    """Laws with exponents rounded, and all that `setting.exponents` allows."""
    if setting.exponents == "real":
        if not setting.whole.any():
            return [], laws
        return [], [new for law in laws for new in snap_whole(law, setting)]
    found = []
    for law in laws:
        found += [new for new in snap(law, setting) if np.isfinite(new.mdl)]
    if not found:
        real = setting.exponents == "auto" and not setting.whole.any()
        return [], laws if real else []
    found.sort(key=lambda law: law.mdl)
    first = found[0]
    better = descend(first, setting)
    if better.rss > EXACT * setting.target:
        better = exchange(
            better, setting, lambda law: pursue(setting, few, law, _EXCHANGED)
        )
    found.insert(0, better)
    for law in found[1:]:  # the best all-rational one, if that is another
        if law.snapped.all() and law is not first:
            found.append(descend(law, setting))
            break
    if setting.exponents == "rational":
        return found, [law for law in found if law.snapped.all()]
    if setting.whole.any():
        return found, [law for law in found if law.snapped[:, setting.whole].all()]
    return found, found + laws


def grow(setting, *, max_terms, n_init, tol, rng, budget):
    """Laws of 1, 2, ... terms until another term does not pay.

    Parameters
    ----------
    setting : Setting
    max_terms : int
    n_init : int
        Starts for each number of terms beyond the first.
    tol : float
        See ``minimise``.
    rng : numpy.random.RandomState
    budget : Budget
        Is called after every step, and keeps what is found.

    Notes
    -----
    What it finds is in ``budget.best`` and ``budget.laws``.
    """
    if spans_decades(setting):
        setting.weigh_by(setting.base.y)
    rows = setting.rows
    best = constant_law(setting)
    budget.best, budget.laws = best, [best]
    if max_terms == 0 or best.rss <= EXACT * setting.target:
        return
    few = _sample(rows, _PURSUIT_ROWS)
    bases = []
    for K in range(1, max_terms + 1):
        if K == 1:
            B, odd = first_starts(setting)
        else:
            B, odd = further_starts(setting, few, bases, n_init, rng)
        real = _fitted(setting, B, odd, tol, budget, screen=K > 1)
        if not real:
            break
        found, allowed = _rounded(setting, real, few)
        top = min(allowed, key=lambda law: law.mdl, default=None)
        # Once more with the weights that suit the noise, where those are others.
        if top is not None and top.proportional != setting.relative:
            setting.weigh(top if top.proportional else None)
            few = _sample(setting.rows, _PURSUIT_ROWS)
            B = np.stack([law.B for law in real])
            odd = None if odd is None else np.stack([law.odd for law in real])
            again = _fitted(setting, B, odd, tol, budget, screen=False)
            real = again or real
            found, more = _rounded(setting, real, few)
            allowed = more + allowed
        budget.laws += allowed
        top = min(allowed, key=lambda law: law.mdl, default=None)
        improved = top is not None and top.mdl < best.mdl
        if improved:
            best = budget.best = top
        if best.rss <= EXACT * setting.target or budget.spent:
            break
        if K == 2 and improved and setting.exponents != "real":
            laws = polynomials(setting, max_terms)
            budget.laws += laws
            best = budget.best = min([best, *laws], key=lambda law: law.mdl)
            if best.rss <= EXACT * setting.target:
                break
        if not improved and K > 1 and K > len(best.B):
            break
        # The next size starts from the best rounded law and the best real ones.
        same_size = [law for law in found if len(law.B) == K][:1]
        bases = (same_size + real)[:_KEPT]


def search(setting, *, budget, **options):
    """``grow`` on a part of many rows, then all of them for what it found.

    Parameters
    ----------
    setting, budget, **options
        As for ``grow``.
    """
    rows = setting.rows
    if rows.n <= _SEARCH_ROWS or not options["max_terms"]:
        grow(setting, budget=budget, **options)
        return
    part = rows.subset(np.linspace(0, rows.n - 1, _SEARCH_ROWS).astype(int))
    fewer = setting.on(part, setting.n * part.weight.sum() / rows.weight.sum())
    grow(fewer, budget=budget, **options)
    if fewer.unwritable < budget.best.mdl:
        setting.unwritable = -np.inf
        return
    laws = sorted(budget.laws, key=lambda law: law.mdl)[:_CARRIED]
    if laws[0].proportional:
        setting.weigh(laws[0])
    budget.laws = [setting.refit(law.B, law.snapped, law.odd) for law in laws]
    first = min(budget.laws, key=lambda law: law.mdl)
    if setting.exponents != "real":  # more rows tell more fractions apart
        real = setting.refit(first.B, np.zeros(first.B.shape, bool), first.odd)
        budget.laws += _rounded(setting, [real], _sample(rows, _PURSUIT_ROWS))[1]
    budget.best = min([first, *budget.laws], key=lambda law: law.mdl)


def finish(setting, budget):
    """The numbers of the best law by the weights that suit it.

    With strict least squares those are equal, for all laws.
    """

    def again(law):
        new = setting.refit(law.B, law.snapped, law.odd)
        return new if np.isfinite(new.mdl) else law

    best = budget.best
    if setting.strict:
        if setting.relative:
            setting.weigh(None)
            budget.best = again(best)
            budget.laws = [budget.best, *map(again, budget.laws)]
    elif setting.relative or best.proportional:
        setting.weigh(best if best.proportional else None)
        budget.best = again(best)
        budget.laws.append(budget.best)


class Budget:
    """Counts steps, reports each, and says when to stop.

    Parameters
    ----------
    limit : int
    report : callable
        Called after each step; a true value stops.

    Attributes
    ----------
    count : int
        Steps taken.
    spent : bool
        No more steps are allowed.
    asked : bool
        `report` said so.
    best : Law or None
        The law with the least description length so far.
    laws : list of Law
        All laws that were considered.
    """

    def __init__(self, limit, report):
        self.limit, self._report = limit, report
        self.count, self.spent, self.asked = 0, False, False
        self.best, self.laws = None, []

    def __call__(self):
        """A step was taken; true if it was the last one allowed."""
        if not self.spent:
            self.count += 1
            self.asked = bool(self._report())
            self.spent = self.asked or self.count >= self.limit
        return self.spent
