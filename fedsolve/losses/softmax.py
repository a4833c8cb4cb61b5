"""The softmax loss: ℓ = log Σ_c e^{η_c} − η_y, for k classes, with a column of w for each.

Adding one vector to all columns changes no probability. Where no penalty decides, a term is added that does not move
the minimum, where it is zero, and makes it the only one: ½ (Σ_c η_c)² / k of each sample without l2 and l1, in which
the columns' units cancel; ½ (Σ_c b_c)² / k of the intercepts b where only these are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import device

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import namespace, to_numpy
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class Softmax(LinearLoss):
    """Multinomial logistic regression for labels 0 … classes − 1, or rows of class probabilities."""

    classes: int = 2

    separable: ClassVar[bool] = False
    curvature_bound: ClassVar[float] = 0.5  # of diag(p) − ppᵀ
    classifies: ClassVar[bool] = True
    error_name: ClassVar[str] = "log-loss"
    link: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            raise ConfigError(f"the softmax loss has at least two classes, got {self.classes}")

    @property
    def _pinned(self) -> bool:
        """Whether the sums of predictors over the classes are held at zero by the samples."""
        return not self.l2 and not self.l1

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        losses = self.error(xp, eta, y)
        return losses + 0.5 / self.classes * xp.sum(eta, axis=1) ** 2 if self._pinned else losses

    def error(self, xp: Namespace, eta: Array, y: Array) -> Array:
        top = xp.max(eta, axis=1, keepdims=True)
        return xp.log(xp.sum(xp.exp(eta - top), axis=1)) + top[:, 0] - xp.sum(y * eta, axis=1)

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        slopes = _probabilities(xp, eta) - y
        return slopes + xp.sum(eta, axis=1, keepdims=True) / self.classes if self._pinned else slopes

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        raise NotImplementedError("the classes are coupled: see _hessian")

    def hessian_weights(self, xp: Namespace, eta: Array, y: Array) -> Iterator[Array]:
        """p_a (δ_ab − p_b) of each sample for the classes a ≤ b, one a at a time, without the term that makes the
        minimum unique, in which all count alike."""
        P = _probabilities(xp, eta)
        for a in range(self.classes):
            itself = P[:, a : a + 1]
            yield xp.concat([itself * (1.0 - itself), -itself * P[:, a + 1 :]], axis=1)

    def responses(self, xp: Namespace, eta: Array) -> Array:
        """The probability of each class."""
        return _probabilities(xp, eta)

    def hits(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        one = xp.ones_like(eta[:, 0])
        return xp.where(xp.argmax(eta, axis=1) == xp.argmax(y, axis=1), one, 0.0 * one)

    def hinders(self, xp: Namespace, change: Array, y: Array) -> Array:
        # Free is a change in which every class that the sample may be of gains as much as any other.
        gains = xp.where(y > 0, change, xp.max(change, axis=1, keepdims=True) + 0.0 * change)
        return xp.max(change, axis=1) - xp.min(gains, axis=1)

    def targets(self, client: Client) -> Array:
        """One-hot rows."""
        if client.y.ndim == 2:
            return client.y

        def compute() -> Array:
            xp, y = client.xp, client.y
            if client.is_numpy:
                return np.eye(self.classes)[y.astype(np.int64)]
            classes = xp.arange(self.classes, dtype=y.dtype, device=device(y))
            return xp.astype(y[:, None] == classes[None, :], y.dtype)

        return client.cached(("one-hot", self.classes), compute)

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        return (self.width(features), self.classes)

    def outputs(self, client: Client) -> tuple[int, ...]:
        return (self.classes,)

    def _hessian(self, client: Client, w: Array) -> Symmetric:
        """Block (a, b) is Σ s (p_a δ_ab − p_a p_b) x xᵀ / Σ s; rows of w are outer, classes inner."""
        client.count("hessians", 1)
        xp, s, design = client.xp, client.sample_weight, self.design(client)
        P = _probabilities(xp, self.predictor(client, w))
        scale = (1.0 if s is None else s) / client.weight
        p, k = w.shape
        blocks = xp.zeros((p, k, p, k), dtype=xp.float64, device=w.device)
        pinned = design.gram(scale / k * xp.ones_like(P[:, 0])).full() if self._pinned else 0.0
        for a in range(k):
            for b in range(a, k):
                # A Gram matrix has weights ≥ 0: off the diagonal it is subtracted.
                block = (
                    design.gram(scale * P[:, a] * (1.0 - P[:, a])).full()
                    if a == b
                    else -design.gram(scale * P[:, a] * P[:, b]).full()
                ) + pinned
                blocks[:, a, :, b] = block
                blocks[:, b, :, a] = block
        for row in self._loose_rows(p):
            blocks[row, :, row, :] += 1.0 / k
        hessian = Symmetric(xp.reshape(blocks, (p * k, p * k)), exact=client.is_numpy)
        if not self.l2:
            return hessian
        mask = self._mask(client.y, p)
        return hessian.add_diagonal(self.l2 * xp.reshape(mask[:, None] * xp.ones_like(w), (-1,)))

    def _units(self, client: Client) -> Array | None:
        units, xp = super()._units(client), client.xp
        if units is None:
            return None
        return xp.reshape(units[:, None] * xp.ones((1, self.classes), dtype=xp.float64, device=units.device), (-1,))

    def _curved(self, client: Client, w: Array, change: Array) -> Array:
        """(diag(p) − ppᵀ) · change of each sample."""
        xp, P = client.xp, self._at(client, w)
        weighted = P * change
        curved = weighted - P * xp.sum(weighted, axis=1, keepdims=True)
        return curved + xp.sum(change, axis=1, keepdims=True) / self.classes if self._pinned else curved

    def _sample_curvature(self, client: Client, w: Array) -> Array | None:
        """The diagonal of diag(p) − ppᵀ of each sample, and of the term that makes the minimum unique."""
        P = self._at(client, w)
        return P * (1.0 - P) + (1.0 / self.classes if self._pinned else 0.0)

    def _at(self, client: Client, w: Array) -> Array:
        """The probabilities of each sample, kept for the last w."""
        return client.at((self, "probabilities"), w, lambda v: _probabilities(client.xp, self.predictor(client, v)))

    def _loose_rows(self, p: int) -> range:
        """The rows whose sum over the classes neither samples nor penalty decide."""
        return range(p - 1, p) if self.intercept == "free" and not self._pinned else range(0)

    def penalty(self, w: Array) -> float:
        p, k = w.shape
        xp, rows = namespace(w), self._loose_rows(p)
        sums = xp.sum(w[rows.start :, :], axis=1) if rows else None
        return super().penalty(w) + (0.0 if sums is None else 0.5 / k * float(xp.sum(sums * sums)))

    def _add_penalty_gradient(self, g: Array, w: Array) -> Array:
        g = super()._add_penalty_gradient(g, w)
        rows, k = self._loose_rows(w.shape[0]), w.shape[1]
        if rows:
            g[rows.start :, :] += namespace(w).sum(w[rows.start :, :], axis=1, keepdims=True) / k
        return g

    def penalty_diagonal(self, order: int) -> Array:
        return np.repeat(self.row_penalties(order // self.classes), self.classes)

    def penalty_curvature(self, shape: tuple[int, ...]) -> Array:
        diagonal = super().penalty_curvature(shape)
        diagonal[self._loose_rows(shape[0]), :] += 1.0 / self.classes
        return diagonal

    def smoothness(self, client: Client) -> float:
        # The eigenvalue of (1/k) 1 1ᵀ is 1, on a vector on which the rest has none.
        loose = 1.0 if self._loose_rows(self.design(client).shape[1]) else 0.0
        steepest = 1.0 if self._pinned else self.curvature_bound
        return steepest * self._largest_of_gram(client) / client.weight + max(self.l2, loose)

    def check(self, client: Client) -> None:
        y = to_numpy(client.y)
        if y.ndim == 2:
            if y.shape[1] != self.classes or y.min() < 0 or np.abs(y.sum(axis=1) - 1).max() > 1e-9:
                raise DataError(
                    f"client {client.name!r}: rows of y are probabilities of {self.classes} classes, "
                    f"got shape {y.shape} and sums from {y.sum(axis=1).min():g} to {y.sum(axis=1).max():g}"
                )
        elif (y != np.floor(y)).any() or y.min() < 0 or y.max() >= self.classes:
            raise DataError(
                f"client {client.name!r}: labels of Softmax(classes={self.classes}) are 0 … {self.classes - 1}, "
                f"got {y.min():g} … {y.max():g}"
            )

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, self.intercept is not None, self.link, features=self.features)


def _probabilities(xp: Namespace, eta: Array) -> Array:
    e = xp.exp(eta - xp.max(eta, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)
