"""SHED, section 5 and Appendix A: the steps in the proofs of Theorem 9 and Lemmas 11 and 12, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.proofs_least_squares import norm_2, off
from fedsolve.reproduce.shed.small_logistic import ALPHA, BETA, Agents, Step, run
from fedsolve.typing import Array

N, AGENTS, SAMPLES = 8, 4, 6  # an agent has fewer samples than unknowns: only the penalty makes it strongly convex
MUS = (1e-3, 0.1, 1.0)
ITERATIONS, PERIOD = 30, 6
INCREMENTS = (1, 1, 2, 3)  # eigenpairs an iteration, of the agents
EXACT, SMALL = 1e-9, 1e-6
VISIBLE = 1e-3  # σ̄ for which differences of f are more than rounding
POINTS = 50
ETAS = np.linspace(0.05, 1.0, 20)

CONVEX, SMOOTH = "Assumption 1: κ_i I ≤ H_i", "Assumption 1: H_i ≤ K_i I"
LIPSCHITZ, FROM_POOLED = "Assumption 1: ‖H_i(θ) − H_i(θ′)‖ ≤ L_i ‖θ − θ′‖", "K-smoothness of f gives K_i = MK"
BY_GRADIENT = "κ̄ ‖θ − θ*‖ ≤ ‖g‖ ≤ K ‖θ − θ*‖"
SCALED, FLOOR = "(28), (30): Σ ṽ ṽᵀ + ρI", "Ĥ ≥ ρ̄ I"
SCALED_ONCE = "the same with each ṽ as it was when it was sent"
MOVES = "section 4: the Hessian depends on θ"
NEEDED, ALSO = (
    "(29): with ρ = 0.99 λ_{q+1}, λ_min(Ĥ_i − H_i) = −0.01 λ_{q+1}",
    "Lemma 12's sketch: ρ = λ_q also gives Ĥ ≥ H",
)
SLOWER = "the Hessian changes at most half as much in each period as in the one before, while errors are seen"
SINCE = "‖θ^k − θ^t‖ is at most half as large in each period as in the one before, while errors are seen"
FIRST_9, SECOND_9, THIRD_9 = "Theorem 9: the first inequality", "Theorem 9: ‖I − ηĤ^-1 H‖", "Theorem 9: ‖Ĥ − H(θ^t)‖"
GAP_9 = "Theorem 9: ‖Ĥ_i − H_i(θ^k)‖ = ρ_i − λ_n,i"
DECREMENT, LEMMA_11 = "Lemma 11: gᵀp = gᵀĤ^-1 g = pᵀĤp", "Lemma 11 on these problems: γ_t of (40)"
EXAMPLE_11, OWN_11 = "Lemma 11 in general: γ_t of (40)", "Lemma 11 with the mean of the K_i: γ_t"
POSITIVE, GRADIENT = "Theorem 8: κ̄ ≤ ρ̄_t", "Theorem 8: ‖g_t‖ → 0, to 1e-6 of the first"
DERIVATIVES, ABOVE = "(47), (48): the derivatives of f̃", "Lemma 12: Ĥ ≥ κ̄ I, κ̄ ‖p‖² ≤ σ̄²"
CLOSE, PRINTED_49 = "before (49): ‖∇²f(θ − ηp) − ∇²f(θ)‖ ≤ ηL‖p‖", "(49): its first equality as printed, without | |"
FIFTY_ITSELF, SIGMA_55 = "(50): f̃″(η) ≤ σ² + ηLσ̄³/κ̄^1.5", "(55) to (56) as printed, with σ: √κ̄ σ ≤ ‖g‖"
MODEL, LESS = "the quadratic model becomes more accurate", "a renewal changes the Hessian less than the one before"
RAISED = "section 4: a full step may raise f"
FORTY_NINE, FIFTY = "(49): |f̃″(η) − f̃″(0)| ≤ ηL‖p‖³ ≤ ηLσ̄³/κ̄^1.5", "after (50): f̃′(η)"
FIFTY_ONE, FIFTY_TWO, FIFTY_THREE = "(51): f̃(η)", "(52): σ² ≤ σ̄² + Lσ̄²/κ̄ ‖θ^t − θ^k‖", "(53): f(θ − p)"
FIFTY_FOUR, FIFTY_FOUR_OWN = "(54) as printed is (55)", "(54) with σ̄_t is (55)"
DECREMENT_BOUND, IMPLIED = "(55) to (56): √κ̄ σ̄ ≤ ‖g‖", "(41) gives (56)"
ARMIJO, SUM_12 = "(56) gives Armijo's test", "Lemma 12 with κ̄ = Σ κ_i, as printed: Armijo's test"

CHECKS = (
    *(Check("Assumption 1", name) for name in (CONVEX, SMOOTH, LIPSCHITZ, FROM_POOLED)),
    Check("section 5.1", BY_GRADIENT),
    Check("(28), (30)", SCALED, "off", EXACT),
    Check("section 6.6", SCALED_ONCE, "off", EXACT),
    Check("section 4", MOVES, "times", 0.999),
    Check("section 5", FLOOR),
    Check("section 5", NEEDED, "off", EXACT),
    Check("Lemma 12", ALSO),
    Check("section 5", SLOWER, "times", 0.5),
    Check("section 5.1", SINCE, "times", 0.5),
    Check("section 5", MODEL, "times", 0.1),
    Check("section 5", LESS, "times", 1.0),
    Check("section 4", RAISED, "times", 0.999),
    *(Check("Theorem 9", name) for name in (FIRST_9, SECOND_9, THIRD_9)),
    Check("Theorem 9", GAP_9, "off", EXACT),
    Check("Lemma 11", DECREMENT, "off", EXACT),
    *(Check("Lemma 11", name) for name in (LEMMA_11, EXAMPLE_11, OWN_11, POSITIVE)),
    Check("Theorem 8", GRADIENT, "times", 1e-6),
    Check("Lemma 12", DERIVATIVES, "off", 1e-5),
    *(Check("Lemma 12", name) for name in (ABOVE, FORTY_NINE, FIFTY, FIFTY_ONE, FIFTY_TWO, FIFTY_THREE)),
    *(Check("Lemma 12", name) for name in (CLOSE, FIFTY_ITSELF, SIGMA_55)),
    Check("(49)", PRINTED_49, "off", EXACT),
    Check("(54)", FIFTY_FOUR, "off", EXACT),
    Check("(54)", FIFTY_FOUR_OWN, "off", EXACT),
    *(Check("Lemma 12", name) for name in (DECREMENT_BOUND, IMPLIED, ARMIJO, SUM_12)),
)


class Worst:
    """The largest value of each check."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def add(self, name: str, value: float) -> None:
        self.found[name] = max(float(value), self.found.get(name, 0.0))


def assumptions(of: Agents, rng: np.random.Generator, worst: Worst) -> None:
    """Assumption 1 at random points, near and far from the optimum."""
    for k in range(POINTS):
        w, v = (of.best + 10.0 ** (k % 5 - 3) * rng.standard_normal(of.n) for _ in range(2))
        pairs = zip(of.hessians(w), of.hessians(v), of.K_i, of.L_i, of.weights, strict=True)
        for one, other, K, L, p in pairs:
            values = np.linalg.eigvalsh(one)
            worst.add(CONVEX, of.mu / values[0])
            worst.add(SMOOTH, values[-1] / K)
            worst.add(LIPSCHITZ, norm_2(one - other) / (L * norm(w - v)))
            worst.add(FROM_POOLED, values[-1] * p / of.K)  # p = 1/M with equal agents
        g, e = norm(of.gradient(w)), norm(w - of.best)
        worst.add(BY_GRADIENT, max(of.mu * e / g, g / (of.K * e)))


def theorem_9(of: Agents, step: Step, worst: Worst) -> None:
    """Its proof, and Ĥ of one iteration."""
    H_t, H_k = of.hessian(step.w), of.hessian(step.renewed)
    before, after, since = norm(step.w - of.best), norm(step.after - of.best), norm(step.w - step.renewed)
    inverse, A = norm_2(np.linalg.inv(step.H)), np.eye(of.n) - step.eta * np.linalg.solve(step.H, H_t)
    values, vectors = of.spectra(step.renewed)
    scaled, once = [], []
    for one, V, rho, q, d in zip(values, vectors, step.rho_i, step.counts, INCREMENTS, strict=True):
        tilde = V[:, :q] * np.sqrt(one[:q] - rho)  # ṽ of (28)
        scaled.append(tilde @ tilde.T + rho * np.eye(of.n))
        known = np.minimum(d * (np.arange(q) // d + 1), of.n - 1)  # how many were known when each was sent
        tilde = V[:, :q] * np.sqrt(one[:q] - one[known])
        once.append(tilde @ tilde.T + rho * np.eye(of.n))
    worst.add(SCALED, max(off(a, b) for a, b in zip(scaled, step.parts, strict=True)))
    worst.add(SCALED_ONCE, max(off(a, b) for a, b in zip(once, step.parts, strict=True)))
    worst.add(FLOOR, step.rho / float(np.linalg.eigvalsh(step.H)[0]))
    for H_i, V, one, q in zip(of.hessians(step.renewed), vectors, values, step.counts, strict=True):
        below = (V * np.where(np.arange(of.n) < q, one, 0.99 * one[q])) @ V.T
        worst.add(NEEDED, abs(float(np.linalg.eigvalsh(below - H_i)[0]) + 0.01 * one[q]) / one[0])
    larger = [np.where(np.arange(of.n) < q, one, one[q - 1]) for one, q in zip(values, step.counts, strict=True)]
    tall = of.mean([(V * one) @ V.T for V, one in zip(vectors, larger, strict=True)])
    worst.add(ALSO, float(np.linalg.eigvals(np.linalg.solve(tall, H_k)).real.max()))
    worst.add(
        FIRST_9, after / (before * norm_2(A) + step.eta * of.L * inverse / 2 * before**2) if after > 1e-12 else 0.0
    )
    worst.add(SECOND_9, norm_2(A) / ((norm_2(step.H - H_t) + (1 - step.eta) * norm_2(H_t)) * inverse))
    worst.add(THIRD_9, norm_2(step.H - H_t) / (step.rho - step.least + of.L * since))
    gaps = zip(step.parts, of.hessians(step.renewed), step.rho_i, values, strict=True)
    worst.add(GAP_9, max(abs(norm_2(a - b) - (rho - one[-1])) / one[0] for a, b, rho, one in gaps))


def lemma_11(of: Agents, step: Step, worst: Worst) -> None:
    fell, g = of.value(step.w) - of.value(step.after), norm(step.g)
    inner = float(step.g @ step.p)
    worst.add(
        DECREMENT,
        max(off(float(step.g @ np.linalg.solve(step.H, step.g)), inner), off(float(step.p @ step.H @ step.p), inner)),
    )
    worst.add(POSITIVE, of.mu / step.rho)
    if g > SMALL:
        worst.add(LEMMA_11, ALPHA * BETA * step.rho / of.K**2 * g**2 / fell)
        worst.add(OWN_11, ALPHA * BETA * step.rho / float(of.mean(of.K_i)) ** 2 * g**2 / fell)


def disjoint(agents: int = 10, width: int = 2) -> tuple[float, float]:
    """γ_t of (40) over what a step lowers f by, as printed and with the mean of the K_i.

    Each agent has a cost ½‖θ_block‖² (+ 0.01 ‖θ‖²/2) on its own block of `width` coordinates, and at most one
    eigenpair is known: ρ_i = λ_2 = 1.01, Ĥ = 1.01 I, and H = (1/agents + 0.01) I.
    """
    H, K, rho, own = 1 / agents + 0.01, 1 / agents + 0.01, 1.01, 1.01
    fell = 1 / rho - H / (2 * rho**2)  # the full step passes Armijo's test, ‖g‖ = 1
    return ALPHA * BETA * rho / K**2 / fell, ALPHA * BETA * rho / own**2 / fell


def lemma_12(of: Agents, step: Step, worst: Worst) -> None:
    """(47) to (56) along one direction."""
    H_t, g, p, kappa, L = of.hessian(step.w), step.g, step.p, of.mu, of.L
    bar, sigma, size = float(np.sqrt(p @ g)), float(p @ H_t @ p), norm(p)  # σ̄, σ², ‖p‖
    f, third = of.value(step.w), L * bar**3 / kappa**1.5
    since = norm(step.w - step.renewed)
    worst.add(ABOVE, max(kappa / float(np.linalg.eigvalsh(step.H)[0]), kappa * size**2 / bar**2))
    for eta in ETAS:
        at = step.w - eta * p
        slope, curvature = -float(of.gradient(at) @ p), float(p @ of.hessian(at) @ p)
        worst.add(FORTY_NINE, max(abs(curvature - sigma) / (eta * L * size**3), size**3 * kappa**1.5 / bar**3))
        change = curvature - sigma
        worst.add(PRINTED_49, abs(abs(change) - change) / abs(change))
        worst.add(CLOSE, norm_2(of.hessian(at) - H_t) / (eta * L * size))
        worst.add(FIFTY_ITSELF, curvature / (sigma + eta * third))
        right = -(bar**2) + eta * sigma + eta**2 / 2 * third
        worst.add(FIFTY, 1 + (slope - right) / bar**2)  # ≤ 1 where slope ≤ right
        right = f - eta * bar**2 + eta**2 / 2 * sigma + eta**3 / 6 * third
        if bar > VISIBLE:
            worst.add(FIFTY_ONE, 1 + (of.value(at) - right) / bar**2)
    h = 1e-4
    around = [of.value(step.w - t * p) for t in (-h, 0.0, h)]
    first, second = (around[2] - around[0]) / (2 * h), (around[2] - 2 * around[1] + around[0]) / h**2
    if bar > 0.05:  # differences of smaller ones are rounding
        worst.add(DERIVATIVES, max(abs(first + bar**2) / bar**2, abs(second - sigma) / sigma * 1e-2))
    worst.add(FIFTY_TWO, sigma / (bar**2 + L * bar**2 / kappa * since))
    bracket = 0.5 - L / (2 * kappa) * since - L / 6 * bar / kappa**1.5
    if bar > VISIBLE:
        worst.add(FIFTY_THREE, 1 + (of.value(step.w - p) - (f - bar**2 * bracket)) / bar**2)
    worst.add(DECREMENT_BOUND, np.sqrt(kappa) * bar / norm(g))
    worst.add(SIGMA_55, np.sqrt(kappa * sigma) / norm(g))
    e, e_k = norm(step.w - of.best), norm(step.renewed - of.best)
    limit = 3 * kappa**2 / L * (1 - 2 * ALPHA)
    lemma = 3 * kappa * (max(e, e_k) + e) + of.K * e
    last = 3 * kappa * (e + e_k) + norm(g)
    worst.add(IMPLIED, last / lemma)
    if last <= limit:
        worst.add(ARMIJO, ALPHA * bar**2 / (f - of.value(step.w - p)) if bar > SMALL else 0.0)


def conditions(rng: np.random.Generator, printed: bool) -> float:
    """The largest relative distance of (54), times 6κ̄²/L, from (55), both as what is left to the limit."""
    worst = 0.0
    for _ in range(2000):
        kappa, L, since, bar = np.exp(rng.uniform(np.log(0.05), np.log(5.0), 4))
        first = 0.5 - L / (2 * kappa) * since - L / (6 * kappa**1.5) * (1.0 if printed else bar) - ALPHA
        limit = 3 * kappa**2 / L * (1 - 2 * ALPHA)
        second = limit - 3 * kappa * since - np.sqrt(kappa) * bar
        worst = max(worst, abs(6 * kappa**2 / L * first - second) / limit)
    return worst


def summed(agents: int = 1000, kappa: float = 0.01) -> float:
    """Lemma 12 with κ̄ = Σ κ_i: f_i = √(1 + θ²) + κθ²/2 at every agent, θ^t = θ^{k_t} = 2.

    L ≤ 0.86, K = 1 + κ; (41) holds because Σ κ_i = 10. Returns what Armijo's test asks for over what the full step
    lowers f by, infinite if it raises f; 0 if (41) does not hold.
    """
    w, total = 2.0, agents * kappa

    def f(at: float) -> float:
        return float(np.sqrt(1 + at**2) + kappa * at**2 / 2)

    g, H = w / np.sqrt(1 + w**2) + kappa * w, (1 + w**2) ** -1.5 + kappa
    if 3 * total * (w + w) + (1 + kappa) * w > 3 * total**2 / 0.86 * (1 - 2 * ALPHA):
        return 0.0
    fell = f(w) - f(w - g / H)
    return float(ALPHA * g**2 / H / fell) if fell > 0 else float("inf")


def raised() -> float:
    """f before over f after the full step, exact Newton from 2 on √(1 + θ²) + θ²/200: below 1 where it raises f."""
    w = 2.0
    after = w - (w / np.sqrt(1 + w**2) + w / 100) / ((1 + w**2) ** -1.5 + 0.01)
    return float((np.sqrt(1 + w**2) + w**2 / 200) / (np.sqrt(1 + after**2) + after**2 / 200))


def model_error(of: Agents, w: Array) -> float:
    """|f(θ*) − m(θ*)| over the curvature term of m, the quadratic model of f at w."""
    d, H = of.best - w, of.hessian(w)
    curvature = 0.5 * float(d @ H @ d)
    return abs(of.value(of.best) - of.value(w) - float(of.gradient(w) @ d) - curvature) / curvature


def falls(sizes: Sequence[float]) -> float:
    """The largest value of a period over that of the one before, at most."""
    peaks = [max(sizes[k : k + PERIOD]) for k in range(0, len(sizes), PERIOD)]
    return max((b / a for a, b in pairwise(peaks)), default=0.0)


def followed(of: Agents, rng: np.random.Generator, worst: Worst) -> None:
    """A run of Algorithm 4 with all checks of its steps."""
    assumptions(of, rng, worst)
    start = of.best + 3 * rng.standard_normal(N)
    steps = run(of, lambda t: t % PERIOD == 1, ITERATIONS, np.array(INCREMENTS), start)
    seen = [one for one in steps if norm(one.w - of.best) > SMALL]
    for step in seen:
        theorem_9(of, step, worst)
        lemma_11(of, step, worst)
        lemma_12(of, step, worst)
    worst.add(GRADIENT, norm(steps[-1].g) / norm(steps[0].g))
    changes = [norm_2(of.hessian(one.after) - of.hessian(one.w)) for one in seen]
    worst.add(SLOWER, falls(changes))
    worst.add(MOVES, 1 - norm_2(of.hessian(start) - of.hessian(of.best)) / norm_2(of.hessian(of.best)))
    visible = [model_error(of, one.w) for one in steps if norm(one.w - of.best) > VISIBLE]
    worst.add(MODEL, visible[-1] / visible[0])
    renewed = [one.w for one in steps[::PERIOD] if norm(one.w - of.best) > SMALL]
    between = [norm_2(of.hessian(b) - of.hessian(a)) for a, b in pairwise(renewed)]
    worst.add(LESS, max(b / a for a, b in pairwise(between)) if len(between) > 1 else 0.0)
    worst.add(SINCE, falls([norm(one.w - one.renewed) for one in seen]))


def measured(seed: int) -> dict[str, float]:
    rng, worst = np.random.default_rng((seed, 32)), Worst()
    for mu in MUS:
        followed(Agents(seed, N, AGENTS, SAMPLES, mu), rng, worst)
    worst.add(EXAMPLE_11, disjoint()[0])
    worst.add(OWN_11, disjoint()[1])
    worst.add(FIFTY_FOUR, conditions(rng, printed=True))
    worst.add(FIFTY_FOUR_OWN, conditions(rng, printed=False))
    worst.add(SUM_12, summed())
    worst.add(RAISED, raised())
    return worst.found


@experiment(
    "shed-proofs",
    paper="SHED",
    place="section 5, Theorem 9, Lemmas 11 and 12",
    title="Convex costs: SHED's assumptions and the steps of its proofs",
    takes="5 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """Equalities to 1e-9, inequalities as left side over right side."""
    notes = (
        f"Random logistic regression, n = {N}, {AGENTS} agents of {SAMPLES} samples, μ of {MUS}; Algorithm 4 with "
        f"renewals every {PERIOD} iterations, agents send 1, 1, 2 and 3 eigenpairs, from a random point; iterations "
        f"with an error above {SMALL:g}. Assumption 1 at {POINTS} pairs of points. α = {ALPHA}, β = {BETA}.",
        "(50), (51) and (53) are compared in units of σ̄²: 1 + (left − right)/σ̄². (54) and (55) are compared in 2,000 "
        "random cases. Lemma 11 in general has ten agents with disjoint blocks of two coordinates, Lemma 12 as printed "
        "1,000 agents with the same one-dimensional cost.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
