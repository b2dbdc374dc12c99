"""The registry of our own checks, and what they share.

A check is a function of ``(entry, estimator)`` that raises AssertionError. Its
decorator says where it applies. ``test_common.py`` runs all of them on every instance,
``test_the_suite.py`` on estimators that are broken on purpose.
"""

import inspect

#: Every check in the order of definition: ``(function, applies)``.
CHECKS = []


def check(applies=lambda entry, estimator: True):
    """Register a check for the estimators where ``applies(entry, estimator)``."""

    def register(function):
        CHECKS.append((function, applies))
        return function

    return register


def checks():
    """All checks, in all files."""
    from tests import (  # noqa: F401  (importing registers)
        _checks_callbacks,
        _checks_compose,
        _checks_input,
        _checks_parameters,
        _checks_state,
    )

    return CHECKS


def has_parameter(name):
    """Applies to estimators with the constructor parameter `name`."""
    return lambda entry, estimator: name in estimator.get_params(deep=False)


def fit_takes(name):
    """Applies to estimators whose ``fit`` takes the keyword `name`."""
    return lambda entry, estimator: takes(estimator, name)


def has_method(name):
    """Applies to estimators with the method `name`."""
    return lambda entry, estimator: hasattr(estimator, name)


def takes(estimator, keyword):
    """Whether ``fit`` has the keyword."""
    return keyword in inspect.signature(estimator.fit).parameters


def is_iterative(entry, estimator):
    """Whether it trains in iterations that a callback can stop."""
    return "max_iter" in estimator.get_params(deep=False)
