"""Losses of linear models: what a client computes of its part of the objective.

    f_j(w) = Σ_i s_i ℓ(x_iᵀw, y_i) / Σ_i s_i + (l2/2) ‖w‖²,        f = Σ_j p_j f_j,   p_j = weight_j / Σ weight

so that the weighted mean of the clients' values, gradients and Hessians is that of the pooled data. `w` has the
intercept last; a free intercept is not penalised. With several outputs `w` is a matrix, a column for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from array_api_compat import device

from fedsolve.arrays import Symmetric
from fedsolve.client import Client
from fedsolve.design import Design, with_intercept
from fedsolve.errors import ConfigError
from fedsolve.linalg import Factor, factor, largest_eigenvalue, namespace
from fedsolve.models import LinearModel
from fedsolve.typing import Array

Intercept = Literal["free", "penalised"] | None


@dataclass(frozen=True)
class LinearLoss(ABC):
    """A loss of the linear predictor η = Xw. Subclasses say what ℓ is, one sample at a time."""

    l2: float = 0.0
    intercept: Intercept = None

    quadratic: ClassVar[bool] = False
    curvature_bound: ClassVar[float]  # sup of d²ℓ/dη²
    provides: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "minimise"})

    def __post_init__(self) -> None:
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise ConfigError(f"l2 is a finite penalty of at least 0, got {self.l2}")
        if self.intercept not in ("free", "penalised", None):
            raise ConfigError(f"intercept is 'free', 'penalised' or None, got {self.intercept!r}")

    # ── one sample at a time ──

    @abstractmethod
    def pointwise(self, xp: Any, eta: Array, y: Array) -> Array:
        """ℓ(η, y) of each sample (summed over outputs)."""

    @abstractmethod
    def derivative(self, xp: Any, eta: Array, y: Array) -> Array:
        """dℓ/dη."""

    @abstractmethod
    def curvature(self, xp: Any, eta: Array, y: Array) -> Array | None:
        """d²ℓ/dη² of each sample; None for 1."""

    @abstractmethod
    def check(self, client: Client) -> None:
        """Refuse targets outside the loss's domain."""

    @abstractmethod
    def model(self, w: Array) -> LinearModel:
        """The model that weights stand for."""

    # ── a client's part ──

    def value(self, client: Client, w: Array) -> float:
        """f_j(w)."""
        xp = client.xp
        client.count("losses", client.n_samples)
        losses = self.pointwise(xp, self.predictor(client, w), client.y)
        s = client.sample_weight
        total = xp.sum(losses) if s is None else s @ losses
        return float(total) / client.weight + self.penalty(w)

    def along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        """f_j(w − ηp) for each η of a grid: two products with the data serve them all."""
        xp, s = client.xp, client.sample_weight
        here, change = self.predictor(client, w), self.design(client).matvec(p)
        client.count("losses", client.n_samples * steps.shape[0])
        values = []
        for eta in (float(step) for step in steps):
            losses = self.pointwise(xp, here - eta * change, client.y)
            total = xp.sum(losses) if s is None else s @ losses
            values.append(float(total) / client.weight + self.penalty(w - eta * p))
        return xp.asarray(values, dtype=xp.float64, device=device(client.y))

    def gradient(self, client: Client, w: Array) -> Array:
        """∇f_j(w)."""
        y, s, design = client.y, client.sample_weight, self.design(client)
        client.count("gradients", client.n_samples)
        r = self.derivative(client.xp, client.at(("predictor", self.intercept), w, design.matvec), y)
        if s is not None:
            r = r * (s if r.ndim == 1 else s[:, None])
        g = design.rmatvec(r)
        g /= client.weight
        if self.l2:
            g += self.l2 * self._penalised(w)
        return g

    def hessian(self, client: Client, w: Array) -> Symmetric:
        """∇²f_j(w); with several outputs the one block that all of them share."""
        if self.quadratic:
            return client.cached((self, "hessian"), lambda: self._hessian(client, w))
        return self._hessian(client, w)

    def _hessian(self, client: Client, w: Array) -> Symmetric:
        xp = client.xp
        client.count("hessians", 1)
        c, s = self.curvature(xp, self.predictor(client, w), client.y), client.sample_weight
        if s is not None:
            c = s if c is None else c * s
        if c is None:
            gram = self.design(client).gram().map(lambda array: array / client.weight)
        else:
            gram = self.design(client).gram(c / client.weight)  # scaling n weights is cheaper than p² entries
        return gram.add_diagonal(self.l2 * self._mask(client.y, gram.n)) if self.l2 else gram

    def hessian_factor(self, client: Client, w: Array) -> Factor:
        """A factorisation of the local Hessian, kept while it holds."""

        def compute() -> Factor:
            client.count("factorisations", 1)
            return factor(self.hessian(client, w))

        return client.cached((self, "factor"), compute, at=None if self.quadratic else w)

    def minimise(self, client: Client) -> Array:
        """argmin f_j: the local fit."""
        from fedsolve.losses.local import newton

        return newton(self, client)

    def predictor(self, client: Client, w: Array) -> Array:
        """η = Xw, kept for the last w asked for: value, gradient and Hessian at one point share it."""
        return client.at(("predictor", self.intercept), w, self.design(client).matvec)

    def design(self, client: Client) -> Design:
        """The client's inputs, with the intercept's column if there is one."""
        inner = client.design
        if self.intercept is None:
            return inner
        return client.cached("with intercept", lambda: with_intercept(inner))

    # ── the objective ──

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of w."""
        return (features + (self.intercept is not None), *outputs)

    def penalty(self, w: Array) -> float:
        """(l2/2) ‖w‖², without a free intercept."""
        if not self.l2:
            return 0.0
        penalised = w[:-1, ...] if self.intercept == "free" else w
        xp = namespace(w)
        return 0.5 * self.l2 * float(xp.sum(penalised * penalised))

    def _penalised(self, w: Array) -> Array:
        if self.intercept != "free":
            return w
        mask = self._mask(w, w.shape[0])
        return w * (mask if w.ndim == 1 else mask[:, None])

    def _mask(self, model: Array, p: int) -> Array:
        """1 for each penalised coordinate, 0 for a free intercept; of the library and on the device of `model`."""
        xp = namespace(model)
        mask = xp.ones(p, dtype=xp.float64, device=device(model))
        if self.intercept == "free":
            mask[-1] = 0.0
        return mask

    def smoothness(self, client: Client) -> float:
        """A bound on λ_max(∇²f_j) for all w: curvature_bound · λ_max(Σ s x xᵀ / Σ s) + l2."""

        def compute() -> float:
            gram = self.design(client).gram(client.sample_weight)
            return self.curvature_bound * largest_eigenvalue(gram) / client.weight + self.l2

        return client.cached((self, "smoothness"), compute)

    def strong_convexity(self) -> float:
        """A μ with f ≥ its tangent + (μ/2)‖·‖² whatever the data: l2 if it reaches every coordinate, else 0."""
        return 0.0 if self.intercept == "free" else self.l2
