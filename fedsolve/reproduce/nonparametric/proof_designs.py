"""Section 6.2 and Appendix C.2 of Su, Xu and Yang (2023): Corollaries 13 and 14, their proofs, and the two examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from fedsolve.closed_forms.linear_path import round_map
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.reproduce.nonparametric import proof_conditioning
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, SIGMA, D, Rounds, methods, scaled_rows
from fedsolve.reproduce.nonparametric.theory_rates import slope
from fedsolve.typing import Array

WELL = Quantity("Corollary 13, proof", "ρ_N ≥ α/2 = 0.05 with N = 10 d to 80 d independent rows", "ρ_N", least=LOW / 2)
DEVIATION = Quantity(
    "Proof of Corollary 13",
    "‖φ(x)ᵀφ(x)/N − ΣΣ_ij/N‖ ≤ c_1 max{√(d/N), d/N}: with c_1 = 4, N = 10 d to 80 d",
    "norm over max{√(d/N), d/N}",
    most=4.0,
)
WEYL = Quantity("Proof of Corollary 13", "ρ_N ≥ α − ‖φ(x)ᵀφ(x)/N − ΣΣ_ij/N‖", "least difference", least=0.0)
SUM = identity("Proof of Corollary 13, (72)", "‖Δ_f_j*‖² = Σ_i ‖f_i*(x_i) − f_j*(x_i)‖² = ΣΣ ⟨φ(x_i), θ_i* − θ_j*⟩²")
SPREAD = Quantity(
    "Proof of Corollary 13",
    "‖Δ_f_j*‖² ≤ Γ²(β + c_4)N: with c_4 = 1 in every draw, β = 1",
    "‖Δ_f_j*‖² over Γ²N",
    most=2.0,
)
OPTIMAL = Quantity(
    "Section 6.2, statistical optimality",
    "E‖θ_∞ − θ̄‖² falls as 1/N although covariates differ: exponent −1 ± 0.1, N = 10 d to 80 d",
    "exponent",
    -1.1,
    -0.9,
)
MINIMAX = Quantity(
    "Section 6.2, statistical optimality",
    "… and is at most 2κ times that of least squares on all rows, σ² Tr((ΦᵀΦ)⁻¹)",
    "error over κ times that",
    most=2.0,
)
TRADE = Quantity(
    "After Lemma 5",
    "larger s: fewer rounds until the bias is 1 % of its start, s = 1, 5 and 10",
    "next over last",
    most=1.0 - 1e-6,
)
FASTER = Quantity(
    "After Lemma 5",
    "larger η: fewer rounds, γ = 0.1, 0.3 and 0.9, FedAvg with s = 5",
    "next over last",
    most=1.0 - 1e-6,
)
COST = Quantity(
    "After Lemma 5", "… at a larger statistical error E‖θ_∞ − θ̄‖², for s and for η", "next over last", least=1.0 + 1e-6
)
PROJECTED = Quantity(
    "Section 6.2.2", "‖U_i‖_F = r_i, as printed", "‖U_i‖_F over r_i, r_i = 1, 4 and 9", 1 - 1e-10, 1 + 1e-10
)
PROJECTED_ROOT = Quantity("Section 6.2.2", "… and ‖U_i‖_F = √r_i", "‖U_i‖_F over √r_i", 1 - 1e-10, 1 + 1e-10)
MEAN = Quantity(
    "Section 6.2.2; proof of Corollary 14, (74)",
    "E[U_iU_iᵀ] = (r_i/d) I for uniform subspaces: the mean of 20,000 draws",
    "largest difference over r_i/d",
    most=0.05,
)
SQUARE = Quantity(
    "Proof of Corollary 14",
    "E[Y_i²] = w_i²(d/r_i)²(r_i/d − (r_i/d)²) I: the mean of 20,000 draws",
    "largest difference over it",
    most=0.05,
)
NORM = bound("Proof of Corollary 14", "‖Y_i‖ ≤ 2w_id/r_i")
FEATURES = Quantity(
    "Proof of Corollary 14, (73)",
    "φ(x)ᵀφ(x)/N ⪰ α Σ w_i(d/r_i) U_iU_iᵀ",
    "least eigenvalue of the difference",
    least=-1e-10,
)
HALF = Quantity(
    "Proof of Corollary 14, (75)", "‖ΣY_i‖ ≤ ½ with N = 8 ν d log d, so that φ(x)ᵀφ(x)/N ⪰ α/2", "‖ΣY_i‖", most=0.5
)
SINGULAR = bound("Proof of Corollary 14", "Σ‖φ(x_i)‖² ≤ Σ(d/r_i)‖F_i‖² ≤ βdΣn_i/r_i ≤ βνMd")
ENOUGH = bound(
    "Proof of Corollary 13",
    "α/2 ≤ α − c_1 max{√(d/N), d/N} from N = d max{4c_1²/α², 2c_1/α} on, c_1 = 0.1 to 10, α = 0.01 to 10",
    "α/2 over it",
)
SQUARE_SIZE = Quantity(
    "Proof of Corollary 14",
    "F_iᵀF_i/n_i ⪰ αI_d, as printed: it has d rows",
    "rows over d",
    1.0,
    1.0,
)
FIRST_STEP = bound(
    "Proof of Corollary 14, (75)",
    "(a): Σw_i²d/r_i ≤ νd/N and max w_id/r_i ≤ νd/N, for n_i and r_i that differ",
)
BERNSTEIN = bound(
    "Proof of Corollary 14, (75)",
    "‖ΣY_i‖ ≤ c_3√(Σw_i²(d/r_i) log d) + c_3 max w_i(d/r_i) log d: with c_3 = 2 in 50 draws, n_i and r_i that differ",
)
APART = bound("Proof of Corollary 14", "Σ‖f_i*(x_i) − f_j*(x_i)‖² ≤ Σ‖φ(x_i)‖²‖θ_i* − θ_j*‖², for every client j")
ORTHOGONAL = bound(
    "Example 1",
    "orthogonal local rows of norm √d, n_i = r_i, N = 8 d log d: E‖θ_t − θ̄‖² is at most (30) with α = β = ν = 1",
    "error over bound",
)
ALPHA_ONE = Quantity(
    "Example 1", "… F_i = √r_i I, so that α = β = 1", "eigenvalues of F_iᵀF_i/n_i", 1 - 1e-10, 1 + 1e-10
)
GAUSSIAN = bound(
    "Example 2",
    "Gaussian F_i with n_i = 100 max{r_i, log M}, N = 8 ν d log d: E‖θ_t − θ̄‖² is at most (30)",
    "error over bound",
)
QUANTITIES = (
    *(WELL, DEVIATION, WEYL, SUM, SPREAD, OPTIMAL, MINIMAX, TRADE, FASTER, COST, PROJECTED, PROJECTED_ROOT, MEAN),
    *(SQUARE, NORM, FEATURES, HALF, SINGULAR, ORTHOGONAL, ALPHA_ONE, GAUSSIAN),
    *(ENOUGH, SQUARE_SIZE, FIRST_STEP, BERNSTEIN, APART),
)  # fmt: skip
DRAWS = 20_000
PLENTY, C = 8, 100


def measured(seed: int, notes: Notes) -> None:
    """Drawn designs; expectations over the noise are exact."""
    rng = np.random.default_rng([seed, 26])
    _independent(rng, notes)
    _trade(rng, notes)
    _projections(rng, notes)
    for name, r, n in (("orthogonal", 4, 4), ("Gaussian", 2, proof_conditioning.rows(C, 2, needed(2)))):
        _subspaces(rng, name, r, n, notes)
    _unlike(rng, notes)


def _independent(rng: np.random.Generator, notes: Notes) -> None:
    errors: dict[str, list[float]] = {}
    totals = [times * D for times in (10, 20, 40, 80)]
    for total in totals:
        sizes = [max(1, total * share // 100) for share in (5, 10, 15, 30, 40)]
        bases = [np.linalg.qr(rng.standard_normal((D, D)))[0] for _ in sizes]
        scales = np.linspace(LOW, 1, D)
        X = [rng.standard_normal((n, D)) * np.sqrt(scales) @ Q.T for n, Q in zip(sizes, bases, strict=True)]
        N, pooled = sum(sizes), np.vstack(X)
        mean = sum(n * (Q * scales) @ Q.T for n, Q in zip(sizes, bases, strict=True)) / N
        G = pooled.T @ pooled / N
        rho, away = float(np.linalg.eigvalsh(G)[0]), float(np.linalg.norm(G - mean, 2))
        notes.add(WELL, rho)
        notes.add(DEVIATION, away / max(math.sqrt(D / N), D / N))
        notes.add(WEYL, rho - (LOW - away))
        truths = rng.standard_normal(D) + rng.standard_normal((len(sizes), D))
        gap = max(float(np.linalg.norm(a - b)) for a, b in product(truths, truths))
        for own in truths:
            delta = np.concatenate([rows @ (one - own) for rows, one in zip(X, truths, strict=True)])
            parts = sum(
                float((rows @ one - rows @ own) @ (rows @ one - rows @ own))
                for rows, one in zip(X, truths, strict=True)
            )
            notes.same(SUM, parts, delta @ delta)
            notes.add(SPREAD, delta @ delta / (gap**2 * N))
        least = SIGMA**2 * float(np.trace(np.linalg.inv(G))) / N
        for made in (Rounds.of(X, one) for one in methods(X)):
            error = variance(made)
            errors.setdefault(str(type(made.method)) + str(made.method.steps), []).append(error)
            notes.add(MINIMAX, error / (made.kappa * least))
    notes.add(OPTIMAL, *(slope(totals, one) for one in errors.values()))


def variance(made: Rounds) -> float:
    """E‖θ_∞ − θ̄‖²."""
    return float(SIGMA**2 * np.square(np.linalg.solve(np.eye(D) - made.A, made.C)).sum())


def _trade(rng: np.random.Generator, notes: Notes) -> None:
    X = scaled_rows(rng, (30, 5, 20, 40, 25), 0.3)
    steepest = max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    by_steps = [Rounds.of(X, LocalSteps(0.9 / steepest, s)) for s in (1, 5, 10)]
    by_size = [Rounds.of(X, LocalSteps(share / steepest, 5)) for share in (0.1, 0.3, 0.9)]
    for quantity, some in ((TRADE, by_steps), (FASTER, by_size)):
        rounds = np.array([math.log(0.01) / math.log(np.linalg.eigvalsh(one.A)[-1]) for one in some])
        notes.add(quantity, rounds[1:] / rounds[:-1])
        errors = np.array([variance(one) for one in some])
        notes.add(COST, errors[1:] / errors[:-1])


def _projections(rng: np.random.Generator, notes: Notes) -> None:
    for r in (1, 4, 9):
        drawn = np.linalg.qr(rng.standard_normal((DRAWS, D, r)))[0]
        notes.add(PROJECTED, np.linalg.norm(drawn[0]) / r)
        notes.add(PROJECTED_ROOT, np.linalg.norm(drawn[:50], axis=(1, 2)) / math.sqrt(r))
        mean = np.einsum("nik,njk->ij", drawn, drawn) / DRAWS
        notes.add(MEAN, np.abs(mean - r / D * np.eye(D)).max() / (r / D))
        Y = D / r * (drawn @ np.swapaxes(drawn, 1, 2) - r / D * np.eye(D))  # with w = 1
        notes.add(NORM, np.abs(np.linalg.eigvalsh(Y[:200])).max(axis=1) / (2 * D / r))
        expected = (D / r) ** 2 * (r / D - (r / D) ** 2)
        square = (Y @ Y).mean(axis=0)
        notes.add(SQUARE, np.abs(square - expected * np.eye(D)).max() / expected)


def needed(r: int) -> int:
    """M with N = M n = 8 ν d log d and ν = n/r."""
    return math.ceil(PLENTY * D * math.log(D) / r)


def _subspaces(rng: np.random.Generator, name: str, r: int, n: int, notes: Notes) -> None:
    nu, clients = n / r, needed(r)
    X, F, U = [], [], []
    for _ in range(clients):
        U.append(np.linalg.qr(rng.standard_normal((D, r)))[0])
        F.append(math.sqrt(r) * np.eye(r) if name == "orthogonal" else rng.standard_normal((n, r)))
        X.append(math.sqrt(D / r) * F[-1] @ U[-1].T)
    values = np.array([np.linalg.eigvalsh(one.T @ one / n) for one in F])
    low, high, N = float(values.min()), float(values.max()), n * clients
    if name == "orthogonal":
        notes.add(ALPHA_ONE, low, high)
    mean = sum(D / r * one @ one.T for one in U) / clients
    pooled = np.vstack(X)
    notes.add(FEATURES, np.linalg.eigvalsh(pooled.T @ pooled / N - low * mean)[0])
    notes.add(HALF, np.linalg.norm(mean - np.eye(D), 2))
    chain = [
        sum(float(np.linalg.norm(one, 2)) ** 2 for one in X),
        sum(D / r * float(np.linalg.norm(one, 2)) ** 2 for one in F),
    ]
    chain += [high * D * clients * n / r, high * nu * clients * D]
    notes.add(SINGULAR, np.array(chain[:-1]) / np.array(chain[1:]))
    truths = rng.standard_normal(D) + 0.3 * rng.standard_normal((clients, D))
    notes.add(SQUARE_SIZE, len(F[0].T @ F[0]) / D)
    grams = np.array([rows.T @ rows for rows in X])
    sizes = np.linalg.eigvalsh(grams)[:, -1]
    for own in truths:
        left = float(np.einsum("md,mde,me->", truths - own, grams, truths - own))
        gaps = np.square(truths - own).sum(axis=1)
        notes.add(APART, left / float(np.dot(sizes, gaps)))
    _bounds(X, truths, low, ORTHOGONAL if name == "orthogonal" else GAUSSIAN, notes)


def _unlike(rng: np.random.Generator, notes: Notes) -> None:
    """Clients of unequal sizes in subspaces of unequal dimensions, and the N of Corollary 13."""
    for c, alpha in product((0.1, 1.0, 10.0), (0.01, 1.0, 10.0)):
        share = 1 / max(4 * c**2 / alpha**2, 2 * c / alpha)  # d/N
        notes.add(ENOUGH, alpha / 2 / (alpha - c * max(math.sqrt(share), share)))
    for _ in range(50):
        r = rng.integers(1, D, 40)
        n = r * rng.integers(1, 6, 40)
        w, scale = n / n.sum(), D / r
        limit = (n / r).max() * D / n.sum()
        squares, largest = float((w**2 * scale).sum()), float((w * scale).max())
        notes.add(FIRST_STEP, squares / limit, largest / limit)
        bases = [np.linalg.qr(rng.standard_normal((D, int(one))))[0] for one in r]
        total = sum(a * b * U @ U.T for a, b, U in zip(w, scale, bases, strict=True)) - np.eye(D)
        most = 2 * (math.sqrt(squares * math.log(D)) + largest * math.log(D))
        notes.add(BERNSTEIN, np.linalg.norm(total, 2) / most)


def _bounds(X: Sequence[Array], truths: Array, low: float, quantity: Quantity, notes: Notes) -> None:
    """(30) for every method with γ = 0.9."""
    steepest = max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    for method in (LocalSteps(0.9 / steepest), LocalSteps(0.9 / steepest, 5), ProximalStep(0.9 / steepest)):
        made = by_clients(X, method)
        rate = method.step_size * method.steps * low / (2 * made.kappa)
        notes.add(quantity, made.share(made.centre(truths), rate, low))


def by_clients(X: Sequence[Array], method: Method) -> Rounds:
    """`Rounds.of`, for many rows: without a matrix of all rows by all rows."""
    shares, total = [], sum(map(len, X))
    for rows in X:
        A, C = round_map([rows], [np.eye(len(rows))], method)
        shares.append((len(rows) / total * A, len(rows) / total * C))
    G = np.sum([rows.T @ rows for rows in X], axis=0) / total
    steepest = max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    kappa = method.kappa(method.step_size * steepest)
    return Rounds(X, method, np.sum([A for A, _ in shares], axis=0), np.hstack([C for _, C in shares]), kappa, G)
