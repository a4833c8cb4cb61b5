"""SHED, sections 3.2 and 4: the bounds of the least-squares case for many agents (Theorem 3, Lemmas 4 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import scipy.linalg

from fedsolve.algorithms import SHEDLeastSquares
from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.options import HowMany
from fedsolve.diagnose import periodic_bound
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import norm
from fedsolve.report.figures import Figure
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.figures import Curve, draw_curves, legend_below
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Cell, Column, Measured, Result
from fedsolve.reproduce.shed.gaps import Optimum, optimum
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.problems import Problem, songs
from fedsolve.typing import Array

ROUNDING = 1e-12  # of the first error
ALPHAS = (1e-4, 0.1, 0.3, 0.49)
BETAS = (0.5, 0.6, 0.7, 0.8, 0.9)
EXACT = 1e-9  # of the first error: what an exact step leaves
COMPARED = 5  # iterations of Algorithms 1 and 4
AT_RANDOM, BY_YEAR, ONE = "20 agents at random", "68 agents by year", "one agent"


def _one_agent(seed: int) -> Problem:
    posed = songs(iid=True, seed=seed, distinct=True)
    X, y = (np.concatenate([getattr(one, name) for one in posed.clients]) for name in ("X", "y"))
    return Problem([Client("agent-0", X, y)], posed.loss, "the same songs at one agent")


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    AT_RANDOM: lambda seed: songs(iid=True, seed=seed, distinct=True),
    BY_YEAR: lambda seed: songs(iid=False, seed=seed, distinct=True),
    ONE: _one_agent,
}


class Local:
    """The eigenpairs of all agents' Hessians, and the pooled one."""

    def __init__(self, problem: Problem) -> None:
        clients = problem.clients
        self.shares = np.array([one.weight for one in clients]) / sum(one.weight for one in clients)
        hessians = [problem.loss.hessian(one, np.zeros(one.X.shape[1])).full() for one in clients]
        self.pooled = np.einsum("i,ijk->jk", self.shares, hessians)
        ascending, vectors = zip(*map(np.linalg.eigh, hessians), strict=True)
        self.values, self.vectors = np.array(ascending)[:, ::-1], np.array(vectors)[:, :, ::-1]
        self.n = self.pooled.shape[0]

    def shift(self, q: int, middle: bool) -> Array:
        """ρ_i of every agent."""
        return (self.values[:, q] + self.values[:, -1]) / 2 if middle else self.values[:, q]

    def estimate(self, q: int, middle: bool) -> Array:
        """Ĥ of (12) and (13)."""
        rho = self.shift(q, middle)
        values = np.where(np.arange(self.n) < q, self.values, rho[:, None])
        return np.einsum("i,ijk,ik,ilk->jl", self.shares, self.vectors, values, self.vectors, optimize=True)

    def longest(self, q: int, middle: bool) -> float:
        """The largest pᵀHp/pᵀĤp: a step η in that direction passes Armijo's test if η times this is ≤ 2(1 − α)."""
        return float(scipy.linalg.eigh(self.pooled, self.estimate(q, middle), eigvals_only=True)[-1])


def chosen(longest: float, alpha: float, beta: float) -> float:
    """The step of Algorithm 2 in the direction that passes last."""
    eta = 1.0
    while eta * longest > 2 * (1 - alpha) * (1 + 1e-12):
        eta *= beta
    return eta


class _Steps:
    """Of every q: Lemma 4's margin with both choices of ρ, and the smallest steps of Algorithm 2 by β."""

    def __init__(self, local: Local) -> None:
        counts = range(1, local.n - 1)
        longest = {middle: [local.longest(q, middle) for q in counts] for middle in (True, False)}
        bounds = {
            middle: [float((local.shift(q, middle) / local.values[:, q]).min()) for q in counts] for middle in longest
        }
        self.margin = max(a * b for middle in longest for a, b in zip(longest[middle], bounds[middle], strict=True))
        self.largest = min(chosen(one, alpha, beta) for one in longest[False] for alpha in ALPHAS for beta in BETAS)
        self.middle = {
            beta: min(chosen(one, alpha, beta) for one in longest[True] for alpha in ALPHAS) for beta in BETAS
        }


class _Run:
    """Errors and c_t of SHED-LS."""

    def __init__(self, best: Optimum, increment: HowMany, rounds: int) -> None:
        self.errors: list[float] = []
        self.factors: list[float] = []
        for iterate in iterates(SHEDLeastSquares(best.loss, increment=increment), best.clients):
            self.errors.append(best.error(iterate.state.w))
            self.factors.append(iterate.state.contraction)
            if iterate.round == rounds:
                break

    def worst(self) -> float:
        """The largest ‖θ^{t+1} − θ*‖ / (c_t ‖θ^t − θ*‖), less rounding."""
        rounding = ROUNDING * self.errors[0]
        steps = zip(pairwise(self.errors), self.factors[1:], strict=True)
        return max((b - rounding) / (c * a) for (a, b), c in steps if b > rounding)

    def falls(self) -> bool:
        return all(b <= a * (1 + 1e-12) for a, b in pairwise(self.factors[1:]))

    def left(self) -> float:
        return self.errors[-1] / self.errors[0]


def _apart(best: Optimum) -> float:
    """How far the iterates of Algorithms 1 and 4 are apart after some iterations, of the first error."""
    algorithms: tuple[Algorithm, ...] = (SHEDLeastSquares(best.loss), as_printed(best.loss))
    ends = [next(one.state.w for one in iterates(each, best.clients) if one.round == COMPARED) for each in algorithms]
    return norm(ends[0] - ends[1]) / norm(best.w)


def _uneven(clients: Sequence[Client]) -> dict[str, int]:
    return {one.name: 1 + j % 4 for j, one in enumerate(clients)}


@experiment(
    "shed-lemma4",
    paper="SHED",
    place="Theorem 3, Lemma 4, Corollary 5, Lemma 7",
    title="Least squares with many agents: rates, and the steps that Armijo's test lets pass",
    takes="1 min",
)
def lemma4(seeds: Seeds, quick: bool) -> Result:
    """Each step against c_t, each q against Lemma 4, and ā_T for every T."""
    names = [AT_RANDOM, ONE] if quick else list(PROBLEMS)
    steps: dict[str, list[_Steps]] = {name: [] for name in names}
    runs: dict[tuple[str, str], list[_Run]] = {(name, kind): [] for name in names for kind in ("one", "uneven")}
    bounds: dict[str, list[list[float]]] = {name: [] for name in names}
    apart: list[float] = []
    for seed, name in seeds.over(names):
        posed = PROBLEMS[name](seed)
        best = optimum(posed.clients, posed.loss)
        n = best.w.size
        steps[name].append(_Steps(Local(posed)))
        for kind, increment in (("one", 1), ("uneven", _uneven(posed.clients))):
            runs[name, kind].append(_Run(best, increment, n))
        apart.append(_apart(best))
        bounds[name].append([periodic_bound(best.clients, best.loss, best.w, T) for T in range(1, n + 1)])

    claims = Claims(quick)
    _on_rates(runs, claims)
    _on_steps(steps, claims)
    _on_periods(bounds, claims)
    said = f"after {COMPARED} iterations they are up to {max(apart):.2g} of the first error apart"
    claims.add("Algorithm 1 is Algorithm 4 with one renewal", max(apart) <= 1e-9, said)
    columns = (Column("problem"), Column("worst step of Lemma 4"), *(Column(f"η, β = {beta:g}") for beta in BETAS))
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            Measured(tuple(one.margin for one in found)),
            *(Measured(tuple(one.middle[beta] for one in found)) for beta in BETAS),
        )
        for name, found in steps.items()
    ]
    return Result(
        columns=columns,
        rows=rows,
        claims=claims.found,
        notes=(
            "“Worst step”: the step of (19) times the largest pᵀHp/pᵀĤp over all p and q; Armijo's test passes for "
            "every α < 1/2 where it is at most 1. η: the smallest step that Algorithm 2 chooses with ρ*, over all "
            f"directions, all q and α in {ALPHAS}.",
            "Songs with the 54 distinct columns, μ = 1e-5. Uneven: agents send 1, 2, 3, 4, 1, … eigenvectors a round. "
            f"Errors are compared up to {ROUNDING:g} of the first one.",
        ),
        draw=partial(_draw, bounds),
    )


def _on_rates(runs: dict[tuple[str, str], list[_Run]], claims: Claims) -> None:
    for kind, what in (("one", "one eigenvector each"), ("uneven", "1 to 4 eigenvectors")):
        found = [run for (_, each), several in runs.items() if each == kind for run in several]
        worst, left = max(one.worst() for one in found), max(one.left() for one in found)
        claims.add(f"Theorem 3 at every t, {what}", worst <= 1 + 1e-9, f"at most {number(worst, 4)} of c_t")
        claims.add(f"Theorem 3: c_t never rises, {what}", all(one.falls() for one in found), f"in {len(found)} runs")
        said = f"{left:.1g} of the first error is left after n rounds"
        claims.add(f"Theorem 3: the step after n − 1 increments is exact, {what}", left <= EXACT, said)
        last = max(one.factors[-1] for one in found)
        claims.add(f"Theorem 3: then c_t = 0, {what}", last <= ROUNDING, f"at most {last:.1g}")


def _on_steps(steps: dict[str, list[_Steps]], claims: Claims) -> None:
    found = [one for several in steps.values() for one in several]
    margin, largest = max(one.margin for one in found), min(one.largest for one in found)
    claims.add(
        "Lemma 4: the step of (19) passes Armijo's test", margin <= 1 + 1e-9, f"at most {margin:.6f} of the limit"
    )
    claims.add("Corollary 5: with ρ = λ_{q+1} backtracking chooses η = 1", largest == 1, f"at least {largest:g}")
    half = min(one.middle[0.5] for one in found)
    claims.add("Corollary 5: with ρ* and β = 1/2 it chooses η ≥ 1/2", half >= 0.5, f"at least {half:g}")
    others = {beta: min(one.middle[beta] for one in found) for beta in BETAS}
    beta, least = min(others.items(), key=lambda item: item[1])
    said = f"at least {number(least, 3)}, with β = {beta:g} and α up to {ALPHAS[-1]}"
    claims.add("Corollary 5: with ρ* and any β it chooses η ≥ 1/2", least >= 0.5, said)


def _on_periods(bounds: dict[str, list[list[float]]], claims: Claims) -> None:
    found = [one for several in bounds.values() for one in several]
    falling = all(b <= a * (1 + 1e-12) for one in found for a, b in pairwise(one))
    claims.add("Lemma 7: ā_{T+1} ≤ ā_T", falling, f"for every T, in {len(found)} problems")
    last = max(one[-1] for one in found)
    claims.add("Lemma 7: ā_n = 0", last <= 1e-9, f"at most {last:.1g}")


def _draw(bounds: dict[str, list[list[float]]], figure: Figure) -> None:
    axis = figure.subplots()
    periods = {name: [list(range(1, len(one) + 1)) for one in several] for name, several in bounds.items()}
    draw_curves(axis, {name: Curve(periods[name], one) for name, one in bounds.items()}, over="period T", log=False)
    axis.set_ylabel("ā_T")
    legend_below(figure, [axis])
