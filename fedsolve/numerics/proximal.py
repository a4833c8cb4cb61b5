"""The l1 penalty at the server: minimum-norm subgradients, and the proximal Newton step.

F(w) = f(w) + Σ_i c_i |w_i|. Clients know only the smooth f; what they send is what they send without a penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    diagonal = np.diagonal(H)
    v[(diagonal <= 0) & (c > 0)] = 0.0  # a feature that is nowhere: its weight only costs
    reduced = _without_unpenalised(H, g + H @ (v - w), c)
    r = reduced.gradient  # of the model, at v
    curved = [i for i in np.flatnonzero(diagonal > 0) if i not in reduced.eliminated and reduced.curvature[i, i] > 0]
    for _ in range(sweeps):
        largest = 0.0
        for i in curved:
            each = reduced.curvature[i, i]
            target = v[i] - r[i] / each
            new = np.sign(target) * max(abs(target) - c[i] / each, 0.0)
            if new != v[i]:
                largest = max(largest, abs(new - v[i]))
                r += reduced.curvature[:, i] * (new - v[i])
                v[i] = new
        polished = _on_support(H, g, w, c, v)
        if polished is not None:
            return polished
        if largest <= 1e-15 * np.abs(v).max(initial=1e-300):
            break  # as good as float64 gives, on a support whose solution is not unique
    return reduced.completed(H, g, w, v)


@dataclass(frozen=True)
class _Reduced:
    """The model after minimising over the coordinates without a penalty: a quadratic in the others alone.

    Columns far from zero are nearly parallel to an intercept, so that coordinate descent on both creeps. Without the
    intercept the others are columns about their means.
    """

    curvature: Array
    gradient: Array
    eliminated: Array  # places of the coordinates that are minimised over; none where that is not unique

    def completed(self, H: Array, g: Array, w: Array, v: Array) -> Array:
        """v with the eliminated coordinates at their minimum."""
        free = self.eliminated
        if free.size:
            v = v.copy()
            v[free] -= factor(H[np.ix_(free, free)]).solve((g + H @ (v - w))[free])
        return v


def _without_unpenalised(H: Array, r: Array, c: Array) -> _Reduced:
    free = np.flatnonzero((c == 0) & (np.diagonal(H) > 0))
    if free.size in (0, len(c)):
        return _Reduced(H, r, free[:0])
    solver = factor(H[np.ix_(free, free)])
    if not solver.definite:
        return _Reduced(H, r, free[:0])
    return _Reduced(H - H[:, free] @ solver.solve(H[free, :]), r - H[:, free] @ solver.solve(r[free]), free)


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
