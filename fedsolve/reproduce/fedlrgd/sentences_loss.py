"""Appendix A and Lemma 4 of Jadbabaie et al. (2023) beside other modules: far θ, equalities, spectra of kernels."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_cubic import h
from fedsolve.reproduce.fedlrgd.remarks_units import _difference as differences
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

SMOOTH = Check(
    "Section I; Section II-C",
    "logistic and ridge regression: difference quotients of g_i in x, orders 1 to 4, at h = 1/256 over 1/128",
    "times",
    1.2,
)
FAR = Check("Appendix A, (68)", "the gradient is Lipschitz in θ with L_1 = (d − 1)/2 + μ, θ of norm up to 1,000")
QUARTER = Check("Appendix A", "the largest slope of the sigmoid is ¼", "off", 1e-9)
REMAINDER = Check(
    "Proof of Lemma 4", "h(t) − ½ − t/√6 over t²/2 is between the least and the largest h'' on [0, t]", "off", 1e-6
)
CONVERSE = Check(
    "Section II-C",
    "Fourier coefficients of size k^(−s), s = 2.5 to 5.5: differences of order 6 fall like h^(s − 1)",
    "off",
    0.15,
)
CHECKS = (SMOOTH, FAR, QUARTER, REMAINDER, CONVERSE)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 74])
    t = np.linspace(-30, 30, 60_001)
    share = sigmoid(t)
    return named(
        {
            SMOOTH: _smooth(rng),
            FAR: _far(rng),
            QUARTER: abs(float((share * (1 - share)).max()) - 0.25),
            REMAINDER: _remainder(),
            CONVERSE: _converse(),
        }
    )


def _smooth(rng: np.random.Generator) -> float:
    """Along lines in [0, 1]³ with labels on them: p = 2, |θ_i| ≤ 3."""
    worst = 0.0
    t = np.arange(0, 1, 1 / 4096)[:, None]
    for _ in range(20):
        theta, (start, end) = rng.uniform(-3, 3, 2), rng.random((2, 3))
        rows = start + t * (end - start)
        X, y = rows[:, :2], rows[:, 2]
        for g in ((sigmoid(X @ theta) - y) * X[:, 0], (X @ theta - y) * X[:, 0]):
            for order in range(1, 5):
                coarse, fine = (
                    float(np.abs(differences(g, order, step)).max()) / (step / 4096) ** order for step in (32, 16)
                )
                if coarse > 1e-3:  # of a polynomial all above its degree are rounding
                    worst = max(worst, fine / coarse)
    return worst


def _far(rng: np.random.Generator) -> float:
    worst = 0.0
    for d in (2, 3, 6):
        x, y = rng.random((9000, d - 1)), rng.random(9000)
        size = 10 ** rng.uniform(-1, 3, (9000, 1))
        theta = size * rng.standard_normal((9000, d - 1)) / math.sqrt(d - 1)
        other = theta + 10 ** rng.uniform(-2, 1, (9000, 1)) * rng.standard_normal((9000, d - 1))
        moved = np.linalg.norm(_gradient(x, y, theta) - _gradient(x, y, other), axis=1)
        worst = max(worst, float((moved / np.linalg.norm(theta - other, axis=1)).max()) / ((d - 1) / 2 + MU))
    return worst


def _gradient(x: Array, y: Array, theta: Array) -> Array:
    """That of `theory_smoothness` for θ so far away that exp would overflow."""
    share = sigmoid(np.clip((x * theta).sum(axis=1), -500, 500))
    return np.asarray((share - y)[:, None] * x + MU * theta)


def _remainder() -> float:
    """h'' as printed (which `proofs_cubic` compares with differences)."""

    def second(t: Array) -> Array:
        angle = np.arcsin(1 - t**2) / 3 + 2 * np.pi / 3
        return np.asarray(-4 / (9 * (2 - t**2)) * np.sin(angle) - 2 * t / (3 * (2 - t**2) ** 1.5) * np.cos(angle))

    off = 0.0
    for t in np.linspace(0.01, 1, 200):
        bends = second(np.linspace(0, t, 2001))
        rest = float(2 * (h(np.array(t)) - 0.5 - t / math.sqrt(6)) / t**2)
        off = max(off, float(bends.min()) - rest, rest - float(bends.max()))
    return off


def _converse() -> float:
    """Σ k^(−s) cos(2πkt), the least smooth function with such coefficients: s − 1 is its Hölder exponent."""
    n, worst = 2**14, 0.0
    k = np.arange(1, n // 4)
    for s in (2.5, 3.5, 4.5, 5.5):
        spectrum = np.zeros(n // 2 + 1)
        spectrum[1 : n // 4] = k**-s * n / 2
        values = np.tile(np.fft.irfft(spectrum, n), 2)
        sizes = [float(np.abs(differences(values, 6, step)).max()) for step in (256, 32)]
        worst = max(worst, abs(s - 1 - math.log(sizes[0] / sizes[1]) / math.log(8)))
    return worst
