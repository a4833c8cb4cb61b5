"""Where FedAvg and FedProx end on a squared loss: their limiting points, which are not the pooled solution.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (section 7.1)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

A round is θ ← θ − η Σ_i w_i Q_i (H_i θ − b_i), with H_i the Hessian of client i, b_i = −∇ℓ_i(0) and Q_i = p(H_i) of
`methods`. It stands still where Σ w_i Q_i (H_i θ − b_i) = 0. With s = 1, and only then, Q_i = I and this is the pooled
solution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.methods import Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

# Of the largest eigenvalue, for each dimension: a smaller one cannot be told from zero after the sums over clients.
ROUNDING = 64 * float(np.finfo(np.float64).eps)


def limit_point(loss: Squared, clients: Sequence[Client], method: Method, start: Array | None = None) -> Array:
    """The weights to which `fs.FedAvg` or `fs.FedProx` converges on this loss and these clients.

    Args:
        loss: With any l2 penalty, intercept and feature map; without an l1 penalty.
        clients: With sample weights and offsets, where they have them.
        method: `LocalSteps(η, s)` or `ProximalStep(1/pull)`; see `method_of`.
        start: The weights the run starts from; default 0. They matter only in directions that no client sees.

    Returns:
        The weights in the shape of `model.w`.

    Raises:
        ConfigError: The step size is so long that the run diverges, or the loss has an l1 penalty.
    """
    if loss.l1:
        raise ConfigError(f"the limit is known without an l1 penalty only, got l1={loss.l1:g}")
    if not clients:
        raise DataError("a limit needs at least one client")
    sums = [loss.normal(client) for client in clients]
    H = np.stack([to_numpy(gram.full()) for gram, _ in sums])
    b = -np.stack([to_numpy(gradient) for _, gradient in sums])
    columns = b if b.ndim == 3 else b[..., None]
    weights = np.array([float(client.weight) for client in clients])
    first = None if start is None else np.asarray(start, dtype=np.float64).reshape(columns.shape[1:])
    return fixed_point(H, columns, weights, method, first).reshape(b.shape[1:])


def linear_limit(X: Sequence[Array], y: Sequence[Array], method: Method, start: Array | None = None) -> Array:
    """The limiting point of linear regression without penalty, w_i = n_i/N (Su et al., section 7.1).

    Args:
        X: The rows of each client.
        y: Their targets, n_i numbers or n_i × q; q draws of the noise are q columns.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        start: θ_0, of the shape of the result; default 0.

    Returns:
        θ, of shape (d,) or (d, q).
    """
    H, b, weights = client_sums(X, y)
    shape = (H.shape[-1], *np.shape(y[0])[1:])
    first = None if start is None else np.asarray(start, dtype=np.float64).reshape(H.shape[-1], -1)
    return fixed_point(H, b, weights, method, first).reshape(shape)


def client_sums(X: Sequence[Array], y: Sequence[Array]) -> tuple[Array, Array, Array]:
    """X_iᵀX_i/n_i (M × d × d), X_iᵀy_i/n_i (M × d × q) and n_i of each client."""
    if len(X) != len(y) or not len(X):
        raise DataError(f"rows and targets of the same clients are needed, got {len(X)} and {len(y)}")
    for place, (rows, targets) in enumerate(zip(X, y, strict=True)):
        if np.ndim(rows) != 2 or len(rows) != len(targets) or not len(rows):
            raise DataError(
                f"client {place} (from 0) has rows of shape {np.shape(rows)} and targets of shape {np.shape(targets)}; "
                "expected a matrix with at least one row, and a target for each row"
            )
    H = np.stack([rows.T @ rows / len(rows) for rows in X])
    pairs = zip(X, y, strict=True)
    b = np.stack([rows.T @ np.reshape(targets, (len(rows), -1)) / len(rows) for rows, targets in pairs])
    return H, b, np.array([float(len(rows)) for rows in X])


def fixed_point(H: Array, b: Array, weights: Array, method: Method, start: Array | None = None) -> Array:
    """θ with Σ w_i Q_i (H_i θ − b_i) = 0, for many problems at once.

    Args:
        H: (…, M, p, p): each client's Hessian. Leading axes are problems, such as trials.
        b: (…, M, p, q): −∇ℓ_i(0), a column for each output.
        weights: (M,): the clients' weights; only their ratios matter.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        start: (…, p, q): θ_0, which is kept in directions that no client sees; default 0.

    Returns:
        θ, of shape (…, p, q).
    """
    if H.shape[:-1] != b.shape[:-1] or weights.shape != (H.shape[-3],):
        raise DataError(
            f"H (…, M, p, p), b (…, M, p, q) and M weights are needed, got {H.shape}, {b.shape} and {weights.shape}"
        )
    if not np.isfinite(H).all() or not np.isfinite(b).all() or not (weights > 0).all():
        raise DataError("Hessians, right-hand sides and weights are finite, and weights are positive")
    w = (weights / weights.sum())[:, None]
    values, vectors = np.linalg.eigh(H)
    filtered = method.filter(values)
    if not np.isfinite(filtered).all():
        raise ConfigError(f"{method} diverges here beyond all numbers; shorten the step size")
    share = w * filtered  # of w_i Q_i
    A = ((vectors * (share * values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)).sum(axis=-3)
    right = (vectors @ (share[..., None] * (np.swapaxes(vectors, -1, -2) @ b))).sum(axis=-3)
    mu, directions = np.linalg.eigh(A)  # A is symmetric, because Q_i is a function of H_i
    least = ROUNDING * A.shape[-1] * np.abs(mu).max(axis=-1, keepdims=True)
    speed = method.step_size * mu
    if (speed >= 2).any() or (mu < -least).any():
        raise ConfigError(
            f"{method} diverges here: a round multiplies an error by {float(np.abs(1 - speed).max()):.3g}; shorten the "
            "step size to below 1 / the largest eigenvalue of the clients' Hessians"
        )
    inverse = np.where(mu > least, 1 / np.where(mu > least, mu, 1.0), 0.0)
    if start is not None:
        right = right - A @ start
    found = directions @ (inverse[..., None] * (np.swapaxes(directions, -1, -2) @ right))
    return found if start is None else start + found
