"""DKRR, DKRR-SGD and DKRR-CM in kernel space, as Table 1 lists them: what they compute and what they send.

A function is its coefficients, f = Σ α_i K(x_i, ·). All products and solutions go through the library's linear algebra,
so that `multiply_adds` counts them. DKRR-CM (Lin, Wang and Zhou, 2020) is the Newton iteration of FedNewton in the
space of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fedsolve.numerics.design import DenseDesign
from fedsolve.numerics.linalg import cholesky, cholesky_solve
from fedsolve.typing import Array

Parts = list[tuple[Array, Array]]  # inputs and targets of every client


def product(K: Array, alpha: Array) -> Array:
    """K α, counted as one pass over K."""
    return DenseDesign(K).matvec(alpha)


def kernel(A: Array, B: Array) -> Array:
    """exp(−‖a − b‖²/2d): the products of the inputs count, d for each number of it; what is done entry by entry does
    not."""
    squares = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1)
    return np.asarray(np.exp((product(A, B.T) - squares / 2) / A.shape[1]))


def local_factor(K: Array, l2: float) -> Array:
    """The Cholesky factor of K + nλI."""
    lower = cholesky(K + len(K) * l2 * np.eye(len(K)))
    assert lower is not None
    return lower


def coefficients(K: Array, y: Array, l2: float) -> Array:
    """α_j of the client's own kernel ridge regression."""
    return cholesky_solve(local_factor(K, l2), y)


def descended(K: Array, y: Array, steps: int, step_size: float, rng: np.random.Generator) -> Array:
    """Stochastic gradient steps without a penalty from zero, one sample a step: a step evaluates f at that sample."""
    alpha = np.zeros(len(y))
    for i in rng.integers(len(y), size=steps):
        value = product(K[i : i + 1], alpha)
        alpha[i] -= step_size * float(value[0] - y[i])
    return alpha


@dataclass
class Messages:
    """How many numbers the first client has sent and received, and all clients have sent."""

    up: int = 0
    down: int = 0
    all_up: int = 0
    by_round: list[int] = field(default_factory=list)  # of the first client, both ways

    def send(self, each: list[Array]) -> list[Array]:
        self.up += each[0].size
        self.all_up += sum(one.size for one in each)
        return each

    def receive(self, one: Array) -> Array:
        self.down += one.size
        return one


@dataclass(frozen=True, eq=False)
class Communicating:
    """DKRR-CM of some clients.

    rows   K(D_j, D) of every client: its own rows of the kernel of all inputs
    y      its targets
    """

    rows: list[Array]
    y: list[Array]
    l2: float

    @classmethod
    def of(cls, K: Array, y: Array, clients: int, l2: float) -> Communicating:
        return cls(np.split(K, clients), np.split(y, clients), l2)

    def path(self, messages: Messages) -> Iterator[Array]:
        """The coefficients of f on all inputs: those of DKRR, then a round at a time."""
        m, n = len(self.rows), len(self.y[0])
        total = m * n
        own = [slice(j * n, (j + 1) * n) for j in range(m)]
        factors = [local_factor(K[:, at], self.l2) for K, at in zip(self.rows, own, strict=True)]
        start = [cholesky_solve(L, y) / m for L, y in zip(factors, self.y, strict=True)]
        alpha = messages.receive(np.concatenate(messages.send(start)))
        while True:
            yield alpha
            before = messages.up + messages.down
            # the gradient at f: (f(x_i) − y_i)/|D| + λ α_i, every client for its own samples
            residuals = [product(K, alpha) - y for K, y in zip(self.rows, self.y, strict=True)]
            parts = [one / total + self.l2 * alpha[at] for one, at in zip(residuals, own, strict=True)]
            g = messages.receive(np.concatenate(messages.send(parts)))
            # (C_Dj + λI)⁻¹ g = (g − Σ_i∈D_j β_i K(x_i, ·)) / λ with (K_j + nλI) β = g at the client's samples
            steps = [cholesky_solve(L, product(K, g)) for L, K in zip(factors, self.rows, strict=True)]
            change = np.concatenate(messages.send(steps))
            alpha = messages.receive(alpha - (g - change / m) / self.l2)
            messages.by_round.append(messages.up + messages.down - before)
