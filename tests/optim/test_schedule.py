"""The budget over the epochs."""

import math

import pytest

from skmethods.optim import SigmaSchedule


def test_the_published_recipe():
    """Cosine from epoch 160 of 200: (1 + cos(pi (epoch - 160) / 39)) / 2."""
    schedule = SigmaSchedule()
    assert schedule(199, 200, None) == math.inf  # no budget is left at no budget
    values = [schedule(epoch, 200, 0.35) for epoch in range(200)]
    assert values[:161] == [0.35] * 161
    for epoch in range(160, 200):
        share = (1 + math.cos(math.pi * (epoch - 160) / 39)) / 2
        assert values[epoch] == pytest.approx(0.35 * share, abs=1e-15)
    assert values[199] == pytest.approx(0, abs=1e-15)


def test_linear_none_and_minimum():
    linear = SigmaSchedule("linear", decay_start=0.5, sigma_min=0.1)
    values = [linear(epoch, 10, 0.5) for epoch in range(10)]
    assert values == pytest.approx([0.5] * 6 + [0.4, 0.3, 0.2, 0.1])
    constant = SigmaSchedule("none", decay_start=0.0)
    assert {constant(epoch, 10, 0.5) for epoch in range(10)} == {0.5}


@pytest.mark.parametrize("decay", ["cosine", "linear"])
def test_edges(decay):
    schedule = SigmaSchedule(decay)
    assert schedule(0, 1, 0.1) == 0.1  # a single epoch does not fall
    assert [schedule(e, 5, 0.1) for e in range(5)] == [0.1] * 5
    assert schedule(300, 200, 0.1) == pytest.approx(0)  # after the end
    assert schedule(9, 10, math.inf) == math.inf  # plain SAM
    assert SigmaSchedule(decay, decay_start=1.0)(9, 10, 0.1) == 0.1
    whole = [SigmaSchedule(decay, 0.0)(e, 10, 0.1) for e in range(10)]
    assert whole == sorted(whole, reverse=True) and len(set(whole)) == 10
    # 0.29 * 100 is a little less than 29 in binary
    assert SigmaSchedule(decay, 0.29)(29, 100, 0.1) == 0.1
    assert SigmaSchedule(decay, 0.29)(30, 100, 0.1) < 0.1


def test_refusals():
    with pytest.raises(ValueError, match="decay must be"):
        SigmaSchedule("step")
    with pytest.raises(ValueError, match="decay_start"):
        SigmaSchedule(decay_start=1.5)
    with pytest.raises(ValueError, match="sigma_min"):
        SigmaSchedule(sigma_min=-1)
    with pytest.raises(ValueError, match="below sigma_min"):
        SigmaSchedule(sigma_min=0.2)(0, 10, 0.1)


def test_repr():
    schedule = SigmaSchedule("linear", 0.5, 0.01)
    assert vars(eval_free(repr(schedule))) == vars(schedule)


def eval_free(text):
    """The schedule that a repr of one writes down."""
    import ast

    call = ast.parse(text, mode="eval").body
    return SigmaSchedule(**{k.arg: ast.literal_eval(k.value) for k in call.keywords})


def test_needs_no_torch():
    import subprocess
    import sys

    code = (
        "import sys; from skmethods import SigmaSchedule; SigmaSchedule()(0, 1, 0.1);"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
