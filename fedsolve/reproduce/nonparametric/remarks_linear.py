"""Sentences of Su, Xu and Yang (2023), sections 2 and 7, on linear regression: dissimilarity, drift, designs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from fedsolve.algorithms import FedAvg, Scaffold
from fedsolve.closed_forms.linear_path import gradient_norm, round_map
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.data.chebyshev_regression import chebyshev_u5
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.reproduce.nonparametric.theory_rates import SIGMA, slope
from fedsolve.typing import Array

GRADIENTS = Quantity(
    "Section 2.1",
    "without noise ∇ℓ_i = x_ix_iᵀ(θ − θ*) and ∇ℓ their mean: against differences of ℓ_i and ℓ",
    "largest difference",
    most=1e-6,
)
STRINGENT = Quantity(
    "Section 2.1",
    "one Gaussian row per client: the bounded dissimilarity needs a B of at least 0.9 √d, d = 10 to 80",
    "B/√d",
    least=0.9,
)
SMALL_DATA = Quantity(
    "Section 2.1",
    "the assumption is stringent especially for small local data: B falls with n_i = 1, d and 10 d",
    "next over last B",
    most=1.0,
)
ROUNDS = Quantity(
    "Section 2.1",
    "in that example the rounds of FedAvg and FedProx grow less than linearly with d: exponent at most "
    "0.9, d = 10 to 80, γ = 0.9",
    "exponent in d",
    most=0.9,
)
FLAT = Quantity(
    "Section 2.1",
    "with fewer rows than dimensions ℓ_i is convex and not strongly convex",
    "least eigenvalue of its Hessian over the largest",
    -1e-12,
    1e-12,
)
CORRECTED = Quantity(
    "Section 2.1",
    "with client-drift corrections (Scaffold) the stationary point is reached: ‖∇ℓ‖ ≤ 1e-9",
    "gradient norm",
    most=1e-9,
)
DRIFTS = Quantity("Section 2.1", "… which FedAvg with the same 5 steps misses", "gradient norm", least=1e-6)
STILL = Quantity(
    "After Proposition 7",
    "such algorithms still have prediction errors under model heterogeneity: Scaffold at its end, no "
    "noise, at least 1 % of the truths' mean square",
    "prediction error over it",
    least=0.01,
)
CLOSED = identity(
    "Section 7.1", "θ̂_Fed in closed form, as printed, is the limit of the rounds, and with s = 1 least squares"
)
NOISE = identity("Section 7.1", "θ̂_Fed − θ* and θ̂_OLS − θ* are the printed linear functions of ξ")
APART = Quantity(
    "Section 7.1",
    "θ̂_Fed can be far from θ̂_OLS when s > 1: clients with unlike covariances, beside the error of θ̂_OLS, s = 100",
    "√(E‖θ̂_Fed − θ̂_OLS‖² over E‖θ̂_OLS − θ*‖²)",
    least=0.5,
)
VARIANCES = Quantity(
    "Section 7.1",
    "both are unbiased with different variances: that of θ̂_Fed is larger",
    "Tr Var θ̂_Fed over Tr Var θ̂_OLS",
    least=1.0 + 1e-6,
)
SCALED = Quantity(
    "Section 7.3",
    "the scaling d/r makes the rows' norm √d: E‖x‖² = d, the mean of 20,000 rows, r = 1 to 100",
    "mean ‖x‖² over d",
    0.95,
    1.05,
)
FACTOR = Quantity(
    "Section 7.3",
    "‖X_i‖ increases by a factor of √(d/r): within 25 %, r = 1 to 50, n_i = 50 and 500",
    "‖X_i‖ over that with r = d, over √(d/r)",
    0.75,
    1.25,
)
STABLE = Quantity("Section 7.3", "η = 0.1 r/d keeps the local iterations stable: γ < 1 for r = 1 to 100", "γ", most=1.0)
COVERED = Quantity(
    "Section 7.3",
    "with M r = 460 ≥ d log d, r = 23, all d dimensions are covered in most of 2,000 trials",
    "share of the trials",
    least=0.5,
)
NOT_COVERED = Quantity(
    "Section 7.3", "… and with r = 16, where the jump begins, in few", "share of the trials", most=0.1
)
LOGARITHM = Quantity("Section 7.3", "d log d ≈ 460 for d = 100", "d log d", 455.0, 465.0)
RICH = Quantity(
    "Section 7.3",
    "a client with 500 rows learns θ* quite well when r = 100: its error is at most a tenth of ‖θ*‖",
    "local error over ‖θ*‖",
    most=0.1,
)
SCARCE = Quantity(
    "Section 7.3",
    "a client with 50 rows does not, however large r is: no estimator's error is below half of ‖θ*‖, r = 1 to 100",
    "least mean error over ‖θ*‖",
    least=0.5,
)
THRESHOLDS = Quantity(
    "Section 7.2",
    "the predicted thresholds are √(1 − n_j/d)‖θ_j*‖ ≈ 7 and σ√(d/n_j) ≈ 0.22",
    "over the printed value",
    0.95,
    1.05,
)
CHEBYSHEV = identity(
    "Section 7.4", "U_5(x) = 32x⁵ − 32x³ + 6x is the Chebyshev polynomial of the second kind and C_5^(1) of Gegenbauer"
)
QUANTITIES = (
    *(GRADIENTS, STRINGENT, SMALL_DATA, ROUNDS, FLAT, CORRECTED, DRIFTS, STILL, CLOSED, NOISE, APART, VARIANCES),
    *(SCALED, FACTOR, STABLE, COVERED, NOT_COVERED, LOGARITHM, RICH, SCARCE, THRESHOLDS, CHEBYSHEV),
)  # fmt: skip


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 31])
    _dissimilarity(rng, notes)
    _drift(rng, notes)
    _estimators(rng, notes)
    _subspaces(rng, notes)
    _numbers(rng, notes)


def needed(X: Array) -> float:
    """The least B with (1/M) Σ‖∇ℓ_i‖² ≤ B²‖∇ℓ‖² for every θ: clients × rows × d."""
    H = np.swapaxes(X, 1, 2) @ X / X.shape[1]
    mean = np.linalg.inv(H.mean(axis=0))
    return math.sqrt(float(np.linalg.eigvals(mean @ (H @ H).mean(axis=0) @ mean).real.max()))


def _dissimilarity(rng: np.random.Generator, notes: Notes) -> None:
    dimensions = (10, 20, 40, 80)
    rounds: dict[str, list[float]] = {}
    for d in dimensions:
        X = rng.standard_normal((20 * d, 1, d))
        notes.add(STRINGENT, needed(X) / math.sqrt(d))
        notes.add(FLAT, np.linalg.eigvalsh(np.outer(X[0], X[0]))[0] / float(X[0, 0] @ X[0, 0]))
        steepest = float(np.square(X[:, 0]).sum(axis=1).max())
        methods: tuple[Method, ...] = tuple(LocalSteps(0.9 / steepest, s) for s in (1, 5, 10))
        for method in (*methods, ProximalStep(0.9 / steepest)):
            # One row x: the client's round is I − η p(‖x‖²) xxᵀ.
            shares = method.step_size * method.filter(np.square(X[:, 0]).sum(axis=1))
            A = np.eye(d) - (X[:, 0] * shares[:, None]).T @ X[:, 0] / len(X)
            least = math.log(0.01) / math.log(np.linalg.eigvalsh(A)[-1])
            rounds.setdefault(f"{type(method).__name__} {method.steps}", []).append(least)
    notes.add(ROUNDS, *(slope(dimensions, one) for one in rounds.values()))
    wider = [needed(rng.standard_normal((200, n, 20))) for n in (1, 20, 200)]
    notes.add(SMALL_DATA, np.array(wider[1:]) / np.array(wider[:-1]))
    x, theta, truth, step = rng.standard_normal((6, 4)), *rng.standard_normal((2, 4)), 1e-5
    for rows in (x[:1], x):  # ℓ_i, and ℓ as the mean over six clients

        def loss(at: Array, rows: Array = rows) -> float:
            return float(np.square(rows @ at - rows @ truth).sum() / (2 * len(rows)))

        found = [(loss(theta + step * e) - loss(theta - step * e)) / (2 * step) for e in np.eye(4)]
        notes.same(GRADIENTS, np.array(found), rows.T @ rows @ (theta - truth) / len(rows))


def _drift(rng: np.random.Generator, notes: Notes) -> None:
    d, sizes = 5, (20, 3, 12)
    X = [rng.standard_normal((n, d)) * np.linspace(0.5, 1 + i, d) for i, n in enumerate(sizes)]
    truths = rng.standard_normal((3, d))
    eta = 0.2 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    y = [rows @ own for rows, own in zip(X, truths, strict=True)]
    clients = [Client(f"c{i}", rows, one) for i, (rows, one) in enumerate(zip(X, y, strict=True))]
    for quantity, what in (
        (CORRECTED, Scaffold(Squared(), GradientSteps(5, eta))),
        (DRIFTS, FedAvg(Squared(), GradientSteps(5, eta))),
    ):
        steps = iterates(what, clients)
        for _ in range(3001):
            w = next(steps).state.w
        notes.add(quantity, gradient_norm(X, y, w))
        if quantity is CORRECTED:
            errors = np.concatenate([rows @ w - one for rows, one in zip(X, y, strict=True)])
            notes.add(STILL, np.square(errors).mean() / np.square(np.concatenate(y)).mean())


def closed_form(X: Sequence[Array], right: Sequence[Array], eta: float, s: int) -> Array:
    """θ̂_Fed of section 7.1 with the right sides X_iᵀy_i, as it is printed."""
    d, N = X[0].shape[1], sum(map(len, X))
    left, moved = np.zeros((d, d)), np.zeros(d)
    for rows, one in zip(X, right, strict=True):
        step = np.eye(d) - eta / len(rows) * rows.T @ rows
        powers = sum(np.linalg.matrix_power(step, power) for power in range(s))
        left, moved = left + rows.T @ rows @ powers / N, moved + powers @ rows.T @ one / N
    return np.linalg.solve(left, moved)


def _estimators(rng: np.random.Generator, notes: Notes) -> None:
    d, sizes = 6, (20, 4, 30)
    X = [rng.standard_normal((n, d)) * np.geomspace(0.3, 1, d)[:: 1 - 2 * (i % 2)] for i, n in enumerate(sizes)]
    truth = rng.standard_normal(d)
    noise = [SIGMA * rng.standard_normal(n) for n in sizes]
    y = [rows @ truth + one for rows, one in zip(X, noise, strict=True)]
    eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    pooled, ends, maps = np.vstack(X), {}, {}
    least = np.linalg.lstsq(pooled, np.concatenate(y), rcond=None)[0]
    for s in (1, 5, 10, 100):
        ends[s] = closed_form(X, y, eta, s)
        A, C = round_map(X, np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1]), LocalSteps(eta, s))
        moved = np.linalg.matrix_power(A, 20_000) @ np.zeros(d) + np.linalg.solve(np.eye(d) - A, C @ np.concatenate(y))
        notes.same(CLOSED, ends[s], moved)
        notes.same(NOISE, ends[s] - truth, closed_form(X, noise, eta, s))
        maps[s] = np.linalg.solve(np.eye(d) - A, C)  # θ̂ = Ly
    notes.same(CLOSED, ends[1], least)
    sizes_of = {s: float(np.square(one).sum()) for s, one in maps.items()}  # of the variances, over σ²
    notes.add(VARIANCES, *(sizes_of[s] / sizes_of[1] for s in (5, 10, 100)))
    notes.add(APART, math.sqrt(np.square(maps[100] - maps[1]).sum() / sizes_of[1]))


def _subspaces(rng: np.random.Generator, notes: Notes) -> None:
    d = 100
    for r in (1, 10, 50, 100):
        rows = math.sqrt(d / r) * rng.standard_normal((20_000, r))
        notes.add(SCALED, np.square(rows).sum(axis=1).mean() / d)
    for n in (50, 500):
        whole = np.linalg.norm(rng.standard_normal((n, d)), 2)
        for r in (1, 5, 10, 25, 50, 100):
            size = math.sqrt(d / r) * np.linalg.norm(rng.standard_normal((n, r)), 2)
            if r <= 50:
                notes.add(FACTOR, size / whole / math.sqrt(d / r))
            notes.add(STABLE, 0.1 * r / d * size**2 / n)
    for quantity, r in ((COVERED, 23), (NOT_COVERED, 16)):
        seen = np.argsort(rng.random((2000, 20, d)), axis=2)[:, :, :r].reshape(2000, -1)
        notes.add(quantity, np.mean([len(np.unique(one)) == d for one in seen]))
    notes.add(LOGARITHM, d * math.log(d))


def _numbers(rng: np.random.Generator, notes: Notes) -> None:
    d, norm = 100, 10.0  # E‖θ*‖² = d
    for r in (1, 10, 30, 45, 60, 100):  # the posterior mean of θ* ~ N(0, I), which no estimator beats in the mean
        X = math.sqrt(d / r) * rng.standard_normal((50, r))
        scales = np.linalg.svd(X, compute_uv=False)
        error = (d - min(r, 50)) + float(np.sum(SIGMA**2 / (SIGMA**2 + scales**2)))
        notes.add(SCARCE, math.sqrt(error) / norm)
    X = rng.standard_normal((500, d))
    notes.add(RICH, SIGMA * math.sqrt(float(np.trace(np.linalg.inv(X.T @ X)))) / norm)
    notes.add(THRESHOLDS, math.sqrt(1 - 50 / d) * norm / 7, SIGMA * math.sqrt(d / 500) / 0.22)
    x = np.linspace(-1, 1, 41)
    for other in (special.eval_chebyu(5, x), special.eval_gegenbauer(5, 1.0, x), 32 * x**5 - 32 * x**3 + 6 * x):
        notes.same(CHEBYSHEV, chebyshev_u5(x), other)
