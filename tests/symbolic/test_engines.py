"""Formulas read out of engines predict what the engines predict."""

import numpy as np
import pytest

from skmethods.symbolic._engines import (
    called_candidates,
    from_prefix,
    operon_columns,
    operon_tape,
    read_candidates,
    read_formulas,
)
from skmethods.symbolic._tape import Tape

SYMBOLS = (
    "add,sub,mul,div,constant,variable,aq,pow,powabs,abs,acos,asin,atan,cbrt,ceil,cos,"
    "cosh,exp,floor,log,logabs,log1p,sin,sinh,sqrt,sqrtabs,tan,tanh,square,fmin,fmax"
)


def law(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(1, 5, (n, 3))
    y = X[:, 0] * X[:, 1] / X[:, 2] ** 2 + 1.5
    return X, y + 0.05 * y.std() * rng.standard_normal(n)


def operon(**params):
    module = pytest.importorskip("pyoperon.sklearn")
    params = {
        "allowed_symbols": "add,sub,mul,div,constant,variable,sqrt,square,sin,exp",
        "objectives": ["r2", "length"],
        "population_size": 60,
        "generations": 8,
        "optimizer_iterations": 3,
        "max_length": 20,
        "random_state": 0,
    } | params
    return module.SymbolicRegressor(**params)


def gplearn(**params):
    genetic = pytest.importorskip("gplearn.genetic")
    params = {"population_size": 100, "generations": 3, "random_state": 0} | params
    return genetic.SymbolicRegressor(**params)


# -- pyoperon --------------------------------------------------------------------------


def test_operon_front_keeps_its_values():
    X, y = law()
    engine = operon().fit(X, y)
    columns = operon_columns(engine)
    assert len(engine.pareto_front_) > 3
    for entry in engine.pareto_front_:
        theirs = engine.evaluate_model(entry["tree"], X)  # in single precision
        ours = operon_tape(entry["tree"], columns).evaluate(X)
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4 * y.std())
    (chosen,) = read_formulas(engine)
    np.testing.assert_allclose(chosen.evaluate(X), engine.predict(X), rtol=2e-4)


@pytest.mark.parametrize("symbol", SYMBOLS.split(","))
def test_every_operon_symbol_is_read(symbol):
    """Each of operon's functions on two columns, weights included."""
    op = pytest.importorskip("pyoperon")
    from pyoperon.sklearn import _KNOWN_SYMBOLS

    X = np.random.default_rng(0).uniform(0.1, 0.9, (9, 2))
    data = op.Dataset(np.asfortranarray(X))
    variables = sorted(data.Variables, key=lambda v: v.Index)
    node = op.Node(_KNOWN_SYMBOLS[symbol])
    if symbol == "constant":
        nodes = [op.Node.Constant(0.25)]
    else:
        reads = []
        for variable, weight in zip(variables, (1.0, 0.75), strict=True):
            read = op.Node.Variable(weight)
            read.HashValue = read.CalculatedHashValue = variable.Hash
            reads.append(read)
        arity = 0 if symbol == "variable" else node.Arity
        nodes = reads[:1] if arity == 0 else [*reads[:arity], node]
    tree = op.Tree(nodes).UpdateNodes()
    theirs = op.Evaluate(op.DispatchTable(), tree, data, op.Range(0, len(X)))
    columns = {variable.Hash: j for j, variable in enumerate(variables)}
    ours = operon_tape(tree, columns).evaluate(X)
    np.testing.assert_allclose(ours, np.ravel(theirs), rtol=3e-5, atol=1e-6)


def test_tiny_constants_of_operon_are_kept():
    """Operon's own text would print them as zero."""
    op = pytest.importorskip("pyoperon")
    tree = op.Tree([op.Node.Constant(1e-12)]).UpdateNodes()
    assert float(op.InfixFormatter.Format(tree, {}, 6).strip("() ")) == 0
    assert operon_tape(tree, {}).args[0] == pytest.approx(1e-12, rel=1e-6)


def test_factors_of_columns_go_into_the_weights():
    X, y = law()
    engine = operon().fit(4.0 * X, y)
    columns = operon_columns(engine)
    for entry in engine.pareto_front_:
        plain = operon_tape(entry["tree"], columns).evaluate(4.0 * X)
        scaled = operon_tape(entry["tree"], columns, [4.0] * 3).evaluate(X)
        np.testing.assert_array_equal(plain, scaled)


def test_constants_that_are_not_finite_are_no_formula():
    assert from_prefix([("add", 2), [("x", 0)], [("const", np.inf)]]) is None


def test_prefix_order_and_many_operands():
    nodes = [("sub", 3), [("x", 0)], [("x", 1)], ("exp", 1), [("x", 2)]]
    assert from_prefix(nodes).to_text() == "x0 - x1 - exp(x2)"


# -- gplearn ---------------------------------------------------------------------------


def test_gplearn_population_keeps_its_values():
    names = ("add", "sub", "mul", "div", "sqrt", "log", "abs", "neg", "inv", "max")
    names += ("min", "sin", "cos", "tan")
    X, y = law()
    X = X - 3  # protected functions are at work
    engine = gplearn(function_set=names).fit(X, y)
    tapes = read_candidates(engine)
    theirs = [program.execute(X) for program in engine._programs[-1]]
    ours = {tape.evaluate(X).tobytes() for tape in tapes}
    assert len(tapes) == len(set(tapes)) <= len(theirs)
    for values in theirs:
        close = [np.allclose(values, np.frombuffer(v), rtol=1e-12) for v in ours]
        assert any(close)
    (chosen,) = read_formulas(engine)
    np.testing.assert_allclose(chosen.evaluate(X), engine.predict(X), rtol=1e-12)
    assert chosen in tapes


def test_a_function_of_the_users_own_is_compared_not_trusted():
    functions = pytest.importorskip("gplearn.functions")
    X, y = law()
    same = functions.make_function(function=lambda a: np.tanh(a), name="tanh", arity=1)
    read_candidates(gplearn(function_set=("add", "mul", same)).fit(X, y))
    for name in ("tanh", "wavelet"):
        other = functions.make_function(
            function=lambda a: np.tanh(2 * a), name=name, arity=1
        )
        engine = gplearn(function_set=("add", other), p_hoist_mutation=0.0).fit(X, y)
        with pytest.raises(ValueError, match=f"{name}.*make_function.*candidates="):
            read_candidates(engine)


# -- PySR, doubled, and others ---------------------------------------------------------


class PySRDouble:
    """What PySR's users see of a fitted regressor; Julia is not needed for it."""

    def __init__(self, equations, best, names=None):
        import pandas as pd

        self.equations_ = pd.DataFrame(
            {"complexity": range(len(equations)), "equation": equations}
        )
        self.best, self.n_features_in_ = best, 3
        if names is not None:
            self.feature_names_in_ = np.array(names)

    def sympy(self):
        sympy = pytest.importorskip("sympy")
        names = getattr(self, "feature_names_in_", ["x0", "x1", "x2"])
        local = {name: sympy.Symbol(name) for name in names}
        return sympy.parse_expr(self.best.replace("^", "**"), local_dict=local)


def test_pysr_equations():
    equations = ["1.5", "x0 * 2.5", "(x0 * x1) / square(x2)", "cos(x1) ^ 2.0"]
    engine = PySRDouble(equations, equations[2].replace("square(x2)", "x2^2"))
    X, _ = law()
    values = [tape.evaluate(X) for tape in read_candidates(engine)]
    expected = [
        np.full(len(X), 1.5),
        2.5 * X[:, 0],
        X[:, 0] * X[:, 1] / X[:, 2] ** 2,
        np.cos(X[:, 1]) ** 2,
    ]
    np.testing.assert_allclose(values, expected)
    (chosen,) = read_formulas(engine)
    np.testing.assert_allclose(chosen.evaluate(X), expected[2])


def test_eulers_number_as_sympy_writes_it():
    engine = PySRDouble([], "x0*exp(1)")
    (tape,) = read_formulas(engine)
    assert tape.evaluate(np.ones((1, 3)))[0] == pytest.approx(np.e)


def test_names_that_are_given():
    """For engines that store none; the engine's own go first."""
    engine = PySRDouble(["mass*2", "x0 - x1"], "x0")
    del engine.n_features_in_
    names = ["force", "mass"]
    tapes = read_candidates(engine, names, 2)
    assert [t.to_text() for t in tapes] == ["x1*2", "x0 - x1"]
    tapes = called_candidates(lambda fitted: ["force"], engine, names, 2)
    assert tapes[0].features == (0,)
    with pytest.raises(ValueError, match=r"^equations_\[0\]: .*unknown name 'mass'"):
        read_candidates(engine)
    engine.feature_names_in_ = np.array(["mass", "force"])
    assert read_candidates(engine, names, 2)[0].features == (0,)


def test_names_of_columns():
    engine = PySRDouble(
        ["mass * 2", "force / mass"], "force / mass", ["a", "mass", "force"]
    )
    assert [t.features for t in read_candidates(engine)] == [(1,), (1, 2)]
    assert read_formulas(engine)[0].features == (1, 2)


def test_one_table_per_target_is_refused():
    engine = PySRDouble(["x0"], "x0")
    engine.equations_ = [engine.equations_, engine.equations_]
    with pytest.raises(TypeError, match="y must be 1-D"):
        read_candidates(engine)


def test_unknown_engines_are_refused_with_what_is_understood():
    from sklearn.linear_model import LinearRegression

    X, y = law()
    engine = LinearRegression().fit(X, y)
    with pytest.raises(TypeError, match=r"LinearRegression.*pyoperon.*formula\(\)"):
        read_formulas(engine)
    with pytest.raises(
        TypeError, match=r"LinearRegression.*gplearn.*PySR.*candidates="
    ):
        read_candidates(engine)


def test_own_candidates():
    engine = PySRDouble([], "x0")
    tapes = called_candidates(lambda fitted: ["x0 + 1", "x1", "x0 + 1"], engine)
    assert [t.to_text() for t in tapes] == ["x0 + 1", "x1"]
    for wrong in ("x0", None, 3):
        with pytest.raises(TypeError, match="candidates must return a list"):
            called_candidates(lambda fitted, wrong=wrong: wrong, engine)
    with pytest.raises(ValueError, match="x7"):
        called_candidates(lambda fitted: ["x7"], engine)


def test_all_digits_and_all_classes_are_read():
    class Classes:
        def formula(self, feature_names=None, precision=3):
            return {"a": "0.123456" if precision is None else "0.1", "b": "x0"}

    first, second = read_formulas(Classes())
    assert first == Tape.from_postfix([("const", 0.123456)])
    assert second.features == (0,)
