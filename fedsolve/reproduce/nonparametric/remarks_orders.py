"""Su, Xu and Yang (2023), section 6.1: the bias goes to 0, and the stopping time has to be chosen well."""

from __future__ import annotations

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import Gaussian, Matern, PolynomialKernel, Sobolev
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.remarks_kernels import delta_1
from fedsolve.reproduce.nonparametric.remarks_stopping import stopped

TO_ZERO = Quantity(
    "After Proposition 7",
    "… and it comes to 0: δ_1(2^16) is at most 1e-4 of δ_1(1), four kernels",
    "δ_1(2^16) over δ_1(1)",
    most=1e-4,
)
TOO_EARLY = Quantity(
    "After Proposition 7",
    "T needs to be chosen with care: stopped at T/30, E‖f_t − f*‖²_N is at least 1.5 times that at T, min(x, y) and "
    "Matérn, ‖f*‖ = 1, N = 50 and 200, σ = 0.1, 0.5 and 1, γ = 0.03 and 0.9, four methods, where T ≥ 30",
    "error over that at T",
    least=1.5,
)
QUIETER = Quantity(
    "After Proposition 7",
    "… with σ = 0.1 and 0.5 it is at least 1.5 times that at T at T/30, in the same cases",
    "error over that at T",
    least=1.5,
)
TOO_LATE = Quantity(
    "After Proposition 7", "… and stopped at 30 T, too, in the same cases", "error over that at T", least=1.5
)
QUANTITIES = (TO_ZERO, TOO_EARLY, QUIETER, TOO_LATE)
CLIENTS = (20, 1, 12, 7)


def measured(seed: int, notes: Notes) -> None:
    """Exact expectations."""
    X = np.random.default_rng([seed, 43]).random((40, 2))
    for kernel in (Gaussian(2.0), Matern(1.5), Sobolev(), PolynomialKernel(2)):
        K = kernel(X)
        found = Decomposition.of(K, CLIENTS, LocalSteps(0.9 / gamma(K, CLIENTS, 1.0), 5))
        notes.add(TO_ZERO, delta_1(found, 2**16) / delta_1(found, 1))
    for problem, sigma, T, values in stopped(seed):
        if T >= 30:
            early, at_T, late = problem.expected_error(np.array([T // 30, T, 30 * T]), values, sigma=sigma)
            notes.add(TOO_EARLY, early / at_T)
            if sigma < 1:
                notes.add(QUIETER, early / at_T)
            notes.add(TOO_LATE, late / at_T)
