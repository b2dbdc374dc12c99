"""Random formulas and functions that several tests of this folder use."""

import numpy as np
from hypothesis import strategies as st

from skmethods.symbolic._tape import BINARY, UNARY, Tape

N_FEATURES = 3

EXPONENTS = [k / 2 for k in range(-7, 8)] + [1 / 3, -1 / 3, 2 / 7, 5 / 12, -3 / 11]


def tapes(
    unary=tuple(UNARY),
    binary=tuple(BINARY),
    constants=None,
    exponents=tuple(EXPONENTS),
    max_leaves=12,
):
    """Strategy: tapes with every operator, or with the given ones."""
    if constants is None:
        constants = st.floats(allow_nan=False, allow_infinity=False)
    column = st.integers(0, N_FEATURES - 1).map(lambda j: [("x", j)])
    leaf = column | constants.map(lambda c: [("const", c)])
    node = st.sampled_from(unary).map(lambda op: (op, None))
    node |= st.sampled_from(exponents).map(lambda c: ("powc", c))

    def extend(children):
        one = st.tuples(children, node).map(lambda t: [*t[0], t[1]])
        two = st.tuples(children, children, st.sampled_from(binary))
        return one | two.map(lambda t: [*t[0], *t[1], (t[2], None)])

    return st.recursive(leaf, extend, max_leaves=max_leaves).map(Tape.from_postfix)


def gplearn_programs(n, seed=0, n_features=N_FEATURES):
    """Random programs of gplearn with all of its functions."""
    from gplearn._program import _Program
    from gplearn.functions import _function_map

    rng = np.random.RandomState(seed)
    functions = list(_function_map.values())
    arities = {}
    for function in functions:
        arities.setdefault(function.arity, []).append(function)
    return [
        _Program(
            function_set=functions,
            arities=arities,
            init_depth=(2, 6),
            init_method="half and half",
            n_features=n_features,
            const_range=(-2.0, 2.0),
            metric=None,
            p_point_replace=0.05,
            parsimony_coefficient=0.001,
            random_state=rng,
        )
        for _ in range(n)
    ]
