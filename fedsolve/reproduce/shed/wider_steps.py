"""SHED, sections 1.1, 2.1 and 5: renewals of each agent's own, and what FedNL learns, for more n and μ."""

from __future__ import annotations

from itertools import islice

import numpy as np

from fedsolve.algorithms import FedNL
from fedsolve.curvature.compressors import RankR
from fedsolve.losses import Logistic
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.gaps import optimum
from fedsolve.reproduce.shed.heard_messages import N, agents
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import norm_2
from fedsolve.reproduce.shed.small_logistic import ALPHA, BETA, Agents, estimate

WIDTHS, PENALTIES, SAMPLES = (4, 8, 12), (1e-3, 0.01, 1.0), 30
ITERATIONS, SEEN, ARRIVED = 1000, 1e-6, 1e-10
FAR = (0.1, 5.0)  # times z, from θ*
LEARNED, LEARNING = (0.01, 0.1, 1.0), 40 * N  # √(1 − 1/n) for each iteration: e⁻²⁰

OWN = "section 5: (31) with renewals of each agent's own, n = 4, 8, 12 and three μ"
ENDS = "… it converges to 1e-10 of the first error"
LEARNS = "FedNL with rank 1, n = 12, three μ: ‖H_t − H(θ*)‖ over ‖H(θ*) − μI‖ after 40 n iterations"
FACTOR = "… and ‖I − H_t⁻¹H(θ*)‖, the factor of the error near θ*"
CHECKS = (
    Check("section 5", OWN),
    Check("section 5", ENDS, "times", ARRIVED),
    *(Check("section 2.1", name, "times", 1e-6) for name in (LEARNS, FACTOR)),
)


def own_renewals(of: Agents, rng: np.random.Generator, far: float, w: Worst) -> None:
    """Algorithm 4 where each agent draws its renewals and sends 0 to 2 pairs, against (31) with θ^k of each."""
    count = len(of.rows)
    at = of.best + far * rng.standard_normal(of.n)
    known, counts, start = [at] * count, np.zeros(count, dtype=int), norm(at - of.best)
    for t in range(ITERATIONS):
        for j in range(count):
            if t == 0 or rng.random() < 1 / (j + 2):
                known[j], counts[j] = at, 0
        counts = np.minimum(counts + rng.integers(0, 2, count, endpoint=True), of.n - 1)
        spectra = [of.spectra(one) for one in known]
        values, vectors = (np.array([one[k][j] for j, one in enumerate(spectra)]) for k in (0, 1))
        parts, rho = estimate(values, vectors, counts)
        g, eta = of.gradient(at), 1.0
        p = np.linalg.solve(of.mean(parts), g)
        while norm(g) > 1e-7 and of.value(at - eta * p) > of.value(at) - ALPHA * eta * float(p @ g):
            eta *= BETA
        error, mean_rho, least = norm(at - of.best), float(of.mean(rho)), float(of.mean(values[:, -1]))
        since = float(of.mean(np.array([L * norm(at - one) for L, one in zip(of.L_i, known, strict=True)])))
        top = norm_2(of.hessian(at))
        factor = 1 - least / mean_rho + since / mean_rho + (1 - eta) * top / mean_rho
        at = at - eta * p
        if error > SEEN:
            w.add(OWN, norm(at - of.best) / (factor * error + eta * of.L / (2 * mean_rho) * error**2))
        if norm(at - of.best) <= ARRIVED * start:
            break
    w.add(ENDS, norm(at - of.best) / start)


def learned(seed: int, mu: float, w: Worst) -> None:
    clients, loss = agents(seed), Logistic(l2=mu)
    best = optimum(clients, loss)
    total = sum(one.weight for one in clients)
    H = np.asarray(sum(one.weight / total * loss.hessian(one, best.w).full() for one in clients))
    *_, last = islice(iterates(FedNL(loss, RankR(1), option=1), clients, seed), LEARNING + 1)
    found = last.state.learned.full() + mu * np.eye(N)  # it learns the Hessian without the penalty
    w.add(LEARNS, norm_2(found - H) / norm_2(H - mu * np.eye(N)))
    w.add(FACTOR, norm_2(np.eye(N) - np.linalg.solve(found, H)))


def measured(seed: int) -> dict[str, float]:
    worst, rng = Worst(), np.random.default_rng((seed, 107))
    for n in WIDTHS:
        for mu in PENALTIES:
            for far in FAR:
                own_renewals(Agents(seed, n, 4, SAMPLES, mu), rng, far, worst)
    for mu in LEARNED:
        learned(seed, mu, worst)
    return worst.found


@experiment(
    "shed-wider-steps",
    paper="SHED",
    place="sections 1.1, 2.1 and 5",
    title="Renewals of each agent's own, and what FedNL learns, for more n and μ",
    takes="30 s",
)
def steps(seeds: Seeds, quick: bool) -> Result:
    """A grid of small problems."""
    notes = (
        f"Own renewals: logistic regression, 4 agents of {SAMPLES} samples, n = {', '.join(map(str, WIDTHS))}, μ = "
        f"{', '.join(f'{one:g}' for one in PENALTIES)}, from θ* + {' z and θ* + '.join(f'{one:g}' for one in FAR)} z; "
        "agent j renews with a chance of 1/(j + 1) in each iteration and sends 0 to 2 pairs. FedNL: the problems of "
        f"shed-order, μ = {', '.join(f'{one:g}' for one in LEARNED)}, {LEARNING} iterations.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
