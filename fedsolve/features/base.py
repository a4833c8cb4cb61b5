"""What a feature map is: hyper-parameters both sides know, a number of features, rows of features for rows of inputs.

Whatever else it needs (frequencies, landmarks) is drawn in NumPy from the seed, so that it does not depend on whose
array library asks, and kept for each width and device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from numbers import Integral, Real
from types import ModuleType
from typing import ClassVar

import array_api_compat as api
import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError, DataError, InputError
from fedsolve.numerics.linalg import namespace
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.typing import Array


class FeatureMap(ABC):
    """φ: rows of d numbers to rows of `dimension(d)` numbers. Subclasses are frozen dataclasses."""

    known: ClassVar[dict[str, type[FeatureMap]]] = {}  # by name, for models that are read back
    reader: ClassVar[Reader] = Reader()  # knows the parts that a map of this class may have

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if not cls.__name__.startswith("_"):
            FeatureMap.known[cls.__name__] = cls

    @abstractmethod
    def dimension(self, d: int) -> int:
        """How many features d inputs give; raises ConfigError for a d that this map is not for."""

    @abstractmethod
    def block(self, X: Array) -> Array:
        """The features of some rows: dense, of the library and on the device of X (NumPy for CSR)."""

    def draw(self, d: int) -> tuple[Array, ...]:
        """The arrays this map needs for d inputs, in NumPy: a function of its hyper-parameters alone."""
        return ()

    def arrays(self, X: Array) -> tuple[Array, ...]:
        """What `draw` gives, for the width of X and where X is; kept."""
        xp = namespace(X)
        return _kept(self, int(X.shape[1]), xp, None if xp is np else api.device(X))

    def to_plain(self) -> Plain:
        """Name and hyper-parameters as JSON knows them."""
        return to_plain(self)

    @staticmethod
    def from_plain(plain: object) -> FeatureMap:
        """The map that `to_plain` described; raises DataError for anything else."""
        name = plain.get("name") if isinstance(plain, Mapping) else None
        if name not in FeatureMap.known:
            raise DataError(f"unknown feature map {name!r}; known: {', '.join(sorted(FeatureMap.known))}")
        try:
            return FeatureMap.known[name].reader.make(FeatureMap.known[name], plain, name)
        except InputError as error:
            raise DataError(f"not a {name}: {error}") from None


@lru_cache(maxsize=8)
def _kept(of: FeatureMap, d: int, xp: ModuleType, device: object) -> tuple[Array, ...]:
    if xp is np:
        drawn = of.draw(d)
        for array in drawn:
            array.flags.writeable = False
        return drawn
    # A copy, because torch has no read-only tensors.
    return tuple(xp.asarray(np.array(array), device=device) for array in _kept(of, d, np, None))


def dense(X: Array) -> Array:
    """A block of rows as a dense array."""
    return X.toarray() if sp.issparse(X) else X


def positive(name: str, given: object) -> None:
    """Raise ConfigError unless it is a positive finite number."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) < np.inf:
        raise ConfigError(f"{name} is a positive number, got {given!r}")


def whole(name: str, given: object, least: int = 1) -> None:
    """Raise ConfigError unless it is a whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        raise ConfigError(f"{name} is a whole number of at least {least}, got {given!r}")


def one_of(name: str, given: object, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless it is one of the known names."""
    if given not in known:
        raise ConfigError(f"{name} is one of {', '.join(map(repr, known))}, got {given!r}")
