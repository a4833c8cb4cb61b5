"""SHED, sections 2.2 to 5 and Appendix A: sentences between the equations of convex costs, on a small logistic
regression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed import proofs_rates as rates
from fedsolve.reproduce.shed import proofs_sharp as sharp
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import norm_2, off
from fedsolve.reproduce.shed.small_logistic import Agents, Step, run

N, AGENTS, SAMPLES, MU, STRONG, PERIOD = rates.N, rates.AGENTS, rates.SAMPLES, rates.MU, rates.STRONG, rates.PERIOD
STARTS, FAR = 20, 10.0 ** np.linspace(-1, 3, 20)  # points from which Theorem 8 is followed, and how far away they are
SEEN = 1e-6  # errors below are not looked at
LEAST = 1e-3  # change of H, of ‖H‖ ‖Δθ‖, that is a change
ARRIVED, MOST = 1e-8, 400  # of the first error; iterations
LONG = 10**6  # iterations that stand for the limit

BOUNDED = "after (44): 1/(1 − λ̄_n/ρ̄) is at most twice its largest value at θ*"
HOLD = "after (43): once (41) and (42) hold they go on holding, with c_t < 1"
FIRST = "before (45): the first t̄ iterations do not matter for log ā"
TRIANGLE = "before (56): ‖θ^t − θ^k‖ ≤ ‖θ^t − θ*‖ + ‖θ^k − θ*‖"
EVERYWHERE = "Theorem 8: it converges from near and far"
CHANGES = "section 2.2: H changes in every iteration, ‖ΔH‖ > 1e-3 ‖H‖ ‖Δθ‖"
HALF = "section 4.1: with η = ½ c_1 of (32) is at least 1 at θ*, whatever is known"
WHOLE = "section 4.1: with η = 1 it is below 1"
ONCE = "section 5: from far away renewals every n − 1 take at most half the iterations of a single one"
EQUAL_46, MOST_46 = "(46): its last line equals the one before", "(46): its last line is at least the one before"
CHECKS = (
    Check("after (44)", BOUNDED, "times", 2.0),
    Check("after (43)", HOLD, "failures", 0.0),
    Check("before (45)", FIRST, "off", 1e-3),
    Check("before (56)", TRIANGLE),
    Check("Theorem 8", EVERYWHERE, "times", ARRIVED),
    Check("section 2.2", CHANGES, "failures", 0.0),
    Check("section 4.1", HALF),
    Check("section 4.1", WHOLE, most=0.999999),
    Check("section 5", ONCE, "times", 0.5),
    Check("(46)", EQUAL_46, "off", 1e-9),
    Check("(46)", MOST_46, "failures", 0.0),
    *sharp.CHECKS,
)


def bounded(of: Agents) -> float:
    """The largest 1/(1 − λ̄_n/ρ̄) of a run of T = 4 over the largest one at θ* for q = 1, …, T."""
    steps = run(of, lambda t: t == 1 or t % PERIOD == 0, MOST, np.ones(AGENTS, dtype=int), np.zeros(N))
    values, _ = of.spectra(of.best)
    means = of.mean(values)
    largest = float(max(means[q] / (means[q] - means[-1]) for q in range(1, PERIOD + 1)))
    return max(one.rho / (one.rho - one.least) for one in steps) / largest


def conditions(of: Agents, worst: Worst) -> None:
    """From far away at μ = 1, renewals every T: where (41) and (42) hold, and the mean of log c_t."""
    start, each = of.best + 5 * np.ones(N), np.ones(AGENTS, dtype=int)
    steps = run(of, lambda t: t % PERIOD == 1, 15 * PERIOD, each, start)
    inside = [max(rates.near(of, one)) <= 1 for one in steps]
    first = inside.index(True)
    kept = [ok and rates.contraction(of, one)[0] < 1 for ok, one in zip(inside[first:], steps[first:], strict=True)]
    worst.add(HOLD, 1 - float(np.mean(kept)))
    early = float(np.sum(np.log([rates.any_step(of, one) for one in steps[:first]])))
    late = np.log([rates.contraction(of, one)[0] for one in steps[first:]])
    rest = float(late.sum() + (LONG - len(steps)) * late[-PERIOD:].mean())  # the last period, repeated
    worst.add(FIRST, off((early + rest) / LONG, rest / LONG))


def along(steps: Sequence[Step], of: Agents, worst: Worst) -> None:
    seen = [one for one in steps if norm(one.w - of.best) > SEEN]
    for one in seen:
        e, e_k = norm(one.w - of.best), norm(one.renewed - of.best)
        worst.add(TRIANGLE, norm(one.w - one.renewed) / (e + e_k))
    still = [
        norm_2(of.hessian(b.w) - of.hessian(a.w)) <= LEAST * norm(b.w - a.w) * norm_2(of.hessian(a.w))
        for a, b in pairwise(seen)
    ]
    worst.add(CHANGES, float(np.mean(still)))


def everywhere(of: Agents, rng: np.random.Generator) -> float:
    """The largest ‖θ^t − θ*‖ over the first one after 400 iterations, from points 0.1 to 1,000 away."""
    found = []
    for far in FAR:
        direction = rng.standard_normal(N)
        start = of.best + far * direction / norm(direction)
        with np.errstate(over="ignore"):  # exp of a large margin is inf, and its weight 0
            steps = run(of, lambda t: t == 1 or t % PERIOD == 0, MOST, np.ones(AGENTS, dtype=int), start)
        found.append(norm(steps[-1].after - of.best) / float(far))
    return max(found)


def short_steps(of: Agents, worst: Worst) -> None:
    """c_1 of (32) at θ^t = θ^k = θ*, with half of a step and with a whole one, for q = 1, …, n − 1."""
    means, top = of.mean(of.spectra(of.best)[0]), norm_2(of.hessian(of.best))
    for q in range(1, N):
        part = 1 - means[-1] / means[q]
        worst.add(HALF, 1 / (part + 0.5 * top / means[q]))
        worst.add(WHOLE, part)


def arrival(steps: Sequence[Step], of: Agents) -> int:
    first = norm(steps[0].w - of.best)
    return next((t for t, one in enumerate(steps) if norm(one.w - of.best) <= ARRIVED * first), len(steps))


def renewing(of: Agents, worst: Worst) -> None:
    """One renewal and many; and the last two lines of (46) with |X_t| of the latter and h = √t/(3n)."""
    each, far = np.ones(AGENTS, dtype=int), of.best + 5 * np.ones(N)
    often, once = (run(of, rule, MOST, each, far) for rule in (lambda t: t == 1 or t % (N - 1) == 0, lambda t: t == 1))
    worst.add(ONCE, arrival(often, of) / arrival(once, of))
    every = run(of, lambda t: t == 1 or t % (N - 1) == 0, MOST, each, np.zeros(N))
    t = np.arange(1, MOST + 1)
    counts, h = np.cumsum(rates.whole(every)), np.sqrt(t) / (3 * N)
    late = t >= 2 * N
    before, last = (np.log(0.9) * some[late] / 2 for some in (counts**2 / t, h**2))  # a = 0.9, C_4 = ½
    worst.add(EQUAL_46, off(last, before))
    worst.add(MOST_46, float(np.mean(last < before)))


def measured(seed: int) -> dict[str, float]:
    of, worst = Agents(seed, N, AGENTS, SAMPLES, MU), Worst()
    worst.add(BOUNDED, bounded(of))
    conditions(Agents(seed, N, AGENTS, SAMPLES, STRONG), worst)
    along(run(of, lambda t: t % PERIOD == 1, MOST, np.ones(AGENTS, dtype=int), of.best + np.ones(N)), of, worst)
    worst.add(EVERYWHERE, everywhere(of, np.random.default_rng((seed, 72))))
    short_steps(of, worst)
    renewing(of, worst)
    sharp.added(seed, worst)
    return worst.found


@experiment(
    "shed-proofs-rest",
    paper="SHED",
    place="sections 2.2, 4.1 and 5, Theorem 8, Appendix A",
    title="Convex costs: what SHED's paper says between its equations",
    takes="10 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """Why renewals, full steps and assumptions are needed, and what is left out of the proof of Theorem 10."""
    notes = (
        f"The problems of shed-proofs-rates: n = {N}, {AGENTS} agents of {SAMPLES} samples, μ = {MU}, T = {PERIOD}, "
        f"one eigenpair an iteration; (41) and (42) with μ = {STRONG:g}. Theorem 8 from {STARTS} points 0.1 to 1,000 "
        f"away, {MOST} iterations; given is the error over the first. “Limit” repeats the last period up to {LONG:,} "
        f"iterations. Arrival is an error of {ARRIVED:g} of the first, from θ* + 5 in each coordinate. "
        "(46) has a = 0.9, C_4 = ½ and h = √t/(3n). At the edge of (41) and (42): agents of "
        f"{sharp.SHORT} samples, {sharp.PAIRS} pairs of θ^t and θ^k for each number of eigenpairs or α.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
