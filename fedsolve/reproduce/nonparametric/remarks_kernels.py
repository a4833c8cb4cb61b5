"""Sentences of Su, Xu and Yang (2023), sections 2 to 6, on kernels: what is fitted, how fast, and how it saturates."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import ExactKernel, Gaussian, Matern, PolynomialKernel, Sobolev
from fedsolve.models.kernel_expansion import KernelExpansion
from fedsolve.numerics.early_stopping import rademacher
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound, identity
from fedsolve.reproduce.nonparametric.theory_rates import SIGMA, norms, posed, slope
from fedsolve.typing import Array

WIDE = Quantity(
    "Section 3",
    "the tangent kernel of two-layer networks is E[h'(wᵀx)h'(wᵀy)], as printed: within 0.05 of that of a "
    "ReLU network of width 20,000",
    "largest difference",
    most=0.05,
)
WIDE_INNER = Quantity(
    "Section 3", "… and it is xᵀy E[h'(wᵀx)h'(wᵀy)], in the same sense", "largest difference", most=0.05
)
DEFINITE = Quantity(
    "Remark 6",
    "the tangent kernel's K_x is positive definite for inputs that are not parallel, with and without xᵀy",
    "least eigenvalue of K_x",
    least=1e-8,
)
SERIES = Quantity(
    "Remark 6", "f_t(x) = (I − ηK_x)^t f_0(x) + (I − (I − ηK_x)^t) y, t = 1, 7 and 300", "largest difference", most=1e-9
)
TRAINED = Quantity(
    "Remark 6",
    "FedAvg and FedProx attain zero training error: after 100,000 rounds it is at most 1e-6 of the start",
    "training error over that of f_0",
    most=1e-6,
)
FITTED = bound(
    "Section 6, (16)",
    "when noise is fitted the training error approaches 0 (1e-6 σ²), the prediction error does not",
    "training error over 1e-6 σ²",
)
NOT_LEARNED = Quantity(
    "Section 6, (16)",
    "… and the prediction error stays large, at least half of the noise's mean square",
    "prediction error over the noise's mean square",
    least=0.5,
)
LEARNED = Quantity(
    "After Proposition 7",
    "δ_2(t) increases with t and converges to 1, K_x of full rank: from t = 1 to 100,000",
    "δ_2(t)",
    0.0,
    1.0,
)
RISES = Quantity("After Proposition 7", "… it never falls, and ends within 1e-6 of 1", "last δ_2(t)", 1 - 1e-6, 1.0)
STEADY = Quantity(
    "After Proposition 7",
    "δ_1(t) decreases to 0 as iterations proceed: t = 1, 2, 4, … 2^16, four kernels",
    "next over last δ_1(t)",
    most=1.0 - 1e-9,
)
SHARP = Quantity(
    "After Theorem 10",
    "in general no rate is better than 1/t: δ_1(t) falls no faster than t^(−1.1) from t = 1 to 1,000, "
    "min(x, y) with N = 200",
    "exponent in t",
    least=-1.1,
)
SMALLEST = Quantity(
    "After Theorem 10",
    "… because λ_N converges to 0 as N grows: min(x, y), 50 to 400 rows evenly spaced",
    "exponent of λ_N in N",
    most=-1.0,
)
RATE_D = Quantity(
    "After Proposition 7",
    "for rank d the rate exp(−c_dt) has a c_d that does not depend on N: 2ηsλ_d/κ, N = 100 to 1,600",
    "largest over least",
    most=2.0,
)
SMOOTHER = Quantity(
    "After (22)",
    "R(ε) decreases with faster eigenvalue decay and smoother kernels: β = 1, 2, 3; Matérn with ν = ½, "
    "3/2, 5/2 and Gaussian",
    "R of the next over R",
    most=0.99,
)
SATURATES = Quantity(
    "After Theorem 8",
    "without noise the error saturates: for K_x of full rank it ends at ‖Δ_f‖²/N, the heterogeneity term over 3κ",
    "last error over ‖Δ_f‖²/N",
    0.99,
    1.01,
)
CENTRAL = identity(
    "After Theorem 8",
    "with s = 1 and one truth it is gradient descent on one machine: f_t of the clients is that of all rows together",
)
HILBERT = Quantity(
    "Abstract",
    "in the RKHS norm, too, errors decay like 1/t in general: ‖f_t − f‖² without noise, f = k(·, ½), "
    "min(x, y), t = 10 to 1,000",
    "exponent in t",
    most=-0.9,
)
EMPIRICAL = Quantity("Abstract", "… and in the empirical norm they do, the same f_t", "exponent in t", most=-0.9)
QUANTITIES = (
    *(WIDE, WIDE_INNER, DEFINITE, SERIES, TRAINED, FITTED, NOT_LEARNED, LEARNED, RISES, STEADY, SHARP, SMALLEST),
    *(RATE_D, SMOOTHER, SATURATES, CENTRAL, HILBERT, EMPIRICAL),
)  # fmt: skip
CLIENTS = (9, 1, 6, 4)


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 28])
    _tangent(rng, notes)
    _orders(seed, rng, notes)
    _saturation(rng, notes)
    _hilbert(seed, notes)


def _tangent(rng: np.random.Generator, notes: Notes) -> None:
    X = rng.standard_normal((20, 4))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    printed = (np.pi - np.arccos(np.clip(unit @ unit.T, -1, 1))) / (2 * np.pi)
    # Of f(x) = Σ a_r h(w_rᵀx)/√m with a_r = ±1: the gradients in w are a_r h'(w_rᵀx) x/√m.
    on = (unit @ rng.standard_normal((4, 20_000)) > 0).astype(float)
    network = (on @ on.T / 20_000) * (unit @ unit.T)
    notes.add(WIDE, np.abs(network - printed).max())
    notes.add(WIDE_INNER, np.abs(network - printed * (unit @ unit.T)).max())
    for K in (printed, printed * (unit @ unit.T)):
        notes.add(DEFINITE, np.linalg.eigvalsh(K / 20)[0])
    y, f = rng.standard_normal(20), rng.standard_normal(20)
    for K in (printed, printed * (unit @ unit.T)):
        _fitted(K, y, f, rng, notes)


def _fitted(K: Array, y: Array, f: Array, rng: np.random.Generator, notes: Notes) -> None:
    """To the noise, with a kernel matrix of full rank."""
    eta = 0.9 / gamma(K, CLIENTS, 1.0)
    L = np.eye(20) - eta * K / 20
    for t in (1, 7, 300):
        power = np.linalg.matrix_power(L, t)
        path = simulate(K, CLIENTS, y, LocalSteps(eta), t, start=f)
        notes.same(SERIES, path.values[-1], power @ f + y - power @ y)
    for method in (LocalSteps(eta), LocalSteps(eta, 5), ProximalStep(eta)):
        found = Decomposition.of(K, CLIENTS, method)
        noise = SIGMA * rng.standard_normal(20)
        left = np.square(found.values(y + noise, 10**5) - y - noise).mean()
        notes.add(TRAINED, left / np.square(y + noise).mean())
        notes.add(FITTED, left / (1e-6 * SIGMA**2))
        notes.add(NOT_LEARNED, np.square(found.values(y + noise, 10**5) - y).mean() / np.square(noise).mean())
        path_2 = np.array([np.square(1 - found.decay**t).mean() for t in (*(2 ** np.arange(17)), 10**5)])
        notes.add(LEARNED, path_2)
        notes.add(RISES, path_2[-1] if (np.diff(path_2) > -1e-12).all() else math.nan)


def delta_1(found: Decomposition, t: int) -> float:
    Lam = np.maximum(found.eigenvalues, 0.0)
    return float((found.decay ** (2 * t) * Lam).max()) / found.method.steps


def _orders(seed: int, rng: np.random.Generator, notes: Notes) -> None:
    X = rng.random((40, 2))
    for kernel in (Gaussian(2.0), Matern(1.5), Sobolev(), PolynomialKernel(2)):
        K = kernel(X)
        found = Decomposition.of(K, (20, 1, 12, 7), LocalSteps(0.9 / gamma(K, (20, 1, 12, 7), 1.0), 5))
        path = np.array([delta_1(found, 2**k) for k in range(17)])
        path = path[path > 1e-12 * path[0]]  # above rounding
        notes.add(STEADY, path[1:] / path[:-1])
    rates = []
    rows, sizes, _ = posed(Sobolev(), 200, seed)
    K = Sobolev()(rows)
    found = Decomposition.of(K, sizes, LocalSteps(0.9 / gamma(K, sizes, 1.0)))
    rounds = 2 ** np.arange(11)
    notes.add(SHARP, slope(rounds.tolist(), [delta_1(found, int(t)) for t in rounds]))
    grids = {total: (np.arange(total)[:, None] + 0.5) / total for total in (50, 100, 200, 400)}
    least = [float(np.linalg.eigvalsh(Sobolev()(one) / total)[0]) for total, one in grids.items()]
    notes.add(SMALLEST, slope(list(grids), least))
    for total in (100, 400, 1600):
        phi = np.stack([np.ones(total), math.sqrt(2) * rng.random(total), np.zeros(total)], axis=1)
        phi[:, 2] = phi[:, 1] ** 2 / 2
        values = np.linalg.eigvalsh(phi.T @ phi / total)  # of (1 + xz)²; one client
        method = LocalSteps(0.9 / values[-1], 5)
        rates.append(2 * method.step_size * 5 * values[0] / method.kappa(0.9))
    notes.add(RATE_D, max(rates) / min(rates))
    families: tuple[tuple[Array, ...], ...] = (
        tuple(np.arange(1.0, 10_001) ** (-2 * beta) for beta in (1, 2, 3)),
        tuple(np.maximum(np.linalg.eigvalsh(k(X) / 40), 0) for k in _smoother()),
    )
    for family in families:
        levels = np.array([[rademacher(lam, e, 40) for lam in family] for e in (0.03, 0.1, 0.3)])
        notes.add(SMOOTHER, levels[:, 1:] / levels[:, :-1])


def _smoother() -> tuple[ExactKernel, ...]:
    return Matern(0.5), Matern(1.5), Matern(2.5), Gaussian(0.5)  # of one length scale


def _saturation(rng: np.random.Generator, notes: Notes) -> None:
    X = np.sort(rng.random((20, 1)), axis=0)[rng.permutation(20)]
    K = Sobolev()(X)
    f = K[:, 3]
    truths = f + 0.3 * np.repeat([1.0, -1.0, 1.0, -1.0], CLIENTS) * np.minimum(X[:, 0], 0.5)
    eta = 0.9 / gamma(K, CLIENTS, 1.0)
    chosen: tuple[Method, ...] = (LocalSteps(eta), LocalSteps(eta, 5), ProximalStep(eta))
    for method in chosen:
        found = Decomposition.of(K, CLIENTS, method)
        last = float(found.expected_error(10**9, truths, target=f, sigma=0.0))
        notes.add(SATURATES, last / np.square(truths - f).mean())
    y = f + SIGMA * rng.standard_normal(20)
    several, one = (simulate(K, sizes, y, LocalSteps(eta), 40).values for sizes in (CLIENTS, (20,)))
    notes.same(CENTRAL, several, one)


def _hilbert(seed: int, notes: Notes) -> None:
    """f_t without noise towards f = k(·, ½), whose coefficients θ_l fall like 1/l: ‖f_t − f‖² like t^(−½)."""
    _, sizes, _ = posed(Sobolev(), 200, seed)
    X = ((np.random.default_rng([seed, 29]).permutation(200) + 0.5) / 200)[:, None]
    K, f = Sobolev()(X), KernelExpansion(np.array([[0.5]]), np.array([1.0]), Sobolev())
    rounds = (10, 30, 100, 300, 1000)
    path = simulate(K, sizes, f.predict(X), LocalSteps(0.9 / gamma(K, sizes, 1.0)), rounds[-1], every=10)
    kept = [int(np.flatnonzero(path.rounds == t)[0]) for t in rounds]
    distances = [float(norms(path.coefficients[k][:, None], X, f)[0]) ** 2 for k in kept]
    errors = [float(np.square(path.values[k] - f.predict(X)).mean()) for k in kept]
    notes.add(HILBERT, slope(rounds, distances))
    notes.add(EMPIRICAL, slope(rounds, errors))
