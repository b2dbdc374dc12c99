"""Checks of state: pickles, determinism, globals, refits, threads, parameters."""

import contextlib
import copy
import io
import os
import pickle
import random
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from tests._checks import check, has_method, has_parameter
from tests._child import NO_DEVICES, output_of
from tests._observe import assert_same, fit, methods_of, results, same

_LOAD = """
import pickle, sys, warnings
from pathlib import Path
assert "torch" not in sys.modules and "sklearn" not in sys.modules
folder = Path(sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    estimators = pickle.loads((folder / "fitted.pickle").read_bytes())
    X = pickle.loads((folder / "X.pickle").read_bytes())
    from tests._observe import results
    found = [results(e, X) for e in estimators]
(folder / "results.pickle").write_bytes(pickle.dumps(found))
print(*(f"{w.category.__name__}: {w.message}" for w in caught), sep="\\n")
"""


def in_fresh_process(estimators, X):
    """Outputs of unpickled estimators in a process without accelerators.

    Returns them with the text of the warnings. The folder's name has a space and a
    letter outside ASCII on purpose.
    """
    with tempfile.TemporaryDirectory(prefix="skmethods ü ") as folder:
        folder = Path(folder)
        (folder / "fitted.pickle").write_bytes(pickle.dumps(estimators))
        (folder / "X.pickle").write_bytes(pickle.dumps(X))
        text = output_of(_LOAD, folder, cwd=folder, env=NO_DEVICES)
        return pickle.loads((folder / "results.pickle").read_bytes()), text


@check()
def check_pickle_in_fresh_process(entry, estimator):
    """Predicts the same when loaded by a process that imported nothing before.

    Also where the machine that fitted it had a GPU: the pickle is made as one with
    ``device="cuda"`` would be, and must load on the CPU and say so.
    """
    X, y = entry.make_data()
    fitted = fit(clone(estimator), X, y)
    here = results(fitted, X)
    estimators = [fitted]
    if "device" in estimator.get_params(deep=False):
        from_gpu = pickle.loads(pickle.dumps(fitted))
        estimators.append(from_gpu.set_params(device="cuda"))
    there, text = in_fresh_process(estimators, X)
    assert_same(here, there[0], "a fresh process")
    if len(there) == 2:
        assert_same(here, there[1], "loading on a machine without a GPU")
        assert "cuda" in text.lower() or not _computes_on_device(fitted, X), (
            "an estimator that was fitted on a GPU computes on the CPU without a "
            f"warning that names its device; warnings: {text!r}"
        )


def _computes_on_device(fitted, X):
    """Whether predicting uses the device: a wrong one is noticed."""
    if hasattr(fitted, "device_"):
        return True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results(copy.copy(fitted).set_params(device="no-such-device"), X)
        except ValueError:
            return True
    return bool(caught)


@check()
def check_pickle_holds_no_torch(entry, estimator):
    """Nothing in the pickle refers to a torch class or function."""
    X, y = entry.make_data()
    found = []

    class Spy(pickle.Unpickler):
        def find_class(self, module, name):
            if module.partition(".")[0] == "torch":
                found.append(f"{module}.{name}")
            return super().find_class(module, name)

    Spy(io.BytesIO(pickle.dumps(fit(clone(estimator), X, y)))).load()
    assert not found, f"the pickle of a fitted estimator names {found}"


@check()
def check_pickle_size(entry, estimator):
    """At most 1.2 times what predicting needs, and 16 kB for the rest."""
    X, y = entry.make_data()
    fitted = fit(clone(estimator), X, y)
    size, needed = len(pickle.dumps(fitted)), entry.fitted_bytes(fitted, X)
    assert size <= 1.2 * needed + 16_384, (
        f"the pickle has {size} bytes; predicting needs {needed}"
    )


@check()
def check_two_fits_equal(entry, estimator):
    """The same int seed gives the same outputs whatever the global seeds are."""
    import torch

    X, y = entry.make_data()
    if "random_state" in estimator.get_params(deep=False):
        estimator = clone(estimator).set_params(random_state=7)
    found = []
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            found.append(results(fit(clone(estimator), X, y), X))
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
    assert_same(*found, "another global seed")


def _globals():
    import torch

    legacy = np.random.get_state()
    return {
        "the random module's state": random.getstate(),
        "numpy's global random state": (legacy[0], legacy[1].tobytes(), *legacy[2:]),
        "torch's global random state": torch.get_rng_state().numpy().tobytes(),
        "torch's number of threads": torch.get_num_threads(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": torch.get_default_device(),
        "torch's deterministic flag": torch.are_deterministic_algorithms_enabled(),
        "torch's warn-only flag": (
            torch.is_deterministic_algorithms_warn_only_enabled()
        ),
        "torch's grad mode": torch.is_grad_enabled(),
        "torch's inference mode": torch.is_inference_mode_enabled(),
        "torch's anomaly mode": torch.is_anomaly_enabled(),
        "torch's float32 matmul precision": torch.get_float32_matmul_precision(),
        "torch's denormal flag": float(torch.tensor(1e-40) * 1.0) != 0,
        "numpy's error settings": np.geterr(),
        "numpy's print settings": repr(np.get_printoptions()),
        "scikit-learn's configuration": sklearn.get_config(),
        "the warning filters": list(warnings.filters),
        "the environment": dict(os.environ),
        "the working directory": os.getcwd(),
    }


@check()
def check_global_state_untouched(entry, estimator):
    """``fit`` and every output method leave the process as they found it."""
    import torch

    X, y = entry.make_data()
    estimator = clone(estimator)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    results(fit(clone(estimator), X, y), X)  # lazy imports may set things up
    with _unusual_globals(torch):
        before = _globals()
        estimator.fit(X, y)
        _assert_globals(before, "fit")
        for name in methods_of(estimator):
            getattr(estimator, name)(X)
            _assert_globals(before, name)


@contextlib.contextmanager
def _unusual_globals(torch):
    """Settings that nobody chooses by chance, so that setting them shows."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    threads = torch.get_num_threads()
    try:
        with np.errstate(under="warn"), np.printoptions(precision=5):
            random.seed(98765)
            np.random.seed(98765)
            torch.manual_seed(98765)
            torch.set_num_threads(3)
            torch.set_default_dtype(torch.float32)
            torch.use_deterministic_algorithms(False)
            torch.set_float32_matmul_precision("highest")
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        torch.set_num_threads(threads)


def _assert_globals(before, method):
    after = _globals()
    changed = [what for what in before if before[what] != after[what]]
    assert not changed, f"{method} changed {', '.join(changed)}"


@check()
def check_failed_fit_changes_nothing(entry, estimator):
    """A fit that raises leaves an unfitted estimator unfitted, a fitted one fitted."""
    X, y = entry.make_data()
    bad = X.copy()
    bad[3, 1] = np.nan
    wide = np.hstack([X, X])
    wide[0, 0] = np.inf
    for good_first in (False, True):
        est = clone(estimator)
        if good_first:
            fit(est, X, y)
        before = vars(est).copy()
        for data in (bad, wide):
            with contextlib.suppress(ValueError):
                est.fit(data, y)
                raise AssertionError("fit accepts NaN or infinity")
            after = vars(est)
            changed = sorted(
                k
                for k in before.keys() | after.keys()
                if before.get(k, est) is not after.get(k, est)
            )
            assert not changed, f"a fit that raised changed {changed}"


@check()
def check_refit_forgets(entry, estimator):
    """A second fit to data of another shape equals a first one."""
    X, y = entry.make_data()
    small, small_y = X[:-5, :-1], None if y is None else y[:-5]
    seeded = clone(estimator)
    if "random_state" in seeded.get_params(deep=False):
        seeded.set_params(random_state=0)
    fresh = fit(clone(seeded), small, small_y)
    again = fit(fit(clone(seeded), X, y), small, small_y)
    assert again.n_features_in_ == small.shape[1]
    assert_same(results(fresh, small), results(again, small), "an earlier fit")
    assert vars(fresh).keys() == vars(again).keys(), (
        "attributes of an earlier fit stay behind: "
        f"{sorted(vars(again).keys() ^ vars(fresh).keys())}"
    )


@check(has_method("partial_fit"))
def check_partial_fit(entry, estimator):
    """Starts from nothing; a call that is refused or interrupted leaves no trace."""
    X, y = entry.make_data()
    more = {"classes": np.unique(y)} if is_classifier(estimator) else {}

    def part(est, rows, X=X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if y is None:
                return est.partial_fit(X[rows])
            return est.partial_fit(X[rows], y[rows], **more)

    est = part(clone(estimator), slice(0, 30))
    once = results(est, X)
    part(est, slice(30, None))
    twice = results(est, X)
    assert not same(once, twice), "a second partial_fit makes no difference"
    again = part(part(clone(estimator), slice(0, 30)), slice(30, None))
    if estimator.get_params().get("random_state", 0) is not None:
        assert_same(twice, results(again, X), "repeating the calls")
    bad = X.copy()
    bad[3, 1] = np.nan
    for data, words in ((bad, "NaN"), (X[:, :-1], "features")):
        try:
            part(est, slice(0, 20), data)
        except ValueError as exc:
            assert words in str(exc), exc
        else:
            raise AssertionError(f"partial_fit accepts bad data ({words})")
        assert_same(twice, results(est, X), "a refused partial_fit")
    est.set_callbacks(_Interrupt())
    with contextlib.suppress(KeyboardInterrupt):
        part(est, slice(0, 20))
        raise AssertionError("partial_fit never calls the callbacks")
    est.set_callbacks()
    assert_same(twice, results(est, X), "an interrupted partial_fit")


class _Interrupt:
    """Ctrl-C at the end of the first task."""

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        raise KeyboardInterrupt

    def teardown(self, estimator, context):
        pass


@check(lambda entry, estimator: is_classifier(estimator))
def check_refit_with_fewer_classes(entry, estimator):
    """Three classes, then two, then names."""
    X, _ = entry.make_data()
    three, two = np.arange(len(X)) % 3, np.arange(len(X)) % 2
    est = fit(clone(estimator), X, three)
    for y in (two, np.array(["no", "yes"])[two]):
        fit(est, X, y)
        assert set(est.classes_) == set(y)
        assert set(est.predict(X)) <= set(y)
        if hasattr(est, "predict_proba"):
            assert est.predict_proba(X).shape == (len(X), 2)


@check(has_parameter("random_state"))
def check_random_state_kinds(entry, estimator):
    """An int, a RandomState and None work; a Generator is refused by name."""
    X, y = entry.make_data()
    for state in (0, np.random.RandomState(0), None):
        fit(clone(estimator).set_params(random_state=state), X, y)
    try:
        clone(estimator).set_params(random_state=np.random.default_rng(0)).fit(X, y)
    except ValueError as exc:
        assert "random_state" in str(exc)
    else:
        raise AssertionError("random_state accepts a numpy Generator")
    drawn = np.random.RandomState(0)
    start = drawn.get_state()[1].tobytes(), drawn.get_state()[2]
    fit(estimator.set_params(random_state=drawn), X, y)
    assert (drawn.get_state()[1].tobytes(), drawn.get_state()[2]) != start, (
        "fit does not draw from the RandomState that it is given"
    )


@check()
def check_threads_may_share_it(entry, estimator):
    """Threads that predict with one fitted object get what one thread gets."""
    X, y = entry.make_data()
    est = fit(clone(estimator), X, y)
    expected = results(est, X)
    start, problems = threading.Barrier(4), []

    def work():
        try:
            start.wait()
            for _ in range(5):
                assert_same(expected, results(est, X), "another thread")
        except BaseException as exc:
            problems.append(exc)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise AssertionError(f"in a thread: {problems[0]}") from problems[0]


@check()
def check_predicting_changes_nothing(entry, estimator):
    """Output methods leave the fitted estimator byte for byte as it was."""
    X, y = entry.make_data()
    est = fit(clone(estimator), X, y)
    results(est, X)  # fills caches, if any
    before = pickle.dumps(est)
    results(est, X[::2])
    assert pickle.dumps(est) == before, "predicting changed the fitted estimator"


@check()
def check_repr_is_cheap(entry, estimator):
    """The HTML of a fitted estimator shows its attributes, so they must be short."""
    X, y = entry.make_data()
    est = fit(clone(estimator), X, y)
    assert type(est).__name__ in est._repr_html_()
    for name, value in vars(est).items():
        if name.endswith("_") and not name.startswith("_"):
            length = len(repr(value))
            assert length < 20_000, f"repr({name}) has {length} characters"


@check(has_method("score_samples"))
def check_outlier_sign(entry, estimator):
    """Larger scores are more normal; the threshold, its sign and predict agree."""
    X, y = entry.make_data()
    est = fit(clone(estimator), X, y)
    far = X.mean(axis=0) + 100 * X.std(axis=0) * np.array([[1], [-1]])
    scores = est.score_samples(X)
    assert est.score_samples(far).max() < scores.min(), (
        "rows far outside do not score lower than the training rows"
    )
    decision = est.decision_function(X)
    assert np.allclose(decision, scores - est.offset_)
    assert same(est.predict(X), np.where(decision < 0, -1, 1))
    assert (est.predict(far) == -1).all()


@check(has_method("fit_predict"))
def check_fit_predict(entry, estimator):
    """``fit_predict`` is ``fit().predict()``."""
    X, y = entry.make_data()
    est = clone(estimator)
    if "random_state" in est.get_params(deep=False):
        est.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(clone(est).fit_predict(X, y), fit(est, X, y).predict(X))
