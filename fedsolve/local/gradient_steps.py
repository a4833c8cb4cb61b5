"""Local solvers: what a client does with a model before it sends it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.losses import Loss
from fedsolve.typing import Array


@dataclass(frozen=True)
class GradientSteps:
    """Gradient steps, each on all samples, or each on a batch drawn without replacement.

    Args:
        steps: How many. Default 1.
        step_size: How far to go; None, the default, leaves the choice to the algorithm (1 / the largest of the clients'
            bounds on their smoothness).
        batch_size: Samples in a batch; None, the default, takes all of them in every step.
    """

    steps: int = 1
    step_size: float | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"at least one local step is needed, got {self.steps}")
        if self.step_size is not None and not self.step_size > 0:
            raise ConfigError(f"step_size is positive, got {self.step_size}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"batch_size is at least 1, got {self.batch_size}")

    def run(
        self,
        loss: Loss,
        client: Client,
        w: Array,
        step_size: float,
        correction: Array | None = None,
        pull: float = 0.0,
    ) -> Array:
        """w after the steps; see `LocalSolver.run`."""
        anchor = w
        for part in self._batches(client):
            g = loss.gradient(part, w)
            if part is not client:  # a batch's work is the client's work
                for what, amount in part.counts.items():
                    client.count(what, amount)
            if correction is not None:
                g = g + correction
            if pull:
                g = g + pull * (w - anchor)
            w = w - step_size * g
        return w

    def count(self, client: Client) -> int:
        """How many steps `run` takes, which is the same at every client."""
        return self.steps

    def _batches(self, client: Client) -> list[Client]:
        if self.batch_size is None or self.batch_size >= client.n_samples:
            return [client] * self.steps
        batches = client.draw(self._drawn)
        return [client.subset(batches[step, :]) for step in range(self.steps)]

    def _drawn(self, rng: np.random.Generator, samples: int) -> Array:
        """The samples of each batch, a row for each."""
        assert self.batch_size is not None
        batches: list[Array] = []
        while len(batches) < self.steps:  # one pass over the shuffled samples after another
            order = rng.permutation(samples)
            bounds = range(0, samples - self.batch_size + 1, self.batch_size)
            batches += [np.sort(order[start : start + self.batch_size]) for start in bounds]
        return np.stack(batches[: self.steps])


def safe_step(bounds: Iterable[float]) -> float:
    """1 / the largest of the clients' smoothness bounds: a step that none of them overshoots with."""
    steepest = max(bounds)
    if not 0 < steepest < float("inf"):
        raise ConfigError("this loss has no bound on its smoothness: give GradientSteps a step_size")
    return 1.0 / steepest
