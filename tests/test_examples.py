"""Every example runs by itself, as a user would run it, and draws labelled axes."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))

#: Runs the file named on the command line, then prints one line per axes.
RUN_AND_LIST = """
import runpy, sys
import matplotlib.pyplot as plt
runpy.run_path(sys.argv[1], run_name="__main__")
for number in plt.get_fignums():
    for ax in plt.figure(number).axes:
        print("axes", bool(ax.get_xlabel()), bool(ax.has_data()))
"""


def _run(*command, cwd):
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "error::FutureWarning,error::DeprecationWarning",
    }
    result = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_gallery_form(path):
    """A title of the right length, cells, and public names only."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    over, title, under = ast.get_docstring(tree).splitlines()[:3]
    assert set(over) == set(under) == {"="}
    assert len(over) == len(under) >= len(title)
    assert source.count("\n# %%\n") >= 2
    assert path.stem.startswith(("plot_", "recipe_"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skmethods"):
            assert not any(part.startswith("_") for part in node.module.split("."))


@pytest.mark.parametrize(
    "path", [p for p in EXAMPLES if p.stem.startswith("plot_")], ids=lambda p: p.stem
)
def test_plots(path, tmp_path):
    printed = _run("-c", RUN_AND_LIST, str(path), cwd=tmp_path)
    axes = [line for line in printed.splitlines() if line.startswith("axes")]
    assert len(axes) >= 2
    assert all(line.endswith(" True") for line in axes)  # something is drawn
    assert any("axes True" in line for line in axes)
    assert list(tmp_path.iterdir()) == []  # and no file is left behind


def test_recipe_grid_search_callbacks(tmp_path):
    (path,) = [p for p in EXAMPLES if p.stem == "recipe_grid_search_callbacks"]
    printed = _run(str(path), cwd=tmp_path)
    assert "GridSearchCV - fit" in printed  # the progress bar
    epochs = [int(n) for n in re.findall(r"(\d+) epochs, accuracy 0\.\d+", printed)]
    assert epochs[0] == 40
    assert epochs[1] < 40
