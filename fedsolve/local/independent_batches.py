"""Batches whose samples are drawn one by one and put back: stochastic gradients as their theory has them.

Shuffled batches visit every sample once before any comes again, so that a step depends on those before it. Theorems on
stochastic gradient descent, and that on FedAve among them (Jadbabaie, Makur and Shah, "Federated Optimization of Smooth
Loss Functions", Theorem 3, assumption 3), ask for gradients that are unbiased at every step: E g = ∇f_i(w), given w.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.federation.stacked import NotTogether, StandIn
from fedsolve.numerics.linalg import to_numpy


def independent(client: Client, steps: int, size: int) -> Iterator[Client]:
    """So many batches of so many samples each. A sample is drawn with a probability in proportion to its weight, and
    all that are drawn then count the same: dividing by the weight of a batch instead would bias its gradient."""
    if client.sample_weight is not None and not isinstance(client, StandIn):
        yield from _by_weight(client, steps, size)
        return
    batches = client.draw(lambda rng, samples: rng.integers(samples, size=(steps, size)))
    for step in range(steps):
        part = client.subset(batches[step, :])
        if isinstance(client, StandIn) and part.sample_weight is not None:  # they are not of padded rows alone
            raise NotTogether("it draws samples by their weights, which each client has of its own")
        yield part


def _by_weight(client: Client, steps: int, size: int) -> Iterator[Client]:
    weights = to_numpy(client.sample_weight).astype(np.float64)
    chances = weights / weights.sum()
    batches = client.draw(lambda rng, samples: rng.choice(samples, size=(steps, size), p=chances))
    # Each gets the mean weight of the client's samples, so that a batch has the share size / n of them.
    alike = client.localise(np.full(size, weights.mean()))
    for step in range(steps):
        yield client.subset(batches[step, :]).reweighted(alike)
