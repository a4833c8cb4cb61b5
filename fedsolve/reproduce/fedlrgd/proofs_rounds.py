"""Lemma 3 of Jadbabaie et al. (2023) on runs of FedAve whose every constant is known.

F is a quadratic with curvatures from μ to L₁ that all clients share; a stochastic gradient has Gaussian noise of
variance σ². Steps are those of the lemma's source (Reisizadeh et al., FedPAQ, Theorem 1): 4/(μ(kb + 1)) in epoch k.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.complexity.fedave_theory import FedAveProblem
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

BOUND = Check("Lemma 3", "FedAve's mean F(θ^(T)) − F* is at most the four terms, T from T₀ to 4 T₀, τ = 1 and ½")
UNBIASED = Check(
    "Theorem 3, 3", "a single sample's gradient has the client's as its mean, and variance of at most Σ‖x‖²/s"
)
CHECKS = (BOUND, UNBIASED)
MU, P, CLIENTS, REPEATED = 1.0, 4, 8, 40


def measured(seed: int) -> dict[str, float]:
    rng, worst = np.random.default_rng([seed, 36]), 0.0
    for L_1, b, tau in product((2.0, 4.0), (1, 8), (1.0, 0.5)):
        worst = max(worst, ratio(rng, FedAveProblem(L_1, MU, float(P), 1.0, CLIENTS, tau), b))
    return named({BOUND: worst, UNBIASED: _samples(rng)})


def ratio(rng: np.random.Generator, one: FedAveProblem, b: int) -> float:
    """The largest of the mean error over the bound, at T₀, 2T₀ and 4T₀; E‖θ^(T₀) − θ*‖² is measured."""
    H = np.linspace(one.mu, one.L_1, P)
    T_0, active = int(np.ceil(one.first_epoch(b))), round(one.tau * one.m)
    theta, start, worst = np.ones((REPEATED, P)), 0.0, 0.0
    for k in range(4 * T_0):
        theta = epoch(rng, theta, H, 4 / (one.mu * (k * b + 1)), b, active)
        if k + 1 == T_0:
            start = float((theta**2).sum(axis=1).mean())
        if k + 1 in (T_0, 2 * T_0, 4 * T_0):
            known = FedAveProblem(one.L_1, one.mu, one.variance, start, one.m, one.tau)
            a, c = known.terms(b)
            x = (k + 1) * b + 1
            worst = max(worst, float((H * theta**2).sum(axis=1).mean()) / 2 / float(a / x**2 + c / x))
    return worst


def epoch(rng: np.random.Generator, theta: Array, H: Array, step: float, b: int, active: int) -> Array:
    """b steps of each of so many clients, and their mean. θ* = 0; the noise has variance P in all."""
    local = np.repeat(theta[:, None], active, axis=1)
    for _ in range(b):
        local = local - step * (H * local + rng.standard_normal(local.shape))
    return np.asarray(local.mean(axis=1))


def _samples(rng: np.random.Generator) -> float:
    """Logistic regression: |σ − y| ≤ 1, so E‖g − mean‖² ≤ Σ‖x‖²/s, of the order of p."""
    worst = 0.0
    for p in (2, 10, 100):
        X, y, theta = rng.random((50, p)), (rng.random(50) < 0.5).astype(float), rng.standard_normal(p)
        each = (1 / (1 + np.exp(-X @ theta)) - y)[:, None] * X
        mean = X.T @ (1 / (1 + np.exp(-X @ theta)) - y) / 50
        if np.abs(each.mean(axis=0) - mean).max() > 1e-12:
            return float("nan")
        worst = max(worst, float(((each - mean) ** 2).sum(axis=1).mean() / (X**2).sum(axis=1).mean()))
    return worst
