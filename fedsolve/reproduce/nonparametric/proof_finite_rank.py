"""Corollary 23 of Su, Xu and Yang (2023) as it stands: κσ²r/N with one constant, and with which probability.

The constant is not named. Theorem 8 with ‖f_0 − f*‖ = 1 and ε̄_N² ≤ 2eσ²r/N gives 6 for E‖f_T − f*‖²_N, and the + 3 of
Theorem 10 twice that; ‖g‖² ≤ 2‖g‖²_N, which is what Lemma 25 is for, makes them 12 and 24 in L²(P).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from fedsolve.reproduce.nonparametric.proof_population import radius
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.stopped_features import GAMMA, clients_of, runs
from fedsolve.typing import Array

ONE_CONSTANT = Quantity(
    "Corollary 23",
    "finite rank: E‖f_T − f*‖² of the worst f* of norm 1 is at most 12 κσ²r/N, median of the rows: r = 1 to 8, "
    "σ = 0.1, 0.5 and 1, N = 50 to 3,200, two kernels, four methods",
    "largest median over κσ²r/N",
    most=12.0,
)
NO_GROWTH = Quantity(
    "Corollary 23",
    "… and its largest value over κσ²r/N at any N, r, 1/σ or κ is at most twice that at the smallest",
    "largest over that at the smallest",
    most=2.0,
)
PROBABLE = Quantity(
    "Corollary 23",
    "… of draws of rows and noise at most 1 % are above 24 κσ²r/N, for every N, r, σ, kernel and method",
    "largest share",
    most=0.01,
)
EXPONENTIAL = Quantity(
    "Corollary 23",
    "… and the share above 4 κσ²r/N, which can be counted, falls exponentially with r = 1 to 8: −log of it grows by at "
    "least ¼ with r, N = 800 and 3,200",
    "slope in r",
    least=0.25,
)
ANY_NOISE = Quantity(
    "Corollary 23",
    "the constants are universal, so that 12 κσ²r/N holds for any σ: r = 8, N = 4 and 16, σ = 1 to 0.001",
    "largest median over κσ²r/N",
    most=12.0,
)
ANY_NOISE_ENOUGH = Quantity(
    "Corollary 23", "… and with N = 200 and 800 rows it does", "largest median over κσ²r/N", most=12.0
)
POPULATION = Quantity(
    "Theorem 22",
    "finite rank: of draws of rows and noise at most 1 % are above κε̄_N²(‖f_0 − f‖² + 1), Δ_f = 0, where Nε̄_N² is at "
    "least 1",
    "largest share",
    most=0.01,
)
QUANTITIES = (
    *(ONE_CONSTANT, NO_GROWTH, PROBABLE, EXPONENTIAL, ANY_NOISE, ANY_NOISE_ENOUGH, POPULATION),
)  # fmt: skip
RANKS, NOISES, SIZES = (1, 2, 3, 5, 8), (0.1, 0.5, 1.0), (50, 100, 200, 400, 800, 1600, 3200)
COUNTED = (800, 3200)  # N at which shares are counted with more draws
DRAWS, NOISE_DRAWS = 20, 200  # of the rows, and of the noise for each
Setting = tuple[str, int, int, float, float]  # kernel, N, r, σ, κ


def legendre(x: Array, r: int) -> Array:
    """The first r orthonormal polynomials of [0, 1] over r, so that all eigenvalues are r⁻² and k(x, x) ≤ 1."""
    some = [math.sqrt(2 * k + 1) * np.polynomial.legendre.Legendre.basis(k)(2 * x - 1) for k in range(r)]
    return np.stack(some, axis=1) / r


def powers(x: Array, r: int) -> Array:
    """The features of ((1 + xz)/2)^(r−1), of rank r with k(x, x) ≤ 1; its eigenvalues fall fast."""
    return np.stack([math.sqrt(math.comb(r - 1, j) / 2 ** (r - 1)) * x**j for j in range(r)], axis=1)


KERNELS = {"Legendre": legendre, "powers": powers}


def gram(name: str, r: int) -> Array:
    """G = E φφᵀ for x uniform on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(2 * r)
    Phi = KERNELS[name]((points + 1) / 2, r)
    found: Array = (Phi * weights[:, None]).T @ Phi / 2
    return found


def measured(seed: int, notes: Notes, draws: int = DRAWS) -> None:
    """Exact expectations over Gaussian noise, and draws of it."""
    rng = np.random.default_rng([seed, 61])
    means, shares, counted = {}, {}, {}
    for name in KERNELS:
        for r in RANKS:
            for total in SIZES:
                found = ratios(name, r, total, NOISES, rng, (draws, NOISE_DRAWS * (5 if total in COUNTED else 1)))
                for (sigma, kappa, level), (expected, errors) in found.items():
                    setting = (name, total, r, sigma, kappa)
                    means[setting], shares[setting] = float(np.median(expected)), float((errors > 24).mean())
                    counted[setting] = max(int((errors > 4).sum()), 0.5) / errors.size
                    if total * level >= 1:
                        notes.add(POPULATION, (errors * sigma**2 * r / total > 2 * level).mean())
    judge(means, shares, counted, notes)
    for total in (4, 16, 200, 800):
        some = ratios("Legendre", 8, total, (1.0, 0.1, 0.01, 0.001), rng, (draws, 1)).values()
        notes.add(ANY_NOISE if total < 200 else ANY_NOISE_ENOUGH, max(float(np.median(one)) for one, _ in some))


def ratios(
    name: str, r: int, total: int, sigmas: tuple[float, ...], rng: np.random.Generator, draws: tuple[int, int]
) -> dict[tuple[float, float, float], tuple[Array, Array]]:
    """By σ, κ and ε̄_N²: the expected error over κσ²r/N for each draw of the rows, and that of each draw of the noise.

    `draws` says how many of the rows, and of the noise for each."""
    G = gram(name, r)
    values, vectors = np.linalg.eigh(G)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    found: dict[tuple[float, float, float], list[tuple[float, Array]]] = defaultdict(list)
    for _ in range(draws[0]):
        Phi = KERNELS[name](rng.random(total), r)
        for run in runs(Phi, clients_of(total) if total >= 8 else (1,) * total, root):
            for sigma in sigmas:
                expected, drawn = run.errors(sigma, draws[1], rng)
                unit = run.kappa * sigma**2 * r / total
                key = sigma, run.method.kappa(GAMMA), radius(values, total, sigma) ** 2
                found[key].append((expected / unit, drawn / unit))
    return {
        key: (np.array([one for one, _ in some]), np.concatenate([drawn for _, drawn in some]))
        for key, some in found.items()
    }


def judge(
    means: Mapping[Setting, float], shares: Mapping[Setting, float], counted: Mapping[Setting, float], notes: Notes
) -> None:
    """From the median ratio of each setting, the share above 24, and the share above 4."""
    notes.add(ONE_CONSTANT, max(means.values()))
    notes.add(NO_GROWTH, *(growth(means, place) for place in (1, 2, 3, 4)))
    notes.add(PROBABLE, max(shares.values()))
    by_rank = [max(share for one, share in counted.items() if one[2] == r and one[1] in COUNTED) for r in RANKS]
    notes.add(EXPONENTIAL, float(np.polyfit(RANKS, -np.log(by_rank), 1)[0]))


def growth(means: Mapping[Setting, float], place: int) -> float:
    """The largest value over that at the smallest N, r, 1/σ or κ."""
    largest: dict[float, float] = defaultdict(float)
    for setting, value in means.items():
        at = setting[place]
        assert isinstance(at, float | int)
        at = -at if place == 3 else at  # σ falls as 1/σ grows
        largest[round(at, 9)] = max(largest[round(at, 9)], value)
    return max(largest.values()) / largest[min(largest)]
