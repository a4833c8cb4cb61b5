"""SHED, section 2.1: whether curvature improves the descent direction, and what Newton's method computes for it."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np

from fedsolve.algorithms import AGD, Newton
from fedsolve.losses import Logistic
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.gaps import follow, optimum
from fedsolve.reproduce.shed.heard_messages import agents
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import off
from fedsolve.reproduce.shed.small_logistic import Agents
from fedsolve.typing import Array

N, MU, POINTS, ITERATIONS = 8, 0.01, 100, 5
FAR = 3.0  # times a random start, at which full steps are refused
SHORT = 1e-4  # a shorter step, near the optimum, is a difference with too few digits

NEARER = "section 2.1: H⁻¹g is nearer to θ − θ* than g, by angle"
UPDATE = "section 2.1: the library's step is θ − ηH⁻¹g, η = 1, ½, …"
SHORTENED = "section 2.1: from far away some of these steps have η < 1"
DEMANDING = "section 1: a Hessian in every iteration of Newton's method, none in one of AGD"
CHECKS = (
    Check("section 2.1", NEARER, "failures", 0.05),
    Check("section 2.1", UPDATE, "off", 1e-9),
    Check("section 2.1", SHORTENED, "failures", 0.0),
    Check("section 1", DEMANDING, "failures", 0.0),
)


def angle(a: Array, b: Array) -> float:
    return float(np.arccos(np.clip(a @ b / (norm(a) * norm(b)), -1.0, 1.0)))


def farther(of: Agents, rng: np.random.Generator, most: float = 3.0) -> float:
    """At which share of points, 0.01 to `most` from θ*, Newton's direction is the worse one."""
    worse = []
    for far in np.geomspace(0.01, most, POINTS):
        e = rng.standard_normal(of.n)
        e *= far / norm(e)
        g = of.gradient(of.best + e)
        worse.append(angle(np.linalg.solve(of.hessian(of.best + e), g), e) >= angle(g, e))
    return float(np.mean(worse))


def steps(seed: int, start: Array | None = None) -> tuple[float, int]:
    """How far each step of the library's Newton is from −H⁻¹g, whatever its length; and how many are shortened."""
    clients, loss, worst, shortened = agents(seed), Logistic(l2=1e-3), 0.0, 0
    total = sum(one.weight for one in clients)
    path = [one.state.w for one in islice(iterates(Newton(loss), clients, warm_start=start), ITERATIONS + 1)]
    for w, after in pairwise(path):
        H = np.asarray(sum(one.weight / total * loss.hessian(one, w).full() for one in clients))
        p = np.linalg.solve(H, np.asarray(sum(one.weight / total * loss.gradient(one, w) for one in clients)))
        if norm(p) < SHORT:
            break
        halvings = round(float(np.log2(norm(p) / norm(w - after))))
        shortened += halvings > 0
        worst = max(worst, off(w - after, p * 0.5**halvings))
    return worst, shortened


def counted(seed: int) -> float:
    """0 if an agent of Newton's method computes a Hessian in each iteration, and one of AGD none."""
    clients, loss = agents(seed), Logistic(l2=1e-3)
    best = optimum(clients, loss)
    newton, agd = (follow(one, best, gap=0.0, iterations=ITERATIONS).hessians for one in (Newton(loss), AGD(loss)))
    return float(np.any(np.diff(newton) != 1) or agd[-1] != 0)


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    worst.add(NEARER, farther(Agents(seed, N, 4, 30, MU), np.random.default_rng((seed, 74))))
    start = FAR * np.random.default_rng((seed, 77)).standard_normal(agents(seed)[0].X.shape[1])
    near, far = steps(seed), steps(seed, start)
    worst.add(UPDATE, max(near[0], far[0]))
    worst.add(SHORTENED, float(far[1] == 0))
    worst.add(DEMANDING, counted(seed))
    return worst.found


@experiment(
    "shed-newton-direction",
    paper="SHED",
    place="sections 1 and 2.1",
    title="Newton's direction beside the gradient, and what it takes",
    takes="2 s",
)
def direction(seeds: Seeds, quick: bool) -> Result:
    """Angles to θ − θ* at points near and far."""
    notes = (
        f"Logistic regression, n = {N}, 4 agents of 30 samples, μ = {MU}: {POINTS} points in random directions, 0.01 "
        "to 3 from θ*; “nearer” at 95 % of them in every seed. Newton and AGD on the logistic regression of "
        f"shed-order, μ = 1e-3, {ITERATIONS} iterations, Newton's steps also from {FAR:g} z.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
