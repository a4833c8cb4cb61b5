"""When to stop before noise is fitted: the stopping time of Su et al. (equation 23), and the σ and B it needs.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

Everything here is a function of eigenvalues: those of K/N for a kernel matrix K of N rows, or those of ΦᵀΦ/N for a
matrix Φ of features, which has the same ones above zero and is a sum over clients. The rule for one machine is that of
Raskutti, Wainwright and Yu, "Early stopping and non-parametric regression", 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.errors import DataError
from fedsolve.numerics.scalars import at_least_zero, positive, whole
from fedsolve.typing import Array

MOST_FITTED = 0.9  # of the rows: the largest number of effective parameters that σ is estimated with
RESOLVED = 1e-13  # of the largest eigenvalue of ΦᵀΦ: what is below it is rounding
FITTED = 1e-14  # of yᵀy: squared residuals below it are rounding, where they are the difference of two sums
FITTED_ROWS = 1e-27  # of yᵀy: the same where they are computed row by row
_EPS = float(np.finfo(np.float64).eps)


def rademacher(eigenvalues: Array, epsilon: float, samples: float) -> float:
    """The empirical Rademacher complexity R(ε) = √((1/N) Σ min{λ_i, ε²}) (Su et al., equation 22).

    Args:
        eigenvalues: Of K/N or ΦᵀΦ/N; zeros may be left out.
        epsilon: The radius.
        samples: N, the rows of all clients together, or the sum of their sample weights.
    """
    lam = _spectrum(eigenvalues)
    return math.sqrt(float(np.minimum(lam, epsilon**2).sum()) / positive("samples", samples))


def stopping_time(eigenvalues: Array, noise: float, samples: float, norm: float = 1.0) -> float:
    """The longest time u = η·t·s for which R(1/√u) ≤ B/(√(2e)·σ·u) (Su et al., equation 23, where B is 1).

    (The root in the paper's equation covers 2e only, as its proofs use it.) Beyond u the bound on the variance,
    σ²uR²(1/√u), outweighs that on the bias, B²/(2eu). Infinite if there is no noise or nothing to fit it with.

    Args:
        eigenvalues: Of K/N or ΦᵀΦ/N; zeros may be left out.
        noise: σ, the standard deviation of the noise; with sample weights that of a row of weight 1.
        samples: N, the rows of all clients together, or the sum of their sample weights.
        norm: B, the norm of f* − f_0 in the kernel's space. 1, the default, is the paper's rule: it stops too early
            where the truth is larger, and depends on the units of the targets. `fit_spectrum` estimates it. 0 means
            that there is nothing to learn, so that the time is 0.
    """
    sigma, B, N = at_least_zero("noise", noise), at_least_zero("norm", norm), positive("samples", samples)
    lam = np.sort(_spectrum(eigenvalues))[::-1]
    lam = lam[lam > _EPS**2 * lam.max(initial=0.0)]  # the square of 1/λ must not overflow
    if not len(lam) or sigma == 0:
        return math.inf
    if B == 0:
        return 0.0
    # u²R²(1/√u) = (1/N) Σ min{λ_i u², u} rises with u; it is (k u + u² Σ_{i>k} λ_i)/N while k eigenvalues exceed 1/u.
    # All times and eigenvalues are in units of the largest, so that squares stay in the range of numbers.
    largest, ratio = float(lam[0]), B / sigma
    lam = lam / largest
    level = N / (2 * math.e) * ratio * largest * ratio
    if math.isinf(level):  # so little noise that it takes longer than any number says
        return math.inf
    if level == 0:  # so little to learn that its square is none
        return 0.0
    tails = np.append(np.cumsum(lam[::-1])[::-1], 0.0)  # tails[k] = Σ_{i>k} λ_i
    ends = 1 / lam  # where the k-th eigenvalue reaches 1/u
    heights = np.arange(1, len(lam) + 1) * ends + ends**2 * tails[1:]
    k = int(np.searchsorted(heights, level))
    return float(2 * level / (k + math.hypot(k, 2 * math.sqrt(tails[k]) * math.sqrt(level)))) / largest


def stopping_round(
    eigenvalues: Array, noise: float, samples: float, step_size: float, steps: int = 1, norm: float = 1.0
) -> int | None:
    """T, the round after which FedAvg or FedProx should stop (Su et al., equation 23).

    Args:
        eigenvalues: Of K/N or ΦᵀΦ/N; zeros may be left out.
        noise: σ, the standard deviation of the noise; with sample weights that of a row of weight 1.
        samples: N, the rows of all clients together, or the sum of their sample weights.
        step_size: η; of FedProx 1/pull.
        steps: s, the local steps of FedAvg; 1 for FedProx.
        norm: B, the norm of f* − f_0 in the kernel's space; 1, the default, is the paper's rule. See `stopping_time`.

    Returns:
        T. 0 means that even one round fits more noise than signal; None that there is no reason to stop, or none
        before round 2⁶².
    """
    pace = positive("step_size", step_size) * whole("steps", steps, 1)
    ratio = stopping_time(eigenvalues, noise, samples, norm) / pace
    return None if ratio >= 2.0**62 else math.floor(ratio * (1 + 8 * _EPS))


# ── noise and norm, estimated ──


@dataclass(frozen=True)
class SpectrumFit:
    """What the targets say of noise and signal.

    Attributes:
        noise: σ̂. 0 if the targets are fitted to rounding though there are more rows than directions.
        norm: ‖f̂‖ in the kernel's space, an estimate of B. Over several outputs both are roots of mean squares.
        penalty: The penalty of the ridge regression f̂, chosen by generalised cross-validation.
        freedom: tr S, the effective number of parameters of f̂.
    """

    noise: float
    norm: float
    penalty: float
    freedom: float


def fit_spectrum(
    eigenvalues: Array, projections: Array, mean_square: float, rows: int, outside: float | None = None
) -> SpectrumFit:
    """σ and B, estimated from the targets of all rows in the eigenvectors of the kernel.

    With at least twice as many rows as positive eigenvalues σ̂² is the unbiased one, the squared residuals of least
    squares over rows − rank. With fewer, as a rule with a kernel, least squares would fit the noise too. Then they are
    the residuals of a ridge regression S: σ̂² = ‖y − Sy‖² / tr((I − S)²), its penalty chosen by generalised
    cross-validation among those that fit at most 90 % of the rows' degrees of freedom. Up to that choice it is too
    large by the squared bias ‖(I − S) f*‖² / tr((I − S)²), and then a run stops earlier.

    B is estimated by the norm of that ridge regression in either case. The least-squares fit would not do: its squared
    norm is too large by σ² Σ 1/λ_i / N, which is huge where columns are nearly collinear.

    Args:
        eigenvalues: λ_i, of K/N or of ΦᵀΦ/N; zeros may be left out.
        projections: c_i = (u_iᵀy)²/N for the eigenvectors u_i of K/N. Averaged over outputs, if there are several.
        mean_square: Σ y²/N, averaged over outputs. Centre the targets where their mean is large beside their
            variation: noise below 1e-7 of their root mean square cannot be seen in these sums, and counts as 0.
        rows: N, the rows of all clients together.
        outside: Σ r²/N for the residuals r of least squares, if they are known from the rows, which have more digits.
            Default: mean_square − Σ c_i.
    """
    lam, c = _spectrum(eigenvalues), np.asarray(projections, dtype=np.float64)
    N = whole("rows", rows, 1)
    if lam.shape != c.shape:
        raise DataError(f"a projection for each eigenvalue is needed, got shapes {c.shape} and {lam.shape}")
    if not (np.isfinite(c).all() and (c >= 0).all() and 0 <= mean_square < math.inf):
        raise DataError(
            "projections and mean_square are squares, so finite numbers of at least 0: are the targets missing, or too "
            "large?"
        )
    largest = np.argsort(lam)[::-1][:N]  # there are no more directions than rows
    kept = largest[lam[largest] > _EPS * len(lam) * lam.max(initial=0.0)]
    lam, c = lam[kept], c[kept]
    if not len(lam) or mean_square == 0:
        return SpectrumFit(math.sqrt(mean_square), 0.0, math.inf, 0.0)
    resolved = (FITTED if outside is None else FITTED_ROWS) * mean_square
    if outside is None:  # what no penalty can fit; nothing is, in as many directions as rows
        outside = max(mean_square - float(c.sum()), 0.0) if len(lam) < N else 0.0
    # Only penalties of the grid are tried. Between two of them the estimates change by less than their own error, and a
    # minimum found to the last digit would depend on rounding, and so on the units of the targets.
    penalties = lam[0] * np.exp(np.linspace(math.log(_EPS), 7.0, 400))
    shrunk = penalties[:, None] / (lam + penalties[:, None])
    rest = (N - len(lam)) / N
    residuals, left = outside + np.square(shrunk) @ c, rest + shrunk.sum(axis=1) / N  # RSS/N and tr(I − S)/N
    best = int(np.argmin(np.where(left >= 1 - MOST_FITTED, residuals / left**2, math.inf)))
    noise = _least_squares_noise(outside, resolved, len(lam), N)
    if noise is None and len(lam) < N and residuals[best] <= resolved:
        noise = 0.0
    if noise is None:
        noise = math.sqrt(residuals[best] / (rest + float(np.square(shrunk[best]).sum()) / N))
    norm = math.sqrt(float(np.sum(c * lam / (lam + penalties[best]) ** 2)))
    return SpectrumFit(noise, norm, float(penalties[best]), float(N * (1 - left[best])))


def _least_squares_noise(outside: float, resolved: float, rank: int, rows: int) -> float | None:
    """σ̂ from the residuals of least squares, Σr²/N; 0 if these are rounding, None if there are too few rows."""
    if rows < 2 * rank:
        return None
    return 0.0 if outside <= resolved else math.sqrt(outside * rows / (rows - rank))


def fit_sums(gram: Array, products: Array, mean_squares: Array, rows: int) -> SpectrumFit:
    """`fit_spectrum` from sums over clients.

    Least squares do not depend on the units of the columns. So σ̂, where it is from least squares, is computed in units
    in which every column has mean square 1, and rounding does not hide columns of small numbers.

    Args:
        gram: ΦᵀΦ/N, p × p. With sample weights s, ΦᵀSΦ/Σs, and so on; then σ̂ is the noise of a row of average weight.
        products: Φᵀy/N, p or p × k for k outputs.
        mean_squares: yᵀy/N, a number or one for each output. Centre targets whose mean is large beside their variation:
            see `fit_spectrum`.
        rows: N, the rows of all clients together, without those of weight 0.
    """
    products, mean_square = np.asarray(products).reshape(len(gram), -1), float(np.mean(mean_squares))
    found = fit_spectrum(*_directions(gram, products), mean_square, rows)
    squares = np.diagonal(gram)
    units = np.sqrt(np.where(squares > 0, squares, 1.0))
    values, along = _directions(gram / np.outer(units, units), products / units[:, None])
    outside = max(mean_square - float(along.sum()), 0.0)
    noise = _least_squares_noise(outside, FITTED * mean_square, int(np.count_nonzero(values)), rows)
    return found if noise is None else replace(found, noise=noise)


def _directions(gram: Array, products: Array) -> tuple[Array, Array]:
    """The eigenvalues of ΦᵀΦ/N, zero where rounding hides them, and (q_iᵀΦᵀy/N)²/λ_i for the eigenvectors q_i."""
    values, vectors = np.linalg.eigh(gram)
    seen = values > RESOLVED * values[-1]
    along = np.square(vectors.T @ products).mean(axis=1)
    return np.where(seen, values, 0.0), np.where(seen, along / np.where(seen, values, 1.0), 0.0)


def fit_kernel(K: Array, y: Array) -> SpectrumFit:
    """`fit_spectrum` of all rows in one place, for simulation.

    Args:
        K: The kernel matrix of all rows.
        y: Their targets, a column for each output. Centre them, unless the kernel has a constant: their mean would
            count as part of the function, and make σ̂ and B larger.
    """
    K, y = np.asarray(K, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not K.size or not np.isfinite(K).all():
        raise DataError(f"K is a square matrix of finite numbers, k(x_i, x_j) for all rows; got shape {K.shape}")
    if y.ndim not in (1, 2) or len(y) != len(K) or not np.isfinite(y).all():
        raise DataError(f"y has a finite target for each of {len(K)} rows, got shape {y.shape}")
    values, vectors = np.linalg.eigh(K / len(K))
    y = y.reshape(len(y), -1)
    along = vectors.T @ y
    seen = values > _EPS * len(values) * np.abs(values).max(initial=0.0)  # as in fit_spectrum
    residuals = vectors[:, ~seen] @ along[~seen]
    projections = np.square(along).mean(axis=1) / len(y)
    return fit_spectrum(values, projections, float(np.square(y).mean()), len(y), float(np.square(residuals).mean()))


def _spectrum(eigenvalues: Array) -> Array:
    """The eigenvalues, those that rounding made negative as 0. Raises DataError for others than a kernel has."""
    lam = np.asarray(eigenvalues, dtype=np.float64)
    if lam.ndim != 1 or not np.isfinite(lam).all():
        raise DataError(f"eigenvalues are a vector of finite numbers, got shape {lam.shape}")
    if len(lam) and lam.min() < -1e-8 * np.abs(lam).max():
        raise DataError(f"the eigenvalue {lam.min():g} is negative, so this is no kernel matrix")
    return np.maximum(lam, 0.0)
