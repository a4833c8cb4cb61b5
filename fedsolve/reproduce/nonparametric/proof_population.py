"""Appendix B.3 of Su, Xu and Yang (2023): from the rows to the distribution they are drawn from, kernel min(x, y).

On [0, 1] its eigenvalues are μ_l = 1/((l − ½)²π²), its eigenfunctions √2 sin((l − ½)πx), and ‖f‖² = ∫ f'². The critical
radius ε̄_N is 1/√u for the u of the rule (23) with these eigenvalues.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import PolynomialKernel, Sobolev
from fedsolve.numerics.early_stopping import rademacher, stopping_round, stopping_time
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_rates import SIGMA, posed, slope
from fedsolve.typing import Array

MERCER = Quantity(
    "Section 3, (3)", "k(x, z) = Σ μ_l φ_l(x) φ_l(z): min(x, z) with 20,000 terms", "largest difference", most=1e-4
)
ORTHOGONAL = identity("Section 3", "φ_l are orthonormal in L²(P), and ⟨φ_l, φ_l'⟩ is 0 or 1/μ_l in the RKHS")
LENGTHS = Quantity(
    "Section 3, (4)",
    "‖f‖² is Σβ² in L²(P) and Σθ² in the RKHS: f = min(·, c), 20,000 terms, against integrals",
    "largest difference",
    most=1e-4,
)
VARIABLES = Quantity(
    "Appendix B.3",
    "(1 + ⟨x, y⟩)^a generates the polynomials of 2d variables and degree 2a, as printed: its rank is their number",
    "rank over that number",
    1 - 1e-9,
    1 + 1e-9,
)
RANK = Quantity(
    "Appendix B.3",
    "… and it is that of the polynomials of d variables and degree a",
    "rank over that number",
    1 - 1e-9,
    1 + 1e-9,
)
DECAY = Quantity("Appendix B.3, (59)", "min(x, y) has μ_i ≤ C i^(−2β) with β = 1", "μ_i i², i up to 10⁶", most=0.41)
FINITE = bound("Proof of Corollary 23", "R̄(ε) ≤ √(r/N) ε, and so ε̄_N ≤ σ√(2er/N)")
ONE_MORE = bound(
    "Appendix B.3", "finite rank r as printed, λ̄_j = 0 for j > r + 1: R̄(ε) ≤ √(r/N) ε, r = 3", "R̄(ε) over √(r/N) ε"
)
ROOT = Quantity(
    "Proof of Corollary 24",
    "ε̄_N²/√(2eσ) = R̄(ε̄_N), as printed, σ = 0.5, β = 1 and 2, N = 10² to 10⁶",
    "left over right side",
    1 - 1e-9,
    1 + 1e-9,
)
ROOT_OF_2E = Quantity(
    "Proof of Corollary 24",
    "… and ε̄_N²/(√(2e)σ) = R̄(ε̄_N)",
    "left over right side",
    1 - 1e-9,
    1 + 1e-9,
)
SMOOTH = Quantity(
    "Proof of Corollary 24",
    "R̄(ε) √N/ε^(1−1/(2β)) is bounded for β = 1 and 2: it varies by less than a factor of 2 from ε = 10⁻³ to 0.3",
    "largest over least",
    most=2.0,
)
RADIUS = bound("Proof of Corollary 24", "ε̄_N ≤ (√(2e)C'σ/√N)^(2β/(2β+1)), C' the bound found for R̄, N = 10² to 10⁶")
CRITICAL = Quantity(
    "Lemma 26",
    "ε̄_N √(ηTs) is between two constants, here ½ and 2, for N = 50 to 400 drawn rows",
    "ε̄_N √(ηTs)",
    0.5,
    2.0,
)
UNIFORM = Quantity(
    "Lemma 25",
    "as printed: the largest |‖g‖²_N − ‖g‖²| over ‖g‖ ≤ 1 stays of the order ε̄_N², N = 100 to 12,800",
    "exponent of the ratio",
    most=0.05,
)
CORRECTED = Quantity(
    "Lemma 25",
    "… and |‖g‖²_N − ‖g‖²| − ½‖g‖², as in the book it is quoted from, is at most ε̄_N²",
    "largest value over ε̄_N²",
    most=1.0,
)
POPULATION = Quantity(
    "Theorem 22",
    "‖f_T − f‖² over κ(ε̄_N²(‖f_0 − f‖² + 1) + ‖Δ_f‖²/N) does not grow with N = 50 to 400, and is below 1",
    "ratio",
    most=1.0,
)
NO_GROWTH = Quantity("Theorem 22", "… its exponent in N is at most 0.05", "exponent", most=0.05)
STEP = Quantity(
    "Proof of Theorem 22",
    "‖f_T − f‖² ≤ ‖f_T − f‖²_N + c_3B²ε̄_N² with c_3 = 1, B of Lemma 27, in every draw",
    "largest difference over B²ε̄_N²",
    most=1.0,
)
QUANTITIES = (
    *(MERCER, ORTHOGONAL, LENGTHS, VARIABLES, RANK, DECAY, FINITE, SMOOTH, RADIUS, CRITICAL, UNIFORM, CORRECTED),
    *(POPULATION, NO_GROWTH, STEP, ONE_MORE, ROOT, ROOT_OF_2E),
)  # fmt: skip
TERMS = 20_000
SIZES = (50, 100, 200, 400)


def eigenvalues(count: int) -> Array:
    return 1 / ((np.arange(1, count + 1) - 0.5) * np.pi) ** 2


def eigenfunctions(x: Array, count: int) -> Array:
    """φ_l(x), a column for each l."""
    return math.sqrt(2) * np.sin(np.outer(x, (np.arange(1, count + 1) - 0.5) * np.pi))


def radius(lam: Array, total: float, sigma: float = SIGMA) -> float:
    """ε̄_N."""
    return 1 / math.sqrt(stopping_time(lam, sigma, total))


def measured(seed: int, notes: Notes) -> None:
    """What needs no draws, then drawn rows."""
    rng = np.random.default_rng([seed, 25])
    _expansion(notes)
    _ranks(rng, notes)
    _radii(notes)
    _uniform(rng, notes)
    _stopped(seed, rng, notes)


def _expansion(notes: Notes) -> None:
    mu, x = eigenvalues(TERMS), np.linspace(0, 1, 21)
    phi = eigenfunctions(x, TERMS)
    notes.add(MERCER, np.abs((phi * mu) @ phi.T - np.minimum.outer(x, x)).max())
    points, weights = np.polynomial.legendre.leggauss(200)
    points, weights = (points + 1) / 2, weights / 2
    few, rates = eigenfunctions(points, 20), (np.arange(1, 21) - 0.5) * np.pi
    slopes = math.sqrt(2) * rates * np.cos(np.outer(points, rates))
    notes.same(ORTHOGONAL, (few * weights[:, None]).T @ few, np.eye(20))
    notes.same(ORTHOGONAL, (slopes * weights[:, None]).T @ slopes, np.diag(1 / mu[:20]))
    c = 0.3
    theta = np.sqrt(mu) * eigenfunctions(np.array([c]), TERMS)[0]  # of k(·, c)
    notes.add(LENGTHS, abs(theta @ theta - c), abs(mu @ theta**2 - (c**2 - 2 / 3 * c**3)))
    i = np.arange(1, 10**6 + 1)
    notes.add(DECAY, eigenvalues(10**6) * i**2.0)


def _ranks(rng: np.random.Generator, notes: Notes) -> None:
    for d, a in ((1, 3), (2, 2), (3, 2)):
        K = PolynomialKernel(a)(rng.standard_normal((150, d)))
        rank = np.linalg.matrix_rank(K, tol=1e-9 * np.linalg.norm(K, 2))
        notes.add(VARIABLES, rank / math.comb(2 * d + 2 * a, 2 * a))
        notes.add(RANK, rank / math.comb(d + a, a))


def _radii(notes: Notes) -> None:
    epsilon = np.geomspace(1e-3, 0.3, 40)
    for beta in (1.0, 2.0):
        lam = np.arange(1.0, 200_001) ** (-2 * beta)
        levels = np.array([rademacher(lam, one, 1.0) for one in epsilon]) / epsilon ** (1 - 1 / (2 * beta))
        notes.add(SMOOTH, levels.max() / levels.min())
        power = 2 * beta / (2 * beta + 1)
        for total in (1e2, 1e4, 1e6):
            most = (math.sqrt(2 * math.e) * levels.max() * SIGMA / math.sqrt(total)) ** power
            found = radius(lam, total)
            notes.add(RADIUS, found / most)
            level = rademacher(lam, found, total)
            notes.add(ROOT, found**2 / math.sqrt(2 * math.e * SIGMA) / level)
            notes.add(ROOT_OF_2E, found**2 / (math.sqrt(2 * math.e) * SIGMA) / level)
    for r, total in ((3, 50), (3, 5000), (10, 500)):
        lam = np.linspace(1, 0.05, r)
        notes.add(FINITE, radius(lam, total) / (SIGMA * math.sqrt(2 * math.e * r / total)))
        notes.add(FINITE, *(rademacher(lam, one, total) / (math.sqrt(r / total) * one) for one in epsilon))
    notes.add(ONE_MORE, *(rademacher(np.linspace(1, 0.05, 4), one, 50) / (math.sqrt(3 / 50) * one) for one in epsilon))


def _uniform(rng: np.random.Generator, notes: Notes) -> None:
    """sup |‖g‖²_N − ‖g‖²| over the unit ball is the norm of ΦᵀΦ/N − diag(μ) in the basis √μ_l φ_l."""
    count, sizes = 200, (100, 400, 1600, 6400, 12_800)
    mu = eigenvalues(count)
    plain = []
    for total in sizes:
        found = []
        for _ in range(4):
            phi = eigenfunctions(rng.random(total), count) * np.sqrt(mu)
            values = phi.T @ phi / total - np.diag(mu)
            ends = np.linalg.eigvalsh(values)
            halves = [np.linalg.eigvalsh(sign * values - np.diag(mu) / 2)[-1] for sign in (1, -1)]
            found.append(max(-ends[0], ends[-1]))
            notes.add(CORRECTED, max(halves) / radius(mu, total) ** 2)
        plain.append(np.mean(found) / radius(eigenvalues(10**5), total) ** 2)
    notes.add(UNIFORM, slope(sizes, plain))


def _stopped(seed: int, rng: np.random.Generator, notes: Notes) -> None:
    """f_T for truths that differ by multiples of k(·, ½), 20 draws of the noise; N with T = 0 are left out."""
    grid = ((np.arange(400) + 0.5) / 400)[:, None]
    ratios, totals = [], []
    for total in SIZES:
        X, sizes, f = posed(Sobolev(), total, seed)
        K = Sobolev()(X)
        method = LocalSteps(0.3 / gamma(K, sizes, 1.0), 5)
        found = Decomposition.of(K, sizes, method)
        T = stopping_round(found.kernel_eigenvalues, SIGMA, total, method.step_size, method.steps)
        if not T:
            continue
        u, level = method.step_size * method.steps * T, radius(eigenvalues(10**5), total) ** 2
        notes.add(CRITICAL, math.sqrt(level * u))
        apart = 0.2 * np.repeat([1.0, -1.0, 1.0, -1.0], sizes) * np.minimum(X[:, 0], 0.5)
        y = (f.predict(X) + apart)[:, None] + SIGMA * rng.standard_normal((total, 20))
        ends = found.values(y, T) - f.predict(X)[:, None]
        # f_T = Σ α_j k(·, x_j), so that its values elsewhere follow from those at the rows.
        alpha = np.linalg.solve(K, found.values(y, T))
        away = Sobolev()(grid, X) @ alpha - f.predict(grid)[:, None]
        squares, rows = np.square(away).mean(axis=0), np.square(ends).mean(axis=0)
        size = level * (f.norm**2 + 1) + np.square(apart).mean()
        ratios.append(squares.mean() / (found.kappa * size))
        notes.add(POPULATION, squares / (found.kappa * size))
        B = f.norm + 1 + math.sqrt(u / total) * float(np.linalg.norm(apart))
        notes.add(STEP, (squares - rows).max() / (B**2 * level))
        totals.append(total)
    notes.add(NO_GROWTH, slope(totals, ratios))
