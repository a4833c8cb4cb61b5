"""A client's inputs through a feature map, as losses see them: products with Φ, never whole in memory if large.

Φ is computed in blocks of rows, and every product goes over the same blocks in the same order. Up to `KEEP` the blocks
are kept once a product with a vector has computed them; a Gram matrix keeps none, because a method that has it seldom
comes back to Φ. That changes no result, only what is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
from array_api_compat import device

from fedsolve.features.base import FeatureMap
from fedsolve.numerics.design import Design
from fedsolve.numerics.linalg import namespace, scratch
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array

KEEP = 2**28  # bytes of Φ that are kept: 256 MiB
BLOCK = 2**25  # bytes of a block: 32 MiB


class FeatureDesign:
    """The design φ(x_i), for the rows x_i of another; `count` is told of every row that is mapped."""

    def __init__(
        self,
        features: FeatureMap,
        inner: Design,
        count: Callable[[int], None] | None = None,
        keep: int = KEEP,
        block: int = BLOCK,
    ) -> None:
        n, d = inner.shape
        self.features, self.inner, self.count = features, inner, count
        self.shape: tuple[int, int] = (n, features.dimension(d))
        self.xp: ModuleType = namespace(inner.sample)
        self._limits = keep, block
        most = max(1, block // (8 * max(1, self.shape[1])))
        self._rows = max(1, -(-n // max(1, -(-n // most))))  # as many blocks as that needs, all of one size
        self._kept: list[Array] | None = [] if 8 * n * self.shape[1] <= keep else None

    @property
    def sample(self) -> Array:
        return self.inner.sample

    def take(self, part: slice) -> Array:
        block = self.features.block(self.inner.take(part))
        if self.count is not None:
            self.count(block.shape[0])
        return block

    def blocks(self, keep: bool = True) -> Iterator[tuple[slice, Array]]:
        n, kept = self.shape[0], self._kept
        for place, start in enumerate(range(0, n, self._rows)):
            part = slice(start, min(start + self._rows, n))
            if kept is None or (place >= len(kept) and not keep):
                yield part, self.take(part)
                continue
            if place == len(kept):
                kept.append(self.take(part))
            yield part, kept[place]

    def matvec(self, w: Array) -> Array:
        found = [block @ w for _, block in self.blocks()]
        if not found:
            return self._zeros((0, *w.shape[1:]))
        return found[0] if len(found) == 1 else self.xp.concat(found, axis=0)

    def rmatvec(self, r: Array) -> Array:
        total: Array | None = None
        for part, block in self.blocks():
            total = _plus(total, block.T @ r[part, ...])
        return self._zeros((self.shape[1], *r.shape[1:])) if total is None else total

    def squares(self, weights: Array) -> Array:
        total: Array | None = None
        for part, block in self.blocks():
            total = _plus(total, (block * block).T @ weights[part, ...])
        return self._zeros((self.shape[1], *weights.shape[1:])) if total is None else total

    def gram(self, weights: Array | None = None) -> Symmetric:
        return self._pass(weights, None)[0]

    def normal(self, weights: Array | None, r: Array) -> tuple[Symmetric, Array]:
        gram, product = self._pass(weights, r)
        assert product is not None
        return gram, product

    def _pass(self, weights: Array | None, r: Array | None) -> tuple[Symmetric, Array | None]:
        """Σ s_i φ_i φ_iᵀ and Φᵀr, each block serving both."""
        root = None if weights is None else self.xp.sqrt(weights)[:, None]
        p = self.shape[1]
        gram: Array | None = None
        product: Array | None = None
        for part, block in self.blocks(keep=False):
            if r is not None:
                product = _plus(product, block.T @ r[part, ...])
            S = block if root is None else self._scaled(block, root[part, ...])
            gram = _plus(gram, S.T @ S)
        gram = self._zeros((p, p)) if gram is None else gram
        if r is not None and product is None:
            product = self._zeros((p, *r.shape[1:]))
        return Symmetric(gram, exact=self.xp is np), product

    def _scaled(self, block: Array, root: Array) -> Array:
        if self.xp is np:
            return np.multiply(block, root, out=scratch(block.shape))
        return block * root

    def rows(self, index: Array) -> FeatureDesign:
        return FeatureDesign(self.features, self.inner.rows(index), self.count, *self._limits)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        return self.xp.zeros(shape, dtype=self.xp.float64, device=device(self.sample))


def _plus(total: Array | None, more: Array) -> Array:
    if total is None:
        return more
    total += more
    return total
