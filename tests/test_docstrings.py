"""Docstrings say what the code does, and every code block in the docs runs."""

import inspect
import os
import re
import subprocess
import sys
import warnings

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc
from sklearn.base import BaseEstimator, clone

import skmethods
from tests._child import ROOT
from tests._instances import ENTRIES, public_estimators, public_names
from tests._observe import fit

#: Methods that users call and that come with scikit-learn's own docstrings.
INHERITED = {
    "get_params",
    "set_params",
    "get_metadata_routing",
    "set_callbacks",
    "set_output",
    "fit_transform",
    "score",
    "fit_predict",
    "get_feature_names_out",
}


def _packages():
    """The public packages whose ``__all__`` holds names beyond the top level's."""
    return sorted({f"skmethods.{home}" for home in skmethods._PUBLIC.values()})


def _public_objects():
    """``{dotted name: object}``, methods of classes included."""
    found = {}
    for package in _packages():
        module = sys.modules.get(package) or __import__(package, fromlist=["x"])
        for name in module.__all__:
            try:
                found[f"{package}.{name}"] = getattr(module, name)
            except (ImportError, AttributeError):
                continue  # test_imports.py reports it
    for name, obj in list(found.items()):
        if isinstance(obj, type):
            for method in _own_methods(obj):
                found[f"{name}.{method}"] = getattr(obj, method)
    return found


def _own_methods(cls):
    return [
        name
        for name, value in inspect.getmembers(cls, callable)
        if not name.startswith("_")
        and not re.fullmatch(r"set_\w+_request", name)
        and getattr(value, "__module__", "").startswith("skmethods")
    ]


OBJECTS = _public_objects()
TOP = {n: o for n, o in OBJECTS.items() if n.count(".") == 2}


def _document(obj):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpydoc warns about malformed sections
        return ClassDoc(obj) if isinstance(obj, type) else FunctionDoc(obj)


def _documented(section):
    names = []
    for parameter in section:
        names += [n.strip().lstrip("*") for n in parameter.name.split(",")]
    return names


def _signature(obj):
    names = list(inspect.signature(obj).parameters)
    return [n for n in names if n not in ("self", "cls")]


def parameter_problem(obj):
    """How docstring and signature differ, or None."""
    documented, real = _documented(_document(obj)["Parameters"]), _signature(obj)
    if documented == real:
        return None
    return f"the docstring has {documented}, the signature {real}"


def test_every_public_name_is_here():
    names = {name.rpartition(".")[2] for name in TOP}
    importable = {n for n, obj in public_names() if not isinstance(obj, Exception)}
    assert importable <= names


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring(name):
    obj = OBJECTS[name]
    assert obj.__doc__, f"{name} has no docstring"
    doc = _document(obj)
    summary = " ".join(doc["Summary"])
    assert summary.endswith("."), (
        f"the summary of {name} is not a sentence: {summary!r}"
    )
    assert len(doc["Summary"]) == 1, f"the summary of {name} is longer than a line"
    problem = parameter_problem(obj)
    assert problem is None, f"{name}: {problem}"
    for parameter in doc["Parameters"]:
        if parameter.name.startswith("*"):
            continue
        assert parameter.type, f"{name}: parameter {parameter.name} has no type"
        assert parameter.desc or name not in TOP or parameter.name in ("X", "y"), (
            f"{name}: parameter {parameter.name} is not described"
        )


@pytest.mark.parametrize("name", OBJECTS)
def test_defaults_are_those_of_the_signature(name):
    """``default=...`` in the docstring is the default in the signature."""
    obj = OBJECTS[name]
    parameters = inspect.signature(obj).parameters
    for entry in _document(obj)["Parameters"]:
        stated = re.search(r"default[=:]? ?(.+)$", entry.type)
        default = parameters[entry.name.split(",")[0].strip().lstrip("*")].default
        if default is inspect.Parameter.empty or not stated:
            continue
        text = stated.group(1).strip().strip("`").replace("'", '"')
        real = default.__name__ if callable(default) else repr(default)
        number = isinstance(default, (int, float)) and not isinstance(default, bool)
        if number:
            assert float(text) == default, f"{name}: {entry.name} {text} != {default}"
        else:
            assert text.endswith(real.replace("'", '"')), (
                f"{name}: {entry.name} has default {real}, the docstring says {text}"
            )


@pytest.mark.parametrize("name", TOP)
def test_examples(name):
    doc = _document(TOP[name])
    assert any(">>>" in line for line in doc["Examples"]), f"{name} has no example"


@pytest.mark.parametrize("name", public_estimators())
def test_estimators_cite_their_source(name):
    doc = _document(public_estimators()[name])
    notes, references = " ".join(doc["Notes"]), " ".join(doc["References"])
    assert len(notes.split()) > 20, "Notes say what the paper gives and what is ours"
    assert re.search(r"20\d\d", references), "References name the paper and its year"
    assert doc["See Also"], "See Also names the peers"


@pytest.mark.parametrize("name", ENTRIES)
def test_fitted_attributes_are_documented(name):
    """Documented are exactly the public ones that some instance sets."""
    entry = ENTRIES[name]
    documented = set(_documented(_document(entry.cls)["Attributes"]))
    X, y = entry.make_data()
    import pandas as pd

    real, always = set(), None
    variants = [clone(estimator) for estimator in entry.instances]
    for parameter, case in entry.parameters.items():  # what only some settings set
        for value in (getattr(case, "a", None), getattr(case, "b", None)):
            est = clone(entry.instances[0])
            est.set_params(**getattr(case, "given", {}) | {parameter: value})
            variants.append(est)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for estimator in variants:
        try:
            fit(estimator, frame, y)
        except (ValueError, TypeError, ImportError):
            continue  # values that are there for their error
        names = {n for n in vars(estimator) if n.endswith("_") and n[0] != "_"}
        real |= names
        always = names if always is None else always & names
    listed = {n for n in documented if n.endswith("_")}
    listed = {
        n for n in listed if not isinstance(getattr(entry.cls, n, None), property)
    }
    assert listed == real, (
        f"set by fit but not documented: {sorted(real - listed)}; "
        f"documented but never set: {sorted(listed - real)}"
    )
    assert isinstance(entry.instances[0], BaseEstimator) and always


def test_the_parameter_rule_itself():
    def wrong_order(a, b):
        """Do it.

        Parameters
        ----------
        b : int
            B.
        a : int
            A.
        """

    def right(a, b):
        """Do it.

        Parameters
        ----------
        a, b : int
            Both.
        """

    assert "the signature ['a', 'b']" in parameter_problem(wrong_order)
    assert parameter_problem(right) is None


# -- documents -------------------------------------------------------------------------

_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_LANGUAGES = {"python", "sh", "text", "json", "toml", "math", "ini", "yaml", "make"}


def blocks(text):
    """``(language, code)`` of every fenced block."""
    return [(m.group(2), m.group(3)) for m in _FENCE.finditer(text)]


def _documents():
    paths = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


@pytest.mark.parametrize("document", _documents())
def test_document_runs(document, tmp_path):
    """The python blocks of a document, one after the other, in an empty folder."""
    found = blocks((ROOT / document).read_text())
    unknown = {language for language, _ in found} - _LANGUAGES
    assert not unknown, f"blocks of {unknown}: python code is fenced as ```python"
    code = "\n".join(c for language, c in found if language == "python")
    if not code:
        return
    script = tmp_path / "document.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{document}:\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("document", _documents())
def test_links_lead_somewhere(document):
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not re.match(r"\w+:", target):
            path = (ROOT / document).parent / target
            assert path.exists(), f"{document} links to {target}, which is not there"


def test_blocks_are_found():
    text = "a\n```python\nx = 1\n```\nb\n```sh\nls\n```\n"
    assert blocks(text) == [("python", "x = 1\n"), ("sh", "ls\n")]
