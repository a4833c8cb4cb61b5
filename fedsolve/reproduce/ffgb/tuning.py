"""Chooses a method's step size from its grid, and follows the method with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fedsolve.losses.network import Network
from fedsolve.models.base import Model
from fedsolve.reproduce.ffgb.methods import Method
from fedsolve.reproduce.ffgb.parts import Part
from fedsolve.reproduce.ffgb.traces import Arena, Trace


@dataclass(frozen=True)
class Budget:
    """How long a method is tried.

    rounds  the most rounds
    pilot   the rounds after which the step sizes of its grid are compared
    share   the share of the paper's epochs that clients and server run
    """

    rounds: int
    pilot: int = 0
    share: float = 1.0


def tuned(
    arena: Arena,
    method: Method,
    loss: Network,
    budget: Budget,
    target: float,
    *,
    warm_start: Model | None = None,
    deadline: float = inf,
) -> tuple[Part, Model | None]:
    """The trace of a method with the step size that has the best accuracy after a pilot, and its model after the first
    round. A step size that reaches the target within the pilot, in the fewest rounds, is chosen at once."""

    def follow(step_size: float, rounds: int) -> tuple[Trace, Model | None]:
        algorithm = method.make(loss, step_size, budget.share)
        return arena.follow(algorithm, rounds, target, warm_start=warm_start, deadline=deadline)

    if len(method.step_sizes) == 1:
        trace, first = follow(method.step_sizes[0], budget.rounds)
        return Part(method.step_sizes[0], trace), first
    pilots = {step_size: follow(step_size, min(budget.pilot, budget.rounds)) for step_size in method.step_sizes}
    best = min(pilots, key=lambda one: (pilots[one][0].rounds_to(target), -pilots[one][0].accuracies[-1]))
    trace, first = pilots[best]
    if trace.rounds_to(target) == inf and trace.is_whole and budget.rounds > budget.pilot:
        trace, first = follow(best, budget.rounds)
    return Part(best, trace), first
