"""The tour: output, options, exit codes, and that every public estimator is in it."""

import json

import pytest

from skmethods import _tour
from skmethods._tour._row import Result, Row


def _row(name, run):
    return Row(name, "a task", "some data", "AUROC", "APeer", run)


def _broken(quick, device):
    raise RuntimeError("the disk is on fire")


@pytest.fixture
def three_rows(monkeypatch):
    """The middle row fails; the last loses; they report what they were given."""
    seen = []

    def wins(quick, device):
        seen.append((quick, device))
        return Result(0.9, 0.8)

    rows = [
        _row("A", wins),
        _row("B", _broken),
        _row("C", lambda quick, device: Result(0.5, 0.4, higher_is_better=False)),
    ]
    monkeypatch.setattr(_tour, "_rows", lambda: rows)
    return seen


def test_a_failing_row_does_not_stop_the_others(three_rows, capsys):
    assert _tour.main([]) == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [c.strip() for c in lines[0].split("|")] == [n for n, _ in _tour.COLUMNS]
    assert "0.900 | 0.800 (APeer)" in lines[2]
    assert "FAILED" in lines[3]
    assert "0.500 | 0.400 (APeer)" in lines[4]
    expected = "2 methods ran; 1 beat or match their peer; 1 failed; cpu, seed 0"
    assert lines[-1] == expected
    assert "the disk is on fire" in err


def test_notes_and_the_better_of_two_peers(monkeypatch, capsys):
    def run(quick, device):
        return Result(0.9, 0.8, peer_name="Best", note="3 of 5 weights are zero")

    monkeypatch.setattr(_tour, "_rows", lambda: [_row("A", run)])
    assert _tour.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "0.900 | 0.800 (Best)" in lines[2]
    assert lines[3].strip() == "3 of 5 weights are zero"
    assert _tour.main(["--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["peer_name"] == "Best"
    assert row["note"] == "3 of 5 weights are zero"


def test_json_is_one_document(three_rows, capsys):
    assert _tour.main(["--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in document["rows"]] == ["A", "B", "C"]
    assert document["rows"][0]["ours"] == 0.9
    assert document["rows"][0]["peer_name"] == "APeer"
    assert document["rows"][1]["error"] == "RuntimeError: the disk is on fire"
    assert document["summary"]["failed"] == 1
    assert document["summary"]["beat_or_match"] == 1


def test_options_reach_the_rows(three_rows, capsys):
    assert _tour.main(["a", "--quick", "--device", "meta"]) == 0
    assert three_rows == [(True, "meta")]
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 methods ran")


def test_list_runs_nothing(three_rows, capsys):
    assert _tour.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["A", "B", "C"]
    assert three_rows == []
    assert _tour.main(["--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in listed] == ["A", "B", "C"]


def test_unknown_method_names_the_known_ones(three_rows, capsys):
    with pytest.raises(SystemExit) as exit_:
        _tour.main(["nonsense"])
    assert exit_.value.code == 2
    assert "unknown method nonsense; choose from A, B, C" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ours", "peer", "higher", "expected"),
    [
        (0.8, 0.8, True, True),
        (0.7996, 0.8, True, True),
        (0.79, 0.8, True, False),
        (0.79, 0.8, False, True),
        (0.81, 0.8, False, False),
        (float("nan"), 0.8, True, False),
    ],
)
def test_a_tie_is_the_last_digit_shown(ours, peer, higher, expected):
    assert Result(ours, peer, higher).beats_or_matches is expected


def test_table_fits_the_columns():
    for row in _tour._rows():
        for name, width in _tour.COLUMNS:
            assert len(str(getattr(row, name, ""))) <= width, (row.method, name)


def test_the_real_tour_runs(capsys):
    pytest.importorskip("pyoperon")
    assert _tour.main(["--quick", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["ran"] == len(_tour._rows())
    for row in document["rows"]:
        low, high = (0, 5) if row["metric"] == "digits" else (0.5, 1)
        assert low < row["ours"] <= high, row
        assert not [w for w in row["warnings"] if "Runtime" in w], row
