"""Su, Xu and Yang (2023), section 2: what is said of other methods and of other analyses, in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.ranges_filtered import rows
from fedsolve.reproduce.nonparametric.theory_coefficients import Rounds, methods
from fedsolve.reproduce.nonparametric.theory_rates import slope

LOCAL_SGD = Quantity(
    "Section 2.1",
    "local SGD, a fresh row in each step, step sizes 4/(μ(a + τ)), averaged every 5 steps: the mean of ‖θ − θ*‖² over "
    "400 runs falls like 1/τ, exponent −1 ± 0.2, τ = 1,600 to 12,800, 1, 4 and 16 clients",
    "exponent in τ",
    -1.2,
    -0.8,
)
VACUOUS = Quantity(
    "Section 2.1",
    "20 clients with d/2 rows, d = 12, s = 1, 5 and 10: the least eigenvalue of any client's surrogate is 0, to 1e-10 "
    "of its largest, so that a rate by it is 1",
    "largest",
    most=1e-10,
)
AGGREGATE = Quantity(
    "Section 2.1",
    "… while that of the average of the surrogates is at least sρ_N/κ, which is above 0",
    "least times of it",
    least=1 - 1e-9,
)
LOOSE = Quantity(
    "Section 2.1",
    "with 2 d rows, where all are strongly convex, the rounds by the least eigenvalue of any client are at least twice "
    "those by that of their average, s = 1, 5 and 10",
    "least times",
    least=2.0,
)
FEW_STEPS = Quantity(
    "Section 2.2",
    "5 local steps from the common f_∞ at least halve E‖θ − θ_j*‖², the mean over clients with 10 d rows and truths "
    "about 1 apart from their mean, four methods",
    "share that is left",
    most=0.5,
)
MIXTURE = Quantity(
    "Section 2.2",
    "where a client's own least squares and the common f_∞ have the same risk, the best mixture of both has at most "
    "0.9 of it, n_j = 2.5 d, four methods",
    "share of it",
    most=0.9,
)
QUANTITIES = (LOCAL_SGD, VACUOUS, AGGREGATE, LOOSE, FEW_STEPS, MIXTURE)
D, SIGMA, RUNS = 12, 0.5, 400


def measured(seed: int, notes: Notes, runs: int = RUNS) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 203])
    _local_sgd(rng, runs, notes)
    _one_by_one(rng, notes)
    _personal(rng, notes)


def local_sgd(rng: np.random.Generator, clients: int, runs: int, marks: Sequence[int]) -> list[float]:
    """The mean of ‖θ − θ*‖² after these steps, for least squares with d = 4 and covariances of 0.5 to 1."""
    d, scales, theta = 4, np.sqrt(np.linspace(0.5, 1, 4)), np.full((runs, clients, 4), 1.0)
    found = []
    for step in range(1, marks[-1] + 1):
        x = rng.standard_normal((runs, clients, d)) * scales
        residual = (x * theta).sum(axis=2) - SIGMA * rng.standard_normal((runs, clients))  # θ* = 0
        theta -= 4 / (0.5 * (100 + step)) * residual[:, :, None] * x
        if step % 5 == 0:
            theta[:] = theta.mean(axis=1, keepdims=True)
        if step in marks:
            found.append(float(np.square(theta.mean(axis=1)).sum(axis=1).mean()))
    return found


def _local_sgd(rng: np.random.Generator, runs: int, notes: Notes) -> None:
    marks = (1600, 3200, 6400, 12_800)
    for clients in (1, 4, 16):
        notes.add(LOCAL_SGD, slope(marks, local_sgd(rng, clients, max(runs // clients, 25), marks)))


def _one_by_one(rng: np.random.Generator, notes: Notes) -> None:
    """Hessians Q_iH_i of the surrogates, client by client and on average; a round is θ − η times a gradient."""
    for n in (D // 2, 2 * D):
        X = rows(rng, (n,) * 20, D, 0.3, 1.0)
        for made in (Rounds.of(X, one) for one in methods(X)):
            if not isinstance(made.method, LocalSteps):
                continue
            eta, s = made.method.step_size, made.method.steps
            spectra = [np.linalg.eigvalsh(one.T @ one / n) for one in X]
            each = np.array([h * made.method.filter(np.maximum(h, 0)) for h in spectra])
            average = float(1 - np.linalg.eigvalsh((made.A + made.A.T) / 2)[-1]) / eta
            if n < D:
                notes.add(VACUOUS, np.abs(each[:, 0]) / each[:, -1])
                notes.add(AGGREGATE, average / (s * made.rho / made.kappa))
            else:
                notes.add(LOOSE, math.log1p(-eta * average) / math.log1p(-eta * each.min()))


def _personal(rng: np.random.Generator, notes: Notes) -> None:
    X = rows(rng, (10 * D,) * 8, D, 0.3, 1.0)
    away = rng.standard_normal((8, D)) / math.sqrt(D)
    for made in (Rounds.of(X, one) for one in methods(X)):
        limit = np.linalg.solve(np.eye(D) - made.A, made.C)
        before, after = np.zeros(8), np.zeros(8)
        for j, own in enumerate(X):
            H, mine = own.T @ own / len(own), np.zeros((len(own), made.samples))
            mine[:, j * len(own) : (j + 1) * len(own)] = np.eye(len(own))
            kept = np.linalg.matrix_power(np.eye(D) - made.method.step_size * H, 5)
            moved = kept @ limit + (np.eye(D) - kept) @ np.linalg.solve(H, own.T @ mine / len(own))
            bias = limit @ made.means(away) - away[j]
            before[j] = bias @ bias + SIGMA**2 * np.square(limit).sum()
            after[j] = np.square(kept @ bias).sum() + SIGMA**2 * np.square(moved).sum()
        notes.add(FEW_STEPS, after.mean() / before.mean())
    X = rows(rng, (30,) * 8, D, 0.3, 1.0)
    for made in (Rounds.of(X, one) for one in methods(X)):
        notes.add(MIXTURE, mixture(made))


def mixture(made: Rounds) -> float:
    """The risk of ½ f_∞ + ½ the least squares of client 0, over that of either, where both are the same.

    The truths can be as far apart as it takes for that. Least squares has no bias here, so that only the noise is
    common to both, and of two estimators of one risk the best mixture has equal parts.
    """
    limit, local = np.linalg.solve(np.eye(D) - made.A, made.C), np.zeros((D, made.samples))
    local[:, : len(made.X[0])] = np.linalg.pinv(made.X[0])
    risk = float(np.square(local).sum())
    return (risk + float((limit * local).sum())) / (2 * risk) if risk > np.square(limit).sum() else math.nan
