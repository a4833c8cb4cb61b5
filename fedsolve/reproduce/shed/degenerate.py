"""SHED, Theorems 8 and 10-2: examples in which a “because”, a “thus” or a “hence” of their proofs does not follow.

Costs are separable, Σ_j a_j θ_j²/2 + b_j φ(θ_j) with φ″ = θ²/(1 + θ²): smooth, strongly convex, and with a Lipschitz
Hessian, diag(a + b θ²/(1 + θ²)), whose eigenvalues coincide at θ* = 0 where the a_j do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.small_logistic import ALPHA, BETA
from fedsolve.typing import Array

VISIBLE = 1e-7  # |θ_j| below which a step is rounding
ITERATIONS, LAST = 60, 20  # and those that the exponent is taken from
GROWS = 10.0  # times its first value: what is called unbounded
STEEP, RIDGE = 1e-6, 0.01  # of the cost with a small Lipschitz constant

FACTOR = "after (44): 1/(1 − λ̄_n/ρ̄) is bounded because ρ̄ > λ̄_n at every k"
APART = "… with λ_{q+1} > λ_n at θ* too it is"
EXPONENT = "(35), where ρ̄ > λ̄_n at every k and λ_{q+1} = λ_n at θ*"
SMOOTH = "after (45): Lipschitz continuity of f_i bounds the change of eigenvalues"
SEQUENCE = "proof of Theorem 8: norms that do not tend to 0 stay above some ε"
CHECKS = (
    *(Check("proof of Theorem 10", name, "times", GROWS) for name in (FACTOR, APART)),
    Check("Theorem 10-2", EXPONENT),
    Check("proof of Theorem 10", SMOOTH),
    Check("proof of Theorem 8", SEQUENCE),
)


@dataclass(frozen=True, eq=False)
class Cost:
    """One agent's cost; the eigenvalues of its Hessian are those of its coordinates."""

    a: Array
    b: Array

    def value(self, w: Array) -> float:
        phi = w**2 / 2 - w * np.arctan(w) + np.log1p(w**2) / 2
        return float(np.sum(self.a * w**2 / 2 + self.b * phi))

    def gradient(self, w: Array) -> Array:
        return np.asarray(self.a * w + self.b * (w - np.arctan(w)))

    def curvatures(self, w: Array) -> Array:
        return np.asarray(self.a + self.b * w**2 / (1 + w**2))

    def gap(self, w: Array, q: int) -> float:
        """λ_{q+1} − λ_n, without the cancellation that differences of `curvatures` have near θ*."""
        order = np.argsort(-self.curvatures(w), kind="stable")
        j, last = order[q], order[-1]
        grown = self.b * w**2 / (1 + w**2)
        return float(abs(self.a[j] - self.a[last] + grown[j] - grown[last]))


def followed(
    cost: Cost, w: Array, known: Callable[[int], int], renews: Callable[[int], bool]
) -> list[tuple[float, float]]:
    """By iteration ‖θ^t − θ*‖ and 1/(1 − λ_n/ρ) of Algorithm 4 with q = known(t), as long as steps are visible."""
    found, at = list[tuple[float, float]](), w
    for t in range(1, ITERATIONS + 1):
        if renews(t):
            at = w
        q, curvatures = known(t), cost.curvatures(at)
        order = np.argsort(-curvatures, kind="stable")
        rho = curvatures[order[q]]
        estimate = np.where(np.isin(np.arange(len(w)), order[:q]), curvatures, rho)
        gap = cost.gap(at, q)
        found.append((norm(w), float(rho) / gap if gap > 0 else float("inf")))
        g, eta = cost.gradient(w), 1.0
        p = g / estimate
        while norm(g) > VISIBLE and cost.value(w - eta * p) > cost.value(w) - ALPHA * eta * float(p @ g):
            eta *= BETA
        w = w - eta * p
        if np.abs(w).max() < VISIBLE:
            break
    return found


def factor(rng: np.random.Generator, apart: bool) -> float:
    """How far 1/(1 − λ_n/ρ) grows from its first value: n = 3, q = 1, a renewal in every iteration."""
    cost = Cost(np.array([3.0, 1.5 if apart else 1.0, 1.0]), np.array([0.0, 1.0, 0.3]))
    sizes = [size for _, size in followed(cost, _start(rng, 3), lambda t: 1, lambda t: True)]
    return max(sizes) / sizes[0] if np.isfinite(sizes).all() else 0.0  # X_t would not be empty


def exponent(rng: np.random.Generator) -> float:
    """a* over the right side of (35): n = 4, renewals at 1, 3, 4, 5, …, so that q is 1, 2, 1, 1, …

    At θ* λ_3 = λ_4, so that ρ° = λ_n° at k = 2: that factor is 0, and with it the product for every t ≥ 2.
    """
    cost = Cost(np.array([5.0, 3.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0, 0.3]))
    path = followed(cost, _start(rng, 4), lambda t: 2 if t == 2 else 1, lambda t: t != 2)
    if not np.isfinite([size for _, size in path]).all():
        return 0.0
    errors = [error for error, _ in path][-LAST:]
    measured = (errors[-1] / errors[0]) ** (1 / (len(errors) - 1))
    at_optimum = -np.sort(-cost.curvatures(np.zeros(4)))
    factors = [1 - at_optimum[-1] / at_optimum[2 if t == 2 else 1] for t in range(1, len(path) + 1)]
    bound = float(np.prod(factors)) ** (1 / len(path))
    return measured / bound if bound > 0 else float("inf")


def _start(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(1 + 0.1 * rng.standard_normal(n))


def steep() -> float:
    """|λ(θ) − λ(θ*)| over ℓ |θ − θ*| for f′ = κθ + δ atan(θ/δ) on [−1, 1], whose Lipschitz constant is ℓ."""
    slope = RIDGE + STEEP * np.arctan(1 / STEEP)
    change = 1 - 1 / (1 + 1.0**2)  # f″ = κ + 1/(1 + (θ/δ)²) from θ* = 0 to θ = δ
    return float(change / (slope * STEEP))


def sequence(epsilon: float = 1e-6) -> float:
    """ε over the least of 1, ½, 1, ¼, 1, ⅛, …, which does not tend to 0."""
    return epsilon / min(1.0 if t % 2 else 0.5 ** (t // 2) for t in range(1, 101))


def measured(seed: int) -> dict[str, float]:
    rng, worst = np.random.default_rng((seed, 71)), Worst()
    worst.add(FACTOR, factor(rng, apart=False))
    worst.add(APART, factor(rng, apart=True))
    worst.add(EXPONENT, exponent(rng))
    worst.add(SMOOTH, steep())
    worst.add(SEQUENCE, sequence())
    return worst.found


@experiment(
    "shed-degenerate",
    paper="SHED",
    place="Theorem 8 and Theorem 10-2",
    title="Examples against single steps in the proofs of SHED's Theorems 8 and 10",
    takes="1 s",
)
def degenerate(seeds: Seeds, quick: bool) -> Result:
    """Eigenvalues that coincide at the optimum and nowhere else; a steep Hessian; a sequence."""
    notes = (
        "One agent, from 1 + 0.1 z. First two lines: Hessian diag(3, 1 + s(θ₂), 1 + 0.3 s(θ₃)) with s = θ²/(1 + θ²), "
        "and with 1.5 + s(θ₂); q = 1 and a renewal in every iteration, until all |θ_j| < 1e-7; what is given is the "
        f"largest 1/(1 − λ_n/ρ) over the first one, unbounded above {GROWS:g}. Third: diag(5, 3, 1 + s(θ₃), "
        f"1 + 0.3 s(θ₄)), renewals at 1, 3, 4, 5, …; the exponent from the last {LAST} iterations, over the bound. "
        "Fourth: f′ = 0.01 θ + δ atan(θ/δ) on [−1, 1], δ = 1e-6. Fifth: 1, ½, 1, ¼, 1, ⅛, …, ε = 1e-6.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
