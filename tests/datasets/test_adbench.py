"""fetch_adbench: every place it looks in, every way a file can be wrong. No network:
a server on 127.0.0.1 plays ADBench's repository."""

import functools
import hashlib
import http.server
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from skmethods.datasets import _adbench, fetch_adbench, list_adbench
from skmethods.datasets._adbench_table import CATEGORIES, TABLE, Entry

SHARED = Path("/work/shared/data")


def _save(path, X=None, y=None, **arrays):
    """Write an .npz of 6 rows, 2 columns, 2 anomalies unless told otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if X is None:
        X = np.arange(12, dtype=np.int16).reshape(6, 2)
    if y is None:
        y = np.array([0, 0, 1, 0, 1, 0], dtype=np.int32)
    np.savez(path, X=X, y=y, **arrays)
    return path


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """No local folder, an empty cache, and no way out of this machine."""
    monkeypatch.delenv("SKMETHODS_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(_adbench, "_BASE_URL", "http://127.0.0.1:9/closed")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A small file that stands for 6_cardio; its path."""
    path = _save(tmp_path / "origin" / "Classical" / "6_cardio.npz")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    entry = Entry(6, 2, 2, digest)
    monkeypatch.setitem(_adbench.TABLE, "Classical/6_cardio", entry)
    return path


class _Handler(http.server.SimpleHTTPRequestHandler):
    requests: list = []

    def do_GET(self):
        self.requests.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch, tiny):
    """Serve the folder of `tiny`; the list of requested paths."""
    requests = []
    handler = type("H", (_Handler,), {"requests": requests})
    root = tiny.parent.parent
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(root))
    ) as httpd:
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{httpd.server_address[1]}"
        monkeypatch.setattr(_adbench, "_BASE_URL", address)
        yield requests
        httpd.shutdown()


def _put(tiny, folder):
    """A copy of the file where data_home=folder finds it."""
    target = folder / "adbench" / "Classical" / tiny.name
    target.parent.mkdir(parents=True)
    return shutil.copy(tiny, target)


# -- what comes back -------------------------------------------------------------------


def test_bunch(tiny, tmp_path):
    path = _put(tiny, tmp_path)
    bunch = fetch_adbench("6_cardio", data_home=tmp_path)
    assert bunch.data.dtype == np.float64
    np.testing.assert_array_equal(bunch.data, np.arange(12.0).reshape(6, 2))
    assert bunch.target.dtype == np.int64
    np.testing.assert_array_equal(bunch.target, [0, 0, 1, 0, 1, 0])
    assert bunch.feature_names == ["x0", "x1"]
    assert bunch.target_names == ["normal", "anomaly"]
    assert bunch.frame is None
    assert bunch.filename == str(path)
    for fact in ("6 rows, 2 columns, 2 anomalies", "33.33%", "BSD-2-Clause", "NeurIPS"):
        assert fact in bunch.DESCR
    assert TABLE["Classical/6_cardio"].sha256 in bunch.DESCR


def test_return_X_y(tiny, tmp_path):
    _put(tiny, tmp_path)
    X, y = fetch_adbench("6_cardio", data_home=tmp_path, return_X_y=True)
    assert X.shape == (6, 2)
    assert y.sum() == 2


def test_as_frame(tiny, tmp_path):
    _put(tiny, tmp_path)
    bunch = fetch_adbench("cardio", data_home=tmp_path, as_frame=True)
    assert list(bunch.frame.columns) == ["x0", "x1", "target"]
    assert list(bunch.data.columns) == ["x0", "x1"]
    assert bunch.target.name == "target"
    assert bunch.target.tolist() == [0, 0, 1, 0, 1, 0]
    X, y = fetch_adbench("cardio", data_home=tmp_path, as_frame=True, return_X_y=True)
    assert X.equals(bunch.data)
    assert y.equals(bunch.target)


# -- where it looks --------------------------------------------------------------------


def test_the_environment_variable(tiny, tmp_path, monkeypatch):
    path = _put(tiny, tmp_path)
    monkeypatch.setenv("SKMETHODS_DATA", str(tmp_path))
    assert fetch_adbench("6_cardio").filename == str(path)


def test_data_home_goes_before_the_environment_variable(tiny, tmp_path, monkeypatch):
    _put(tiny, tmp_path / "a")
    path = _put(tiny, tmp_path / "b")
    monkeypatch.setenv("SKMETHODS_DATA", str(tmp_path / "a"))
    assert fetch_adbench("6_cardio", data_home=tmp_path / "b").filename == str(path)


def test_tilde_unicode_and_spaces(tiny, tmp_path, monkeypatch):
    home = tmp_path / "Données d’été 数据"
    path = _put(tiny, home)
    monkeypatch.setenv("HOME", str(tmp_path))
    bunch = fetch_adbench("6_cardio", data_home="~/Données d’été 数据")
    assert bunch.filename == str(path)


def test_download_into_the_cache_once(server, tmp_path):
    for _ in range(2):
        bunch = fetch_adbench("cardio")
    assert server == ["/Classical/6_cardio.npz"]
    expected = tmp_path / "cache/skmethods/adbench/Classical/6_cardio.npz"
    assert bunch.filename == str(expected)
    assert [p.name for p in expected.parent.iterdir()] == ["6_cardio.npz"]


def test_the_local_folder_is_only_read(server, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("SKMETHODS_DATA", str(tmp_path / "mine"))
    bunch = fetch_adbench("cardio")
    assert Path(bunch.filename).is_relative_to(tmp_path / "cache")
    assert list((tmp_path / "mine").iterdir()) == []


def test_download_into_data_home(server, tmp_path):
    home = tmp_path / "my data"
    bunch = fetch_adbench("cardio", data_home=home)
    assert Path(bunch.filename).is_relative_to(home)
    assert fetch_adbench("cardio", data_home=home).filename == bunch.filename
    assert len(server) == 1


def test_data_home_spares_a_download_that_the_cache_has(server, tmp_path):
    cached = fetch_adbench("cardio").filename
    assert fetch_adbench("cardio", data_home=tmp_path / "empty").filename == cached
    assert len(server) == 1


def test_no_download_when_not_asked_for(server, tmp_path):
    with pytest.raises(OSError, match="not found and download_if_missing=False") as e:
        fetch_adbench("cardio", data_home=tmp_path / "x", download_if_missing=False)
    assert str(tmp_path / "x/adbench/Classical/6_cardio.npz") in str(e.value)
    assert str(tmp_path / "cache/skmethods/adbench") in str(e.value)
    assert server == []


# -- the network fails -----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Retry downloading")
def test_offline_says_what_to_do(tiny, tmp_path):
    with pytest.raises(ConnectionError, match="SKMETHODS_DATA") as e:
        fetch_adbench("cardio", delay=0)
    assert "http://127.0.0.1:9/closed/Classical/6_cardio.npz" in str(e.value)
    assert "data_home=" in str(e.value)
    assert str(tmp_path / "cache/skmethods/adbench/Classical") in str(e.value)


def test_the_address_answers_404(server, tiny):
    tiny.unlink()
    with pytest.raises(ConnectionError, match="404"):
        fetch_adbench("cardio", n_retries=0)


@pytest.mark.parametrize("n_retries", [0, 2])
@pytest.mark.filterwarnings("ignore:Retry downloading")
def test_retries_and_delay(server, tiny, monkeypatch, n_retries):
    naps = []
    monkeypatch.setattr("time.sleep", naps.append)
    tiny.unlink()
    with pytest.raises(ConnectionError):
        fetch_adbench("cardio", n_retries=n_retries, delay=7.5)
    assert len(server) == n_retries + 1
    assert [nap for nap in naps if nap == 7.5] == [7.5] * n_retries


def test_a_download_that_is_another_file_is_not_kept(server, tiny, tmp_path):
    tiny.write_bytes(b"<html>please log in</html>")
    with pytest.raises(ValueError, match=r"6_cardio\.npz is not the one") as e:
        fetch_adbench("cardio")
    assert "SHA256" in str(e.value)
    assert list((tmp_path / "cache/skmethods/adbench/Classical").iterdir()) == []


# -- the disk fails --------------------------------------------------------------------


def test_cache_folder_that_cannot_be_made(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "file"))
    with pytest.raises(OSError, match="cache cannot be written") as e:
        fetch_adbench("cardio")
    assert "data_home=" in str(e.value)
    # ... which does not matter to who gives another folder
    assert fetch_adbench("cardio", data_home=tmp_path / "ok").data.shape == (6, 2)


def test_read_only_folder(server, tmp_path, monkeypatch):
    def refuse(*args, dir, **kwargs):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("sklearn.datasets._base.NamedTemporaryFile", refuse)
    with pytest.raises(PermissionError, match="cache cannot be written") as e:
        fetch_adbench("cardio")
    assert str(tmp_path / "cache") in str(e.value)


# -- the file is wrong -----------------------------------------------------------------


def test_checksum(tiny, tmp_path):
    path = _save(tmp_path / "adbench/Classical/6_cardio.npz", X=np.ones((6, 3)))
    with pytest.raises(ValueError, match="damaged or another version") as e:
        fetch_adbench("cardio", data_home=tmp_path)
    assert str(path) in str(e.value)


def test_checksum_in_the_cache(server, tmp_path):
    path = Path(fetch_adbench("cardio").filename)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="delete it to have it downloaded again"):
        fetch_adbench("cardio")
    path.unlink()
    fetch_adbench("cardio")
    assert len(server) == 2


def _truncated(path):
    path.write_bytes(_save(path).read_bytes()[:300])


def _not_a_zip(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")


def _bare_npy(path):
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        np.save(file, np.ones((3, 2)))


def _flipped_byte(path):
    content = bytearray(_save(path).read_bytes())
    content[content.index(b"X.npy") + 150] ^= 255
    path.write_bytes(content)


def _no_y(path):
    path.parent.mkdir(parents=True)
    np.savez(path, X=np.ones((3, 2)))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_truncated, "cannot be read"),
        (_not_a_zip, "cannot be read"),
        (_bare_npy, "cannot be read"),
        (_flipped_byte, "cannot be read"),
        (_no_y, "no array y"),
        (lambda p: _save(p, X=np.ones(6)), r"X must be a table of numbers"),
        (lambda p: _save(p, X=np.full((6, 2), "a")), "X must be a table of numbers"),
        (lambda p: _save(p, X=np.ones((6, 2), complex)), "X must be a table"),
        (lambda p: _save(p, y=np.zeros(5)), "one label per row"),
        (lambda p: _save(p, y=np.zeros((6, 1))), "one label per row"),
        (lambda p: _save(p, y=np.array([0, 1, 2, 0, 0, 0])), "only 0"),
        (lambda p: _save(p, y=np.array(list("aabbaa"))), "only 0"),
        (lambda p: _save(p, X=np.array([[None, 1]] * 6)), "allow_pickle=False"),
    ],
)
def test_file_content(tmp_path, make, why):
    path = tmp_path / "adbench" / "Classical" / "99_mine.npz"
    make(path)
    with pytest.raises(ValueError, match=why) as e:
        fetch_adbench("mine", data_home=tmp_path)
    assert str(path) in str(e.value)


# -- names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("6_cardio", "Classical/6_cardio"),
        ("cardio", "Classical/6_cardio"),
        ("Classical/6_cardio", "Classical/6_cardio"),
        ("magic.gamma", "Classical/22_magic.gamma"),
        ("SVHN_0", "CV_by_ResNet18/SVHN_0"),
        ("CV_by_ViT/MVTec-AD_grid", "CV_by_ViT/MVTec-AD_grid"),
        ("20news_3", "NLP_by_BERT/20news_3"),
    ],
)
def test_spellings(name, key):
    assert _adbench._resolve(name, None) == key


def test_ambiguous_name():
    with pytest.raises(ValueError, match="ambiguous") as e:
        fetch_adbench("MVTec-AD_bottle")
    assert "CV_by_ResNet18/MVTec-AD_bottle" in str(e.value)
    assert "CV_by_ViT/MVTec-AD_bottle" in str(e.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [("cardoi", "6_cardio"), ("ionosphere", "18_Ionosphere"), ("WINE", "45_wine")],
)
def test_unknown_name_lists_near_ones(name, near):
    with pytest.raises(ValueError, match="Did you mean") as e:
        fetch_adbench(name)
    assert repr(near) in str(e.value)


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "../../etc/passwd", "/", "*"])
def test_nonsense_names(name):
    with pytest.raises(ValueError, match=r"list_adbench\(\)"):
        fetch_adbench(name)


def test_further_files_of_the_local_folder(tmp_path, monkeypatch):
    path = _save(tmp_path / "adbench/CV_by_ViT/new_0.npz")
    (path.parent / "notes.txt").write_text("not data")
    bunch = fetch_adbench("new_0", data_home=tmp_path)
    assert bunch.filename == str(path)
    assert "none known for this file" in bunch.DESCR
    assert "CV_by_ViT/new_0" in list_adbench(data_home=tmp_path)
    assert "CV_by_ViT/new_0" in list_adbench("CV_by_ViT", data_home=tmp_path)
    assert "CV_by_ViT/new_0" not in list_adbench("Classical", data_home=tmp_path)
    assert "CV_by_ViT/new_0" not in list_adbench()
    monkeypatch.setenv("SKMETHODS_DATA", str(tmp_path))
    assert "CV_by_ViT/new_0" in list_adbench()


def test_list_names_are_what_fetch_takes():
    names = list_adbench()
    assert len(names) == len(set(names)) == len(TABLE) == 30
    assert [_adbench._resolve(name, None) for name in names] == list(TABLE)
    assert [name for c in CATEGORIES for name in list_adbench(c)] == names
    assert len(list_adbench("Classical")) == 22


def test_parameters_are_validated():
    for bad in (
        {"name": 6},
        {"name": "cardio", "n_retries": -1},
        {"name": "cardio", "delay": -1.0},
        {"name": "cardio", "data_home": 3},
        {"name": "cardio", "return_X_y": "yes"},
    ):
        with pytest.raises(ValueError, match="parameter of fetch_adbench"):
            fetch_adbench(**bad)
    with pytest.raises(ValueError, match="parameter of list_adbench"):
        list_adbench("Tabular")


# -- the real files --------------------------------------------------------------------


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the benchmark data")
@pytest.mark.parametrize("name", ["6_cardio", "NLP_by_BERT/20news_3", "30_satellite"])
def test_table_against_a_real_file(name):
    _check_real(name)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the benchmark data")
@pytest.mark.parametrize("name", list_adbench())
def test_table_against_all_real_files(name):
    _check_real(name)


def _check_real(name):
    X, y = fetch_adbench(name, data_home=SHARED, return_X_y=True)
    entry = TABLE[_adbench._resolve(name, None)]
    assert (*X.shape, y.sum()) == entry[:3]
    assert np.isfinite(X).all()
