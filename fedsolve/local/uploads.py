"""What a client sends of its own work, where that is not the model as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.structured_arrays import Quantised
from fedsolve.typing import Array


@dataclass(frozen=True)
class QuantisedUploads:
    """Send how far the model has moved, each number rounded up or down by chance to one of 2^bits values.

    The values lie at even distances between the smallest and the largest number of the move. What is sent is the move
    on average, and for a move d of p numbers E‖Q(d) − d‖² ≤ q ‖d‖² with q = p / (2 (2^bits − 1)²): the quantiser that
    FedPAQ asks for (Reisizadeh, Mokhtari, Hassani, Jadbabaie and Pedarsani, AISTATS 2020, Assumption 1). Where the
    moves become short, so do the errors.

    Args:
        bits: 8, the default, for an eighth of the bytes of float64; 16 for a quarter of them.
    """

    bits: Literal[8, 16] = 8

    def __post_init__(self) -> None:
        if type(self.bits) is not int or self.bits not in (8, 16):
            raise ConfigError(f"bits is 8 or 16, got {self.bits!r}")

    def of(self, client: Client, move: Array) -> Quantised:
        """A move as this client sends it, rounded by its own generator. One with NaN or infinities, or too wide for a
        grid, comes as NaN in all places: the run then says that it diverges."""
        exact = to_numpy(move).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = bool(np.isfinite(exact.max() - exact.min()))
        if not is_finite:
            return Quantised(np.zeros(exact.shape, dtype=np.uint8), np.nan, np.nan)
        return Quantised.of(exact, self.bits, client.rng)

    def numbers(self, weights: int) -> int:
        """How many float64 a move of so many numbers takes as many bytes as; with the ends of the grid."""
        return 2 + -(-weights * self.bits // 64)
