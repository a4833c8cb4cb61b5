"""Su, Xu and Yang (2023), section 6.2.2: clients whose rows lie on lines. How many are needed, and is ν necessary?"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.typing import Array

NEEDED = Quantity(
    "Section 6.2.2",
    "rows on lines: ½ d log d clients see all d directions in at most 1 % of 2,000 trials, d = 50, 100, 200 and 400",
    "share of the trials",
    most=0.01,
)
ENOUGH = Quantity(
    "Section 6.2.2",
    "… and d log d clients see them in at least a quarter, d = 50 to 400",
    "share of the trials",
    least=0.25,
)
WITHOUT = Quantity(
    "Section 6.2.2",
    "r_i = 1, d = 100: with N = 8 d log d, that is without ν, ρ_N = 0 in at least 99 % of 2,000 draws for n = 25",
    "share of the draws",
    least=0.99,
)
WITH = Quantity(
    "Section 6.2.2",
    "… and with N = 8 ν d log d, ν = n = 1, 5 and 25, ρ_N > 0 in at least 99 %",
    "share of the draws",
    least=0.99,
)
FALLS = Quantity(
    "Section 6.2.2",
    "… without ν the share of draws with ρ_N > 0 falls with n = 1, 5 and 25",
    "next less last share",
    most=-0.01,
)
QUANTITIES = (NEEDED, ENOUGH, WITHOUT, WITH, FALLS)
TRIALS, FEATURES, PLENTY = 2000, 100, 8


def measured(seed: int, notes: Notes) -> None:
    """Each client draws one of the d basis vectors of ℝ^d; all its rows are multiples of it."""
    rng = np.random.default_rng([seed, 42])
    for d in (50, 100, 200, 400):
        notes.add(NEEDED, (least_eigenvalues(rng, d, math.ceil(d * math.log(d) / 2)) > 0).mean())
        notes.add(ENOUGH, (least_eigenvalues(rng, d, math.ceil(d * math.log(d))) > 0).mean())
    enough = PLENTY * FEATURES * math.log(FEATURES)
    shares = []
    for n in (1, 5, 25):  # rows of a client, of N in all; ν = n_i/r_i = n
        without, with_nu = (least_eigenvalues(rng, FEATURES, math.ceil(N / n)) for N in (enough, n * enough))
        shares.append(float((without > 0).mean()))
        notes.add(WITH, (with_nu > 0).mean())
    notes.add(WITHOUT, 1 - shares[-1])
    notes.add(FALLS, np.diff(shares))


def least_eigenvalues(rng: np.random.Generator, d: int, clients: int, trials: int = TRIALS) -> Array:
    """ρ_N in each trial: rows are √d e_k for one k of each client, and clients have equally many rows, so that
    φ(x)ᵀφ(x)/N is diagonal, d/M times the number of clients with that k."""
    return np.array([d / clients * np.bincount(rng.integers(0, d, clients), minlength=d).min() for _ in range(trials)])
