"""Su, Xu and Yang (2023), section 5: FedProx is no proximal step on all rows, and Theorem 12 needs no γ < 1 for it."""

from __future__ import annotations

import numpy as np

from fedsolve.closed_forms.bounds import coefficient_bound, truth_distance_bound
from fedsolve.closed_forms.methods import ProximalStep
from fedsolve.closed_forms.recursion import P_matrix, gamma
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import ROUNDS, SIGMA, D, Rounds, scaled_rows
from fedsolve.reproduce.nonparametric.theory_coefficients import SIZES as CLIENTS
from fedsolve.reproduce.nonparametric.theory_kernels import KERNELS, SIZES, N, posed

NO_STEP = Quantity(
    "Section 5",
    "… and a proximal step on all rows is not a round of FedProx: I − ηK_xP differs from (I + ηK_x)⁻¹ by at least 1 % "
    "of it, γ = 0.9, four kernels",
    "difference over the round",
    least=0.01,
)
COEFFICIENTS = bound(
    "Footnote 2",
    "… and (25) and (26) of Theorem 12: γ = 10 and 100, t = 1 to 1,000, every client",
)
QUANTITIES = (NO_STEP, COEFFICIENTS)


def measured(seed: int, notes: Notes) -> None:
    """Exact, the second with d = 12 and clients whose covariances and truths differ."""
    for kernel in KERNELS:
        K = posed(kernel, seed, 0.0).K
        method = ProximalStep(0.9 / gamma(K, SIZES, 1.0))
        whole = np.eye(N) - method.step_size * K / N @ P_matrix(K, SIZES, method)
        step = np.linalg.inv(np.eye(N) + method.step_size * K / N)
        notes.add(NO_STEP, np.linalg.norm(whole - step, 2) / np.linalg.norm(whole, 2))
    rng = np.random.default_rng([seed, 48])
    X = scaled_rows(rng, CLIENTS, 0.3)
    truths = rng.standard_normal(D) + rng.standard_normal((len(X), D))
    steepest, pooled = max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X), np.vstack(X)
    for share in (10.0, 100.0):
        made = Rounds.of(X, ProximalStep(share / steepest))
        theta, means = made.centre(truths), made.means(truths)
        for t in ROUNDS:
            most = coefficient_bound(
                t,
                made.method,
                kappa=made.kappa,
                rho=made.rho,
                samples=made.samples,
                dimension=D,
                distance=float(np.linalg.norm(theta)),
                sigma=SIGMA,
            )
            notes.add(COEFFICIENTS, made.error(t, theta) / most)
        for own in truths:
            most = truth_distance_bound(made.kappa, made.rho, made.samples, means - pooled @ own)
            notes.add(COEFFICIENTS, np.linalg.norm(theta - own) / most)
