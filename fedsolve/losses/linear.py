"""Losses of linear models: what a client computes of its part of the objective.

    f_j(w) = Σ_i s_i ℓ(x_iᵀw, y_i) / Σ_i s_i + (l2/2) ‖w‖²,        f = Σ_j p_j f_j,   p_j = weight_j / Σ weight

so that the weighted mean of the clients' values, gradients and Hessians is that of the pooled data. `LinearLoss` is put
together from four parts, each with one idea: `penalised`, `predictor`, `first_order`, `second_order`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import device

from fedsolve.federation.client import Client
from fedsolve.losses.local_fit import newton
from fedsolve.losses.penalised import BY_PRODUCTS
from fedsolve.losses.second_order import SecondOrder
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.lanczos import largest_eigenvalue_by_products
from fedsolve.numerics.linalg import largest_eigenvalue
from fedsolve.typing import Array

# Of the squares of the terms of a change: what the sum is at most where rounding is all there is to it.
ROUNDED = 2.0**-80


@dataclass(frozen=True)
class LinearLoss(SecondOrder):
    """A loss of the linear predictor η = Xw: both a `Pointwise` and a `Loss`.

    Subclasses say what ℓ is, one sample at a time, and which model weights stand for.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "minimise", "solve"})

    @abstractmethod
    def model(self, w: Array) -> LinearModel:
        """The model that weights stand for."""

    def minimise(self, client: Client, anchor: Array | None = None, pull: float = 0.0) -> Array:
        """argmin f_j, the local fit; or argmin f_j + (pull/2) ‖w − anchor‖², the proximal step from an anchor."""
        return newton(self, client, anchor, pull)

    # ── scale and existence of a minimum ──

    def scale(self, client: Client) -> tuple[Array, Array, float]:
        """What f is measured by at this client: the mean square of each column, that of dℓ/dη at w = 0 (of each output
        where outputs are problems of their own), and f_j(0)."""
        xp, s, y = client.xp, client.sample_weight, self.targets(client)
        counted = xp.ones(client.n_samples, dtype=xp.float64, device=device(client.y)) if s is None else s
        columns = self.design(client).squares(counted) / client.weight
        eta = xp.zeros_like(y) if client.offset is None else client.offset + 0.0 * y
        slopes = self.derivative(xp, eta, y) ** 2
        client.count("losses", client.n_samples)
        if slopes.ndim == 2 and not self.separable:
            slopes = xp.sum(slopes, axis=1)
        squares = (xp.sum(slopes, axis=0) if s is None else s @ slopes) / client.weight
        return columns, xp.reshape(squares, (-1,)), self._mean_loss(client, eta)

    def prospect(self, client: Client, step: Array) -> tuple[float, float]:
        """Σ_i Δ_i² and Σ_i of the part of it that sample i hinders, for the changes Δ of η along a step, over the
        samples that count; not weighted, so that one sample is enough. As powers of two: their size is what matters,
        and the exact sums along many steps would give the samples away. What rounding may have left is zero, by the
        size of the columns and not of single changes."""
        self.check_weights(client, step=step)
        xp, s = client.xp, client.sample_weight
        exponent = math.frexp(float(xp.max(xp.abs(step))))[1]  # squares of very small or large changes have no digits
        exponent = exponent if abs(exponent) < 500 else 0
        step = step * 2.0**-exponent
        change = self.design(client).matvec(step)
        hindered = self.hinders(xp, change, self.targets(client)) ** 2
        squares = change * change if change.ndim == 1 else xp.sum(change * change, axis=1)
        if s is not None:
            nothing = xp.zeros_like(squares)
            squares, hindered = xp.where(s > 0, squares, nothing), xp.where(s > 0, hindered, nothing)
        client.count("losses", client.n_samples)
        columns = self._column_squares(client)
        least = float(xp.sum(columns * (step * step if step.ndim == 1 else xp.sum(step * step, axis=1)))) * ROUNDED
        sums = (float(xp.sum(squares)), float(xp.sum(hindered)))
        found = [_power_of_two(one) * 4.0**exponent if not one <= least < math.inf else 0.0 for one in sums]
        return found[0], found[1]

    def _column_squares(self, client: Client) -> Array:
        """Σ x² of each column, over the samples that count."""
        xp, s = client.xp, client.sample_weight

        def compute() -> Array:
            ones = xp.ones(client.n_samples, dtype=xp.float64, device=device(client.y))
            return self.design(client).squares(ones if s is None else xp.where(s > 0, ones, 0.0 * ones))

        return client.cached((self, "column squares"), compute)

    def smoothness(self, client: Client) -> float:
        """A bound on λ_max(∇²f_j) for all w: curvature_bound · λ_max(Σ s x xᵀ / Σ s) + l2; infinite where none is."""
        if not np.isfinite(self.curvature_bound):
            return float("inf")
        return self.smoothness_where(client, self.curvature_bound)

    def smoothness_where(self, client: Client, curvature: float) -> float:
        """λ_max(∇²f_j) where ℓ has this curvature in every row."""
        return curvature * self._largest_of_gram(client) / client.weight + self.l2

    def _largest_of_gram(self, client: Client) -> float:
        """λ_max(Σ s x xᵀ), kept; for many features from products, without the matrix, and then at most 0.1 % more."""

        def compute() -> float:
            design, s = self.design(client), client.sample_weight
            if design.shape[1] <= BY_PRODUCTS:
                return largest_eigenvalue(design.gram(s))

            def product(v: Array) -> Array:
                r = design.matvec(v)
                return design.rmatvec(r if s is None else r * s)

            return largest_eigenvalue_by_products(product, design.shape[1], client.y)

        return client.cached((self, "largest of Gram"), compute)


def _power_of_two(value: float) -> float:
    """The power of two next below a positive number; zero stays zero, and what is not finite as it is."""
    return math.ldexp(0.5, math.frexp(value)[1]) if value > 0 and math.isfinite(value) else value
