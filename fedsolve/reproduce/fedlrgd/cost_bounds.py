"""The bounds of Theorems 2 and 3 for a problem of the comparison, with constants that hold for it.

Samples (x, y) are in [0, 1]^3. Gradient descent from 0 stays within ‖θ*‖₂ of θ*, so |θ_i| ≤ R = max(1, 2 ‖θ*‖₂).
g_i = (σ(θᵀx) − y) x_i + μ θ_i is smooth to any order: its partial derivatives of order η in the sample are at most
M_η R^η + η M_{η−1} R^{η−1}, M_k ≥ |σ⁽ᵏ⁾|, which is L₂ for that η. (Derivatives in y are smaller.) |g_i| ≤ 1 + μR.
Assumed, not checked: α = 1 in (8), that G⁽ⁱ⁾ can be inverted, and E‖θ^(T₀) − θ*‖² ≤ ‖θ*‖².
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from fedsolve.complexity.fedave_theory import FedAveProblem, fedave_bound
from fedsolve.complexity.fedlrgd_theory import FedLRGDBound, SmoothProblem, fedlrgd_bound
from fedsolve.reproduce.fedlrgd.cost_problem import L2, SAMPLES, CostProblem, P
from fedsolve.reproduce.fedlrgd.fedave_lanes import SMOOTH

D = P + 1  # a sample is x and y
ORDERS = range(4 * D + 1, 61)  # η > (2α + 2) d


@cache
def steepest(order: int) -> float:
    """A bound on |σ⁽ᵏ⁾|, k ≥ 1. The poles of σ are ±πi, ±3πi, …, with residue 1, so that σ⁽ᵏ⁾(t) is ±k! times the sum
    of 1/(t − pole)^(k+1), all of which are largest at t = 0: 2 k!/π^(k+1) (1 + 3^−(k+1) + 5^−(k+1) + …)."""
    odd = np.arange(1, 100_000, 2.0)
    logarithm = math.lgamma(order + 1) - (order + 1) * math.log(math.pi)
    tail = float(odd[-1]) ** -order / (2 * order)  # the terms left out are less than this integral
    return 2.0 * math.exp(logarithm) * (float((odd ** -(order + 1)).sum()) + tail)


def hoelder(eta: int, radius: float) -> float:
    """L₂ for a whole η."""
    return steepest(eta) * radius**eta + eta * steepest(eta - 1) * radius ** (eta - 1)


def theorem_2(problem: CostProblem, share: float, phi: float) -> FedLRGDBound:
    """The bound on Γ(FedLRGD) for F − F* ≤ share · (F(0) − F*), with the η for which it is least."""
    theta, found = problem.solved
    gap = found.first - found.least
    radius = max(1.0, 2.0 * float(np.linalg.norm(theta)))
    bounds = [
        fedlrgd_bound(
            SmoothProblem(P, D, eta, SMOOTH, hoelder(eta, radius), L2, gap, B=1.0 + L2 * radius),
            share * gap,
            s=SAMPLES,
            m=len(problem.rows),
            phi=phi,
        )
        for eta in ORDERS
    ]
    return min(bounds, key=lambda one: one.total)


def lemma_3(problem: CostProblem, share: float, phi: float) -> float:
    """The bound on Γ(FedAve), all clients taking part; it is proved for clients that are alike."""
    theta, found = problem.solved
    variance = max(float((X**2).sum(axis=1).mean()) for X, _ in problem.dealt)  # |σ − y| ≤ 1
    constants = FedAveProblem(SMOOTH, L2, variance, float(theta @ theta), len(problem.rows))
    return fedave_bound(constants, share * (found.first - found.least), phi=phi).total
