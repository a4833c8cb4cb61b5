"""Algorithm 4 on a small logistic regression, in matrices, with every constant of Assumption 1 and every step kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.shed.convex_theory import THIRD
from fedsolve.typing import Array

ALPHA, BETA = 0.1, 0.5  # of the line search


class Agents:
    """Agents with labels of ±1, of equal size or of the sizes given, with weights N_i/N (Assumption 2).

    L_i, K_i  of Assumption 1: THIRD · max ‖x‖ λ_max(Σ x xᵀ/N_i), and λ_max(Σ x xᵀ/N_i)/4 + μ; κ_i = μ
    """

    def __init__(self, seed: int, n: int, agents: int, samples: int | Sequence[int], mu: float) -> None:
        rng = np.random.default_rng((seed, 31))
        scale = 0.7 ** np.arange(n)
        truth = rng.standard_normal(n)
        self.n, self.mu = n, mu
        self.rows = []  # y x
        sizes = [samples] * agents if isinstance(samples, int) else list(samples)
        self.weights = np.array(sizes) / sum(sizes)
        for size in sizes:
            X = rng.standard_normal((size, n)) * scale + 0.3 * rng.standard_normal(n)
            self.rows.append(X * np.sign(X @ truth + rng.logistic(size=size))[:, None])
        grams = [np.linalg.eigvalsh(Z.T @ Z / len(Z))[-1] for Z in self.rows]
        longest = [np.linalg.norm(Z, axis=1).max() for Z in self.rows]
        self.L_i = np.array([THIRD * a * b for a, b in zip(grams, longest, strict=True)])
        self.K_i = np.array([a / 4 + mu for a in grams])
        every = np.concatenate(self.rows)
        top = float(np.linalg.eigvalsh(every.T @ every / len(every))[-1])
        self.L, self.K = THIRD * top * float(np.linalg.norm(every, axis=1).max()), top / 4 + mu
        self.best = self._optimum()

    def mean(self, of: Sequence[Array] | Array) -> Array:
        """Over the agents, with their weights."""
        return np.asarray(np.average(of, axis=0, weights=self.weights))

    def value(self, w: Array) -> float:
        losses = np.array([np.mean(np.logaddexp(0, -Z @ w)) for Z in self.rows])
        return float(self.mean(losses) + self.mu / 2 * w @ w)

    def gradients(self, w: Array) -> list[Array]:
        return [-Z.T @ (1 / (1 + np.exp(Z @ w))) / len(Z) + self.mu * w for Z in self.rows]

    def gradient(self, w: Array) -> Array:
        return self.mean(self.gradients(w))

    def hessians(self, w: Array) -> list[Array]:
        found = []
        for Z in self.rows:
            s = 1 / (1 + np.exp(Z @ w))
            found.append((Z * (s * (1 - s))[:, None]).T @ Z / len(Z) + self.mu * np.eye(self.n))
        return found

    def hessian(self, w: Array) -> Array:
        return self.mean(self.hessians(w))

    def spectra(self, w: Array) -> tuple[Array, Array]:
        """Eigenvalues of every agent, the largest first, and eigenvectors."""
        pairs = [np.linalg.eigh(one) for one in self.hessians(w)]
        return np.array([values[::-1] for values, _ in pairs]), np.array([V[:, ::-1] for _, V in pairs])

    def _optimum(self) -> Array:
        w = np.zeros(self.n)
        for _ in range(100):
            step = np.linalg.solve(self.hessian(w), self.gradient(w))
            while self.value(w - step) > self.value(w) + 1e-15:
                step = step / 2
            w = w - step
        return w


def estimate(values: Array, vectors: Array, counts: Array) -> tuple[list[Array], Array]:
    """Ĥ_i of (30) with ρ_i = λ_{q+1} of (29), and ρ_i."""
    n = values.shape[1]
    rho = np.array([one[min(q, n - 1)] for one, q in zip(values, counts, strict=True)])
    known = np.where(np.arange(n) < counts[:, None], values, rho[:, None])
    return [(V * one) @ V.T for V, one in zip(vectors, known, strict=True)], rho


@dataclass(frozen=True, eq=False)
class Step:
    """One iteration of Algorithm 4."""

    w: Array
    after: Array
    renewed: Array  # θ^{k_t}
    H: Array  # Ĥ
    parts: list[Array]  # Ĥ_i
    rho_i: Array
    rho: float  # ρ̄
    least: float  # λ̄_n
    g: Array
    p: Array
    eta: float
    counts: Array  # q_t of every agent


def run(of: Agents, renews: Callable[[int], bool], iterations: int, increments: Array, start: Array) -> list[Step]:
    """Algorithm 4 with renewals where `renews(t)`, t = 1, 2, …, and so many eigenpairs for each agent: the same in
    every iteration, or a row of `increments` for each."""
    w, renewed, found = start, start, list[Step]()
    values, vectors = of.spectra(start)
    counts = np.zeros(len(of.rows), dtype=int)
    sent = np.broadcast_to(increments, (iterations, len(of.rows)))
    for t in range(1, iterations + 1):
        if renews(t):
            renewed, counts = w, 0 * counts
            values, vectors = of.spectra(w)
        counts = np.minimum(counts + sent[t - 1], of.n - 1)
        parts, rho = estimate(values, vectors, counts)
        H, g = of.mean(parts), of.gradient(w)
        p, eta = np.linalg.solve(H, g), 1.0
        near = norm(g) < 1e-7  # below, values are rounding, and the full step is taken
        while not near and of.value(w - eta * p) > of.value(w) - ALPHA * eta * float(p @ g):
            eta *= BETA
        after = w - eta * p
        means = float(of.mean(rho)), float(of.mean(values[:, -1]))
        found.append(Step(w, after, renewed, H, parts, rho, *means, g, p, eta, counts))
        w = after
    return found
