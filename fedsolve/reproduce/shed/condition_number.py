"""SHED, sections 6.7.1 and 6.7.2: condition numbers, what they do to AGD, and which way μ moves them."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.comparison import GAP
from fedsolve.reproduce.shed.convex_theory import pooled_hessian
from fedsolve.reproduce.shed.gaps import optimum
from fedsolve.reproduce.shed.problems import images, songs
from fedsolve.typing import Array

HARD, EASY = 1e-5, 0.1  # μ of least squares
FEATURES, MOST = 50, 100_000
SLOW = "songs: with μ = 0.1 AGD takes at most a tenth of the rounds"
LOWER, HIGHER = "μ = 1e-6 lowers the condition number", "μ = 1e-6 raises the condition number"
CHECKS = (
    Check("section 6.7.1", SLOW, "times", 0.1),
    Check("section 6.7.2", LOWER, "times", 0.999),
    Check("section 6.7.2", HIGHER, "times", 0.999),
)


def heavy_ball_rounds(values: Array, start: Array) -> int:
    """Rounds of the heavy ball with its best η and β, in the eigenbasis, until ½ Σ λ e² ≤ 1e-10."""
    low, high = float(np.sqrt(values.min())), float(np.sqrt(values.max()))
    eta, beta = 4 / (high + low) ** 2, ((high - low) / (high + low)) ** 2
    before, e = start, start
    for t in range(MOST):
        if 0.5 * float(values @ e**2) <= GAP:
            return t
        before, e = e, e - eta * values * e + beta * (e - before)
    return MOST


def agd(seed: int) -> float:
    """Rounds with the larger μ over those with the smaller one, songs with distinct columns."""
    rounds = []
    for mu in (EASY, HARD):
        clients = songs(mu, iid=True, seed=seed, distinct=True).clients
        X, y = (np.concatenate([getattr(one, name) for one in clients]) for name in ("X", "y"))
        values, vectors = np.linalg.eigh(X.T @ X / len(y) + mu * np.eye(X.shape[1]))
        rounds.append(heavy_ball_rounds(values, vectors.T @ (X.T @ y / len(y)) / values))
    return rounds[0] / rounds[1]


def condition(mu: float, seed: int, quick: bool) -> float:
    """λ_max/λ_min of the pooled Hessian at the optimum, on images, iid."""
    data = ("emnist_digits", 20, 9) if quick else ("fashion_mnist", FEATURES, 28)
    posed = images(data[0], data[1], mu, iid=True, seed=seed, agents=data[2])
    best = optimum(posed.clients, posed.loss)
    values = np.linalg.eigvalsh(pooled_hessian(best, best.w))
    return float(values[-1] / values[0])


@experiment(
    "shed-condition",
    paper="SHED",
    place="sections 6.7.1 and 6.7.2",
    title="Condition numbers: what they cost AGD, and what a smaller μ does to them",
    takes="20 s",
)
def condition_numbers(seeds: Seeds, quick: bool) -> Result:
    """The heavy ball with the best constants for a known spectrum; and λ_max/λ_min at θ* for two μ."""
    found = []
    for seed in seeds:
        ratio = condition(1e-6, seed, quick) / condition(1e-5, seed, quick)
        found.append({SLOW: agd(seed), LOWER: ratio, HIGHER: 1 / ratio})
    notes = (
        f"AGD is the heavy ball with the η and β that are best for the smallest and the largest eigenvalue, on songs "
        f"with 54 distinct columns, μ = {EASY:g} over μ = {HARD:g}. Condition numbers are of the pooled Hessian at θ*, "
        f"Fashion-MNIST, n = {FEATURES}, iid: μ = 1e-6 over μ = 1e-5, and the inverse.",
    )
    return checked(CHECKS, found, notes, quick)
