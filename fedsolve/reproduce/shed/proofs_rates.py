"""SHED, Appendix A: the steps in the proof of Theorem 10, (43) to (46), on a small logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import off
from fedsolve.reproduce.shed.small_logistic import ALPHA, Agents, Step, estimate, run

N, AGENTS, SAMPLES, MU = 8, 4, 30, 0.01
PERIOD, ITERATIONS = 4, 400  # T: no iteration has all n − 1 eigenpairs
LAST = 3  # periods that stand for the limit
ROUNDING = 1e-11  # errors below are rounding
STRONG = 1.0  # μ for which (41) and (42) are reached soon
TIMES = 10.0 ** np.arange(2, 9)

STEP_43, TRIANGLE = "(43): ‖θ^{t+1} − θ*‖ ≤ c_t ‖θ^t − θ*‖ where η = 1", "(43): its second line"
BELOW_ONE, STAYS = "(42) gives c_t < 1", "M(t + 1) ≤ M(t) from there on"
REACHED, ONCE = "with periodic renewals (41) and (42) are reached", "without Assumption 3 (one renewal) they are not"
GEOMETRIC, DELAYED = "2): ‖θ^t − θ*‖ ≤ C a*^t with one C, later at most twice earlier", "(44): c_t ≤ 1 − λ̄_n/ρ̄ + B a*^t"
SPLIT, LOG = "log(1 − x + y) = log(1 − x) + log(1 + y/(1 − x))", "log(1 + x) ≤ x"
B_BAR, B_BAR_OWN = "B̄ = max 1/(1 − λ̄_n/ρ̄), as printed", "B̄ = B max 1/(1 − λ̄_n/ρ̄)"
SUM, TO_ZERO = "Σ a^k = (1 − a^{t+1})/(1 − a) − 1", "its mean over t tends to 0, at t = 1e8"
FORTY_FIVE = "(45): log ā is the mean of log(1 − λ̄_n,k/ρ̄_k), to 1 %"
WEYL, CHAIN = "|λ_k(θ) − λ_k(θ*)| ≤ L̄ ‖θ − θ*‖", "the inequality after (45)"
ONE, FOURTH, TWO = "(1) after (45), to 1 %", "the last inequality after (45)", "(2) after (45), to 1 %"
THIRTY_FIVE, ABOVE = "(35), (36): a* ≤ ā_T at the optimum", "a* ≤ ā"
SQUARES, FALLS = "(46): C_4 |X_t|² ≤ Σ k over X_t, C_4 = ½", "(46): it tends to −∞ for |X_t| = √t log t"
INDICES = "(46) for renewals every n − 1: √t h(t) ≤ |X_t| with h = √t/n"

CHECKS = (
    *(Check("(43)", name) for name in (STEP_43, TRIANGLE)),
    Check("(43)", BELOW_ONE, most=1 - 1e-12),
    Check("after (43)", STAYS),
    Check("after (43)", REACHED),
    Check("after (43)", ONCE),
    Check("(44)", GEOMETRIC, "times", 2.0),
    Check("(44)", DELAYED),
    Check("after (44)", SPLIT, "off", 1e-9),
    *(Check("after (44)", name) for name in (LOG, B_BAR, B_BAR_OWN)),
    Check("before (45)", SUM, "off", 1e-9),
    Check("before (45)", TO_ZERO, "off", 1e-6),
    Check("(45)", FORTY_FIVE, "off", 0.01),
    *(Check("after (45)", name) for name in (WEYL, CHAIN, FOURTH)),
    *(Check("after (45)", name, "off", 0.01) for name in (ONE, TWO)),
    *(Check("(35), (36)", name) for name in (THIRTY_FIVE, ABOVE)),
    *(Check("(46)", name) for name in (SQUARES, INDICES)),
    Check("(46)", FALLS, "times", 0.5),
)


def contraction(of: Agents, one: Step) -> tuple[float, float]:
    """c_t of (43): its first line and its second."""
    e, e_k, since = norm(one.w - of.best), norm(one.renewed - of.best), norm(one.w - one.renewed)
    base = 1 - one.least / one.rho
    return base + of.L / one.rho * (since + e / 2), base + of.L / one.rho * (e_k + 1.5 * e)


def near(of: Agents, one: Step) -> tuple[float, float]:
    """(41) and (42), left side over right side."""
    e, e_k = norm(one.w - of.best), norm(one.renewed - of.best)
    M, kappa = max(e, e_k), of.mu
    first = (3 * kappa * (M + e) + of.K * e) / (3 * kappa**2 / of.L * (1 - 2 * ALPHA))
    return first, of.L * (1.5 * e + M) / kappa


def exponent(of: Agents) -> tuple[float, float]:
    """a* of periodic renewals, from the product of the steps of a period at the optimum; and ā_T of (36)."""
    (values, vectors), H = of.spectra(of.best), of.hessian(of.best)
    whole, bounds = np.eye(of.n), []
    for q in range(1, PERIOD + 1):
        parts, rho = estimate(values, vectors, np.full(len(of.rows), q))
        whole = (np.eye(of.n) - np.linalg.solve(of.mean(parts), H)) @ whole
        bounds.append(1 - float(of.mean(values[:, -1])) / float(of.mean(rho)))
    return float(np.abs(np.linalg.eigvals(whole)).max() ** (1 / PERIOD)), float(np.prod(bounds) ** (1 / PERIOD))


def first_part(of: Agents, worst: Worst) -> None:
    """1): where (41) and (42) hold, at μ = 1, with periodic renewals and with one only."""
    start = of.best + 5 * np.ones(N)
    one_each = np.ones(AGENTS, dtype=int)
    periodic = run(of, lambda t: t % PERIOD == 1, 60, one_each, start)
    inside = [one for one in periodic if max(near(of, one)) <= 1]
    worst.add(REACHED, min(max(near(of, one)) for one in periodic))
    worst.add(BELOW_ONE, max(contraction(of, one)[0] for one in inside))
    radii = [max(norm(one.w - of.best), norm(one.renewed - of.best)) for one in inside]
    worst.add(STAYS, max(b / a for a, b in pairwise(radii) if b > ROUNDING))
    once = run(of, lambda t: t == 1, 60, one_each, start)
    worst.add(ONCE, 1 / min(max(near(of, one)) for one in once))


def second_part(of: Agents, worst: Worst) -> None:
    """2): (43) to (45) along a run with periodic renewals."""
    steps = run(of, lambda t: t == 1 or t % PERIOD == 0, ITERATIONS, np.ones(AGENTS, dtype=int), np.zeros(N))
    a, bound = exponent(of)
    errors = np.array([norm(one.w - of.best) for one in steps])
    seen = [t for t, e in enumerate(errors) if e > ROUNDING]
    full = [t for t in seen if steps[t].eta == 1.0]
    for t in full:
        one, two = contraction(of, steps[t])
        worst.add(STEP_43, norm(steps[t].after - of.best) / (one * errors[t]) if errors[t] > 10 * ROUNDING else 0.0)
        worst.add(TRIANGLE, one / two)
    ratios = errors[seen] / a ** (1 + np.array(seen))
    half = len(ratios) // 2
    worst.add(GEOMETRIC, ratios[half:].max() / ratios[:half].max())
    C = float(ratios.max())
    base = np.array([1 - steps[t].least / steps[t].rho for t in full])
    rho = np.array([steps[t].rho for t in full])
    delay = PERIOD - 1
    B = of.L / rho * C * a**-delay + 1.5 * of.L / rho * C
    powers = a ** (1 + np.array(full))
    worst.add(
        DELAYED,
        max((contraction(of, steps[t])[0] / (x + b * p)) for t, x, b, p in zip(full, base, B, powers, strict=True)),
    )
    ratio = B * powers / base
    worst.add(SPLIT, off(np.log(base) + np.log1p(ratio), np.log(base + B * powers)))
    worst.add(LOG, float(np.max(np.log1p(ratio) / ratio)))
    worst.add(B_BAR, float(np.max(np.log1p(ratio) / (np.max(1 / base) * powers))))
    worst.add(B_BAR_OWN, float(np.max(np.log1p(ratio) / (B.max() * np.max(1 / base) * powers))))
    last = full[-LAST * PERIOD :]
    mean = float(np.mean([np.log(contraction(of, steps[t])[0]) for t in last]))
    own = float(np.mean([np.log(1 - steps[t].least / steps[t].rho) for t in last]))
    worst.add(FORTY_FIVE, abs(mean / own - 1))
    worst.add(THIRTY_FIVE, a / bound)
    worst.add(ABOVE, a / float(np.exp(mean)))
    _at_the_optimum(of, [steps[t] for t in full], [steps[t] for t in last], worst)


def _at_the_optimum(of: Agents, full: Sequence[Step], last: Sequence[Step], worst: Worst) -> None:
    """The chain after (45)."""
    values, _ = of.spectra(of.best)
    least, L = float(of.mean(values[:, -1])), float(of.L_i.max())

    def terms(one: Step) -> tuple[float, float, float, float, float]:
        e = norm(one.renewed - of.best)
        rho = float(of.mean(np.array([row[q] for row, q in zip(values, one.counts, strict=True)])))  # ρ̄_k^o
        now = 1 - one.least / one.rho
        first, second = 1 - (least - L * e) / (rho + L * e), 1 - least / (rho + L * e)
        return now, first, second, 1 - least / rho + L * e / rho, 1 - least / rho

    for one in full:
        now, first, second, fourth, _ = terms(one)
        worst.add(CHAIN, now / first)
        worst.add(FOURTH, second / fourth)
        moved, _ = of.spectra(one.w)
        gaps = np.abs(moved - values).max(axis=1) / (of.L_i * max(norm(one.w - of.best), ROUNDING))
        worst.add(WEYL, float(gaps.max()) if norm(one.w - of.best) > 1e-6 else 0.0)
    means = np.mean([np.log(terms(one)) for one in last], axis=0)
    worst.add(ONE, abs(means[1] / means[2] - 1))
    worst.add(TWO, abs(means[3] / means[4] - 1))


def third_part(rng: np.random.Generator, worst: Worst) -> None:
    """3): sums over X_t."""
    for _ in range(200):
        chosen = np.flatnonzero(rng.random(400) < rng.random()) + 1
        if chosen.size:
            worst.add(SQUARES, 0.5 * chosen.size**2 / chosen.sum())
    values = [0.5 * (np.sqrt(t) * np.log(t)) ** 2 / t * np.log(0.9) for t in TIMES]
    worst.add(FALLS, max(a / b for a, b in pairwise(values[::3])))
    every = np.array([np.sqrt(t) * (np.sqrt(t) / N) / np.floor(t / (N - 1)) for t in TIMES])
    worst.add(INDICES, float(every.max()))
    a = 0.93
    sums = [sum(a**k for k in range(1, t + 1)) for t in (10, 100)]
    worst.add(SUM, max(off((1 - a ** (t + 1)) / (1 - a) - 1, one) for t, one in zip((10, 100), sums, strict=True)))
    worst.add(TO_ZERO, ((1 - a**1e8) / (1 - a) - 1) / 1e8)


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    first_part(Agents(seed, N, AGENTS, SAMPLES, STRONG), worst)
    second_part(Agents(seed, N, AGENTS, SAMPLES, MU), worst)
    third_part(np.random.default_rng((seed, 33)), worst)
    return worst.found


@experiment(
    "shed-proofs-rates",
    paper="SHED",
    place="Appendix A, proof of Theorem 10",
    title="SHED's rates: the steps in the proof of Theorem 10",
    takes="5 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """The Lyapunov exponent from the steps of a period at the optimum, beside what the proof bounds it by."""
    notes = (
        f"Random logistic regression, n = {N}, {AGENTS} agents of {SAMPLES} samples, μ = {MU}; Algorithm 4 with "
        f"renewals at 1, T, 2T, …, T = {PERIOD}, one eigenpair an iteration. a* is the spectral radius of the product "
        f"of the steps of a period at θ*. Limits are means over the last {LAST} periods whose errors are above "
        f"{ROUNDING:g}. Part 1) has μ = {STRONG:g} and starts far away. “Reached” is the least of (41) and (42), left "
        "over right; "
        "“not reached” its inverse.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
