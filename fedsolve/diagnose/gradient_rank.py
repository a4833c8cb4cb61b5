"""The approximate rank of gradients: how many samples' gradients it takes to describe those of all others.

FedLRGD writes the gradients of the clients' samples as combinations of gradients of r samples at the server. That is
possible as far as, for each coordinate q, the matrix of ∂f/∂θ_q over samples and parameters has rank r.
`gradient_ranks` measures this rank for a model at hand.

A. Jadbabaie, A. Makur, D. Shah. Federated Optimization of Smooth Loss Functions. IEEE Transactions on Information
Theory 69(12), 2023, Appendix C. https://arxiv.org/abs/2201.01954
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from fedsolve.diagnose.gradient_slices import Slices, blocks
from fedsolve.diagnose.sample_gradients import SampleGradients
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

SPARE = 4  # how many times as many coordinates as wanted are looked at first, because some slices are zero
AT_ONCE = 512  # slices whose singular values are computed at once
ROUNDING = 1e-12  # of ‖M‖²: a share that is reached but for rounding is reached


@dataclass(frozen=True, eq=False)
class GradientRanks:
    """What `gradient_ranks` found.

    Attributes:
        ranks: The approximate rank of each slice, an array of integers.
        errors: How far the best matrix of that rank is from the slice, ‖M_q − best‖_F / ‖M_q‖_F; at most √(1 − share).
        top_sample: The share of ‖M_q‖_F² that one sample has, the one with the largest gradients. Where it is near 1, a
            rank is low because few samples count, not because gradients are alike; see `equal_samples`.
        coordinates: Which coordinate of θ* each slice belongs to.
        zeros: How many slices were left out because all of their entries are zero.
        eligible: How many coordinates have |θ*_q| ≥ smallest.
        k: Samples, and perturbed parameters.
        share: The share of ‖M_q‖_F² that the approximate rank captures.
        scale: The standard deviation of the perturbations.
    """

    ranks: Array
    errors: Array
    top_sample: Array
    coordinates: Array
    zeros: int
    eligible: int
    k: int
    share: float
    scale: float

    def at_most(self, rank: int) -> float:
        """The share of slices whose approximate rank is at most `rank`."""
        return float(np.mean(self.ranks <= rank))

    @property
    def median(self) -> float:
        """The median of the ranks."""
        return float(np.median(self.ranks))

    @property
    def largest(self) -> int:
        """The largest rank."""
        return int(self.ranks.max())

    def histogram(self) -> dict[int, int]:
        """How many slices have each rank, from 1 to the largest."""
        counts = np.bincount(self.ranks)
        return {rank: int(counts[rank]) for rank in range(1, counts.size)}

    def __str__(self) -> str:
        return (
            f"{self.ranks.size:,} slices of {self.k} × {self.k}: approximate rank (share {self.share:g}) median "
            f"{self.median:g}, largest {self.largest}; {self.at_most(5):.1%} at most 5, {self.at_most(10):.1%} at most "
            f"10; one sample has {np.median(self.top_sample):.0%} of a slice (median); {self.zeros:,} zero slices left "
            f"out, {self.eligible:,} coordinates to draw from"
        )


def approximate_rank(matrices: Array, share: float = 0.9) -> Array:
    """The least J with σ_1² + … + σ_J² ≥ share · ‖M‖_F² (equation 77), for each matrix in the last two axes.

    Raises DataError for a matrix that is zero, which has no such rank, and for entries that are not finite.
    """
    return _ranks(matrices, _checked_share(share))[0]


def gradient_ranks(
    source: SampleGradients,
    k: int = 60,
    *,
    coordinates: int | None = 500,
    smallest: float = 0.0,
    share: float = 0.9,
    scale: float | None = None,
    equal_samples: bool = False,
    seed: int = 0,
    rows: int | None = None,
    memory: float = 1e9,
) -> GradientRanks:
    """The approximate ranks of the gradients of k samples at k perturbed parameters, one for each coordinate.

    Slices that are zero are left out. The result depends on `seed`, not on `memory`, and on `rows` only by rounding.

    Args:
        source: `LossGradients(loss, client, w)`, `ModuleGradients(module, loss, X, y)`, or a `SampleGradients` of your
            own. k of its samples are drawn.
        k: Samples, and perturbed parameters. k² gradients are computed. Default 60.
        coordinates: How many coordinates to draw at random among those with a slice that is not zero. Default 500, as
            in the paper; None takes all, and computes the k² gradients once for each block that `memory` allows.
        smallest: Only coordinates with |θ*_q| ≥ smallest. Default 0; the paper takes 0.005.
        share: The share of ‖M_q‖_F² that a rank must capture, between 0 and 1. Default 0.9.
        scale: The standard deviation of the perturbations. Default ‖θ*‖₁ / p (equation 75).
        equal_samples: Whether to scale each sample's row of a slice to norm 1 before its rank is computed, so that the
            samples with the largest gradients do not decide alone. Default False, as in the paper.
        seed: Draws samples, coordinates and perturbations. Default 0.
        rows: Samples whose gradients are computed in one call. By default as many as take 25 MB.
        memory: Bytes that the slices held at once may take. Default 1e9.

    Raises ConfigError for bad options and if no coordinate is left, DataError for gradients that are not finite.

    Example:
        >>> found = fs.diagnose.gradient_ranks(fs.diagnose.LossGradients(loss, client, model.w), k=60)
        >>> print(found.at_most(10), found.histogram())
    """
    _check_source(source)
    what, share = Slices(k, smallest, scale, seed, rows, memory), _checked_share(share)
    wanted = np.inf if coordinates is None else whole("coordinates", coordinates, least=1)
    found, zeros = _over_blocks(source, what, wanted, share, equal_samples)
    if not found:
        raise ConfigError(
            f"no coordinate is left: all {zeros:,} slices are zero; are the samples' inputs zero, or all units dead?"
        )
    where, top_sample, ranks, errors = (np.concatenate(one) for one in zip(*found, strict=True))
    w = source.w
    eligible = int(np.count_nonzero(np.abs(w) >= smallest))
    return GradientRanks(ranks, errors, top_sample, where, zeros, eligible, k, share, what.deviation(w))


def _over_blocks(
    source: SampleGradients, what: Slices, wanted: float, share: float, equal: bool
) -> tuple[list[tuple[Array, ...]], int]:
    """Coordinates, shares of the top samples, ranks and errors, in parts; and how many slices were zero."""
    found: list[tuple[Array, ...]] = []
    kept = zeros = 0
    for columns, slices in blocks(source, what, int(SPARE * wanted) if np.isfinite(wanted) else None):
        nonzero = slices.any(axis=(1, 2))
        places = np.flatnonzero(nonzero)[: int(min(wanted - kept, columns.size))]
        kept += places.size
        # Only what came before the last one that was wanted: another size of blocks would not have looked further.
        zeros += int((~nonzero[: places[-1] + 1 if kept == wanted else None]).sum())
        for start in range(0, places.size, AT_ONCE):
            part = places[start : start + AT_ONCE]
            some, top = _by_sample(slices[part], equal)
            found.append((columns[part], top, *_ranks(some, share)))
        if kept == wanted:
            break
    return found, zeros


def _check_source(source: object) -> None:
    missing = [name for name in ("w", "n_samples", "placed", "of") if not hasattr(source, name)]
    if missing:
        raise ConfigError(
            f"source is LossGradients(loss, client, w), ModuleGradients(module, loss, X, y) or an object with w, "
            f"n_samples, placed and of; got a {type(source).__name__} without {missing[0]}"
        )


def _checked_share(share: float) -> float:
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1:
        raise ConfigError(f"share is a number between 0 and 1, such as 0.9, got {share!r}")
    return float(share)


def _by_sample(slices: Array, equal: bool) -> tuple[Array, Array]:
    """Slices that are not zero, with rows of norm 1 if asked for; and the largest row's share of each squared norm."""
    M = slices.astype(np.float64)
    M /= np.abs(M).max(axis=(1, 2), keepdims=True)
    squares = (M**2).sum(axis=2)
    if equal:
        M /= np.sqrt(np.where(squares > 0, squares, 1.0))[:, :, None]
    return M, squares.max(axis=1) / squares.sum(axis=1)


def _ranks(matrices: Array, share: float) -> tuple[Array, Array]:
    """The approximate ranks, and the relative errors of the best matrices of these ranks."""
    M = np.asarray(to_numpy(matrices), dtype=np.float64)
    if M.ndim < 2 or not M.shape[-1] or not M.shape[-2]:
        raise DataError(f"expected matrices in the last two axes, got an array of shape {M.shape}")
    largest = np.abs(M).max(axis=(-2, -1), keepdims=True)
    if not np.isfinite(largest).all():
        raise DataError("the matrix has entries that are NaN or infinite")
    if not largest.all():
        raise DataError("a matrix of zeros has no approximate rank; leave it out")
    squares = np.linalg.svd(M / largest, compute_uv=False) ** 2  # neither squares of tiny nor of huge entries are lost
    captured = np.cumsum(squares, axis=-1)
    total = captured[..., -1:]
    index = np.argmax(captured >= (share - ROUNDING) * total, axis=-1)
    beyond = np.where(np.arange(squares.shape[-1]) > index[..., None], squares, 0.0)  # what no such matrix reaches
    return index + 1, np.sqrt(beyond.sum(axis=-1) / total[..., 0])
