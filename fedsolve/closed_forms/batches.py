"""Minibatches of a simulation (Su et al., section 7.1): a client's rows in order, or in a new order for every pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array


@dataclass(frozen=True)
class Batches:
    """How a client goes through its rows. Every batch is used once in a pass; the last one may be shorter.

    Args:
        size: Rows in a batch; None, the default, takes all of them.
        shuffled: A new order in every pass of every round. Default False: the same batches in every round.
        seed: Of the orders.
    """

    size: int | None = None
    shuffled: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        whole("seed", self.seed, 0)
        if self.size is not None:
            whole("batch_size", self.size, 1)
        elif self.shuffled:
            raise ConfigError("shuffled batches need a batch_size")

    def of(self, client: int, rows: int, round: int, step: int) -> list[Array]:
        """The rows of each batch of one pass, as indices into the client's rows."""
        if self.size is None or self.size >= rows:
            return [np.arange(rows)]
        order = np.arange(rows)
        if self.shuffled:
            order = np.random.default_rng((self.seed, client, round, step)).permutation(rows)
        return [order[start : start + self.size] for start in range(0, rows, self.size)]
