"""When to stop before noise is fitted: the stopping time of Su et al. (equation 23), and σ estimated from residuals.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

Everything here is a function of eigenvalues: those of K/N for a kernel matrix K of N rows, or those of ΦᵀΦ/N for a
matrix Φ of features, which has the same ones above zero and is a sum over clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

MOST_FITTED = 0.9  # of the rows: the largest number of effective parameters that σ is estimated with
_EPS = float(np.finfo(np.float64).eps)


def rademacher(eigenvalues: Array, epsilon: float, samples: int) -> float:
    """The empirical Rademacher complexity R(ε) = √((1/N) Σ min{λ_i, ε²}) (Su et al., equation 22).

    Args:
        eigenvalues: Of K/N or ΦᵀΦ/N; zeros may be left out.
        epsilon: The radius.
        samples: N, the rows of all clients together.
    """
    lam = _spectrum(eigenvalues)
    return math.sqrt(float(np.minimum(lam, epsilon**2).sum()) / whole("samples", samples, 1))


def stopping_time(eigenvalues: Array, noise: float, samples: int, norm: float = 1.0) -> float:
    """The longest time u = η·t·s for which R(1/√u) ≤ B/(√(2e)·σ·u) (Su et al., equation 23, where B is 1).

    (The root in the paper's equation covers 2e only, as its proofs use it.) Beyond u the bound on the variance,
    σ²uR²(1/√u), outweighs that on the bias, B²/(2eu). Infinite if there is no noise or nothing to fit it with.

    Args:
        eigenvalues: Of K/N or ΦᵀΦ/N; zeros may be left out.
        noise: σ, the standard deviation of the noise.
        samples: N, the rows of all clients together.
        norm: B, the norm of f* − f_0 in the kernel's space. 1, the default, is the paper's rule: it stops too early
            where the truth is larger, and depends on the units of the targets. `fit_spectrum` estimates it.
    """
    positive = all(isinstance(one, int | float | np.number) and 0 <= float(one) < math.inf for one in (noise, norm))
    if not positive or norm == 0:
        raise ConfigError(f"noise is a number of at least 0 and norm a positive one, got {noise!r} and {norm!r}")
    lam = np.sort(_spectrum(eigenvalues))[::-1]
    lam, N = lam[lam > 0], whole("samples", samples, 1)
    if not len(lam) or noise == 0:
        return math.inf
    # u²R²(1/√u) = (1/N) Σ min{λ_i u², u} rises with u; it is (k u + u² Σ_{i>k} λ_i)/N while k eigenvalues exceed 1/u.
    level = N / (2 * math.e) * (float(norm) / float(noise)) ** 2
    tails = np.append(np.cumsum(lam[::-1])[::-1], 0.0)  # tails[k] = Σ_{i>k} λ_i
    ends = 1 / lam  # where the k-th eigenvalue reaches 1/u
    heights = np.arange(1, len(lam) + 1) * ends + ends**2 * tails[1:]
    k = int(np.searchsorted(heights, level))
    return float(2 * level / (k + math.sqrt(k * k + 4 * tails[k] * level)))


def stopping_round(
    eigenvalues: Array, noise: float, samples: int, step_size: float, steps: int = 1, norm: float = 1.0
) -> int | None:
    """T, the round after which FedAvg or FedProx should stop (Su et al., equation 23).

    Args:
        eigenvalues: Of K/N or ΦᵀΦ/N; zeros may be left out.
        noise: σ, the standard deviation of the noise.
        samples: N, the rows of all clients together.
        step_size: η; of FedProx 1/pull.
        steps: s, the local steps of FedAvg; 1 for FedProx.
        norm: B, the norm of f* − f_0 in the kernel's space; 1, the default, is the paper's rule. See `stopping_time`.

    Returns:
        T. 0 means that even one round fits more noise than signal; None that there is no reason to stop.
    """
    if not 0 < step_size < math.inf:
        raise ConfigError(f"step_size is a positive number, got {step_size!r}")
    ratio = stopping_time(eigenvalues, noise, samples, norm) / (step_size * whole("steps", steps, 1))
    return None if math.isinf(ratio) else math.floor(ratio * (1 + 8 * _EPS))


# ── the noise ──


@dataclass(frozen=True)
class SpectrumFit:
    """What a ridge regression says of noise and signal.

    Attributes:
        noise: σ̂.
        norm: ‖f̂‖ in the kernel's space, an estimate of ‖f*‖; averaged over outputs as the root of mean squares.
        penalty: The ridge penalty, chosen by generalised cross-validation.
        freedom: tr S, the effective number of parameters.
    """

    noise: float
    norm: float
    penalty: float
    freedom: float


def noise_from_spectrum(eigenvalues: Array, projections: Array, mean_square: float, samples: int) -> float:
    """σ estimated from residuals: the `noise` of `fit_spectrum`."""
    return fit_spectrum(eigenvalues, projections, mean_square, samples).noise


def fit_spectrum(eigenvalues: Array, projections: Array, mean_square: float, samples: int) -> SpectrumFit:
    """σ estimated from the residuals of a ridge regression: σ̂² = ‖y − Sy‖² / tr((I − S)²).

    S is the ridge regression of the rows' targets on the kernel or the features, its penalty chosen by generalised
    cross-validation among those that fit at most 90 % of the rows' degrees of freedom. The denominator counts the
    degrees of freedom that are left. Up to the choice of the penalty the estimate of σ² is too large by the squared
    bias of that regression, ‖(I − S) f*‖² / tr((I − S)²): it rather says too much than too little, and a run stops
    earlier.

    Args:
        eigenvalues: λ_i, of K/N or of ΦᵀΦ/N; zeros may be left out.
        projections: c_i = (u_iᵀy)²/N for the eigenvectors u_i of K/N. From features: (q_iᵀΦᵀy/N)²/λ_i for the
            eigenpairs (λ_i, q_i) of ΦᵀΦ/N, which sums over clients give. Averaged over outputs, if there are several.
        mean_square: Σ y²/N, averaged over outputs.
        samples: N, the rows of all clients together.
    """
    lam, c = np.asarray(eigenvalues, dtype=np.float64), np.asarray(projections, dtype=np.float64)
    N = whole("samples", samples, 1)
    if lam.shape != c.shape or lam.ndim != 1:
        raise DataError(f"a projection for each eigenvalue is needed, got shapes {c.shape} and {lam.shape}")
    _spectrum(lam)
    kept = lam > _EPS * max(len(lam), 1) * lam.max(initial=0.0)
    lam, c = lam[kept], c[kept]
    if not len(lam):
        return SpectrumFit(math.sqrt(mean_square), 0.0, 0.0, 0.0)
    outside = max(mean_square - float(c.sum()), 0.0)  # what no penalty can fit

    def left(log_penalty: float) -> tuple[float, float, float]:
        """RSS/N, tr(I − S)/N and tr((I − S)²)/N."""
        shrunk = math.exp(log_penalty) / (lam + math.exp(log_penalty))
        rest = (N - len(lam)) / N
        return outside + float(c @ shrunk**2), rest + float(shrunk.sum()) / N, rest + float(shrunk @ shrunk) / N

    def gcv(log_penalty: float) -> float:
        rss, trace, _ = left(log_penalty)
        return rss / trace**2 if trace >= 1 - MOST_FITTED else math.inf

    grid = np.linspace(math.log(lam.max() * _EPS), math.log(lam.max()) + 7, 400)
    scores = np.array([gcv(one) for one in grid])
    if not np.isfinite(scores).any():
        raise DataError(
            "a ridge regression that leaves degrees of freedom is needed to estimate the noise; give noise="
        )
    best = int(np.argmin(scores))
    before = best - 1 if best and math.isfinite(scores[best - 1]) else best  # no penalty below it may be tried
    around = (float(grid[before]), float(grid[min(best + 1, len(grid) - 1)]))
    refined = float(minimize_scalar(gcv, bounds=around, method="bounded").x)
    chosen = refined if gcv(refined) < scores[best] else float(grid[best])
    rss, trace, squares = left(chosen)
    norm = math.sqrt(float(np.sum(c * lam / (lam + math.exp(chosen)) ** 2)))
    return SpectrumFit(math.sqrt(rss / squares), norm, math.exp(chosen), N * (1 - trace))


def noise_from_kernel(K: Array, y: Array) -> float:
    """σ estimated from all rows in one place: the `noise` of `fit_kernel`."""
    return fit_kernel(K, y).noise


def fit_kernel(K: Array, y: Array) -> SpectrumFit:
    """`fit_spectrum` of all rows in one place, for simulation.

    Args:
        K: The kernel matrix of all rows.
        y: Their targets, a column for each output.
    """
    K, y = np.asarray(K, dtype=np.float64), np.asarray(y, dtype=np.float64)
    values, vectors = np.linalg.eigh(K / len(K))
    y = y.reshape(len(y), -1)
    projections = np.square(vectors.T @ y).mean(axis=1) / len(y)
    return fit_spectrum(values, projections, float(np.square(y).mean()), len(y))


def _spectrum(eigenvalues: Array) -> Array:
    """The eigenvalues, those that rounding made negative as 0. Raises DataError for others than a kernel has."""
    lam = np.asarray(eigenvalues, dtype=np.float64)
    if lam.ndim != 1 or not np.isfinite(lam).all():
        raise DataError(f"eigenvalues are a vector of finite numbers, got shape {lam.shape}")
    if len(lam) and lam.min() < -1e-8 * np.abs(lam).max():
        raise DataError(f"the eigenvalue {lam.min():g} is negative, so this is no kernel matrix")
    return np.maximum(lam, 0.0)
