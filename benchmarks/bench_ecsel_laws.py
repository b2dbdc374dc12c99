"""ECSELRegressor on physical laws and random signomials, beside pyoperon.

    SKMETHODS_DATA=/path/to/data OMP_NUM_THREADS=1 python benchmarks/bench_ecsel_laws.py

The laws are those of ``feynman_signomials.csv``: rows uniform in the ranges given
there, noise with a standard deviation of so many times the root mean square of y. A
law counts as recovered if the number of terms and every exponent are exactly right and
the coefficients within ``max(1e-6, 3 * noise)``; the number of terms is not told.

pyoperon is judged more mildly: recovered if its formula, expanded by sympy and without
terms below a thousandth of the largest, has the exponents of the law and its
coefficients within a thousandth (or three times the noise), or if it predicts new rows
in twice the range with a relative error below ``1e-4``, or a tenth of the noise.

It gets four seconds of processor time a law; where the machine is busy, its limit,
which is on the wall clock, is raised accordingly. All times are processor seconds of
one thread.

Options run a part: ``--laws I.12.1 II.2.42``, ``--seeds 2``, ``--noise 0 0.1``,
``--no-peer``, ``--peer-seeds 1``, ``--peer-noise 0``, ``--no-random``. Tables go to
``benchmarks/results``.
"""

import argparse
import csv
import math
import os
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

from skmethods import ECSELRegressor

RESULTS = Path(__file__).parent / "results"
FIRST_SEED = 42
PEER_SECONDS = 4
#: Wall clock over processor time of the last runs of the peer.
busy = [1.0]


def laws(wanted=None):
    """``(id, exponents, coefs, lows, highs)`` of each law of the table."""
    path = Path(os.environ["SKMETHODS_DATA"]) / "feynman_signomials.csv"
    with path.open() as file:
        for row in csv.DictReader(file):
            if wanted and row["id"] not in wanted:
                continue
            exponents = np.array(
                [
                    [float(Fraction(v)) for v in term.split()]
                    for term in row["exponents"].split(";")
                ]
            )
            coefs, lows, highs = (
                np.array(row[name].split(), dtype=float)
                for name in ("coefs", "lows", "highs")
            )
            yield row["id"], exponents, coefs, lows, highs


def signomial(X, exponents, coefs):
    return np.exp(np.log(X) @ exponents.T) @ coefs


def rows_of(exponents, coefs, lows, highs, n, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(lows, highs, (n, len(lows)))
    y = signomial(X, exponents, coefs)
    size = noise * np.sqrt(np.mean(y * y))
    return X, y + size * rng.standard_normal(n)


def same_law(found, true, rtol):
    """Whether two (exponents, coefs) are the same sum, in any order of the terms."""
    (E, c), (F, d) = found, true
    if E.shape != F.shape:
        return False
    one, other = np.lexsort(E.T), np.lexsort(F.T)
    return np.array_equal(E[one], F[other]) and np.allclose(
        c[one], d[other], rtol=rtol, atol=0
    )


def ours(X, y, true, noise, **params):
    """Recovered or not, and seconds."""
    start = time.process_time()
    model = ECSELRegressor(random_state=0, **params).fit(X, y)
    seconds = time.process_time() - start
    found = model.exponents_, model.coef_
    return same_law(found, true, max(1e-6, 3 * noise)), seconds


def monomials(text, m):
    """The expanded formula as (exponents, coefs), or None if it is no signomial."""
    import sympy
    from sympy.parsing.sympy_parser import parse_expr

    symbols = [sympy.Symbol(f"X{j}", positive=True) for j in range(1, m + 1)]
    local = {str(s): s for s in symbols} | {"square": lambda a: a**2}
    expression = sympy.expand(parse_expr(text.replace("^", "**"), local_dict=local))
    E, c = [], []
    for term in sympy.Add.make_args(expression):
        coef, rest = term.as_independent(*symbols)
        powers = rest.as_powers_dict()
        if not powers.keys() <= {*symbols, sympy.Integer(1)}:
            return None
        E.append([float(powers.get(s, 0)) for s in symbols])
        c.append(float(coef))
    return np.array(E), np.array(c)


def peer(X, y, true, highs, noise, seed):
    """The same for pyoperon, and whether R2 on the rows exceeds 0.999."""
    from pyoperon.sklearn import SymbolicRegressor

    for _ in range(3):
        limit = math.ceil(PEER_SECONDS * busy[-1])
        wall, start = time.perf_counter(), time.process_time()
        model = SymbolicRegressor(
            allowed_symbols="add,sub,mul,div,square,sqrt,constant,variable",
            max_length=25,
            optimizer_iterations=5,
            max_time=limit,
            generations=10**6,
            max_evaluations=10**9,
            n_threads=1,
            random_state=seed,
        ).fit(X, y)
        wall, seconds = time.perf_counter() - wall, time.process_time() - start
        busy.append(wall / max(seconds, 0.1))
        if seconds >= 0.85 * PEER_SECONDS or wall < 0.8 * limit:
            break
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fit = 1 - np.mean((model.predict(X) - y) ** 2) / np.var(y)
        rng = np.random.default_rng(10_000 + seed)
        new = rng.uniform(1, 2 * highs, (1000, len(highs)))
        z = signomial(new, *true)
        off = np.sqrt(np.mean((model.predict(new) - z) ** 2) / np.mean(z * z))
        good = bool(off < max(1e-4, noise / 10))
        try:
            names = [f"X{j + 1}" for j in range(X.shape[1])]
            text = model.get_model_string(model.model_, 12, names)
            found = monomials(text, X.shape[1])
        except (TypeError, ValueError, AttributeError, SyntaxError):
            found = None
    if not good and found is not None:
        E, c = found
        size = np.abs(c) * np.exp(np.log(X).mean(axis=0) @ E.T)
        large = size >= 1e-3 * size.max()
        good = same_law((E[large], c[large]), true, max(1e-3, 3 * noise))
    return good, seconds, bool(fit > 0.999)


def feynman(args):
    """Rows of the table of laws."""
    for n, noise in [(200, 0.0), *((1000, noise) for noise in args.noise)]:
        if n == 200 and 0.0 not in args.noise:
            continue
        for name, E, c, lows, highs in laws(args.laws):
            for seed in range(FIRST_SEED, FIRST_SEED + args.seeds):
                X, y = rows_of(E, c, lows, highs, n, noise, seed)
                good, seconds = ours(X, y, (E, c), noise)
                yield "ECSEL", n, noise, name, seed, good, seconds
                if (
                    args.peer
                    and n == 1000
                    and noise in args.peer_noise
                    and seed < FIRST_SEED + args.peer_seeds
                ):
                    good, seconds, close = peer(X, y, (E, c), highs, noise, seed)
                    yield "pyoperon", n, noise, name, seed, good, seconds
                    yield "pyoperon, R2 > 0.999", n, noise, name, seed, close, seconds


def random_signomial(n_terms, m, seed):
    """Distinct rows of exponents, each with one that is not 0, and coefficients."""
    rng = np.random.default_rng(1000 * n_terms + 100 * m + seed)
    while True:
        E = rng.choice([-2, -1, -0.5, 0, 0, 0, 0.5, 1, 2], size=(n_terms, m))
        if len(np.unique(E, axis=0)) == n_terms and (E != 0).any(axis=1).all():
            return E, rng.uniform(0.5, 3, n_terms) * rng.choice([-1, 1], n_terms)


def random_laws(args):
    """Rows of the table of random signomials, n = 500, and of the Nguyen sums."""
    for n_terms, m in ((2, 5), (2, 8), (3, 5), (3, 8), (4, 5), (4, 6), (4, 8)):
        for seed in range(4 * args.seeds):
            E, c = random_signomial(n_terms, m, seed)
            X, y = rows_of(E, c, np.ones(m), 5 * np.ones(m), 500, 0.0, seed)
            good, seconds = ours(X, y, (E, c), 0.0)
            yield "ECSEL", f"{n_terms} terms, {m} variables", seed, good, seconds
    for number, degree in ((1, 3), (2, 4), (3, 5)):
        E = np.arange(1.0, degree + 1)[:, None]
        for seed in range(args.seeds):
            X, y = rows_of(E, np.ones(degree), [0.1], [2.0], 100, 0.0, seed)
            good, seconds = ours(X, y, (E, np.ones(degree)), 0.0, max_terms=6)
            yield "ECSEL", f"Nguyen-{number}", seed, good, seconds


def summary(groups, heads):
    """Markdown of how many were recovered and the mean seconds."""
    heads = [*heads, "recovered", "mean cpu s", "largest"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for key, cells in groups.items():
        good, seconds = zip(*cells, strict=True)
        lines.append(
            f"| {' | '.join(map(str, key))} | {sum(good)} of {len(good)} | "
            f"{np.mean(seconds):.3f} | {max(seconds):.2f} |"
        )
    return "\n".join(lines) + "\n"


def write(name, head, rows, text):
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head.split())
        writer.writerows([*row[:-1], f"{row[-1]:.4f}"] for row in rows)
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--laws", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--noise", nargs="*", type=float, default=[0, 0.001, 0.01, 0.1])
    parser.add_argument("--peer-seeds", type=int, default=1)
    parser.add_argument("--peer-noise", nargs="*", type=float, default=[0, 0.01])
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--no-random", dest="random", action="store_false")
    args = parser.parse_args()

    rows = list(feynman(args))
    groups = {}
    for method, n, noise, _, _, good, seconds in rows:
        key = method, n, f"{100 * noise:g} %"
        groups.setdefault(key, []).append((good, seconds))
    text = summary(dict(sorted(groups.items())), ("method", "rows", "noise"))
    write("ecsel_laws", "method n noise law seed recovered seconds", rows, text)
    if args.random:
        rows = list(random_laws(args))
        groups = {}
        for _, kind, _, good, seconds in rows:
            groups.setdefault((kind,), []).append((good, seconds))
        text = summary(groups, ("random laws, no noise",))
        write("ecsel_random", "method kind seed recovered seconds", rows, text)


if __name__ == "__main__":
    main()
