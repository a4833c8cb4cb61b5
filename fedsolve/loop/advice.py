"""What a run that ends without convergence can say of the reason, and what to try."""

from __future__ import annotations

from dataclasses import replace

from fedsolve.descent import rounding
from fedsolve.loop.confirm_minimum import separated
from fedsolve.loop.measuring import NO_MINIMUM, Measuring
from fedsolve.loop.states import weights_of
from fedsolve.loop.stopping import DIVERGED, FINISHED, SETTLED, UNATTAINABLE, Verdict
from fedsolve.typing import Value

# Column scales that differ by more than this are named where a run ends without convergence.
SPREAD = 1e3
# The statuses to explain. Others speak for themselves: a converged run, a quorum that failed, a rule of the user's own.
EXPLAINED = ("rounds", "bytes", "seconds", SETTLED, DIVERGED, UNATTAINABLE)


def explained(verdict: Verdict, measuring: Measuring, state: Value) -> Verdict:
    """The verdict with what is known of its reason. May ask the clients whether there is a minimum at all."""
    if verdict.status == FINISHED:
        return replace(verdict, message=verdict.message + _worse_than_before(measuring))
    if verdict.status not in EXPLAINED or measuring.endless:
        return verdict
    w, inspect = weights_of(state), measuring.inspect if measuring.scale is not None else None
    if inspect is not None and w is not None and separated(measuring.ask_all, inspect, w):
        measuring.certificate = None
        return Verdict(DIVERGED, NO_MINIMUM)
    return replace(verdict, message=verdict.message + _advice(verdict.status, measuring))


def _worse_than_before(measuring: Measuring) -> str:
    """What to say of an algorithm that is done and ends above where it began; nothing otherwise."""
    first, last = (measuring.rows.history[place].value for place in (0, -1))
    if first is None or last is None or last <= first + rounding(first, last):
        return ""
    return f"; the value is {last:g}, above the {first:g} that it began with: try {_remedy(measuring)}"


def _remedy(measuring: Measuring) -> str:
    own = getattr(measuring.algorithm, "remedy", "smaller or fewer local steps, a larger l2, standardised features")
    others = [one for one in ("Newton", "FedNewtonCG") if one != type(measuring.algorithm).__name__]
    return f"{own}, or {' or '.join(others)}"


def _advice(status: str, measuring: Measuring) -> str:
    scale = measuring.scale
    said = []
    if scale is not None and scale.spread() > SPREAD:
        said.append(
            f"the columns' scales differ by a factor of {scale.spread():.0e}: standardise them, for instance with "
            "preprocess=Preprocess()"
        )
    if status == DIVERGED:
        said.append(f"try {_remedy(measuring)}")
    doubts = [row.doubt for row in measuring.rows.history if row.doubt is not None]
    if doubts:
        said.insert(0, doubts[-1])
    return "".join(f"; {one}" for one in said)
