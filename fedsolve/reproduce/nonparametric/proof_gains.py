"""Section 6.3 and Appendix D of Su, Xu and Yang (2023): Theorems 16 and 17 and each step of their proofs, d = 12."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.closed_forms.gain import expected_gain, gain_bound, subspace_gain_bound
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
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
POSTERIOR = Quantity(
    "Proof of Theorem 16",
    "given φ(x_j)θ* no estimate has an error below B² − ‖β‖²: that of Vβ and of three others, 40,000 draws",
    "error over it",
    0.98,
)
NOT_SEEN = Quantity(
    "Proof of Theorem 16",
    "least squares of minimum norm has at least (1 − n_j/d)B² on average over the sphere, n_j < d",
    "error over it",
    least=1.0,
)
LOCAL = Quantity(
    "Proof of Theorem 16",
    "even the best ridge regression, which knows B and σ, has at least a tenth of min{σ²d/n_j, B²} + "
    "max{1 − n_j/d, 0}B²",
    "error over it",
    least=0.1,
)
EXPLODES = Quantity(
    "Footnote 6",
    "without a bound B the risk of a client with n_j < d is unbounded: it is at least 50 times as large "
    "for a truth 10 times as large, and again",
    "next over last",
    least=50.0,
)
TOGETHER = Quantity(
    "Proof of Theorem 16",
    "the federated error is at most twice κ(σ²d/N + Γ²), s = 1 to 100 and FedProx, Γ = 0 to 10",
    "error over κ(σ²d/N + Γ²)",
    most=2.0,
)
GAIN = Quantity(
    "Theorem 16, (34)",
    "the gain is at least a tenth of the bound with c_1 = 1, n_j = 5 to 60 and Γ = 0 to 10, s = 1 to 100 and FedProx",
    "gain over bound",
    least=0.1,
)
SCARCE = Quantity(
    "After Theorem 16",
    "n_j < d: the gain is at least of the order (1 − n_j/d)B²/Γ², here a tenth, Γ = 0.3 to 10",
    "gain over it",
    least=0.1,
)
RICH = Quantity(
    "After Theorem 16",
    "n_j ≥ d: the gain is at least of the order min{σ²d/n_j, B²}/Γ², here a tenth, Γ = 0.3 to 10",
    "gain over it",
    least=0.1,
)
ORDER = Quantity(
    "After Theorem 16",
    "with Γ = 0 the gain is at least of the order min{N/n_j, N/d}, here a tenth",
    "gain over it",
    least=0.1,
)
FALLS = Quantity(
    "After Theorem 16",
    "the gain is largest with Γ = 0 and falls as Γ grows",
    "gain over that with the next smaller Γ",
    most=1.0 - 1e-9,
)
SUBSPACE = Quantity(
    "Theorem 17, (35)",
    "in random subspaces the gain is at least a tenth of the bound with c_1 = 1",
    "gain over bound",
    least=0.1,
)
SUBSPACE_FED = bound("Proof of Theorem 17", "the federated error is at most 2κσ²d/(Nα)")
SUBSPACE_LOCAL = Quantity(
    "Proof of Theorem 17",
    "the local error is at least (1 − r_j/d)B² on average over the sphere",
    "error over it",
    least=1.0,
)
DECREASES = Quantity("After Theorem 17", "n_j ≫ d: the gain decreases in r_j = 2, 4, … 12", "next over last", most=1.0)
QUANTITIES = (
    *(PACKED, DIVERGENCE, INSIDE, FANO, FANO_FOUR, SPHERE, POSTERIOR, NOT_SEEN, LOCAL, EXPLODES, TOGETHER, GAIN),
    *(SCARCE, RICH, ORDER, FALLS, SUBSPACE, SUBSPACE_FED, SUBSPACE_LOCAL, DECREASES),
)  # fmt: skip
DRAWS = 40_000
GAPS = (0.0, 0.3, 1.0, 3.0, 10.0)


def measured(seed: int, notes: Notes) -> None:
    """Lower bounds by draws of truths; gains exactly."""
    rng = np.random.default_rng([seed, 27])
    _fano(rng, notes)
    _spheres(rng, notes)
    for own in (5, 9, 15, 30, 60):
        _gains(own, rng, notes)
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
        least = B**2 - np.square(seen).sum(axis=1).mean()
        for guess in (seen @ V.T, 0.9 * seen @ V.T, seen @ V.T + 0.1, np.zeros((1, D))):
            notes.add(POSTERIOR, np.square(guess - truths).sum(axis=1).mean() / least)
        # E over the sphere of what the rows do not see is (1 − n/d)B² exactly; noise comes on top.
        noise = SIGMA**2 * float(np.trace(np.linalg.inv(X @ X.T)))
        unseen = B**2 / D * (D - np.linalg.matrix_rank(X))
        notes.add(NOT_SEEN, (unseen + noise) / ((1 - n / D) * B**2))
        far = [
            expected_gain([X], size * truths[:1], 0, SIGMA, LocalSteps(1e-3)).local for size in (10.0, 100.0, 1000.0)
        ]
        notes.add(EXPLODES, np.array(far[1:]) / np.array(far[:-1]))
    for n, B in product((3, 8, 12, 20, 100), (0.3, 1.0, 5.0)):
        risks = []
        for _ in range(10):
            X = rng.standard_normal((n, D))
            risks.append(SIGMA**2 * float(np.trace(np.linalg.inv(X.T @ X + SIGMA**2 * D / B**2 * np.eye(D)))))
        order = min(SIGMA**2 * D / n, B**2) + max(1 - n / D, 0) * B**2
        notes.add(LOCAL, np.mean(risks) / order)


def _methods(X: list[Array]) -> tuple[Method, ...]:
    eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    return (*(LocalSteps(eta, s) for s in (1, 5, 10, 100)), ProximalStep(eta))


def _gains(own: int, rng: np.random.Generator, notes: Notes) -> None:
    """Of a client with `own` rows among nine with 40; the others' common truth is Γ away."""
    X = [rng.standard_normal((n, D)) for n in (own, *(40,) * 9)]
    N, theta, away = sum(map(len, X)), rng.standard_normal(D), rng.standard_normal(D)
    B = float(np.linalg.norm(theta))
    for method in _methods(X):
        kappa, gains = method.kappa(0.9), []
        for gap in GAPS:
            truths = np.tile(theta + gap * away / np.linalg.norm(away), (len(X), 1))
            truths[0] = theta
            found = expected_gain(X, truths, 0, SIGMA, method)
            gains.append(found.ratio)
            notes.add(TOGETHER, found.federated / (kappa * (SIGMA**2 * D / N + gap**2)))
            notes.add(GAIN, found.ratio / gain_bound(own, D, N, SIGMA, B, gap))
            if gap > 0:
                local = (1 - own / D) * B**2 if own < D else min(SIGMA**2 * D / own, B**2)
                notes.add(SCARCE if own < D else RICH, found.ratio / (local / gap**2))
        notes.add(ORDER, gains[0] / min(N / own, N / D))
        notes.add(FALLS, np.array(gains[1:]) / np.array(gains[:-1]))


def _in_subspaces(rng: np.random.Generator, notes: Notes) -> None:
    """A client with 120 rows in r columns among enough others with 4 r rows each."""
    theta = rng.standard_normal(D)
    B, gains = float(np.linalg.norm(theta)), []
    for r in (2, 4, 6, 8, 10, 12):
        clients = math.ceil(8 * D * math.log(D) / r)
        X = []
        for n in (120, *(4 * r,) * clients):
            rows = np.zeros((n, D))
            rows[:, rng.permutation(D)[:r]] = math.sqrt(D / r) * rng.standard_normal((n, r))
            X.append(rows)
        N, truths = sum(map(len, X)), np.tile(theta, (len(X), 1))
        low = min(float(np.linalg.svd(rows / math.sqrt(D / r), compute_uv=False)[r - 1]) ** 2 / len(rows) for rows in X)
        for method in _methods(X)[:3]:
            found = expected_gain(X, truths, 0, SIGMA, method)
            kappa = method.kappa(0.9)
            notes.add(SUBSPACE, found.ratio / subspace_gain_bound(120, r, D, N, SIGMA, B, kappa))
            notes.add(SUBSPACE_FED, found.federated / (2 * kappa * SIGMA**2 * D / (N * low)))
        averaged = (
            found.local - np.square(theta[~X[0].any(axis=0)]).sum() + (1 - r / D) * B**2
        )  # θ uniform on the sphere
        if r < D:
            notes.add(SUBSPACE_LOCAL, averaged / ((1 - r / D) * B**2))
        gains.append(averaged / found.federated)
    notes.add(DECREASES, np.array(gains[1:]) / np.array(gains[:-1]))
