"""Penalties as scikit-learn has them, checked."""

from __future__ import annotations

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import at_least_zero


def inverse_strength(C: float) -> float:
    """1/C of a positive number, which may be infinite."""
    if isinstance(C, bool) or not isinstance(C, int | float | np.integer | np.floating) or not C > 0:
        raise ConfigError(f"C is a positive number, or np.inf for no penalty, got {C!r}")
    return 1.0 / float(C)


def share(name: str, given: float) -> float:
    """A number from 0 to 1."""
    found = at_least_zero(name, given)
    if found > 1:
        raise ConfigError(f"{name} is a number from 0 to 1, got {given!r}")
    return found
