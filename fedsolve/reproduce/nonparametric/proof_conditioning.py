"""Example 2 of Su, Xu and Yang (2023): how well M Gaussian F_i are conditioned, by n_i, r_i and M."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.typing import Array

NEAR_ONE = Quantity(
    "Example 2",
    "n_i = C max{r_i, log M}, C = 100: 1 − δ ≤ α ≤ β ≤ 1 + δ with δ ≤ 0.35, r_i = 1 and 3 with M = 20, 1,000 and "
    "100,000, r_i = 10 and 30 with M = 20",
    "α and β",
    0.65,
    1.35,
)
ROOT = Quantity("Example 2", "… δ ≤ 4/√C, the same r_i and M, C = 10, 100 and 1,000", "δ√C", most=4.0)
FALLS = Quantity("Example 2", "… δ falls from C to 10 C", "next over last δ", most=1 - 1e-6)
LOG_NEEDED = Quantity(
    "Example 2",
    "… with n_i = C r_i, C = 100, r_i = 1, M = 100,000 clients have δ > 0.35",
    "δ",
    least=0.35 + 1e-6,
)
QUANTITIES = (NEAR_ONE, ROOT, FALLS, LOG_NEEDED)
CASES = (*((r, M) for r in (1, 3) for M in (20, 1000, 100_000)), (10, 20), (30, 20))
CONSTANTS, DRAWS, MANY = (10, 100, 1000), 3, 100_000


def measured(seed: int, notes: Notes) -> None:
    """Three draws of each case; every draw has M clients."""
    rng = np.random.default_rng([seed, 133])
    for _ in range(DRAWS):
        for r, M in CASES:
            found = [eigenvalues(rng, M, rows(C, r, M), r) for C in CONSTANTS]
            notes.add(NEAR_ONE, found[CONSTANTS.index(100)])
            deltas = np.array([np.abs(one - 1).max() for one in found])
            notes.add(ROOT, deltas * np.sqrt(CONSTANTS))
            notes.add(FALLS, deltas[1:] / deltas[:-1])
        notes.add(LOG_NEEDED, np.abs(eigenvalues(rng, MANY, 100, 1) - 1).max())


def rows(C: float, r: int, M: int) -> int:
    """n_i = C max{r_i, log M}."""
    return math.ceil(C * max(r, math.log(M)))


def eigenvalues(rng: np.random.Generator, M: int, n: int, r: int) -> Array:
    """Of F_iᵀF_i/n for M Gaussian F_i of n rows and r columns: F_iᵀF_i is LLᵀ, L as Bartlett has it."""
    L = np.tril(rng.standard_normal((M, r, r)), -1)
    L[:, np.arange(r), np.arange(r)] = np.sqrt(rng.chisquare(n - np.arange(r), (M, r)))
    return np.asarray(np.linalg.eigvalsh(L @ np.swapaxes(L, 1, 2) / n))
