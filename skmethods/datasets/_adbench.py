"""The anomaly detection benchmark ADBench: a local folder, the cache, the network."""

import difflib
import hashlib
import http.client
import os
import re
import zipfile
import zlib
from numbers import Integral, Real
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote

import numpy as np

from .._lazy import require
from .._validation import Interval, StrOptions, validate_params
from ._adbench_table import CATEGORIES, TABLE

_BASE_URL = "https://raw.githubusercontent.com/Minqi824/ADBench/main/adbench/datasets"

_DESCR = """\
ADBench data set {name}
{line}
Category: {category}. {n_samples} rows, {n_features} columns, {n_anomalies} anomalies
({share:.2%}). Target: 0 normal, 1 anomaly. ADBench's files carry no column names, so
feature_names are numbered.

Source: {source}
Checksum: {checksum}
Licence of the collection: BSD-2-Clause, (c) 2022 Minqi Jiang and others. The collectors
of each table have their own terms; see ADBench's repository (GitHub Minqi824/ADBench).
Reference: S. Han, X. Hu, H. Huang, M. Jiang, Y. Zhao, "ADBench: Anomaly Detection
Benchmark", NeurIPS Datasets and Benchmarks 2022, arXiv:2206.09426.
"""


# -- names ---------------------------------------------------------------------------


def _short(key):
    """The name that list_adbench shows: embeddings exist once per network."""
    category, _, base = key.partition("/")
    return base if category == "Classical" else key


def _spellings(key):
    """Every name of a data set, the most exact first."""
    base = key.partition("/")[2]
    return key, base, re.sub(r"^\d+_", "", base)


def _known(home):
    """Keys of the table, then those of other files in the local folder."""
    keys = dict.fromkeys(TABLE)
    if home is not None:
        for category in CATEGORIES:
            for path in sorted((home / "adbench" / category).glob("*.npz")):
                keys[f"{category}/{path.stem}"] = None
    return list(keys)


def _resolve(name, home):
    """The key ``category/name`` that a user's name means."""
    keys = _known(home)
    for level in range(3):
        found = [key for key in keys if _spellings(key)[level] == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(
                f"name={name!r} is ambiguous: ADBench has {' and '.join(found)}. Pass "
                "one of these names."
            )
    shown = {s.casefold(): _short(key) for key in keys for s in _spellings(key)}
    near = difflib.get_close_matches(name.casefold(), shown, n=5, cutoff=0.5)
    near = list(dict.fromkeys(shown[s] for s in near))
    hint = f"Did you mean {', '.join(map(repr, near))}? " if near else ""
    raise ValueError(
        f"name={name!r} is not a data set of ADBench that can be had here. {hint}"
        "skmethods.datasets.list_adbench() gives all names; a further file of ADBench "
        "is found when it lies in <data_home>/adbench/<category>/."
    )


# -- places --------------------------------------------------------------------------


def _local_home(data_home):
    """The folder to look in first: `data_home`, or else SKMETHODS_DATA; or None."""
    home = data_home if data_home is not None else os.environ.get("SKMETHODS_DATA")
    return Path(home).expanduser() if home else None


def _cache_home():
    from sklearn.datasets import get_data_home

    try:
        return Path(get_data_home()) / "skmethods"
    except OSError as exc:
        raise _unwritable(exc, exc.filename) from exc


def _unwritable(exc, folder):
    return OSError(  # with an errno this makes the fitting subclass of OSError
        exc.errno,
        f"The data cache cannot be written ({exc.strerror}). Give data_home= a folder "
        "that can, or set SKMETHODS_DATA to one that holds the data",
        str(folder),
    )


def _download(key, folder, n_retries, delay):
    from sklearn.datasets import fetch_file

    url = f"{_BASE_URL}/{quote(key)}.npz"
    path = folder / f"{key.partition('/')[2]}.npz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fetch_file(
            url,
            folder=folder,
            local_filename=path.name,
            sha256=TABLE[key].sha256,
            n_retries=n_retries,
            delay=delay,
        )
    except (URLError, TimeoutError, ConnectionError, http.client.HTTPException) as exc:
        raise ConnectionError(
            f"{url} could not be downloaded ({exc}). Without a network, get the file "
            f"elsewhere and save it as {path}, or set data_home= or the environment "
            f"variable SKMETHODS_DATA to a folder that holds adbench/{key}.npz."
        ) from exc
    except OSError as exc:
        if exc.errno is not None:
            raise _unwritable(exc, folder) from exc
        raise ValueError(  # fetch_file's checksum error has no errno
            f"The file at {url} is not the one that this version of skmethods knows, "
            f"and was not kept. {exc}"
        ) from exc
    return path


# -- reading -------------------------------------------------------------------------


def _check_sha256(path, entry):
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != entry.sha256:
        raise ValueError(
            f"{path} is damaged or another version: its SHA-256 is {digest}, expected "
            f"{entry.sha256}. Replace it, or delete it to have it downloaded again."
        )


def _read(path):
    """X as float64 and y as int64 of an .npz file, or ValueError naming the file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [k for k in ("X", "y") if k not in archive]
            if missing:
                raise ValueError(f"it has no array {' and '.join(missing)}")
            X, y = archive["X"], archive["y"]
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(
                f"X must be a table of numbers, got shape {X.shape}, dtype {X.dtype}"
            )
        if y.shape != X.shape[:1]:
            raise ValueError(
                f"y must have one label per row of X, got shapes {y.shape} and "
                f"{X.shape}"
            )
        if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
            raise ValueError("y must hold only 0 (normal) and 1 (anomaly)")
    # AttributeError: what numpy's archives raise for a bare .npy file.
    except (
        ValueError,
        EOFError,
        KeyError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as exc:
        raise ValueError(
            f"{path} cannot be read as an ADBench data set: {exc}. Replace the file."
        ) from exc
    return X.astype(np.float64), y.astype(np.int64)


# -- public --------------------------------------------------------------------------


@validate_params(
    {
        "category": [StrOptions(set(CATEGORIES)), None],
        "data_home": [str, os.PathLike, None],
    },
    prefer_skip_nested_validation=True,
)
def list_adbench(category=None, *, data_home=None):
    """Names of the ADBench data sets that `fetch_adbench` can load.

    Parameters
    ----------
    category : {"Classical", "CV_by_ResNet18", "CV_by_ViT", "NLP_by_BERT"}, \
            default=None
        Only this category; by default all of them.
    data_home : str or path-like, default=None
        The local folder, see `fetch_adbench`. Further ADBench files that lie in it are
        listed too, after those that can be downloaded.

    Returns
    -------
    list of str
        In ADBench's order. Embedding sets carry their category, since the same images
        are embedded by two networks.

    See Also
    --------
    fetch_adbench : Load one of them.

    Examples
    --------
    >>> from skmethods.datasets import list_adbench
    >>> list_adbench()[:3]
    ['1_ALOI', '4_breastw', '6_cardio']
    >>> list_adbench("CV_by_ViT")[:2]
    ['CV_by_ViT/MVTec-AD_bottle', 'CV_by_ViT/MVTec-AD_grid']
    """
    return [
        _short(key)
        for key in _known(_local_home(data_home))
        if category is None or key.startswith(f"{category}/")
    ]


@validate_params(
    {
        "name": [str],
        "data_home": [str, os.PathLike, None],
        "download_if_missing": ["boolean"],
        "return_X_y": ["boolean"],
        "as_frame": ["boolean"],
        "n_retries": [Interval(Integral, 0, None, closed="left")],
        "delay": [Interval(Real, 0, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def fetch_adbench(
    name,
    *,
    data_home=None,
    download_if_missing=True,
    return_X_y=False,
    as_frame=False,
    n_retries=3,
    delay=1.0,
):
    """Load a data set of the anomaly detection benchmark ADBench.

    The file is looked for in a local folder, then in the cache, and only then
    downloaded. Its SHA-256 is checked wherever it was found.

    Parameters
    ----------
    name : str
        As `list_adbench` gives it, e.g. ``"6_cardio"``; the number may be left out
        (``"cardio"``), the category given (``"CV_by_ViT/MVTec-AD_grid"``).
    data_home : str or path-like, default=None
        Local folder with the files ``adbench/<category>/<name>.npz``, also where a
        download is stored. By default the environment variable ``SKMETHODS_DATA``
        names the folder, which is then only read; downloads go to the cache, a
        ``skmethods`` folder in :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        If False, a file that is not on this machine is an ``OSError``.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Give data and target as pandas objects.
    n_retries : int, default=3
        How often to try again when the network fails.
    delay : float, default=1.0
        Seconds between retries.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        With the attributes

        data : ndarray of float64 of shape (n_samples, n_features)
            A DataFrame with `as_frame`.
        target : ndarray of int of shape (n_samples,)
            0 normal, 1 anomaly. A Series with `as_frame`.
        feature_names : list of str
            ``x0``, ``x1``, ...: the benchmark has no names.
        target_names : list of str
            ``["normal", "anomaly"]``.
        frame : DataFrame or None
            Data and target together, with `as_frame`.
        DESCR : str
            Size, source, licence and reference.
        filename : str
            Where the file lies.
    (data, target) : tuple
        If `return_X_y`.

    Raises
    ------
    ValueError
        For a name that is unknown or means two data sets, and for a damaged file.
    ConnectionError
        When the download fails; the message says how to do without it.
    OSError
        When the data is missing and may not be downloaded, or cannot be stored.

    See Also
    --------
    list_adbench : The names.
    make_anomalies : Synthetic anomalies of four kinds.

    Notes
    -----
    The data and the categories are ADBench's [1]_; the search order, the names and the
    checks are our design. An ADBench file that this version has no checksum for is read
    from the local folder all the same; ``DESCR`` says so.

    References
    ----------
    .. [1] S. Han, X. Hu, H. Huang, M. Jiang, Y. Zhao, "ADBench: Anomaly Detection
       Benchmark", NeurIPS Datasets and Benchmarks 2022, arXiv:2206.09426.

    Examples
    --------
    >>> from skmethods.datasets import fetch_adbench
    >>> X, y = fetch_adbench("cardio", return_X_y=True)  # doctest: +SKIP
    >>> X.shape, int(y.sum())  # doctest: +SKIP
    ((1831, 21), 176)
    """
    from sklearn.utils import Bunch

    home = _local_home(data_home)
    key = _resolve(name, home)
    category, _, base = key.partition("/")
    entry = TABLE.get(key)

    places = [home / "adbench" / category] if home is not None else []
    if entry is not None and not any((p / f"{base}.npz").is_file() for p in places):
        try:
            places.append(_cache_home() / "adbench" / category)
        except OSError:
            if data_home is None:  # else the download goes there, not to the cache
                raise
    paths = [place / f"{base}.npz" for place in places]
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        if not download_if_missing:
            raise OSError(
                f"ADBench's {base} was not found and download_if_missing=False. Looked "
                f"for {' and '.join(map(str, paths))}. Set data_home= or the "
                "environment variable SKMETHODS_DATA to the folder that has it, or "
                "allow the download."
            )
        target = places[0] if data_home is not None else places[-1]
        path = _download(key, target, n_retries, delay)
    elif entry is not None:
        _check_sha256(path, entry)

    X, y = _read(path)
    feature_names = [f"x{i}" for i in range(X.shape[1])]
    frame = None
    if as_frame:
        pandas = require(
            "pandas", extra="frames", for_="fetch_adbench with as_frame=True"
        )
        frame = pandas.DataFrame(X, columns=feature_names)
        frame["target"] = y
        X, y = frame[feature_names], frame["target"]
    if return_X_y:
        return X, y
    title = f"ADBench data set {key}"
    descr = _DESCR.format(
        name=key,
        line="-" * len(title),
        category=category,
        n_samples=X.shape[0],
        n_features=X.shape[1],
        n_anomalies=int(y.sum()),
        share=float(y.mean()) if len(y) else 0.0,
        source=f"{_BASE_URL}/{quote(key)}.npz",
        checksum=f"SHA-256 {entry.sha256}" if entry else "none known for this file",
    )
    return Bunch(
        data=X,
        target=y,
        frame=frame,
        feature_names=feature_names,
        target_names=["normal", "anomaly"],
        DESCR=descr,
        filename=str(path),
    )
