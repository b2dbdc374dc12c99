"""Laws of simple exponents made shorter: single exponents moved, terms exchanged."""

import numpy as np

from ._code_length import EACH_EXPONENT, description_length, fraction_cost
from ._lattice import refit_from


def _substitutions(setting, law, k, candidates):
    """RSS with the k-th term replaced by each candidate, on the ranking rows.

    Returns
    -------
    rss : ndarray of shape (n_candidates,)
    without : float
        RSS without the k-th term.
    now : float
        RSS of the law on the same rows.
    """
    L, y, weight, negative = setting.ranking_rows(law)
    root = np.sqrt(weight)
    K = len(law.B)

    def terms(B):
        values = B @ L.T
        values -= values.max(axis=1, keepdims=True)
        values = np.exp(values)
        if negative is not None:
            values *= 1 - 2 * ((setting.parity(B) @ negative.T) % 2)
        return values * root

    y = y * root
    others = terms(law.B[np.arange(K) != k])
    rest = y
    if K > 1:
        basis = np.linalg.qr(others.T)[0]
        rest = y - basis @ (basis.T @ y)
        rest -= basis @ (basis.T @ rest)
    new = terms(np.concatenate([law.B[k : k + 1], candidates]))
    if K > 1:
        new -= (new @ basis) @ basis.T
    size = np.einsum("qn,qn->q", new, new)
    share = (new @ rest) / np.maximum(size, 1e-300)
    left = rest - share[:, None] * new
    rss = np.einsum("qn,qn->q", left, left)
    factor = setting.rows.weight.sum() / setting.sampled_weight
    return rss[1:] * factor, float(rest @ rest) * factor, float(rss[0]) * factor


def exchange(law, setting, propose):
    """Replace whole rows of exponents while that shortens the description.

    Parameters
    ----------
    law : Law
    setting : Setting
    propose : callable
        ``propose(law)`` gives rows for one more term beside those of `law`.

    Returns
    -------
    Law
    """
    k = failed = 0
    while failed < len(law.B):
        K = len(law.B)
        k = k % K
        others = np.arange(K) != k
        less = None
        if K > 1:
            less = law._replace(
                B=law.B[others],
                odd=None if law.odd is None else law.odd[others],
                coef=law.coef[others],
                shift=law.shift[others],
            )
        new = propose(less)
        marks = np.ones(new.shape, bool)
        again = _best_replacement(law, setting, k, new, marks)
        if again is None:
            k, failed = k + 1, failed + 1
        else:
            law, failed = descend(again, setting, sweeps=1), 0
    return law


def _moves(law, setting, k):
    """Candidates of the k-th row: each exponent moved to other fractions."""
    row, snapped = law.B[k], law.snapped[k]
    m = len(row)
    values = [np.zeros(m), np.round(row)]
    for d in (0.5, 1.0):
        values += [
            row + d,
            row - d,
            np.round(2 * row) / 2 + d,
            np.round(2 * row) / 2 - d,
        ]
    values += [row + 2, row - 2, -row]
    values = np.stack(values, axis=1)  # m, candidates
    fits = (values >= setting.lower[:, None]) & (values <= setting.upper[:, None])
    fits &= np.isfinite(fraction_cost(values))
    fits &= (values != row[:, None]) | ~snapped[:, None]
    fits &= ~setting.whole[:, None] | (values == np.round(values))
    j, c = np.nonzero(fits)
    pairs = np.unique(np.column_stack([j, values[j, c]]), axis=0)
    j = pairs[:, 0].astype(int)
    new = np.repeat(row[None], len(j), axis=0)
    marks = np.repeat(snapped[None], len(j), axis=0)
    new[np.arange(len(j)), j] = pairs[:, 1]
    marks[np.arange(len(j)), j] = True
    others, other_marks = _transfers(law, setting, k)
    return np.concatenate([new, others]), np.concatenate([marks, other_marks])


def _transfers(law, setting, k):
    """Candidates of the k-th row: an exponent, or a part, moved to a like column."""
    row, snapped = law.B[k], law.snapped[k]
    new, marks = [row[None][:0]], [snapped[None][:0]]
    for j, i, slope in setting.alike():
        amounts = {row[j], 0.5, 1.0, -0.5, -1.0} if snapped[j] else {row[j]}
        for amount in amounts - {0.0}:
            other, mark = row.copy(), snapped.copy()
            other[[j, i]] = row[j] - amount, row[i] + amount * slope
            other[i] = np.round(other[i] * 6) / 6 if snapped[i] else other[i]
            fits = np.isfinite(fraction_cost(other[[j, i]]))
            mark[j], mark[i] = True, fits[1]
            whole = other[setting.whole] == np.round(other[setting.whole])
            inside = (other >= setting.lower) & (other <= setting.upper)
            if fits[0] and inside.all() and whole.all() and (fits[1] or not snapped[i]):
                new.append(other[None])
                marks.append(mark[None])
    return np.concatenate(new), np.concatenate(marks)


def descend(law, setting, sweeps=3):
    """Move single exponents, or drop a term, while that shortens the description.

    Returns
    -------
    Law
    """
    for _ in range(sweeps):
        before = law.mdl
        k = 0
        while k < len(law.B):
            law, dropped = _improve_row(law, setting, k)
            k += not dropped
        if not law.mdl < before:
            break
    return law


def _improve_row(law, setting, k):
    """The law after the best move of its k-th row, and whether the row is gone."""
    K = len(law.B)
    new, marks = _moves(law, setting, k)
    rss, without, now = _substitutions(setting, law, k, new)
    others = np.arange(K) != k
    fixed = setting.exponent_cost(law.B[others], law.snapped[others])
    costs = np.where(marks, 2 * fraction_cost(new), setting.real_cost).sum(axis=1)
    costs += EACH_EXPONENT * new.shape[1]
    length = description_length(rss, setting.n, K, fixed + costs, setting.floor)
    own = setting.exponent_cost(law.B, law.snapped)
    here = description_length(now, setting.n, K, own, setting.floor)
    if K > 1:
        dropped = description_length(without, setting.n, K - 1, fixed, setting.floor)
        if dropped < min(here, length.min(initial=np.inf)):
            again = refit_from(law, setting, law.B[others], law.snapped[others])
            if again.mdl < law.mdl:
                return again, True
    return _first_better(law, setting, k, new, marks, length, here) or law, False


def _first_better(law, setting, k, new, marks, length, here, tries=2):
    """The law with its k-th row replaced, where that is truly better; or None."""
    for at in np.argsort(length, kind="stable")[:tries]:
        if not length[at] < here - 1e-9:
            break
        B, snapped = law.B.copy(), law.snapped.copy()
        B[k], snapped[k] = new[at], marks[at]
        again = refit_from(law, setting, B, snapped)
        if again.mdl < law.mdl - 1e-9:
            return again
    return None


def _best_replacement(law, setting, k, new, marks):
    rss, _, now = _substitutions(setting, law, k, new)
    K = len(law.B)
    own = 2 * fraction_cost(new).sum(axis=1) + EACH_EXPONENT * new.shape[1]
    length = description_length(rss, setting.n, K, own, setting.floor)
    own = setting.exponent_cost(law.B[k : k + 1], law.snapped[k : k + 1])
    here = description_length(now, setting.n, K, own, setting.floor)
    return _first_better(law, setting, k, new, marks, length, here)
