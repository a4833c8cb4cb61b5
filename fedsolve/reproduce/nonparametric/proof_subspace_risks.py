"""Proof of Theorem 17 of Su, Xu and Yang (2023): what a client with rows in r_j of d columns can learn alone.

R_j^Loc is at least of the order min{σ²d/n_j, B²} + (1 − r_j/d)B². As for Theorem 16, the best estimator for Gaussian
truths of mean square B² stands beside what no estimator can beat.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.reproduce.nonparametric.gain_risks import bayes_risk, least_risk
from fedsolve.reproduce.nonparametric.proof_gains import subspace_rows
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D

WHERE = "d = 12, r_j = 1 to 12, n_j = 1 to 600, B = 0.3, 1 and 3.5"
LOCAL = Quantity(
    "Proof of Theorem 17",
    "rows in r_j columns: the best estimator for Gaussian truths of mean square B² has at least a tenth of "
    f"min{{σ²d/n_j, B²}} + (1 − r_j/d)B²: {WHERE}",
    "error over it",
    least=0.1,
)
ANY = Quantity(
    "Proof of Theorem 17",
    "rows in r_j columns: a bound from below for any estimator (van Trees, or what the rows do not see) has at least a "
    "twentieth",
    "bound over it",
    least=0.05,
)
QUANTITIES = (LOCAL, ANY)
RANKS, ROWS, NORMS, DRAWS = (1, 2, 4, 6, 8, 10, 11, 12), (1, 4, 12, 30, 120, 600), (0.3, 1.0, 3.5), 4


def measured(seed: int, notes: Notes) -> None:
    """Risks are means over draws of the rows."""
    rng = np.random.default_rng([seed, 63])
    for r, own in product(RANKS, ROWS):
        drawn = [subspace_rows(rng, own, r) for _ in range(DRAWS)]
        for norm in NORMS:
            best = float(np.mean([bayes_risk(X, norm) for X in drawn]))
            judge(own, r, norm, best, least_risk(drawn, norm), notes)


def judge(own: int, r: int, norm: float, best: float, least: float, notes: Notes) -> None:
    """A local risk, and a bound from below on it, beside both terms."""
    first, second = min(SIGMA**2 * D / own, norm**2), (1 - r / D) * norm**2
    notes.add(LOCAL, best / (first + second))
    notes.add(ANY, least / (first + second))
