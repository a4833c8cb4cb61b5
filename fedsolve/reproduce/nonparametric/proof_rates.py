"""Theorem 8 of Su, Xu and Yang (2023), and what follows it, for the f of norm 1 that is learned most slowly.

With λ_i = i^(−2β) and s = 1 all is in closed form: the bias of the worst f of norm 1 is max λ_i(1 − ηλ_i)^(2t), the
variance σ²δ_2(t), δ_2(t) = Σ(1 − (1 − ηλ_i)^t)²/N. With local steps and FedProx the eigenvectors are drawn.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.stopped_features import clients_of
from fedsolve.reproduce.nonparametric.theory_decay import worst
from fedsolve.reproduce.nonparametric.theory_rates import slope
from fedsolve.typing import Array

CONSTANT = Quantity(
    "After Theorem 8",
    "λ_i = i^(−2β), s = 1: the error at T of the worst f of norm 1 is between 0.5 and 2 times (σ²/N)^(2β/(2β+1)), "
    "β = 1 and 2, σ = 0.1, 0.5 and 1, N = 50 to 51,200",
    "error over (σ²/N)^(2β/(2β+1))",
    0.5,
    2.0,
)
IN_ROWS = Quantity(
    "After Theorem 8",
    "… the exponent of that ratio in N is at most 0.05 in size, N = 800 to 51,200",
    "exponent in N",
    -0.05,
    0.05,
)
IN_NOISE = Quantity(
    "After Theorem 8",
    "… and that in 1/σ² too, from σ = 1 to 0.1, at N = 800, 3,200, 12,800 and 51,200",
    "exponent in 1/σ²",
    -0.05,
    0.05,
)
LOCAL = Quantity(
    "After Theorem 8",
    "… with s = 5 and 10 and FedProx, γ = 0.3 and 0.9, it is at most 2 κ(σ²/N)^(2β/(2β+1)), N = 50 to 800, where T ≥ 1",
    "largest error over κ(σ²/N)^(2β/(2β+1))",
    most=2.0,
)
LOCAL_ROWS = Quantity(
    "After Theorem 8",
    "… whose exponent in N is at most 0.05 for FedProx, N = 100 to 800",
    "exponent in N",
    most=0.05,
)
BOUND = Quantity(
    "Theorem 8",
    "the error of the worst f of norm 1 over (1/(2eηts))(‖f_0 − f‖² + 1) is at most 3κ, s = 1, λ_i = i^(−2β): between "
    "0.15 and 3 at t = T/10, T/3 and T, β = 1 and 2, σ = 0.1, 0.5 and 1, N = 50 to 51,200",
    "error over it",
    0.15,
    3.0,
)
VARIANCE = Quantity(
    "Proposition 7, (20)",
    "δ_2(t) over ηtsR²(1/√(ηts)) is between 0.15 and 1, the same λ_i, N and t",
    "ratio",
    0.15,
    1.0,
)
QUANTITIES = (CONSTANT, IN_ROWS, IN_NOISE, LOCAL, LOCAL_ROWS, BOUND, VARIANCE)
BETAS, NOISES = (1, 2), (0.1, 0.5, 1.0)
TOTALS, DRAWN = tuple(50 * 2**k for k in range(11)), (50, 100, 200, 400, 800)
ETA = 0.3


def measured(seed: int, notes: Notes) -> None:
    """In closed form, then with drawn eigenvectors."""
    for beta in BETAS:
        _closed(beta, notes)
    _drawn(np.random.default_rng([seed, 142]), notes)


def unit(beta: int, sigma: float, total: int) -> float:
    """(σ²/N)^(2β/(2β+1))."""
    return float((sigma**2 / total) ** (2 * beta / (2 * beta + 1)))


def parts(lam: Array, t: int) -> tuple[float, float]:
    """The largest bias over f of norm 1, and δ_2(t), for s = 1 and η = ETA."""
    left = (1 - ETA * lam) ** t
    return float((lam * left**2).max()), float(np.square(1 - left).mean())


def _closed(beta: int, notes: Notes) -> None:
    ratios: dict[tuple[float, int], float] = {}
    for total in TOTALS:
        lam = np.arange(1.0, total + 1) ** (-2 * beta)
        for sigma in NOISES:
            T = stopping_round(lam, sigma, total, ETA) or 0
            for t in {T // 10, T // 3, T} - {0}:
                bias, variance = parts(lam, t)
                notes.add(BOUND, math.e * ETA * t * (bias + sigma**2 * variance))
                notes.add(VARIANCE, variance / np.minimum(1.0, ETA * t * lam).mean())
            if T:
                bias, variance = parts(lam, T)
                ratios[sigma, total] = (bias + sigma**2 * variance) / unit(beta, sigma, total)
    notes.add(CONSTANT, *ratios.values())
    for sigma in NOISES:
        some = [total for total in TOTALS if total >= 800]
        notes.add(IN_ROWS, slope(some, [ratios[sigma, total] for total in some]))
    for total in (800, 3200, 12_800, 51_200):
        notes.add(IN_NOISE, slope([one**-2 for one in NOISES], [ratios[one, total] for one in NOISES]))


def _drawn(rng: np.random.Generator, notes: Notes) -> None:
    found: dict[tuple[int, float, str], dict[int, float]] = defaultdict(dict)
    for beta in BETAS:
        for total in DRAWN:
            U = np.linalg.qr(rng.standard_normal((total, total)))[0]
            K = total * (U * np.arange(1.0, total + 1) ** (-2 * beta)) @ U.T
            sizes = clients_of(total)
            eta = 1 / gamma(K, sizes, 1.0)
            chosen: tuple[Method, ...] = (
                *(LocalSteps(g * eta, s) for g in (0.3, 0.9) for s in (5, 10)),
                ProximalStep(0.9 * eta),
            )
            for method in chosen:
                made = Decomposition.of(K, sizes, method)
                for sigma in NOISES:
                    T = stopping_round(made.kernel_eigenvalues, sigma, total, method.step_size, method.steps)
                    if T:
                        ratio = worst(made, K, T, sigma) / (made.kappa * unit(beta, sigma, total))
                        notes.add(LOCAL, ratio)
                        found[beta, sigma, type(method).__name__][total] = ratio
    for (_, _, name), one in found.items():
        if name == "ProximalStep":
            some = [total for total in DRAWN[1:] if total in one]
            notes.add(LOCAL_ROWS, slope(some, [one[total] for total in some]))
