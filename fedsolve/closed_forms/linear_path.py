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
from fedsolve.closed_forms.client_rows import checked_rows, numbers
from fedsolve.closed_forms.limits import client_sums
from fedsolve.closed_forms.methods import LocalSteps, Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

RESOLVED = 1e-10  # what an entry of A near 1 says of 1 − A to six digits


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
    X, y = checked_rows(X, y)
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
    first = np.zeros(c.shape) if start is None else numbers("start", start)
    if first.shape != c.shape:
        raise DataError(f"start is θ_0, of shape {c.shape}, got {first.shape}")
    path[0] = first
    for t in range(1, rounds + 1):
        if shuffled and t > 1:
            A, c = _round_map(X, y, method, batches, t - 1)
        path[t] = A @ path[t - 1] + c
    return path


def map_limit(A: Array, c: Array) -> Array:
    """Where θ ← A θ + c ends from θ_0 = 0; also with minibatches, where A is not symmetric.

    Raises:
        ConfigError: It ends nowhere: an eigenvalue of A is outside the unit circle.
        DataError: In some direction a round moves so little that A cannot say it in double precision. Columns of zeros
            are none of these: their coefficients stay 0.
    """
    A, c = np.asarray(A, dtype=np.float64), np.asarray(c, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or c.shape[:1] != A.shape[:1]:
        raise DataError(f"A is d × d and c has d rows, got {A.shape} and {c.shape}")
    if not (np.isfinite(A).all() and np.isfinite(c).all()):
        raise ConfigError("the map has entries that are not finite; shorten the step size")
    fastest = float(np.abs(np.linalg.eigvals(A)).max())
    if fastest > 1 + RESOLVED:
        raise ConfigError(f"this map diverges: a round multiplies an error by {fastest:.3g}; shorten the step size")
    step = np.eye(len(A)) - A
    moved = step.any(axis=1) | step.any(axis=0)
    found = np.zeros(c.shape)
    if moved.any():
        own = step[np.ix_(moved, moved)]
        if np.linalg.svd(own, compute_uv=False)[-1] < RESOLVED:
            raise DataError(
                "in some direction this map hardly moves: columns are collinear, or differ too much in scale; "
                "standardise them, or, without minibatches, use linear_limit, which takes rows"
            )
        found[moved] = np.linalg.solve(own, c[moved])
    return found


def gradient_norm(X: Sequence[Array], y: Sequence[Array], theta: Array) -> Array:
    """‖∇ℓ(θ)‖ for the ℓ of section 7.1, (1/N) Σ ‖y_i − X_i θ‖²: without ½, so with a factor 2.

    Args:
        X: The rows of each client.
        y: Their targets, n_i numbers or n_i × q.
        theta: (d,), or (T, d) for T numbers; with q outputs (d, q) or (T, d, q).
    """
    X, y = checked_rows(X, y)
    H, b, weights = client_sums(X, y)
    share, outputs = weights / weights.sum(), y[0].shape[1:]
    hessian, right = np.tensordot(share, H, 1), np.tensordot(share, b, 1)
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape[-1 - len(outputs) :] != (len(hessian), *outputs):
        raise DataError(f"theta ends in the shape {(len(hessian), *outputs)}, got {theta.shape}")
    columns = theta if outputs else theta[..., None]
    return np.asarray(2 * np.linalg.norm(hessian @ columns - right, axis=(-2, -1)))
