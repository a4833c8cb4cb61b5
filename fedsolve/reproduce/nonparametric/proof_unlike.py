"""Appendix C.2 of Su, Xu and Yang (2023), proof of Corollary 14: its steps for clients that differ."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import D
from fedsolve.reproduce.nonparametric.theory_subspaces import unlike

HALF = Quantity(
    "Proof of Corollary 14",
    "φ(x)ᵀφ(x)/N ⪰ αΣw_i(d/r_i)U_iU_iᵀ ⪰ (α/2)I for clients that differ, N = 8 ν d log d: least eigenvalues, 5 draws",
    "least eigenvalue of the difference over α, and of the sum less a half",
    least=-1e-10,
)
DEVIATION = Quantity("Proof of Corollary 14, (75)", "… ‖ΣY_i‖ ≤ ½ in these draws", "‖Σw_i(d/r_i)U_iU_iᵀ − I‖", most=0.5)
CHAIN = bound(
    "Proof of Corollary 14", "Σ‖φ(x_i)‖² ≤ Σ(d/r_i)‖F_i‖² ≤ βdΣn_i/r_i ≤ βνMd, for clients that differ, 5 draws"
)
SQUARES = bound(
    "Proof of Corollary 14", "‖Σw_i²(d/r_i)²(r_i/d − (r_i/d)²)I‖ ≤ Σw_i²d/r_i, for clients that differ, 5 draws"
)
QUANTITIES = (HALF, DEVIATION, CHAIN, SQUARES)


def measured(seed: int, notes: Notes) -> None:
    """r_i = 1 to 9, n_i = r_i to 3 r_i, d = 12."""
    rng = np.random.default_rng([seed, 49])
    for _ in range(5):
        X, nu, low, high = unlike(rng)
        sizes, total = np.array([len(rows) for rows in X]), sum(map(len, X))
        ranks = np.array([np.linalg.matrix_rank(rows) for rows in X])
        w, pooled = sizes / total, np.vstack(X)
        spans = [np.linalg.svd(rows, full_matrices=False)[2][:r].T for rows, r in zip(X, ranks, strict=True)]
        weighed = sum(a * D / r * U @ U.T for a, r, U in zip(w, ranks, spans, strict=True))
        notes.add(HALF, np.linalg.eigvalsh(pooled.T @ pooled / total / low - weighed)[0])
        notes.add(HALF, np.linalg.eigvalsh(weighed - np.eye(D) / 2)[0])
        notes.add(DEVIATION, np.linalg.norm(weighed - np.eye(D), 2))
        squares = np.array([np.linalg.norm(rows, 2) ** 2 for rows in X])
        # ‖F_i‖², from the rows in the basis U_i.
        inner = np.array([np.linalg.norm(rows @ U, 2) ** 2 * r / D for rows, r, U in zip(X, ranks, spans, strict=True)])
        chain = [squares.sum(), (D / ranks * inner).sum(), high * D * (sizes / ranks).sum(), high * nu * len(X) * D]
        notes.add(CHAIN, np.array(chain[:-1]) / np.array(chain[1:]))
        second = float((w**2 * (D / ranks) ** 2 * (ranks / D - (ranks / D) ** 2)).sum())
        notes.add(SQUARES, second / float((w**2 * D / ranks).sum()))
