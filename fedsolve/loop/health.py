"""What ends a run whatever its limits are: values that run away, and rounding that hides all further progress."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedsolve.descent import rounding
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import DIVERGED, UNATTAINABLE, Verdict, rounds_in_words

# The value, grown by this much over f(0) and the first one measured, means that the iterates run away.
GROWTH = 1000.0
# Rounds without progress after which there will be none; at least a quarter of all rounds, for methods that oscillate.
PATIENCE = 20
FLAT = 1e-10  # of all that was gained: a change of the value within that patience that is below it is none


def diverged(row: Row, sizes: Sequence[float]) -> Verdict | None:
    """Whether a measured row shows that the iterates run away. `sizes` are values to compare with: f(0), where it is
    known, and the first one measured."""
    if row.value is None:
        return None
    grown = bool(sizes) and row.value > GROWTH * max(max(map(abs, sizes)), 1e-300)
    finite = math.isfinite(row.value) and (row.gradient_norm is None or math.isfinite(row.gradient_norm))
    if finite and not grown:
        return None
    return Verdict(
        DIVERGED, f"the value is {row.value:g} in round {row.round}" + (f", from {sizes[-1]:g}" if sizes else "")
    )


def stalled(rows: Sequence[Row]) -> Verdict | None:
    """Whether rounding has the last word: in many rounds that moved the model, the value changed by no more than
    that, and the gradient did not become smaller."""
    rows = [row for row in rows if row.change != 0]  # others prepare a step, as inner loops do
    patience = max(PATIENCE, len(rows) // 4)
    if len(rows) <= patience:
        return None
    before, recent = rows[:-patience], rows[-patience:]
    if any(row.value is None or row.gradient_norm is None for row in recent):
        return None
    if any(row.measured_share < row.objective_share - 1e-12 for row in recent):
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
