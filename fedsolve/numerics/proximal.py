"""The l1 penalty at the server: minimum-norm subgradients, and the proximal Newton step.

F(w) = f(w) + Σ_i c_i |w_i|. Clients know only the smooth f; what they send is what they send without a penalty.
"""

from __future__ import annotations

import numpy as np

from fedsolve.numerics.linalg import factor
from fedsolve.typing import Array


def penalty(w: Array, c: Array) -> float:
    """Σ c_i |w_i|."""
    return float((c * np.abs(w)).sum())


def subgradient(g: Array, w: Array, c: Array) -> Array:
    """The subgradient of F at w of least norm: zero exactly at a minimum."""
    at_zero = np.sign(g) * np.maximum(np.abs(g) - c, 0.0)
    return np.where(w != 0, g + c * np.sign(w), at_zero)


def proximal_newton_point(H: Array, g: Array, w: Array, c: Array, sweeps: int = 1000) -> Array:
    """argmin_v gᵀ(v − w) + ½ (v − w)ᵀ H (v − w) + Σ c_i |v_i|.

    Coordinate descent finds the signs; with them the minimum is one linear solve on the support, which is exact. If
    the solve confirms the signs and the optimality conditions, it is done; else coordinate descent goes on from it.
    """
    v = w.copy()
    r = g.copy()  # the model's gradient at v: g + H (v − w)
    diagonal = np.diagonal(H)
    curved = np.flatnonzero(diagonal > 0)
    v[(diagonal <= 0) & (c > 0)] = 0.0  # a feature that is nowhere: its weight only costs
    for _ in range(sweeps):
        largest = 0.0
        for i in curved:
            target = v[i] - r[i] / diagonal[i]
            new = np.sign(target) * max(abs(target) - c[i] / diagonal[i], 0.0)
            if new != v[i]:
                largest = max(largest, abs(new - v[i]))
                r += H[:, i] * (new - v[i])
                v[i] = new
        polished = _on_support(H, g, w, c, v)
        if polished is not None:
            return polished
        if largest <= 1e-15 * np.abs(v).max(initial=1e-300):
            break  # as good as float64 gives, on a support whose solution is not unique
    return v


def _on_support(H: Array, g: Array, w: Array, c: Array, v: Array) -> Array | None:
    """The minimum with the signs of v, if it is unique, has them, and is optimal."""
    free = (v != 0) | ((c == 0) & (np.diagonal(H) > 0))
    signs = np.sign(v)
    candidate = np.where(free, 0.0, v)
    if free.any():
        solver = factor(H[np.ix_(free, free)])
        if not solver.definite:
            return None
        right = -(g + H @ (candidate - w) + c * signs)[free]
        candidate[free] = solver.solve(right)
    gradient = g + H @ (candidate - w)
    kept = np.where(c > 0, np.sign(candidate) == signs, True).all()
    slack = 1e-12 * (np.abs(g).max() + np.abs(H @ (candidate - w)).max() + c.max())
    optimal = (np.abs(gradient[~free]) <= c[~free] + slack).all()
    return candidate if kept and optimal else None


def newton_step(H: Array, g: Array, w: Array, c: Array) -> tuple[Array, float]:
    """The step p with w − p the proximal Newton point, and the decrease of F that the model promises.

    Columns that share one Hessian are problems of their own; a Hessian of all entries sees w as one vector.
    """
    if w.ndim == 2 and H.shape[0] == w.shape[0]:
        columns = range(w.shape[1])
        v = np.stack([proximal_newton_point(H, g[:, j], w[:, j], c[:, j]) for j in columns], axis=1)
    else:
        v = proximal_newton_point(H, g.reshape(-1), w.reshape(-1), c.reshape(-1)).reshape(w.shape)
    promised = float((g * (w - v)).sum() + (c * (np.abs(w) - np.abs(v))).sum())
    return w - v, promised
