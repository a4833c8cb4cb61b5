"""Kernel FedAvg and FedProx, simulated: every local step of every client is taken, on functions Σ_j α_j k(·, x_j).

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (sections 4 and 7.1)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

All of it is a function of the kernel matrix K of all rows (client after client, not divided by N), the number of rows
of each client, and the targets. A local step changes only the coefficients of the client's own rows:

    FedAvg    α_b ← α_b − (η/n_i) (f(x_b) − y_b)                             equation 7, s passes over the batches b
    FedProx   α_b ← α_b − (η/n_i) (I + (η/n_i) K_bb)⁻¹ (f(x_b) − y_b)        equation 6, once for each batch b

and the server averages, f_t = Σ (n_i/N) f_{i,t} (equation 5). The default is one batch with all rows of the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

from fedsolve.closed_forms.batches import Batches
from fedsolve.closed_forms.client_rows import numbers
from fedsolve.closed_forms.methods import LocalSteps, Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.features.exact_kernels import ExactKernel
from fedsolve.models.kernel_expansion import KernelExpansion
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class KernelPath:
    """f_t = f_0 + Σ_j α_j k(·, x_j) at the rounds that were kept.

    Attributes:
        rounds: Which rounds were kept.
        values: f_t at the rows, (kept, N) or (kept, N, q).
        coefficients: α, of the same shape.
    """

    rounds: Array
    values: Array
    coefficients: Array

    def values_at(self, K_new: Array, start: Array | None = None) -> Array:
        """f_t at other points, (kept, m[, q]).

        Args:
            K_new: k(z, x_j) for m points z and all rows x_j, (m, N).
            start: f_0 at these points; default 0. Raises ConfigError if the path did not start from 0.
        """
        K_new = np.asarray(K_new, dtype=np.float64)
        N = self.values.shape[1]
        if K_new.ndim != 2 or K_new.shape[1] != N:
            raise DataError(f"K_new has k(z, x_j) for all {N} rows x_j, a row for each z; got shape {K_new.shape}")
        found = np.stack([K_new @ one for one in self.coefficients])
        if start is None:
            self._check_zero_start("start=f_0 at these points")
            return found
        return found + starting_values(start, found[0])

    def model(
        self, points: Array, kernel: ExactKernel, at: int = -1, start: KernelExpansion | None = None
    ) -> KernelExpansion:
        """f_t as a model, which predicts anywhere and can be saved.

        Args:
            points: The rows, in the order of K.
            kernel: The kernel that K was computed with.
            at: Which of the kept rounds; default the last.
            start: f_0, if it is not 0; an expansion of the same kernel.

        Raises:
            ConfigError: The path did not start from 0, and `start` is missing.
            DataError: With these points, this kernel and this start it is another function.
        """
        own = KernelExpansion(points, self.coefficients[at], kernel)
        if start is None:
            self._check_zero_start("start=f_0 as a KernelExpansion")
        found = own if start is None else start.plus(own)
        expected, values = self.values[at], found.predict(points)
        allowed = 1e-8 * max(float(np.abs(self.values).max(initial=0.0)), float(np.abs(values).max(initial=0.0)))
        if values.shape != expected.shape or np.abs(values - expected).max(initial=0.0) > allowed:
            raise DataError(
                "at the rows this model is not the f_t of the path; give the rows in the order of K, the kernel that K "
                "was computed with, and the f_0 that the path started from"
            )
        return found

    def _check_zero_start(self, give: str) -> None:
        if self.values[0].any():
            raise ConfigError(f"this path did not start from 0; give {give}")


def simulate(
    K: Array,
    sizes: Sequence[int],
    y: Array,
    method: Method,
    rounds: int,
    *,
    start: Array | None = None,
    batch_size: int | None = None,
    shuffled: bool = False,
    seed: int = 0,
    every: int = 1,
) -> KernelPath:
    """Run kernel FedAvg or FedProx.

    Args:
        K: k(x_i, x_j) for all rows, client after client.
        sizes: How many rows each client has.
        y: Targets, (N,) or (N, q).
        method: `LocalSteps(η, s)` for FedAvg, `ProximalStep(η)` for FedProx.
        rounds: How many.
        start: f_0 at the rows; default 0.
        batch_size: Rows in a batch; None, the default, takes all of a client's.
        shuffled: Batches of a new order in every pass. Default: the same in every round, in the order of the rows.
        seed: Of these orders.
        every: Keep each so many rounds (0, every, 2·every, …) and the last. Default 1, all.
    """
    K, y, blocks = checked(K, sizes, y)
    f0 = starting_values(start, y)
    batches = Batches(batch_size, shuffled, seed)
    client = _Local(method, batches)
    kept = [0]
    alpha, values = np.zeros(y.shape), f0
    path = [(values, alpha)]
    for t in range(1, whole("rounds", rounds, 0) + 1):
        changes = np.zeros(y.shape)
        for place, block in enumerate(blocks):
            own = K[block, block]
            changes[block] = len(own) / len(y) * client.change(place, t - 1, own, values[block] - y[block])
        alpha = alpha + changes
        values = f0 + K @ alpha
        if t % whole("every", every, 1) == 0 or t == rounds:
            kept.append(t)
            path.append((values, alpha))
    return KernelPath(np.array(kept), np.stack([one for one, _ in path]), np.stack([one for _, one in path]))


class _Local:
    """A client's own steps; factors of the proximal systems are kept while the batches stay the same."""

    def __init__(self, method: Method, batches: Batches) -> None:
        self.method, self.batches = method, batches
        self._factors: dict[tuple[int, int], tuple[Array, bool]] = {}

    def change(self, client: int, round: int, K: Array, residual: Array) -> Array:
        """By how much the coefficients of the client's rows change; `residual` is f_{t−1} − y there."""
        made = np.zeros(residual.shape)
        eta = self.method.step_size / len(K)
        for step in range(self.method.steps):
            for place, batch in enumerate(self.batches.of(client, len(K), round, step)):
                here = residual[batch] + K[batch] @ made
                if isinstance(self.method, LocalSteps):
                    made[batch] -= eta * here
                else:
                    made[batch] -= eta * cho_solve(self._factor((client, place), K, batch, eta), here)
        return made

    def _factor(self, key: tuple[int, int], K: Array, batch: Array, eta: float) -> tuple[Array, bool]:
        if self.batches.shuffled or key not in self._factors:
            system = np.eye(len(batch)) + eta * K[np.ix_(batch, batch)]
            try:
                self._factors[key] = cho_factor(system, lower=True)
            except LinAlgError:
                raise DataError("K is not positive semidefinite, so it is no kernel matrix") from None
        return self._factors[key]


def checked(K: Array, sizes: Sequence[int], y: Array | None = None) -> tuple[Array, Array, list[slice]]:
    """Kernel matrix, targets (zeros if there are none) and each client's rows. Raises DataError if they do not fit."""
    K = numbers("the entries of K", K)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not np.isfinite(K).all():
        raise DataError(f"K is a square matrix of finite numbers, k(x_i, x_j) for all rows; got shape {K.shape}")
    if np.abs(K - K.T).max(initial=0.0) > 1e-8 * np.abs(K).max(initial=0.0):
        raise DataError("K is not symmetric, so it is no kernel matrix of one set of rows")
    if np.ndim(sizes) != 1:
        raise DataError(f"sizes has a number of rows for each client, got {sizes!r}")
    counts = [whole("a size", one, 1) for one in sizes]
    if sum(counts) != len(K) or not counts:
        raise DataError(f"the sizes add up to {sum(counts)} rows, K has {len(K)}")
    y = np.zeros(len(K)) if y is None else checked_targets(y, len(K))
    ends = np.cumsum(counts).tolist()
    return K, y, [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def checked_targets(y: Array, samples: int, shape: tuple[int, ...] | None = None) -> Array:
    """Targets or values at the rows as float64, (N,) or (N, q). Raises DataError for another shape."""
    y = numbers("targets", y)
    fits = y.ndim in (1, 2) and len(y) == samples if shape is None else y.shape == shape
    if not fits or not np.isfinite(y).all():
        raise DataError(f"y has a finite target for each of {samples} rows, got shape {y.shape}")
    return y


def starting_values(start: Array | None, y: Array) -> Array:
    """f_0 at the rows, in the shape of y."""
    if start is None:
        return np.zeros(y.shape)
    values = numbers("the values of start", start)
    if values.shape != y.shape:
        raise DataError(f"start is f_0 at the rows, of shape {y.shape}, got {values.shape}")
    return values
