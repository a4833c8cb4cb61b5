"""FedAve for many step sizes and repetitions at once (Reisizadeh et al., FedPAQ, Algorithm 1, without quantisation).

`fs.FedAvg` takes the same steps one client after the other, which is too slow to tune it: here b steps of all clients,
schedules and repetitions are array operations. Schedules share the draws of samples and of clients. Γ after T epochs
is T (b + φτm) by Definition 1; the experiment compares that with the ledger of `fs.FedAvg`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.local import GradientSteps, InverseTime
from fedsolve.reproduce.fedlrgd.cost_paths import ACCURACIES, Path
from fedsolve.reproduce.fedlrgd.cost_problem import L2, CostProblem, P, Rows
from fedsolve.typing import Array

SMOOTH = P / 4 + L2  # L₁ of one sample, x in [0, 1]^p
REPETITIONS = 5
SEEN = 50  # from so many epochs on, F is computed every 2 % of them


@dataclass(frozen=True)
class Pace:
    """A step size in the first epoch, and how it falls: η/(1 + decay · k) in epoch k = 0, 1, …; 0 for not at all."""

    step: float
    decay: float = 0.0

    def local(self, b: int) -> GradientSteps:
        """As `fs.FedAvg` takes it."""
        schedule = InverseTime(self.decay) if self.decay else None
        return GradientSteps(b, self.step, batch_size=1, batches="independent", schedule=schedule)

    def __str__(self) -> str:
        return f"η = {self.step:.3g}" + (f"/(1 + {self.decay:.3g} k)" if self.decay else "")


def paces(b: int) -> tuple[Pace, ...]:
    """FedPAQ's 4/(μ(kb + 1)); fixed ones from 2/L₁ down to 1/(256 L₁); and from 1/L₁ or 1/(8 L₁) down to a/(μkb)."""
    fixed = [Pace(2.0**-power / SMOOTH) for power in range(-1, 9)]
    falling = [Pace(first / SMOOTH, first / SMOOTH * b * L2 / last) for first in (1.0, 0.125) for last in (4.0, 1.0)]
    return (Pace(4.0 / L2, float(b)), *fixed, *falling)


@dataclass(frozen=True)
class Limits:
    """When to stop: where Γ is above `costs[φ]` for every φ, or after so many steps of a client."""

    costs: Mapping[float, float]
    steps: int

    def epochs(self, b: int, active: int) -> int:
        enough = max(cost / (b + phi * active) for phi, cost in self.costs.items())
        return max(1, min(round(enough), self.steps // b))


@dataclass(frozen=True, eq=False)
class Tuned:
    """FedAve with b steps of `active` clients: the first pace to reach an accuracy, and after how many epochs."""

    b: int
    active: int
    paces: Sequence[Pace | None]
    epochs: Array
    path: Path


class Lanes:
    """The data of a problem, padded to equal lengths."""

    def __init__(self, problem: CostProblem) -> None:
        self._problem = problem
        rows: Sequence[Rows] = problem.dealt
        self.sizes = np.array([len(y) for _, y in rows])
        longest = self.sizes.max()
        self._X = np.zeros((len(rows), longest, P))
        self._y = np.zeros((len(rows), longest))
        for j, (X, y) in enumerate(rows):
            self._X[j, : len(y)], self._y[j, : len(y)] = X, y
        self._all = np.vstack([X for X, _ in rows]), np.concatenate([y for _, y in rows])

    def tuned(self, b: int, active: int, limits: Limits, seed: int) -> Tuned:
        """FedAve with b steps of `active` clients in an epoch: the first of the paces to reach an accuracy counts.

        An accuracy is reached when the mean of F over the repetitions is (equation 12).
        """
        tried, most = paces(b), limits.epochs(b, active)
        rng = np.random.default_rng([seed, b, active])
        w = np.zeros((P, len(tried), REPETITIONS))
        first, decay = np.array([one.step for one in tried]), np.array([one.decay for one in tried])
        epochs = np.full(len(ACCURACIES), np.inf)
        best: list[Pace | None] = [None] * len(ACCURACIES)
        for epoch in range(1, most + 1):
            with np.errstate(over="ignore", invalid="ignore"):  # some paces diverge
                w = self.epoch(w, b, active, first / (1.0 + decay * (epoch - 1)), rng)
                if epoch > SEEN and epoch < most and epoch % (epoch // SEEN):
                    continue
                shares = self.shares(w)
            nearest = int(np.argmin(shares))
            for place in np.flatnonzero((shares[nearest] <= ACCURACIES) & np.isinf(epochs)):
                epochs[place], best[place] = epoch, tried[nearest]
            if np.isfinite(epochs).all():
                break
        words = [f"b = {b}, τ = {active / len(self.sizes):g}, {one}" for one in best]
        ended = (b * float(epoch), active * float(epoch))
        return Tuned(b, active, best, epochs, Path(words, b * epochs, active * epochs, ended))

    def epoch(self, w: Array, b: int, active: int, steps: Array, rng: np.random.Generator) -> Array:
        """w, by coordinate, pace and repetition, after an epoch with these step sizes."""
        clients, repetitions = len(self.sizes), w.shape[2]
        who = np.argsort(rng.random((repetitions, clients)), axis=1)[:, :active]  # without replacement
        which = (rng.random((b, repetitions, active)) * self.sizes[who]).astype(int)
        X, y = np.moveaxis(self._X[who, which], -1, 1), self._y[who, which]  # step, coordinate, repetition, client
        local = np.repeat(w[..., None], active, axis=3)
        eta = steps[:, None, None]
        shrink = 1.0 - eta * L2
        for x, label in zip(X, y, strict=True):
            z = local[0] * x[0]
            for i in range(1, P):
                z += local[i] * x[i]
            np.negative(z, out=z)
            np.exp(z, out=z)
            z += 1.0
            np.reciprocal(z, out=z)
            z -= label
            z *= eta
            local *= shrink
            for i in range(P):
                local[i] -= z * x[i]
        weights = self.sizes[who] / self.sizes[who].sum(axis=1, keepdims=True)
        return np.asarray((local * weights).sum(axis=3))

    def shares(self, w: Array) -> Array:
        """(F − F*) / (F(0) − F*) by pace, the mean over the repetitions; infinite where it diverges."""
        X, y = self._all
        z = np.tensordot(X, w, axes=1)
        values = (np.log(1.0 + np.exp(z)) - y[:, None, None] * z).mean(axis=0) + 0.5 * L2 * (w**2).sum(axis=0)
        found = self._problem.minimum
        above = np.maximum(values - found.least, 0.0).mean(axis=1) / (found.first - found.least)
        return np.where(np.isfinite(above), above, np.inf)
