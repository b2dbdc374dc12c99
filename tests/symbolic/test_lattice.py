"""Description length by hand, rounding against brute force."""

import itertools

import numpy as np
import pytest

from skmethods.symbolic._code_length import (
    EACH_EXPONENT,
    REAL_PRIOR,
    description_length,
    fraction_cost,
    real_cost,
)
from skmethods.symbolic._descent import descend
from skmethods.symbolic._lattice import (
    Setting,
    exponent_errors,
    like_columns,
    nearby_fractions,
    rounding_path,
    snap,
    snap_whole,
)
from skmethods.symbolic._varpro import Rows, minimise


def setting_of(X, y, loss="squared", exponents="auto", box=6.0, weight=None):
    L = np.log(np.abs(X))
    negative = X < 0 if (X < 0).any() else None
    weight = np.ones(len(X)) if weight is None else weight
    m = X.shape[1]
    return Setting(
        Rows(L - L.mean(axis=0), y, weight, negative),
        weight.sum(),
        loss,
        exponents,
        np.full(m, -box),
        np.full(m, box),
        (X < 0).any(axis=0),
    )


def real_law(setting, B):
    """The real-valued law at the minimum next to B."""
    B = np.atleast_2d(np.asarray(B, dtype=float))
    odd = setting.parity(B)
    state = minimise(
        setting.rows,
        B[None],
        odd=None if odd is None else odd[None],
        loss=setting.loss,
        tol=1e-14,
        max_iter=200,
    )
    return setting.law(state, np.zeros(B.shape, bool), odd)


def test_costs_by_hand():
    found = fraction_cost([0, 1, -1, 2, 0.5, -1.5, 1 / 3, 4 / 3, 0.25, np.pi])
    expected = [
        0.5,
        1,
        1,
        1 + np.log(2),
        1 + 1.5 * np.log(2),
        1 + np.log(3) + 1.5 * np.log(2),
        1 + 1.5 * np.log(3),
        1 + np.log(4) + 1.5 * np.log(3),
        np.inf,
        np.inf,
    ]
    np.testing.assert_allclose(found, expected)
    assert real_cost(100) == pytest.approx(np.log(100) + 1 + REAL_PRIOR)
    assert real_cost(100, 0.0) == pytest.approx(np.log(100) + 1)


def test_description_length_by_hand():
    length = description_length(2.0, 10, 2, 7.0, 1e-9)
    assert length == pytest.approx(10 * np.log(0.2) + 2 * np.log(10) + 7 + 2)
    assert description_length(0.0, 10, 1, 0.0, 1e-3) == pytest.approx(
        10 * np.log(1e-4) + np.log(10)
    )


def test_the_code_of_an_exponent_is_one():
    """``sum exp(-cost) <= 1`` over the fractions up to 12, and not far below."""
    grid = np.unique([p / q for q in (1, 2, 3) for p in range(-12 * q, 12 * q + 1)])
    total = np.exp(-fraction_cost(grid) - EACH_EXPONENT / 2).sum()
    assert 0.9 < total <= 1


def test_length_of_a_law_by_hand():
    """Three rows and one term; noise of constant size is the shorter description."""
    X = np.array([[1.0], [2.0], [4.0]])
    y = np.array([1.1, 1.9, 4.0])
    setting = setting_of(X, y)
    law = setting.refit(np.array([[1.0]]), np.ones((1, 1), bool))
    coef = (X[:, 0] @ y) / (X[:, 0] @ X[:, 0])
    rss = np.sum((y - coef * X[:, 0]) ** 2)
    relative = np.sum(((y - coef * X[:, 0]) / (coef * X[:, 0])) ** 2)
    logs = np.log(coef * X[:, 0]).sum()
    additive = 3 * np.log(rss / 3)
    proportional = 3 * np.log(relative / 3) + 2 * logs
    expected = min(additive, proportional) + np.log(3) + 2 * 1.0 + EACH_EXPONENT
    assert law.mdl == pytest.approx(expected)
    assert law.proportional == (proportional < additive)


def test_nearby_fractions():
    near = nearby_fractions(
        np.array([1.6, -0.2, 2.4]),
        np.array([-6.0, -6, 2]),
        np.array([6.0, 6, 6]),
        np.array([False, False, True]),
        np.array([0.0, 0, 1]),
    )
    assert {0, 1, 2, 1.5, 5 / 3} == set(near[0][~np.isnan(near[0])])
    assert {-1, 0, -1 / 3} <= set(near[1][~np.isnan(near[1])])
    assert set(near[2][~np.isnan(near[2])]) == {3}  # odd and inside the box


def test_rounding_of_a_pair_is_the_best_of_all_pairs():
    """Correlated columns: rounding each by itself is wrong, the path is right."""
    rng = np.random.default_rng(3)
    one = rng.uniform(1, 5, 300)
    X = np.column_stack([one, one * np.exp(0.02 * rng.standard_normal(300))])
    y = one**2 / X[:, 1] * (1 + 0.005 * rng.standard_normal(300))
    setting = setting_of(X, y, exponents="rational")
    law = real_law(setting, [[1.0, 0.0]])
    best = min(
        (
            setting.refit(np.array([pair]), np.ones((1, 2), bool)).mdl
            for pair in itertools.product(np.arange(-6, 7) / 2, repeat=2)
        ),
    )
    assert snap(law, setting)[0].mdl <= best + 1e-6


def test_real_exponents_stay_and_noise_does_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (1000, 4))
    y = X[:, 0] ** 1.5617 * X[:, 1] + 0.02 * rng.standard_normal(1000)
    setting = setting_of(X, y)
    first = snap(real_law(setting, [[1.5, 1, 0, 0]]), setting)[0]
    np.testing.assert_array_equal(first.B[0, 1:], [1, 0, 0])
    assert first.B[0, 0] == pytest.approx(1.5617, abs=2e-3)
    np.testing.assert_array_equal(first.snapped[0], [False, True, True, True])


def test_path_ends_with_fractions_only():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (100, 3))
    y = X[:, 0] ** 1.37 + 0.01 * rng.standard_normal(100)
    setting = setting_of(X, y)
    ways = rounding_path(real_law(setting, [[1.3, 0, 0]]), setting)
    assert ways[-1][1].all()
    assert np.isfinite(fraction_cost(ways[-1][0])).all()


def test_descent_finds_the_law_from_a_neighbour():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (200, 3))
    y = 2 * X[:, 0] * X[:, 1] + 3 * X[:, 2] ** 2 + 0.01 * rng.standard_normal(200)
    setting = setting_of(X, y)
    wrong = np.array([[1.0, 0.5, 0], [0, 0, 1], [0, 0.5, 0]])
    law = descend(setting.refit(wrong, np.ones((3, 3), bool)), setting, sweeps=10)
    assert sorted(map(tuple, law.B)) == [(0, 0, 2), (1, 1, 0)]


def test_equal_terms_become_one():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (50, 2))
    setting = setting_of(X, X[:, 0] + 0.01 * rng.standard_normal(50))
    law = setting.refit(np.array([[1.0, 0], [1.0, 0]]), np.ones((2, 2), bool))
    law = descend(law, setting)
    np.testing.assert_array_equal(law.B, [[1, 0]])


def test_huge_opposite_terms_are_refused():
    """x log x as a difference of neighbouring powers fits and is no law."""
    x = np.linspace(1, 5, 200)
    setting = setting_of(x[:, None], x * np.log(x))
    near = np.array([[1.0], [1.0 + 1e-6]])
    assert setting.refit(near, np.ones((2, 1), bool)).mdl == np.inf


def test_standard_errors_are_the_spread():
    """Within 15 % of the spread over repetitions, under constant noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (300, 2))
    clean = 3 * X[:, 0] ** 1.3 / X[:, 1] ** 0.7
    values, errors = [], []
    for _ in range(400):
        setting = setting_of(X, clean + 0.2 * rng.standard_normal(300))
        law = real_law(setting, [[1.3, -0.7]])
        values.append(law.B[0])
        errors.append(exponent_errors(law, setting)[0])
    np.testing.assert_allclose(
        np.mean(errors, axis=0), np.std(values, axis=0), rtol=0.15
    )


def test_standard_errors_hold_for_uneven_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (500, 1))
    clean = 3 * X[:, 0] ** 2.2
    size = 20.0 * (X[:, 0] < 2)
    values, errors, naive = [], [], []
    for _ in range(300):
        setting = setting_of(X, clean + size * rng.standard_normal(500))
        law = real_law(setting, [[2.2]])
        values.append(law.B[0, 0])
        errors.append(exponent_errors(law, setting)[0, 0])
        naive.append(np.sqrt(law.rss / 498 / law.normal[0, 0]))
    spread = np.std(values)
    assert np.mean(errors) == pytest.approx(spread, rel=0.15)
    assert not np.mean(naive) == pytest.approx(spread, rel=0.15)


def test_information_is_the_normal_matrix_under_constant_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 5, (20_000, 2))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(len(X))
    setting = setting_of(X, y)
    law = real_law(setting, [[1.0, 1.0]])
    unit = np.sqrt(np.diag(law.normal))
    off = (setting.information(law) - law.normal) / unit / unit[:, None]
    np.testing.assert_allclose(off, 0, atol=0.05)


def test_parity_is_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200, 2))
    setting = setting_of(X, X[:, 0] ** 3 * X[:, 1] ** 2)
    law = setting.refit(np.array([[3.0, 2.0]]), np.ones((1, 2), bool))
    assert law.rss < 1e-20 * setting.target
    near = snap(
        real_law(setting, [[2.7, 2.2]])._replace(odd=np.array([[1.0, 0.0]])), setting
    )
    np.testing.assert_array_equal(near[0].B, [[3, 2]])


def test_rounding_without_a_covariance():
    X = np.random.default_rng(0).uniform(1, 5, (50, 2))
    setting = setting_of(X, X[:, 0] ** 1.5)
    law = real_law(setting, [[1.4, 0.1]])
    law = law._replace(normal=np.full((2, 2), np.inf))
    assert rounding_path(law, setting) == []
    assert np.isnan(exponent_errors(law, setting)).all()
    assert snap(law, setting)[0].mdl < np.inf


def test_like_columns_and_their_powers():
    rng = np.random.default_rng(0)
    one, two = rng.uniform(0, 1, (2, 300))
    noisy = one + 0.01 * rng.standard_normal(300)
    L = np.column_stack([one, -2 * noisy, two, np.zeros(300)])
    assert like_columns(L) == [(0, 1, -0.5), (1, 0, -2)]


def test_an_exponent_moves_to_a_like_column():
    """From x1 / sqrt(x0**2) to the single power, which no single move reaches."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 5, (300, 2))
    X = np.column_stack([x[:, 0], x[:, 0] ** 2, x[:, 1]])
    y = x[:, 0] * x[:, 1] * (1 + 0.01 * rng.standard_normal(300))
    setting = setting_of(X, y)
    start = setting.refit(np.array([[3.0, -1.0, 1.0]]), np.ones((1, 3), bool))
    np.testing.assert_array_equal(descend(start, setting).B, [[1, 0, 1]])


def test_whole_exponents_among_real_ones():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-3, 3, 200), rng.uniform(1, 5, 200)])
    y = X[:, 0] ** 3 * X[:, 1] ** 1.37 + 0.01 * rng.standard_normal(200)
    setting = setting_of(X, y, exponents="real")
    (law,) = snap_whole(real_law(setting, [[3.0, 1.3]]), setting)
    assert law.B[0, 0] == 3 and law.B[0, 1] == pytest.approx(1.37, abs=1e-3)
    np.testing.assert_array_equal(law.snapped, [[True, False]])


def test_rows_that_rank_moves_have_the_signs_of_the_law():
    """A logarithmic loss with negative inputs: no weight is infinite."""
    rng = np.random.default_rng(0)
    X = -rng.uniform(1, 5, (100, 2))
    y = X[:, 0] * X[:, 1] * (1 + 0.02 * rng.standard_normal(100))
    setting = setting_of(X, y, loss="log")
    law = setting.refit(np.array([[1.0, 1.0]]), np.ones((1, 2), bool))
    with np.errstate(all="raise"):
        _, target, weight, _ = setting.ranking_rows(law)
    np.testing.assert_allclose(target, y, rtol=0.01)
    assert np.ptp(weight * y * y) < 0.5
