"""What a client may send in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedsolve.errors import ConfigError

if TYPE_CHECKING:
    from fedsolve.client import Client


@dataclass(frozen=True)
class Link:
    """A link that carries at most `bytes_per_round` up, headers included; None for no limit.

    The limit holds for what the algorithm sends; what a run asks only to measure is kept apart, here as in the ledger.
    A link whose capacity changes overrides `allowance`.
    """

    bytes_per_round: int | None = None

    def __post_init__(self) -> None:
        if self.bytes_per_round is not None and self.bytes_per_round <= 0:
            raise ConfigError(f"a link carries a positive number of bytes per round, got {self.bytes_per_round}")

    def allowance(self, round: int, client: Client) -> int | None:
        """How many bytes may go up in this round; a capacity left to chance is drawn from `client.rng`."""
        return self.bytes_per_round


UNLIMITED = Link()
