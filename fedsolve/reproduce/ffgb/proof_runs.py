"""Algorithm 2 with everything the proofs of Shen et al. (2022) speak of, on a few points with the logistic loss.

Functions are their values at the points; rows of an array are clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsolve.typing import Array

G = 1.0  # of the logistic loss
Oracle = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Posed:
    """Clients on common points.

    mass    α_i of the points, a row each
    labels  0 or 1
    """

    mass: Array
    labels: Array
    mu: float

    @cached_property
    def alpha(self) -> Array:
        return np.asarray(self.mass.mean(axis=0))

    @cached_property
    def omega_tv(self) -> float:
        return float(np.abs(self.mass - self.alpha).sum(axis=1).mean() / 2)

    def own(self, a: Array, b: Array) -> Array:
        """⟨a, b⟩_αi of every client."""
        return np.asarray((self.mass * a * b).sum(axis=1))

    def all(self, a: Array, b: Array) -> Array:
        """⟨a, b⟩_α, of every row."""
        return np.asarray((self.alpha * a * b).sum(axis=-1))

    def gradient(self, g: Array) -> Array:
        """∇R_i[g_i] where a client has mass, 0 elsewhere."""
        return np.where(self.mass > 0, 1 / (1 + np.exp(-g)) - self.labels, 0.0)

    def slope(self, g: Array) -> Array:
        """∇F_i[g_i]."""
        return self.gradient(g) + self.mu * g

    def value(self, g: Array) -> Array:
        """F_i[g_i] of every client."""
        losses = np.logaddexp(0, g) - self.labels * g + self.mu / 2 * np.square(g)
        return np.asarray((self.mass * losses).sum(axis=1))

    @cached_property
    def best(self) -> Array:
        """f*, by Newton's method at every point."""
        wanted = (self.mass * self.labels).sum(axis=0) / self.mass.sum(axis=0)
        f = np.zeros(len(wanted))
        for _ in range(60):
            p = 1 / (1 + np.exp(-f))
            f = f - (p - wanted + self.mu * f) / (p * (1 - p) + self.mu)
        return f


@dataclass(frozen=True, eq=False)
class Step:
    """Step k of round t: f^t, the functions before and after it, what was asked and answered, and the residuals."""

    t: int
    k: int
    eta: float
    f: Array
    g: Array
    query: Array
    h: Array
    before: Array
    residual: Array
    after: Array


def posed(rng: np.random.Generator, clients: int, points: int, mu: float, *, same: bool) -> Posed:
    """Random labels; the same inputs at all clients, or inputs of their own with gaps."""
    if same:
        mass = np.tile(rng.dirichlet(np.ones(points)), (clients, 1))
    else:
        mass = rng.dirichlet(np.full(points, 0.5), clients) * (rng.random((clients, points)) < 0.7)
        mass[np.arange(points) % clients, np.arange(points)] += 0.05  # every point is somebody's
        mass /= mass.sum(axis=1, keepdims=True)
    return Posed(mass, (rng.random((clients, points)) < 0.5).astype(float), mu)


def boosted(one: Posed, start: Array, oracle: Oracle, numerator: float, K: int, T: int) -> Iterator[Step]:
    """All steps of Algorithm 2 with step sizes numerator/(μ(tK + k + 1))."""
    f = start
    for t in range(T):
        g, residual = np.tile(f, (len(one.mass), 1)), np.zeros(one.mass.shape)
        for k in range(1, K + 1):
            eta = numerator / (one.mu * (t * K + k + 1))
            before, query = residual, residual + one.gradient(g)
            h = oracle(query)
            residual = query - h
            after = g - eta * (h + one.mu * g)
            yield Step(t, k, eta, f, g, query, h, before, residual, after)
            g = after
        f = g.mean(axis=0)


def sup_oracle(one: Posed, gamma: float, rng: np.random.Generator) -> Oracle:
    """Satisfies (10) and (11): off by at most (1 − γ)‖φ‖ on the support, anything within 2G/γ elsewhere."""

    def answer(query: Array) -> Array:
        inside = one.mass > 0
        size = np.abs(np.where(inside, query, 0.0)).max(axis=1, keepdims=True)
        near = query - (1 - gamma) * size * rng.choice([-1.0, -0.3, 0.5, 1.0], query.shape)
        return np.where(inside, near, rng.uniform(-2 * G / gamma, 2 * G / gamma, query.shape))

    return answer


def square_oracle(one: Posed, gamma: float, rng: np.random.Generator) -> Oracle:
    """Satisfies (5) with equality: all of the error is at one point, where it is as large as that allows."""

    def answer(query: Array) -> Array:
        size = np.sqrt(one.own(query, query))
        at = rng.integers(0, query.shape[1], len(query))
        rows = np.arange(len(query))
        h = query.copy()
        h[rows, at] += (1 - gamma) * size / np.sqrt(one.mass[rows, at]) * rng.choice([-1.0, 1.0], len(query))
        return h

    return answer
