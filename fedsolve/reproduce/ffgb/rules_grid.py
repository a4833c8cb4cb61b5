"""Shen et al. (2022), Sections 1, 5 and 6.1: FFGB-Distill and its warm start, next to solvers with larger step sizes.

The paper's grid ends at 0.1, and FedAvg's best step size on the small MNIST problem is larger (`ffgb-divergence`). Here
FedAvg and FedDyn choose from 0.1 to 3, from random weights and from FFGB-Distill's model, each by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.images import small_mnist
from fedsolve.reproduce.ffgb.methods import FEDAVG, FEDDYN, FFGB, PAPER
from fedsolve.reproduce.ffgb.table2 import SETTING, TARGETS, network, shortened, small_arena
from fedsolve.reproduce.ffgb.tuning import Budget, tuned
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

WIDER = (0.1, 0.3, 1.0, 3.0)
SOLVERS = (FEDAVG, FEDDYN)
BUDGETS = {FFGB: Budget(5), FEDAVG: Budget(60, 10), FEDDYN: Budget(60, 6)}
RANDOM, WARM = "random start", "FFGB-Distill start"
Found = Mapping[tuple[str, str], tuple[float, float]]  # rounds to the target, and the step size


def measured(seed: int, quick: bool) -> Found:
    """FFGB-Distill's rounds to 0.84, and those of both solvers from both starts."""
    images = small_mnist(seed)
    arena, loss, target = small_arena(images, seed), network(images), TARGETS[-1]
    budgets = {method: shortened(one) if quick else one for method, one in BUDGETS.items()}
    first, model = tuned(arena, FFGB, loss, budgets[FFGB], target)
    found = {(FFGB.name, RANDOM): (first.trace.rounds_to(target), first.step_size)}
    for method in SOLVERS:
        wider = replace(method, step_sizes=WIDER)
        for start, begin in ((RANDOM, None), (WARM, model)):
            part, _ = tuned(arena, wider, loss, budgets[method], target, warm_start=begin)
            found[method.name, start] = (part.trace.rounds_to(target), part.step_size)
    return found


def claims(every: Sequence[Found], quick: bool) -> list[tuple[str, Verdict]]:
    """The rules were written before the first run; a claim holds if it holds in every seed."""
    found = []
    for name in (method.name for method in SOLVERS):
        warm, cold, own = (
            [one[key][0] for one in every] for key in ((name, WARM), (name, RANDOM), (FFGB.name, RANDOM))
        )
        said = ", ".join(f"{_count(a)} + 1 against {_count(b)}" for a, b in zip(warm, cold, strict=True))
        reached = all(map(isfinite, warm))
        saves = reached and all(a + 1 < b for a, b in zip(warm, cold, strict=True))
        halves = reached and all(2 * (a + 1) <= b for a, b in zip(warm, cold, strict=True))
        found += [
            (
                f"step sizes of 0.1 to 3: one round of FFGB-Distill saves {name} rounds to 0.84",
                stated(saves, said, quick),
            ),
            (f"… {name} then needs at most half as many, step sizes of 0.1 to 3", stated(halves, said, quick)),
        ]
        said = ", ".join(f"{_count(a)} against {_count(b)}" for a, b in zip(own, cold, strict=True))
        sooner = all(a < b for a, b in zip(own, cold, strict=True))
        found.append((f"FFGB-Distill is at 0.84 sooner than {name} with 0.1 to 3", stated(sooner, said, quick)))
    return found


def _count(rounds: float) -> str:
    return f"{rounds:.0f}" if isfinite(rounds) else "not reached"


@experiment(
    "ffgb-beyond-grid",
    paper=PAPER,
    place="Figure 1",
    title="FFGB-Distill and its warm start, with step sizes beyond the paper's grid",
    takes="4 min",
    seeds=5,
)
def beyond_grid(seeds: Seeds, quick: bool) -> Result:
    """The problem, the target and the budgets of ffgb-fig1."""
    every = [measured(seed, quick) for seed in seeds]
    rows: list[tuple[Cell, ...]] = []
    for name, start in every[0]:
        counts, sizes = zip(*(one[name, start] for one in every), strict=True)
        rows.append((name, start, Measured(counts), ", ".join(f"{one:g}" for one in sorted(set(sizes)))))
    return Result(
        columns=(
            Column("method"),
            Column("start"),
            Column("models to 0.84", "{:.0f}".format, infinite="–"),
            Column("step size"),
        ),
        rows=rows,
        claims=claims(every, quick),
        notes=(
            SETTING,
            "FedAvg and FedDyn choose from 0.1, 0.3, 1 and 3, by which reaches 0.84 first, or else is best, within 10 "
            "and 6 rounds, from each start by itself; FFGB-Distill has its rate of 10. “Models” are those after the "
            "start, which costs one more.",
        ),
    )
