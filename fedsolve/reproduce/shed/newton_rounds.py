"""Rounds and optimum of exact federated Newton on w8a, a9a and a1a."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.algorithms import Newton
from fedsolve.data import Contiguous, load, partition
from fedsolve.federation.client import Client
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.loop.stopping import Stopping
from fedsolve.losses import Logistic
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import REFERENCE
from fedsolve.reproduce.figures import Curve, draw_curves, legend_below
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

TOLERANCE, DIGITS = 1e-10, 1e-12


@dataclass(frozen=True)
class Case:
    """A logistic regression with its reference optimum and number of rounds."""

    dataset: str
    rows: int  # the first so many
    clients: int
    l2: float
    intercept: bool
    value: float
    rounds: int | None

    def __str__(self) -> str:
        return f"{self.dataset}, λ = {self.l2:g}"

    @property
    def loss(self) -> Logistic:
        return Logistic(l2=self.l2, intercept="penalised" if self.intercept else None)

    def divided(self) -> list[Client]:
        """The clients: consecutive blocks of equal size."""
        data = load(self.dataset)
        return partition(data.X[: self.rows], data.y[: self.rows], Contiguous(), clients=self.clients)


LARGE = (
    Case("w8a", 49_700, 142, 1e-3, True, 0.091225878589587, 8),
    Case("a9a", 32_518, 142, 1e-3, True, 0.333223219395488, 7),
)
SMALL = (
    Case("a1a", 1600, 16, 1e-3, False, 0.3279231932987089, None),
    Case("a1a", 1600, 16, 1e-4, False, 0.3085382912489913, None),
)


def solve(case: Case) -> Run:
    """Exact Newton from zero."""
    limits = Stopping(30, tolerance=None, gradient_norm=TOLERANCE)
    return run(Newton(case.loss), case.divided(), stopping=limits, min_rows=0)


@experiment(
    "newton-rounds",
    paper="SHED",
    place="beyond the paper",
    title="Exact federated Newton on w8a and a9a, 142 clients: optimum and rounds",
    takes="5 s",
    seeds=1,  # nothing in it is random
)
def newton_rounds(seeds: Seeds, quick: bool) -> Result:
    """If clients can send n² numbers, exact Newton needs few rounds."""
    cases = SMALL if quick else (*LARGE, *SMALL)
    runs: dict[Case, list[Run]] = {case: [] for case in cases}
    for _, case in seeds.over(cases):
        runs[case].append(solve(case))

    def row(case: Case) -> tuple[Cell, ...]:
        values = tuple(float(one.history[-1].value or np.inf) for one in runs[case])
        rounds = tuple(float(one.rounds) for one in runs[case])
        off = max(abs(value - case.value) for value in values)
        same = case.rounds is None or set(rounds) == {case.rounds}
        return (
            str(case),
            case.clients,
            Measured(values, case.value),
            Measured(rounds, case.rounds),
            Verdict(off <= DIGITS and same and all(one.converged for one in runs[case]), f"f* to {off:.0e}"),
        )

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        curves = {}
        for case, found in runs.items():
            rows = [one.history for one in found]
            norms = [[row.gradient_norm or np.nan for row in one] for one in rows]
            curves[str(case)] = Curve([[row.round for row in one] for one in rows], norms)
        draw_curves(axis, curves)
        axis.axhline(TOLERANCE, color="grey", linewidth=0.8, linestyle=":")
        axis.set_ylabel("norm of the pooled gradient")
        legend_below(figure, [axis])

    return Result(
        columns=(
            Column("data"),
            Column("clients"),
            Column("f*", "{:.15f}".format),
            Column("rounds", "{:.0f}".format),
            Column("same"),
        ),
        rows=[row(case) for case in cases],
        notes=(
            "From w = 0 to ‖g‖ ≤ 1e-10; consecutive blocks of equal size. w8a and a9a have a constant column that is "
            "penalised like the others; a1a has no intercept.",
            f"{REFERENCE} “Same” means the same optimum to 1e-12 and, where known, the same number of rounds.",
        ),
        draw=draw,
        printed_by="reference",
    )
