"""The tensor of Appendix C of Jadbabaie, Makur and Shah (2023), in blocks of coordinates.

    θ^(j) = θ* + scale · g_j,   g_j standard normal                             equation 75
    M_ijq = ∂f/∂θ_q (x^(i); θ^(j)),   i, j = 1 … k                              equation 76

A whole tensor of k × k × p numbers need not fit into memory. The coordinates are cut into blocks; for each block all
gradients are computed, a few samples at a time, and only the block's coordinates are kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedsolve.diagnose.partials import Partials
from fedsolve.diagnose.sample_gradients import SampleGradients
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.scalars import at_least_zero, positive, whole
from fedsolve.typing import Array

# Bytes of gradients computed in one call. Larger arrays are mapped afresh by the allocator for every call, and a pass
# over MNIST's network of 623,290 weights takes about twice as long (scripts/bench rank -- --rows 20).
AT_ONCE = 25_000_000


@dataclass(frozen=True)
class Slices:
    """Which slices of the tensor to compute, and how.

    k            samples, and perturbed parameters
    smallest     only coordinates with |θ*_q| ≥ smallest
    scale        standard deviation of the perturbations; None: ‖θ*‖₁ / p (equation 75)
    seed         of the samples, the order of the coordinates and the perturbations
    rows         samples whose gradients are computed in one call; None: as many as take 25 MB
    memory       bytes that a block of slices may take
    """

    k: int
    smallest: float = 0.0
    scale: float | None = None
    seed: int = 0
    rows: int | None = None
    memory: float = 1e9

    def __post_init__(self) -> None:
        whole("k", self.k, least=2)
        at_least_zero("smallest", self.smallest)
        whole("seed", self.seed, least=0)
        positive("memory", self.memory)
        if self.scale is not None:
            positive("scale", self.scale)
        if self.rows is not None:
            whole("rows", self.rows, least=1)

    def samples(self, source: SampleGradients) -> Array:
        """The k samples, drawn without replacement."""
        if self.k > source.n_samples:
            raise ConfigError(f"k = {self.k}, but there are {source.n_samples} samples to draw from")
        return np.sort(self._generator(0).choice(source.n_samples, self.k, replace=False))

    def coordinates(self, w: Array) -> Array:
        """The coordinates that are large enough, in random order."""
        eligible = np.flatnonzero(np.abs(w) >= self.smallest)
        if not eligible.size:
            raise ConfigError(
                f"no coordinate is left: the largest of {w.size:,} weights is {np.abs(w).max(initial=0.0):.3g} and "
                f"smallest = {self.smallest:g}; choose a smaller one"
            )
        return self._generator(1).permutation(eligible)

    def deviation(self, w: Array) -> float:
        """The standard deviation of a perturbation in each coordinate."""
        scale = float(np.abs(w).mean()) if self.scale is None else self.scale
        if not scale > 0:
            raise ConfigError("all weights are 0, and so is ‖w‖₁ / p: give the scale of the perturbations, scale=…")
        return scale

    def perturbed(self, w: Array, scale: float, place: int) -> Array:
        """θ^(j), made anew whenever it is needed: k of them take k times the memory of the model."""
        return w + scale * self._generator(2, place).standard_normal(w.size)

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


def blocks(source: SampleGradients, what: Slices, first: int | None = None) -> Iterator[tuple[Array, Array]]:
    """Coordinates with their slices, an array of shape (coordinates, k, k): samples, then perturbed parameters.

    The coordinates come in random order. `first` is how many to have in the first block; each next one is twice as
    large, as far as `memory` allows. A block is only computed when it is asked for.
    """
    w, chosen = source.w, what.samples(source)
    order, scale = what.coordinates(w), what.deviation(w)
    width = getattr(source.placed(w).dtype, "itemsize", 8)  # bytes of a number; not every array library says
    rows = what.rows or max(1, AT_ONCE // (w.size * width))
    parts = [(start, chosen[start : start + rows]) for start in range(0, what.k, rows)]
    gradients = [(start, index, source.of(index)) for start, index in parts]
    most = max(1, int(what.memory / (what.k**2 * width)))
    start, count = 0, min(most, first or most)
    while start < order.size:
        columns = order[start : start + count]
        yield columns, _slices(source, what, gradients, columns, w, scale)
        start, count = start + count, min(most, 2 * count)


def _slices(
    source: SampleGradients,
    what: Slices,
    gradients: list[tuple[int, Array, Partials]],
    columns: Array,
    w: Array,
    scale: float,
) -> Array:
    """All slices of some coordinates."""
    made: Array | None = None
    for j in range(what.k):
        placed = source.placed(what.perturbed(w, scale, j))
        for start, index, partials in gradients:
            found = partials(placed, columns)
            if np.shape(found) != (len(index), columns.size):  # NumPy would fill up what is too small
                raise DataError(
                    f"the source's gradients of {len(index)} samples and {columns.size} coordinates have shape "
                    f"{np.shape(found)}, expected {(len(index), columns.size)}: a row for each sample"
                )
            if made is None:  # in the type that gradients have
                made = np.empty((what.k, what.k, columns.size), dtype=found.dtype)
            made[j, start : start + len(index)] = found
        assert made is not None
        wrong = ~np.isfinite(made[j]).all(axis=1)
        if wrong.any():
            sample = int(np.concatenate([index for _, index, _ in gradients])[int(np.argmax(wrong))])
            raise DataError(
                f"the gradient of sample {sample} at perturbed parameters {j} is NaN or infinite; are its inputs "
                f"finite? If so, choose perturbations smaller than scale = {scale:.3g}"
            )
    assert made is not None
    return made.transpose(2, 1, 0)
