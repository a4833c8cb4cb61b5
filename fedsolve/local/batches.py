"""The parts of a client's samples that a local solver works on, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import Literal, TypeGuard

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.federation.stacked import NotTogether, StandIn
from fedsolve.local.independent_batches import independent
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

Batches = Literal["shuffled", "fixed", "independent"]
Scale = Literal["batch", "client"]

# In the place of a round's number, which is never as large: fixed batches are the same in every round.
_EVERY_ROUND = 2**40


class Batched:
    """What solvers that work on batches have in common; `GradientSteps` describes the fields."""

    steps: int
    batch_size: int | None
    epochs: int | None
    batches: Batches
    scale: Scale

    def check_batches(self) -> None:
        """Raise ConfigError for numbers and words that make no sense."""
        whole("steps", self.steps, least=1)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, least=1)
        if self.epochs is not None:
            whole("epochs", self.epochs, least=1)
        if self.batches not in ("shuffled", "fixed", "independent"):
            raise ConfigError(f"batches is 'shuffled', 'fixed' or 'independent', got {self.batches!r}")
        if self.batches == "independent" and self.epochs is not None:
            raise ConfigError("independent batches are no passes over the samples: give steps instead of epochs")
        if self.scale not in ("batch", "client"):
            raise ConfigError(f"scale is 'batch' or 'client', got {self.scale!r}")

    def count(self, client: Client) -> int:
        """How many steps `run` takes: as many as it is told to, or as there are batches in its epochs."""
        if self.epochs is None:
            return self.steps
        if self._takes_all(client):
            return self.epochs
        assert self.batch_size is not None
        return self.epochs * -(-index(client.n_samples) // self.batch_size)

    def parts(self, client: Client) -> Iterator[tuple[Client, Array | float]]:
        """The samples of each step, as a client, and the factor of its step: 1, or its share of the samples."""
        if self._is_padded(client):
            found = self._padded(client)
        elif self._takes_all(client):
            yield from [(client, 1.0)] * self.count(client)
            return
        else:
            found = self._found(client)
        for part in found:
            part.counts = {}  # a fixed batch comes again
            yield part, (1.0 if self.scale == "batch" else _share(part, client))
            for what, amount in part.counts.items():  # a batch's work is the client's work
                client.count(what, amount)

    def shares(self, client: Client) -> list[float] | None:
        """The factors of the steps, where they do not depend on what is drawn; None where they do."""
        if self.scale == "batch" or self._takes_all(client):
            return [1.0] * self.count(client)
        if self.batches == "fixed":
            return [float(_share(part, client)) for part in self._fixed(client)]
        assert self.batch_size is not None
        if self.batches == "independent":
            return [self.batch_size / client.n_samples] * self.steps
        if client.sample_weight is not None:
            return None
        full = self.batch_size / client.weight
        if self.epochs is None:
            return [full] * self.steps
        whole_batches, rest = divmod(client.n_samples, self.batch_size)
        return ([full] * whole_batches + [rest / client.weight] * (rest > 0)) * self.epochs

    def _takes_all(self, client: Client) -> bool:
        return self.batch_size is None or self.batch_size >= client.n_samples

    def _found(self, client: Client) -> Iterator[Client]:
        if self.batches == "shuffled":
            return self._shuffled(client)
        assert self.batch_size is not None
        return self._fixed(client) if self.batches == "fixed" else independent(client, self.steps, self.batch_size)

    # ── epochs of clients of unequal size that run together ──

    def _is_padded(self, client: Client) -> TypeGuard[StandIn]:
        """Whether clients run together whose epochs have other batches."""
        if self.epochs is None or self.batch_size is None or self.batches == "fixed":
            return False
        return isinstance(client, StandIn) and any(n > (self.batch_size or n) for n in client.unequal)

    def _padded(self, client: StandIn) -> Iterator[Client]:
        """Each client's own sequence of batches, side by side: what it has less of, samples in a batch or batches at
        the end, is padded. So the clients' steps have the same numbers, which Adam counts by."""
        sizes = [self._batch_sizes(n) for n in client.unequal]
        steps, most = max(map(len, sizes)), max(max(one) for one in sizes)
        plan = client.draw(lambda rng, samples: self._planned(rng, samples, steps, most))
        everyone = min(map(len, sizes))
        for step in range(steps):
            part = client.masked(plan[step, :], [one[step] if step < len(one) else 0 for one in sizes])
            part.active = None if step < everyone else plan[step, 0] >= 0
            yield part

    def _batch_sizes(self, samples: int) -> list[int]:
        """How many samples each batch of a client has."""
        assert self.epochs is not None
        assert self.batch_size is not None
        whole_batches, rest = divmod(samples, self.batch_size)
        return ([self.batch_size] * whole_batches + [rest] * (rest > 0)) * self.epochs

    def _planned(self, rng: np.random.Generator, samples: int, steps: int, most: int) -> Array:
        """The samples of each batch as `_drawn_epochs` draws them, a row for each step, filled up with −1."""
        assert self.epochs is not None
        assert self.batch_size is not None
        plan = np.full((steps, most), -1)
        if samples <= self.batch_size:  # all of them in every step: nothing is drawn
            plan[: self.epochs, :samples] = np.arange(samples)
            return plan
        bounds = range(0, samples, self.batch_size)
        for epoch, order in enumerate(self._drawn_epochs(rng, samples)):
            for place, start in enumerate(bounds):
                batch = order[start : start + self.batch_size]
                plan[epoch * len(bounds) + place, : len(batch)] = batch
        return plan

    # ── shuffled ──

    def _shuffled(self, client: Client) -> Iterator[Client]:
        if self.epochs is None:
            batches = client.draw(self._drawn)
            for step in range(self.steps):
                yield client.subset(batches[step, :])
            return
        assert self.batch_size is not None
        orders = client.draw(self._drawn_epochs)
        for epoch in range(self.epochs):
            for start in range(0, index(client.n_samples), self.batch_size):
                yield client.subset(orders[epoch, start : start + self.batch_size])

    def _drawn(self, rng: np.random.Generator, samples: int) -> Array:
        """The samples of each batch, a row for each. All have the same size: what is left of a pass is not used."""
        assert self.batch_size is not None
        batches: list[Array] = []
        while len(batches) < self.steps:  # one pass over the shuffled samples after another
            order = rng.permutation(samples)
            bounds = range(0, samples - self.batch_size + 1, self.batch_size)
            batches += [np.sort(order[start : start + self.batch_size]) for start in bounds]
        return np.stack(batches[: self.steps])

    def _drawn_epochs(self, rng: np.random.Generator, samples: int) -> Array:
        """All samples in the order of an epoch's batches, the last of which may be smaller; a row for each epoch."""
        assert self.epochs is not None
        return np.stack([self._ordered(rng.permutation(samples)) for _ in range(self.epochs)])

    def _ordered(self, order: Array) -> Array:
        assert self.batch_size is not None
        bounds = range(0, len(order), self.batch_size)
        return np.concatenate([np.sort(order[start : start + self.batch_size]) for start in bounds])

    # ── fixed ──

    def _fixed(self, client: Client) -> Iterator[Client]:
        """The same batches again and again in the same order. A round begins where the last one ended, so that none is
        left out for good where there are more of them than steps; after whole epochs that is at the first one."""
        parts = _partition(client, self.batch_size or 1)
        steps = self.count(client)
        begin = (client.moment[1] - 1) * steps
        for step in range(begin, begin + steps):
            yield parts[step % len(parts)]


def _partition(client: Client, size: int) -> tuple[Client, ...]:
    """The client's samples in batches of this size, the last of which may be smaller: a function of the run's seed and
    of the client, and of nothing else. They are kept, which takes as much memory as the samples do."""
    if not hasattr(client, "moment"):
        raise NotTogether("it takes fixed batches, which each client draws by its own seed")
    seed = client.moment[0]

    def compute(_: Array) -> tuple[Client, ...]:
        rng = np.random.default_rng([seed, client.key, _EVERY_ROUND, 0, 0])
        order = rng.permutation(client.n_samples)
        bounds = range(0, client.n_samples, size)
        return tuple(client.subset(np.sort(order[start : start + size])) for start in bounds)

    return client.at((_partition, "fixed batches"), np.asarray([seed % 2**63, size]), compute)


def _share(part: Client, client: Client) -> Array | float:
    """The share of the client's weight that a batch has; array code, for clients that run together."""
    total = float(part.n_samples) if part.sample_weight is None else client.xp.sum(part.sample_weight)
    return total / client.weight
