"""Penalties of a linear model's weights: l2 with the clients, l1 at the server.

`w` has the intercept last; a free intercept is not penalised. With several outputs `w` is a matrix, a column for each.
An l1 penalty is no client's business: f is smooth, and the server adds l1 ‖w‖₁ (see `numerics.proximal`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from array_api_compat import device

from fedsolve.errors import ConfigError
from fedsolve.features.base import FeatureMap
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array

Intercept = Literal["free", "penalised"] | None
# The number of features above which no Gram matrix is formed for its largest eigenvalue alone, and no pass over the
# weights is made that can be spared.
BY_PRODUCTS = 2048


@dataclass(frozen=True)
class Penalised:
    """The hyper-parameters of every linear loss, and what its penalties come to.

    Args:
        l2: Adds (l2/2) ‖w‖². Default 0.
        intercept: "free" adds an intercept that is not penalised, "penalised" one that is; None, the default, has none.
        l1: Adds l1 ‖w‖₁, for algorithms that support it. Default 0.
        features: A feature map φ, such as `fs.RandomFourier(…)`, that stands between the columns and the weights.
    """

    l2: float = 0.0
    intercept: Intercept = None
    l1: float = 0.0
    features: FeatureMap | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("l2", "l1"):
            given = getattr(self, name)
            if not (np.isfinite(given) and given >= 0):
                raise ConfigError(f"{name} is a finite penalty of at least 0, got {given}")
        if self.intercept not in ("free", "penalised", None):
            raise ConfigError(f"intercept is 'free', 'penalised' or None, got {self.intercept!r}")
        if self.features is not None and not isinstance(self.features, FeatureMap):
            raise ConfigError(f"features is a feature map such as RandomFourier(…), or None, got {self.features!r}")

    def penalty(self, w: Array) -> float:
        """(l2/2) ‖w‖², without a free intercept."""
        if not self.l2:
            return 0.0
        penalised = w[:-1, ...] if self.intercept == "free" else w
        return 0.5 * self.l2 * float(namespace(w).sum(penalised * penalised))

    # Along a line the penalties are a parabola: for many weights its three numbers spare a pass for each step.

    def _penalty_along(self, w: Array, p: Array) -> Callable[[float], float]:
        """η ↦ penalty(w − ηp)."""
        if w.shape[0] <= BY_PRODUCTS:
            return lambda eta: self.penalty(w - eta * p)
        here, slope, bend = self._penalty_parabola(w, p)
        return lambda eta: here - eta * slope + eta * eta * bend

    def _penalty_slope_along(self, w: Array, p: Array) -> Callable[[float], float]:
        """η ↦ ∇penalty(w − ηp) · p."""
        xp = namespace(w)
        if w.shape[0] <= BY_PRODUCTS:
            return lambda eta: float(xp.sum(self._add_penalty_gradient(xp.zeros_like(w), w - eta * p) * p))
        _, slope, bend = self._penalty_parabola(w, p)
        return lambda eta: slope - 2 * eta * bend

    def _penalty_parabola(self, w: Array, p: Array) -> tuple[float, float, float]:
        """penalty(w), ∇penalty(w) · p and penalty(p)."""
        xp = namespace(w)
        slope = float(xp.sum(self._add_penalty_gradient(xp.zeros_like(w), w) * p))
        return self.penalty(w), slope, self.penalty(p)

    def _add_penalty_gradient(self, g: Array, w: Array) -> Array:
        if self.l2:
            if self.intercept == "free":
                mask = self._mask(w, w.shape[0])
                w = w * (mask if w.ndim == 1 else mask[:, None])
            g += self.l2 * w
        return g

    def _mask(self, model: Array, p: int) -> Array:
        """1 for each penalised coordinate, 0 for a free intercept; of the library and on the device of `model`."""
        xp = namespace(model)
        mask = xp.ones(p, dtype=xp.float64, device=device(model))
        if self.intercept == "free":
            mask[-1] = 0.0
        return mask

    def row_penalties(self, rows: int) -> Array:
        """The l2 penalty of each row of w, at the server."""
        penalties = np.full(rows, float(self.l2))
        if self.intercept == "free":
            penalties[-1] = 0.0
        return penalties

    def penalty_diagonal(self, order: int) -> Array:
        """The l2 penalty's part of a Hessian of this order, at the server."""
        return self.row_penalties(order)

    def penalty_curvature(self, shape: tuple[int, ...]) -> Array:
        """The diagonal of the penalties' Hessian at the server, in the shape of `data_diagonal`."""
        return self.penalty_diagonal(int(np.prod(shape))).reshape(shape)

    def penalty_product(self, v: Array) -> Array:
        """The penalties' Hessian times v at the server."""
        return self._add_penalty_gradient(np.zeros(v.shape), v)  # which is linear

    def l1_weights(self, shape: tuple[int, ...]) -> Array:
        """The weight of each |w_i| at the server."""
        weights = np.full(shape, float(self.l1))
        if self.intercept == "free":
            weights[-1] = 0.0
        return weights

    def penalty_gradient(self, w: Array) -> Array:
        """l2 w, without a free intercept."""
        return self._add_penalty_gradient(namespace(w).zeros_like(w), w)

    def strong_convexity(self) -> float:
        """A μ with f ≥ its tangent + (μ/2)‖·‖² whatever the data: l2 if it reaches every coordinate, else 0."""
        return 0.0 if self.intercept == "free" else self.l2
