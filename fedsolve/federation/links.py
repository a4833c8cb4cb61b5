"""What a client may send in a round."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf, log2
from typing import TYPE_CHECKING

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import is_whole

if TYPE_CHECKING:
    from fedsolve.federation.client import Client


@dataclass(frozen=True)
class Link:
    """A link with a limit on what goes up in a round; None for no limit.

    bytes_per_round    of all that the algorithm sends, headers included; the runtime holds it on encoded sizes
    vectors_per_round  of the vectors beside the gradient (eigenvectors of Hessians); 0 leaves the gradient alone

    What is the algorithm's is decided by the client, from its own protocols, whatever the request says. Four calls of
    `Measure` in a round and a thousand calls of protocols that set up a run (joining, preprocessing, diagnosing) are
    not charged; any more are. What is sent again because it was lost is not counted again; what was sent and then not
    used is. A round is what the server numbers as one: a link describes a channel, and does not protect from a server
    that invents rounds.

    A reply that does not fit ends the run with `LinkExceeded`; with a quorum between 0 and 1 its client is missing from
    the exchange. For clients that are unreachable at times there is `Participation`. A link whose capacity changes
    overrides `allowance` or `vectors`; what it leaves to chance it draws from `client.rng`, once a round.
    """

    bytes_per_round: int | None = None
    vectors_per_round: int | None = None

    def __post_init__(self) -> None:
        for name in ("bytes_per_round", "vectors_per_round"):
            given = getattr(self, name)
            if given is not None and not is_whole(given):
                raise ConfigError(f"{name} is a whole number such as 2000, or None for no limit, got {given!r}")
        if self.bytes_per_round is not None and self.bytes_per_round <= 0:
            raise ConfigError(f"a link carries a positive number of bytes per round, got {self.bytes_per_round}")
        if self.vectors_per_round is not None and self.vectors_per_round < 0:
            raise ConfigError(f"a link carries at least 0 vectors per round, got {self.vectors_per_round}")

    def allowance(self, round: int, client: Client) -> int | None:
        """How many bytes may go up in this round."""
        return self.bytes_per_round

    def vectors(self, round: int, client: Client) -> int | None:
        """How many vectors beside the gradient may go up in this round."""
        return self.vectors_per_round


@dataclass(frozen=True)
class Rayleigh(Link):
    """A fading wireless channel (Dal Fabbro et al. 2022, section 6.3).

    It carries d_γ = ⌊d₀ log₂(1 + γΓ)⌋ vectors, with γ ~ Exp(ν) drawn anew in each round.

    d0     bandwidth, in vectors per channel use        gain  Γ, of power and attenuation        nu  ν, of the fading
    """

    d0: float = 2.0
    gain: float = 5.0
    nu: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 < one < inf for one in (self.d0, self.gain, self.nu)):
            raise ConfigError(f"a Rayleigh link has positive d0, gain and nu, got {self}")

    def vectors(self, round: int, client: Client) -> int | None:
        drawn = floor(self.d0 * log2(1 + self.gain * client.rng.exponential(1 / self.nu)))  # (38)
        return drawn if self.vectors_per_round is None else min(drawn, self.vectors_per_round)


UNLIMITED = Link()
