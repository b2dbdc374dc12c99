"""Checks of what goes in and what comes out: frames, tensors, memory, dtypes."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from tests._checks import check, fit_takes, has_method, takes
from tests._observe import assert_close, assert_same, fit, methods_of, results, same


def _seeded(estimator):
    estimator = clone(estimator)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    return estimator


@check()
def check_float32_close_to_float64(entry, estimator):
    """Single precision input gives nearly the same outputs, still as float64."""
    X, y = entry.make_data()
    X = X.astype(np.float32).astype(np.float64)  # the same numbers in both
    wide = results(fit(_seeded(estimator), X, y), X)
    narrow = X.astype(np.float32)
    assert_close(
        wide,
        results(fit(_seeded(estimator), narrow, y), narrow),
        "float32 input",
        rtol=1e-3,
    )


@check()
def check_outputs(entry, estimator):
    """One float64 (or label) row per row of X; probabilities that are some."""
    X, y = entry.make_data()
    est = fit(clone(estimator), X, y)
    for data in (X, X.astype(np.float32)):
        for name, values in results(est, data).items():
            assert isinstance(values, np.ndarray), f"{name} returns {type(values)}"
            assert len(values) == len(X), f"{name} returns {len(values)} rows"
            if values.dtype.kind == "f":
                assert values.dtype == np.float64, f"{name} returns {values.dtype}"
                assert np.isfinite(values).all(), f"{name} is not finite"
            if name in ("predict_proba", "anomaly_probability"):
                assert values.min() >= 0 and values.max() <= 1, f"{name} leaves [0, 1]"
    if is_classifier(est):
        assert np.array_equal(est.classes_, np.unique(y))
        assert set(est.predict(X)) <= set(est.classes_)
        if hasattr(est, "predict_proba"):
            proba = est.predict_proba(X)
            assert proba.shape == (len(X), len(est.classes_))
            assert np.allclose(proba.sum(axis=1), 1, atol=1e-12)
            best = est.classes_[proba.argmax(axis=1)]
            assert np.array_equal(best, est.predict(X)), "predict is not the argmax"
    if is_regressor(est):
        assert est.predict(X).shape == y.shape


@check()
def check_it_learns(entry, estimator):
    """Better than a constant on its own easy data; sign and order are right."""
    X, y = entry.make_data()
    if is_classifier(estimator):
        constant = np.unique(y, return_counts=True)[1].max() / len(y)
        assert fit(clone(estimator), X, y).score(X, y) > constant
    elif is_regressor(estimator):
        assert fit(clone(estimator), X, y).score(X, y) > 0


@check()
def check_frames(entry, estimator):
    """pandas and polars frames give the same as arrays, and their column names."""
    import pandas as pd
    import polars as pl

    X, y = entry.make_data()
    names = [f"column {j}" for j in range(X.shape[1])]
    expected = results(fit(_seeded(estimator), X, y), X)
    frames = {
        "pandas": (pd.DataFrame(X, columns=names), None if y is None else pd.Series(y)),
        "polars": (pl.DataFrame(X, schema=names), None if y is None else pl.Series(y)),
    }
    for kind, (frame, target) in frames.items():
        est = fit(_seeded(estimator), frame, target)
        assert list(est.feature_names_in_) == names
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(expected, results(est, frame), f"a {kind} frame")


@check(has_method("transform"))
def check_set_output(entry, estimator):
    """``set_output`` names the columns as ``get_feature_names_out`` does."""
    X, y = entry.make_data()
    for kind in ("pandas", "polars"):
        est = clone(estimator).set_output(transform=kind)
        frame = fit(est, X, y).transform(X)
        assert type(frame).__module__.split(".")[0] == kind
        assert list(frame.columns) == list(est.get_feature_names_out())
        est.set_output(transform="default")
        assert np.array_equal(np.asarray(frame), est.transform(X))


@check()
def check_foreign_columns(entry, estimator):
    """Columns in another order, or unknown ones, are refused when predicting."""
    import pandas as pd

    X, y = entry.make_data()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    est = fit(clone(estimator), frame, y)
    others = (frame[frame.columns[::-1]], frame.rename(columns={"c1": "new"}))
    for method in methods_of(est):
        for other in others:
            try:
                getattr(est, method)(other)
            except ValueError as exc:
                assert "feature names" in str(exc), exc
            else:
                raise AssertionError(f"{method} accepts foreign column names")


@check()
def check_read_only_and_memory_maps(entry, estimator):
    """Memory that cannot be written gives the same, without a warning."""
    X, y = entry.make_data()
    expected = results(fit(_seeded(estimator), X, y), X)
    frozen = X.copy()
    frozen.flags.writeable = False
    frozen_y = y
    if y is not None:
        frozen_y = y.copy()
        frozen_y.flags.writeable = False
    with tempfile.TemporaryDirectory(prefix="mapped ü ") as folder:
        path = Path(folder) / "a b.dat"
        X.astype(np.float64).tofile(path)
        mapped = np.memmap(path, dtype=np.float64, mode="r", shape=X.shape)
        for what, data in {"read-only": frozen, "memory-mapped": mapped}.items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings(
                    "ignore", category=UserWarning, module="sklearn"
                )
                est = fit(_seeded(estimator), data, frozen_y)
                assert_same(expected, results(est, data), f"{what} memory")
        del mapped, data


@check()
def check_torch_tensors(entry, estimator):
    """Tensors of any dtype, also with gradients, give what their numbers give."""
    import torch

    X, y = entry.make_data()
    target = None if y is None else torch.tensor(y)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        tensor = torch.tensor(X).to(dtype).requires_grad_()
        host = (
            tensor.detach()
            .to(torch.float32 if dtype is torch.bfloat16 else dtype)
            .numpy()
        )
        expected = results(fit(_seeded(estimator), host, y), host)
        est = fit(_seeded(estimator), tensor, target)
        assert_same(expected, results(est, tensor), f"a {dtype} tensor")
        assert tensor.grad is None
    if takes(estimator, "sample_weight"):
        weight = np.linspace(1, 2, len(X))
        a = fit(_seeded(estimator), X, y, sample_weight=weight)
        b = fit(_seeded(estimator), X, y, sample_weight=torch.tensor(weight))
        assert_same(results(a, X), results(b, X), "a tensor of weights")
    try:
        clone(estimator).fit(torch.tensor(X, device="meta"), y)
    except ValueError as exc:
        assert "meta" in str(exc)
    else:
        raise AssertionError("fit accepts a tensor without data")


def _frozen_bytes(arrays):
    return [(a.tobytes(), a.dtype, a.shape, a.strides) for a in arrays]


@check()
def check_input_is_not_written(entry, estimator):
    """X, y and the weights are the same bytes after ``fit`` and all methods."""
    X, y = entry.make_data()
    for order in "CF":
        for dtype in (np.float64, np.float32):
            data = np.array(X, dtype=dtype, order=order)
            given = [data] if y is None else [data, y.copy()]
            kw = {}
            if takes(estimator, "sample_weight"):
                kw["sample_weight"] = np.linspace(0, 2, len(X)).astype(dtype)
            arrays = [*given, *kw.values()]
            before = _frozen_bytes(arrays)
            est = fit(
                clone(estimator), *(given if y is not None else [data, None]), **kw
            )
            assert _frozen_bytes(arrays) == before, "fit wrote into its arguments"
            for name in methods_of(est):
                values = getattr(est, name)(data)
                assert _frozen_bytes(arrays) == before, f"{name} wrote into X"
                assert not np.shares_memory(values, data), f"{name} returns X itself"


@check()
def check_fitted_state_is_its_own(entry, estimator):
    """Writing into X, y or the results afterwards does not change the estimator."""
    X, y = entry.make_data()
    X = np.ascontiguousarray(X, dtype=np.float64)
    data, target = X.copy(), None if y is None else y.copy()
    est = fit(clone(estimator), data, target)
    expected = {k: v.copy() for k, v in results(est, X).items()}
    data[:] = 1e6
    if target is not None:
        target[:] = target[::-1].copy()
    assert_same(expected, results(est, X), "writing into the training data")
    for values in results(est, X).values():
        values[:] = values[0]
    assert_same(expected, results(est, X), "writing into a result")


@check()
def check_times_are_refused(entry, estimator):
    """Times are not numbers: numpy, pandas, polars; in ``fit`` and when predicting."""
    import pandas as pd
    import polars as pl

    X, y = entry.make_data()
    est = fit(clone(estimator), X, y)
    stamps = np.abs(X * 1e6).astype("datetime64[s]")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["b"] = pd.to_datetime(stamps[:, 1])
    tables = {
        "datetime64": stamps,
        "timedelta64": stamps - stamps[0],
        "a pandas column": frame,
        "a polars column": pl.from_pandas(frame),
        "a list": [[np.datetime64(int(v) + 1, "s") for v in row] for row in X],
        "objects": stamps.astype(object),
    }
    for what, table in tables.items():
        target = y if y is None else y[: len(table)]
        calls = {"fit": lambda t=table, s=target: clone(estimator).fit(t, s)}
        calls |= {m: lambda t=table, m=m: getattr(est, m)(t) for m in methods_of(est)}
        for name, call in calls.items():
            try:
                call()
            except (TypeError, ValueError) as exc:
                assert len(str(exc)) > 10
            else:
                raise AssertionError(f"{name} takes {what} of times for numbers")


@check(fit_takes("sample_weight"))
def check_bad_weights(entry, estimator):
    """Negative, all-zero, missing, infinite or misshapen weights are named errors."""
    X, y = entry.make_data()
    good = np.ones(len(X))
    negative, missing, infinite = good.copy(), good.copy(), good.copy()
    negative[3], missing[3], infinite[3] = -1, np.nan, np.inf
    bad = {
        "negative": negative,
        "all zero": 0 * good,
        "NaN": missing,
        "infinite": infinite,
        "too short": good[:-1],
        "2-D": np.stack([good, good], axis=1),
        "text": np.array(["heavy"] * len(X)),
        "masked": np.ma.masked_array(good, mask=negative < 0),
        "times": good.astype("datetime64[s]"),
    }
    for what, weight in bad.items():
        try:
            clone(estimator).fit(X, y, sample_weight=weight)
        except (ValueError, TypeError) as exc:
            text = str(exc).lower()
            named = "sample_weight" in text or "sample weight" in text
            assert named, f"{what} weights: {exc}"
        else:
            raise AssertionError(f"fit accepts {what} weights")


@check(fit_takes("sample_weight"))
def check_weights_matter(entry, estimator):
    """Ones are the same as no weights; a zero is a row left out; others change it."""
    X, y = entry.make_data()
    plain = results(fit(_seeded(estimator), X, y), X)
    ones = results(fit(_seeded(estimator), X, y, sample_weight=np.ones(len(X))), X)
    assert_close(plain, ones, "weights of one", rtol=1e-6)
    uneven = np.where(np.arange(len(X)) < len(X) // 2, 0.1, 5.0)
    other = results(fit(_seeded(estimator), X, y, sample_weight=uneven), X)
    assert not same(plain, other), "sample_weight makes no difference"
    keep = np.arange(len(X)) % 5 != 0
    zero = results(fit(_seeded(estimator), X, y, sample_weight=keep.astype(float)), X)
    short = results(fit(_seeded(estimator), X[keep], y[keep]), X)
    assert_close(zero, short, "weights of zero instead of leaving rows out", rtol=1e-6)


@check(fit_takes("groups"))
def check_bad_groups(entry, estimator):
    """Missing, misshapen or mixed group labels are named errors."""
    X, y = entry.make_data()
    n = len(X)
    bad = {
        "none": None,
        "too short": np.zeros(n - 1),
        "NaN": np.where(np.arange(n) == 2, np.nan, 0),
        "None inside": np.array([None] + ["a"] * (n - 1), dtype=object),
        "mixed": np.array([0] + ["a"] * (n - 1), dtype=object),
    }
    for what, groups in bad.items():
        try:
            clone(estimator).fit(X, y, groups=groups)
        except (ValueError, TypeError) as exc:
            assert "groups" in str(exc), f"{what}: {exc}"
        else:
            raise AssertionError(f"fit accepts groups that are {what}")
