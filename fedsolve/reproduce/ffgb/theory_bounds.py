"""The bounds of Theorems 4.1, 4.3 and 4.4, term by term, with every constant hidden in O(·) set to 1.

Shen, Hassani, Kale and Karbasi (2022). μ, γ, G, K and T as there; `start` is ‖f⁰ − f*‖².
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """What all three bounds depend on."""

    start: float
    K: int
    T: int
    mu: float
    gamma: float
    G: float

    def initial(self) -> float:
        return self.start / (self.K * self.T)

    def drift(self, square: float) -> float:
        """K G² log(KT) / (T μ² γ²): clients that take K steps by themselves move apart."""
        return self.K * square * math.log(self.K * self.T) / (self.T * (self.mu * self.gamma) ** 2)


def theorem_4_1(s: Setting, omega_tv: float) -> dict[str, float]:
    """The terms as restated in Theorem D.1, where the last one has μ² and not μ."""
    scale = (s.G / (s.mu * s.gamma)) ** 2
    return {
        "start": s.initial(),
        "drift": s.drift(s.G**2),
        "weak learner": (1 - s.gamma) ** 2 * scale / s.K,
        "inputs": scale * omega_tv,
    }


def theorem_4_3(s: Setting) -> dict[str, float]:
    """The terms for equal inputs."""
    left = (1 - s.gamma) * s.G**2 / s.gamma**2
    return {
        "start": s.initial(),
        "drift": s.drift(s.G**2),
        "weak learner": left / (s.K * s.mu**2),
        "both": left * math.log(s.K * s.T) / (s.K * s.T * s.mu),
    }


def theorem_4_4(s: Setting, omega_w1: float, L: float, D: float, B: float) -> dict[str, float]:
    """The terms for the square loss; `s.G` is that of the theorem, from W_2."""
    radius = L * (L * D + B) * omega_w1
    return {
        "start": s.initial(),
        "drift": s.drift(radius + s.G**2),
        "weak learner": ((1 - s.gamma) * B / (s.mu * s.gamma)) ** 2 / s.K,
        "inputs": radius / (s.gamma**2 * s.mu),
    }


def effective_gamma(gamma: float, K: int) -> float:
    """What K steps with an oracle h = γφ and a residual that begins anew make of γ: the mean of 1 − (1 − γ)^k."""
    return 1 - (1 - gamma) * (1 - (1 - gamma) ** K) / (gamma * K)
