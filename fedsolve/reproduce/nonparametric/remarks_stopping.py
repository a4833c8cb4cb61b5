"""Su, Xu and Yang (2023), section 6.1, on kernels: over-fitting, stopping at T, and finite rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import ExactKernel, Matern, PolynomialKernel, Sobolev
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_kernels import SIZES, N
from fedsolve.reproduce.nonparametric.theory_kernels import posed as posed_kernel
from fedsolve.reproduce.nonparametric.theory_rates import posed
from fedsolve.typing import Array

OVERFITS = Quantity(
    "After Proposition 7",
    "stopping at T prevents over-fitting: E‖f_T − f*‖²_N is at most half of that at the end, min(x, y) and Matérn, "
    "‖f*‖ = 1, N = 50 and 200, σ = 0.1, 0.5 and 1, γ = 0.03 and 0.9, four methods, where T ≥ 1",
    "error at T over that at the end",
    most=0.5,
)
BALANCED = Quantity(
    "After Proposition 7",
    "T balances bias and variance: E‖f_T − f*‖²_N is at most twice the least over all t, in the same cases",
    "error at T over the least",
    most=2.0,
)
ALWAYS_ONE = Quantity(
    "After Proposition 7",
    "δ_2(t) converges to 1 as t → ∞ for a kernel of rank d < N, too, as printed: within 1e-6 at t = 10⁹",
    "last δ_2(t)",
    1 - 1e-6,
    1 + 1e-6,
)
RANK_OVER_N = Quantity("After Proposition 7", "… and it converges to d/N", "last δ_2(t) over d/N", 1 - 1e-6, 1 + 1e-6)
GEOMETRIC = Quantity(
    "Abstract",
    "for a kernel of rank d errors decay exponentially: without noise −log E‖f_t − f‖²_N falls twice as far from 2t to "
    "4t as from t to 2t, within 10 %",
    "ratio of the two falls",
    1.8,
    2.2,
)
BY_EIGENVALUE = Quantity(
    "Section 5",
    "… and by −2 log of the largest eigenvalue below 1 in every round, from 2t to 4t, within 10 %",
    "fall in a round over it",
    0.9,
    1.1,
)
QUANTITIES = (OVERFITS, BALANCED, ALWAYS_ONE, RANK_OVER_N, GEOMETRIC, BY_EIGENVALUE)
NOISES = (0.1, 0.5, 1.0)


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    _stopped(seed, notes)
    _finite(seed, notes)


def stopped(seed: int) -> Iterator[tuple[Decomposition, float, int, Array]]:
    """A method on rows of a kernel, σ, T and f* of norm 1 at the rows; without the cases in which T is 0."""
    kernels: tuple[ExactKernel, ...] = (Sobolev(), Matern(1.5))
    for kernel, total in product(kernels, (50, 200)):
        X, sizes, f = posed(kernel, total, seed)
        K, values = kernel(X), f.predict(X) / f.norm
        for share in (0.03, 0.9):
            eta = share / gamma(K, sizes, 1.0)
            chosen: tuple[Method, ...] = (*(LocalSteps(eta, s) for s in (1, 5, 10)), ProximalStep(eta))
            for method in chosen:
                found = Decomposition.of(K, sizes, method)
                for sigma in NOISES:
                    T = stopping_round(found.kernel_eigenvalues, sigma, total, method.step_size, method.steps)
                    if T:
                        yield found, sigma, T, values


def _stopped(seed: int, notes: Notes) -> None:
    path = np.unique(np.geomspace(1, 10**9, 400).astype(int))
    for found, sigma, T, values in stopped(seed):
        errors = found.expected_error(path, values, sigma=sigma)
        at_T = float(found.expected_error(T, values, sigma=sigma))
        notes.add(OVERFITS, at_T / errors[-1])
        notes.add(BALANCED, at_T / min(at_T, float(errors.min())))


def _finite(seed: int, notes: Notes) -> None:
    problem = posed_kernel(PolynomialKernel(2, gamma=0.5), seed, 0.0)
    eta = 0.9 / gamma(problem.K, SIZES, 1.0)
    for method in (LocalSteps(eta), LocalSteps(eta, 5), LocalSteps(eta, 10), ProximalStep(eta)):
        found = Decomposition.of(problem.K, SIZES, method)
        rank = int((found.kernel_eigenvalues > 1e-12 * found.kernel_eigenvalues[0]).sum())
        last = np.square(1 - (1 - method.step_size * found.eigenvalues[:rank]) ** 10**9).sum() / N
        notes.add(ALWAYS_ONE, last)
        notes.add(RANK_OVER_N, last / (rank / N))
        t = math.ceil(5 / -math.log(found.decay[rank - 1]))  # the slowest direction is then e⁻⁵ of its start
        logs = np.log(found.expected_error(np.array([t, 2 * t, 4 * t]), problem.values, sigma=0.0))
        notes.add(GEOMETRIC, (logs[1] - logs[2]) / (logs[0] - logs[1]))
        notes.add(BY_EIGENVALUE, (logs[1] - logs[2]) / (-4 * t * math.log(found.decay[rank - 1])))
