"""Theorem 10, Lemma 27 and (17) of Su, Xu and Yang (2023): how often their bounds fail among draws of the noise."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.bounds import early_stopping_bound
from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import Sobolev
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_rates import FREEDOM, SIGMA, norms, posed

DRAWS = 2000
RARE = 20  # of the draws, 1 %

GAUSSIAN = Quantity(
    "Theorem 10, (24)",
    "Gaussian noise: of 2,000 draws at T at most 1 % are above the bound with +3, N = 24 and 192",
    "draws above it",
    most=RARE,
)
HEAVY = Quantity("Theorem 10, (24)", "… and of Student's t with 5 degrees of freedom", "draws above it", most=RARE)
SHARE = Quantity(
    "Theorem 10, (24)", "the largest error of these draws, beside the bound", "largest error over the bound", most=1.0
)
NORM = Quantity(
    "Lemma 27",
    "of 200 draws at T at most 1 % have ‖f_T − f‖ above ‖f_0 − f‖ + 1 + √(ηst/N) ‖Δ_f‖, N = 24 and 192",
    "draws above it",
    most=2,
)
NORM_SHARE = Quantity(
    "Lemma 27", "the largest ‖f_T − f‖ of these draws, beside the bound", "largest norm over the bound", most=1.0
)
STRONGER = bound("Section 6, (17)", "(f_t(x) − f(x))² ≤ ‖f_t − f‖² k(x, x) at every row and draw")
QUANTITIES = (GAUSSIAN, HEAVY, SHARE, NORM, NORM_SHARE, STRONGER)


def measured(seed: int, notes: Notes, draws: int = DRAWS) -> None:
    """At the stopping round T, kernel min(x, y), FedAvg with s = 5; half of the truths differ. Not if T is 0."""
    rng = np.random.default_rng([seed, 13])
    for total in (24, 192):
        X, sizes, f = posed(Sobolev(), total, seed)
        K = Sobolev()(X)
        method = LocalSteps(0.3 / gamma(K, sizes, 1.0), 5)
        found = Decomposition.of(K, sizes, method)
        T = stopping_round(found.kernel_eigenvalues, SIGMA, total, method.step_size, method.steps)
        if not T:
            continue
        apart = 0.2 * np.repeat([1.0, -1.0, 1.0, -1.0], sizes) * np.minimum(X[:, 0], 0.5)
        most = early_stopping_bound(T, method, found.kappa, f.norm, apart, norm=math.sqrt(3))
        truths = (f.predict(X) + apart)[:, None]
        student = SIGMA / math.sqrt(FREEDOM / (FREEDOM - 2)) * rng.standard_t(FREEDOM, (total, draws))
        gaussian = SIGMA * rng.standard_normal((total, draws))
        for quantity, noise in ((GAUSSIAN, gaussian), (HEAVY, student)):
            errors = np.square(found.values(truths + noise, T) - f.predict(X)[:, None]).mean(axis=0)
            notes.add(quantity, float((errors >= most).sum()))
            notes.add(SHARE, errors.max() / most)
        path = simulate(K, sizes, truths + gaussian[:, :200], method, T, every=T)
        distances = norms(path.coefficients[-1], X, f)
        u = method.step_size * method.steps * T
        limit = f.norm + 1 + math.sqrt(u / total) * float(np.linalg.norm(apart))
        notes.add(NORM, float((distances > limit).sum()))
        notes.add(NORM_SHARE, distances.max() / limit)
        at_rows = np.square(path.values[-1] - f.predict(X)[:, None])
        notes.add(STRONGER, (at_rows / np.diag(K)[:, None]).max(axis=0) / distances**2)
