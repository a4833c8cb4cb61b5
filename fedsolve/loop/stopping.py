"""When to stop: rules that judge each round. `Stopping` holds the usual limits; others can be combined with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError
from fedsolve.federation.federation import Federation
from fedsolve.typing import Value

if TYPE_CHECKING:
    from fedsolve.loop.history import Row

CONVERGED, FINISHED, DIVERGED, QUORUM = "converged", "finished", "diverged", "no quorum"
SETTLED = "settled"  # the model hardly changes; convergence is said of a gradient only
LATEST = (CONVERGED, FINISHED)  # said of the latest State, which the run then hands back
UNATTAINABLE = "tolerance unattainable"  # the value no longer changes, and the gradient does not get smaller


@dataclass(frozen=True)
class Verdict:
    """Why a run ended.

    Attributes:
        status: In one word, such as "converged" or "rounds".
        message: In one sentence, without a full stop.
        state: An earlier State to end with, where a rule hands one back. None: the latest.
        round: The round of that State, if the rule knows it.
    """

    status: str
    message: str
    state: Value = None
    round: int | None = None


class Judge(Protocol):
    """Judges the rounds of one run; made by `StoppingRule.prepare`."""

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """Whether the run ends with this row.

        Called when a round is over, with `row.value` None, and again once the row has been measured, if it is.

        Args:
            row: The latest row of the history.
            state: The State that the row is about.

        Returns:
            Why the run ends, or None to go on.
        """
        ...


@runtime_checkable
class StoppingRule(Protocol):
    """When a run ends. Give one or several to `fs.run(…, stopping=…)`; all are asked, the first verdict counts.

    A rule is a frozen dataclass; what it counts during a run belongs in the `Judge` it makes. If it has client steps,
    its clients answer them: they travel under the name "stopping".

    A judge that keeps an earlier State has an attribute `kept`, saved with the checkpoint, and a method
    `resume(rows, kept)`, called when a run goes on from one. Dataclasses that `kept` is made of beside the State are
    listed in the rule's `kept_types`. A rule that kept something must be there when the run is resumed.

    A judge may have a method `begin()`, called before the first round, and after `resume`: what it asks the clients
    counts as setting up, and need not be asked again in a run that goes on. A rule may have a method `kept_as()` that
    returns the rule without what may be changed when a run is resumed.

    A judge may have a method `at_budget(verdict)`, called when the run ends by another rule, unless it has converged or
    its algorithm is done, which is said of the latest State: it returns the verdict as it is, or with an earlier State
    or more words.
    """

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Judge:
        """Called once before the first round. Exchanges in here count as setting up.

        Args:
            fed: The federation of the run.
            algorithm: The algorithm that runs.
            state: What its `start` returned, or the State of the checkpoint.

        Returns:
            What judges the rounds of this run. A rule that keeps nothing returns itself.
        """
        ...


@dataclass(frozen=True)
class Stopping:
    """The first of these to hold ends the run; None switches a rule off.

    rounds     budget of rounds
    tolerance  on the norm of the pooled gradient of all clients relative to the problem's own scale: each column in
               units of its root mean square, residuals in units of theirs at w = 0 (see `measure.Scale`), so that it
               means the same in any units
    gradient_norm  on the norm of the pooled gradient as it is, in the units of the data
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
    gradient_norm: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            if given is None and field.name != "rounds":
                continue
            number = isinstance(given, Real) and not isinstance(given, bool)
            if not number or not (given >= 0 and math.isfinite(given)):
                raise ConfigError(f"{field.name} is a limit, a number of at least 0, got {given!r}")
            if field.name in ("rounds", "bytes") and given != int(given):
                raise ConfigError(f"{field.name} is a whole number, got {given!r}")

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Stopping:
        """Nothing has to be prepared: limits are the same for every run."""
        return self

    def judge(self, row: Row, state: Value = None) -> Verdict | None:
        """Whether a budget is used up or, once the row has been measured, whether it is converged."""
        return self._budget(row) if row.value is None else self._converged(row)

    @property
    def converges(self) -> bool:
        """Whether any limit is one on how near the minimum is: then the problem's scale must be known."""
        return bool(self.tolerance or self.gradient_norm or self.gap)

    def enough(self, gained: float) -> float:
        """How far above its minimum the value may be to count as minimal, after it fell by `gained`."""
        return max(self.gap or 0.0, (self.tolerance or 0.0) * gained)

    def _budget(self, row: Row) -> Verdict | None:
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

    def _converged(self, row: Row) -> Verdict | None:
        """Convergence is declared on a gradient, or a bound from one, to which every client contributed."""
        if row.gradient_norm is None:
            return None
        if row.measured_share < row.objective_share - 1e-12:
            return None  # a gradient of some clients says nothing about the pooled one
        relative = row.gradient_norm if row.relative_gradient is None else row.relative_gradient
        if self.tolerance is not None and relative <= self.tolerance:
            unit = "'s norm is" if row.relative_gradient is None else ", relative to the problem's scale, is"
            return Verdict(CONVERGED, f"the gradient{unit} {relative:.1e}, within {self.tolerance:g}")
        if self.gradient_norm is not None and row.gradient_norm <= self.gradient_norm:
            return Verdict(CONVERGED, f"the gradient's norm is {row.gradient_norm:.1e}, within {self.gradient_norm:g}")
        if self.gap is not None and row.gap is not None and row.gap <= self.gap:
            kind = "at most" if row.gap_is_bound else "about"
            return Verdict(CONVERGED, f"the value is {kind} {row.gap:.1e} above its minimum, within {self.gap:g}")
        return None


def rounds_in_words(count: int) -> str:
    """`1 round`, `2 rounds`."""
    return f"{count} round{'' if count == 1 else 's'}"
