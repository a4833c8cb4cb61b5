"""FFGB with a few clients in each round (Shen et al., 2022, Appendix G), many draws at once, with the oracle h = γφ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedsolve.reproduce.ffgb.proof_runs import Posed
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.typing import Array

K, GAMMA, LONG, SHORT = 4, 0.7, 4.0, 2.0
Move = Callable[[Array, Array, float], tuple[Array, Array]]  # g and the residual after a step of this size


def logistic_path(one: Posed, numerator: float, rounds: int, m: int, draws: int, rng: np.random.Generator) -> Array:
    """E‖f^t − f*‖² for t = 0, …, with m clients drawn in each round and the oracle h = γφ."""
    inside = one.mass > 0

    def gradient(g: Array) -> Array:
        return np.where(inside, 1 / (1 + np.exp(-g)) - one.labels, 0.0)

    def step(g: Array, residual: Array, eta: float) -> tuple[Array, Array]:
        query = residual + gradient(g)
        return g - eta * (GAMMA * query + one.mu * g), (1 - GAMMA) * query

    return _path(one.mass.shape, one.alpha, one.best, step, numerator / one.mu, rounds, m, draws, rng)


def square_path(one: Regression, rounds: int, m: int, draws: int, rng: np.random.Generator) -> Array:
    """The same for Algorithm 3, with h = γφ."""

    def step(g: Array, residual: Array, eta: float) -> tuple[Array, Array]:
        h = GAMMA * (one.u - residual)
        return g - eta * (g - h), residual - one.u + h

    return _path(one.u.shape, one.alpha, one.y, step, LONG, rounds, m, draws, rng)


def _path(
    shape: tuple[int, ...], alpha: Array, best: Array, step: Move, c: float, rounds: int, m: int, draws: int,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    f, found = np.zeros((draws, shape[1])), [float(np.square(best) @ alpha)]
    for t in range(rounds):
        g = np.repeat(f[:, None], shape[0], axis=1)
        residual = np.zeros(g.shape)
        for k in range(1, K + 1):
            g, residual = step(g, residual, c / (t * K + k + 1))
        chosen = np.argsort(rng.random((draws, shape[0])), axis=1)[:, :m]
        f = np.take_along_axis(g, chosen[:, :, None], axis=1).mean(axis=1)
        found.append(float((np.square(f - best) @ alpha).mean()))
    return np.array(found)
