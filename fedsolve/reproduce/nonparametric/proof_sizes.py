"""Section 6.2 and Corollary 13 of Su, Xu and Yang (2023): the error in d, and ρ_N where its bound is positive."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.nonparametric.gain_risks import Federated, methods, unlike_rows
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, D
from fedsolve.reproduce.nonparametric.theory_rates import slope

IN_DIMENSION = Quantity(
    "Section 6.2, statistical optimality",
    "… and grows in proportion to d: exponent 1 ± 0.1, d = 6, 12, 24 and 48, N = 4,800, s = 1 to 100 and FedProx",
    "exponent in d",
    0.9,
    1.1,
)
MIDDLE = bound(
    "Proof of Corollary 13",
    "α/2 ≤ α − ‖φ(x)ᵀφ(x)/N − ΣΣ_ij/N‖ ≤ ρ_N with one covariance for all rows, N = 1,000 d and 4,000 d",
)
QUANTITIES = (IN_DIMENSION, MIDDLE)
SHARES, TOTAL = (0.05, 0.1, 0.15, 0.3, 0.4), 4800  # of five clients' rows


def measured(seed: int, notes: Notes) -> None:
    """Gaussian rows with covariances between α = 0.1 and 1; expectations over the noise are exact."""
    rng = np.random.default_rng([seed, 53])
    dimensions = (6, 12, 24, 48)
    table = []
    for d in dimensions:
        X = [unlike_rows(rng, round(share * TOTAL), d) for share in SHARES]
        table.append([Federated.of(X, method).variance for method in methods(X)])
    notes.add(IN_DIMENSION, *(slope(dimensions, one) for one in np.transpose(table).tolist()))
    scales = np.linspace(LOW, 1, D)
    for times in (1000, 4000):
        rows = rng.standard_normal((times * D, D)) * np.sqrt(scales)
        G = rows.T @ rows / len(rows)
        middle = LOW - float(np.linalg.norm(G - np.diag(scales), 2))
        right = float(np.linalg.eigvalsh(G)[0])
        notes.add(MIDDLE, LOW / 2 / middle if middle > 0 else math.nan, middle / right)
