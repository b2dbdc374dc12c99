"""The report of where digits are lost."""

import pickle
import time

import numpy as np
import pytest

from skmethods import (
    EICResult,
    effective_information,
)
from skmethods.symbolic._eic import tape_information
from skmethods.symbolic._parse import parse_formula


def test_the_report_shows_where():
    row = [[1.0, 1e4, 1.0]]
    result = effective_information(
        "(-b+sqrt(b**2-4*a*c))/(2*a)", row, feature_names=["a", "b", "c"],
        return_details=True,
    )  # fmt: skip
    assert isinstance(result, EICResult)
    assert result.eic == pytest.approx(8.0256, abs=1e-4)
    assert result.root_digits == result.digits[-1] == result.nodes[-1][1]
    assert result.worst_subexpression == "-b + sqrt(b**2 - 4*a*c)"
    assert len(result.nodes) == result.tape.size
    by_text = dict(result.nodes)
    assert by_text["b**2"] == pytest.approx(0.5 * np.log10(5))
    lines = str(result).splitlines()
    assert len(lines) == 2 + result.tape.size
    (marked,) = [line for line in lines if "<-- worst" in line]
    assert "-b + sqrt(b**2 - 4*a*c)" in marked and marked.split()[0] == "8.03"
    assert lines[2].split()[:2] == ["8.03", "+0.00"]
    assert "worst_subexpression='-b + sqrt" in repr(result)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.report() == result.report()


def test_the_worst_node_may_lie_below_a_sound_root():
    result = effective_information(
        "0*exp(1.001*x0 - x0) + x0", [[1000.0]], return_details=True
    )
    assert result.root_digits < 0.2 < 3 < result.eic
    assert result.worst_subexpression == "1.001*x0 - x0"


def test_the_report_of_an_exact_cancellation():
    result = effective_information("exp(x0 - x0) + 1", [[3.0]], return_details=True)
    assert result.worst_subexpression == "x0 - x0"
    assert "inf" in result.report() and "nan" not in result.report()


def test_precision_and_width_of_the_report():
    text = "1.23456789*x0 + " + " + ".join(f"sin({k}*x0)" for k in range(1, 30))
    result = effective_information(text, [[1.0]], return_details=True)
    assert "1.235*x0" in result.report() and "1.23457*x0" in result.report(precision=6)
    assert max(map(len, result.report(max_width=60).splitlines()[1:])) <= 60
    assert max(map(len, result.report(max_width=90).splitlines()[1:])) > 60


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sin(" * 4000 + "x0" + ")" * 4000, "x0"),
        (" + ".join(["x0"] * 5000), "x0"),
        ("-".join(["a_name_of_many_letters"] * 5000), "a_name_of_many_letters"),
    ],
    ids=["calls", "sum", "long name"],
)
def test_a_deep_formula_has_a_report(text, name):
    start = time.process_time()
    result = effective_information(
        text, np.full((64, 1), 0.5), feature_names=[name], return_details=True
    )
    lines = result.report().splitlines()
    assert len(lines) == 2 + result.tape.size
    assert max(map(len, lines[1:])) <= 100
    assert f" level {result.tape.depth - 1} +- {name}" in result.report()
    assert len(result.nodes) == result.tape.size
    assert max(len(text) for text, _ in result.nodes) == 1000
    assert time.process_time() - start < 5


def test_bad_requests_of_a_report():
    result = effective_information("x0 - 1", [[0.5]], return_details=True)
    for wrong in (-1, 0):
        with pytest.raises(ValueError, match="precision"):
            result.report(precision=wrong)
    with pytest.raises(TypeError, match="precision"):
        result.report(precision=1.5)
    for wrong in (59, "80", None, 80.5):
        with pytest.raises(ValueError, match="max_width must be a whole number"):
            result.report(max_width=wrong)


def test_the_tree_is_no_part_of_the_formula():
    result = effective_information("-x0*2", [[0.5]], return_details=True)
    assert "+- -x0" in result.report() and "|- -" not in result.report()


def test_the_worst_does_not_drift_down():
    """95 % of the worst node's digits, not of each node's on the way."""
    for text in ("+".join(["x0"] * 900), "sin(" * 60 + "x0" + ")" * 60):
        result = effective_information(text, [[1.0]], return_details=True)
        worst = parse_formula(result.worst_subexpression)
        found = effective_information(result.worst_subexpression, [[1.0]])
        assert found >= 0.95 * result.eic
        smaller = [worst.subtree(c) for c in worst.children(worst.size - 1)]
        for part in smaller:
            assert tape_information(part, np.ones((1, 1))) < 0.95 * result.eic
