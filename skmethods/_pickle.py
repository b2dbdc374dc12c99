"""Pickles that know which version of skmethods wrote them."""

import inspect
import warnings


class VersionedPickleMixin:
    """Warn when a pickle of another version is loaded, and give it newer parameters.

    A parameter that the pickled estimator does not have gets its default. Put it left
    of ``BaseEstimator``.
    """

    def __getstate__(self):
        from . import __version__

        return super().__getstate__() | {"_skmethods_version": __version__}

    def __setstate__(self, state):
        from . import __version__

        state = state.copy()
        written_by = state.pop("_skmethods_version", "unknown")
        super().__setstate__(state)
        if written_by == __version__:
            return
        missing = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if name not in state
        }
        vars(self).update(missing)
        text = (
            f"This {type(self).__name__} was pickled by skmethods {written_by} and is "
            f"loaded by {__version__}; its results may differ. Fit it again to be sure."
        )
        if missing:
            text += f" Parameters new since then get their defaults: {missing}."
        warnings.warn(text, UserWarning, stacklevel=2)
