"""Sections 5 and 6.1 of Su, Xu and Yang (2023) on kernels: recursion, spectra, and the bounds on the prediction error.

A problem has clients of very different sizes, a truth f that is an expansion of the kernel, and truths of the clients
at some distance from it. Step sizes are those with which γ = η max‖K_i‖ is 0.5 or 0.95.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.bounds import early_stopping_bound, error_terms, finite_rank_bound
from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, P_matrix, gamma, psi, recursion
from fedsolve.features.exact_kernels import ExactKernel, Gaussian, Matern, PolynomialKernel, Sobolev
from fedsolve.models.kernel_expansion import KernelExpansion
from fedsolve.numerics.early_stopping import rademacher, stopping_round
from fedsolve.reproduce.checks import Check
from fedsolve.typing import Array

SIZES = (24, 1, 15, 8, 3)
N = sum(SIZES)
SIGMA = 0.5
STEPS = (1, 5, 10)
GAMMAS = (0.5, 0.95)
ROUNDS = (1, 2, 5, 20, 100, 1000)
KERNELS: tuple[ExactKernel, ...] = (Gaussian(2.0), Matern(1.5), Sobolev(), PolynomialKernel(2, gamma=0.5))
ROUNDING = 1e-10

RECURSION = Check(
    "Propositions 1 and 3", "f_t at the rows follows the recursion, as if every local step is taken", "off", ROUNDING
)
IDENTITIES = Check("Lemma 2", "𝓛f = f − f(x)·Ψ at the rows and at new points, Ψ = (η/N) P k_x", "off", ROUNDING)
SPECTRUM = Check("Lemma 4", "all eigenvalues of I − ηK_xP are within [0, 1] if γ < 1", "off", ROUNDING)
PROXIMAL = Check("Footnote 2", "for FedProx they are even if γ is 10", "off", ROUNDING)
CONDITION = Check("Lemma 5, (14)", "the condition number of P is at most κ")
SANDWICH = Check("Lemma 5, (15)", "Λ_i is between λ_i s/κ and λ_i s", most=1 + 1e-6)  # eigenvalues near rounding
BOUND = Check("Proposition 7, (18)", "E‖f_t − f‖²_N is at most 3κ times bias, variance and heterogeneity")
DELTA_1 = Check("Proposition 7, (19)", "δ_1(t) is at most 1/(2eηts)")
DELTA_2 = Check("Proposition 7, (20)", "δ_2(t) is at most the mean of min{1, ηtΛ_i}, and that at most ηts R²(1/√(ηts))")
BIAS = Check("Lemma 20", "the bias alone is at most κ δ_1(t) ‖f_0 − f‖²")
VARIANCE = Check("Lemma 21", "the variance alone is at most κ σ² δ_2(t)")
FROBENIUS = Check("Lemma 19", "‖I − L^t‖_F is at most √κ ‖I − (I − ηΛ)^t‖_F, and that at most √(κNηts) R")
STOPPED = Check("Theorem 8", "up to T, E‖f_t − f‖²_N is at most 3κ/(2eηts) (‖f_0 − f‖² + 1) + 3κ‖Δ_f‖²/N")
FINITE = Check("Theorem 11", "for a kernel of finite rank the error is at most the exponential bound, for all t")
LEMMA_18 = Check(
    "Lemma 18", "f(x)f(x)ᵀ/n is at most ‖f‖² K_x, so that its largest part along K_x is at most 1", most=1 + 1e-6
)
CHECKS = (
    *(RECURSION, IDENTITIES, SPECTRUM, PROXIMAL, CONDITION, SANDWICH, BOUND, DELTA_1, DELTA_2, BIAS, VARIANCE),
    *(FROBENIUS, STOPPED, FINITE, LEMMA_18),
)  # fmt: skip


@dataclass(frozen=True)
class KernelProblem:
    """Rows, the truth f, and the truths of the clients at their rows."""

    kernel: ExactKernel
    X: Array
    f: KernelExpansion
    truths: Array
    K: Array

    @property
    def values(self) -> Array:
        return self.f.predict(self.X)


def posed(kernel: ExactKernel, seed: int, apart: float) -> KernelProblem:
    """Truths of the clients are f plus an expansion of size `apart`."""
    rng = np.random.default_rng([seed, 3])
    X = rng.random((N, 2))
    f = KernelExpansion(X[:6], rng.standard_normal(6) / 3, kernel)
    own = [f.plus(KernelExpansion(X[6:9], apart * rng.standard_normal(3), kernel)) for _ in SIZES]
    blocks = np.split(X, np.cumsum(SIZES)[:-1])
    truths = np.concatenate([one.predict(rows) for one, rows in zip(own, blocks, strict=True)])
    return KernelProblem(kernel, X, f, truths, kernel(X))


def methods(K: Array) -> Iterator[Method]:
    """FedAvg with 1, 5 and 10 steps and FedProx, with both γ."""
    for share in GAMMAS:
        eta = share / gamma(K, SIZES, 1.0)
        yield from (LocalSteps(eta, s) for s in STEPS)
        yield ProximalStep(eta)


def measured(seed: int) -> dict[str, float]:
    """Each check's worst value over kernels, methods and rounds."""
    worst: dict[str, float] = defaultdict(lambda: -math.inf)

    def note(check: Check, value: float) -> None:
        worst[check.claim] = max(worst[check.claim], float(value))

    for kernel in KERNELS:
        for apart in (0.0, 0.3):
            problem = posed(kernel, seed, apart)
            for method in methods(problem.K):
                found = Decomposition.of(problem.K, SIZES, method)
                _dynamics(problem, method, seed, note)
                _spectra(problem, found, note)
                _errors(problem, found, note)
                _stopping(problem, found, note)
    return dict(worst)


Note = Callable[[Check, float], None]


def _dynamics(problem: KernelProblem, method: Method, seed: int, note: Note) -> None:
    rng = np.random.default_rng([seed, 4])
    y, new = problem.truths + SIGMA * rng.standard_normal(N), rng.random((9, 2))
    taken = simulate(problem.K, SIZES, y, method, 30).values
    note(RECURSION, np.abs(taken - recursion(problem.K, SIZES, y, method, 30)).max() / np.abs(y).max())
    K_new, start = problem.kernel(new, problem.X), problem.values
    moved = simulate(problem.K, SIZES, np.zeros(N), method, 1, start=start)
    at_rows = moved.values[-1] - (start - psi(problem.K, SIZES, method, problem.K) @ start)
    elsewhere = problem.f.predict(new)
    at_new = moved.values_at(K_new, elsewhere)[-1] - (elsewhere - psi(problem.K, SIZES, method, K_new) @ start)
    note(IDENTITIES, max(np.abs(at_rows).max(), np.abs(at_new).max()) / np.abs(start).max())


def _spectra(problem: KernelProblem, found: Decomposition, note: Note) -> None:
    method, decay = found.method, found.decay
    note(SPECTRUM, max(-decay.min(), decay.max() - 1))
    if isinstance(method, ProximalStep):
        wide = Decomposition.of(problem.K, SIZES, ProximalStep(10 / gamma(problem.K, SIZES, 1.0))).decay
        note(PROXIMAL, max(-wide.min(), wide.max() - 1))
    note(CONDITION, np.linalg.cond(P_matrix(problem.K, SIZES, method)) / found.kappa)
    lam, Lam = found.kernel_eigenvalues, found.eigenvalues
    clear = lam > 1e-9 * lam[0]
    ratio = Lam[clear] / (lam[clear] * method.steps)
    note(SANDWICH, max(ratio.max(), 1 / (found.kappa * ratio.min())))
    values = problem.values / problem.f.norm
    part = values @ np.linalg.lstsq(problem.K, values, rcond=1e-12)[0]  # the least c with f fᵀ ⪯ cK
    note(LEMMA_18, part)


def _errors(problem: KernelProblem, found: Decomposition, note: Note) -> None:
    f, truths, method = problem.values, problem.truths, found.method
    for t in ROUNDS:
        terms = error_terms(found, t, sigma=SIGMA, distance=problem.f.norm, difference=truths - f)
        note(BOUND, found.expected_error(t, truths, target=f, sigma=SIGMA) / terms.bound)
        time = method.step_size * method.steps * t
        level = math.sqrt(time) * rademacher(found.kernel_eigenvalues, time**-0.5, N)
        middle = np.minimum(1, method.step_size * t * np.maximum(found.eigenvalues, 0)).mean()
        note(DELTA_1, terms.delta_1 * 2 * math.e * time)
        note(DELTA_2, max(terms.delta_2 / middle, middle / level**2))
        note(BIAS, 3 * found.expected_error(t, f, sigma=0.0) / terms.bias)
        alone = found.expected_error(t, np.zeros(N), sigma=SIGMA)
        note(VARIANCE, 3 * alone / terms.variance)
        left, middle = math.sqrt(N * alone) / SIGMA, math.sqrt(N * terms.delta_2)
        root = math.sqrt(found.kappa)
        note(FROBENIUS, max(left / (root * middle), middle / (math.sqrt(N) * level)))


def _stopping(problem: KernelProblem, found: Decomposition, note: Note) -> None:
    f, truths, method = problem.values, problem.truths, found.method
    lam, away = found.kernel_eigenvalues, problem.f.norm
    T = stopping_round(lam, SIGMA, N, method.step_size, method.steps) or 0
    rounds = np.unique(np.linspace(1, T, 10).astype(int)) if T else np.array([], dtype=int)
    for t in rounds:
        bound = early_stopping_bound(int(t), method, found.kappa, away, truths - f)
        note(STOPPED, found.expected_error(int(t), truths, target=f, sigma=SIGMA) / bound)
    if isinstance(problem.kernel, PolynomialKernel):
        for t in (1, 10, 1000, 10**5, 10**8):
            bound = finite_rank_bound(t, method, found.kappa, lam, away, SIGMA, truths - f)
            note(FINITE, found.expected_error(t, truths, target=f, sigma=SIGMA) / bound)
