"""FedAvg and FedProx on linear regression, round by round, with or without minibatches (Su et al., section 7.1).

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

A round is one affine map, θ_t = A θ_{t−1} + c, as long as the batches stay the same. Its parts:

    FedAvg    s passes over the batches, each step θ ← θ − (η/n_i) X_bᵀ(X_b θ − y_b)
    FedProx   one pass, each step θ ← argmin ‖X_b v − y_b‖²/(2n_i) + ‖v − θ‖²/(2η)

Steps keep 1/n_i, so that a pass over batches is about one step on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.batches import Batches
from fedsolve.closed_forms.limits import client_sums
from fedsolve.closed_forms.methods import LocalSteps, Method
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array


def round_map(
    X: Sequence[Array], y: Sequence[Array], method: Method, batch_size: int | None = None
) -> tuple[Array, Array]:
    """A and c of θ_t = A θ_{t−1} + c, with the same batches in every round.

    Args:
        X: The rows of each client.
        y: Their targets, n_i numbers or n_i × q.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        batch_size: Rows in a batch; None, the default, takes all of a client's.

    Returns:
        A of shape (d, d) and c of shape (d,) or (d, q).
    """
    return _round_map(X, y, method, Batches(batch_size), 0)


def _round_map(
    X: Sequence[Array], y: Sequence[Array], method: Method, batches: Batches, round: int
) -> tuple[Array, Array]:
    _, sums, weights = client_sums(X, y)
    d, q = sums.shape[1:]
    total = np.zeros((d, d + q))
    for place, (rows, targets) in enumerate(zip(X, y, strict=True)):
        # Columns [I, 0] move as θ does; the targets move only the last q of them.
        moved = np.hstack([np.eye(d), np.zeros((d, q))])
        right = np.hstack([np.zeros((len(rows), d)), np.reshape(targets, (len(rows), -1))])
        eta = method.step_size / len(rows)
        for step in range(method.steps):
            for batch in batches.of(place, len(rows), round, step):
                moved = _step(rows[batch], right[batch], moved, eta, method)
        total += weights[place] / weights.sum() * moved
    c = total[:, d:]
    return total[:, :d], c[:, 0] if np.ndim(y[0]) == 1 else c


def _step(rows: Array, right: Array, theta: Array, eta: float, method: Method) -> Array:
    residual = right - rows @ theta
    if isinstance(method, LocalSteps):
        return theta + eta * (rows.T @ residual)
    # (I + η X_bᵀX_b)⁻¹ X_bᵀ r, by whichever of the two systems is smaller.
    if len(rows) < rows.shape[1]:
        return theta + eta * (rows.T @ np.linalg.solve(np.eye(len(rows)) + eta * rows @ rows.T, residual))
    return theta + eta * np.linalg.solve(np.eye(rows.shape[1]) + eta * rows.T @ rows, rows.T @ residual)


def linear_path(
    X: Sequence[Array],
    y: Sequence[Array],
    method: Method,
    rounds: int,
    start: Array | None = None,
    *,
    batch_size: int | None = None,
    shuffled: bool = False,
    seed: int = 0,
) -> Array:
    """θ_0, θ_1, …, θ_T.

    Args:
        X: The rows of each client.
        y: Their targets, n_i numbers or n_i × q.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        rounds: T.
        start: θ_0; default 0.
        batch_size: Rows in a batch; None, the default, takes all of a client's.
        shuffled: Batches of a new order in every pass. Default: the same in every round.
        seed: Of these orders.

    Returns:
        Of shape (T + 1, d) or (T + 1, d, q).
    """
    batches = Batches(batch_size, shuffled, seed)
    A, c = _round_map(X, y, method, batches, 0)
    path = np.empty((whole("rounds", rounds, 0) + 1, *c.shape))
    path[0] = 0.0 if start is None else start
    for t in range(1, rounds + 1):
        if shuffled and t > 1:
            A, c = _round_map(X, y, method, batches, t - 1)
        path[t] = A @ path[t - 1] + c
    return path


def map_limit(A: Array, c: Array) -> Array:
    """Where θ ← A θ + c ends from θ_0 = 0; also with minibatches, where A is not symmetric."""
    found: Array = np.linalg.lstsq(np.eye(len(A)) - A, c, rcond=None)[0]
    return found


def gradient_norm(X: Sequence[Array], y: Sequence[Array], theta: Array) -> Array:
    """‖∇ℓ(θ)‖ for the ℓ of section 7.1, (1/N) Σ ‖y_i − X_i θ‖²: without ½, so with a factor 2.

    Args:
        X: The rows of each client.
        y: Their targets, n_i numbers each.
        theta: (d,), or (T, d) for T numbers.
    """
    H, b, weights = client_sums(X, y)
    share = weights / weights.sum()
    hessian, right = np.tensordot(share, H, 1), np.tensordot(share, b, 1)[:, 0]
    return np.asarray(2 * np.linalg.norm(np.asarray(theta) @ hessian - right, axis=-1))
