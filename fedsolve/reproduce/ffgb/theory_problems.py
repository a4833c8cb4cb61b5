"""Small problems on finite supports whose minimum f* is known, for the theorems of Shen et al. (2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from fedsolve.diagnose import wasserstein
from fedsolve.federation.client import Client
from fedsolve.typing import Array

POINTS, CLIENTS, MU = 16, 4, 0.5


@dataclass(frozen=True)
class Problem:
    """Clients on a common support.

    support  the points, one row each; in the problems of classes, their numbers
    mass     α of the points
    best     f* at the points
    """

    clients: Sequence[Client]
    support: Array
    mass: Array
    best: Array

    def distance(self, f: Array) -> Array:
        """‖f − f*‖²_α, for one f or for one in each row."""
        squares = (np.asarray(f) - self.best) ** 2
        return np.asarray(squares @ self.mass)


def solution(labels: Array, weights: Array, mu: float, factor: float = 1.0) -> Array:
    """f at each point with factor · Σ_i weight_i (σ(f) − y_i) + μ Σ_i weight_i f = 0: the minimum for factor 1.

    labels, weights  (clients, points)
    """
    from scipy.optimize import brentq  # slow to import, and the command line imports this module
    from scipy.special import expit

    wanted = (weights * labels).sum(axis=0) / weights.sum(axis=0)
    reach = 1.1 * factor / mu
    return np.array(
        [brentq(lambda f, y=y: factor * (expit(f) - y) + mu * f, -reach, reach, xtol=1e-15) for y in wanted]
    )


def same_inputs(seed: int, clients: int = CLIENTS, mu: float = MU) -> tuple[Problem, Array]:
    """Theorem 4.3: every client has every point once, with a label of its own. Also the labels."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((clients, POINTS)) < rng.random((clients, 1))).astype(np.float64)
    X = np.arange(POINTS, dtype=np.float64)[:, None]
    mass = np.full(POINTS, 1 / POINTS)
    best = solution(labels, np.ones(labels.shape), mu)
    return Problem([Client(f"c{i}", X, y) for i, y in enumerate(labels)], X, mass, best), labels


def own_blocks(share: float, seed: int) -> tuple[Problem, Array]:
    """Theorem 4.1: α_i is uniform, but for a share of it that is on the client's own block of points.

    TV(α, α_i) = share · (1 − 1/N). Labels are a coin for each point, and the others contradict a block's own client.
    Also the labels.
    """
    coin = (np.random.default_rng(seed).random(POINTS) < 0.5).astype(np.float64)
    block = np.arange(POINTS) * CLIENTS // POINTS
    own = block == np.arange(CLIENTS)[:, None]
    labels = np.where(own, coin, 1 - coin)
    weights = (1 - share) / POINTS + share * own * CLIENTS / POINTS
    X = np.arange(POINTS, dtype=np.float64)[:, None]
    clients = [Client(f"c{i}", X, y, s) for i, (y, s) in enumerate(zip(labels, weights, strict=True))]
    return Problem(clients, X, weights.mean(axis=0), solution(labels, weights, MU)), labels


def two_diracs(mu: float) -> tuple[list[Client], float]:
    """Theorem 4.2: two clients with one row each and the two classes; also ‖f*‖²_α.

    f*(x_1) = (a, −a) = −f*(x_2) with 1 − σ(2a) = μ a.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    clients = [Client(f"c{i}", np.array([[float(i)]]), np.array([float(i)])) for i in range(2)]
    a = brentq(lambda a: expit(-2 * a) - mu * a, 0.0, 1 / mu, xtol=1e-15)
    return clients, 2 * a**2


L = 1.0  # the Lipschitz constant of the labels in `shifted`


@dataclass(frozen=True)
class Shifted:
    """Theorem 4.4: labels f* of slope 1 without noise, at clients whose rows are shifted copies of each other.

    extensions  ū, the mean of the u_i, at the points
    D, B, G     the constants of Assumption 4.3 and of the theorem
    """

    problem: Problem
    extensions: Array
    D: float
    B: float
    G: float


def shifted(shift: float, seed: int, rows: int = 12) -> Shifted:
    """`CLIENTS` copies of the same rows in the unit square, the i-th moved by i · shift along a random direction."""
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(seed)
    base, angle = rng.random((rows, 2)), rng.uniform(0, 2 * np.pi)
    towards = np.array([np.cos(angle), np.sin(angle)])
    inputs = [base + i * shift * towards for i in range(CLIENTS)]
    labels = [np.sin(X[:, 0]) * 0.6 + np.cos(X[:, 1]) * 0.8 for X in inputs]  # slope at most √(0.6² + 0.8²)
    support, best = np.vstack(inputs), np.concatenate(labels)
    extensions = np.mean([(y + L * cdist(support, X)).min(axis=1) for X, y in zip(inputs, labels, strict=True)], axis=0)
    squares = [wasserstein(A, B, power=2) ** 2 for A, B in permutations(inputs, 2)]
    B = float(np.abs(best).max())
    G = float(np.sqrt(2 * L**2 * sum(squares) / CLIENTS**2 + 2 * B**2))
    D = max(float(cdist(A, B).min(axis=1).max()) for A, B in permutations(inputs, 2))
    clients = [Client(f"c{i}", X, y) for i, (X, y) in enumerate(zip(inputs, labels, strict=True))]
    mass = np.full(len(support), 1 / len(support))
    return Shifted(Problem(clients, support, mass, best), extensions, D, B, G)
