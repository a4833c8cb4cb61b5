"""Su, Xu and Yang (2023), sections 6.2 and 7.1, d = 12: is the limit unbiased, how large is its error in draws, what
random features and singular covariances change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.bounds import coefficient_bound
from fedsolve.reproduce.nonparametric.gain_risks import Federated
from fedsolve.reproduce.nonparametric.gain_risks import methods as gain_methods
from fedsolve.reproduce.nonparametric.proof_designs import variance
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import ROUNDS, SIGMA, SIZES, D, Rounds, methods, scaled_rows
from fedsolve.reproduce.nonparametric.theory_rates import FREEDOM, slope
from fedsolve.typing import Array

UNBIASED = Quantity(
    "Section 7.1",
    "with one truth θ* and unlike covariances, the mean of the limits of 4,000 draws of the noise is θ*: every "
    "coefficient within five standard errors, four methods",
    "largest distance in standard errors",
    most=5.0,
)
CENTRED = Quantity(
    "Section 6.2",
    "with truths that differ, their mean is θ̄, in the same sense",
    "largest distance in standard errors",
    most=5.0,
)
RARELY = Quantity(
    "Section 6.2",
    "with high probability: of 4,000 draws at most 1 % have ‖θ_t − θ̄‖² above 3 times (25), t = 10 and 1,000, Gaussian "
    "noise and Student's t",
    "share of draws above it",
    most=0.01,
)
RANDOM_FEATURES = bound(
    "Section 6.2", "with 12 random Fourier features E‖θ_t − θ̄‖² is at most (25), t = 1 to 1,000", "error over bound"
)
ONLY_WITHIN = Quantity(
    "Section 6.2.2",
    "the accuracy depends on the conditioning within the subspaces only: with F_iᵀF_i/n_i = I, M = 240 r_i⁻¹ clients "
    "with n_i = r_i, E‖θ_∞ − θ̄‖² over σ²d/N varies by at most 25 % from r_i = 1 to 12, for every method",
    "largest over least",
    most=1.25,
)
RATE = Quantity(
    "Section 7.3",
    "in random subspaces E‖θ_∞ − θ̄‖² falls as N^(−1 ± 0.1), r_i = 4, N = 240 to 1,920, for every method",
    "exponent",
    -1.1,
    -0.9,
)
IN_DIMENSION = Quantity(
    "Section 7.3",
    "… and grows as d^(1 ± 0.1), n_i = r_i = d/3, d = 6, 12, 24 and 48, N = 1,536, for every method",
    "exponent in d",
    0.9,
    1.1,
)
QUANTITIES = (UNBIASED, CENTRED, RARELY, RANDOM_FEATURES, ONLY_WITHIN, RATE, IN_DIMENSION)
DRAWS = 4000


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 34])
    _draws(rng, notes)
    _features(rng, notes)
    _subspaces(rng, notes)


def limits(made: Rounds, y: Array) -> Array:
    """Where the rounds end, a column for each column of targets: 2^14 rounds, by doubling them."""
    step, ends = made.A, made.C @ y
    for _ in range(14):
        ends, step = ends + step @ ends, step @ step
    return ends


def standard_errors(ends: Array, centre: Array) -> float:
    """The largest distance of the columns' mean from `centre`, in standard errors."""
    deviations = ends.std(axis=1, ddof=1) / math.sqrt(ends.shape[1])
    return float((np.abs(ends.mean(axis=1) - centre) / deviations).max())


def _draws(rng: np.random.Generator, notes: Notes) -> None:
    X = scaled_rows(rng, SIZES, 0.3)
    one, apart = np.tile(rng.standard_normal(D), (len(X), 1)), rng.standard_normal((len(X), D))
    total = sum(map(len, X))
    student = math.sqrt((FREEDOM - 2) / FREEDOM) * rng.standard_t(FREEDOM, (total, DRAWS))
    for method in methods(X):
        made, noise = Rounds.of(X, method), SIGMA * rng.standard_normal((total, DRAWS))
        notes.add(UNBIASED, standard_errors(limits(made, made.means(one)[:, None] + noise), one[0]))
        centre = made.centre(one + apart)
        other = SIGMA * rng.standard_normal((total, DRAWS))
        ends = limits(made, made.means(one + apart)[:, None] + other)
        notes.add(CENTRED, standard_errors(ends, centre))
        for t in (10, 1000):
            most = 3 * _bound(made, t, centre)
            start = np.linalg.matrix_power(made.A, t) @ centre
            for xi in (noise, SIGMA * student):
                away = made.summed(t) @ made.C @ xi - start[:, None]  # θ_t − θ̄ from θ_0 = 0
                notes.add(RARELY, (np.square(away).sum(axis=0) > most).mean())


def _bound(made: Rounds, t: int, centre: Array) -> float:
    size = float(np.linalg.norm(centre))
    return coefficient_bound(
        t,
        made.method,
        kappa=made.kappa,
        rho=made.rho,
        samples=made.samples,
        dimension=D,
        distance=size,
        sigma=SIGMA,
    )


def _features(rng: np.random.Generator, notes: Notes) -> None:
    W, b = 2 * rng.standard_normal((3, D)), rng.uniform(0, 2 * np.pi, D)
    X = [math.sqrt(2 / D) * np.cos(rng.random((n, 3)) @ W + b) for n in SIZES]
    theta = rng.standard_normal(D)
    for method in methods(X):
        made = Rounds.of(X, method)
        notes.add(RANDOM_FEATURES, *(made.error(t, theta) / _bound(made, t, theta) for t in ROUNDS))


def _orthogonal(rng: np.random.Generator, r: int, clients: int, d: int = D) -> list[Array]:
    """r orthogonal rows of norm √d in a random subspace of each client."""
    return [math.sqrt(d) * np.linalg.qr(rng.standard_normal((d, r)))[0].T for _ in range(clients)]


def _subspaces(rng: np.random.Generator, notes: Notes) -> None:
    def errors(X: Sequence[Array]) -> list[float]:
        return [variance(Rounds.of(X, one)) / (SIGMA**2 * D / sum(map(len, X))) for one in methods(X)]

    table = np.array([errors(_orthogonal(rng, r, 240 // r)) for r in (1, 2, 3, 4, 6, 12)])
    notes.add(ONLY_WITHIN, table.max(axis=0) / table.min(axis=0))
    totals = np.array([240, 480, 960, 1920])
    falling = np.array([errors(_orthogonal(rng, 4, total // 4)) for total in totals]) / totals[:, None]
    notes.add(RATE, *(slope(totals.tolist(), one.tolist()) for one in falling.T))
    dimensions, growing = (6, 12, 24, 48), []
    for d in dimensions:
        X = _orthogonal(rng, d // 3, 3 * 1536 // d, d)
        growing.append([Federated.of(X, one).variance for one in gain_methods(X)])
    notes.add(IN_DIMENSION, *(slope(dimensions, one) for one in np.transpose(growing).tolist()))
