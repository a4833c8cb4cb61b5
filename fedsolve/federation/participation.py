"""Who is asked, who answers in time, and how many are enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedsolve.errors import ConfigError, UnknownName

# Streams of the run's seed that are not any client's: kept apart from client keys by their place in the list.
_INVITE, _FATE = 1, 2


@dataclass(frozen=True)
class Participation:
    """Everyone, every time, by default.

    fraction   of the clients asked in a round, drawn anew each round (at least one)
    dropout    probability that a reply is lost on its way, in simulation; the client has computed it all the same
    latency    seconds a reply takes in simulation: exponential with this mean (or a mean per client)
    deadline   seconds to wait for the replies of an exchange; later ones are discarded. A client that lets two of them
               pass is lost: it is not waited for, and invited again when it is back
    quorum     share of the total weight that must answer. Between 0 and 1, a client that fails, or whose reply cannot
               be used, is missing from the exchange, with the reason in the history; and the objective of the others
               is minimised where clients are lost. With 0 (no quorum) or 1 (everyone) a client's error ends the run
    retries    how often those who did not answer are asked again before the exchange goes on without them
    """

    fraction: float = 1.0
    dropout: float = 0.0
    latency: float | Mapping[str, float] | None = None
    deadline: float | None = None
    quorum: float = 0.0
    retries: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction is the share of clients asked in a round, in (0, 1]; got {self.fraction}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is a probability in [0, 1); got {self.dropout}")
        if not 0 <= self.quorum <= 1:
            raise ConfigError(f"quorum is a share of the total weight, in [0, 1]; got {self.quorum}")
        if self.deadline is not None and not 0 < self.deadline < math.inf:
            raise ConfigError(
                f"deadline is a positive number of seconds, got {self.deadline}; leave it out to wait for all"
            )
        means = self.latency.values() if isinstance(self.latency, Mapping) else (self.latency,)
        if any(mean is not None and not mean > 0 for mean in means):
            raise ConfigError(f"latency is a mean in seconds and positive; got {self.latency}")
        if self.retries < 0:
            raise ConfigError(f"retries is a number of times, at least 0; got {self.retries}")
        if self.latency is not None and self.deadline is None:
            raise ConfigError("latency is simulated to see who misses the deadline: set a deadline too")

    def check_names(self, clients: tuple[str, ...]) -> None:
        """Raise if `latency` names a client that does not exist, or lacks one that does."""
        if not isinstance(self.latency, Mapping):
            return
        known = set(clients)
        for name in self.latency:
            if name not in known:
                raise UnknownName("client in latency", name, clients)
        for name in clients:
            if name not in self.latency:
                raise ConfigError(f"latency has no entry for client {name!r}")

    def invite(self, seed: int, round: int, clients: tuple[str, ...]) -> tuple[str, ...]:
        """Who is asked in this round."""
        if self.fraction == 1.0:
            return clients
        count = max(1, round_half_up(self.fraction * len(clients)))
        rng = np.random.default_rng([seed, _INVITE, round])
        chosen = set(rng.choice(len(clients), count, replace=False).tolist())
        return tuple(name for index, name in enumerate(clients) if index in chosen)

    def asked(self, round: int, exchange: int, clients: tuple[str, ...]) -> tuple[str, ...]:
        """Who, of those still in the round, is asked in this exchange."""
        return clients

    @property
    def is_tolerant(self) -> bool:
        """Whether a client that fails is missing from the exchange, and the quorum decides. Where everyone is required,
        or no quorum is set, its error ends the run."""
        return 0 < self.quorum < 1

    @property
    def simulates_losses(self) -> bool:
        return self.dropout > 0 or self.latency is not None

    def arrives(self, seed: int, round: int, exchange: int, attempt: int, client: str, index: int) -> bool:
        """Whether a reply reaches the server in time, in simulation."""
        if not self.simulates_losses:
            return True
        rng = np.random.default_rng([seed, _FATE, round, exchange, attempt, index])
        if rng.random() < self.dropout:
            return False
        if self.latency is None or self.deadline is None:
            return True
        mean = self.latency[client] if isinstance(self.latency, Mapping) else self.latency
        return bool(rng.exponential(mean) <= self.deadline)


@dataclass(frozen=True)
class Replay(Participation):
    """Exactly those who answered in another run (its `ledger.cohorts()`), exchange by exchange."""

    cohorts: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    def invite(self, seed: int, round: int, clients: tuple[str, ...]) -> tuple[str, ...]:
        invited: Mapping[int, tuple[str, ...]] = getattr(self.cohorts, "invited", {})
        found = invited.get(round)
        if found is None:
            return super().invite(seed, round, clients)
        return tuple(name for name in clients if name in set(found))

    def asked(self, round: int, exchange: int, clients: tuple[str, ...]) -> tuple[str, ...]:
        found = self.cohorts.get((round, exchange))
        return clients if found is None else tuple(name for name in clients if name in set(found))


def round_half_up(x: float) -> int:
    return int(np.floor(x + 0.5))
