"""Appendix A of Su, Xu and Yang (2023), proofs of Proposition 1 and Lemma 2: each equation on linear regression.

In d dimensions a function is f = ⟨θ, φ⟩: k_x is the row φ(x), and operators are d × d matrices. Every client has a
covariance of its own, some have fewer rows than dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIZES, D, Rounds, methods, scaled_rows
from fedsolve.typing import Array

STEPS = identity("Proof of Proposition 1", "s local gradient steps are 𝓛_i^s f + y_i·Ψ_i with 𝓛_i of (8)")
STATIONARY = identity(
    "Proof of Proposition 1", "the minimiser of (6) solves (η/n_i) Σ (f(x_ij) − y_ij) k_x_ij + (f − f_{t−1}) = 0"
)
PROXIMAL = identity(
    "Proof of Proposition 1", "… and is 𝓛̃_i⁻¹ (f_{t−1} + (η/n_i) Σ y_ij k_x_ij) = 𝓛̃_i⁻¹ f_{t−1} + y_i·Ψ_i"
)
TELESCOPE = identity(
    "Proof of Lemma 2",
    "f − 𝓛_i^s f = Σ 𝓛_i^τ (f − 𝓛_i f) = f(x_i)·Ψ_i, and f − 𝓛̃_i⁻¹ f = 𝓛̃_i⁻¹ (𝓛̃_i f − f) = f(x_i)·Ψ_i",
)
POWERS = identity("Proof of Lemma 2, (36)", "𝓛_i^τ k_x_i = (I − ηK_x_i)^τ k_x_i, and 𝓛̃_i k_x_i = (I + ηK_x_i) k_x_i")
FILTERED = identity("Proof of Lemma 2", "Ψ_i = (η/n_i) P_ii k_x_i and Ψ = (η/N) P k_x")
AT_ROWS = identity("Proof of Lemma 2", "f(x) − 𝓛f(x) = Ψ(x) f(x) = ηK_x P f(x)")
SAME_STEP = Quantity("Section 5", "P = I for gradient descent", "eigenvalues of P", 1 - 1e-10, 1 + 1e-10)
FARTHER = Quantity(
    "Section 4", "as η increases the update of FedProx is farther from f_{t−1}", "next over last distance", least=1.0
)
REACHED = identity(
    "Section 5",
    "the recursions (9) and (13) converge where all eigenvalues are below 1: f_t ends at f_∞ = (I − 𝓛)⁻¹(y·Ψ)",
)
QUANTITIES = (STEPS, STATIONARY, PROXIMAL, TELESCOPE, POWERS, FILTERED, AT_ROWS, SAME_STEP, FARTHER, REACHED)


@dataclass(frozen=True)
class Local:
    """A client's operators, as d × d and n × n matrices."""

    X: Array
    method: Method

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def K(self) -> Array:
        """K_x_i."""
        return self.X @ self.X.T / self.n

    @property
    def forward(self) -> Array:
        """𝓛_i of (8)."""
        return np.eye(D) - self.method.step_size / self.n * self.X.T @ self.X

    @property
    def backward(self) -> Array:
        """𝓛̃_i."""
        return np.eye(D) + self.method.step_size / self.n * self.X.T @ self.X

    @property
    def whole(self) -> Array:
        """𝓛_i^s or 𝓛̃_i⁻¹: what the client does to f without targets."""
        if isinstance(self.method, LocalSteps):
            return np.linalg.matrix_power(self.forward, self.method.steps)
        return np.linalg.inv(self.backward)

    @property
    def psi(self) -> Array:
        """Ψ_i of (10), a column for each row of the client."""
        if isinstance(self.method, LocalSteps):
            summed = sum(np.linalg.matrix_power(self.forward, tau) for tau in range(self.method.steps))
        else:
            summed = np.linalg.inv(self.backward)
        made: Array = self.method.step_size / self.n * summed @ self.X.T
        return made

    @property
    def P(self) -> Array:
        """P_ii of (12), by its powers or its inverse."""
        eye, eta = np.eye(self.n), self.method.step_size
        if isinstance(self.method, LocalSteps):
            powers = (np.linalg.matrix_power(eye - eta * self.K, tau) for tau in range(self.method.steps))
            return np.asarray(sum(powers))
        return np.linalg.inv(eye + eta * self.K)


def clients(seed: int) -> Iterator[tuple[list[Array], Method, np.random.Generator]]:
    """The rows of five clients, a method with γ = 0.9, and numbers to draw from."""
    rng = np.random.default_rng([seed, 21])
    X = scaled_rows(rng, SIZES, 0.3)
    for method in methods(X):
        yield X, method, rng


def measured(seed: int, notes: Notes) -> None:
    """The equations for every client and method."""
    for X, method, rng in clients(seed):
        for rows in X:
            _client(Local(rows, method), rng, notes)
        _all(X, method, rng, notes)
    _distances(X[0], rng, notes)


def _client(local: Local, rng: np.random.Generator, notes: Notes) -> None:
    eta, n, X = local.method.step_size, local.n, local.X
    theta, y = rng.standard_normal(D), rng.standard_normal(n)
    expected = local.whole @ theta + local.psi @ y
    if isinstance(local.method, LocalSteps):
        moved, terms = theta, np.zeros(D)
        for tau in range(local.method.steps):
            moved = moved - eta / n * X.T @ (X @ moved - y)
            terms = terms + np.linalg.matrix_power(local.forward, tau) @ (theta - local.forward @ theta)
        notes.same(STEPS, moved, expected)
        for tau in (1, 2, 7):
            power = np.linalg.matrix_power(np.eye(n) - eta * local.K, tau)
            notes.same(POWERS, np.linalg.matrix_power(local.forward, tau) @ X.T, X.T @ power)
    else:
        # argmin ‖Xθ − y‖²/(2n) + ‖θ − θ_{t−1}‖²/(2η) as one least-squares problem.
        A = np.vstack([X / np.sqrt(n), np.eye(D) / np.sqrt(eta)])
        moved = np.linalg.lstsq(A, np.concatenate([y / np.sqrt(n), theta / np.sqrt(eta)]), rcond=None)[0]
        slope = eta / n * X.T @ (X @ moved - y) + (moved - theta)
        notes.add(STATIONARY, np.abs(slope).max() / np.abs(theta).max())
        notes.same(PROXIMAL, moved, expected)
        notes.same(PROXIMAL, np.linalg.solve(local.backward, theta + eta / n * X.T @ y), expected)
        terms = np.linalg.solve(local.backward, local.backward @ theta - theta)
        notes.same(POWERS, local.backward @ X.T, X.T @ (np.eye(n) + eta * local.K))
    notes.same(TELESCOPE, terms, local.psi @ (X @ theta))
    notes.same(TELESCOPE, theta - local.whole @ theta, local.psi @ (X @ theta))
    notes.same(FILTERED, local.psi, eta / n * X.T @ local.P)
    if local.method == LocalSteps(eta):
        notes.add(SAME_STEP, np.linalg.eigvalsh(local.P))


def _all(X: Sequence[Array], method: Method, rng: np.random.Generator, notes: Notes) -> None:
    pooled, total = np.vstack(X), sum(map(len, X))
    P = np.zeros((total, total))
    psi, start = np.zeros((D, total)), 0
    for rows in X:
        local, own = Local(rows, method), slice(start, start + len(rows))
        P[own, own], psi[:, own] = local.P, len(rows) / total * local.psi
        start += len(rows)
    made = Rounds.of(X, method)
    notes.same(FILTERED, psi, method.step_size / total * pooled.T @ P)
    theta, y = rng.standard_normal(D), rng.standard_normal(total)
    f = pooled @ theta
    notes.same(AT_ROWS, f - pooled @ made.A @ theta, method.step_size / total * pooled @ pooled.T @ P @ f)
    notes.same(AT_ROWS, pooled @ psi @ f, method.step_size / total * pooled @ pooled.T @ P @ f)
    limit = np.linalg.solve(np.eye(D) - made.A, psi @ y)
    moved = theta
    for _ in range(3000):
        moved = made.A @ moved + psi @ y
    notes.same(REACHED, moved, limit)


def _distances(X: Array, rng: np.random.Generator, notes: Notes) -> None:
    """‖f_{i,t} − f_{t−1}‖ for ever larger η, with noisy targets."""
    theta, y = rng.standard_normal(D), rng.standard_normal(len(X))
    away = [
        np.linalg.norm(np.linalg.solve(Local(X, ProximalStep(eta)).backward, theta + eta / len(X) * X.T @ y) - theta)
        for eta in (0.01, 0.1, 1.0, 10.0, 100.0)
    ]
    notes.add(FARTHER, np.array(away[1:]) / np.array(away[:-1]))
