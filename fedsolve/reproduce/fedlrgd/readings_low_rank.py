"""Jadbabaie et al. (2023) on losses of low rank that are not smooth in the data: (33), Algorithm 1, and FedAve's bound.

f(x; θ) = ½(θᵀu(x) − y(x))² + μ/2 ‖θ‖². u and y are drawn anew for every sample, so that they are not continuous in
x; g_i = u_i(x)(u(x)ᵀθ − y(x)) + μθ_i is of rank p + 1 in (x, θ).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

EXACT = Check("After Theorem 2", "g_i of rank r = p + 1, rough in x: (33) over the largest |∂F/∂θ_i|", "off", 1e-6)
LINEAR = Check(
    "After Theorem 2",
    "… and δ of rank 300 beside it, δ from 1e-9 to 1e-7: exponent of the error of (33) in δ, from 1",
    "off",
    0.1,
)
ENDS = Check(
    "After Theorem 2", "… Algorithm 1 with S of linear convergence: F(θ^(S)) − F* over 1e-6 of F(0) − F*", "times", 1.0
)
USEFUL = Check(
    "Appendix C", "… its Γ over that of gradient descent by the clients to the same accuracy, φ = 100", "times", 0.5
)
NOISY = Check(
    "Abstract; Section I",
    "local SGD on it, three step sizes: mean of F − F* over the limit of SGD's bound, (1 − γμ)^t and γL_1σ²/(2μ)",
)
CHECKS = (EXACT, LINEAR, ENDS, USEFUL, NOISY)
P, CLIENTS, OWN, MU = 3, 8, 20, 0.1


@dataclass(frozen=True)
class Rough:
    """u, y of the server's r samples first, then of the clients'; `noise`: a further part, δ sin(40 …) of high rank."""

    u: Array
    y: Array
    noise: float = 0.0

    def each(self, theta: Array) -> Array:
        """g_i(x; θ) of θ in rows: samples × rows × p."""
        plain = self.u[:, None] * (self.u @ theta.T - self.y[:, None])[..., None] + MU * theta
        return np.asarray(plain + self.noise * np.sin(40 * (self.u @ theta.T) + 9 * self.y[:, None])[..., None])

    @property
    def H(self) -> Array:
        return np.asarray(self.u.T @ self.u / len(self.u) + MU * np.eye(P))

    @property
    def best(self) -> Array:
        return np.asarray(np.linalg.solve(self.H, self.u.T @ self.y / len(self.u)))

    def above(self, theta: Array) -> float:
        """F(θ) − F*."""
        far = theta - self.best
        return float(far @ self.H @ far / 2)


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    rng = np.random.default_rng([seed, 93])
    exact, linear, ends, useful = 0.0, 0.0, 0.0, 0.0
    for _ in range(5 if quick else 20):
        rows = P + 1 + CLIENTS * OWN
        problem = Rough(rng.random((rows, P)), rng.random(rows))
        probes, theta = rng.uniform(-1, 1, (P + 1, P)), rng.uniform(-1, 1, (50, P))
        exact = max(exact, _wrong(problem, probes, theta))
        sizes = [_wrong(Rough(problem.u, problem.y, noise), probes, theta) for noise in (1e-9, 1e-7)]
        linear = max(linear, abs(np.log10(sizes[1] / sizes[0]) / 2 - 1))
        left, share = _descended(problem, probes)
        ends, useful = max(ends, left), max(useful, share)
    return named({EXACT: exact, LINEAR: linear, ENDS: ends, USEFUL: useful, NOISY: _noisy(rng, quick)})


def weights(problem: Rough, probes: Array) -> Array:
    """1 + Σ v_k of (35) and (41): r × p."""
    r, G = P + 1, problem.each(probes)
    return 1 + np.array([np.linalg.solve(G[:r, :, i].T, G[r:, :, i].sum(axis=0)) for i in range(P)]).T


def _wrong(problem: Rough, probes: Array, theta: Array) -> float:
    G = problem.each(theta)
    made = np.einsum("ki,kti->ti", weights(problem, probes), G[: P + 1]) / len(G)
    true = G.mean(axis=0)
    return float(np.abs(made - true).max() / np.abs(true).max())


def _descended(problem: Rough, probes: Array) -> tuple[float, float]:
    """What Algorithm 1 leaves, over 1e-6 of the start; its Γ over that of descent in which all clients take part."""
    r, L_1 = P + 1, P + MU  # ‖u‖² ≤ p
    S = int(np.ceil(np.log(1e6) / -np.log(1 - MU / L_1)))
    v, theta, phi = weights(problem, probes), np.zeros(P), 100.0
    for _ in range(S):
        theta = theta - (v * problem.each(theta[None])[:r, 0]).sum(axis=0) / len(problem.u) / L_1
    start = problem.above(np.zeros(P))
    other, rounds = np.zeros(P), 0
    while problem.above(other) > max(problem.above(theta), 1e-14 * start):
        other, rounds = other - problem.each(other[None])[:, 0].mean(axis=0) / L_1, rounds + 1
    own = r**2 + r * OWN + r * S + phi * CLIENTS * r
    return problem.above(theta) / (1e-6 * start), own / (rounds * (OWN + phi * CLIENTS))


def _noisy(rng: np.random.Generator, quick: bool) -> float:
    """Averaged steps of one sample by each client, which is FedAve with b = 1: the classical bound has no η and L_2."""
    worst = 0.0
    for gamma in (0.02, 0.1, 0.3):
        problem = Rough(rng.random((CLIENTS * OWN, P)), rng.random(CLIENTS * OWN))
        curvatures = np.linalg.eigvalsh(problem.H)
        theta, steps = np.zeros((200 if quick else 1000, P)), 300
        largest = 0.0
        for _ in range(steps):
            rows = rng.integers(OWN, size=(len(theta), CLIENTS)) + OWN * np.arange(CLIENTS)
            u, y = problem.u[rows], problem.y[rows]
            slopes = u * (np.einsum("tcp,tp->tc", u, theta) - y)[..., None] + MU * theta[:, None]
            full = (theta - problem.best) @ problem.H
            largest = max(largest, float(((slopes.mean(axis=1) - full) ** 2).sum(axis=1).mean()))
            theta = theta - gamma * slopes.mean(axis=1)
        far = theta - problem.best
        end = float(np.einsum("tp,pq,tq->t", far, problem.H, far).mean() / 2)
        bound = (1 - gamma * curvatures[0]) ** steps * problem.above(np.zeros(P))
        worst = max(worst, end / (bound + gamma * curvatures[-1] * largest / (2 * curvatures[0])))
    return worst
