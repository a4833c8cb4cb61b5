"""When gradient steps on least squares begin to fit the noise: the stopping time of Su, Xu and Yang.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (equations 22 and 23)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216
The rule for one machine is that of Raskutti, Wainwright and Yu, "Early stopping and non-parametric regression", 2014.

After t rounds of s steps of size η the bias is at most of the order 1/x and the variance of x R²(1/√x) σ², with
x = ηts. Both depend on t, η and s through x only, and the rule stops where they meet. The printed equation (23) has
σηts under its root; the proof of Theorem 8 uses R(1/√x) ≤ 1/(√(2e) σ x), and that is what is computed here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedsolve.errors import ConfigError


def local_complexity(eigenvalues: NDArray[np.float64], radius: float, samples: float | None = None) -> float:
    """R(ε) = √(Σ min(λ_i, ε²) / N), the empirical Rademacher complexity (equation 22).

    Args:
        eigenvalues: Those of K/N with K the kernel matrix of the N rows, or of ΦᵀΦ/N; zeros may be left out.
        radius: ε.
        samples: N; by default the number of eigenvalues.
    """
    spectrum, n = _checked(eigenvalues, samples)
    return math.sqrt(float(np.minimum(spectrum, radius**2).sum()) / n)


def stopping_horizon(eigenvalues: NDArray[np.float64], sigma: float, samples: float | None = None) -> float:
    """The x at which R(1/√x) = 1/(√(2e) σ x): how far to go, as the sum of all step sizes.

    Infinite if no eigenvalue is positive, because then nothing is ever learned.

    Args:
        eigenvalues, samples: As in `local_complexity`.
        sigma: The standard deviation of the noise, positive.
    """
    spectrum, n = _checked(eigenvalues, samples)
    if not 0 < sigma < math.inf:
        raise ConfigError(f"sigma is the standard deviation of the noise, a positive number, got {sigma!r}")
    # Squared and multiplied by N x² the equation reads  Σ min(λ_i x², x) = N/(2eσ²):  the left side grows with x, and
    # between 1/λ_k and 1/λ_{k+1} it is k x + x² Σ_{i>k} λ_i.
    level = n / (2 * math.e * sigma**2)
    rest = float(spectrum.sum())
    for k in range(len(spectrum) + 1):
        end = 1.0 / spectrum[k] if k < len(spectrum) else math.inf
        root = _positive_root(k, rest, level)
        if root <= end:
            return root
        rest = float(spectrum[k + 1 :].sum())
    return math.inf


def stopping_time(
    eigenvalues: NDArray[np.float64],
    sigma: float,
    step_size: float,
    steps: int = 1,
    *,
    samples: float | None = None,
) -> int:
    """T = max{t : R(1/√(ηts)) ≤ 1/(√(2e) σηts)}, the number of rounds to run (equation 23).

    Args:
        eigenvalues: Those of K/N with K the kernel matrix of the N rows, or of ΦᵀΦ/N; zeros may be left out.
        sigma: The standard deviation of the noise, positive.
        step_size: η; for FedProx 1/pull.
        steps: s, the steps of each client in a round; 1 for FedProx.
        samples: N; by default the number of eigenvalues.

    Returns:
        T; 0 if already the first round goes too far. η·T·s is the horizon rounded down to a multiple of η·s.

    Raises:
        ConfigError: If sigma, step_size, steps or samples is not positive, or no eigenvalue is: then there is no T.
    """
    if not (0 < step_size < math.inf and steps >= 1):
        raise ConfigError(f"step_size is positive and steps at least 1, got {step_size!r} and {steps!r}")
    horizon = stopping_horizon(eigenvalues, sigma, samples)
    if horizon == math.inf:
        raise ConfigError("no eigenvalue is positive: nothing can be learned, so there is no time to stop at")
    return math.floor(horizon / (step_size * steps) * (1 + 1e-12))  # a multiple of η·s counts in spite of rounding


def _positive_root(linear: float, square: float, level: float) -> float:
    """The x > 0 with linear·x + square·x² = level; infinite if both are zero."""
    if linear == 0 and square <= 0:
        return math.inf
    return 2 * level / (linear + math.sqrt(linear**2 + 4 * max(square, 0.0) * level))


def _checked(eigenvalues: NDArray[np.float64], samples: float | None) -> tuple[NDArray[np.float64], float]:
    """The positive eigenvalues, largest first, and N."""
    found = np.asarray(eigenvalues, dtype=np.float64).reshape(-1)
    if not np.isfinite(found).all():
        raise ConfigError("the eigenvalues should be finite numbers")
    n = float(len(found)) if samples is None else float(samples)
    if not 0 < n < math.inf:
        raise ConfigError(f"samples is the number of rows, positive, got {samples!r}")
    return np.sort(found[found > 0])[::-1], n
