"""The random-subspace federations of Su, Xu and Yang (2023), section 7.3: many trials in one batch of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import Method
from fedsolve.data.linear_regressions import subspace_rows
from fedsolve.reproduce.nonparametric.methods import ETA, SIGMA, methods
from fedsolve.typing import Array

FEATURES = 100
SCARCE, RICH = 50, 500  # rows of a client
EACH = 10  # clients of either kind
_ZERO = (
    FEATURES * np.finfo(np.float64).eps
)  # eigenvalues below this share of the largest are those of unseen directions


@dataclass(frozen=True, eq=False)
class Group:
    """Clients of one size in all trials: their inputs in the columns they see, which those are, and their responses.

    Shapes (trials, clients, rows, r), (trials, clients, r), (trials, clients, rows).
    """

    seen: Array
    support: Array
    y: Array


def draw_groups(r: int, trials: int, seed: int) -> tuple[Array, tuple[Group, Group]]:
    """θ* of every trial, and the clients with few and with many rows."""
    rng = np.random.default_rng((seed, r))
    truth = rng.standard_normal((trials, FEATURES))
    groups = []
    for n in (SCARCE, RICH):
        seen, support = subspace_rows(rng, (trials, EACH), n, FEATURES, r)
        own = np.take_along_axis(truth[:, None, :], support, axis=2)
        y = (seen @ own[..., None])[..., 0] + SIGMA * rng.standard_normal((trials, EACH, n))
        groups.append(Group(seen, support, y))
    return truth, (groups[0], groups[1])


def limit_points(groups: tuple[Group, Group], r: int) -> dict[str, Array]:
    """The limit point of every method from 0, a row per trial, with η = 0.1 r/d as in the paper.

    The same as `closed_forms.limits.fixed_point`, with each client's eigenvalues computed in its r columns and once
    for all methods.
    """
    chosen = methods(ETA * r / FEATURES)
    trials = len(groups[0].y)
    A = {name: np.zeros((trials, FEATURES, FEATURES)) for name in chosen}
    c = {name: np.zeros((trials, FEATURES)) for name in chosen}
    total = EACH * (SCARCE + RICH)
    for group in groups:
        n = group.y.shape[-1]
        columns = np.swapaxes(group.seen, -1, -2)
        h, Q = np.linalg.eigh(columns @ group.seen / n)
        g = np.swapaxes(Q, -1, -2) @ (columns @ group.y[..., None] / n)
        for name, method in chosen.items():
            _add_client_means(A[name], c[name], group.support, n / total, (h, Q, g), method)
    return {name: _least_solution(A[name], c[name]) for name in chosen}


def _add_client_means(
    A: Array, c: Array, support: Array, weight: float, parts: tuple[Array, Array, Array], method: Method
) -> None:
    """Add w_i p(H_i) H_i to A and w_i p(H_i) b_i to c, each at the columns its client sees."""
    h, Q, g = parts
    p = method.filter(h)
    left = (Q * (weight * p * h)[..., None, :]) @ np.swapaxes(Q, -1, -2)
    right = (Q @ (weight * p[..., None] * g))[..., 0]
    trial = np.arange(len(A))[:, None]
    for i in range(support.shape[1]):
        columns = support[:, i]
        A[trial[..., None], columns[:, :, None], columns[:, None, :]] += left[:, i]
        c[trial, columns] += right[:, i]


def _least_solution(A: Array, c: Array) -> Array:
    """A⁺c, to which the rounds lead from 0: what no client sees stays 0."""
    values, Q = np.linalg.eigh(A)
    seen = values > _ZERO * values[:, -1:]
    inverse = np.where(seen, 1 / np.where(seen, values, 1.0), 0.0)
    solution: Array = (Q @ (inverse[..., None] * (np.swapaxes(Q, -1, -2) @ c[..., None])))[..., 0]
    return solution


def local_estimate(group: Group, client: int = 0) -> Array:
    """Minimum-norm least squares of one client, a row per trial: what it learns alone."""
    own = (np.linalg.pinv(group.seen[:, client]) @ group.y[:, client, :, None])[..., 0]
    estimate = np.zeros((len(own), FEATURES))
    np.put_along_axis(estimate, group.support[:, client], own, axis=1)
    return estimate


def gains(r: int, trials: int, seed: int) -> Mapping[str, tuple[float, float]]:
    """The federation gain of a client with few and of one with many rows, by method: the mean over the trials of
    ‖θ̂_local − θ*‖ / ‖θ_∞ − θ*‖. Clients of one size are exchangeable, so the first stands for one chosen at random."""
    truth, groups = draw_groups(r, trials, seed)
    alone = [np.linalg.norm(local_estimate(group) - truth, axis=1) for group in groups]
    found = {}
    for name, limit in limit_points(groups, r).items():
        together = np.linalg.norm(limit - truth, axis=1)
        found[name] = (float(np.mean(alone[0] / together)), float(np.mean(alone[1] / together)))
    return found
