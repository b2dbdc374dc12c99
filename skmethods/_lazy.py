"""Lazy imports: public names, optional packages."""

import importlib


def lazy_exports(package, table):
    """Module-level ``__getattr__``, ``__dir__`` and ``__all__`` (PEP 562).

    Parameters
    ----------
    package : str
        ``__name__`` of the calling package.
    table : dict of str to str
        Public name -> module, relative to `package`, that defines it.

    Returns
    -------
    tuple
        ``(__getattr__, __dir__, __all__)``.
    """

    def __getattr__(name):
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{table[name]}"), name)

    names = sorted(table)
    return __getattr__, lambda: names, names


def require(module, *, extra, for_):
    """Import an optional package when it is first needed.

    Parameters
    ----------
    module : str
        Dotted name of the module, e.g. ``"matplotlib.pyplot"``.
    extra : str
        The extra of skmethods that installs it.
    for_ : str
        What the caller was doing; opens the error message.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        When the package cannot be imported. The original error is chained, so a
        broken installation is not mistaken for a missing one.
    """
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        package = module.partition(".")[0]
        raise ImportError(
            f"{for_} needs the optional package {package!r}, which could not be "
            f'imported ({exc}). Install it with: pip install "skmethods[{extra}]"'
        ) from exc
