"""Su, Xu and Yang (2023), section 5: the spectra of P and K_xP over wide ranges of s and γ, and a round without P."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, P_matrix, gamma
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.ranges_filtered import rows
from fedsolve.reproduce.nonparametric.ranges_kernels import federations, kernels
from fedsolve.typing import Array

SPECTRA = bound(
    "Lemmas 4 and 5",
    "s = 1 to 1,000, γ = 0.01 to 0.999, N = 20 and 60, six kernels: the condition number of P over κ",
    "largest",
)
WITHIN = bound("Lemmas 4 and 5", "… Λ_i over λ_is, and λ_is/κ over Λ_i, to 1e-6", "largest")
UNIT = Quantity("Lemmas 4 and 5", "… and the eigenvalues of I − ηK_xP are within [0, 1]", "from", -1e-10, 1 + 1e-10)
NEEDS_P = Quantity(
    "Section 5",
    "with sI for P three rounds of (13) from 0 are off by at least 1 % of f_3(x), s = 5 and 10 and FedProx, γ = 0.9, "
    "six kernels",
    "least difference",
    least=0.01,
)
HAS_P = Quantity("Section 5", "… and with P they are the rounds as simulated", "largest difference", most=1e-9)
STABLE = Quantity(
    "Footnote 2",
    "FedProx with γ = 0.5, 2.5, 5, 10, 100 and 1,000: all eigenvalues of 𝓛 are within [0, 1], d = 12, clients alike, "
    "of 1 to 100 rows, and 60 with one row",
    "from",
    -1e-10,
    1 + 1e-10,
)
DIVERGES = Quantity(
    "Footnote 2",
    "… while FedAvg with s = 100 and γ = 2.5, 5, 10 and 100 has one above 1, the same clients",
    "least of the largest",
    least=1.0 + 1e-6,
)
QUANTITIES = (SPECTRA, WITHIN, UNIT, NEEDS_P, HAS_P, STABLE, DIVERGES)
TOTALS = (20, 60)


def measured(seed: int, notes: Notes) -> None:
    """Clients of unequal sizes."""
    rng = np.random.default_rng([seed, 204])
    for total in TOTALS:
        for K in kernels(rng, total).values():
            _spectra(K, federations(total)[2], notes)
            _rounds(K, federations(total)[2], rng, notes)
    rng = np.random.default_rng([seed, 206])
    for sizes in ((30,) * 8, (100, 40, 12, 5, 1), (1,) * 60):
        _stability(rows(rng, sizes, 12, 0.3, 1.0), notes)


def _stability(X: Sequence[Array], notes: Notes) -> None:
    """𝓛 of (10), formed from the clients' Hessians."""
    H = [one.T @ one / len(one) for one in X]
    weights = np.array([len(one) for one in X]) / sum(map(len, X))
    steepest, eye = max(float(np.linalg.norm(one, 2)) for one in H), np.eye(12)
    for share in (0.5, 2.5, 5.0, 10.0, 100.0, 1000.0):
        eta = share / steepest
        proximal = sum(w * np.linalg.inv(eye + eta * one) for w, one in zip(weights, H, strict=True))
        values = np.linalg.eigvalsh(proximal)
        notes.add(STABLE, values[0], values[-1])
        if 1 < share < 1000:
            powers = sum(w * np.linalg.matrix_power(eye - eta * one, 100) for w, one in zip(weights, H, strict=True))
            notes.add(DIVERGES, np.abs(np.linalg.eigvalsh(powers)).max())


def _spectra(K: Array, sizes: Sequence[int], notes: Notes) -> None:
    for share in (0.01, 0.1, 0.5, 0.9, 0.999):
        eta = share / gamma(K, sizes, 1.0)
        chosen: tuple[Method, ...] = (*(LocalSteps(eta, s) for s in (1, 2, 5, 10, 100, 1000)), ProximalStep(eta))
        for method in chosen:
            found = Decomposition.of(K, sizes, method)
            notes.add(SPECTRA, np.linalg.cond(P_matrix(K, sizes, method)) / found.kappa)
            lam, Lam = found.kernel_eigenvalues, found.eigenvalues
            ratio = (Lam / (np.maximum(lam, 1e-300) * method.steps))[lam > 1e-9 * lam[0]]
            notes.add(WITHIN, ratio.max() / (1 + 1e-6), 1 / (found.kappa * ratio.min() * (1 + 1e-6)))
            notes.add(UNIT, found.decay.min(), found.decay.max())


def _rounds(K: Array, sizes: Sequence[int], rng: np.random.Generator, notes: Notes) -> None:
    y, eta = rng.standard_normal(len(K)), 0.9 / gamma(K, sizes, 1.0)
    chosen: tuple[Method, ...] = (LocalSteps(eta, 5), LocalSteps(eta, 10), ProximalStep(eta))
    for method in chosen:
        taken = simulate(K, sizes, y, method, 3).values[-1]
        P = P_matrix(K, sizes, method)
        for quantity, some in ((HAS_P, P), (NEEDS_P, method.steps * np.eye(len(K)))):
            f = np.zeros(len(K))
            for _ in range(3):
                f = f + eta / len(K) * K @ (some @ (y - f))
            notes.add(quantity, np.linalg.norm(taken - f) / np.linalg.norm(taken))
