"""The effective information criterion: correct, fast, about the real thing, and useful?

    SKMETHODS_DATA=/path/to/data python benchmarks/bench_eic.py [part ...]

The parts are *table*, *noise*, *speed*, *float32* and *laws*; all by default. Each
writes ``benchmarks/results/eic_<part>.csv`` and ``.md``.

- *table*: formulas whose digits were worked out by hand;
- *noise*: amplification of simulated noise beside the predicted one, on random trees;
- *speed*: formulas a second at 64 rows, beside nd2py's ``eval_eic`` if an nd2py that
  has it is installed (release 3.0.0 has none);
- *float32*: rank correlation of the digits with the real error of single precision;
- *laws*: physical laws as physicists write them beside what pyoperon finds on the same
  200 rows, in 2 s each, with 3 seeds; all pairs, and pairs of like size.
"""

import csv
import os
import sys
import time
from operator import add, mul, sub, truediv
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from skmethods import effective_information, filter_formulas, random_formulas

RESULTS = Path(__file__).parent / "results"
SEEDS = range(3)

TABLE = [
    ("x*y", {"x": 3, "y": 4}, 0.23856),
    ("sqrt(x)", {"x": 3}, 0.04846),
    ("exp(x)", {"x": 10}, 1.00216),
    ("log(x)", {"x": np.e}, 0.15051),
    ("(x+1)-x", {"x": 1000}, 3.23871),
    ("a^2-b^2", {"a": 1001, "b": 1000}, 3.1992),
    ("(a-b)*(a+b)", {"a": 1001, "b": 1000}, 3.1507),
    ("sqrt(x+1)-sqrt(x)", {"x": 1e6}, 6.5207),
    ("1/(sqrt(x+1)+sqrt(x))", {"x": 1e6}, 0.28337),
    ("(1-cos(x))/x^2", {"x": 1e-3}, 6.4515),
    ("0.5*(sin(x/2)/(x/2))^2", {"x": 1e-3}, 0.77203),
    ("(-b+sqrt(b^2-4*a*c))/(2*a)", {"a": 1, "b": 1e4, "c": 1}, 8.0256),
    ("2*c/(-b-sqrt(b^2-4*a*c))", {"a": 1, "b": 1e4, "c": 1}, 0.39355),
    ("q/n-(s/n)^2", {"n": 10, "s": 100, "q": 1000.001}, 6.6021),
    ("x-x", {"x": 3}, np.inf),
    ("0*exp(1.001*x-x)+x", {"x": 1000}, 3.3014),
]

#: Laws that are no signomials, from general knowledge: formula, {name: (low, high)}.
LAWS = {
    "normal density": ("exp(-x**2/2)/sqrt(2*pi)", {"x": (1, 3)}),
    "normal density, scaled": (
        "exp(-(x/s)**2/2)/(sqrt(2*pi)*s)",
        {"x": (1, 3), "s": (1, 3)},
    ),
    "distance": (
        "sqrt((x2 - x1)**2 + (y2 - y1)**2)",
        {"x1": (1, 5), "x2": (1, 5), "y1": (1, 5), "y2": (1, 5)},
    ),
    "relativistic mass": (
        "m/sqrt(1 - v**2/c**2)",
        {"m": (1, 5), "v": (1, 2), "c": (3, 10)},
    ),
    "Lorentz transformation": (
        "(x - u*t)/sqrt(1 - u**2/c**2)",
        {"x": (5, 10), "u": (1, 2), "t": (1, 2), "c": (3, 20)},
    ),
    "sum of velocities": (
        "(u + v)/(1 + u*v/c**2)",
        {"u": (1, 5), "v": (1, 5), "c": (6, 10)},
    ),
    "relativistic kinetic energy": (
        "m*c**2*(1/sqrt(1 - v**2/c**2) - 1)",
        {"m": (1, 5), "v": (1, 2), "c": (3, 10)},
    ),
    "relativistic Doppler effect": (
        "f*sqrt((c + v)/(c - v))",
        {"f": (1, 5), "v": (1, 2), "c": (3, 10)},
    ),
    "Planck's oscillator": (
        "h*w/(exp(h*w/(k*T)) - 1)",
        {"h": (1, 3), "w": (1, 3), "k": (1, 3), "T": (1, 5)},
    ),
    "Fermi-Dirac": (
        "1/(exp((E - mu)/(k*T)) + 1)",
        {"E": (1, 5), "mu": (1, 5), "k": (1, 3), "T": (1, 3)},
    ),
    "barometric formula": (
        "n*exp(-m*g*h/(k*T))",
        {"n": (1, 5), "m": (1, 2), "g": (1, 2), "h": (1, 2), "k": (1, 2), "T": (1, 5)},
    ),
    "Arrhenius": (
        "A*exp(-E/(R*T))",
        {"A": (1, 5), "E": (1, 5), "R": (1, 2), "T": (1, 5)},
    ),
    "diode": (
        "I*(exp(q*V/(k*T)) - 1)",
        {"I": (1, 5), "q": (1, 2), "V": (1, 2), "k": (1, 2), "T": (1, 2)},
    ),
    "Langevin's paramagnet": (
        "n*mu*tanh(mu*B/(k*T))",
        {"n": (1, 5), "mu": (1, 3), "B": (1, 3), "k": (1, 3), "T": (1, 5)},
    ),
    "refraction": ("asin(n*sin(theta))", {"n": (0.2, 0.9), "theta": (0.1, 1.4)}),
    "thin lens": ("1/(1/d1 + n/d2)", {"d1": (1, 5), "d2": (1, 5), "n": (1, 5)}),
    "interference": (
        "I1 + I2 + 2*sqrt(I1*I2)*cos(delta)",
        {"I1": (1, 5), "I2": (1, 5), "delta": (1, 5)},
    ),
    "driven oscillator": (
        "q*E/(m*(w0**2 - w**2))",
        {"q": (1, 3), "E": (1, 3), "m": (1, 3), "w0": (3, 5), "w": (1, 2)},
    ),
    "grating": (
        "I*sin(n*theta/2)**2/sin(theta/2)**2",
        {"I": (1, 5), "n": (1, 5), "theta": (1, 5)},
    ),
    "work against gravity": (
        "G*m1*m2*(1/r2 - 1/r1)",
        {"G": (1, 5), "m1": (1, 5), "m2": (1, 5), "r1": (1, 5), "r2": (1, 5)},
    ),
    "charging capacitor": (
        "V*(1 - exp(-t/(R*C)))",
        {"V": (1, 5), "t": (1, 3), "R": (1, 3), "C": (1, 3)},
    ),
    "height of a throw": (
        "h + v*t - g*t**2/2",
        {"h": (1, 5), "v": (1, 5), "t": (1, 2), "g": (1, 5)},
    ),
    "range of a throw": (
        "v**2*sin(2*theta)/g",
        {"v": (1, 5), "theta": (0.1, 1.4), "g": (1, 5)},
    ),
    "van der Waals": (
        "n*R*T/(V - n*b) - a*n**2/V**2",
        {
            "n": (1, 2),
            "R": (1, 2),
            "T": (1, 5),
            "V": (5, 9),
            "b": (0.5, 1),
            "a": (1, 3),
        },
    ),
    "pendulum": (
        "m*g*L*(1 - cos(theta))",
        {"m": (1, 5), "g": (1, 5), "L": (1, 5), "theta": (0.1, 1.5)},
    ),
    "damped oscillation": (
        "A*exp(-g*t)*cos(w*t)",
        {"A": (1, 5), "g": (0.1, 1), "t": (0.1, 2), "w": (1, 3)},
    ),
    "decay chain": (
        "N*a/(b - a)*(exp(-a*t) - exp(-b*t))",
        {"N": (1, 5), "a": (0.1, 0.9), "b": (1, 2), "t": (0.5, 3)},
    ),
    "work of an isothermal": (
        "n*R*T*log(V2/V1)",
        {"n": (1, 5), "R": (1, 5), "T": (1, 5), "V1": (1, 5), "V2": (1, 5)},
    ),
    "inhibited enzyme": (
        "V*S/(K*(1 + I/Ki) + S)",
        {"V": (1, 5), "S": (1, 5), "K": (1, 5), "I": (1, 5), "Ki": (1, 5)},
    ),
    "centre of mass": (
        "(m1*r1 + m2*r2)/(m1 + m2)",
        {"m1": (1, 5), "m2": (1, 5), "r1": (1, 5), "r2": (1, 5)},
    ),
}


def save(part, header, rows, lines):
    """A table as CSV, a summary as markdown, also printed."""
    with (RESULTS / f"eic_{part}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    text = "\n".join(lines) + "\n"
    (RESULTS / f"eic_{part}.md").write_text(text)
    print(f"== {part}\n{text}")


def grid(header, rows):
    """A markdown table."""
    table = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(str, row)) + " |" for row in table]


def hand_table():
    rows = []
    for text, point, expected in TABLE:
        X = [[float(v) for v in point.values()]]
        got = effective_information(text, X, feature_names=list(point))
        where = ", ".join(f"{k}={v:.7g}" for k, v in point.items())
        rows.append([text.replace("^", "**"), where, expected, f"{got:.5f}"])
    header = ["formula", "at", "by hand", "here"]
    save("table", header, rows, grid(header, rows))


# -- noise -----------------------------------------------------------------------------

SIMULATED = "add sub mul div sqrt square exp log sin cos tanh".split()


def simulate(tape, row, size, rng, n):
    """Values of the root with independent relative noise at every node."""
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    stack = []
    for op, arg in zip(tape.ops, tape.args, strict=True):
        if op in ("x", "const"):
            y = np.full(n, row[arg] if op == "x" else arg)
        elif op == "powc":
            y = stack.pop() ** arg
        elif op in ufunc:
            b = stack.pop()
            y = ufunc[op](stack.pop(), b)
        else:
            y = getattr(np, op)(stack.pop())
        stack.append(y * (1 + size * rng.standard_normal(n)))
    return stack.pop()


def noise():
    rng = np.random.default_rng(0)
    rows = []
    for text in random_formulas(
        300, n_features=3, operators=SIMULATED, size=(5, 25), random_state=0
    ):
        row = rng.uniform(0.5, 3, 3)
        result = effective_information(text, row[None], return_details=True)
        if not 0.1 < result.root_digits or not result.eic < 4:
            continue  # (nearly) a bare leaf; or beyond first order in doubles
        size = 10 ** -(4 + result.eic)
        y = simulate(result.tape, row, size, rng, 200_000)
        measured = y.std() / abs(result.tape.evaluate(row[None])[0]) / size
        predicted = 10**result.root_digits
        rows.append([text, f"{predicted:.4f}", f"{measured:.4f}", measured / predicted])
        if len(rows) == 40:
            break
    off = np.abs(np.array([r[-1] for r in rows]) - 1)
    lines = [
        f"Measured by predicted amplification at the root of {len(rows)} random trees, "
        f"200 000 draws each: off by {100 * np.median(off):.2f} % in the median and "
        f"{100 * off.max():.2f} % at most."
    ]
    save("noise", ["formula", "predicted", "measured", "ratio"], rows, lines)


# -- speed -----------------------------------------------------------------------------


def as_nd2py(tape, nd):
    """The same tree in nd2py's classes."""
    stack = []
    for op, arg in zip(tape.ops, tape.args, strict=True):
        if op == "x":
            stack.append(nd.Variable(f"x{arg}"))
        elif op == "const":
            stack.append(nd.Number(arg))
        elif op == "powc":
            stack.append(nd.Sqrt(stack.pop()) if arg == 0.5 else nd.Pow2(stack.pop()))
        elif op in ("add", "sub", "mul", "div"):
            b = stack.pop()
            stack.append(getattr(nd, op.capitalize())(stack.pop(), b))
        else:
            stack.append(getattr(nd, op.capitalize())(stack.pop()))
    return stack.pop()


def best_rate(call, items, repeats=5):
    """Items a second, of CPU time: the best of some passes."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        for item in items:
            call(item)
        best = min(best, time.process_time() - start)
    return len(items) / best


def speed():
    X = np.random.default_rng(0).uniform(1, 5, (64, 3))
    drawn = random_formulas(3000, n_features=3, size=(5, 40), random_state=0)
    kinds = {
        "500 random trees": drawn[:500],
        "500 random trees, defined in all rows": filter_formulas(
            drawn, X, threshold=1e300
        )[:500],
    }
    try:
        import nd2py as nd

        nd = nd if hasattr(nd.Symbol, "eval_eic") else None
    except ImportError:
        nd = None
    note = "64 rows, one core, CPU time; best of five passes."
    if nd is None:
        note += " No nd2py with eval_eic is installed."
    rows = []
    for kind, texts in kinds.items():
        tapes = [
            effective_information(t, X[:2], return_details=True).tape for t in texts
        ]
        nodes = f"{np.mean([t.size for t in tapes]):.1f}"
        for aggregate in ("mean", "logmean", "median"):
            # A filter checks the rows once and then reads and scores every formula.
            for what, items in (("tape", tapes), ("text", texts)):
                rate = best_rate(
                    lambda chunk, a=aggregate: filter_formulas(chunk, X, aggregate=a),
                    [items],
                )
                rate *= len(items)
                rows.append([kind, nodes, f"skmethods, from {what}", aggregate, rate])
        if nd is not None:
            trees = [as_nd2py(t, nd) for t in tapes]
            columns = {f"x{j}": X[:, j] for j in range(3)}
            with np.errstate(all="ignore"):
                peer = np.array([t.eval_eic(columns) for t in trees])
                rate = best_rate(lambda t, c=columns: t.eval_eic(c), trees, repeats=3)
            ours = filter_formulas(tapes, X, return_eic=True)[1]
            sane = np.isfinite(ours)
            gap = np.abs(peer[sane] - ours[sane]).max()
            rows.append([kind, nodes, "nd2py eval_eic, from its trees", "mean", rate])
            note += (
                f" {kind}: {sane.sum()} have a finite EIC, at most {gap:.0e} digits "
                "from that of nd2py (its repository's; release 3.0.0 has none)."
            )
    rows = [[*row[:-1], f"{row[-1]:.0f}"] for row in rows]
    header = ["formulas", "mean nodes", "by", "aggregate", "formulas a second"]
    save("speed", header, rows, [*grid(header, rows), "", note])


# -- float32 ---------------------------------------------------------------------------


def float32():
    """Like with like: mean with the rms error, logmean with the mean log error."""
    rows, unit = [], 2.0**-24
    for low, high in ((1, 5), (-3, 3), (-1000, 1000)):
        X = np.random.default_rng(0).uniform(low, high, (64, 3))
        rounded = X.astype(np.float32).astype(float)
        found = []
        for text in random_formulas(5000, n_features=3, random_state=0):
            result = effective_information(text, X, return_details=True)
            tape = result.tape
            if not np.isfinite(result.eic) or tape.depth < 3 or not tape.features:
                continue
            log = effective_information(
                text, X, aggregate="logmean", return_details=True
            )
            low_precision = tape.evaluate(X, dtype=np.float32).astype(float)
            errors = []
            for inputs in (X, rounded):
                exact = tape.evaluate(inputs)
                with np.errstate(all="ignore"):  # an exact zero, a float32 overflow
                    loss = np.abs(low_precision / exact - 1) / unit
                errors += [np.sqrt(np.mean(loss**2)), np.mean(np.log10(loss + 1e-2))]
            if np.isfinite(errors).all():
                errors = np.log10(errors[0] + 1e-9), errors[1], *errors[2:]
                found.append([result.root_digits, log.root_digits, *errors])
            if len(found) == 200:
                break
        mean, logmean, rms, logs, rms_exact, logs_exact = np.array(found).T
        rows.append(
            [
                f"({low}, {high})",
                len(found),
                f"{spearmanr(mean, rms).statistic:.3f}",
                f"{spearmanr(logmean, logs).statistic:.3f}",
                f"{spearmanr(mean, rms_exact).statistic:.3f}",
                f"{spearmanr(logmean, logs_exact).statistic:.3f}",
                f"{10 ** np.median(rms - mean):.2f}",
            ]
        )
    header = [
        "inputs",
        "trees",
        "mean and rms error",
        "logmean and mean log error",
        "the same two, inputs exact: mean",
        "logmean",
        "rms error / (s 2^-24), median",
    ]
    note = (
        "Spearman's rank correlation of the digits at the root with the relative error "
        "of an evaluation in float32 against one in float64 at the unrounded inputs: "
        'the definition gives every read of a variable its noise. "Inputs exact": both '
        "evaluations start from inputs rounded to float32, so that reads are free of "
        "error and the criterion expects too much."
    )
    save("float32", header, rows, [*grid(header, rows), "", note])


# -- laws ------------------------------------------------------------------------------


def all_laws():
    """(name, formula, names, rows): signomials of the data folder, and `LAWS`."""
    path = Path(os.environ["SKMETHODS_DATA"]) / "feynman_signomials.csv"
    with path.open() as file:
        for law in csv.DictReader(file):
            names = law["variables"].split()
            low, high = ([float(v) for v in law[k].split()] for k in ("lows", "highs"))
            yield law["id"], law["formula"], names, low, high
    for name, (formula, ranges) in LAWS.items():
        low, high = zip(*ranges.values(), strict=True)
        yield name, formula, list(ranges), low, high


def r2(y, predicted):
    """Coefficient of determination; -inf if some value is not defined."""
    if not np.isfinite(predicted).all():
        return -np.inf
    return 1 - np.mean((y - predicted) ** 2) / np.var(y)


def engine_front(X, y, seed):
    """(BIC, text) of pyoperon's Pareto front of error and length."""
    from pyoperon.sklearn import SymbolicRegressor

    engine = SymbolicRegressor(
        allowed_symbols="add,sub,mul,div,pow,exp,log,sin,cos,tanh,sqrt,square,"
        "constant,variable",
        objectives=["r2", "length"],
        max_length=30,
        optimizer_iterations=5,
        generations=1_000_000,
        max_evaluations=1_000_000_000,
        max_time=2,
        n_threads=1,
        random_state=seed,
    ).fit(X, y)
    return [
        (
            member["bayesian_information_criterion"],
            engine.get_model_string(member["tree"], precision=17),
        )
        for member in engine.pareto_front_
    ]


def both(text, X, names):
    """The details with "mean", and the criterion with "logmean"."""
    mean, log = (
        effective_information(
            text, X, feature_names=names, aggregate=a, return_details=True
        )
        for a in ("mean", "logmean")
    )
    return mean, log.eic


def joined(tape):
    """The formula after sympy has joined its constants, as text in X1, X2, ..."""
    import sympy

    binary = {"add": add, "sub": sub, "mul": mul, "div": truediv, "pow": pow}
    stack = []
    for op, arg in zip(tape.ops, tape.args, strict=True):
        if op == "x":
            stack.append(sympy.Symbol(f"X{arg + 1}"))
        elif op == "const":
            stack.append(sympy.Float(arg))
        elif op == "powc":
            stack.append(stack.pop() ** sympy.Rational(arg).limit_denominator(12))
        elif op == "neg":
            stack.append(-stack.pop())
        elif op in binary:
            b = stack.pop()
            stack.append(binary[op](stack.pop(), b))
        else:
            stack.append(getattr(sympy, op)(stack.pop()))
    return str(stack.pop())


def compare(law, seed):
    """Rows of the table: BIC's choice, and the good member of nearest size.

    Both as operon prints them and with their constants joined.
    """
    name, formula, names, low, high = law
    rng = np.random.default_rng([seed, *name.encode()])
    X, test = rng.uniform(low, high, (2, 200, len(names)))
    human, human_log = both(formula, X, names)
    y, y_test, size = human.tape.evaluate(X), human.tape.evaluate(test), human.tape.size
    head = [name, seed, "signomial" if name not in LAWS else "other"]
    human = [formula, size, human.eic, human_log]
    indexed = [f"X{j}" for j in range(1, len(names) + 1)]  # as operon counts
    fronts = {"printed": [], "joined": []}
    for bic, text in engine_front(X, y, seed):
        printed, log = both(text, X, indexed)
        fit = r2(y_test, printed.tape.evaluate(test))
        if fit <= 0.9:
            continue
        fronts["printed"].append((bic, fit, printed.tape.size, printed.eic, log, text))
        try:
            text = joined(printed.tape)
            result, log = both(text, X, indexed)
        except ValueError:  # sympy made it complex
            continue
        fronts["joined"].append((bic, fit, result.tape.size, result.eic, log, text))
    rows = []
    for form, front in fronts.items():
        if front:
            chosen = min(front, key=lambda m: m[0])
            nearest = min(front, key=lambda m: abs(m[2] - size))
            rows += [
                [*head, f"{kind}, {form}", *human, *member[1:]]
                for kind, member in (("best BIC", chosen), ("nearest size", nearest))
            ]
    return rows


COLUMNS = [
    "laws",
    "engine's formula",
    "its R2",
    "its size",
    "pairs",
    "nodes, human / engine",
    "human better, mean",
    "median EIC",
    "human better, logmean",
    "median EIC",
]
LAWS_NOTE = (
    "200 rows without noise, pyoperon 2 s on one core, 3 seeds; R2 on 200 other "
    "rows. Pairs are laws by seeds. Printed: operon's formulas as it prints them, "
    "with a weight on every variable, a scale and an offset. Joined: after sympy "
    "has joined constants, so that only structure counts."
)


def summary(rows):
    """One line for each kind of law and of pair."""
    lines = []
    for which in ("signomial", "other", "all"):
        for kind, least, within in (
            ("best BIC, printed", 0.9, np.inf),
            ("best BIC, printed", 0.999, np.inf),
            ("nearest size, printed", 0.9, 0.2),
            ("best BIC, joined", 0.9, np.inf),
            ("best BIC, joined", 0.999, np.inf),
            ("nearest size, joined", 0.9, 0.2),
            ("nearest size, joined", 0.999, 0.2),
        ):
            pairs = [
                r
                for r in rows
                if r[3] == kind
                and which in (r[2], "all")
                and r[8] > least
                and abs(r[9] - r[5]) <= within * r[5]
            ]
            if not pairs:
                continue
            size, mean, log, _, nodes, engine_mean, engine_log = np.array(
                [r[5:12] for r in pairs], dtype=float
            ).T
            line = [which, kind, f"> {least}", "within 20 %" if within < 1 else "any"]
            line += [len(pairs), f"{np.median(size):.0f} / {np.median(nodes):.0f}"]
            for h, e in ((mean, engine_mean), (log, engine_log)):
                tie = np.abs(h - e) < 1e-6
                better = 100 * np.mean((h < e) & ~tie)
                line.append(f"{better:.0f} % (ties {100 * np.mean(tie):.0f} %)")
                line.append(f"{np.median(h):.3f} / {np.median(e):.3f}")
            lines.append(line)
    return lines


def laws():
    rows = [row for law in all_laws() for seed in SEEDS for row in compare(law, seed)]
    header = (
        "law seed kind pair human human_nodes human_mean human_logmean "
        "engine_r2 engine_nodes engine_mean engine_logmean engine"
    ).split()
    rows = [[f"{v:.6g}" if isinstance(v, float) else v for v in r] for r in rows]
    numeric = [[*r[:5], *map(float, r[5:12]), r[12]] for r in rows]
    save("laws", header, rows, [*grid(COLUMNS, summary(numeric)), "", LAWS_NOTE])


PARTS = {
    "table": hand_table,
    "noise": noise,
    "speed": speed,
    "float32": float32,
    "laws": laws,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
