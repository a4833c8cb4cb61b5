"""Appendices A to C of Su, Xu and Yang (2023): short steps of the proofs, on the five clients of `proof_recursion`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.reproduce.nonparametric.proof_recursion import Local, clients
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D, Rounds
from fedsolve.typing import Array

SYMMETRIC = identity(
    "Proof of Lemma 18", "Π K_x Πᵀ is symmetric: min(x, y), (1 + xz)² and linear kernel matrices, random Π"
)
POWERS = Quantity(
    "Proof of Lemma 4",
    "𝓛_i^s and 𝓛 are positive with norms of at most 1: their eigenvalues, FedAvg with γ = 0.9",
    "eigenvalues",
    0.0,
    1.0,
)
ANY_GAMMA = Quantity(
    "Proof of Lemma 4",
    "… and so is 𝓛 of FedProx whatever γ is, here 0.9, 10 and 1,000",
    "eigenvalues",
    0.0,
    1.0,
)
CHAIN = bound(
    "Proof of Lemma 4",
    "⟨𝓛̃_i g, g⟩ ≤ ‖g‖² + 2(η/n_i)‖g(x_i)‖² ≤ ‖𝓛̃_i g‖², since k is positive semi-definite, γ = 0.9 and 10",
)
SIMILAR = Quantity(
    "Proof of Lemma 4", "K_xP = P^(−½)(P^½K_xP^½)P^½, so that the two are similar", "largest difference", most=1e-10
)
MAXIMUM = identity(
    "Proof of Lemma 4",
    "‖ηP^½K_xP^½‖ is the maximum of (η/N) f(x)ᵀPf(x) over ‖f‖ ≤ 1: attained, and above that of 1,000 random f",
)
OSTROWSKI = bound("Proof of Lemma 5", "λ_min(P)λ_i ≤ Λ_i ≤ ‖P‖λ_i for every i ≤ d, and s/κ ≤ λ_min(P)")
PRODUCT = bound(
    "Proof of Lemma 19",
    "‖V(I − (I − ηΛ)^t)V⁻¹‖_F ≤ ‖V‖‖V⁻¹‖‖I − (I − ηΛ)^t‖_F ≤ √κ‖I − (I − ηΛ)^t‖_F, t = 1 to 100",
)
TRACE = Quantity(
    "Proof of Lemma 21, (48)",
    "Tr(YZ) ≥ 0 for positive semi-definite Y and Z of any rank, 200 pairs, and with Q = (I − L^t)ᵀ(I − L^t) for Z",
    "least Tr(YZ) over ‖Y‖‖Z‖",
    least=-1e-12,
)
MATRIX = identity("Proof of Lemma 29", "𝓟f = (φ(x)ᵀφ(x)a/N)·φ for f = a·φ: at the rows and at 50 new points")
DUAL = identity(
    "Proof of Lemma 28",
    "‖A‖ is the maximum of ⟨f, 𝓣(a·Ψ)⟩² over ‖a‖ ≤ 1 and ‖f‖ ≤ 1: attained, and above that of 1,000 random pairs",
)
NORMS = bound("Proof of Theorem 10, (56)", "‖x‖_p ≤ ‖x‖_q for p ≥ q = 1, 2, 3, 4 and 8, 100 random x")
QUANTITIES = (SYMMETRIC, POWERS, ANY_GAMMA, CHAIN, SIMILAR, MAXIMUM, OSTROWSKI, PRODUCT, TRACE, MATRIX, DUAL, NORMS)


def measured(seed: int, notes: Notes) -> None:
    """Every step for every method."""
    for X, method, rng in clients(seed):
        _kernels(X[1], rng, notes)
        for rows in X:
            _chain(rows, rng, notes)
        _spectrum(X, method, rng, notes)
        _operators(X, method, rng, notes)


def _kernels(X: Array, rng: np.random.Generator, notes: Notes) -> None:
    x, n = rng.random(len(X)), len(X)
    for K in (np.minimum(x[:, None], x), (1 + np.outer(x, x)) ** 2, X @ X.T):
        Pi = rng.standard_normal((3, n))
        inner = Pi @ (K / n) @ Pi.T
        notes.same(SYMMETRIC, inner, inner.T)
    some = rng.standard_normal((100, n))
    norms = np.array([np.linalg.norm(some, q, axis=1) for q in (1, 2, 3, 4, 8)])
    notes.add(NORMS, norms[1:] / norms[:-1])
    for _ in range(50):
        Y, Z = (A @ A.T for A in (rng.standard_normal((n, int(rng.integers(1, n + 1)))) for _ in range(2)))
        notes.add(TRACE, np.trace(Y @ Z) / (np.linalg.norm(Y, 2) * np.linalg.norm(Z, 2)))


def _chain(X: Array, rng: np.random.Generator, notes: Notes) -> None:
    steepest, g = float(np.linalg.norm(X, 2)) ** 2, rng.standard_normal(D)
    at_rows = X @ g
    for size in (0.9 / steepest, 10 / steepest):  # η/n_i
        moved = g + size * X.T @ at_rows
        middle = g @ g + 2 * size * at_rows @ at_rows
        notes.add(CHAIN, moved @ g / middle, middle / (moved @ moved))


def _spectrum(X: Sequence[Array], method: Method, rng: np.random.Generator, notes: Notes) -> None:
    pooled, N, eta = np.vstack(X), sum(map(len, X)), method.step_size
    P, start = np.zeros((N, N)), 0
    for rows in X:
        P[start : start + len(rows), start : start + len(rows)] = Local(rows, method).P
        start += len(rows)
    values, vectors = np.linalg.eigh(P)
    root, back = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    K = pooled @ pooled.T / N
    Lam, U = np.linalg.eigh(root @ K @ root)
    notes.same(SIMILAR, K @ P, back @ (root @ K @ root) @ root)
    # f = (P^½u)·k_x over its norm, u the leading eigenvector.
    best = pooled.T @ root @ U[:, -1]
    best /= np.linalg.norm(best)
    reached = eta / N * (pooled @ best) @ P @ (pooled @ best)
    notes.same(MAXIMUM, reached, np.array(eta * Lam[-1]))
    others = rng.standard_normal((D, 1000))
    others = pooled @ (others / np.linalg.norm(others, axis=0))
    notes.add(MAXIMUM, max(0.0, float((eta / N * (others * (P @ others)).sum(axis=0)).max() / reached) - 1))
    lam, own = np.linalg.eigvalsh(K)[::-1][:D], Lam[::-1][:D]
    notes.add(OSTROWSKI, values[0] * lam / own, own / (values[-1] * lam))
    kappa = Rounds.of(X, method).kappa
    notes.add(OSTROWSKI, method.steps / kappa / values[0])
    V, inverse = back @ U, U.T @ root
    for t in (1, 10, 100):
        learned = 1 - (1 - eta * np.maximum(Lam, 0)) ** t
        size = float(np.linalg.norm(learned))
        middle = np.linalg.norm(V, 2) * np.linalg.norm(inverse, 2)
        notes.add(PRODUCT, np.linalg.norm((V * learned) @ inverse) / (middle * size), middle / np.sqrt(kappa))
        Q = (V * learned) @ inverse
        Q = Q.T @ Q
        Y = np.diag(SIGMA**2 * rng.random(N))
        notes.add(TRACE, np.trace(Y @ Q) / (np.linalg.norm(Y, 2) * np.linalg.norm(Q, 2)))


def _operators(X: Sequence[Array], method: Method, rng: np.random.Generator, notes: Notes) -> None:
    pooled, a, new = np.vstack(X), rng.standard_normal(D), rng.standard_normal((50, D))
    points = np.vstack([pooled, new])
    left = points @ pooled.T @ (pooled @ a) / len(pooled)  # (1/N) f(x)·k_x, k(z, x) = φ(z)ᵀφ(x)
    notes.same(MATRIX, left, points @ (pooled.T @ pooled / len(pooled) @ a))
    made = Rounds.of(X, method)
    moved = made.summed(7) @ made.C  # 𝓣(a·Ψ), 𝓣 = Σ 𝓛^τ, and A = its square
    left_vectors, _, right_vectors = np.linalg.svd(moved, full_matrices=False)
    size = np.linalg.norm(moved.T @ moved, 2)
    notes.same(DUAL, (left_vectors[:, 0] @ moved @ right_vectors[0]) ** 2, np.array(size))
    f, b = rng.standard_normal((1000, D)), rng.standard_normal((1000, made.samples))
    f, b = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (f, b))
    notes.add(DUAL, max(0.0, float(np.square(np.sum(f * (b @ moved.T), axis=1)).max() / size) - 1))
    if isinstance(method, LocalSteps):
        for rows in X:
            notes.add(POWERS, np.linalg.eigvalsh(Local(rows, method).whole))
        notes.add(POWERS, np.linalg.eigvalsh(Rounds.of(X, method).A))
    else:
        for times in (1.0, 10 / 0.9, 1000 / 0.9):
            notes.add(ANY_GAMMA, np.linalg.eigvalsh(Rounds.of(X, ProximalStep(times * method.step_size)).A))
