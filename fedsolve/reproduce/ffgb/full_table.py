"""The table of the full form: what is there of it, with the paper's counts beside ours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from math import inf

from fedsolve.errors import UnknownName
from fedsolve.networks.library import torch_library
from fedsolve.report.figures import Figure
from fedsolve.reproduce.ffgb.full_claims import claims
from fedsolve.reproduce.ffgb.full_settings import (
    BUDGETS,
    CLIENTS,
    ROUNDS,
    SETTINGS,
    WARM,
    Case,
    Columns,
    Device,
    is_done,
    run_setting,
    targets,
)
from fedsolve.reproduce.ffgb.methods import FEDAVG, FFGB, GRIDS
from fedsolve.reproduce.ffgb.parts import Part, Parts
from fedsolve.reproduce.ffgb.printed import printed
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Full, Seeds
from fedsolve.reproduce.result import Cell, Column, Measured, Result


def in_full(columns: Columns, seeds: Seeds, how: Full) -> Result:
    """Run what is missing of the settings, as far as time allows, and make the table of all that is there."""
    for name in how.settings:
        if name not in SETTINGS:
            raise UnknownName("setting", name, SETTINGS)
    parts = Parts(how.folder)
    deadline = inf if how.minutes is None else time.monotonic() + 60 * how.minutes
    device: Device = "cuda" if torch_library().cuda.is_available() else "cpu"
    for seed, setting in seeds.over(how.settings or SETTINGS):
        if time.monotonic() < deadline:
            run_setting(Case(setting, seed), columns, parts, device, deadline)
    return _result(columns, parts, seeds.seeds)


def _result(columns: Columns, parts: Parts, seeds: tuple[int, ...]) -> Result:
    rows: list[tuple[Cell, ...]] = []
    missing, wanted = 0, len(seeds) * len(SETTINGS) * len(columns)
    abouts: dict[str, str] = {}
    for setting in SETTINGS:
        cases = [Case(setting, seed) for seed in seeds]
        found = [case for case in cases if parts.find(case.part(FFGB, False)) is not None]
        missing += sum(not is_done(parts, case, method, warm) for case in cases for method, warm in columns)
        if found:
            abouts.setdefault(setting.split(":")[0], found[0].images.about)
            rows += [_row(columns, parts, found, place) for place in (0, 1)]
    return Result(
        columns=_columns(columns),
        rows=rows,
        notes=(
            *(
                (f"PARTIAL TABLE: {missing} of {wanted} parts are missing or cut short by time (*).",)
                if missing
                else ()
            ),
            *(f"{name}: {about}." for name, about in abouts.items()),
            f"{CLIENTS} clients, the paper's CNN and local budgets. {GRIDS}",
            "Targets are what FFGB-Distill reaches: its accuracy after one round, and the best of its first "
            f"{ROUNDS} rounds, rounded down, so that its own count for the first is 1. The paper says that its targets "
            "are reached after a few rounds, and not how they were chosen; its counts are for the whole data sets.",
            "A step size is chosen by the accuracy after a pilot "
            f"({', '.join(f'{method.name}: {one.pilot} rounds' for method, one in BUDGETS.items() if one.pilot)}); "
            "where the best are equal, by one of "
            f"{BUDGETS[FEDAVG].longer} rounds.",
            "“> N” means not within N rounds. “from FFGB-Distill” starts from its first round, which is not counted.",
        ),
        draw=partial(_draw, dict(_curves(columns, parts, seeds))),
        claims=claims(columns, parts, SETTINGS),
    )


def _columns(columns: Columns) -> tuple[Column, ...]:
    return (
        Column("setting"),
        Column("target", "{:.2f}".format, average="mean"),
        *(Column(method.name + (WARM if warm else "")) for method, warm in columns),
        Column("s per round"),  # on the machine that made the part
    )


def _row(columns: Columns, parts: Parts, cases: list[Case], place: int) -> tuple[Cell, ...]:
    """The counts to the lower or the higher target, the mean over the seeds; > N where a seed did not reach it."""
    goals = []
    for case in cases:
        base = parts.find(case.part(FFGB, False))
        assert base is not None
        goals.append(targets(base)[place])
    cells: list[Cell] = []
    seconds = []
    for method, warm in columns:
        known = [(parts.find(case.part(method, warm)), goal) for case, goal in zip(cases, goals, strict=True)]
        there = [(one, goal) for one, goal in known if one is not None]
        cells.append(_counts(there, None if warm else printed(cases[0].setting, method.name, place)))
        seconds += (
            [f"{method.name} {sum(one.trace.seconds for one, _ in there) / len(there):.1f}"]
            if there and not warm
            else []
        )
    return (
        cases[0].setting,
        Measured(tuple(goals), printed(cases[0].setting, "target", place)),
        *cells,
        "; ".join(seconds),
    )


def _counts(found: list[tuple[Part, float]], paper: str | None) -> str:
    """As text: 3, > 100, or > 42* where time was up; then the paper's."""
    said = []
    for part, goal in found:
        rounds = part.trace.rounds_to(goal)
        cut = "" if part.trace.is_whole else "*"
        said.append(f"{rounds:.0f}" if rounds < inf else f"> {part.trace.rounds}{cut}")
    return (", ".join(said) or "–") + ("" if paper is None else f" (paper: {paper})")


def _curves(
    columns: Columns, parts: Parts, seeds: tuple[int, ...]
) -> Iterator[tuple[str, Mapping[str, list[tuple[float, ...]]]]]:
    """The accuracies of every setting that has any, by method."""
    for setting in SETTINGS:
        curves: dict[str, list[tuple[float, ...]]] = {}
        for method, warm in columns:
            for seed in seeds:
                part = parts.find(Case(setting, seed).part(method, warm))
                if part is not None:
                    curves.setdefault(method.name + (WARM if warm else ""), []).append(part.trace.accuracies)
        if curves:
            yield setting, curves


def _draw(curves: Mapping[str, Mapping[str, list[tuple[float, ...]]]], figure: Figure) -> None:
    across = 4
    down = max(1, -(-len(curves) // across))
    figure.set_size_inches(3.4 * across, 3.0 * down)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[len(curves) :]:
        axis.set_axis_off()
    for axis, (setting, methods) in zip(axes, curves.items(), strict=False):
        draw_curves(axis, {name: over_rounds(ys) for name, ys in methods.items()}, log=False)
        axis.set_title(setting, fontsize=10)
        axis.set_ylabel("test accuracy")
    legend_below(figure, list(axes[: len(curves)]))
