"""When to stop: a tolerance on a fresh gradient, budgets, divergence, or when nothing changes any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING

from fedsolve.descent import rounding
from fedsolve.errors import ConfigError

if TYPE_CHECKING:
    from fedsolve.loop.history import Row

CONVERGED, FINISHED, DIVERGED, QUORUM = "converged", "finished", "diverged", "no quorum"
SETTLED = "settled"  # the model hardly changes; convergence is said of a gradient only
UNATTAINABLE = "tolerance unattainable"  # the value no longer changes, and the gradient does not get smaller
# The value, grown by this much over f(0) and the first one measured, means that the iterates run away.
GROWTH = 1000.0
# Rounds without progress after which there will be none; at least a quarter of all rounds, for methods that oscillate.
PATIENCE = 20
FLAT = 1e-10  # of all that was gained: a change of the value within that patience that is below it is none


@dataclass(frozen=True)
class Verdict:
    """Why a run ended, in one word and in one sentence."""

    status: str
    message: str


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

    @property
    def converges(self) -> bool:
        """Whether any limit is one on how near the minimum is: then the problem's scale must be known."""
        return bool(self.tolerance or self.gradient_norm or self.gap)

    def judge(self, row: Row, sizes: Sequence[float]) -> Verdict | None:
        """What a measured row says: convergence, on a gradient of all clients; or divergence. `sizes` are values to
        which the row's own is compared: f(0), and the first one measured."""
        if row.value is None or row.gradient_norm is None:
            return None
        grown = bool(sizes) and row.value > GROWTH * max(max(map(abs, sizes)), 1e-300)
        if not (math.isfinite(row.value) and math.isfinite(row.gradient_norm)) or grown:
            return Verdict(
                DIVERGED,
                f"the value is {row.value:g} in round {row.round}" + (f", from {sizes[-1]:g}" if sizes else ""),
            )
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

    def stalled(self, rows: Sequence[Row]) -> Verdict | None:
        """Whether rounding has the last word: in many rounds that moved the model, the value changed by no more than
        that, and the gradient did not become smaller."""
        if not self.converges:
            return None
        rows = [row for row in rows if row.change != 0]  # others prepare a step, as inner loops do
        patience = max(PATIENCE, len(rows) // 4)
        if len(rows) <= patience:
            return None
        before, recent = rows[:-patience], rows[-patience:]
        if any(row.value is None or row.measured_share < row.objective_share - 1e-12 for row in recent):
            return None
        values = [row.value for row in recent if row.value is not None]
        norms = [row.gradient_norm for row in recent if row.gradient_norm is not None]
        least = min((row.gradient_norm for row in before if row.gradient_norm is not None), default=math.inf)
        gained = max((row.value for row in before if row.value is not None), default=values[0]) - min(values)
        flat = max(rounding(*values), FLAT * gained)
        if max(values) - min(values) > flat or min(norms) < 0.99 * least:
            return None
        return unattainable(rows[-1], f"in {rounds_in_words(patience)} the value changed by no more than rounding")


def unattainable(row: Row, why: str) -> Verdict:
    """That the run cannot get nearer, and where it stands."""
    found = row.gradient_norm if row.relative_gradient is None else row.relative_gradient
    scale = "" if row.relative_gradient is None else ", relative to the problem's scale,"
    known = "" if found is None else f"; the gradient{scale} is {found:.1e}"
    return Verdict(UNATTAINABLE, f"{why}, so this algorithm comes no nearer to the minimum{known}")


def rounds_in_words(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
