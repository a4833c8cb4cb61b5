"""Theorem 10 and Lemma 27 of Su, Xu and Yang (2023) before the stopping round, for all four methods."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.bounds import early_stopping_bound
from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import Sobolev
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_rates import FREEDOM, SIGMA, norms, posed

EARLIER = Quantity(
    "Theorem 10, (24)",
    "before T, at t = 1, T/10, T/3 and T, FedAvg with s = 1, 5 and 10 and FedProx: of 500 draws at most 1 % are above "
    "the bound with +3, Gaussian noise and Student's t, N = 24 and 192",
    "share of draws above it",
    most=0.01,
)
EARLIER_NORM = Quantity(
    "Lemma 27",
    "before T, in the same runs: of 200 Gaussian draws at most 1 % have ‖f_t − f‖ above the bound",
    "share of draws above it",
    most=0.01,
)
QUANTITIES = (EARLIER, EARLIER_NORM)
DRAWS = 500


def measured(seed: int, notes: Notes) -> None:
    """Kernel min(x, y), γ = 0.3; half of the clients' truths differ. Without T = 0."""
    rng = np.random.default_rng([seed, 47])
    for total in (24, 192):
        X, sizes, f = posed(Sobolev(), total, seed)
        K, at_rows = Sobolev()(X), f.predict(X)
        apart = 0.2 * np.repeat([1.0, -1.0, 1.0, -1.0], sizes) * np.minimum(X[:, 0], 0.5)
        truths = (at_rows + apart)[:, None]
        gaussian = SIGMA * rng.standard_normal((total, DRAWS))
        student = SIGMA / math.sqrt(FREEDOM / (FREEDOM - 2)) * rng.standard_t(FREEDOM, (total, DRAWS))
        eta = 0.3 / gamma(K, sizes, 1.0)
        chosen: tuple[Method, ...] = (*(LocalSteps(eta, s) for s in (1, 5, 10)), ProximalStep(eta))
        for method in chosen:
            found = Decomposition.of(K, sizes, method)
            T = stopping_round(found.kernel_eigenvalues, SIGMA, total, eta, method.steps)
            if not T:
                continue
            for t in sorted({1, max(1, T // 10), max(1, T // 3), T}):
                most = early_stopping_bound(t, method, found.kappa, f.norm, apart, norm=math.sqrt(3))
                for noise in (gaussian, student):
                    errors = np.square(found.values(truths + noise, t) - at_rows[:, None]).mean(axis=0)
                    notes.add(EARLIER, (errors >= most).mean())
                path = simulate(K, sizes, truths + gaussian[:, :200], method, t, every=t)
                limit = f.norm + 1 + math.sqrt(eta * method.steps * t / total) * float(np.linalg.norm(apart))
                notes.add(EARLIER_NORM, (norms(path.coefficients[-1], X, f) > limit).mean())
