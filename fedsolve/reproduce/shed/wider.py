"""SHED, sections 2.1, 5 and 6.7: statements that other experiments test with one n or μ, with more of them."""

from __future__ import annotations

import numpy as np

from fedsolve.algorithms import FedNL
from fedsolve.losses import Logistic
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.gaps import follow, optimum
from fedsolve.reproduce.shed.heard_messages import agents
from fedsolve.reproduce.shed.learning_rate import BETTER, RATES, Scaled
from fedsolve.reproduce.shed.newton_direction import farther
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import norm_2
from fedsolve.reproduce.shed.small_logistic import Agents, Step, run

WIDTHS, PENALTIES, AGENTS, SAMPLES = (4, 8, 12), (1e-3, 0.01, 1.0), 4, 30
RATED = (1e-3, 0.01, 0.1)  # μ for FedNL
GAP, MOST, SEEN = 1e-10, 500, 1e-6
ROUNDING = 1e-13  # of ‖H‖: hundreds of roundings
CLOSE = 1.0  # distance from θ*

NEARER = "section 2.1: H⁻¹g is nearer to θ − θ* than g, by angle, n = 4, 8, 12 and three μ"
NEARER_CLOSE = "… at points at most 1 from θ*"
RATE = "FedNL: no other rate takes less than 0.9 times the iterations of rate 1, μ = 1e-3, 0.01 and 0.1 together"
CHANGES = "section 2.2: H changes in every iteration, ‖ΔH‖ > 1e-13 ‖H‖, n = 4, 8, 12 and three μ"
CHECKS = (
    *(Check("section 2.1", name, "failures", 0.05) for name in (NEARER, NEARER_CLOSE)),
    Check("section 6.7", RATE, "times", 1 / BETTER),
    Check("section 2.2", CHANGES, "failures", 0.0),
)


def rated(seed: int) -> float:
    """Iterations of rate 1 over the fewest of other rates, summed over μ."""
    clients, counts = agents(seed), dict.fromkeys(RATES, 0.0)
    for mu in RATED:
        loss = Logistic(l2=mu)
        best = optimum(clients, loss)
        for rate in RATES:
            trace = follow(FedNL(loss, Scaled(1, rate), option=1), best, gap=GAP, iterations=MOST)
            counts[rate] += min(trace.iterations(GAP), MOST)
    return counts[1.0] / min(count for rate, count in counts.items() if rate != 1)


def unchanged(of: Agents, steps: list[Step]) -> float:
    """The share of visible iterations in which the Hessian changes by no more than rounding."""
    seen = [one for one in steps if norm(one.w - of.best) > SEEN]
    changes = [norm_2(of.hessian(one.after) - of.hessian(one.w)) / norm_2(of.hessian(one.w)) for one in seen]
    return float(np.mean(np.array(changes) <= ROUNDING))


def measured(seed: int) -> dict[str, float]:
    worst, rng, rng_close = Worst(), np.random.default_rng((seed, 105)), np.random.default_rng((seed, 106))
    worst.add(RATE, rated(seed))
    for n in WIDTHS:
        for mu in PENALTIES:
            of = Agents(seed, n, AGENTS, SAMPLES, mu)
            worst.add(NEARER, farther(of, rng))
            steps = run(of, lambda t: t % 4 == 1, 100, np.ones(AGENTS, dtype=int), of.best + rng.standard_normal(n))
            worst.add(CHANGES, unchanged(of, steps))
            worst.add(NEARER_CLOSE, farther(of, rng_close, CLOSE))
    return worst.found


@experiment(
    "shed-wider",
    paper="SHED",
    place="sections 2.1, 2.2 and 6.7",
    title="Newton's direction, changing Hessians and FedNL's rates, for more n and μ",
    takes="20 s",
)
def wider(seeds: Seeds, quick: bool) -> Result:
    """A grid of small problems."""
    notes = (
        f"Logistic regression, {AGENTS} agents of {SAMPLES} samples, n = {', '.join(map(str, WIDTHS))}, μ = "
        f"{', '.join(f'{one:g}' for one in PENALTIES)}: Newton's direction at 100 points, as in shed-newton-direction; "
        f"Algorithm 4 with T = 4 from θ* + z, while the error is above {SEEN:g}. FedNL with rank-1 corrections on the "
        f"problems of shed-order, μ = {', '.join(f'{one:g}' for one in RATED)}, rates of "
        f"{', '.join(f'{one:g}' for one in RATES)}, until f − f* ≤ {GAP:g}; at most {MOST} iterations.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
