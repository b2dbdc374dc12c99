"""Lazy public names and optional packages."""

import sys
import types

import pytest

from skmethods._lazy import lazy_exports, require


@pytest.fixture
def package(monkeypatch):
    """A package ``toy`` whose module ``toy.part`` defines two names."""
    part = types.ModuleType("toy.part")
    part.first, part.second = object(), object()
    toy = types.ModuleType("toy")
    toy.__path__ = []
    monkeypatch.setitem(sys.modules, "toy", toy)
    monkeypatch.setitem(sys.modules, "toy.part", part)
    table = {"second": "part", "first": "part", "lost": "part", "gone": "nowhere"}
    toy.__getattr__, toy.__dir__, toy.__all__ = lazy_exports("toy", table)
    return toy


def test_names_come_from_their_module(package):
    assert package.first is sys.modules["toy.part"].first
    assert package.second is sys.modules["toy.part"].second
    assert package.__all__ == ["first", "gone", "lost", "second"]
    assert dir(package) == package.__all__


def test_unknown_name(package):
    with pytest.raises(AttributeError, match="module 'toy' has no attribute 'third'"):
        _ = package.third
    assert not hasattr(package, "third")


def test_broken_table_is_not_hidden(package):
    with pytest.raises(AttributeError, match="lost"):
        _ = package.lost
    with pytest.raises(ModuleNotFoundError, match=r"toy\.nowhere"):
        _ = package.gone


def test_require_gives_the_module():
    assert require("json", extra="plot", for_="a test") is sys.modules["json"]
    path = require("os.path", extra="plot", for_="a test")
    assert path is sys.modules["os.path"]


def test_missing_package_says_how_to_get_it():
    with pytest.raises(ImportError) as caught:
        require("no_such_package.part", extra="symbolic", for_="Tree.to_sympy")
    text = str(caught.value)
    assert text.startswith("Tree.to_sympy needs the optional package 'no_such_package'")
    assert 'pip install "skmethods[symbolic]"' in text
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_broken_package_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import its_missing_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="its_missing_dependency") as caught:
        require("half_installed", extra="plot", for_="A plot")
    assert caught.value.__cause__.name == "its_missing_dependency"


def test_other_errors_pass(tmp_path, monkeypatch):
    (tmp_path / "raises_at_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        require("raises_at_import", extra="plot", for_="A plot")
