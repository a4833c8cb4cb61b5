"""Matrices of Jadbabaie et al. (2023): where G of a ridge regression and 𝒫 of (46) can be inverted, and kernels."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_monomials import monomials
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, gradient
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

RIDGE = AtLeast(
    "Assumption 4",
    "ridge regression, p = 2: G⁽ⁱ⁾ for r = 4 to 6 has a least singular value above rounding",
    "times",
    unit="times rounding, where it is largest",
)
SMALL = AtLeast("Assumption 4", "… and for r = 2 and 3", "times", unit="times rounding")
SYMMETRIC = AtLeast(
    "Section II-C",
    "g_i is not symmetric: ‖G − Gᵀ‖/‖G‖ of g_1 at equal points, its median of 100",
    "times",
    0.1,
    unit="of ‖G‖",
)
INDEFINITE = AtLeast(
    "Section II-C",
    "to be positive definite is a stronger condition: share of invertible G + Gᵀ that are not, r = 4",
    "times",
    50.0,
    "% of the draws",
)
APPROXIMATE = AtLeast(
    "Section III-C, (46)",
    "𝒫⁽ⁱ⁾ can be inverted for samples drawn uniformly, d = 1, l = 1, |S| = 4: share of 1,000 draws",
    "times",
    50.0,
    "% of the draws",
)
REGULAR = AtLeast("Section III-C, (46)", "… among those draws in which Φ can", "times", 100.0, "% of the draws")
CHECKS = (RIDGE, SMALL, SYMMETRIC, INDEFINITE, APPROXIMATE, REGULAR)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 59])
    return named({**_gradients(rng), **_approximate(rng)})


def over_rounding(M: Array) -> float:
    """The least singular value over ε_machine r σ_1."""
    scales = np.linalg.svd(M, compute_uv=False)
    return float(scales[-1] / (np.finfo(float).eps * len(M) * scales[0]))


def _gradients(rng: np.random.Generator) -> dict[Check, float]:
    least: dict[Check, float] = {RIDGE: 0.0, SMALL: math.inf}
    for r, _ in product(range(2, 7), range(20)):
        x, theta = rng.random((r, 3)), rng.uniform(-1, 1, (r, 2))
        found = over_rounding((x[:, :2] @ theta.T - x[:, 2:]) * x[:, :1] + MU * theta[:, 0])
        if r <= 3:  # p + 1
            least[SMALL] = min(least[SMALL], found)
        else:
            least[RIDGE] = max(least[RIDGE], found)
    apart, definite = [], []
    for _ in range(100):
        x = rng.random((4, 2))
        G = gradient(x[:, None], np.full((4, 1), 0.5), x[None])[..., 0]
        apart.append(float(np.linalg.norm(G - G.T) / np.linalg.norm(G)))
        definite.append(bool(np.linalg.eigvalsh(G + G.T)[0] > 0) or over_rounding(G) < 1)
    return {**least, SYMMETRIC: float(np.median(apart)), INDEFINITE: 100 * (1 - float(np.mean(definite)))}


def _approximate(rng: np.random.Generator) -> dict[Check, float]:
    """g = sin(ϑx): 𝒫 of eight samples and eight ϑ, from the Taylor polynomials around the middles of four intervals."""
    inverted, among = [], []
    for _ in range(1000):
        x, theta = rng.random(8), rng.uniform(-20, 20, 8)
        centres = (np.floor(x * 4) + 0.5) / 4
        P = np.sin(centres[:, None] * theta) + (x - centres)[:, None] * theta * np.cos(centres[:, None] * theta)
        inverted.append(over_rounding(P) > 1)
        if over_rounding(monomials(x, 4)) > 1:
            among.append(inverted[-1])
    return {APPROXIMATE: 100 * float(np.mean(inverted)), REGULAR: 100 * float(np.mean(among))}
