"""What the library has none of: a State without `w`, an algorithm without a loss, a model of a new kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import fedsolve as fs
from fedsolve.data import Transform
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Centres(fs.Model):
    """Predicts the number of the nearest centre."""

    centres: Array
    transform: Transform | None = None
    feature_names: tuple[str, ...] | None = None
    inputs: int | None = None

    kind: ClassVar[str] = "centres"

    def predict(self, X: Array) -> Array:
        distances = ((self.prepared(X)[:, None, :] - self.centres[None, :, :]) ** 2).sum(axis=2)
        return distances.argmin(axis=1)


@dataclass(frozen=True)
class Clusters:
    """A State without `w`, and one that grows."""

    centres: Array
    spread: float | None = None
    path: tuple[Array, ...] = ()


@dataclass(frozen=True)
class KMeans:
    """Lloyd's algorithm over a federation: no loss, no gradient, a model of another kind."""

    centres: int = 3
    finish_after: int | None = None

    # ── clients ──

    @fs.client_step
    def farthest(self, client: fs.Client) -> tuple[Array, Array]:
        X = client.design.take(slice(None))
        return X.min(axis=0), X.max(axis=0)

    @fs.client_step
    def sums(self, client: fs.Client, centres: Array) -> tuple[Array, Array]:
        X = client.design.take(slice(None))
        nearest = self._distances(X, centres).argmin(axis=1)
        hot = np.eye(len(centres))[nearest]
        return hot.T @ X, hot.sum(axis=0)

    @fs.client_step
    def spread(self, client: fs.Client, centres: Array) -> float:
        X = client.design.take(slice(None))
        client.count("losses", client.n_samples)
        return float(self._distances(X, centres).min(axis=1).mean())

    @staticmethod
    def _distances(X: Array, centres: Array) -> Array:
        return ((X[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)

    # ── server ──

    def start(self, fed: fs.Federation) -> Clusters:
        # Gathered: a least and a largest entry are no sums.
        found = fed.gather(self.farthest).values()
        low, high = np.min([a for a, _ in found], axis=0), np.max([b for _, b in found], axis=0)
        places = (np.arange(self.centres) + 0.5) / self.centres
        return Clusters(low + places[:, None] * (high - low))

    def round(self, fed: fs.Federation, state: Clusters) -> Clusters | fs.Finished[Clusters]:
        sums, counts = fed.sum(self.sums, centres=state.centres)
        moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], state.centres)
        new = Clusters(moved, path=(*state.path, state.centres))
        return fs.Finished(new) if fed.round == self.finish_after else new

    def measuring(self, fed: fs.Federation, state: Clusters) -> fs.Mean:
        return fs.Mean(self.spread, centres=state.centres)

    def model(self, state: Clusters) -> Centres:
        return Centres(state.centres)


def clients(named: bool = False) -> list[fs.Client]:
    """Three clouds, unevenly divided among four clients; no labels that would mean anything."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(centre, 0.3, (30, 2)) for centre in ((0, 0), (4, 1), (1, 5))])
    X = X[rng.permutation(len(X))]
    names = ("height", "width") if named else None
    parts = (slice(0, 10), slice(10, 35), slice(35, 60), slice(60, 90))
    return [
        fs.Client(f"site-{index}", X[part], np.zeros(part.stop - part.start), feature_names=names)
        for index, part in enumerate(parts)
    ]
