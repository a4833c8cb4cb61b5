"""FedNewton with an inexact inverse: each client solves with its Hessian by some steps of conjugate gradients.

The Hessian is never formed: a product with it is two passes over the rows (Dembo, Eisenstat and Steihaug, 1982).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.reproduce.fednewton.multiply_adds import counting
from fedsolve.typing import Array

LOSS, STEPS, LEFT, MOST = Squared(l2=1e-2), 5, 1e-6, 60

Solver = Callable[[Client, Array], Array]


def inexact_solution(client: Client, g: Array, steps: int = STEPS) -> Array:
    """H_j⁻¹ g by conjugate gradients from zero, with products from the rows."""
    d, r = np.zeros_like(g), g.copy()
    p, size = r.copy(), float(r @ r)
    for _ in range(steps):
        if size == 0.0:
            break
        Hp = LOSS.row_product(client, d, p)
        step = size / float(p @ Hp)
        d, r = d + step * p, r - step * Hp
        size, before = float(r @ r), size
        p = r + size / before * p
    return d


def _exact_solution(client: Client, g: Array) -> Array:
    return LOSS.hessian_factor(client, g).solve(g)


def path(clients: list[Client], solve: Solver, gradient: Callable[[Client, Array], Array]) -> Iterator[Array]:
    """The iterates of Algorithm 1 from zero, clients of equal size."""
    w = np.zeros(clients[0].X.shape[1])
    while True:
        yield w
        g = np.mean([gradient(one, w) for one in clients], axis=0)
        w = w - np.mean([solve(one, g) for one in clients], axis=0)


@dataclass(frozen=True)
class Compared:
    """Multiply-adds of one client, and rounds, until the federated error is `LEFT` of the first."""

    exact: float
    exact_rounds: float
    inexact: float
    inexact_rounds: float

    @property
    def cheaper(self) -> bool:
        return math.isfinite(self.inexact_rounds) and self.inexact < self.exact


def compared(clients: list[Client]) -> Compared:
    """With the inverse and without."""
    H = np.mean([LOSS.hessian(one, np.zeros(one.X.shape[1])).full() for one in clients], axis=0)
    moment = np.mean([one.X.T @ one.y / one.n_samples for one in clients], axis=0)
    pooled = np.linalg.solve(H, moment)

    def run(solve: Solver, gradient: Callable[[Client, Array], Array]) -> tuple[float, float]:
        own = [Client(one.name, one.X, one.y) for one in clients]  # nothing is kept from before
        with counting() as counted:
            for t, w in enumerate(path(own, solve, gradient)):
                if np.linalg.norm(w - pooled) <= LEFT * np.linalg.norm(pooled):
                    return counted.clients / len(own), t
                if t == MOST:
                    return math.inf, math.inf
        raise AssertionError("the path has no end")

    return Compared(*run(_exact_solution, LOSS.newton_gradient), *run(inexact_solution, LOSS.gradient))
