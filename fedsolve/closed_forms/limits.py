"""Where FedAvg and FedProx end on a squared loss: their limiting points, which are not the pooled solution.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (section 7.1)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

A round is θ ← θ − η Σ_i w_i Q_i (H_i θ − b_i), with H_i the Hessian of client i, b_i = −∇ℓ_i(0) and Q_i = p(H_i) of
`methods`. It stands still where Σ w_i Q_i (H_i θ − b_i) = 0. With s = 1, and only then, Q_i = I and this is the pooled
solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from fedsolve.closed_forms.client_rows import (
    ROUNDING,
    checked_rows,
    differing_scales,
    diverging,
    least_squares,
    numbers,
    weighed_rows,
)
from fedsolve.closed_forms.methods import Method
from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError
from fedsolve.features.base import dense
from fedsolve.federation.client import Client
from fedsolve.federation.memory import session_memory
from fedsolve.losses import Squared
from fedsolve.numerics.linalg import to_numpy
from fedsolve.tables.column_names import agreed_columns
from fedsolve.typing import Array


def limit_point(
    loss: Squared,
    clients: Sequence[Client],
    method: Method,
    start: Array | None = None,
    *,
    transform: Transform | None = None,
) -> Array:
    """The weights to which `fs.FedAvg` or `fs.FedProx` converges on this loss and these clients.

    Args:
        loss: With any l2 penalty, intercept and feature map; without an l1 penalty.
        clients: With sample weights and offsets, where they have them. Their columns are taken as they were given,
            whatever has been run on them.
        method: `LocalSteps(η, s)` or `ProximalStep(1/pull)`; see `method_of`.
        start: The weights the run starts from; default 0. They matter only in directions that no client sees.
        transform: The preprocessing of the run, `run.model.transform`, if it has one.

    Returns:
        The weights in the shape of `model.w`.

    Raises:
        ConfigError: The step size is so long that the run diverges, or the loss has an l1 penalty.
    """
    if loss.l1:
        raise ConfigError(f"the limit is known without an l1 penalty only, got l1={loss.l1:g}")
    if not clients:
        raise DataError("a limit needs at least one client")
    rows, targets = zip(*(_penalised_rows(loss, client) for client in _fresh(clients, transform)), strict=True)
    checked_rows(rows, targets)
    return _limit(rows, targets, np.array([float(client.weight) for client in clients]), method, start)


def _fresh(clients: Sequence[Client], transform: Transform | None) -> list[Client]:
    """The same data without what runs have left there; columns with names are in the order of the first client's."""
    names = agreed_columns({client.name: client.feature_names for client in clients})
    known = {"columns": names, "transform": transform}
    made: list[Client] = []
    for client in clients:
        twin = copy(client)
        twin.memory = session_memory({key: value for key, value in known.items() if value is not None})
        made.append(twin)
    return made


def _penalised_rows(loss: Squared, client: Client) -> tuple[Array, Array]:
    """A and c for which ‖Aw − c‖²/2 is the client's objective up to a constant; the penalty is rows √l2 of A."""
    X = np.concatenate([to_numpy(dense(block)) for _, block in loss.design(client).blocks()])
    y = to_numpy(client.y if client.offset is None else client.y - client.offset)
    s = np.ones(len(X)) if client.sample_weight is None else to_numpy(client.sample_weight)
    root = np.sqrt(s / float(client.weight))
    A, c = root[:, None] * X, root.reshape(-1, *[1] * (y.ndim - 1)) * y
    if not loss.l2:
        return A, c
    penalties = np.diag(np.sqrt(loss.row_penalties(X.shape[1])))
    return np.concatenate([A, penalties]), np.concatenate([c, np.zeros((X.shape[1], *y.shape[1:]))])


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
    X, y = checked_rows(X, y)
    roots = [np.sqrt(len(rows)) for rows in X]
    A, c = ([one / root for one, root in zip(part, roots, strict=True)] for part in (X, y))
    return _limit(A, c, np.array([float(len(rows)) for rows in X]), method, start)


def _limit(A: Sequence[Array], c: Sequence[Array], weights: Array, method: Method, start: Array | None) -> Array:
    """θ with Σ w_i A_iᵀP_i (A_i θ − c_i) = 0."""
    shape = (A[0].shape[1], *c[0].shape[1:])
    first = np.zeros(shape) if start is None else numbers("start", start)
    if first.shape != shape:
        raise DataError(f"start has the shape of the result, {shape}, got {first.shape}")
    found, columns = first.reshape(len(first), -1), [np.reshape(mine, (len(mine), -1)) for mine in c]
    shares = weights / weights.sum()
    weighed = weighed_rows(A, shares, method)
    if weighed is None:  # a client's own steps overshoot; the average of all may still converge
        H = np.stack([rows.T @ rows for rows in A])
        b = np.stack([rows.T @ mine for rows, mine in zip(A, columns, strict=True)])
        return fixed_point(H, b, weights, method, found).reshape(shape)
    M, weighings = weighed
    solve = least_squares(M)
    # What is left to explain from the start: directions that nobody sees stay there. The second time corrects rounding.
    for _ in range(2):
        left = [one.root(mine - rows @ found) for one, rows, mine in zip(weighings, A, columns, strict=True)]
        found = found + solve(np.concatenate([np.sqrt(w) * one for w, one in zip(shares, left, strict=True)]))
    return found.reshape(shape)


def client_sums(X: Sequence[Array], y: Sequence[Array]) -> tuple[Array, Array, Array]:
    """X_iᵀX_i/n_i (M × d × d), X_iᵀy_i/n_i (M × d × q) and n_i of each client."""
    X, y = checked_rows(X, y)
    H = np.stack([rows.T @ rows / len(rows) for rows in X])
    pairs = zip(X, y, strict=True)
    b = np.stack([rows.T @ np.reshape(targets, (len(rows), -1)) / len(rows) for rows, targets in pairs])
    return H, b, np.array([float(len(rows)) for rows in X])


def fixed_point(H: Array, b: Array, weights: Array, method: Method, start: Array | None = None) -> Array:
    """θ with Σ w_i Q_i (H_i θ − b_i) = 0, for many problems at once.

    From Hessians it has fewer digits than from rows: its relative error is about 1e-16 times the condition number of
    Σ w_i Q_i H_i. `linear_limit` and `limit_point` take rows.

    Args:
        H: (…, M, p, p): each client's Hessian. Leading axes are problems, such as trials.
        b: (…, M, p, q): −∇ℓ_i(0), a column for each output.
        weights: (M,): the clients' weights; only their ratios matter.
        method: `LocalSteps(η, s)` or `ProximalStep(η)`.
        start: (…, p, q): θ_0, which is kept in directions that no client sees; default 0.

    Returns:
        θ, of shape (…, p, q).

    Raises:
        ConfigError: The step size is so long that the run diverges.
        DataError: Columns have scales so different that rounding hides some of them.
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
        raise diverging(method, float(np.abs(1 - speed).max()))
    if ((mu > least).sum(axis=-1) < _rank_in_like_units((w[..., None] * H).sum(axis=-3))).any():
        raise differing_scales()
    inverse = np.where(mu > least, 1 / np.where(mu > least, mu, 1.0), 0.0)
    if start is not None:
        right = right - A @ start
    found = directions @ (inverse[..., None] * (np.swapaxes(directions, -1, -2) @ right))
    return found if start is None else start + found


def _rank_in_like_units(A: Array) -> Array:
    """The rank of a positive semidefinite matrix whose rows and columns are scaled to a diagonal of 1."""
    squares = np.diagonal(A, axis1=-2, axis2=-1)
    units = np.sqrt(np.where(squares > 0, squares, 1.0))
    values = np.linalg.eigvalsh(A / (units[..., :, None] * units[..., None, :]))
    return np.asarray((values > ROUNDING * A.shape[-1] * values[..., -1:]).sum(axis=-1))
