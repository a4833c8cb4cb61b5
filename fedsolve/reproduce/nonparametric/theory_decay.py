"""Theorem 8 of Su, Xu and Yang (2023): how fast errors fall, for the f of norm 1 that is learned most slowly.

Of all f with ‖f_0 − f‖ = 1 the largest bias at a round is ‖L^t K_x (L^t)ᵀ‖; the variance is σ²‖I − L^t‖_F²/N.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import ExactKernel, Gaussian, Matern, Sobolev
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.nonparametric.theory_rates import posed, slope
from fedsolve.typing import Array

RATE = Check(
    "Theorem 8",
    "without noise 2eηts times the error of the worst f of norm 1 is at most κ, t = 1 to 10,000: Gaussian, Matérn and "
    "min(x, y), N = 200, four methods",
)
NO_FASTER = Check(
    "Theorem 8", "… and at least 0.3, so that the error falls like 1/t, up to a factor: 0.3 over it", "times", 1.0
)
TO_T = Check(
    "Theorem 8",
    "… and with noise, σ = 0.05, it falls from t = 1 to T at least like t^(−0.8): min(x, y), s = 1 and FedProx",
    "exponent",
    -0.8,
)
CHECKS = (RATE, NO_FASTER, TO_T)
KERNELS: tuple[ExactKernel, ...] = (Gaussian(2.0), Matern(1.5), Sobolev())
ROUNDS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
TOTAL, QUIET = 200, 0.05  # rows, and a σ with which T is late enough for a rate


def measured(seed: int) -> dict[str, float]:
    """Each check's worst value over kernels, methods and rounds."""
    shares, inverses, noisy = [], [], []
    for kernel in KERNELS:
        X, sizes, _ = posed(kernel, TOTAL, seed)
        K = kernel(X)
        for method in _methods(0.9 / gamma(K, sizes, 1.0)):
            found = Decomposition.of(K, sizes, method)
            for t in ROUNDS:
                scaled = 2 * math.e * method.step_size * method.steps * t * worst(found, K, t, 0.0)
                shares.append(scaled / found.kappa)
                inverses.append(0.3 / scaled)
            if isinstance(kernel, Sobolev) and method.steps == 1:
                T = stopping_round(found.kernel_eigenvalues, QUIET, TOTAL, method.step_size, 1) or 0
                some = np.unique(np.geomspace(1, max(T, 2), 8).astype(int)).tolist()
                noisy.append(slope(some, [worst(found, K, t, QUIET) for t in some]) if T >= 10 else math.nan)
    steepest = float(np.max(noisy))  # NaN if one is
    return {RATE.claim: max(shares), NO_FASTER.claim: max(inverses), TO_T.claim: steepest}


def worst(found: Decomposition, K: Array, t: int, sigma: float) -> float:
    """The largest E‖f_t − f‖²_N over f with ‖f_0 − f‖ = 1, for one truth f."""
    left: Array = (found.vectors * found.decay**t) @ found.inverse
    bias = float(np.linalg.norm(left @ K @ left.T, 2)) / len(K)
    return bias + sigma**2 * float(np.square(np.eye(len(K)) - left).sum()) / len(K)


def _methods(eta: float) -> Iterator[Method]:
    yield from (LocalSteps(eta, s) for s in (1, 5, 10))
    yield ProximalStep(eta)
