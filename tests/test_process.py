"""The process faults, entries 51 to 75 of the battery.

``PROCESS`` says where each is tested. What concerns every estimator is a check in
``_checks_*.py``; the rest is below.
"""

import ast
import os
import pickle
import re
import subprocess
import sys
import tomllib
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import skmethods
from tests._checks import checks
from tests._checks_parameters import assert_test_exists
from tests._child import ROOT, output_of
from tests._faults import assert_is_clear
from tests._instances import Elsewhere, all_entries, cases
from tests._observe import assert_same, fit, results, without

PACKAGE = ROOT / "skmethods"

#: number -> (fault, the check or the test here that covers it)
PROCESS = {
    51: ("device='cuda' without CUDA", "test_unusable_device"),
    52: ("device='cuda:7'", "test_unusable_device"),
    53: ("unwritable cache folder", "test_unwritable_cache"),
    54: ("missing optional package", "test_missing_package"),
    55: ("KeyboardInterrupt mid-fit", "check_interrupted_fit"),
    56: ("a callback raises", "check_interrupted_fit"),
    57: ("fit twice with another number of columns", "check_refit_forgets"),
    58: ("three classes, then two", "check_refit_with_fewer_classes"),
    59: ("predict with unseen columns or order", "check_foreign_columns"),
    60: ("pickle of another version", "test_pickle_of_another_version"),
    61: ("pickle from a GPU, loaded without one", "check_pickle_in_fresh_process"),
    62: ("corrupted pickle or state", "test_corrupted_pickle"),
    63: ("max_iter=1", "check_one_iteration"),
    64: ("huge max_iter", "check_stops_early"),
    65: ("learning_rate=1e10", "check_divergence"),
    66: ("random_state of every kind", "check_random_state_kinds"),
    67: ("n_jobs=0", "check_n_jobs"),
    68: ("unknown parameter, wrong type", "test_unknown_parameter"),
    69: ("groups None, short, one only", "check_bad_groups"),
    70: ("NaN or mixed labels in groups", "check_bad_groups"),
    71: ("bad sample_weight", "check_bad_weights"),
    72: ("memory without a matrix of all pairs", "test_memory_is_bounded"),
    73: ("threads share a fitted object", "check_threads_may_share_it"),
    74: ("disk full", "test_full_disk"),
    75: ("path with spaces and unicode", "test_odd_paths"),
}


@pytest.mark.parametrize("number", range(51, 76))
def test_the_list_is_complete(number):
    _, where = PROCESS[number]
    if where.startswith("check_"):
        assert where in {check.__name__ for check, _ in checks()}
    else:
        assert_test_exists(Elsewhere(f"tests/test_process.py::{where}", "the table"))


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "mps", "meta", "toaster", ""])
@pytest.mark.parametrize(("entry", "estimator"), cases())
def test_unusable_device(entry, estimator, device):
    import torch

    if "device" not in estimator.get_params():
        pytest.skip("has no device")
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("CUDA is there")
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("MPS is there")
    X, y = entry.make_data()
    est = clone(estimator).set_params(device=device)
    with pytest.raises(ValueError, match=f"device={device!r}.*device='cpu'"):
        fit(est, X, y)


def test_unwritable_cache(tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("not a folder")
    with pytest.raises(OSError, match="data_home"):
        skmethods.fetch_adbench("cardio", data_home=blocked / "cache", n_retries=0)


def _require_calls():
    """``(file, module, extra)`` of every optional import in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                extra = {k.arg: k.value for k in node.keywords}["extra"]
                yield path.name, ast.literal_eval(node.args[0]), ast.literal_eval(extra)


def test_extras_bring_what_the_errors_promise():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    distribution = {"faiss": "faiss-cpu"}  # where it differs from the module's name
    calls = list(_require_calls())
    assert calls
    for where, module, extra in calls:
        package = module.partition(".")[0]
        package = distribution.get(package, package)
        wanted = project["optional-dependencies"][extra]
        assert any(line.startswith(package) for line in wanted), (where, module, extra)


@pytest.mark.parametrize(
    ("entry", "package"),
    [
        pytest.param(entry, package, id=f"{name}-{package}")
        for name, entry in all_entries().items()
        for package in entry.optional
    ],
)
def test_missing_package(entry, package):
    X, y = entry.make_data()
    estimator = clone(entry.instances[0]).set_params(**entry.optional[package])
    text = without(package)(estimator, X, y)
    assert text is not None, f"{package} is not used"
    assert package in text and 'pip install "skmethods[' in text
    assert type(estimator).__name__ in text


@pytest.mark.parametrize(("entry", "estimator"), cases())
def test_pickle_of_another_version(entry, estimator):
    """A warning names both versions; newer parameters get their defaults."""
    X, y = entry.make_data()
    fitted = fit(clone(estimator), X, y)
    state = fitted.__getstate__()
    name = next(iter(fitted.get_params()))
    older = {k: v for k, v in state.items() if k != name}
    older["_skmethods_version"] = "0.0.1"
    older["attribute_of_an_old_version_"] = 1
    loaded = type(fitted).__new__(type(fitted))
    with pytest.warns(UserWarning, match=r"0\.0\.1.*" + skmethods.__version__):
        loaded.__setstate__(older)
    assert loaded.get_params()[name] == type(fitted)().get_params()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same_version = pickle.loads(pickle.dumps(fitted))
    assert_same(results(fitted, X), results(same_version, X), "pickling")
    assert not hasattr(same_version, "_skmethods_version")


@pytest.mark.parametrize(("entry", "estimator"), cases())
def test_corrupted_pickle(entry, estimator):
    """A cut file never loads; a network whose weights do not fit never predicts."""
    X, y = entry.make_data()
    fitted = fit(clone(estimator), X, y)
    data = pickle.dumps(fitted)
    for share in (0.1, 0.5, 0.99):
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError)):
            pickle.loads(data[: int(share * len(data))])
    if not hasattr(fitted, "module_"):
        return
    state = fitted.__getstate__()
    weights = dict(state["module_"]["weights"])
    last = list(weights)[-1]
    short = {k: v for k, v in weights.items() if k != last}
    cut = weights | {last: weights[last][:-1]}
    for broken in (short, cut):
        bad = state | {"module_": state["module_"] | {"weights": broken}}
        with pytest.raises(RuntimeError, match=last):
            type(fitted).__new__(type(fitted)).__setstate__(bad)


@pytest.mark.parametrize(("entry", "estimator"), cases())
def test_unknown_parameter(entry, estimator):
    with pytest.raises(ValueError, match="foo"):
        clone(estimator).set_params(foo=1)
    with pytest.raises(TypeError, match="foo"):
        type(estimator)(foo=1)
    X, y = entry.make_data()
    for name in estimator.get_params(deep=False):
        est = clone(estimator).set_params(**{name: {1: 2}.keys()})
        with pytest.raises((ValueError, TypeError), match=name) as caught:
            fit(est, X, y)
        assert_is_clear(caught.value, est)


_MEMORY = """
import resource, sys
import numpy as np
from sklearn.base import clone
from tests._instances import all_entries
from tests._observe import fit, methods_of

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB on Linux

entry = all_entries()[sys.argv[1]]
estimator = entry.instances[0]
X, y = entry.make_data()
n_fit, n_predict = 6000, 20_000
rng = np.random.default_rng(0)
def rows(n):
    return X[np.arange(n) % len(X)] + 0.1 * rng.standard_normal((n, X.shape[1]))
A, B = rows(n_fit), rows(n_predict)
b = None if y is None else y[np.arange(n_fit) % len(y)]
small = fit(clone(estimator), X, y)
for name in methods_of(small):
    getattr(small, name)(X)
before = peak()
fitted = fit(clone(estimator), A, b)
after_fit = peak()
for name in methods_of(fitted)[:1]:
    getattr(fitted, name)(B)
print(after_fit - before, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
@pytest.mark.parametrize("name", all_entries())
def test_memory_is_bounded(name, tmp_path):
    """No n x n or n x m matrix: 137 and 458 MiB at least, in single precision."""
    text = output_of(_MEMORY, name, cwd=tmp_path, timeout=200)
    in_fit, at_all = map(float, text.split())
    assert in_fit < 110, f"fit of 6000 rows took {in_fit:.0f} MiB"
    assert at_all < 200, f"predicting 20 000 rows took {at_all:.0f} MiB"


#: Files that write to disk, and the tests that a full or odd disk is survived.
WRITERS = {"datasets/_adbench.py": "tests/datasets/test_adbench.py"}

_WRITING = {
    "write_text",
    "write_bytes",
    "savez",
    "savez_compressed",
    "save",
    "savetxt",
    "dump",
    "to_csv",
    "to_parquet",
    "mkdir",
    "makedirs",
    "fetch_file",
    "NamedTemporaryFile",
    "mkdtemp",
    "savefig",
}


def writes(tree):
    """Whether code opens a file for writing or calls something that writes one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in _WRITING:
            return True
        if name == "open":
            modes = [*node.args, *(k.value for k in node.keywords)]
            texts = {m.value for m in modes if isinstance(m, ast.Constant)}
            if any(re.fullmatch(r"[rwaxbt+]*[wax+][bt+]*", str(t)) for t in texts):
                return True
    return False


def test_every_writer_is_known():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if writes(ast.parse(path.read_text()))
    }
    assert found == WRITERS.keys(), (
        "files that write to disk: test them with a full disk (/dev/full) and a path "
        "with spaces and unicode, and add them to WRITERS"
    )
    for path in WRITERS.values():
        assert (ROOT / path).exists()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("open(p)", False),
        ("open(p, 'rb')", False),
        ("open(p, 'w')", True),
        ("open(p, mode='ab')", True),
        ("path.write_text(t)", True),
        ("np.load(p)", False),
    ],
)
def test_writes_sees_what_it_should(code, expected):
    assert writes(ast.parse(code)) is expected


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk(tmp_path):
    """The command line says so, with a failing status, when its output is lost."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "skmethods", "--list"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode != 0
    assert "No space left" in done.stderr


def test_odd_paths(tmp_path):
    """Data below a folder with spaces and letters of other alphabets."""
    home = tmp_path / "mein Ördner 数据"
    folder = home / "adbench" / "Classical"
    folder.mkdir(parents=True)
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 0, 0, 0, 1, 1])
    np.savez(folder / "99_my set.npz", X=X, y=y)
    found = skmethods.fetch_adbench("99_my set", data_home=home, return_X_y=True)
    assert np.array_equal(found[0], X) and np.array_equal(found[1], y)
