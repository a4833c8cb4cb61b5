"""Shen et al. (2022), Figure 1: FedAvg and FedDyn that start from one round of FFGB-Distill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite

from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.full_settings import COLUMNS
from fedsolve.reproduce.ffgb.full_table import in_full
from fedsolve.reproduce.ffgb.images import small_mnist
from fedsolve.reproduce.ffgb.methods import FEDAVG, FEDAVG_DISTILL, FEDDYN, FFGB, GRIDS, PAPER, Method
from fedsolve.reproduce.ffgb.parts import Part
from fedsolve.reproduce.ffgb.table2 import SETTING, TARGETS, network, shortened, small_arena
from fedsolve.reproduce.ffgb.tuning import Budget, tuned
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

STARTED = (FEDAVG, FEDDYN)
RANDOM, WARM = "random start", "FFGB-Distill start"
BUDGETS = {FFGB: Budget(1), FEDAVG: Budget(60, 10), FEDDYN: Budget(60, 6)}
REFERENCE = {("FedAvg", WARM): 5, ("FedDyn", WARM): 2, ("FedAvg", RANDOM): 30, ("FedDyn", RANDOM): 10}
Found = Mapping[tuple[str, str], Sequence[Part]]


@experiment(
    "ffgb-fig1",
    paper=PAPER,
    place="Figure 1",
    title="FedAvg and FedDyn started from one round of FFGB-Distill",
    takes="4 min",
    seeds=5,
    full=partial(in_full, tuple(one for one in COLUMNS if one[0] is not FEDAVG_DISTILL)),
)
def fig1(seeds: Seeds, quick: bool) -> Result:
    """The same methods from random weights and from FFGB-Distill's model, each with the best step size of its grid."""
    found: dict[tuple[str, str], list[Part]] = {}
    budgets = {method: shortened(one) if quick else one for method, one in BUDGETS.items()}
    about = ""
    for seed in seeds:
        images = small_mnist(seed)
        arena, loss, about = small_arena(images, seed), network(images), images.about
        first, model = tuned(arena, FFGB, loss, budgets[FFGB], 1.0)
        found.setdefault((FFGB.name, "one round"), []).append(first)
        for method in STARTED:
            for start, begin in ((RANDOM, None), (WARM, model)):
                part, _ = tuned(arena, method, loss, budgets[method], TARGETS[-1], warm_start=begin)
                found.setdefault((method.name, start), []).append(part)
    return Result(
        columns=_columns(),
        rows=[_row(name, start, parts) for (name, start), parts in found.items()],
        claims=[claim for method in STARTED for claim in _claims(found, method, quick)],
        notes=(
            f"{about}. {SETTING}",
            GRIDS,
            "“Models” are those after the start. A start costs one round of FFGB-Distill, that is one model more. "
            f"“–” means not within {BUDGETS[FEDAVG].rounds} rounds.",
        ),
        draw=partial(_draw, found),
        printed_by="reference",
    )


def _columns() -> tuple[Column, ...]:
    return (
        Column("method"),
        Column("start"),
        Column("at the start", "{:.3f}".format),
        *(Column(f"models to {target:g}", "{:.0f}".format, infinite="–") for target in TARGETS),
        Column("step size"),
    )


def _row(name: str, start: str, parts: Sequence[Part]) -> tuple[Cell, ...]:
    traces = [part.trace for part in parts]
    printed = {TARGETS[-1]: REFERENCE.get((name, start))}
    return (
        name,
        start,
        Measured(tuple(one.accuracies[0] for one in traces)),
        *(Measured(tuple(one.rounds_to(target) for one in traces), printed.get(target)) for target in TARGETS),
        ", ".join(f"{one:g}" for one in sorted({part.step_size for part in parts})),
    )


def _claims(found: Found, method: Method, quick: bool) -> Sequence[tuple[str, Verdict]]:
    """The start pays with every seed, its own round counted; and by half, as in the full table."""
    warm, cold = ([part.trace.rounds_to(TARGETS[-1]) for part in found[method.name, start]] for start in (WARM, RANDOM))
    said = ", ".join(f"{_count(a)} + 1 against {_count(b)}" for a, b in zip(warm, cold, strict=True))
    saves = all(a + 1 < b for a, b in zip(warm, cold, strict=True))
    halves = all(2 * (a + 1) <= b for a, b in zip(warm, cold, strict=True)) and all(map(isfinite, warm))
    return (
        (f"one round of FFGB-Distill saves {method.name} rounds to {TARGETS[-1]:g}", stated(saves, said, quick)),
        (f"… {method.name} then needs at most half as many", stated(halves, said, quick)),
    )


def _count(rounds: float) -> str:
    return f"{rounds:.0f}" if isfinite(rounds) else "not reached"


def _draw(found: Found, figure: Figure) -> None:
    axis = figure.subplots()
    curves = {
        f"{name}, {start}": over_rounds([part.trace.accuracies for part in parts])
        for (name, start), parts in found.items()
        if name != FFGB.name
    }
    draw_curves(axis, curves, log=False)
    axis.axhline(TARGETS[-1], color="grey", linewidth=0.8, linestyle=":")
    axis.set_ylabel("test accuracy")
    legend_below(figure, [axis])
