"""SHED, section 5: Theorems 8, 9 and 10 with their constants, on logistic regression."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from fedsolve.algorithms.shed import State
from fedsolve.curvature.estimate import Estimate
from fedsolve.curvature.spectra import Spectrum
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import norm
from fedsolve.report.figures import Figure
from fedsolve.report.tables import number
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.reproduce.shed.best import skewed
from fedsolve.reproduce.shed.comparison import GAP
from fedsolve.reproduce.shed.gaps import Optimum, optimum
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.typing import Array

THIRD = 1 / (6 * np.sqrt(3))  # the largest third derivative of log(1 + e^z)
FEATURES = 100
MUS = (1e-5, 1e-2, 0.1, 1.0)
MOST = 400  # iterations
ROUNDING = 1e-9  # of the first error: below, differences are rounding
FAR = 10.0  # times ‖θ*‖, where Theorem 8's runs start


@dataclass(frozen=True)
class Constants:
    """Of a federation's logistic loss, bounds that hold everywhere.

    lipschitz  L of the pooled Hessian: max ‖x‖ · λ_max(Σ x xᵀ/N) / (6√3)
    smooth     K: λ_max(Σ x xᵀ/N) / 4 + μ
    convex     κ̄: μ
    """

    lipschitz: float
    smooth: float
    convex: float

    @classmethod
    def of(cls, clients: Sequence[Client], mu: float) -> Constants:
        X = np.concatenate([one.X for one in clients])
        top, longest = float(np.linalg.eigvalsh(X.T @ X / len(X))[-1]), float(np.linalg.norm(X, axis=1).max())
        return cls(THIRD * longest * top, top / 4 + mu, mu)


def pooled_hessian(best: Optimum, w: Array) -> Array:
    total = sum(one.weight for one in best.clients)
    return np.asarray(sum(one.weight / total * best.loss.hessian(one, w).full() for one in best.clients))


@dataclass(frozen=True)
class Taken:
    """An iteration of SHED: errors before, after and at the last renewal, and what its bounds need."""

    before: float
    after: float
    renewal: float  # ‖θ^{k_t} − θ*‖
    since: float  # ‖θ^t − θ^{k_t}‖
    eta: float
    rho: float
    least: float  # λ̄_n
    top: float  # ‖H(θ^t)‖
    largest: float  # λ_max(Ĥ)
    above: float  # λ_min(Ĥ − H(θ^{k_t}))
    fell: float  # f(θ^t) − f(θ^{t+1})
    gradient: float
    gap: float

    def bound(self, known: Constants) -> float:
        """The right-hand side of (31)."""
        L = known.lipschitz
        first = 1 - self.least / self.rho + L / self.rho * self.since + (1 - self.eta) * self.top / self.rho
        return first * self.before + self.eta * L / (2 * self.rho) * self.before**2

    def contraction(self, known: Constants) -> float:
        """c_t of (43), its first line."""
        return 1 - self.least / self.rho + known.lipschitz / self.rho * (self.since + self.before / 2)

    def near(self, known: Constants, alpha: float) -> bool:
        """Whether (33) and (34) hold."""
        M, K, L, kappa = max(self.before, self.renewal), known.smooth, known.lipschitz, known.convex
        step = 3 * kappa * (M + self.before) + K * self.before <= 3 * kappa**2 / L * (1 - 2 * alpha)
        return step and 1.5 * L * self.before + L * M <= kappa


class Run:
    """Fib-SHED as printed, followed from one iteration to the next."""

    def __init__(self, best: Optimum, warm_start: Array | None = None) -> None:
        self.best, self.taken = best, list[Taken]()
        self.known = Constants.of(best.clients, best.loss.l2)
        algorithm = as_printed(best.loss, solve="factor")
        self.alpha, self.beta = algorithm.search.alpha, algorithm.search.beta
        renewed, at, H_k = -1, np.zeros(0), np.zeros((0, 0))
        for iterate in iterates(algorithm, best.clients, warm_start=warm_start):
            if iterate.round == 0:
                continue
            state = iterate.state
            spectra = state.point.curvature.spectra.clients
            one = next(iter(spectra.values()))
            if one.renewal != renewed:
                renewed, at = one.renewal, state.point.w
                H_k = pooled_hessian(best, at)
            self.taken.append(self._taken(state, at, H_k, spectra))
            if self.taken[-1].gap <= 1e-15 or iterate.round == MOST:
                break

    def _taken(self, state: State, at: Array, H_k: Array, spectra: Mapping[str, Spectrum]) -> Taken:
        best, point = self.best, state.point
        w, after = point.w, state.w
        weights = [one.weight for one in best.clients]
        H = Estimate([spectra[one.name] for one in best.clients], weights, "largest")
        dense = H.dense()
        p = np.linalg.solve(dense, point.gradient)
        gap = best.gap(after)
        return Taken(
            before=best.error(w),
            after=best.error(after),
            renewal=best.error(at),
            since=norm(w - at),
            eta=float((w - after) @ p / (p @ p)),
            rho=H.rho,
            least=H.least,
            top=float(np.linalg.eigvalsh(pooled_hessian(best, w))[-1]),
            largest=float(np.linalg.eigvalsh(dense)[-1]),
            above=float(np.linalg.eigvalsh(dense - H_k)[0]),
            fell=best.gap(w) - gap,
            gradient=norm(point.gradient),
            gap=gap,
        )

    @cached_property
    def seen(self) -> list[Taken]:
        """The iterations whose errors are more than rounding."""
        return [one for one in self.taken if one.after > ROUNDING * self.taken[0].before]

    @property
    def until(self) -> list[Taken]:
        """Those until f − f* ≤ 1e-10."""
        last = next((t for t, one in enumerate(self.taken) if one.gap <= GAP), len(self.taken) - 1)
        return self.taken[: last + 1]

    def full_steps_from(self) -> int:
        """The iteration after which every step is a full one, until 1e-10."""
        return max((t + 1 for t, one in enumerate(self.until) if abs(one.eta - 1) > 1e-6), default=0)

    def near_from(self) -> float:
        """The first iteration in which (33) and (34) hold; infinite if none."""
        return next((float(t + 1) for t, one in enumerate(self.taken) if one.near(self.known, self.alpha)), np.inf)

    def radius(self) -> float:
        """‖θ − θ*‖ below which (33) and (34) hold, where it is the same at the renewal."""
        K, L, kappa = self.known.smooth, self.known.lipschitz, self.known.convex
        return min(3 * kappa**2 * (1 - 2 * self.alpha) / (L * (6 * kappa + K)), kappa / (2.5 * L))


@experiment(
    "shed-theorem9",
    paper="SHED",
    place="Theorems 8, 9 and 10-1, Lemmas 11 and 12",
    title="SHED's bounds with their constants, on logistic regression",
    takes="4 min",
)
def theorem9(seeds: Seeds, quick: bool) -> Result:
    """Every step against (31), the steps that (33) and (34) promise, and runs from afar."""
    runs: dict[float, list[Run]] = {mu: [] for mu in MUS}
    afar: list[Run] = []
    for seed, mu in seeds.over(MUS):
        posed = skewed(FEATURES, mu, quick)(seed)
        best = optimum(posed.clients, posed.loss)
        runs[mu].append(Run(best))
        if mu == MUS[0]:
            away = np.random.default_rng(seed).standard_normal(best.w.size)
            afar.append(Run(best, best.w + FAR * norm(best.w) / norm(away) * away))
    claims = Claims(quick)
    everything = [*(one for found in runs.values() for one in found), *afar]
    _on_theorem_8(afar, claims)
    _on_theorem_9(everything, claims)
    _on_hessians(everything, claims)
    _on_theorem_10(runs, claims)
    return Result(
        columns=(
            Column("μ", "{:g}".format),
            Column("iterations to 1e-10", "{:.0f}".format),
            Column("full steps from", "{:.0f}".format),
            Column("(31) at most"),
            Column("(31) < 1 in"),
            Column("radius of (33), (34)", "{:.1e}".format),
            Column("reached in iteration", "{:.0f}".format, infinite="not reached"),
        ),
        rows=[_row(mu, found) for mu, found in runs.items()],
        claims=claims.found,
        notes=(
            "Fashion-MNIST, n = 100, one other class per agent. L = max ‖x‖ λ_max(Σ x xᵀ/N)/(6√3), K = "
            "λ_max(Σ x xᵀ/N)/4 + μ, κ̄ = μ. “(31) at most”: the largest ratio of the error after a step to the bound. "
            "“(31) < 1 in”: the share of iterations until 1e-10 in which the bound promises a decrease. The radius is "
            "that of ‖θ − θ*‖.",
        ),
        draw=partial(_draw, runs),
    )


def _row(mu: float, found: Sequence[Run]) -> tuple[float | Measured, ...]:
    def of(value: Callable[[Run], float]) -> Measured:
        return Measured(tuple(value(one) for one in found))

    return (
        mu,
        of(lambda one: float(len(one.until))),
        of(lambda one: float(one.full_steps_from() + 1)),
        of(lambda one: max(each.after / each.bound(one.known) for each in one.seen)),
        of(lambda one: float(np.mean([each.bound(one.known) < each.before for each in one.until]))),
        of(lambda one: one.radius()),
        of(lambda one: one.near_from()),
    )


def _on_theorem_8(afar: Sequence[Run], claims: Claims) -> None:
    last = max(one.until[-1].gap for one in afar)
    most = max(len(one.until) for one in afar)
    said = f"f − f* ≤ {last:.1g} after at most {most} iterations, {len(afar)} runs"
    claims.add(f"Theorem 8: it converges from {FAR:g} ‖θ*‖ away", last <= GAP, said)


def _on_theorem_9(runs: Sequence[Run], claims: Claims) -> None:
    worst = max(each.after / each.bound(one.known) for one in runs for each in one.seen)
    steps = sum(len(one.seen) for one in runs)
    claims.add("Theorem 9 at every t", worst <= 1, f"at most {number(worst, 3)} of (31), {steps:,} steps")
    late = all(abs(each.eta - 1) < 1e-6 for one in runs for each in one.until[len(one.until) // 2 :])
    claims.add("the full step is taken near the optimum", late, "in the second half of every run")
    full = sum(each.rho <= each.least * (1 + 1e-9) for one in runs if one.best.loss.l2 == MUS[0] for each in one.until)
    said = f"in {full} iterations until 1e-10 at μ = 1e-5 all n − 1 eigenpairs are known"
    claims.add("Fib-SHED gets to the iterations that make it superlinear", full > 0, said)


def _on_hessians(runs: Sequence[Run], claims: Claims) -> None:
    above = min(each.above for one in runs for each in one.taken)
    claims.add("Ĥ ≥ H of the last renewal", above >= -1e-12, f"λ_min of the difference ≥ {above:.1g}")
    over = max(each.largest / one.known.smooth for one in runs for each in one.taken)
    claims.add("Ĥ ≤ K I on these problems", over <= 1 + 1e-9, f"λ_max(Ĥ) at most {number(over, 3)} K")
    built, K = _counter_example()
    claims.add("Ĥ ≤ K I in general", built <= K * (1 + 1e-9), f"two agents with λ_max(Ĥ) = {built:g}, K = {K:g}")
    margins = [
        each.fell / (one.alpha * one.beta * each.rho / one.known.smooth**2 * each.gradient**2)
        for one in runs
        for each in one.until
    ]
    claims.add("Lemma 11: f falls by at least γ_t", min(margins) >= 1, f"at least {number(min(margins), 3)} γ_t")


def _counter_example() -> tuple[float, float]:
    """λ_max(Ĥ) after one increment, and λ_max of the mean Hessian: diag(1, 1, 0, 0) and diag(0, 0, 1, 1), + 0.01 I."""
    hessians = [np.diag([1.0, 1, 0, 0]) + 0.01 * np.eye(4), np.diag([0.0, 0, 1, 1]) + 0.01 * np.eye(4)]
    estimate = np.zeros((4, 4))
    for H in hessians:
        values, vectors = np.linalg.eigh(H)
        estimate += ((values[-1] - values[-2]) * np.outer(vectors[:, -1], vectors[:, -1]) + values[-2] * np.eye(4)) / 2
    return float(np.linalg.eigvalsh(estimate)[-1]), float(np.linalg.eigvalsh(sum(hessians) / 2)[-1])


def _on_theorem_10(runs: Mapping[float, Sequence[Run]], claims: Claims) -> None:
    found = [(one, each) for several in runs.values() for one in several for each in one.seen]
    near = [(one, each) for one, each in found if each.near(one.known, one.alpha)]
    full = all(abs(each.eta - 1) < 1e-6 for _, each in near)
    claims.add("Lemma 12: where (33) holds the full step is taken", bool(near) and full, f"in {len(near)} steps")
    held = sorted({one.best.loss.l2 for one, _ in near})
    said = f"in {len(near)} steps, at μ = {' and '.join(f'{mu:g}' for mu in held)} only"
    worst = max((each.after / (each.contraction(one.known) * each.before) for one, each in near), default=np.inf)
    told = f"at most {number(worst, 3)} of c_t ‖θ^t − θ*‖, {said}"
    claims.add("Theorem 10-1: there ‖θ^{t+1} − θ*‖ ≤ c_t ‖θ^t − θ*‖ with c_t of (43)", worst <= 1, told)
    factors = [each.contraction(one.known) for one, each in near]
    largest = max(factors, default=np.inf)
    claims.add("Theorem 10-1: there the largest c_t of a run is below 1", largest < 1, f"{number(largest, 3)}, {said}")
    stays = True
    for one in (one for several in runs.values() for one in several):
        inside = [each.near(one.known, one.alpha) for each in one.seen]
        stays &= all(b for a, b in itertools.pairwise(inside) if a)
    claims.add("Theorem 10-1: once they hold, (33) and (34) go on holding", bool(near) and stays, "in every run")
    paper = runs[MUS[0]]
    reached = all(any(each.near(one.known, one.alpha) for each in one.until) for one in paper)
    said = f"they ask for ‖θ − θ*‖ ≤ {max(one.radius() for one in paper):.1g}; at 1e-10 it is at least "
    said += f"{min(one.until[-1].after for one in paper):.1g}"
    claims.add("(33) and (34) hold before f − f* ≤ 1e-10 at μ = 1e-5", reached, said)


def _draw(runs: Mapping[float, Sequence[Run]], figure: Figure) -> None:
    axis = figure.subplots()
    curves = {
        f"μ = {mu:g}": over_rounds([[each.after / each.bound(one.known) for each in one.seen] for one in found])
        for mu, found in runs.items()
    }
    draw_curves(axis, curves, over="iterations")
    axis.set_ylabel("error after the step / bound (31)")
    axis.axhline(1, color="black", linewidth=0.8)
    legend_below(figure, [axis])
