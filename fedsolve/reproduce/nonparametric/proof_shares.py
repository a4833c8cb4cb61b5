"""Section 6.2 and Appendix C.2 of Su, Xu and Yang (2023): what has a high probability, as a share of draws."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, D
from fedsolve.typing import Array

MANY = "of 400 draws at most 1 %"
ILL = Quantity("Corollary 13, proof", f"… {MANY} have ρ_N < α/2, N = 10 d and 80 d", "largest share", most=0.01)
DEVIATION = Quantity(
    "Proof of Corollary 13",
    f"… {MANY} have ‖φ(x)ᵀφ(x)/N − ΣΣ_ij/N‖ above 4 max{{√(d/N), d/N}}, N = 10 d and 80 d",
    "largest share",
    most=0.01,
)
SPREAD = Quantity(
    "Proof of Corollary 13", f"… {MANY} have ‖Δ_f_j*‖² above 2Γ²N, N = 10 d and 80 d", "largest share", most=0.01
)
SUBSPACES = Quantity(
    "Proof of Corollary 14, (75)",
    "… of 400 draws at most 1/d have ‖ΣY_i‖ > ½ with N = 8 ν d log d, n_i = r_i = 1, 4 and 9, d = 12",
    "largest share",
    most=1 / D,
)
QUANTITIES = (ILL, DEVIATION, SPREAD, SUBSPACES)
SHARES, DRAWS, PLENTY = (0.05, 0.1, 0.15, 0.3, 0.4), 400, 8  # of five clients' rows


def measured(seed: int, notes: Notes, draws: int = DRAWS) -> None:
    """Five clients with Gaussian rows and covariances of their own; clients with n_i = r_i in random subspaces."""
    rng = np.random.default_rng([seed, 64])
    for times in (10, 80):
        failed = np.mean([independent(rng, times * D) for _ in range(draws)], axis=0)
        for quantity, share in zip((ILL, DEVIATION, SPREAD), failed, strict=True):
            notes.add(quantity, share)
    for r in (1, 4, 9):
        clients = math.ceil(PLENTY * D * math.log(D) / r)
        notes.add(SUBSPACES, np.mean([away(rng, r, clients) > 0.5 for _ in range(draws)]))


def independent(rng: np.random.Generator, total: int) -> tuple[bool, bool, bool]:
    """Whether ρ_N, the deviation of the covariance, and ‖Δ_f_j*‖² of some client are outside of their bounds."""
    sizes = [round(total * share) for share in SHARES]
    rows, covariances = [], []
    for n in sizes:
        basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
        root = np.sqrt(np.linspace(LOW, 1, D)) * basis
        rows.append(rng.standard_normal((n, D)) @ root.T)
        covariances.append(n * root @ root.T)
    N, truths = sum(sizes), rng.standard_normal((len(sizes), D))
    G: Array = sum(one.T @ one for one in rows) / N
    gap = max(float(np.square(a - b).sum()) for a, b in combinations(truths, 2))
    deltas = [
        sum(float(np.square(one @ (truth - own)).sum()) for one, truth in zip(rows, truths, strict=True))
        for own in truths
    ]
    return (
        bool(np.linalg.eigvalsh(G)[0] < LOW / 2),
        bool(np.linalg.norm(G - sum(covariances) / N, 2) > 4 * max(math.sqrt(D / N), D / N)),
        max(deltas) > 2 * gap * N,
    )


def away(rng: np.random.Generator, r: int, clients: int) -> float:
    """‖Σ w_i (d/r)(U_iU_iᵀ − E U_iU_iᵀ)‖ for clients with as many rows in uniform subspaces."""
    U = np.linalg.qr(rng.standard_normal((clients, D, r)))[0]
    mean = D / r * np.einsum("nik,njk->ij", U, U) / clients
    return float(np.linalg.norm(mean - np.eye(D), 2))
