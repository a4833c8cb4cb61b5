"""When to stop: a tolerance on a fresh gradient, budgets, or divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from fedsolve.errors import ConfigError

if TYPE_CHECKING:
    from fedsolve.history import Row

CONVERGED, FINISHED, DIVERGED, QUORUM = "converged", "finished", "diverged", "no quorum"
SETTLED = "settled"  # the model hardly changes; convergence is said of a gradient only
# The value, grown by this much over the first one measured, means that the iterates run away.
GROWTH = 1000.0


@dataclass(frozen=True)
class Verdict:
    """Why a run ended, in one word and in one sentence."""

    status: str
    message: str


@dataclass(frozen=True)
class Stopping:
    """The first of these to hold ends the run; None switches a rule off.

    rounds     budget of rounds
    tolerance  on the norm of the pooled gradient, of all clients
    gap        on the certificate for f − f* (see `measure.Certificate`)
    change     on ‖w − w_last‖ / ‖w‖
    bytes      budget of what the algorithm sends, both ways, all clients
    seconds    budget of wall-clock time
    """

    rounds: int = 100
    tolerance: float | None = 1e-8
    gap: float | None = None
    change: float | None = None
    bytes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            if given is not None and not (given >= 0 and math.isfinite(given)):
                raise ConfigError(f"{field.name} is a limit of at least 0, got {given}")

    def budget(self, row: Row) -> Verdict | None:
        """Whether a budget is used up."""
        if row.round >= self.rounds:
            return Verdict("rounds", f"the budget of {rounds_in_words(self.rounds)} is used up")
        if self.bytes is not None and row.bytes_up + row.bytes_down >= self.bytes:
            return Verdict("bytes", f"the budget of {self.bytes} bytes is used up after {rounds_in_words(row.round)}")
        if self.seconds is not None and row.seconds >= self.seconds:
            spent = f"the budget of {self.seconds:g} seconds is used up after {rounds_in_words(row.round)}"
            return Verdict("seconds", spent)
        if self.change is not None and row.change is not None and row.change <= self.change:
            return Verdict(
                SETTLED,
                f"the model changed by {row.change:.1e} of itself in round {row.round}, within {self.change:g}",
            )
        return None

    def judge(self, row: Row, first_value: float | None) -> Verdict | None:
        """What a measured row says: convergence, on a gradient of all clients; or divergence."""
        if row.value is None or row.gradient_norm is None:
            return None
        grown = first_value is not None and row.value > GROWTH * max(abs(first_value), 1e-300)
        if not (math.isfinite(row.value) and math.isfinite(row.gradient_norm)) or grown:
            return Verdict(
                DIVERGED,
                f"the value is {row.value:g} in round {row.round}"
                + (f", from {first_value:g}" if first_value is not None else "")
                + "; try smaller or fewer local steps, a larger l2, standardised features, or Newton or FedNewtonCG",
            )
        if row.measured_share < 1 - 1e-12:
            return None  # a gradient of some clients says nothing about the pooled one
        if self.tolerance is not None and row.gradient_norm <= self.tolerance:
            return Verdict(CONVERGED, f"the gradient's norm is {row.gradient_norm:.1e}, within {self.tolerance:g}")
        if self.gap is not None and row.gap is not None and row.gap <= self.gap:
            kind = "at most" if row.gap_is_bound else "about"
            return Verdict(CONVERGED, f"the value is {kind} {row.gap:.1e} above its minimum, within {self.gap:g}")
        return None


def rounds_in_words(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
