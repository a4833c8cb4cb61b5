"""A kernel that is a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedsolve.errors import ConfigError, DataError
from fedsolve.features.exact_kernels import ExactKernel
from fedsolve.plain import Plain
from fedsolve.typing import Array


@dataclass(frozen=True, repr=False)
class CallableKernel(ExactKernel):
    """Any function of two matrices that gives k(x, z) for all their rows.

    It serves simulations, and runs on one machine. A function has no plain form: it cannot be named in a run file, and
    what was fitted with it cannot be saved. For that, write a frozen dataclass that derives from `ExactKernel` instead.

    Args:
        function: (X, Z) ↦ a matrix with a row for each row of X and a column for each row of Z; symmetric and positive
            semidefinite where X is Z, which nobody checks.
    """

    function: Callable[[Array, Array], Array]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"a function of two matrices is needed, got {self.function!r}")

    def __repr__(self) -> str:
        return f"CallableKernel({self._called})"

    @property
    def _called(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def matrix(self, X: Array, Z: Array) -> Array:
        found = self.function(X, Z)
        expected = (X.shape[0], Z.shape[0])
        if tuple(getattr(found, "shape", ())) != expected:
            raise DataError(
                f"the kernel's function gave {type(found).__name__} of shape {getattr(found, 'shape', None)} for "
                f"{expected[0]} and {expected[1]} rows; expected a matrix of shape {expected}"
            )
        return found

    def to_plain(self) -> Plain:
        """Raises ConfigError: a function has no plain form."""
        raise ConfigError(
            f"the kernel is the function {self._called}, which cannot be saved or sent by name; use a kernel of "
            "fedsolve.features, or derive a frozen dataclass from ExactKernel"
        )
