"""Who takes part in a round, and where a federation stands between two rounds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cohort:
    """Who takes part in this round: those asked, less those who did not answer."""

    clients: tuple[str, ...]
    share: float  # of the total weight
    changed: bool  # against the last round

    def __len__(self) -> int:
        return len(self.clients)


@dataclass(frozen=True)
class Position:
    """What a checkpoint keeps of a federation.

    attempt  counts the server's restarts
    number   of the last exchange
    used     which reply of each client was used last
    cohort   of the last round
    weights  of all clients, also of those that are lost
    lost     clients that are lost: since which round, and why
    """

    attempt: int
    number: int
    used: dict[str, int]
    cohort: tuple[str, ...] | None
    weights: dict[str, float] = field(default_factory=dict)
    lost: dict[str, tuple[int, str]] = field(default_factory=dict)
