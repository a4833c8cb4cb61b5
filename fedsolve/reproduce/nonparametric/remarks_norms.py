"""Su, Xu and Yang (2023), sections 3 to 6, on kernels: truths outside of the RKHS, the two norms, FedProx with large η,
and more local steps than one."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.bounds import early_stopping_bound, error_terms, finite_rank_bound
from fedsolve.closed_forms.methods import LocalSteps, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, P_matrix, gamma
from fedsolve.features.exact_kernels import PolynomialKernel, Sobolev
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.proof_population import eigenfunctions, eigenvalues
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, D, scaled_rows
from fedsolve.reproduce.nonparametric.theory_kernels import KERNELS, ROUNDS, SIGMA, SIZES, N, posed
from fedsolve.reproduce.nonparametric.theory_rates import slope

MISSPECIFIED = bound(
    "Section 3",
    "a truth outside of the RKHS counts as a bias of the observations: E‖f_t − f‖²_N is at most (18) and the bound of "
    "Theorem 11 with Δ_f = f* − f, f the best quadratic for sin 5x, t = 1 to 1,000",
    "error over bound",
)
EXPANDED = Quantity(
    "Section 3",
    "f(x) = Σ θ_l φ_l(x) = ⟨f, k(·, x)⟩ with θ_l = β_l/√μ_l, β_l by quadrature: f = x²(1.5 − x), min(x, y), 400 terms",
    "largest difference",
    most=1e-4,
)
STRICTLY = Quantity(
    "Section 6.2",
    "convergence in the RKHS norm is strictly stronger: the least ‖f‖²_N of norm 1 falls at least like 1/N, min(x, y), "
    "N = 50, 200 and 800, rows drawn and evenly spaced",
    "largest exponent in N",
    most=-1.0,
)
STRICTLY_D = Quantity(
    "Section 6.2",
    "… and in d dimensions it falls at least like 1/N, too: d = 12, N = 10 d to 80 d independent rows",
    "exponent in N",
    most=-1.0,
)
ANY_GAMMA = bound(
    "Footnote 2",
    "for FedProx Lemma 5, Proposition 7, Theorem 8 and Theorem 11 hold with γ = 10 and 100, too",
    "left over right side",
)
NO_POWER = Quantity(
    "Section 5",
    "s steps of (11) on all rows are not a round of FedAvg with s > 1: I − ηK_xP differs from (I − ηK_x)^s by at "
    "least 1 % of it, s = 5 and 10, four kernels",
    "difference over the round",
    least=0.01,
)
QUANTITIES = (MISSPECIFIED, EXPANDED, STRICTLY, STRICTLY_D, ANY_GAMMA, NO_POWER)


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    _outside(np.random.default_rng([seed, 38]), notes)
    _norms(np.random.default_rng([seed, 52]), notes)
    _proximal(seed, notes)
    for kernel in KERNELS:
        K = posed(kernel, seed, 0.0).K
        for s in (5, 10):
            method = LocalSteps(0.9 / gamma(K, SIZES, 1.0), s)
            whole = np.eye(N) - method.step_size * K / N @ P_matrix(K, SIZES, method)
            power = np.linalg.matrix_power(np.eye(N) - method.step_size * K / N, s)
            notes.add(NO_POWER, np.linalg.norm(whole - power, 2) / np.linalg.norm(whole, 2))


def _outside(rng: np.random.Generator, notes: Notes) -> None:
    X = rng.random((N, 1))
    kernel = PolynomialKernel(2)
    K, truth = kernel(X), np.sin(5 * X[:, 0])
    f = np.vander(X[:, 0], 3) @ np.linalg.lstsq(np.vander(X[:, 0], 3), truth, rcond=None)[0]
    norm = math.sqrt(float(f @ np.linalg.pinv(K, rcond=1e-12, hermitian=True) @ f))
    eta = 0.9 / gamma(K, SIZES, 1.0)
    for method in (LocalSteps(eta), LocalSteps(eta, 5), ProximalStep(eta)):
        found = Decomposition.of(K, SIZES, method)
        for t in ROUNDS:
            error = float(found.expected_error(t, truth, target=f, sigma=SIGMA))
            notes.add(
                MISSPECIFIED, error / error_terms(found, t, sigma=SIGMA, distance=norm, difference=truth - f).bound
            )
            most = finite_rank_bound(t, method, found.kappa, found.kernel_eigenvalues, norm, SIGMA, truth - f)
            notes.add(MISSPECIFIED, error / most)


def _norms(rng: np.random.Generator, notes: Notes) -> None:
    points, weights = np.polynomial.legendre.leggauss(3000)
    points, weights = (points + 1) / 2, weights / 2
    phi, mu, x = eigenfunctions(points, 400), eigenvalues(400), np.linspace(0, 1, 21)
    theta = (weights * points**2 * (1.5 - points)) @ phi / np.sqrt(mu)
    notes.add(EXPANDED, np.abs((np.sqrt(mu) * eigenfunctions(x, 400)) @ theta - x**2 * (1.5 - x)).max())
    totals = (50, 200, 800)
    for drawn in (False, True):
        rows = [rng.random((total, 1)) if drawn else (np.arange(total)[:, None] + 0.5) / total for total in totals]
        # of f along the last eigenvector
        least = [float(np.linalg.eigvalsh(Sobolev()(one) / len(one))[0]) for one in rows]
        notes.add(STRICTLY, slope(totals, least))
    some = [np.vstack(scaled_rows(rng, (times * D // 3,) * 3, LOW)) for times in (10, 20, 40, 80)]
    rhos = [float(np.linalg.eigvalsh(one.T @ one / len(one))[0]) for one in some]  # least ‖f‖²_N of norm 1
    notes.add(STRICTLY_D, slope([len(one) for one in some], rhos))


def _proximal(seed: int, notes: Notes) -> None:
    for kernel in KERNELS:
        problem = posed(kernel, seed, 0.3)
        f, apart, away = problem.values, problem.truths - problem.values, problem.f.norm
        for share in (10.0, 100.0):
            method = ProximalStep(share / gamma(problem.K, SIZES, 1.0))
            found = Decomposition.of(problem.K, SIZES, method)
            lam, Lam = found.kernel_eigenvalues, found.eigenvalues
            clear = lam > 1e-9 * lam[0]
            ratio = Lam[clear] / lam[clear]
            notes.add(ANY_GAMMA, np.linalg.cond(P_matrix(problem.K, SIZES, method)) / found.kappa)
            notes.add(ANY_GAMMA, ratio.max() - 1e-6, 1 / (found.kappa * ratio.min()) - 1e-6)  # to rounding
            T = stopping_round(lam, SIGMA, N, method.step_size) or 0
            for t in (*ROUNDS, *range(1, min(T, 10) + 1)):
                error = float(found.expected_error(t, problem.truths, target=f, sigma=SIGMA))
                terms = error_terms(found, t, sigma=SIGMA, distance=away, difference=apart)
                notes.add(ANY_GAMMA, error / terms.bound)
                if t <= T:
                    notes.add(ANY_GAMMA, error / early_stopping_bound(t, method, found.kappa, away, apart))
                if isinstance(kernel, PolynomialKernel):
                    most = finite_rank_bound(t, method, found.kappa, lam, away, SIGMA, apart)
                    notes.add(ANY_GAMMA, error / most)
