"""The proof of Theorem 2 of Jadbabaie et al. (2023), (63) to (65): steps and accuracy; and a small instance of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from fedsolve.complexity.fedlrgd_theory import fedlrgd_steps
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_orders import problems
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

REACHED = Check("Theorem 2", "Algorithm 1 with r = 2 and S steps ends within ε where (61) holds with δ of (64)")
TOTAL = Check("(63)", "gradients wrong by 3(B + 3)²δ√p: F(θ^(S)) − F* is at most the last line of (63)")
SERIES = Check("(63)", "the geometric series in (63) is at most κ")
FEWER = AtLeast(
    "(48)", "with S − 1 steps (1 − 1/κ)^(S − 1) times the spread is above ε, as many times", "times", unit="ε"
)
ROOTS = Check("(65)", "δ² ≤ ε/(gap + 9(B + 3)⁴p/2μ) ≤ ε/(9(B + 3)⁴p/2μ) ≤ ¼, each of the three")
ABOVE = Check("After (65)", "δ is at least √((κ − 1) ε/(κ (gap + 9(B + 3)⁴p/2μ)))")
EPOCHS = Check("End of the proof", "r² + (rs + φm) + (r − 1)φm + rS is r² + rs + rS + φmr", "off", 1e-12)
CHECKS = (REACHED, TOTAL, SERIES, FEWER, ROOTS, ABOVE, EPOCHS)
OWN = np.array([0.0, 1.0])  # the server's samples
START, ACCURACIES = 2.0, (1.0, 1e-3, 1e-6)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 32])
    r, s, S, m, phi = rng.uniform(1, 1000, (5, 100))
    whole = r**2 + r * s + r * S + phi * m * r
    apart = np.abs(r**2 + (r * s + phi * m) + (r - 1) * phi * m + r * S - whole) / whole
    return named({**_instances(rng), **_biased(), **_steps(), EPOCHS: apart.max()})


@dataclass(frozen=True)
class Growing:
    """g = θ + (b + e sin θ) x + (L₂/w²) cos θ sin wx, a gradient in one θ that grows with it, e < 1.

    d = 1, η = 2 and l = 1, so that r = 2 with q = 2; see `proofs_gradients`.
    """

    b: float
    e: float
    w: float
    L_2: float = 0.0

    def __call__(self, x: Array, theta: Array | float) -> Array:
        wave = np.cos(theta) * np.sin(self.w * x) * (self.L_2 / self.w**2)
        return np.asarray(theta + (self.b + self.e * np.sin(theta)) * x + wave)

    @property
    def mu(self) -> float:
        return 1 - self.e - self.L_2

    @property
    def L_1(self) -> float:
        return 1 + self.e + self.L_2

    def matrix(self, probes: Array) -> Array:
        """G, (34)."""
        return np.array([self(OWN[:1], probes), self(OWN[1:], probes)])

    def alpha(self, probes: Array) -> float:
        """The least α ≥ 1 with ‖G⁻¹‖ ≤ 2^α."""
        return max(1.0, math.log2(float(np.linalg.norm(np.linalg.inv(self.matrix(probes)), 2))))


def _instances(rng: np.random.Generator) -> dict[Check, float]:
    worst, kept = 0.0, 0
    for _ in range(120):
        plain = Growing(rng.uniform(-4, 4), rng.uniform(0.1, 0.8), rng.uniform(1, 9))
        S, probes, x = int(rng.integers(5, 40)), rng.uniform(-3, 3, 2), rng.random(40)
        delta = (1 - plain.mu / plain.L_1) ** (S / 2)
        g = replace(plain, L_2=0.9 * delta * 4 / 2 ** (2 * plain.alpha(probes) + 2))
        shrink = 1 - g.mu / g.L_1
        delta = shrink ** (S / 2)  # (64)
        if g.mu > 0 and delta <= 0.5 and g.L_2 * 2 ** (2 * g.alpha(probes) + 2) / 4 <= delta:  # (61)
            worst, kept = max(worst, descended(g, x, probes, S)), kept + 1
    return {REACHED: worst if kept >= 30 else math.nan}


def descended(g: Growing, x: Array, probes: Array, S: int) -> float:
    """F(θ^(S)) − F* after S steps of (42), over the ε that the proof promises."""
    left, promised = left_by(g, x, probes, S)
    return left / promised


def left_by(g: Growing, x: Array, probes: Array, S: int) -> tuple[float, float]:
    """F(θ^(S)) − F* after S steps of (42), and the ε that the proof promises."""
    inverse = np.linalg.inv(g.matrix(probes))
    v = sum(g(np.array([one]), probes) @ inverse for one in x)  # (35)
    both = np.concatenate([OWN, x])
    path = [START]
    for _ in range(S):
        theta = path[-1]
        path.append(theta - float(np.sum((1 + v) * g(OWN, theta))) / len(both) / g.L_1)  # (41), (42)
    least, high = -20.0, 20.0
    for _ in range(100):  # the zero of the gradient
        middle = (least + high) / 2
        least, high = (middle, high) if g(both, middle).mean() < 0 else (least, middle)
    places = np.concatenate([np.linspace(min(*path, least), max(*path, least), 100), probes])
    B = float(np.abs(g(np.linspace(0, 1, 101)[:, None], places)).max())

    def gap(end: float) -> float:
        points = np.linspace(least, end, 2001)
        slopes = g(both[:, None], points).mean(axis=0)
        return float(np.sum((slopes[1:] + slopes[:-1]) / 2) * (points[1] - points[0]))

    return gap(path[-1]), (1 - g.mu / g.L_1) ** S * (gap(START) + 9 * (B + 3) ** 4 / (2 * g.mu))


def _biased() -> dict[Check, float]:
    """Errors of the largest norm in one direction, on a quadratic whose curvature is μ everywhere and on another."""
    total, series = 0.0, 0.0
    for kappa, S, flat in product((2.0, 10.0, 100.0), (1, 10, 1000), (True, False)):
        mu, p = 1 / kappa, 4  # L_1 = 1
        size = 3 * (1 + 3) ** 2 * 0.1 * math.sqrt(p)  # B = 1, δ = 0.1
        H = np.full(p, mu) if flat else np.linspace(mu, 1, p)
        theta = np.ones(p)
        start = float(theta @ (H * theta)) / 2
        for _ in range(S):
            theta = theta - (H * theta - size * np.eye(p)[0])
        bound = (1 - mu) ** S * start + size**2 / (2 * mu)
        total = max(total, float(theta @ (H * theta)) / 2 / bound)
        series = max(series, sum((1 - mu) ** k for k in range(S)) / kappa)
    return {TOTAL: total, SERIES: series}


def _steps() -> dict[Check, float]:
    """For some ε, and for the largest that Theorem 2 allows, 9(B + 3)⁴p/8μ."""
    fewer, roots, above = math.inf, 0.0, 0.0
    for one, wanted in product(problems(), (*ACCURACIES, None)):
        constant = 9 * (one.B + 3) ** 4 * one.p / (2 * one.mu)
        epsilon = constant / 4 if wanted is None else wanted
        S, shrink = fedlrgd_steps(one, epsilon), 1 - 1 / one.kappa
        fewer = min(fewer, shrink ** (S - 1) * one.spread / epsilon)
        roots = max(roots, shrink**S * one.spread / epsilon, constant / one.spread, epsilon / constant * 4)
        above = max(above, math.sqrt((one.kappa - 1) * epsilon / (one.kappa * one.spread)) / shrink ** (S / 2))
    return {FEWER: fewer, ROOTS: roots, ABOVE: above}
