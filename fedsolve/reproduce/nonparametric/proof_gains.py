"""Section 6.3 and Appendix D of Su, Xu and Yang (2023): Theorems 16 and 17 and each step of their proofs, d = 12."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.closed_forms.gain import subspace_gain_bound
from fedsolve.reproduce.nonparametric.gain_risks import Federated, bayes_risk, methods
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D
from fedsolve.typing import Array

PACKED = Quantity(
    "Proof of Theorem 16",
    "the unit ball has a ½-packing of at least 2^d points: greedily, d = 1 to 4",
    "points over 2^d",
    least=1.0,
)
DIVERGENCE = bound(
    "Proof of Theorem 16",
    "E‖φ(x_j)(θ_v − θ_v')‖²/(2σ²) ≤ n_jβ‖θ_v − θ_v'‖²/(2σ²) ≤ 32n_jβδ²/σ², for θ_v = 4δv and Gaussian rows",
)
INSIDE = bound("Proof of Theorem 16", "with δ² = min{σ²d/(βn_j), B²}/64, 32n_jβδ²/σ² ≤ d/2 and ‖θ_v‖ ≤ B")
FANO = Quantity(
    "Proof of Theorem 16",
    "the factor 1 − (d/2 + log 2)/(d log 2) of Fano's bound is positive for any d, as printed: d = 1 to 100",
    "least factor",
    least=1e-6,
)
FANO_FOUR = Quantity("Proof of Theorem 16", "… and for d = 4 to 100", "least factor", least=1e-6)
SPHERE = Quantity(
    "Proof of Theorem 16",
    "E‖Vᵀθ*‖² = (B²/d)‖V‖_F² = B²n_j/d for θ* uniform on the sphere: the mean of 40,000 draws",
    "mean over it",
    0.98,
    1.02,
)
SUBSPACE = Quantity(
    "Theorem 17, (35)",
    "in random subspaces the best estimator's over the federated risk is at least a tenth of the bound with c_1 = 1",
    "gain over bound",
    least=0.1,
)
SUBSPACE_FED = bound("Proof of Theorem 17", "the federated error is at most 2κσ²d/(Nα)")
DECREASES = Quantity(
    "After Theorem 17", "n_j ≫ d: over N/d the gain decreases in r_j = 2, 4, … 12", "next over last", most=1.0
)
DOMINATED = Quantity(
    "After Theorem 17",
    "n_j ≫ d: the gain is within a factor of 2κ of (1 − r_j/d)B²/(σ²d/N), r_j = 2 to 10, s = 1, 5 and 10 and FedProx",
    "gain over it, and its inverse, over κ",
    most=2.0,
)
UNCHANGED = Quantity(
    "After Theorem 17",
    "n_j = 1 ≪ d = 12: over N/d the gain is within 25 % of its median, r_j = 2 to 12, s = 1, 5 and 10 and FedProx",
    "gain over N/d, over its median",
    0.75,
    1.25,
)
QUANTITIES = (
    *(PACKED, DIVERGENCE, INSIDE, FANO, FANO_FOUR, SPHERE, SUBSPACE, SUBSPACE_FED, DECREASES, DOMINATED, UNCHANGED),
)  # fmt: skip
DRAWS = 40_000


def measured(seed: int, notes: Notes) -> None:
    """Lower bounds by draws of truths; gains exactly."""
    rng = np.random.default_rng([seed, 27])
    _fano(rng, notes)
    _spheres(rng, notes)
    _in_subspaces(rng, notes)


def _fano(rng: np.random.Generator, notes: Notes) -> None:
    for d in (1, 2, 3, 4):
        points = rng.standard_normal((4000, d))
        points *= (rng.random(4000) ** (1 / d) / np.linalg.norm(points, axis=1))[:, None]
        kept: list[Array] = []
        for one in points:
            if all(np.linalg.norm(one - other) >= 0.5 for other in kept):
                kept.append(one)
        notes.add(PACKED, len(kept) / 2**d)
    beta, n, B = 1.0, 20, 2.0
    covariance = np.linspace(0.1, beta, D)
    delta = math.sqrt(min(SIGMA**2 * D / (beta * n), B**2) / 64)
    for _ in range(50):
        v, w = (one / max(1.0, float(np.linalg.norm(one))) for one in rng.standard_normal((2, D)))
        apart = 4 * delta * (v - w)
        chain = n * covariance @ apart**2, n * beta * apart @ apart, 64 * n * beta * delta**2
        notes.add(DIVERGENCE, chain[0] / chain[1], chain[1] / chain[2])
    for n, B in product((1, 20, 500), (0.1, 1.0, 30.0)):
        delta = math.sqrt(min(SIGMA**2 * D / (beta * n), B**2) / 64)
        notes.add(INSIDE, 32 * n * beta * delta**2 / SIGMA**2 / (D / 2), 4 * delta / B)
    dimensions = np.arange(1.0, 101)
    factor = 1 - (dimensions / 2 + math.log(2)) / (dimensions * math.log(2))
    notes.add(FANO, factor)
    notes.add(FANO_FOUR, factor[3:])


def _spheres(rng: np.random.Generator, notes: Notes) -> None:
    B = 2.0
    truths = rng.standard_normal((DRAWS, D))
    truths *= B / np.linalg.norm(truths, axis=1)[:, None]
    for n in (3, 8):
        X = rng.standard_normal((n, D))
        V = np.linalg.qr(X.T)[0]
        seen = truths @ V
        notes.add(SPHERE, np.square(seen).sum(axis=1).mean() / (B**2 * n / D))


def _in_subspaces(rng: np.random.Generator, notes: Notes) -> None:
    """A client with 120 rows, or with one, in r columns among enough others with 4 r rows each."""
    B = 3.5
    found: dict[tuple[int, int], list[float]] = {}
    for r in (2, 4, 6, 8, 10, 12):
        others = [subspace_rows(rng, 4 * r, r) for _ in range(math.ceil(8 * D * math.log(D) / r))]
        for own in (120, 1):
            X = [subspace_rows(rng, own, r), *others]
            N, alone = sum(map(len, X)), bayes_risk(X[0], B)
            low = min(_least(rows, r) for rows in (X if own > 1 else others))
            for place in (0, 1, 2, 4):
                method = methods(X)[place]
                risk, kappa = Federated.of(X, method).variance, method.kappa(0.9)  # of one truth: there is no bias
                found.setdefault((own, place), []).append(alone / risk / (N / D))
                notes.add(SUBSPACE, alone / risk / subspace_gain_bound(own, r, D, N, SIGMA, B, kappa))
                notes.add(SUBSPACE_FED, risk / (2 * kappa * SIGMA**2 * D / (N * low)))
                if r < D and own > D:
                    ratio = alone / risk / ((1 - r / D) * B**2 / (SIGMA**2 * D / N))
                    notes.add(DOMINATED, ratio / kappa, 1 / ratio / kappa)
    for (own, _), gains in found.items():
        if own > D:
            notes.add(DECREASES, np.array(gains[1:]) / np.array(gains[:-1]))
        else:
            notes.add(UNCHANGED, np.array(gains) / np.median(gains))


def subspace_rows(rng: np.random.Generator, n: int, r: int) -> Array:
    rows = np.zeros((n, D))
    rows[:, rng.permutation(D)[:r]] = math.sqrt(D / r) * rng.standard_normal((n, r))
    return rows


def _least(rows: Array, r: int) -> float:
    """λ_min(F_iᵀF_i/n_i)."""
    return float(np.linalg.svd(rows / math.sqrt(D / r), compute_uv=False)[r - 1]) ** 2 / len(rows)
