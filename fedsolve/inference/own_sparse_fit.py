"""A client's own fit with an l1 penalty: proximal Newton steps, as the server of a run takes them, at one client.

argmin f_j(w) + (pull/2) ‖w‖² + l1 ‖w‖₁. Each step looks only at weights that are not zero or that want to leave it
(a working set), so its cost is that of the support, and one product with the Hessian.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.numerics.proximal import penalty, proximal_newton_point
from fedsolve.typing import Array

STEPS = 100
_EPS = 2.220446049250313e-16


def sparse_fit(client: Client, loss: LinearLoss, pull: float, start: Array | None) -> Array:
    """The minimum, from `start` (else from zero). Raises DataError if Newton's method finds none."""
    w = to_numpy(loss.zero(client) if start is None else start).astype(np.float64)
    c = loss.l1_weights(w.shape)
    if loss.quadratic:
        H, at_zero = _normal(client, loss, pull)
        return like(_point(H, at_zero + H @ w, w, c), client.y)

    def total(v: Array) -> float:
        return loss.value(client, like(v, client.y)) + 0.5 * pull * float((v * v).sum()) + penalty(v, c)

    here = total(w)
    for _ in range(STEPS):
        at = like(w, client.y)
        g = to_numpy(loss.gradient(client, at)) + pull * w
        H = to_numpy(loss.hessian(client, at).full())
        step = w - _point(H + pull * np.eye(len(H)), g, w, c)
        promised = float((g * step).sum()) + penalty(w, c) - penalty(w - step, c)
        if promised <= 1e-14 * (1.0 + abs(here)):
            return like(w - step, client.y)
        eta = 1.0
        while (there := total(w - eta * step)) > here - 1e-4 * eta * promised + 8 * _EPS * abs(here):
            eta *= 0.5
            if eta < 1e-10:
                return like(w, client.y)  # no step lowers the value any more: rounding has the last word
        w, here = w - eta * step, there
    raise DataError(f"client {client.name!r}: {STEPS} proximal Newton steps did not solve its own problem")


def _normal(client: Client, loss: LinearLoss, pull: float) -> tuple[Array, Array]:
    """Hessian and gradient at zero of a quadratic; what has no penalty in it serves all penalties."""
    bare, zero = replace(loss, l2=0.0, l1=0.0), loss.zero(client)
    gradient = client.cached((bare, "own gradient"), lambda: bare.gradient(client, zero))
    H = to_numpy(bare.hessian(client, zero).full())
    return H + np.diag(loss.row_penalties(len(H)) + pull), to_numpy(gradient)


def _point(H: Array, g: Array, w: Array, c: Array) -> Array:
    """The minimum of the quadratic model with the penalty; columns that share one Hessian are problems of their own."""
    if w.ndim == 2 and len(H) == len(w):
        return np.stack([_of_vector(H, g[:, j], w[:, j], c[:, j]) for j in range(w.shape[1])], axis=1)
    return _of_vector(H, g.reshape(-1), w.reshape(-1), c.reshape(-1)).reshape(w.shape)


def _of_vector(H: Array, g: Array, w: Array, c: Array) -> Array:
    inside = (w != 0) | (c == 0) | (np.abs(g) > c)
    while True:
        places = np.flatnonzero(inside)
        v = w.copy()
        v[places] = proximal_newton_point(H[np.ix_(places, places)], g[places], w[places], c[places])
        slopes = g + H[:, places] @ (v - w)[places]
        outside = ~inside & (np.abs(slopes) > c * (1 + 1e-10))
        if not outside.any():
            return v
        inside |= outside
