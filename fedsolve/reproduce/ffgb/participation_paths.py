"""FFGB with a few clients in each round (Shen et al., 2022, Appendix G), many draws at once.

The oracle is h = γφ, or has errors as large as its condition allows: minus until the last step of a round, and
plus then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedsolve.reproduce.ffgb.proof_runs import Posed
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.typing import Array

K, GAMMA, LONG, SHORT = 4, 0.7, 4.0, 2.0
CLIENTS = 5  # clients beyond the fifth are copies of the first five, with the same errors
Move = Callable[[Array, Array, float, bool], tuple[Array, Array]]  # g and the residual after a step, the round's last?
Weak = Callable[[Array, bool], Array]  # the oracle's answer to a query, in the last step of a round or not


def plain(gamma: float = GAMMA) -> Weak:
    """h = γφ."""
    return lambda query, last: np.asarray(gamma * query)


def one_point(one: Posed, gamma: float = GAMMA) -> Weak:
    """(5) with equality: all of the error of client i is at point i."""
    rows = np.arange(len(one.mass))
    at = rows % CLIENTS

    def answer(query: Array, last: bool) -> Array:
        h = query.copy()
        size = np.sqrt((one.mass * np.square(query)).sum(axis=-1) / one.mass[rows, at])
        h[..., rows, at] += (1.0 if last else -1.0) * (1 - gamma) * size
        return h

    return answer


def everywhere(inside: Array, gamma: float = GAMMA) -> Weak:
    """(10) or (14) with equality: off by the same size at all points, every other client the other way."""
    turns = (-1.0) ** (np.arange(len(inside)) % CLIENTS)[:, None]

    def answer(query: Array, last: bool) -> Array:
        size = np.abs(np.where(inside, query, 0.0)).max(axis=-1, keepdims=True)
        return np.asarray(query + (1.0 if last else -1.0) * (1 - gamma) * size * turns)

    return answer


def on_support(one: Posed, gamma: float = GAMMA) -> Weak:
    """(10) and (11) with equality in (10): as `everywhere`, and 0 off the client's support."""
    inside, off = one.mass > 0, everywhere(one.mass > 0, gamma)
    return lambda query, last: np.where(inside, off(query, last), 0.0)


def logistic_path(
    one: Posed,
    numerator: float,
    rounds: int,
    m: int,
    draws: int,
    rng: np.random.Generator,
    local: int = K,
    oracle: Weak | None = None,
) -> Array:
    """‖f^t − f*‖² for t = 0, …, rows, and every draw of m clients in each round, columns; `local` steps in a round.

    The oracle is h = γφ by default."""
    inside, answer = one.mass > 0, oracle or plain()

    def gradient(g: Array) -> Array:
        return np.where(inside, 1 / (1 + np.exp(-g)) - one.labels, 0.0)

    def step(g: Array, residual: Array, eta: float, last: bool) -> tuple[Array, Array]:
        query = residual + gradient(g)
        h = answer(query, last)
        return g - eta * (h + one.mu * g), query - h

    return _path(one.mass.shape, one.alpha, one.best, step, numerator / one.mu, rounds, m, draws, rng, local)


def square_path(
    one: Regression,
    rounds: int,
    m: int,
    draws: int,
    rng: np.random.Generator,
    local: int = K,
    oracle: Weak | None = None,
) -> Array:
    """The same for Algorithm 3."""
    answer = oracle or plain()

    def step(g: Array, residual: Array, eta: float, last: bool) -> tuple[Array, Array]:
        h = answer(one.u - residual, last)
        return g - eta * (g - h), residual - one.u + h

    return _path(one.u.shape, one.alpha, one.y, step, LONG, rounds, m, draws, rng, local)


def _path(
    shape: tuple[int, ...], alpha: Array, best: Array, step: Move, c: float, rounds: int, m: int, draws: int,
    rng: np.random.Generator, local: int,
) -> Array:  # fmt: skip
    f, found = np.zeros((draws, shape[1])), [np.full(draws, np.square(best) @ alpha)]
    for t in range(rounds):
        g = np.repeat(f[:, None], shape[0], axis=1)
        residual = np.zeros(g.shape)
        for k in range(1, local + 1):
            g, residual = step(g, residual, c / (t * local + k + 1), k == local)
        chosen = subsets(shape[0], m, draws, rng)
        f = np.take_along_axis(g, chosen[:, :, None], axis=1).mean(axis=1)
        found.append(np.square(f - best) @ alpha)
    return np.array(found)


def copied(one: Posed, times: int) -> Posed:
    """Every client `times` times: the means over all clients are the same."""
    return Posed(np.tile(one.mass, (times, 1)), np.tile(one.labels, (times, 1)), one.mu)


def copied_square(one: Regression, times: int) -> Regression:
    """The same, with copies of the points."""
    owner = np.concatenate([one.owner + turn * len(one.inside) for turn in range(times)])
    return Regression(np.tile(one.X, (times, 1)), np.tile(one.y, times), owner, one.L)


def subsets(clients: int, m: int, draws: int, rng: np.random.Generator) -> Array:
    """m clients for each draw, without replacement, every subset as likely as any other. In as many draws after each
    other as there are clients all are chosen equally often, so that the mean over the draws varies little."""
    order = np.argsort(rng.random((-(-draws // clients), clients)), axis=1)
    turn = (np.arange(clients)[:, None] + np.arange(m)) % clients
    return np.asarray(order[:, turn].reshape(-1, m)[:draws])
