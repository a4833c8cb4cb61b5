"""How far f_t can be from the truth: bias, variance and heterogeneity, and the bounds of Su et al., section 6.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

They hold where γ < 1 (for FedProx always), in expectation over noise of variance at most σ². `distance` is ‖f_0 − f‖
in the kernel's norm; `difference` is Δ_f = (f_1*(x_1), …, f_M*(x_M)) − f(x), a number for each row (equation 21), zero
where all clients have the same truth f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import Method
from fedsolve.closed_forms.recursion import Decomposition
from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ErrorTerms:
    """Proposition 7's terms.

    Attributes:
        delta_1: δ_1(t) of equation 19.
        delta_2: δ_2(t) of equation 20.
        bias: 3κ δ_1(t) ‖f_0 − f‖².
        variance: 3κ δ_2(t) σ².
        heterogeneity: 3κ ‖Δ_f‖²/N.
        kappa: κ.
    """

    delta_1: float
    delta_2: float
    bias: float
    variance: float
    heterogeneity: float
    kappa: float

    @property
    def bound(self) -> float:
        """The bound on E‖f_t − f‖²_N, the sum of the three (equation 18)."""
        return self.bias + self.variance + self.heterogeneity


def error_terms(
    decomposition: Decomposition, t: int, *, sigma: float, distance: float, difference: Array | None = None
) -> ErrorTerms:
    """Bias, variance and heterogeneity after t rounds (Su et al., Proposition 7).

    Args:
        decomposition: Of the kernel matrix, the clients' sizes and the method.
        t: The round, at least 1.
        sigma: The standard deviation of the noise.
        distance: ‖f_0 − f‖ in the kernel's norm.
        difference: Δ_f; default 0.
    """
    decay, kappa = decomposition.decay ** whole("t", t, 1), decomposition.kappa
    Lam = np.maximum(decomposition.eigenvalues, 0.0)
    delta_1 = float((decay**2 * Lam).max()) / decomposition.method.steps
    delta_2 = float(np.square(1 - decay).mean())
    apart = 0.0 if difference is None else float(np.square(difference).sum()) / decomposition.samples
    return ErrorTerms(
        delta_1, delta_2, 3 * kappa * delta_1 * distance**2, 3 * kappa * delta_2 * sigma**2, 3 * kappa * apart, kappa
    )


def early_stopping_bound(
    t: int, method: Method, kappa: float, distance: float, difference: Array | None = None
) -> float:
    """The bound on E‖f_t − f‖²_N for 1 ≤ t ≤ T, the stopping round (Su et al., Theorem 8)."""
    time = method.step_size * whole("t", t, 1) * method.steps
    return 3 * kappa / (2 * math.e * time) * (distance**2 + 1) + _heterogeneity(kappa, difference)


def finite_rank_bound(
    t: int,
    method: Method,
    kappa: float,
    eigenvalues: Array,
    distance: float,
    sigma: float,
    difference: Array | None = None,
) -> float:
    """The bound on E‖f_t − f‖²_N for any t where the kernel matrix has a finite rank (Su et al., Theorem 11).

    Args:
        t: The round.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        kappa: κ.
        eigenvalues: λ, all N of K_x; those that are zero up to rounding do not count to the rank.
        distance: ‖f_0 − f‖ in the kernel's norm.
        sigma: The standard deviation of the noise.
        difference: Δ_f; default 0.
    """
    lam = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    rank = int((lam > _EPS * len(lam) * lam[0]).sum())
    if not rank:
        raise ConfigError("a kernel matrix of rank 0 fits nothing")
    time = method.step_size * method.steps
    bias = 3 * kappa / time * distance**2 * math.exp(-2 * time / kappa * float(lam[rank - 1]) * t)
    return bias + 3 * kappa * sigma**2 * rank / len(lam) + _heterogeneity(kappa, difference)


def coefficient_bound(
    t: int, method: Method, kappa: float, rho: float, samples: int, dimension: int, distance: float, sigma: float
) -> float:
    """The bound on E‖θ_t − θ̄‖² (Su et al., Theorem 12, equation 25).

    Args:
        t: The round.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        kappa: κ.
        rho: ρ_N, the smallest eigenvalue of ΦᵀΦ/N.
        samples: N.
        dimension: d, the number of features.
        distance: ‖θ_0 − θ̄‖; θ̄ is the limiting point of noiseless data.
        sigma: The standard deviation of the noise.

    Returns:
        The bound; infinite where rho is 0.
    """
    if rho <= 0:
        return math.inf
    decay = 1 - method.steps * method.step_size * rho / kappa
    return decay ** (2 * t) * distance**2 + sigma**2 * kappa * dimension / (samples * rho)


def truth_distance_bound(kappa: float, rho: float, samples: int, difference: Array) -> float:
    """The bound on ‖θ̄ − θ_j*‖, for the Δ_f of f = f_j* (Su et al., Theorem 12, equation 26)."""
    return math.inf if rho <= 0 else float(np.linalg.norm(difference)) * math.sqrt(kappa / (samples * rho))


def _heterogeneity(kappa: float, difference: Array | None) -> float:
    return 0.0 if difference is None else 3 * kappa * float(np.square(difference).mean())
