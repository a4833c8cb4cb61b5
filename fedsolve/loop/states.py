"""States as the loop sees them: whatever an algorithm keeps between two rounds, with or without weights `w`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np

from fedsolve.algorithms.base import Finished
from fedsolve.errors import ConfigError
from fedsolve.numerics.linalg import norm
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array, Value


def weights_of(state: Value) -> Array | None:
    """The weights of a State, if it has any: an attribute or property `w`."""
    return getattr(state, "w", None)


def unwrapped(outcome: Value) -> tuple[Value, str | None]:
    """The State that `start` or `round` returned, and the reason why the algorithm is done, which may be empty; None if
    it is not."""
    if outcome is None:
        raise ConfigError("start and round return the State, or Finished(state); this one returned None")
    return (outcome.state, outcome.reason) if isinstance(outcome, Finished) else (outcome, None)


def equal(new: Value, old: Value) -> bool:
    """Whether two states are the same to the bit, so that the next round would be the last one again."""
    if new is old:
        return True
    if type(new) is not type(old):
        return False
    if is_dataclass(new):
        return all(equal(getattr(new, one.name), getattr(old, one.name)) for one in fields(new))
    if isinstance(new, tuple | list):
        return len(new) == len(old) and all(map(equal, new, old))
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(equal(new[key], old[key]) for key in new)
    if isinstance(new, np.ndarray):
        return np.array_equal(new, old)
    if isinstance(new, Symmetric):
        return np.array_equal(new.packed(), old.packed())
    return isinstance(new, int | float | str | bytes) and bool(new == old)


def change(new: Array | None, old: Array | None) -> float | None:
    """‖new − old‖ / ‖new‖; None where there is nothing to compare."""
    if new is None or old is None or np.shape(new) != np.shape(old):
        return None
    return norm(new - old) / max(norm(new), 1e-300)
