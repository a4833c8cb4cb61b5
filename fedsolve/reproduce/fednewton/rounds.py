"""Rounds of FedNewton and FedNewtonCG to the pooled solution, on FedNewton's synthetic data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsolve.algorithms import FedNewton, FedNewtonCG
from fedsolve.algorithms.base import Algorithm
from fedsolve.losses import Squared
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import REFERENCE
from fedsolve.reproduce.fednewton.synthetic import L2, Problem, problem
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

TOLERANCE, MOST_ROUNDS, RUNAWAY = 1e-8, 200, 1e3
ALLOWED = 1.3  # times the reference rounds


@dataclass(frozen=True)
class Case:
    """A setting and its reference values (None: diverges)."""

    clients: int
    samples: int
    alpha: float
    rho: float
    plain: int | None
    cg: int

    def __str__(self) -> str:
        return f"{self.clients}, {self.samples}, {self.alpha:g}"


CASES = (
    Case(20, 500, 0.0, 0.55, 22, 7),
    Case(50, 200, 0.0, 1.84, None, 11),
    Case(100, 100, 0.0, 5.1, None, 17),
    Case(20, 500, 1.0, 240.0, None, 57),
)
METHODS = {"FedNewton": FedNewton, "FedNewtonCG": FedNewtonCG}


@dataclass(frozen=True)
class Trace:
    """The errors of one method after 0, 1, 2, … rounds, until both are within the tolerance or the method diverges."""

    errors: list[float]
    weight_errors: list[float]

    @property
    def rounds(self) -> float:
        return _first(self.errors)

    @property
    def rounds_of_weights(self) -> float:
        return _first(self.weight_errors)


def trace(algorithm: Algorithm, of: Problem) -> Trace:
    """Run an algorithm and record its errors."""
    errors: list[float] = []
    weight_errors: list[float] = []
    for iterate in iterates(algorithm, of.clients):
        errors.append(of.error(iterate.state.w))
        weight_errors.append(of.weight_error(iterate.state.w))
        if max(errors[-1], weight_errors[-1]) <= TOLERANCE or errors[-1] > RUNAWAY or iterate.round == MOST_ROUNDS:
            break
    return Trace(errors, weight_errors)


def _first(errors: list[float]) -> float:
    """The first round within the tolerance; infinite if there is none."""
    return next((round for round, error in enumerate(errors) if error <= TOLERANCE), math.inf)


def _draw(traces: Mapping[Case, Mapping[str, list[Trace]]], rhos: Mapping[Case, list[float]], figure: Figure) -> None:
    axes = figure.subplots(-(-len(traces) // 2), 2, sharey=True, squeeze=False)
    for axis, case in zip(axes.flat, traces, strict=True):
        draw_curves(axis, {name: over_rounds([one.errors for one in found]) for name, found in traces[case].items()})
        axis.axhline(TOLERANCE, color="grey", linewidth=0.8, linestyle=":")
        axis.set_ylim(TOLERANCE / 5, 10)
        axis.set_title(f"m = {case.clients}, n = {case.samples}, α = {case.alpha:g}: ρ = {np.median(rhos[case]):.3g}")
    for line in axes:
        line[0].set_ylabel("relative federated error")
    legend_below(figure, axes.flat)


@experiment(
    "fednewton-cg-rounds",
    paper="FedNewton",
    place="beyond the paper",
    title="Rounds of FedNewton and FedNewtonCG to the pooled solution",
    takes="15 s",
)
def cg_rounds(seeds: Seeds, quick: bool) -> Result:
    """FedNewtonCG always converges; where FedNewton converges too, it needs a third of its rounds."""
    cases = CASES[:2] if quick else CASES
    rhos: dict[Case, list[float]] = {case: [] for case in cases}
    traces: dict[Case, dict[str, list[Trace]]] = {case: {name: [] for name in METHODS} for case in cases}
    for seed, case in seeds.over(cases):
        posed = problem(case.clients, case.samples, case.alpha, seed)
        rhos[case].append(posed.rho)
        for name, method in METHODS.items():
            traces[case][name].append(trace(method(Squared(l2=L2)), posed))

    def row(case: Case) -> tuple[Cell, ...]:
        plain, cg = traces[case].values()
        ours = Measured(tuple(one.rounds for one in cg), case.cg)
        by_weights = Measured(tuple(one.rounds_of_weights for one in cg))
        ratio = max(ours.median, by_weights.median) / case.cg
        return (
            str(case),
            Measured(tuple(rhos[case]), case.rho),
            Measured(tuple(one.rounds for one in plain), "diverges" if case.plain is None else case.plain),
            ours,
            by_weights,
            Verdict(ratio <= ALLOWED, f"{ratio:.2f} ×"),
        )

    whole, widest = "{:.0f}".format, rhos[cases[-1]]
    return Result(
        columns=(
            Column("m, n, α"),
            Column("ρ"),
            Column("FedNewton", whole, infinite="diverges"),
            Column("FedNewtonCG", whole, infinite="> 200"),
            Column("by weights", whole, infinite="> 200"),
            Column(f"within {ALLOWED} ×"),
        ),
        rows=[row(case) for case in cases],
        notes=(
            "Rounds until the relative federated error is at most 1e-8. The error is that of predictions, as in the "
            "paper's equation (7): ‖Φ(w − w_pooled)‖ / ‖Φ w_pooled‖ over all training inputs.",
            f"{REFERENCE} It does not state its norm; this one gives its counts in the first three rows.",
            "“By weights” counts FedNewtonCG's rounds until ‖w − w_pooled‖ / ‖w_pooled‖ ≤ 1e-8, which is stricter. The "
            "verdict compares the larger of the two medians with the reference.",
            "ρ = λ_max(AH) − 1 is from dense eigenvalues, and plain FedNewton converges if and only if it is below 1. "
            f"It varies from seed to seed, from {min(widest):.3g} to {max(widest):.3g} in the last row, "
            f"where the reference is {cases[-1].rho:g}.",
            "Data: M = 200 features with std(Ω) = 0.1, λ = 1e-6, β = 0; each seed draws data and features anew.",
        ),
        draw=partial(_draw, traces, rhos),
        printed_by="reference",
    )
