"""Appendix A of Su, Xu and Yang (2023), Lemma 18 and the proofs of Lemmas 4 and 5: each step, and misprints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.reproduce.nonparametric.proof_recursion import Local, clients
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import D, Rounds
from fedsolve.typing import Array

ORDERED = Quantity(
    "Lemma 18, (37)",
    "Π K_x Πᵀ − Π f(x) f(x)ᵀ Πᵀ/n has no negative eigenvalue, ‖f‖ = 1",
    "least eigenvalue",
    least=-1e-10,
)
ATTAINED = identity("Lemma 18, (38)", "‖Π K_x Πᵀ‖ is the maximum of ‖Π f(x)‖²/n over ‖f‖ ≤ 1, and attained")
PER_DIRECTION = identity("Proof of Lemma 18, (39)", "uᵀΠK_xΠᵀu = ‖(uᵀΠ)·k_x‖²/n = max (uᵀΠf(x))²/n, for any u")
ONE_N_TOO_MANY = identity("Proof of Lemma 18", "‖Π K_x Πᵀ‖ = max (1/n) uᵀΠK_xΠᵀu, as printed")
NORM_BY_U = identity("Proof of Lemma 18", "… and = max uᵀΠK_xΠᵀu, without 1/n")
FORM = identity("Proof of Lemma 4", "⟨f, 𝓛_i f⟩ = ‖f‖² − (η/n_i) ‖f(x_i)‖²")
BETWEEN = Quantity(
    "Proof of Lemma 4",
    "‖𝓛_i‖ ≤ 1, and ⟨f, 𝓛_i f⟩ is at least (1 − γ) ‖f‖²: eigenvalues of 𝓛_i",
    "eigenvalues of 𝓛_i",
    0.1,
    1.0,
)
WRONG_G = identity("Proof of Lemma 4", "with g = 𝓛̃_i f, as printed, ⟨f, 𝓛̃_i⁻¹ f⟩ = ⟨𝓛̃_i g, g⟩")
RIGHT_G = identity("Proof of Lemma 4", "… and with g = 𝓛̃_i⁻¹ f")
EXPANDED = identity(
    "Proof of Lemma 4",
    "⟨𝓛̃_i g, g⟩ = ‖g‖² + (η/n_i)‖g(x_i)‖², and ‖𝓛̃_i g‖² = ‖g‖² + 2(η/n_i)‖g(x_i)‖² + (η/n_i)² g(x_i)ᵀk g(x_i)",
)
INVERSE = Quantity(
    "Proof of Lemma 4",
    "0 ≤ ⟨𝓛̃_i⁻¹ f, f⟩ ≤ ‖f‖² whatever γ is: eigenvalues of 𝓛̃_i⁻¹, γ = 0.9 and 10",
    "eigenvalues of 𝓛̃_i⁻¹",
    0.0,
    1.0,
)
SIMILAR = Quantity(
    "Section 5",
    "the eigenvalues of K_x P are those of P^½ K_x P^½, real and not negative",
    "largest difference",
    most=1e-8,
)
WEIGHED = identity("Proof of Lemma 4", "(η/N) f(x)ᵀPf(x) = (η/N) ⟨f, f(x)·Pk_x⟩ = ⟨f, f(x)·Ψ⟩ = ‖f‖² − ⟨f, 𝓛f⟩")
AT_MOST = bound("Proof of Lemma 4", "‖ηP^½K_xP^½‖, which is the maximum of (η/N) f(x)ᵀPf(x), is at most 1", "norm")
OPERATOR = Quantity("Lemma 4", "the eigenvalues of 𝓛 are within [0, 1]", "eigenvalues", 0.0, 1.0)
POSITIVE = Quantity("Section 5", "γ < 1 guarantees that P is positive definite", "eigenvalues of P over s", least=1e-12)
ALWAYS = Quantity(
    "Footnote 2", "for FedProx P is positive definite whatever γ is, here 10 and 1000", "eigenvalues of P", least=1e-12
)
STABLE = Quantity(
    "Footnote 2",
    "FedProx is more stable than FedAvg: with γ = 5 all its eigenvalues are within [0, 1]",
    "FedProx's eigenvalues",
    0.0,
    1.0,
)
UNSTABLE = Quantity(
    "Footnote 2", "… while FedAvg with γ = 5 and s = 10 diverges", "largest eigenvalue of 𝓛 in size", least=1.0
)
DEGRADES = Quantity(
    "Footnote 2",
    "… yet the conditioning of FedProx's P degrades with γ: it rises from γ = 0.1 to 1, 10 and 100",
    "next over last condition number",
    least=1.0 + 1e-6,
)
BLOCKS = bound(
    "Proof of Lemma 5", "‖P_ii‖ ≤ s and λ_min(P_ii) ≥ Σ (1 − γ)^τ = (1 − (1 − γ)^s)/γ; for FedProx 1 and 1/(1 + γ)"
)
CLOSED = identity("Proof of Lemma 5", "‖P⁻¹‖ = max ‖P_ii⁻¹‖ = 1/min λ_min(P_ii), ‖P‖ = max ‖P_ii‖")
LOST_PRODUCT = bound(
    "Lemma 5, (14)", "the condition number of P is at most γ^s/(1 − (1 − γ)^s), as printed", "condition number over it"
)
NEAR_ONE = Quantity(
    "After Lemma 5", "κ approaches 1 with small η and s: γ = 0.001, s = 1 to 10, and FedProx", "κ − 1", 0.0, 0.01
)
WORSENS = Quantity(
    "After Lemma 5",
    "… larger η and s worsen it: κ rises with γ = 0.001 to 0.9 (s ≥ 2, and FedProx) and with s = 1 to 10",
    "κ over that of the next smaller γ or s",
    least=1.0 + 1e-6,
)
QUANTITIES = (
    *(ORDERED, ATTAINED, PER_DIRECTION, ONE_N_TOO_MANY, NORM_BY_U, FORM, BETWEEN, WRONG_G, RIGHT_G, EXPANDED, INVERSE),
    *(SIMILAR, WEIGHED, AT_MOST, OPERATOR, POSITIVE, ALWAYS, STABLE, UNSTABLE, DEGRADES, BLOCKS, CLOSED, LOST_PRODUCT),
    *(NEAR_ONE, WORSENS),
)  # fmt: skip
SHARE = 0.9  # γ of `clients`


def measured(seed: int, notes: Notes) -> None:
    """The steps for every client and method."""
    for X, method, rng in clients(seed):
        _lemma_18(X[1], rng, notes)
        for rows in X:
            _client(Local(rows, method), rng, notes)
        _all(X, method, rng, notes)
    _beyond(X, notes)
    _constants(notes)


def _lemma_18(X: Array, rng: np.random.Generator, notes: Notes) -> None:
    n = len(X)
    Pi, K, u, theta = rng.standard_normal((3, n)), X @ X.T / n, rng.standard_normal(3), rng.standard_normal(D)
    f = X @ theta / np.linalg.norm(theta)
    inner = Pi @ K @ Pi.T
    notes.add(ORDERED, np.linalg.eigvalsh(inner - np.outer(Pi @ f, Pi @ f) / n)[0])
    values, vectors = np.linalg.eigh(inner)
    best = X.T @ Pi.T @ vectors[:, -1]  # the maximiser of (38), from (39) with the leading u
    at_best = Pi @ X @ best / np.linalg.norm(best)
    notes.same(ATTAINED, values[-1:], at_best @ at_best / n)
    others = rng.standard_normal((D, 1000))
    others = Pi @ X @ (others / np.linalg.norm(others, axis=0))
    notes.add(ATTAINED, max(0.0, float(np.square(others).sum(axis=0).max() / n / values[-1]) - 1))
    notes.add(PER_DIRECTION, max(0.0, float(np.square(u @ others).max() / n / (u @ inner @ u)) - 1))
    sections = X.T @ Pi.T @ u  # (uᵀΠ)·k_x, itself the maximiser over f
    value = u @ Pi @ X @ sections / np.linalg.norm(sections)
    notes.same(PER_DIRECTION, u @ inner @ u, sections @ sections / n)
    notes.same(PER_DIRECTION, u @ inner @ u, value**2 / n)
    leading = vectors[:, -1] @ inner @ vectors[:, -1]
    notes.same(ONE_N_TOO_MANY, leading / n, np.linalg.norm(inner, 2))
    notes.same(NORM_BY_U, leading, np.linalg.norm(inner, 2))


def _client(local: Local, rng: np.random.Generator, notes: Notes) -> None:
    eta, X, f = local.method.step_size / local.n, local.X, rng.standard_normal(D)
    at_rows = X @ f
    for size in (eta, eta * 10 / SHARE):  # γ up to 0.9 and 10
        backward = np.eye(D) + size * X.T @ X
        value = f @ np.linalg.solve(backward, f)
        wrong, right = backward @ f, np.linalg.solve(backward, f)
        notes.same(WRONG_G, (backward @ wrong) @ wrong, value)
        notes.same(RIGHT_G, (backward @ right) @ right, value)
        g = X @ right
        notes.same(EXPANDED, (backward @ right) @ right, right @ right + size * g @ g)
        notes.same(EXPANDED, f @ f, right @ right + 2 * size * g @ g + size**2 * g @ (X @ X.T) @ g)
        notes.add(INVERSE, 1 / np.linalg.eigvalsh(backward))
    if isinstance(local.method, LocalSteps):
        notes.same(FORM, f @ local.forward @ f, f @ f - eta * at_rows @ at_rows)
        notes.add(BETWEEN, np.linalg.eigvalsh(local.forward))
    s, values = local.method.steps, np.linalg.eigvalsh(local.P)
    least = (1 - (1 - SHARE) ** s) / SHARE if isinstance(local.method, LocalSteps) else 1 / (1 + SHARE)
    notes.add(BLOCKS, values[-1] / s, least / values[0])


def _all(X: Sequence[Array], method: Method, rng: np.random.Generator, notes: Notes) -> None:
    pooled, made, locals_ = np.vstack(X), Rounds.of(X, method), [Local(rows, method) for rows in X]
    N, eta, start = len(pooled), method.step_size, 0
    P = np.zeros((N, N))
    for one in locals_:
        P[start : start + one.n, start : start + one.n] = one.P
        start += one.n
    K, own = pooled @ pooled.T / N, [np.linalg.eigvalsh(one.P) for one in locals_]
    values, vectors = np.linalg.eigh(P)
    root = (vectors * np.sqrt(values)) @ vectors.T
    left, right = np.sort_complex(np.linalg.eigvals(K @ P)), np.sort(np.linalg.eigvalsh(root @ K @ root))
    notes.add(SIMILAR, np.abs(left - right).max() / right[-1])
    f = rng.standard_normal(D)
    product = eta / N * (pooled @ f) @ P @ (pooled @ f)
    notes.same(WEIGHED, product, f @ (eta / N * pooled.T @ P @ pooled @ f))
    notes.same(WEIGHED, product, f @ made.C @ (pooled @ f))
    notes.same(WEIGHED, product, f @ f - f @ made.A @ f)
    notes.add(AT_MOST, eta * right[-1])
    notes.add(OPERATOR, np.linalg.eigvalsh(made.A))
    notes.add(POSITIVE, values / method.steps)
    notes.same(CLOSED, np.linalg.norm(np.linalg.inv(P), 2), 1 / min(one[0] for one in own))
    notes.same(CLOSED, np.linalg.norm(P, 2), max(one[-1] for one in own))
    if isinstance(method, LocalSteps):
        s = method.steps
        notes.add(LOST_PRODUCT, values[-1] / values[0] / (SHARE**s / (1 - (1 - SHARE) ** s)))


def _beyond(X: Sequence[Array], notes: Notes) -> None:
    """What footnote 2 says of γ above 1."""
    steepest = max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    for share in (10.0, 1000.0):
        for rows in X:
            notes.add(ALWAYS, np.linalg.eigvalsh(Local(rows, ProximalStep(share / steepest)).P))
    notes.add(STABLE, np.linalg.eigvalsh(Rounds.of(X, ProximalStep(5 / steepest)).A))
    local = [Local(rows, LocalSteps(5 / steepest, 10)) for rows in X]
    averaged = sum(one.n * one.whole for one in local) / sum(one.n for one in local)
    notes.add(UNSTABLE, np.abs(np.linalg.eigvalsh(averaged)).max())
    filters = [[ProximalStep(1.0).filter(share * x) for x in (0.0, 1.0)] for share in (0.1, 1.0, 10.0, 100.0)]
    numbers = np.array([float(one[0] / one[1]) for one in filters])
    notes.add(DEGRADES, numbers[1:] / numbers[:-1])


def _constants(notes: Notes) -> None:
    gammas = (1e-3, 0.1, 0.5, 0.9)
    table = np.array([[LocalSteps(1.0, s).kappa(g) for g in gammas] for s in (1, 2, 5, 10)])
    proximal = np.array([ProximalStep(1.0).kappa(g) for g in gammas])
    notes.add(NEAR_ONE, table[:, 0] - 1, proximal[0] - 1)
    notes.add(WORSENS, table[1:] / table[:-1], table[1:, 1:] / table[1:, :-1], proximal[1:] / proximal[:-1])
