"""Algorithm 3 of Shen et al. (2022), for the square loss, on the clients' points in the plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsolve.diagnose import wasserstein
from fedsolve.typing import Array

Oracle = Callable[[Array], Array]  # Q^lip, of φ = u − Δ


@dataclass(frozen=True, eq=False)
class Regression:
    """Labels y of slope at most L at points X; each client owns some of the points, with equal mass.

    u  the clients' Lipschitz extensions at all points
    """

    X: Array
    y: Array
    owner: Array
    L: float

    @cached_property
    def apart(self) -> Array:
        return np.asarray(np.linalg.norm(self.X[:, None] - self.X[None], axis=2))

    @cached_property
    def inside(self) -> Array:
        return np.array([self.owner == i for i in range(self.owner.max() + 1)])

    @cached_property
    def mass(self) -> Array:
        return np.asarray(self.inside / self.inside.sum(axis=1, keepdims=True))

    @cached_property
    def alpha(self) -> Array:
        return np.asarray(self.mass.mean(axis=0))

    @cached_property
    def u(self) -> Array:
        return np.array([(self.y[own] + self.L * self.apart[:, own]).min(axis=1) for own in self.inside])

    @cached_property
    def B(self) -> float:
        return float(np.abs(self.y).max())

    @cached_property
    def D(self) -> float:
        return float(max(self.apart[a][:, b].min(axis=1).max() for a in self.inside for b in self.inside))

    @cached_property
    def w1(self) -> Array:
        """W_1(α, α_i)."""
        return np.array([wasserstein(self.X, self.X, self.alpha, one) for one in self.mass])

    @cached_property
    def squares(self) -> Array:
        """W_2²(α_s, α_i)."""
        return np.array([[wasserstein(self.X[a], self.X[b], power=2) ** 2 for b in self.inside] for a in self.inside])

    @cached_property
    def G2(self) -> float:
        """G² of Theorem 4.4."""
        return float(2 * self.L**2 * self.squares.mean() + 2 * self.B**2)

    @cached_property
    def radius(self) -> float:
        """L(LD + B) ω_W1."""
        return float(self.L * (self.L * self.D + self.B) * self.w1.mean())

    def own(self, a: Array, b: Array) -> Array:
        return np.asarray((self.mass * a * b).sum(axis=1))

    def all(self, a: Array, b: Array) -> Array:
        return np.asarray((self.alpha * a * b).sum(axis=-1))

    def sup(self, a: Array) -> Array:
        """‖a_i‖ at each client's own points."""
        return np.asarray(np.abs(np.where(self.inside, a, 0.0)).max(axis=1))

    def lip(self, a: Array) -> Array:
        """The largest slope of each row, between any two points."""
        apart = np.where(self.apart > 0, self.apart, np.inf)
        return np.asarray((np.abs(a[:, :, None] - a[:, None, :]) / apart).max(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class Step:
    """Step k of round t: f^t, g before and after it, the oracle's answer, the residual before and after it."""

    t: int
    k: int
    eta: float
    f: Array
    g: Array
    h: Array
    before: Array
    residual: Array
    after: Array


def algorithm3(
    one: Regression, oracle: Oracle, numerator: float, K: int, T: int, start: float = 0.0, most: float = np.inf
) -> Iterator[Step]:
    """All steps, from f⁰ = start, with h = −Q(Δ − u), the sign that lines 5 and 6 need; step sizes c/(tK + k + 1), or
    `most` where that is smaller."""
    f = np.full(len(one.X), start)
    for t in range(T):
        g, residual = np.tile(f, (len(one.u), 1)), np.zeros(one.u.shape)
        for k in range(1, K + 1):
            eta = min(numerator / (t * K + k + 1), most)
            h = oracle(one.u - residual)
            before, residual = residual, residual - one.u + h
            after = g - eta * (g - h)
            yield Step(t, k, eta, f, g, h, before, residual, after)
            g = after
        f = g.mean(axis=0)
