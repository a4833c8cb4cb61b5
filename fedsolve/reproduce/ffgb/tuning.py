"""Chooses a method's step size from its grid, and follows the method with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path

from fedsolve.losses.network import Network
from fedsolve.models.base import Model
from fedsolve.reproduce.ffgb.methods import Method
from fedsolve.reproduce.ffgb.parts import Part, Parts
from fedsolve.reproduce.ffgb.traces import Arena, Trace


@dataclass(frozen=True)
class Budget:
    """How long a method is tried.

    rounds  the most rounds
    pilot   the rounds after which the step sizes of its grid are compared
    longer  the rounds of a second pilot, where the best of the first are equal
    share   the share of the paper's epochs that clients and server run
    """

    rounds: int
    pilot: int = 0
    share: float = 1.0
    longer: int = 0


def tuned(
    arena: Arena,
    method: Method,
    loss: Network,
    budget: Budget,
    target: float,
    *,
    warm_start: Model | None = None,
    deadline: float = inf,
    keep: Path | None = None,
) -> tuple[Part, Model | None]:
    """The trace of a method with the step size that has the best accuracy after a pilot, and its model after the first
    round, unless that round was the pilot's or an earlier run's. A step size that reaches the target within the pilot,
    in the fewest rounds, is chosen at once. `keep` is a folder for pilots and checkpoints: the next run goes on where
    time was up, and runs no more than one round again."""

    def follow(step_size: float, rounds: int) -> tuple[Trace, Model | None]:
        algorithm = method.make(loss, step_size, budget.share)
        saved = None if keep is None else keep / f"{step_size:g}"
        return arena.follow(algorithm, rounds, target, warm_start=warm_start, deadline=deadline, checkpoint=saved)

    def pilot(step_size: float, rounds: int) -> Part:
        def make() -> Part:
            return Part(step_size, follow(step_size, min(rounds, budget.rounds))[0])

        return make() if keep is None else Parts(keep).made(f"pilot {rounds} {step_size:g}", make)

    if len(method.step_sizes) == 1:
        trace, first = follow(method.step_sizes[0], budget.rounds)
        return Part(method.step_sizes[0], trace), first
    for rounds in (budget.pilot, budget.longer):
        pilots: list[Part] = []
        for step_size in method.step_sizes:
            pilots.append(pilot(step_size, rounds))
            if not pilots[-1].trace.is_whole:  # time is up
                return pilots[-1], None
        ranks = {one.step_size: (one.trace.rounds_to(target), -one.trace.accuracies[-1]) for one in pilots}
        best = min(pilots, key=lambda one: ranks[one.step_size])
        if budget.longer <= budget.pilot or list(ranks.values()).count(ranks[best.step_size]) == 1:
            break  # else a tie, such as of networks that all predict the most frequent class: it decides nothing
    if best.trace.rounds_to(target) == inf and budget.rounds > best.trace.rounds:
        trace, first = follow(best.step_size, budget.rounds)
        return Part(best.step_size, trace), first
    return best, None
