"""SHED, Theorem 10-3: superlinear convergence if full Hessians come often enough, shown in 1,000 digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, getcontext, localcontext
from functools import partial
from itertools import pairwise

from fedsolve.curvature.renewals import Fibonacci, Periodic, Renewals
from fedsolve.report.figures import Figure
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.shed.many_digits import ZERO, Vector, optimum, problem, shed
from fedsolve.reproduce.shed.renewal_sets import sets

N, AGENTS, SAMPLES, MU = 4, 3, 8, 0.05
UNTIL, NEARER, QUICK = -100, -400, -40  # log10 of the error at which a run ends
MOST = 240  # iterations
OFTEN, NEVER = "T = 3: all n − 1 eigenpairs, once a period", "T = 2: never all of them"
RULES: dict[str, Renewals] = {OFTEN: Periodic(3), "Fibonacci": Fibonacci(), NEVER: Periodic(2)}
STEADY = 0.02  # by which the last factors of a linearly convergent run differ


def _logs(seed: int, rule: Renewals, until: int) -> list[float]:
    """log10 of the errors."""
    with localcontext() as digits:
        digits.prec = -5 * until // 2  # Armijo's test sees differences of the squared error
        agents = problem(seed, N, AGENTS, SAMPLES, MU)
        best: Vector = optimum(agents, N, 15)
        due = set(sets(rule, N, MOST))
        found = shed(agents, [ZERO] * N, best, due.__contains__, Decimal(10) ** until, MOST)
        return [float(error.log10()) if error else -math.inf for error in found]


def factors(logs: Sequence[float], period: int) -> list[float]:
    """The mean factor of the error per iteration, by whole period."""
    return [10 ** ((b - a) / period) for a, b in pairwise(logs[period - 1 :: period])]


@experiment(
    "shed-superlinear",
    paper="SHED",
    place="Theorem 10-3",
    title="Superlinear convergence, in 1,000 digits",
    takes="2 min",
    seeds=3,
)
def superlinear(seeds: Seeds, quick: bool) -> Result:
    """With the whole Hessian once a period the factor per period falls without end; without it, it settles."""
    logs: dict[str, list[list[float]]] = {name: [] for name in RULES}
    precision = getcontext().prec
    for seed, name in seeds.over(RULES):
        logs[name].append(_logs(seed, RULES[name], QUICK if quick else UNTIL if name == NEVER else NEARER))
    if getcontext().prec != precision:
        raise RuntimeError("the precision of decimal numbers was not put back")
    claims = Claims(quick)
    for name in (OFTEN, "Fibonacci"):
        found = [factors(one, N - 1) for one in logs[name]]
        falls = all(b < a for one in found for a, b in pairwise(one[1:]))
        least = max(min(one) for one in found)
        said = f"down to {least:.1g} per iteration, {min(map(len, found))} periods or more"
        claims.add(f"{name}: the factor falls from period to period", falls and least < 1e-3, said)
    linear = [factors(one, 2)[-10:] for one in logs[NEVER]]
    steady = max(max(one) / min(one) - 1 for one in linear)
    said = f"the last ten differ by {100 * steady:.1g} %, at {min(map(min, linear)):.3f} to {max(map(max, linear)):.3f}"
    claims.add(f"{NEVER}: the factor settles", steady <= STEADY, said)
    return Result(
        columns=(
            Column("renewals"),
            Column("iterations", "{:.0f}".format),
            Column("log10 of the last error"),
            Column("factor of the last period", "{:.1e}".format),
        ),
        rows=[_row(name, found, 2 if name == NEVER else N - 1) for name, found in logs.items()],
        claims=claims.found,
        notes=(
            f"Logistic regression, n = {N}, {AGENTS} agents of {SAMPLES} samples, μ = {MU}; Algorithm 4 as printed in "
            f"decimal numbers of up to {-5 * NEARER // 2:,} digits. The set X_t of Theorem 10-3 has a third of the "
            "iterations in the first case and none in the last.",
        ),
        draw=partial(_draw, logs),
    )


def _row(name: str, found: Sequence[Sequence[float]], period: int) -> tuple[str | Measured, ...]:
    def of(value: Callable[[Sequence[float]], float]) -> Measured:
        return Measured(tuple(map(value, found)))

    return name, of(lambda one: len(one) - 1.0), of(lambda one: one[-1]), of(lambda one: factors(one, period)[-1])


def _draw(logs: dict[str, list[list[float]]], figure: Figure) -> None:
    axis = figure.subplots()
    draw_curves(axis, {name: over_rounds(one) for name, one in logs.items()}, over="iterations", log=False)
    axis.set_ylabel("log10 ‖θ − θ*‖")
    legend_below(figure, [axis])
