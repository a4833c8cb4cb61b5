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
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import at_least_zero, whole
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ErrorTerms:
    """Proposition 7's terms.

    Attributes:
        delta_1: δ_1(t), the largest of the eigenvalues of K_x P/s, each times how much of it is left after t rounds,
            squared (bounded in equation 19).
        delta_2: δ_2(t), the mean square of what t rounds have learned of each direction (bounded in equation 20).
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
    sigma, distance = at_least_zero("sigma", sigma), at_least_zero("distance", distance)
    Lam = np.maximum(decomposition.eigenvalues, 0.0)
    delta_1 = float((decay**2 * Lam).max()) / decomposition.method.steps
    delta_2 = float(np.square(1 - decay).mean())
    apart = _heterogeneity(kappa, difference, decomposition.samples)
    return ErrorTerms(delta_1, delta_2, 3 * kappa * delta_1 * distance**2, 3 * kappa * delta_2 * sigma**2, apart, kappa)


def early_stopping_bound(
    t: int,
    method: Method,
    kappa: float,
    distance: float,
    difference: Array | None = None,
    norm: float = 1.0,
) -> float:
    """The bound on E‖f_t − f‖²_N for 1 ≤ t ≤ T, the stopping round (Su et al., Theorem 8).

    Args:
        t: The round.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        kappa: κ.
        distance: ‖f_0 − f‖ in the kernel's norm.
        difference: Δ_f; default 0.
        norm: B, as it was given to `stopping_round`: up to its T the variance is at most 3κB²/(2eηts). 1, the default,
            is the paper's rule.
    """
    time = method.step_size * whole("t", t, 1) * method.steps
    squares = at_least_zero("distance", distance) ** 2 + at_least_zero("norm", norm) ** 2
    return 3 * _condition(kappa) / (2 * math.e * time) * squares + _heterogeneity(kappa, difference)


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
        eigenvalues: λ, all N of K_x. Those that are zero up to rounding do not count to the rank. What they may add
            to bias and variance, all the same, is added to the bound: it is nothing if they are 0.
        distance: ‖f_0 − f‖ in the kernel's norm.
        sigma: The standard deviation of the noise.
        difference: Δ_f; default 0.
    """
    lam = np.maximum(np.sort(np.asarray(eigenvalues, dtype=np.float64).ravel())[::-1], 0.0)
    if not len(lam) or not lam[0] > 0 or not np.isfinite(lam).all():
        raise ConfigError("a kernel matrix of rank 0 fits nothing; eigenvalues are finite, and some are positive")
    rank = int((lam > _EPS * len(lam) * lam[0]).sum())
    left_out = lam[rank:]
    kappa, pace = _condition(kappa), method.step_size * method.steps
    sigma, distance = at_least_zero("sigma", sigma), at_least_zero("distance", distance)
    time = pace * whole("t", t, 1)
    # A direction with eigenvalue λ adds at most λ to δ_1 and min(1, ηtsλ)/N to δ_2, whether or not it is counted.
    delta_1 = math.exp(-2 * time / kappa * float(lam[rank - 1])) / pace + float(left_out.max(initial=0.0))
    delta_2 = (rank + float(np.minimum(1.0, time * left_out).sum())) / len(lam)
    return 3 * kappa * (delta_1 * distance**2 + delta_2 * sigma**2) + _heterogeneity(kappa, difference, len(lam))


def coefficient_bound(
    t: int,
    method: Method,
    *,
    kappa: float,
    rho: float,
    samples: int,
    dimension: int,
    distance: float,
    sigma: float,
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
    whole("t", t, 1)
    _condition(kappa)
    sigma, distance = at_least_zero("sigma", sigma), at_least_zero("distance", distance)
    if at_least_zero("rho", rho) == 0:
        return math.inf
    decay = 1 - method.steps * method.step_size * rho / kappa
    if decay < 0:
        raise ConfigError(
            f"the bound needs ηsρ/κ of at most 1, which γ < 1 ensures, got {1 - decay:.3g}; shorten the step size"
        )
    noise = sigma**2 * kappa * whole("dimension", dimension, 1) / (whole("samples", samples, 1) * rho)
    return decay ** (2 * t) * distance**2 + noise


def truth_distance_bound(kappa: float, rho: float, samples: int, difference: Array) -> float:
    """The bound on ‖θ̄ − θ_j*‖, for the Δ_f of f = f_j* (Su et al., Theorem 12, equation 26)."""
    if at_least_zero("rho", rho) == 0:
        return math.inf
    return math.sqrt(_condition(kappa) * _mean_square(difference, whole("samples", samples, 1)) / rho)


def _heterogeneity(kappa: float, difference: Array | None, samples: int | None = None) -> float:
    """3κ ‖Δ_f‖²/N."""
    return 0.0 if difference is None else 3 * kappa * _mean_square(difference, samples)


def _mean_square(difference: Array, samples: int | None) -> float:
    found = np.asarray(difference, dtype=np.float64)
    expected = (len(found) if samples is None and found.ndim else samples,)
    if found.shape != expected or not len(found) or not np.isfinite(found).all():
        raise DataError(
            f"difference is Δ_f, a finite number for each of {samples or 'N'} rows; got shape {found.shape}"
        )
    return float(np.square(found).mean())


def _condition(kappa: float) -> float:
    if not 1 <= kappa < math.inf:
        raise ConfigError(f"kappa bounds a condition number, so it is at least 1; got {kappa!r}")
    return kappa
