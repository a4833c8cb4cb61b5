"""Su, Xu and Yang (2023), sections 1, 2.1 and 4: surrogate functions, client-drift corrections, and what is sent."""

from __future__ import annotations

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx, Scaffold
from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.reproduce.nonparametric.remarks_linear import needed
from fedsolve.reproduce.nonparametric.theory_coefficients import SIZES, D, Rounds, methods, scaled_rows
from fedsolve.reproduce.nonparametric.theory_rates import slope

SURROGATE = identity(
    "Section 2.1", "s local steps are one step of size η on a surrogate: −θ + 𝓖_i^s(θ) = −η∇ℓ̃_i, ∇ℓ̃_i = Q_i∇ℓ_i"
)
SYMMETRIC = identity("Section 2.1", "… which is a gradient: Q_iH_i is symmetric, ℓ̃_i = ½(θ − θ_i)ᵀQ_iH_i(θ − θ_i)")
AVERAGED = identity("Section 2.1", "… and a round is one gradient step on the average of the surrogates")
MINIMISER = Quantity(
    "Section 2.1",
    "FedAvg ends at the minimiser of that average: after 2^14 rounds its gradient is at most 1e-10 of that at 0, and "
    "its Hessian is positive definite",
    "gradient over that at 0",
    most=1e-10,
)
LINEAR = Quantity(
    "Section 2.1",
    "with one Gaussian row per client the least B² grows linearly with d: exponent 1 ± 0.2, d = 10 to 80",
    "exponent of B²",
    0.8,
    1.2,
)
FIXED = identity(
    "Section 2.1", "with client-drift corrections the stationary point is a fixed point of the rounds: Scaffold"
)
STATIONARY = identity("Section 2.1", "… and that point is the stationary point of ℓ, by least squares on all rows")
MESSAGES = Quantity(
    "Section 1",
    "a round of FedAvg sends as many bytes with s = 5 and 10 as with s = 1",
    "bytes over those of s = 1",
    1.0,
    1.0,
)
ONE_MODEL = Quantity(
    "Section 4",
    "a round of FedAvg and of FedProx is one exchange, in which every client returns a model and nothing else",
    "exchanges, and numbers up over M d",
    1.0,
    1.0,
)
QUANTITIES = (SURROGATE, SYMMETRIC, AVERAGED, MINIMISER, LINEAR, FIXED, STATIONARY, MESSAGES, ONE_MODEL)


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 37])
    _surrogates(rng, notes)
    _others(rng, notes)


def _surrogates(rng: np.random.Generator, notes: Notes) -> None:
    X, theta = scaled_rows(rng, SIZES, 0.3), rng.standard_normal(D)
    eta = methods(X)[0].step_size
    y = [rng.standard_normal(len(rows)) for rows in X]
    for s in (1, 5, 10):
        average, curvature = np.zeros(D), np.zeros((D, D))
        for rows, targets in zip(X, y, strict=True):
            n, moved, gradient = len(rows), theta, rows.T @ (rows @ theta - targets) / len(rows)
            H = rows.T @ rows / n
            for _ in range(s):
                moved = moved - eta / n * rows.T @ (rows @ moved - targets)
            Q = np.asarray(sum(np.linalg.matrix_power(np.eye(D) - eta * H, tau) for tau in range(s)))
            notes.same(SURROGATE, theta - moved, eta * Q @ gradient)
            notes.same(SYMMETRIC, Q @ H, (Q @ H).T)
            least = np.linalg.lstsq(rows, targets, rcond=None)[0]
            notes.same(SYMMETRIC, Q @ gradient, Q @ H @ (theta - least))
            average, curvature = average + n / sum(SIZES) * Q @ gradient, curvature + n / sum(SIZES) * Q @ H
        made = Rounds.of(X, LocalSteps(eta, s))
        notes.same(AVERAGED, theta - (made.A @ theta + made.C @ np.concatenate(y)), eta * average)
        end, at_zero = made.summed(2**14) @ made.C @ np.concatenate(y), average - curvature @ theta
        left = np.linalg.norm(at_zero + curvature @ end) / np.linalg.norm(at_zero)
        notes.add(MINIMISER, left if np.linalg.eigvalsh(curvature)[0] > 0 else np.nan)


def _others(rng: np.random.Generator, notes: Notes) -> None:
    dimensions = (10, 20, 40, 80)
    squares = [needed(rng.standard_normal((20 * d, 1, d))) ** 2 for d in dimensions]
    notes.add(LINEAR, slope(dimensions, squares))
    X = [rng.standard_normal((n, 4)) * np.linspace(0.5, 1 + i, 4) for i, n in enumerate((20, 3, 12))]
    eta = 0.2 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    clients = [Client(f"c{i}", rows, rng.standard_normal(len(rows))) for i, rows in enumerate(X)]
    steps = iterates(Scaffold(Squared(), GradientSteps(5, eta)), clients)
    for _ in range(3000):
        w = next(steps).state.w
    notes.same(FIXED, next(steps).state.w, w)
    pooled, y = np.vstack(X), np.concatenate([one.y for one in clients])
    notes.same(STATIONARY, np.linalg.lstsq(pooled, y, rcond=None)[0], w)
    sent = []
    for s in (1, 5, 10):
        rounds = iterates(FedAvg(Squared(), GradientSteps(s, eta)), clients)
        sent.append([next(rounds).bytes for _ in range(4)])
    notes.add(MESSAGES, *(np.diff(one) / np.diff(sent[0]) for one in sent[1:]))
    for what in (FedAvg(Squared(), GradientSteps(5, eta)), FedProx(Squared(), pull=1 / eta)):
        rounds = iterates(what, clients)
        next(rounds)
        total = next(rounds).sent
        notes.add(ONE_MODEL, total.exchanges, total.scalars_up / (len(clients) * X[0].shape[1]))
