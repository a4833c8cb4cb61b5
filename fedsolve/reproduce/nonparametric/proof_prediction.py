"""Appendix B of Su, Xu and Yang (2023), proofs of Proposition 7 and Theorems 8 and 11: each step, on four kernels."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.recursion import Decomposition, P_matrix
from fedsolve.features.exact_kernels import PolynomialKernel
from fedsolve.numerics.early_stopping import rademacher, stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_kernels import KERNELS, SIGMA, SIZES, KernelProblem, N, methods, posed

DECOMPOSED = Quantity(
    "Appendix B, (40) and (41)", "K_x = VΛVᵀ, K_xP = VΛV⁻¹ and L^t = V(I − ηΛ)^tV⁻¹", "largest difference", most=1e-9
)
NORMS = bound("Appendix B, (42)", "‖V‖² = ‖P⁻¹‖ ≤ κ/s and ‖V⁻¹‖² = ‖P‖ ≤ s")
EQUAL_NORMS = identity("Appendix B, (42)", "… ‖V‖² = ‖P⁻¹‖ and ‖V⁻¹‖² = ‖P‖")
LEARNED = bound("Appendix B, (43)", "‖I − (I − ηΛ)^t‖ ≤ 1 and ‖I − L^t‖ ≤ √κ")
CHAIN = bound(
    "Proof of Lemma 19", "Σ (1 − (1 − ηΛ_i)^t)² ≤ Σ min{1, (ηtΛ_i)²} ≤ Σ min{1, ηtΛ_i} ≤ Σ min{1, ηtλ_is} = NηtsR²"
)
UNROLLED = Quantity(
    "Proof of Proposition 7, (44)", "f_t(x) − f(x) = L^t(f_0(x) − f(x)) + Σ L^τηK_xP(ξ + Δ_f) = "
    "L^t(f_0(x) − f(x)) + (I − L^t)(ξ + Δ_f)",
    "largest difference", most=1e-9,
)  # fmt: skip
THREE = bound(
    "Proof of Proposition 7, (45)",
    "‖f_t(x) − f(x)‖² is at most three times the three squares, and ‖(I − L^t)Δ_f‖² ≤ κ‖Δ_f‖²",
)
BIAS = bound("Proof of Lemma 20", "‖L^t f(x)‖²/N ≤ ‖f‖² ‖L^t K_x (L^t)ᵀ‖ ≤ ‖f‖² ‖(I − ηΛ)^(2t) Λ‖ κ/s")
SCALAR = bound("Proof of Lemma 20", "(1 − x)^t x ≤ 1/(et) for x ≤ 1", "largest ratio of both sides")
SCALAR_PRINTED = bound(
    "Proof of Lemma 20", "(1 − x)^t x ≤ 1/e^t for all x ≤ 1, as printed", "largest ratio of both sides"
)
FORM = identity("Proof of Lemma 21, (47)", "‖(I − L^t)ξ‖² = ξᵀQξ = Tr(ξξᵀQ)")
TRACE = bound(
    "Proof of Lemma 21, (48) and (49)",
    "E‖(I − L^t)ξ‖² = Tr(E[ξξᵀ]Q) ≤ σ² Tr Q = σ²‖I − L^t‖_F², with variances between 0 and σ²",
)
SHRINKS = Quantity("Proof of Theorem 8", "R(ε)/ε² does not increase with ε", "next over last", most=1.0)
STOPPED = bound("Proof of Theorem 8", "ηtsR(1/√(ηts)) ≤ 1/(√(2e)σ) for all t ≤ T")
SUM = bound(
    "Proof of Theorem 8",
    "the error is at most 3κ/(2ηts) ‖f_0 − f‖² + 3κσ²ηtsR² + 3κ‖Δ_f‖²/N, and that at most 3κ/(2ηts) (‖f_0 "
    "− f‖² + 1) + 3κ‖Δ_f‖²/N",
)
BALANCE = bound(
    "(23)", "up to T the bound on the bias, 1/(2eηts), is at least that on the variance, σ²ηtsR²", "variance over bias"
)
LONGEST = Quantity(
    "(23)", "… and T is the largest such t: at T + 1 the variance is larger", "variance over bias", least=1.0
)
PRINTED_T = bound(
    "(23)", "up to T with the root over 2eσηts, as printed, the bound of Theorem 8 holds", "error over bound"
)
RANK = Quantity("Proof of Theorem 11", "Λ_i = 0 for i > d, the rank", "largest Λ_i over Λ_1", most=1e-12)
EXPONENTIAL = bound("Proof of Theorem 11", "δ_1(t) ≤ (1/(ηs)) (1 − ηλ_ds/κ)^(2t) ≤ (1/(ηs)) exp(−2λ_dsηt/κ)")
PACE = bound(
    "Theorem 11",
    "the rate of its bound is right within κ: where δ_1(t) is e⁻⁵ of its start or less, −log of it grows by at least "
    "2ηsλ_d/κ in a round, and by at most 1.25 κ times that",
)
FEW = bound("Proof of Theorem 11", "δ_2(t) ≤ d/N")
QUANTITIES = (
    *(DECOMPOSED, NORMS, EQUAL_NORMS, LEARNED, CHAIN, UNROLLED, THREE, BIAS, SCALAR, SCALAR_PRINTED, FORM, TRACE),
    *(SHRINKS, STOPPED, SUM, BALANCE, LONGEST, PRINTED_T, RANK, EXPONENTIAL, PACE, FEW),
)  # fmt: skip
ROUNDS = (1, 2, 5, 20, 100, 1000)
LATE = 10**6  # the last round tried of a T that is never reached


def measured(seed: int, notes: Notes) -> None:
    """The steps over kernels, methods and rounds, with clients whose truths differ."""
    _scalars(notes)
    rng = np.random.default_rng([seed, 22])
    for kernel in KERNELS:
        problem = posed(kernel, seed, 0.3)
        for method in methods(problem.K):
            found = Decomposition.of(problem.K, SIZES, method)
            _matrices(problem, found, notes)
            for t in ROUNDS:
                _round(problem, found, t, rng, notes)
            _stopping(problem, found, notes)
            if isinstance(kernel, PolynomialKernel):
                _finite(found, notes)


def _scalars(notes: Notes) -> None:
    x = np.linspace(0, 1, 3001)[:, None]  # below 0 the left side is negative
    t = np.arange(1.0, 60)
    notes.add(SCALAR, (1 - x) ** t * x * math.e * t)
    notes.add(SCALAR_PRINTED, (1 - x) ** t * x * np.exp(t))


def _matrices(problem: KernelProblem, found: Decomposition, notes: Notes) -> None:
    V, Lam, W, K, s = found.vectors, found.eigenvalues, found.inverse, problem.K / N, found.method.steps
    P = P_matrix(problem.K, SIZES, found.method)
    notes.same(DECOMPOSED, (V * Lam) @ V.T, K)
    notes.same(DECOMPOSED, (V * Lam) @ W, K @ P)
    L = np.eye(N) - found.method.step_size * K @ P
    notes.same(DECOMPOSED, (V * found.decay**7) @ W, np.linalg.matrix_power(L, 7))
    values = np.linalg.eigvalsh(P)
    sizes = np.linalg.norm(V, 2) ** 2, np.linalg.norm(W, 2) ** 2
    notes.same(EQUAL_NORMS, np.array(sizes), np.array([1 / values[0], values[-1]]))
    notes.add(NORMS, sizes[0] * s / found.kappa, sizes[1] / s)


def _round(problem: KernelProblem, found: Decomposition, t: int, rng: np.random.Generator, notes: Notes) -> None:
    V, W, K, method = found.vectors, found.inverse, problem.K / N, found.method
    P = P_matrix(problem.K, SIZES, method)
    f, apart, kappa = problem.values, problem.truths - problem.values, found.kappa
    L = np.eye(N) - method.step_size * K @ P
    power = (V * found.decay**t) @ W
    learned = np.eye(N) - power
    notes.add(LEARNED, np.abs(1 - found.decay**t).max(), np.linalg.norm(learned, 2) / math.sqrt(kappa))
    Lam, lam = np.maximum(found.eigenvalues, 0), found.kernel_eigenvalues
    eta, u = method.step_size, method.step_size * method.steps * t
    sums = [np.square(1 - found.decay**t).sum(), np.minimum(1, (eta * t * Lam) ** 2).sum()]
    sums += [np.minimum(1, eta * t * Lam).sum(), np.minimum(1, u * lam).sum()]
    sums += [N * u * rademacher(lam, u**-0.5, N) ** 2]
    notes.add(CHAIN, np.array(sums[:-1]) / np.array(sums[1:]))
    noise = SIGMA * rng.standard_normal(N)
    path = np.zeros(N)
    term = eta * K @ P @ (noise + apart)
    middle_sum = np.zeros(N)
    for _ in range(min(t, 100)):
        path = L @ path + eta * K @ P @ (f + apart + noise)
        middle_sum, term = middle_sum + term, L @ term
    if t <= 100:
        notes.same(UNROLLED, path - f, -power @ f + learned @ (noise + apart))
        notes.same(UNROLLED, path - f, -power @ f + middle_sum)
    parts = [np.square(power @ f).sum(), np.square(learned @ noise).sum(), np.square(learned @ apart).sum()]
    notes.add(THREE, np.square(-power @ f + learned @ (noise + apart)).sum() / (3 * sum(parts)))
    notes.add(THREE, parts[2] / (kappa * np.square(apart).sum()))
    middle = problem.f.norm**2 * np.linalg.norm(power @ K @ power.T, 2)
    last = problem.f.norm**2 * (found.decay ** (2 * t) * Lam).max() * kappa / method.steps
    notes.add(BIAS, parts[0] / N / middle, middle / last)
    Q, variances = learned.T @ learned, SIGMA**2 * rng.random(N)
    notes.same(FORM, np.square(learned @ noise).sum(), np.trace(np.outer(noise, noise) @ Q))
    notes.add(TRACE, np.trace(np.diag(variances) @ Q) / (SIGMA**2 * np.square(learned).sum()))


def _stopping(problem: KernelProblem, found: Decomposition, notes: Notes) -> None:
    method, lam, kappa = found.method, found.kernel_eigenvalues, found.kappa
    pace, away, apart = method.step_size * method.steps, problem.f.norm**2, problem.truths - problem.values
    epsilon = np.geomspace(1e-3, 3, 60)
    levels = np.array([rademacher(lam, one, N) / one**2 for one in epsilon])
    notes.add(SHRINKS, levels[1:] / levels[:-1])
    T = stopping_round(lam, SIGMA, N, method.step_size, method.steps) or 0
    rest = 3 * kappa * np.square(apart).mean()

    def level(t: float) -> float:
        return pace * t * rademacher(lam, (pace * t) ** -0.5, N)  # u R(1/√u)

    def error(t: int) -> float:
        return float(found.expected_error(t, problem.truths, target=problem.values, sigma=SIGMA))

    for t in np.unique(np.linspace(1, T, 10).astype(int)) if T else ():
        u = pace * t
        notes.add(STOPPED, level(t) * math.sqrt(2 * math.e) * SIGMA)
        notes.add(BALANCE, SIGMA**2 * level(t) ** 2 / u * 2 * math.e * u)
        first = 3 * kappa / (2 * u) * away + 3 * kappa * SIGMA**2 * level(t) ** 2 / u + rest
        notes.add(SUM, error(int(t)) / first, first / (3 * kappa / (2 * u) * (away + 1) + rest))
    notes.add(LONGEST, SIGMA**2 * level(T + 1) ** 2 * 2 * math.e)
    # R(1/√u) ≤ 1/√(2eσu): u R² ≤ 1/(2eσ), the mean of min{1, uλ_i}
    rounds = np.unique(np.geomspace(1, LATE, 60).astype(int))
    allowed = [int(t) for t in rounds if level(t) ** 2 / (pace * t) <= 1 / (2 * math.e * SIGMA)]
    last = allowed[-1] if allowed else 1  # where the bound is smallest; one truth for all clients
    alone = float(found.expected_error(last, problem.values, sigma=SIGMA))
    notes.add(PRINTED_T, alone / (3 * kappa / (2 * math.e * pace * last) * (away + 1)))


def _finite(found: Decomposition, notes: Notes) -> None:
    method, lam, Lam = found.method, found.kernel_eigenvalues, np.maximum(found.eigenvalues, 0)
    d = int((lam > 1e-12 * lam[0]).sum())
    eta, s, least = method.step_size, method.steps, lam[d - 1]
    notes.add(RANK, Lam[d:].max() / Lam[0])
    for t in ROUNDS:
        delta_1 = (found.decay[:d] ** (2 * t) * Lam[:d]).max() / s
        middle: float = (1 - eta * least * s / found.kappa) ** (2 * t) / (eta * s)
        last = math.exp(-2 * least * s * eta * t / found.kappa) / (eta * s)
        notes.add(EXPONENTIAL, delta_1 / middle, middle / last)
        notes.add(FEW, np.square(1 - found.decay[:d] ** t).sum() / d)
    t = math.ceil(2.5 / -math.log(found.decay[d - 1]))
    first, later = ((found.decay[:d] ** (2 * one) * Lam[:d]).max() for one in (t, 2 * t))
    ratio = math.log(first / later) / t / (2 * eta * s * least / found.kappa)
    notes.add(PACE, 1 / ratio, ratio / (1.25 * found.kappa))
