"""Runs methods on problems until f − f* ≤ 1e-10: the table and figure of most SHED experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from textwrap import fill
from typing import Literal, TypeAlias

import numpy as np

from fedsolve.report.figures import Figure
from fedsolve.reproduce.figures import Curve, distinct_looks, draw_curves, legend_below
from fedsolve.reproduce.harness import Seeds
from fedsolve.reproduce.result import Cell, Column, Measured
from fedsolve.reproduce.shed.gaps import Optimum, Trace, optimum
from fedsolve.reproduce.shed.kept_traces import kept
from fedsolve.reproduce.shed.methods import Method
from fedsolve.reproduce.shed.problems import Problem

GAP = 1e-10  # f − f*, of all counts
FLOOR = 1e-14  # what is drawn of gaps that rounding made
POINTS = 200  # of a curve, on a linear and on a logarithmic axis each
LONGEST = 3.0  # times the median of the curves' ends: as far as an axis goes
LETTERS = 90  # of all titles beside each other
DEGRADED, NOT_DEGRADED = 1.5, 1.25  # times the rounds where agents are alike
Counted: TypeAlias = Literal["iterations", "rounds", "vectors", "bytes", "hessians"]
AXES: dict[Counted, str] = {"rounds": "communication rounds", "vectors": "vectors sent by an agent"}
Make: TypeAlias = Callable[[int], Problem]  # by the seed
COUNTING = (
    "All counts are until f − f* ≤ 1e-10. Rounds are exchanges including the line search, as the paper counts them; "
    "vectors are the numbers an agent sends, the losses of a line search included, divided by n; bytes are both ways, "
    "all agents."
)


@dataclass(frozen=True)
class Comparison:
    """The traces of a comparison, by problem and method, one per seed."""

    traces: Mapping[tuple[str, str], Sequence[Trace]]
    abouts: Mapping[str, str]  # what each problem is, for seed 0
    most: int  # rounds that a method was given
    longer: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by method, where it was given others
    shared: Sequence[float] = ()  # processor seconds of each trace that was kept from an earlier experiment

    def measured(self, problem: str, method: str, counted: Counted, printed: float | str | None = None) -> Measured:
        """A count when the gap is reached; infinite where it is not reached."""
        found = self.traces[problem, method]
        return Measured(tuple(one.until(GAP, _counts(one, counted)) for one in found), printed)

    def ratio(self, problem: str, over: str, under: str, counted: Counted) -> Measured:
        """The ratio of two methods, by seed; NaN where the second does not reach the gap."""
        return _ratio(*(self.measured(problem, one, counted) for one in (over, under)))

    def between(self, problem: str, other: str, method: str, counted: Counted) -> Measured:
        """The ratio of one method on two problems, by seed; NaN where it does not reach the gap on the second."""
        return _ratio(*(self.measured(one, method, counted) for one in (problem, other)))

    @property
    def columns(self) -> tuple[Column, ...]:
        whole = "{:,.0f}".format
        return (
            Column("problem"),
            Column("method"),
            Column("iterations", whole, infinite="–"),
            Column("rounds", whole, infinite="not reached"),
            Column("vectors", whole, infinite="–"),
            Column("MB", lambda value: f"{value / 1e6:.3g}", infinite="–"),
            Column("Hessians", whole, infinite="–"),
        )

    def rows(self, printed: Mapping[tuple[str, str, Counted], float] | None = None) -> list[tuple[Cell, ...]]:
        noted = printed or {}
        kinds: tuple[Counted, ...] = ("iterations", "rounds", "vectors", "bytes", "hessians")
        return [
            (
                problem,
                method,
                *(self.measured(problem, method, one, noted.get((problem, method, one))) for one in kinds),
            )
            for problem, method in self.traces
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        limits = {name: " or ".join(f"{one:,}" for one in rounds) for name, rounds in self.longer.items()}
        others = "".join(f" ({name}: {rounds})" for name, rounds in limits.items())
        return (
            COUNTING,
            f"“Not reached” means not within {self.most:,} rounds{others}.",
            *self._told_of_shared(),
            *(f"{name}: {about}." for name, about in self.abouts.items()),
        )

    def _told_of_shared(self) -> tuple[str, ...]:
        if not self.shared:
            return ()
        return (
            f"{len(self.shared)} runs were kept from earlier experiments with the same problem, method and split. The "
            f"{sum(self.shared):,.0f} seconds that they took there are counted here too.",
        )

    def draw(self, figure: Figure) -> None:
        """Draw a row of panels per axis and a column per problem."""
        labels = _labels({where: [name for at, name in self.traces if at == where] for where in self.abouts})
        looks = distinct_looks(list(dict.fromkeys(labels.values())))
        for name in looks:
            if name.endswith("pipelined"):
                looks[name]["linestyle"] = "--"  # where it is the same as the one that is not, both are seen
        grid = figure.subplots(len(AXES), len(self.abouts), squeeze=False, sharey="col")
        for column, problem in enumerate(self.abouts):
            for row, (counted, label) in enumerate(AXES.items()):
                axis = grid[row][column]
                found = {method: one for (where, method), one in self.traces.items() if where == problem}
                curves = {labels[name]: _curve(one, counted) for name, one in found.items()}
                draw_curves(axis, curves, over=label, looks=looks)
                ends = [float(np.median([_counts(one, counted)[-1] for one in several])) for several in found.values()]
                # AGD's thousands would squash the others: whoever needs far more leaves the panel.
                longest = max(1.0, min(1.03 * max(ends), LONGEST * float(np.median(ends))))
                axis.set_xlim(-0.02 * longest, longest)
                axis.tick_params(labelsize=8)
                axis.set_ylabel("f − f*" if column == 0 else "")
            grid[0][column].set_title(fill(problem, LETTERS // len(self.abouts)), fontsize=10)
        legend_below(figure, grid.ravel().tolist())


def _labels(methods: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What the lines of methods are called. Where each problem has a method of its own in the same settings
    ("SHED-LS, d = 3" and "Fib-SHED, d = 3"), a line is called by its setting, so that this has one colour."""
    of_problem = [list(dict.fromkeys(names)) for names in methods.values()]
    settings = [[name.rpartition(", ")[2] for name in names] for names in of_problem]
    alike = all(one == settings[0] and len(set(one)) == len(one) for one in settings)
    differ = any(names != of_problem[0] for names in of_problem)
    return {
        name: setting if alike and differ else name
        for names, told in zip(of_problem, settings, strict=True)
        for name, setting in zip(names, told, strict=True)
    }


def compare(
    seeds: Seeds, problems: Mapping[str, Make], methods: Sequence[Method] | Mapping[str, Sequence[Method]], most: int
) -> Comparison:
    """Run every method on every problem, until the gap is reached or after `most` rounds.

    `methods` is a list, or a mapping from problem to list.
    """
    lists = methods if isinstance(methods, Mapping) else {name: methods for name in problems}
    cases = [_Case(problem, method) for problem in problems for method in lists[problem]]
    traces: dict[tuple[str, str], list[Trace]] = {
        (case.problem, name): [] for case in cases for name in case.method.names
    }
    abouts: dict[str, str] = {}
    at, best = (-1, ""), None  # problems are large: one at a time
    shared: list[float] = []
    for seed, case in seeds.over(cases):
        if best is None or at != (seed, case.problem):
            posed = problems[case.problem](seed)
            at, best = (seed, case.problem), _solved(posed)
            abouts.setdefault(case.problem, posed.about)
        run = partial(case.method.follow, best, gap=GAP, rounds=most, seed=seed)
        found = kept(best, case.method.told(best, seed), GAP, case.method.limit(most), run)
        if found.seconds_before is not None:
            shared.append(found.seconds_before)
        for name, trace in zip(case.method.names, case.method.counted(found.trace), strict=True):
            traces[case.problem, name].append(trace)
    seeds.earlier.extend(shared)
    longer: dict[str, list[int]] = {}
    for case in cases:
        limits = longer.setdefault(case.method.name, []) if case.method.most is not None else []
        if case.method.most is not None and case.method.most not in limits:
            limits.append(case.method.most)
    return Comparison(traces, abouts, most, longer, shared)


@dataclass(frozen=True)
class _Case:
    problem: str
    method: Method

    def __str__(self) -> str:
        return f"{self.problem}: {self.method.name}"


def _solved(problem: Problem) -> Optimum:
    return optimum(problem.clients, problem.loss)


def _ratio(over: Measured, under: Measured) -> Measured:
    pairs = zip(over.values, under.values, strict=True)
    return Measured(tuple(a / b if np.isfinite(b) else np.nan for a, b in pairs))


def _counts(trace: Trace, counted: Counted) -> Sequence[float]:
    if counted == "iterations":
        return range(len(trace.gaps))
    return trace.exchanges if counted == "rounds" else getattr(trace, counted)


def _curve(traces: Sequence[Trace], counted: Counted) -> Curve:
    """Gaps at the same places for all seeds; between two iterates the gap is that of the earlier one."""
    ends = sorted(_counts(one, counted)[-1] for one in traces)
    end = ends[len(ends) // 2]
    places = np.unique(np.concatenate([np.linspace(0.0, end, POINTS), np.geomspace(1.0, max(end, 1.0), POINTS)]))
    ys = []
    for one in traces:
        before = np.searchsorted(np.asarray(_counts(one, counted)), places, side="right") - 1
        ys.append(np.maximum(np.asarray(one.gaps)[np.maximum(before, 0)], FLOOR).tolist())
    return Curve([places.tolist()] * len(traces), ys)
