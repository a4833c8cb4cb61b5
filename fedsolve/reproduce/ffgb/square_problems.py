"""Labels and Lipschitz oracles for the proof of Theorem 4.4 of Shen et al. (2022)."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.ffgb.square_runs import Oracle, Regression
from fedsolve.typing import Array

CLIENTS, OWN = 5, 4


def regression(rng: np.random.Generator, scale: float = 1.0) -> Regression:
    """Points in the unit square; labels 0.6 sin x + 0.8 cos z, whose slope is at most 1, times `scale`."""
    X = rng.random((CLIENTS * OWN, 2))
    y = scale * (0.6 * np.sin(X[:, 0]) + 0.8 * np.cos(X[:, 1]))
    return Regression(X, y, np.repeat(np.arange(CLIENTS), OWN), scale)


def scaled(gamma: float) -> Oracle:
    """γφ: satisfies (14) and (15) with equality."""
    return lambda phi: gamma * phi


def moved(one: Regression, gamma: float, rng: np.random.Generator) -> Oracle:
    """φ plus or minus a constant, as large as (14) allows; its slopes are those of φ, so that (15) holds, too."""

    def answer(phi: Array) -> Array:
        signs = rng.choice([-1.0, 1.0], len(phi))
        return phi + ((1 - gamma) * one.sup(phi) * signs)[:, None]

    return answer


def flipped(one: Regression, gamma: float, K: int) -> Oracle:
    """φ less that constant in all steps of a round but the last, and φ plus it then: the largest answer."""
    asked = 0

    def answer(phi: Array) -> Array:
        nonlocal asked
        asked += 1
        sign = 1.0 if asked % K == 0 else -1.0
        return phi + (sign * (1 - gamma) * one.sup(phi))[:, None]

    return answer


def steepened(gamma: float, K: int) -> Oracle:
    """γφ in all steps of a round but the last, and (2 − γ)φ then: (14) and (15) with equality, the steepest answer."""
    asked = 0

    def answer(phi: Array) -> Array:
        nonlocal asked
        asked += 1
        return np.asarray((2 - gamma if asked % K == 0 else gamma) * phi)

    return answer


def outlying(rng: np.random.Generator, own: int = 40) -> Regression:
    """Every client has one point far away, in a direction of its own; L = 1."""
    X = rng.random((CLIENTS * own, 2))
    angles = 2 * np.pi * np.arange(CLIENTS) / CLIENTS
    X[::own] = 20 * np.column_stack([np.cos(angles), np.sin(angles)])
    y = 0.6 * np.sin(X[:, 0]) + 0.8 * np.cos(X[:, 1])
    return Regression(X, y, np.repeat(np.arange(CLIENTS), own), 1.0)


def steady(rng: np.random.Generator) -> Regression:
    """All labels are 1, and L = 0.1."""
    X = rng.random((CLIENTS * OWN, 2))
    return Regression(X, np.ones(len(X)), np.repeat(np.arange(CLIENTS), OWN), 0.1)
