"""Corollary 24 of Su, Xu and Yang (2023), (60), as it stands: κ(σ²/N)^(2/3) for β = 1 with one constant, and with which
probability. The kernel is min(x, y) in its first 100 eigenfunctions, x uniform on [0, 1]; for β = 2 it has their
squares as eigenvalues.

The constant is not named. With μ_i ≤ 4/(π²i²), R̄² ≤ 4ε/(πN), so that ε̄_N² ≤ (8eσ²/(πN))^(2/3) = 3.63 (σ²/N)^(2/3);
Theorem 8 with ‖f_0 − f*‖ = 1 has 3κε_N²/e, that is 4.01, twice that in L²(P), and the + 3 of Theorem 10 twice again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.methods import ProximalStep
from fedsolve.reproduce.nonparametric.proof_finite_rank import NOISES, SIZES
from fedsolve.reproduce.nonparametric.proof_population import eigenfunctions, eigenvalues, radius
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.stopped_features import clients_of, runs
from fedsolve.reproduce.nonparametric.theory_rates import slope
from fedsolve.typing import Array

ONE_CONSTANT = Quantity(
    "Corollary 24, (60)",
    "E‖f_T − f*‖² of the worst f* of norm 1 is at most 8 κ(σ²/N)^(2/3), median of the rows: min(x, y), σ = 0.1, "
    "0.5 and 1, N = 50 to 3,200, four methods",
    "largest median over κ(σ²/N)^(2/3)",
    most=8.0,
)
EXPONENTS = Quantity(
    "Corollary 24, (60)",
    "… with s = 1 and FedProx its exponents in N, for every σ, and in 1/σ², N = 3,200, are at most 0.05",
    "exponent",
    most=0.05,
)
PROBABLE = Quantity(
    "Corollary 24, (60)",
    "… of draws of rows and noise at most 1 % are above 16 κ(σ²/N)^(2/3), for every N, σ and method",
    "largest share",
    most=0.01,
)
EXPONENTIAL = Quantity(
    "Corollary 24, (60)",
    "… and the share above (σ²/N)^(2/3) with s = 1, which can be counted, falls exponentially with N^(1/3): −log of it "
    "grows by at least 0.05 with N^(1/3) = 5.8 to 14.7, for every σ",
    "slope in N^(1/3)",
    least=0.05,
)
CRITICAL = Quantity(
    "Lemma 26",
    "… and between ½ and 2 for every σ, method and draw of the rows with T ≥ 1, N = 50 to 3,200",
    "ε̄_N √(ηTs)",
    0.5,
    2.0,
)
POPULATION = Quantity(
    "Theorem 22",
    "min(x, y): of draws of rows and noise at most 1 % are above κε̄_N²(‖f_0 − f‖² + 1), Δ_f = 0, for every σ and "
    "method",
    "largest share",
    most=0.01,
)
SMOOTHER = Quantity(
    "Corollary 24, (60)",
    "β = 2, eigenvalues μ² for the μ of min(x, y): E‖f_T − f*‖² of the worst f* of norm 1 is at most 8 κ(σ²/N)^(4/5), "
    "median of the rows, σ = 0.1, 0.5 and 1, N = 50 to 12,800, four methods",
    "largest median over κ(σ²/N)^(4/5)",
    most=8.0,
)
SMOOTHER_EXPONENTS = Quantity(
    "Corollary 24, (60)",
    "… with s = 1 and FedProx its exponents in N, for every σ, N = 800 to 12,800, and in 1/σ², N = 12,800, are at most "
    "0.05, β = 2",
    "exponent",
    most=0.05,
)
SMOOTHER_PROBABLE = Quantity(
    "Corollary 24, (60)",
    "… of draws of rows and noise at most 1 % are above 16 κ(σ²/N)^(4/5), for every N, σ and method, β = 2",
    "largest share",
    most=0.01,
)
QUANTITIES = (
    *(ONE_CONSTANT, EXPONENTS, PROBABLE, EXPONENTIAL, CRITICAL, POPULATION),
    *(SMOOTHER, SMOOTHER_EXPONENTS, SMOOTHER_PROBABLE),
)
TERMS, DRAWS, NOISE_DRAWS = 100, 12, 400  # features, draws of the rows, and of the noise for each
TOTALS = SIZES[::2]  # 50, 200, 800 and 3,200
LARGE = (800, 3200, 12_800)


def measured(seed: int, notes: Notes, draws: int = DRAWS) -> None:
    """Exact expectations over Gaussian noise, and draws of it."""
    rng = np.random.default_rng([seed, 62])
    mu = eigenvalues(TERMS)
    medians: dict[tuple[int, float, str], float] = {}
    shares: dict[float, list[float]] = defaultdict(list)
    for total in TOTALS:
        expected: dict[tuple[float, str], list[float]] = defaultdict(list)
        drawn: dict[tuple[float, str], list[Array]] = defaultdict(list)
        for _ in range(draws):
            Phi = eigenfunctions(rng.random(total), TERMS) * np.sqrt(mu)
            for run in runs(Phi, clients_of(total), np.diag(np.sqrt(mu))):
                name = f"{'FedProx' if isinstance(run.method, ProximalStep) else 'FedAvg'} {run.method.steps}"
                for sigma in NOISES:
                    mean, some = run.errors(sigma, NOISE_DRAWS, rng)
                    unit = run.kappa * (sigma**2 / total) ** (2 / 3)
                    expected[sigma, name].append(mean / unit)
                    drawn[sigma, name].append(some / unit)
                    if run.stop(sigma):
                        time = run.method.step_size * run.method.steps * run.stop(sigma)
                        notes.add(CRITICAL, radius(mu, total, sigma) * math.sqrt(time))
        for (sigma, name), values in expected.items():
            every = np.concatenate(drawn[sigma, name])
            medians[total, sigma, name] = float(np.median(values))
            notes.add(PROBABLE, (every > 16).mean())
            level = 2 * radius(mu, total, sigma) ** 2 / (sigma**2 / total) ** (2 / 3)
            notes.add(POPULATION, (every > level).mean())
            if name == "FedAvg 1" and total > TOTALS[0]:
                shares[sigma].append(max(int((every > 1).sum()), 0.5) / every.size)
    notes.add(ONE_CONSTANT, max(medians.values()))
    exponents(medians, notes)
    for some in shares.values():
        notes.add(EXPONENTIAL, float(np.polyfit(np.cbrt(TOTALS[1:]), -np.log(some), 1)[0]))
    _smoother(rng, notes, draws)


def _smoother(rng: np.random.Generator, notes: Notes, draws: int) -> None:
    """The same for β = 2."""
    mu = eigenvalues(TERMS) ** 2
    medians: dict[tuple[int, float, str], float] = {}
    for total in (*TOTALS, LARGE[-1]):
        drawn: dict[tuple[float, str], list[tuple[float, Array]]] = defaultdict(list)
        for _ in range(draws):
            Phi = eigenfunctions(rng.random(total), TERMS) * np.sqrt(mu)
            for run in runs(Phi, clients_of(total), np.diag(np.sqrt(mu))):
                name = f"{'FedProx' if isinstance(run.method, ProximalStep) else 'FedAvg'} {run.method.steps}"
                for sigma in NOISES:
                    mean, some = run.errors(sigma, NOISE_DRAWS, rng)
                    unit = run.kappa * (sigma**2 / total) ** (4 / 5)
                    drawn[sigma, name].append((mean / unit, some / unit))
        for (sigma, name), pairs in drawn.items():
            medians[total, sigma, name] = float(np.median([mean for mean, _ in pairs]))
            notes.add(SMOOTHER_PROBABLE, (np.concatenate([some for _, some in pairs]) > 16).mean())
    notes.add(SMOOTHER, max(medians.values()))
    exponents(medians, notes, SMOOTHER_EXPONENTS, LARGE)


def exponents(
    medians: dict[tuple[int, float, str], float],
    notes: Notes,
    quantity: Quantity = EXPONENTS,
    totals: Sequence[int] = TOTALS,
) -> None:
    """Those of the ratio to κ(σ²/N)^(2β/(2β+1)), by N, σ and method, of the methods whose T is not a few rounds."""
    for name in ("FedAvg 1", "FedProx 1"):
        for sigma in NOISES:
            notes.add(quantity, slope(totals, [medians[total, sigma, name] for total in totals]))
        notes.add(quantity, slope([one**-2.0 for one in NOISES], [medians[totals[-1], one, name] for one in NOISES]))
