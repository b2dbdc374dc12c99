"""What imports what: nothing heavy at the top, no arrows between task packages."""

import ast
import importlib
import pkgutil
import sys
import tomllib

import pytest

import skmethods
from tests._child import ROOT, output_of

PACKAGE = ROOT / "skmethods"

#: Parts that everything may import.
GROUND = {"_validation", "_lazy", "_pickle", "_torch"}
#: Parts that are no task.
APART = GROUND | {"_tour", "datasets", "plotting", "__main__"}

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages([str(PACKAGE)], "skmethods.")
    if not module.name.endswith("__main__")
)
TASKS = sorted(
    path.name
    for path in PACKAGE.iterdir()
    if (path / "__init__.py").exists() and path.name not in APART
)


# -- the top level ---------------------------------------------------------------------


_LOADED = """
import sys
import skmethods
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_import_loads_nothing_heavy(tmp_path):
    loaded = set(output_of(_LOADED, cwd=tmp_path).split())
    assert "skmethods" in loaded
    heavy = {"numpy", "scipy", "sklearn", "torch", "joblib", "pandas", "skorch", "ot"}
    assert not loaded & heavy


# The difference over a bare interpreter is what runs between the two clocks.
_CLOCK = """
import time
start = time.perf_counter()
import skmethods
print(time.perf_counter() - start)
"""


def test_import_takes_50_ms_at_most(tmp_path):
    best = min(float(output_of(_CLOCK, cwd=tmp_path)) for _ in range(5))
    assert best <= 0.050, f"import skmethods takes {1000 * best:.0f} ms"


def test_public_table():
    assert skmethods.__all__ == sorted(skmethods.__all__)
    assert set(dir(skmethods)) >= set(skmethods.__all__)
    assert len(set(skmethods.__all__)) == len(skmethods.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = skmethods.no_such_name
    namespace = {}
    exec("from skmethods import *", namespace)
    assert set(skmethods.__all__) <= namespace.keys()


@pytest.mark.parametrize("name", skmethods.__all__)
def test_public_name(name):
    """It comes from its task package, whose ``__all__`` has it, under its own name."""
    obj = getattr(skmethods, name)
    home = importlib.import_module(f"skmethods.{skmethods._PUBLIC[name]}")
    assert getattr(home, name) is obj
    assert name in home.__all__
    assert obj.__name__ == name
    assert obj.__module__.startswith(home.__name__)


@pytest.mark.parametrize("name", MODULES)
def test_all_is_consistent(name):
    module = importlib.import_module(name)
    missing = [n for n in getattr(module, "__all__", ()) if not hasattr(module, n)]
    assert not missing


@pytest.mark.parametrize("task", [*TASKS, "datasets", "plotting"])
def test_task_package_does_not_load_torch(task, tmp_path):
    code = f"import sys, skmethods.{task}; print('torch' in sys.modules)"
    assert output_of(code, cwd=tmp_path).strip() == "False"


# -- optional packages -----------------------------------------------------------------

_CORE_ONLY = """
import importlib, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is blocked by a test", name=name)

BLOCKED = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Blocker())
for name in sys.argv[2].split(","):
    importlib.import_module(name)
import skmethods
for name in skmethods.__all__:
    getattr(skmethods, name)
"""


def _optional_packages():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = extras["project"]["optional-dependencies"]
    lines = [line for lines in extras.values() for line in lines]
    names = {line.partition(">")[0].partition("[")[0] for line in lines} - {"skmethods"}
    modules = {"faiss-cpu": "faiss", "pytorch-optimizer": "pytorch_optimizer"}
    return sorted(modules.get(name, name.replace("-", "_")) for name in names)


def test_every_module_imports_with_core_dependencies_only(tmp_path):
    blocked = _optional_packages()
    assert {"matplotlib", "pandas", "faiss", "rich"} <= set(blocked)
    output_of(_CORE_ONLY, ",".join(blocked), ",".join(MODULES), cwd=tmp_path)


# -- who may import whom ---------------------------------------------------------------


def imports(tree, module, is_package=False):
    """``(name of a module, [names taken from it])`` of every import in a file."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            yield source, [alias.name for alias in node.names]


def _files(folder):
    return sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts)


def _package_imports():
    for path in _files(PACKAGE):
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        for found in imports(ast.parse(path.read_text()), module, is_package):
            yield module, *found


def private_sklearn(source, names):
    """The private parts of scikit-learn in one import."""
    if source.partition(".")[0] != "sklearn":
        return []
    full = [f"{source}.{name}" for name in names] or [source]
    return [f for f in full if any(part.startswith("_") for part in f.split("."))]


def private_ours(source, names):
    """The parts of skmethods in one import that no user may rely on."""
    if source.partition(".")[0] != "skmethods":
        return []
    full = [f"{source}.{name}" for name in names] or [source]
    hidden = [
        f
        for f in full
        if any(p.startswith("_") and p != "__version__" for p in f.split("."))
    ]
    top = [f"skmethods.{n}" for n in names if source == "skmethods"]
    known = {f"skmethods.{n}" for n in (*skmethods.__all__, "__version__")}
    known |= {f"skmethods.{n}" for n in (*TASKS, "datasets", "plotting")}
    return hidden + [f for f in top if f not in known and f not in hidden]


def forbidden_arrow(module, source, names):
    """Whether a file of one task package reaches into another part of the package."""
    parts = module.split(".")
    if source.partition(".")[0] != "skmethods" or len(parts) < 2:
        return False
    here = parts[1]
    full = [f"{source}.{name}" for name in names] if source == "skmethods" else [source]
    for target in full:
        there = target.split(".")[1] if "." in target else None
        if there is None or there == here or there in GROUND or there == "__version__":
            continue
        if here in ("_tour", "__main__"):
            if here == "_tour" and there.startswith("_"):
                return True
            continue  # public names only, which private_ours checks
        if here in GROUND:
            return True
        if there == "optim" and target == "skmethods.optim" and here in TASKS:
            if all(not name.startswith("_") for name in names):
                continue
        return True
    return False


def test_import_rules_of_the_package():
    arrows = [
        f"{module} imports {names or ''} from {source}"
        for module, source, names in _package_imports()
        if forbidden_arrow(module, source, names)
    ]
    assert not arrows, "\n".join(arrows)


def test_only_validation_touches_sklearn_privates():
    found = [
        f"{module} imports {name}"
        for module, source, names in _package_imports()
        if module != "skmethods._validation"
        for name in private_sklearn(source, names)
    ]
    assert not found, "\n".join(found)


#: They subclass classes of torch or skorch, or serve only those that do; the package
#: loads them when a name of theirs is used.
IMPORT_TORCH = {
    "skmethods.optim._checks",
    "skmethods.optim._foreach",
    "skmethods.optim._lesam",
    "skmethods.optim._moments",
    "skmethods.optim._skorch",
}


def test_torch_is_imported_inside_functions():
    found = set()
    for path in _files(PACKAGE):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        body = ast.parse(path.read_text()).body
        top = [n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))]
        for source, _ in imports(ast.Module(top, []), module):
            if source.partition(".")[0] in ("torch", "skorch", "ot"):
                found.add(module)
    assert found <= IMPORT_TORCH


def test_tour_examples_docs_and_benchmarks_use_public_names():
    found = []
    for folder in ("skmethods/_tour", "examples", "docs", "benchmarks"):
        for path in _files(ROOT / folder):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for source, names in imports(ast.parse(path.read_text()), module):
                if source.startswith("skmethods._tour"):
                    continue
                found += [f"{module} imports {n}" for n in private_ours(source, names)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "code", "wrong"),
    [
        ("skmethods.anomaly._dvm", "from ..optim._lesam import LESAM", True),
        ("skmethods.anomaly._dvm", "from ..optim import LESAM", False),
        ("skmethods.anomaly._dvm", "from skmethods.plotting import X", True),
        ("skmethods.anomaly._dvm", "from .._torch.loop import fit_net", False),
        ("skmethods.anomaly._dvm", "from ._skeleton import Graph", False),
        ("skmethods.anomaly._dvm", "from .. import plotting", True),
        ("skmethods.optim._net", "import skmethods.anomaly", True),
        ("skmethods._torch.loop", "from ..optim import LESAM", True),
        ("skmethods.plotting._x", "from ..anomaly import DVMAnomalyDetector", True),
        ("skmethods._tour.optim", "from skmethods import LESAMClassifier", False),
        ("skmethods._tour.optim", "from skmethods._torch import loop", True),
    ],
)
def test_the_arrow_rule_itself(module, code, wrong):
    (source, names), *_ = imports(ast.parse(code), module)
    private = module.startswith("skmethods._tour") and private_ours(source, names)
    assert bool(forbidden_arrow(module, source, names) or private) is wrong


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("from sklearn.base import clone", False),
        ("from sklearn.base import _fit_context", True),
        ("from sklearn.utils._param_validation import Interval", True),
        ("import sklearn.utils._mask", True),
        ("import numpy._core", False),
    ],
)
def test_the_privacy_rule_itself(code, wrong):
    (source, names), *_ = imports(ast.parse(code), "skmethods.x")
    assert bool(private_sklearn(source, names)) is wrong


def test_no_dangerous_calls():
    """No ``eval``, no unpickling, no global seeds or settings, in the package."""
    banned = {
        "eval", "exec", "torch.load", "pickle.load", "pickle.loads", "joblib.load",
        "np.random.seed", "random.seed", "torch.manual_seed", "torch.set_num_threads",
        "torch.set_default_dtype", "sympify", "sympy.sympify", "np.seterr",
    }  # fmt: skip
    allowed = {("threads.py", "torch.set_num_threads")}  # inside a context that undoes
    found = []
    for path in _files(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in banned and (path.name, name) not in allowed:
                    found.append(f"{path.name}:{node.lineno} calls {name}")
                pickles = [k.value for k in node.keywords if k.arg == "allow_pickle"]
                if any(ast.unparse(value) != "False" for value in pickles):
                    found.append(f"{path.name}:{node.lineno} allows pickles")
    assert not found, "\n".join(found)


def test_python_version():
    assert sys.version_info >= (3, 11)
