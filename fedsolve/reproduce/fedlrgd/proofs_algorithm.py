"""Section III-B and Algorithm 1 of Jadbabaie et al. (2023): the identities between its equations."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, gradient
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

SUMS = Check(
    "(35), (38) and (39)",
    "the weights of (35) are the sums of those of (38), and (33), (40) and (41) agree",
    "off",
    1e-9,
)
REPEATED = Check("(37)", "at the probes the weights reproduce the gradients of every sample", "off", 1e-6)
ABOUT = Check(
    "(36) and (33)",
    "elsewhere (33) differs from ∂F/∂θ_i by at most 5 % of the largest |g_i|, r = 5, median of 20",
    "off",
    0.05,
)
EXACT = Check(
    "Algorithm 1, line 10", "epoch t sends v_(t−1): (41) is the gradient of a ridge regression, r = p + 1", "off", 1e-6
)
PRINTED = Check("Algorithm 1, line 10", "… and as printed, where every epoch sends v_1", "off", 1e-6)
CHECKS = (SUMS, REPEATED, ABOUT, EXACT, PRINTED)
RANK = 5


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 38])
    return named({**_weights(rng), **_ridge(rng)})


def _weights(rng: np.random.Generator) -> dict[Check, float]:
    """The logistic loss of Appendix A, p = 2, i = 1, five clients of eight samples."""
    sums, repeated, apart = 0.0, 0.0, []
    for _ in range(20):
        own, x = (rng.random((RANK, 2)), rng.random(RANK)), (rng.random((40, 2)), rng.random(40))
        probes, theta = rng.uniform(-1, 1, (RANK, 2)), rng.uniform(-1, 1, (30, 2))

        def g(rows: tuple[Array, Array], at: Array) -> Array:
            return gradient(rows[0][:, None], rows[1][:, None], at[None])[..., 0]

        inverse = np.linalg.inv(g(own, probes))
        w = g(x, probes) @ inverse  # (38)
        v = np.array([g(x, probes)[k : k + 8].sum(axis=0) @ inverse for k in range(0, 40, 8)])  # (35)
        scale = np.abs(w).max()
        forms = [(1 + one) @ g(own, theta) / 45 for one in (w.sum(axis=0), v.sum(axis=0))]
        sums = max(sums, float(np.abs(w.reshape(5, 8, -1).sum(axis=1) - v).max() / scale))
        sums = max(sums, float(np.abs(forms[0] - forms[1]).max() / scale))
        repeated = max(repeated, float(np.abs(w @ g(own, probes) - g(x, probes)).max() / scale))
        exact = (g(own, theta).sum(axis=0) + g(x, theta).sum(axis=0)) / 45
        apart.append(float(np.abs(forms[1] - exact).max() / np.abs(g(x, theta)).max()))
    return {SUMS: sums, REPEATED: repeated, ABOUT: float(np.median(apart))}


def _ridge(rng: np.random.Generator) -> dict[Check, float]:
    """½(θᵀx − y)² + μ/2 ‖θ‖², p = 2: g_i is of rank p + 1. The second form has v_1 in every place of v."""
    own, x = rng.random((3, 3)), rng.random((40, 3))  # the last column is y
    probes, theta = rng.uniform(-1, 1, (3, 2)), rng.uniform(-3, 3, (30, 2))

    def g(rows: Array, at: Array) -> Array:
        return np.asarray((rows[:, :2] @ at.T - rows[:, 2:]) * rows[:, :1] + MU * at[:, 0])

    v = g(x, probes).sum(axis=0) @ np.linalg.inv(g(own, probes))
    exact = g(own, theta).sum(axis=0) + g(x, theta).sum(axis=0)
    off = [
        float(np.abs((1 + one) @ g(own, theta) - exact).max() / np.abs(exact).max()) for one in (v, v[0] * np.ones(3))
    ]
    return {EXACT: off[0], PRINTED: off[1]}
