"""Su, Xu and Yang (2023), section 6.2 on linear regression, over wide ranges of n_i, d, N, σ, α and β."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.ranges_filtered import Filtered, rows
from fedsolve.reproduce.nonparametric.ranges_kernels import TIMES
from fedsolve.typing import Array

SIZES = {
    "1": (1,) * 960,
    "3": (3,) * 320,
    "12": (12,) * 80,
    "60": (60,) * 16,
    "240": (240,) * 4,
    "1 to 460": (460, 240, 120, 60, 40, 20, 12, 5, 2, 1),
}
LONG = "t = 1 to 100 and on to 10⁶, σ = 0.1, 0.5 and 2, four methods"
ALL_SIZES = bound(
    "Section 3",
    "960 rows of clients with covariances and truths of their own, d = 12, n_i = 1, 3, 12, 60 and 240 for all, or 1 to "
    "460: E‖θ_t − θ̄‖² is at most (25), " + LONG,
)
ALL_NEAR = bound("Section 3", "… and ‖θ̄ − θ_j*‖ at most (26), for every client")
ALL_GOOD = Quantity(
    "Section 3",
    "… and E‖θ_∞ − θ̄‖² is at least that of least squares on all rows, σ² Tr((ΦᵀΦ)⁻¹)",
    "least times of it",
    least=1 - 1e-6,
)
ALL_MOST = bound("Section 3", "… and at most κ times that", "largest over κ times it")
INDEPENDENT = bound(
    "Corollary 13, (28)",
    "α = 0.05, 0.2 and 1, β = 1 and 5, d = 6, 12 and 48, N = 40 d, 160 d and 640 d, ‖θ_0 − θ̄‖ = 1 and 10 in the "
    "slowest direction: E‖θ_t − θ̄‖² is at most the bound with the rate 1 − sηα/(2κ), " + LONG,
)
CONSTANT = bound(
    "Corollary 13, (29)",
    "the same α, β, d and N, random truths: ‖θ̄ − θ_j*‖ is at most 2√(β/α) Γ√κ, for every client",
    "largest share",
)
NO_GROWTH = Quantity(
    "Corollary 13, (29)",
    "… and its largest share of Γ√κ at d = 48 is at most 1.5 times that at d = 6, and at N = 640 d at most 1.5 times "
    "that at N = 40 d, for every α, β and method: c_2 depends on neither",
    "largest ratio",
    most=1.5,
)
SUBSPACES = Quantity(
    "Corollary 14, (30) and (31)",
    "d = 6, 24 and 48, clients with r_i = 1 to d/2 and n_i = r_i to 3 r_i, N ≥ 8 ν d log d: of 20 draws at most 1/d "
    "are above (30), ‖θ_0 − θ̄‖ = 1 and 10 in the slowest direction, or above (31), " + LONG,
    "largest share of draws times d",
    most=1.0,
)
SUBSPACE_RATIO = bound("Corollary 14, (30) and (31)", "… and the largest ratio of these draws", "largest ratio")
QUANTITIES = (
    *(ALL_SIZES, ALL_NEAR, ALL_GOOD, ALL_MOST, INDEPENDENT, CONSTANT, NO_GROWTH, SUBSPACES, SUBSPACE_RATIO),
)  # fmt: skip
NOISES, STARTS, DRAWS = (0.1, 0.5, 2.0), (1.0, 10.0), 20


def measured(seed: int, notes: Notes, draws: int = DRAWS) -> None:
    """Exact expectations over the noise."""
    rng = np.random.default_rng([seed, 202])
    for sizes in SIZES.values():
        _sizes(rng, sizes, notes)
    for low, high in product((0.05, 0.2, 1.0), (1.0, 5.0)):
        _independent(rng, low, high, notes)
    for d in (6, 24, 48):
        _subspaces(rng, d, draws, notes)


def parts(made: Filtered) -> tuple[Array, Array]:
    """Of E‖θ_t − θ̄‖² at the `TIMES`: the bias from norm 1 in the slowest direction, and the variance over σ²."""
    values, vectors = np.linalg.eigh(made.moves)
    left = made.method.step_size * values  # 1 − the eigenvalues of 𝓛
    powers = np.clip(1 - left, 0, 1)[:, None] ** TIMES
    noise = np.einsum("jk,jl,lk->k", vectors, made.noise, vectors) * made.method.step_size**2 / made.samples
    return powers[0] ** 2, noise @ ((1 - powers) / left[:, None]) ** 2


def share(made: Filtered, rate: float, noise: float) -> float:
    """The largest of E‖θ_t − θ̄‖² over (1 − rate)^(2t) ‖θ_0 − θ̄‖² + σ² `noise`."""
    bias, variance = parts(made)
    first = (1 - rate) ** (2.0 * TIMES)
    return max(
        float(((start**2 * bias + sigma**2 * variance) / (start**2 * first + sigma**2 * noise)).max())
        for sigma, start in product(NOISES, STARTS)
    )


def widest(truths: Array) -> float:
    """Γ."""
    return max(float(np.linalg.norm(truths - one, axis=1).max()) for one in truths)


def _sizes(rng: np.random.Generator, sizes: Sequence[int], notes: Notes) -> None:
    X = rows(rng, sizes, 12, 0.3, 1.0)
    truths, pooled = rng.standard_normal(12) + rng.standard_normal((len(sizes), 12)), np.vstack(X)
    means = np.concatenate([one @ own for one, own in zip(X, truths, strict=True)])
    off = np.linalg.norm(means[:, None] - pooled @ truths.T, axis=0)
    least_squares = float(np.trace(np.linalg.inv(pooled.T @ pooled)))
    for made in Filtered.of(X):
        N, kappa, rho = made.samples, made.kappa, made.rho
        notes.add(ALL_SIZES, share(made, made.pace * rho / kappa, kappa * 12 / (N * rho)))
        away = np.linalg.norm(truths - made.centre(truths), axis=1)
        notes.add(ALL_NEAR, away / (off * math.sqrt(kappa / (N * rho))))
        notes.add(ALL_GOOD, made.limit() / least_squares)
        notes.add(ALL_MOST, made.limit() / (kappa * least_squares))


def _independent(rng: np.random.Generator, low: float, high: float, notes: Notes) -> None:
    shares: dict[tuple[int, int, int], float] = {}
    for d, times in product((6, 12, 48), (40, 160, 640)):
        X = rows(rng, [max(1, times * d * part // 100) for part in (5, 10, 15, 30, 40)], d, low, high)
        truths = rng.standard_normal(d) + rng.standard_normal((len(X), d))
        for place, made in enumerate(Filtered.of(X)):
            rate = made.pace * low / (2 * made.kappa)
            notes.add(INDEPENDENT, share(made, rate, 2 * made.kappa * d / (made.samples * low)))
            away = float(np.linalg.norm(truths - made.centre(truths), axis=1).max())
            shares[place, d, times] = away / (widest(truths) * math.sqrt(made.kappa))
            notes.add(CONSTANT, shares[place, d, times] / (2 * math.sqrt(high / low)))
    for place in range(4):
        own = {key[1:]: value for key, value in shares.items() if key[0] == place}
        by_d = {d: max(value for key, value in own.items() if key[0] == d) for d in (6, 48)}
        by_N = {times: max(value for key, value in own.items() if key[1] == times) for times in (40, 640)}
        notes.add(NO_GROWTH, by_d[48] / by_d[6], by_N[640] / by_N[40])


def _subspaces(rng: np.random.Generator, d: int, draws: int, notes: Notes) -> None:
    above = 0
    for _ in range(draws):
        X, nu, low, high = subspace_rows(rng, d)
        truths = rng.standard_normal(d) + 0.3 * rng.standard_normal((len(X), d))
        worst = 0.0
        for made in Filtered.of(X):
            N, kappa, centre = made.samples, made.kappa, made.centre(truths)
            rate = made.pace * low / (2 * kappa)
            most = widest(truths) * math.sqrt(2 * kappa * high * nu * len(X) * d / (low * N))
            away = float(np.linalg.norm(truths - centre, axis=1).max())
            worst = max(worst, share(made, rate, 2 * kappa * d / (N * low)), away / most)
        above += worst > 1
        notes.add(SUBSPACE_RATIO, worst)
    notes.add(SUBSPACES, above / draws * d)


def subspace_rows(rng: np.random.Generator, d: int) -> tuple[list[Array], float, float, float]:
    """Rows of clients until N ≥ 8 ν d log d with ν = 3, and ν, α and β."""
    X: list[Array] = []
    low, high = math.inf, 0.0
    while sum(map(len, X)) < 24 * d * math.log(d):
        r = int(rng.integers(1, d // 2 + 1))
        n = r * int(rng.integers(1, 4))
        U = np.linalg.qr(rng.standard_normal((d, r)))[0]
        scales = rng.uniform(0.8, 1.2, r)
        low, high = min(low, float(scales.min()) ** 2), max(high, float(scales.max()) ** 2)
        X.append(math.sqrt(d / r * n) * (np.linalg.qr(rng.standard_normal((n, r)))[0] * scales) @ U.T)
    return X, 3.0, low, high
