"""A problem whose f* is no smoother than r says: inputs on [0, 1], cosines as eigenfunctions, all norms exact.

    C has the eigenvalues σ_i = s i^(−1/γ) with the functions e_i(x) = √2 cos(πix), x uniform
    f* = Σ σ_i^r g_i e_i with g_i = ± a i^-½, so that ‖L^-r f*‖² = a² Σ 1/i grows with the logarithm of their number

Clients may draw x with the density 1 ± h cos(πx), or have ± b (e_1 + e_2 + e_3) added to f*; together they are as
above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedsolve.typing import Array

NOISE = math.sqrt(0.6)  # half the width of uniform noise with the variance 0.2
ADDED = 3  # cosines in which models differ

Solve = Callable[[Array], Array]


@dataclass(frozen=True)
class Sharp:
    """Its exponents r and γ, the number of cosines, s, a, and by how much clients differ: h of inputs, b of models."""

    r: float
    gamma: float
    size: int = 400
    scale: float = 10.0
    amplitude: float = 0.3
    tilt: float = 0.0
    models: float = 0.0

    @property
    def exponent(self) -> float:
        """−r/(2r + γ), of the norm."""
        return -self.r / (2 * self.r + self.gamma)

    def l2(self, total: int) -> float:
        """λ = |D|^(−1/(2r+γ))."""
        return float(total ** (-1 / (2 * self.r + self.gamma)))

    def values(self) -> Array:
        """The eigenvalues σ_i."""
        return np.asarray(self.scale * np.arange(1.0, self.size + 1) ** (-1 / self.gamma))

    def target(self) -> Array:
        """The coefficients of f*, with signs that are the same for every r and γ."""
        i = np.arange(1.0, self.size + 1)
        signs = np.random.default_rng(29).choice([-1.0, 1.0], 5000)[: self.size]
        return np.asarray(self.values() ** self.r * self.amplitude * signs / np.sqrt(i))

    def parts(self, total: int, clients: int, rng: np.random.Generator) -> list[tuple[Array, Array]]:
        """Cosines and targets of every client; an even number of clients where they differ."""
        found = []
        for j, rows in enumerate(np.array_split(np.arange(total), clients)):
            sign = 1.0 if j % 2 else -1.0
            E = cosines(inputs(len(rows), sign * self.tilt, rng), self.size)
            truth = self.target()
            truth[:ADDED] += sign * self.models
            found.append((E, E @ truth + rng.uniform(-NOISE, NOISE, len(rows))))
        return found


def inputs(count: int, tilt: float, rng: np.random.Generator) -> Array:
    """x in [0, 1] with the density 1 + tilt cos(πx)."""
    kept = np.empty(0)
    while len(kept) < count:
        x = rng.uniform(size=2 * count)
        accepted = rng.uniform(size=2 * count) * (1 + abs(tilt)) <= 1 + tilt * np.cos(np.pi * x)
        kept = np.concatenate([kept, x[accepted]])
    return kept[:count]


def cosines(x: Array, size: int) -> Array:
    return np.asarray(math.sqrt(2) * np.cos(np.pi * np.outer(x, np.arange(1, size + 1))))


def solver(X: Array, l2: float) -> Solve:
    """v ↦ (XᵀX/n + λI)⁻¹ v, from whichever Gram matrix is smaller."""
    n, p = X.shape
    if n >= p:
        whole = cho_factor(X.T @ X / n + l2 * np.eye(p))
        return lambda v: np.asarray(cho_solve(whole, v))
    small = cho_factor(X @ X.T / n + l2 * np.eye(n))
    return lambda v: np.asarray((v - X.T @ cho_solve(small, X @ v) / n) / l2)


def errors(of: Sharp, parts: list[tuple[Array, Array]], l2: float, rounds: int) -> dict[str, float]:
    """‖f − f*‖ of KRR, of DKRR and of FedNewton, and the federated errors, in L²."""
    root, truth = np.sqrt(of.values()), of.target()
    pairs = [(E * root, y) for E, y in parts]
    p = np.array([len(y) for _, y in pairs], dtype=float)
    p /= p.sum()
    X, y = (np.concatenate(each) for each in zip(*pairs, strict=True))
    H, moment = X.T @ X / len(y) + l2 * np.eye(of.size), X.T @ y / len(y)
    pooled = cho_solve(cho_factor(H), moment)
    local = [solver(one, l2) for one, _ in pairs] if len(pairs) > 1 else []

    def off(w: Array) -> float:
        return float(np.linalg.norm(root * w - truth))

    found = {"KRR": off(pooled)}
    if local:
        moments = [one.T @ targets / len(targets) for one, targets in pairs]
        w = sum(share * solve(b) for share, solve, b in zip(p, local, moments, strict=True))
        found |= {"DKRR": off(w), "federated, DKRR": float(np.linalg.norm(root * (w - pooled)))}
        for _ in range(rounds):
            g = H @ w - moment
            w = w - sum(share * solve(g) for share, solve in zip(p, local, strict=True))
        found |= {f"#{rounds}": off(w), f"federated, #{rounds}": float(np.linalg.norm(root * (w - pooled)))}
    return found


def rho(of: Sharp, parts: list[tuple[Array, Array]], l2: float) -> float:
    """ρ = λ_max(AH) − 1 of FedNewton, A = Σ p_j H_j⁻¹ and H = Σ p_j H_j: it converges linearly exactly if ρ < 1."""
    root, unit = np.sqrt(of.values()), np.eye(of.size)
    samples = [E * root for E, _ in parts]
    total = sum(len(X) for X in samples)
    H = sum(X.T @ X for X in samples) / total + l2 * unit
    A = sum(len(X) / total * solver(X, l2)(unit) for X in samples)
    half = np.linalg.cholesky(H)
    return float(np.linalg.eigvalsh(half.T @ A @ half)[-1]) - 1
