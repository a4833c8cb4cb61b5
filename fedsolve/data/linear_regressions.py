"""The linear regressions of Su, Xu and Yang (2023), sections 7.1 to 7.3, with the truth that only a simulation knows.

    y_i = X_i θ_i* + ξ_i,   ξ_i ~ N(0, σ² I),   rows of X_i ~ N(0, I), or ~ N(0, (d/r) I_E) on r of the d columns

Clients may differ in size, in their truth θ_i* (`SharedModel`, `OneDeviates`, `AllDeviate`, `TwoGroups`), and in the
columns E they see. A client's draws depend on the seed and its own number alone, and σ and the distance between the
models only scale them: settings compare draw by draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

_ROWS, _TRUTH, _DIRECTIONS = 4, 5, 6  # the streams of one seed; `heterogeneous` and the feature maps have others


class ModelDesign(Protocol):
    """How the truths of the clients differ."""

    def models(self, shared: Array, directions: Array) -> Array:
        """θ_i*, a row per client, from θ* ~ N(0, I) and a standard normal vector for every client."""
        ...


@dataclass(frozen=True)
class SharedModel:
    """All clients have the same truth."""

    def models(self, shared: Array, directions: Array) -> Array:
        """θ* for everyone."""
        return np.tile(shared, (len(directions), 1))


@dataclass(frozen=True)
class OneDeviates:
    """One client has a truth of its own, at a distance from that of all others and of the same norm.

    Args:
        distance: Γ = ‖θ_j* − θ*‖, at most 2‖θ*‖.
        client: The number j of the client that deviates. Default 0.
    """

    distance: float
    client: int = 0

    def __post_init__(self) -> None:
        _distance(self.distance)
        whole("client", self.client, 0)

    def models(self, shared: Array, directions: Array) -> Array:
        """θ* for everyone but one, whose truth is θ* turned by an angle with chord Γ."""
        if self.client >= len(directions):
            raise ConfigError(f"client {self.client} deviates, but the clients are 0 to {len(directions) - 1}")
        found = np.tile(shared, (len(directions), 1))
        if self.distance:
            found[self.client] = _turned(shared, directions[self.client], self.distance)
        return found


@dataclass(frozen=True)
class AllDeviate:
    """Every client has a truth of its own, in an independent direction from θ*, all at the same distance from it.

    Args:
        distance: Γ, the largest distance between two clients' truths.
    """

    distance: float

    def __post_init__(self) -> None:
        _distance(self.distance)

    def models(self, shared: Array, directions: Array) -> Array:
        """θ* + c u_i with unit vectors u_i, and c such that the largest distance is Γ."""
        units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        widest = largest_distance(units)
        if self.distance and not widest:
            raise ConfigError(f"AllDeviate({self.distance:g}) needs at least two clients")
        moved: Array = shared + (self.distance / widest if widest else 0.0) * units
        return moved


@dataclass(frozen=True)
class TwoGroups:
    """Two groups of clients, those of even and of odd number, with one truth each.

    Args:
        distance: Γ, the distance between the two truths.
    """

    distance: float

    def __post_init__(self) -> None:
        _distance(self.distance)

    def models(self, shared: Array, directions: Array) -> Array:
        """θ* ± (Γ/2) u with one unit vector u."""
        if self.distance and len(directions) < 2:
            raise ConfigError(f"TwoGroups({self.distance:g}) needs at least two clients")
        unit = directions[0] / np.linalg.norm(directions[0])
        side = np.where(np.arange(len(directions)) % 2 == 0, 0.5, -0.5)
        moved: Array = shared + self.distance * side[:, None] * unit
        return moved


@dataclass(frozen=True, eq=False)
class LinearData:
    """Clients with linear responses, and the truth.

    clients   one per size, named client-0, client-1, …
    models    θ_i*, a row per client
    supports  the columns each client sees, ascending, a row per client
    sigma     the standard deviation of the noise
    """

    clients: list[Client]
    models: Array
    supports: Array
    sigma: float

    @property
    def heterogeneity(self) -> float:
        """Γ = max ‖θ_i* − θ_j*‖."""
        return largest_distance(self.models)


def linear_model(
    sizes: Sequence[int],
    features: int = 100,
    *,
    sigma: float = 0.5,
    models: ModelDesign | None = None,
    subspace: int | None = None,
    seed: int = 0,
) -> LinearData:
    """Draw clients whose responses are linear in their inputs, with Gaussian noise.

    Args:
        sizes: Rows of each client, such as [50] * 10 + [500] * 10.
        features: d, the number of columns. Default 100.
        sigma: σ, the standard deviation of the noise. Default 0.5.
        models: How the clients' truths differ. Default: all have the same, drawn from N(0, I).
        subspace: r, how many columns a client sees; it draws its own r of the d, and its other columns are zero. A row
            has a squared norm of d in expectation for any r. Default: all columns.
        seed: Seed of all draws. Default 0.

    Returns:
        The clients, the truth of each, and the columns it sees.

    Example:
        >>> data = linear_model([50, 500], 20, models=OneDeviates(0.3, client=0))
        >>> [client.n_samples for client in data.clients], round(data.heterogeneity, 12)
        ([50, 500], 0.3)
    """
    counts = [whole("a client's size", size, 1) for size in sizes]
    d, seed = whole("features", features, 1), whole("seed", seed, 0)
    r = d if subspace is None else whole("subspace", subspace, 1, d + 1)
    if not counts:
        raise ConfigError("sizes is empty; expected the rows of each client, such as [500] * 25")
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ConfigError(f"sigma is a standard deviation of at least 0, got {sigma}")
    truths = draw_models(SharedModel() if models is None else models, len(counts), d, seed)
    clients, supports = [], []
    for i, n in enumerate(counts):
        rng = np.random.default_rng((seed, _ROWS, i))
        seen, support = subspace_rows(rng, (), n, d, r)
        X = np.zeros((n, d))
        X[:, support] = seen
        clients.append(Client(f"client-{i}", X, X @ truths[i] + sigma * rng.standard_normal(n)))
        supports.append(support)
    return LinearData(clients, truths, np.stack(supports), sigma)


def draw_models(design: ModelDesign, clients: int, features: int, seed: int) -> Array:
    """The truths that `linear_model` draws with this seed, a row per client. They depend on nothing else."""
    shared = np.random.default_rng((seed, _TRUTH)).standard_normal(features)
    directions = [np.random.default_rng((seed, _DIRECTIONS, i)).standard_normal(features) for i in range(clients)]
    return design.models(shared, np.stack(directions))


def subspace_rows(
    rng: np.random.Generator, trials: tuple[int, ...], rows: int, features: int, subspace: int
) -> tuple[Array, Array]:
    """Rows ~ N(0, (d/r) I_E) for random E of r columns: the columns in E alone, and which they are (ascending).

    Every trial has an E of its own. The shapes are (*trials, rows, r) and (*trials, r).
    """
    order = np.argsort(rng.random((*trials, features)), axis=-1)
    support = np.sort(order[..., :subspace], axis=-1)
    seen: Array = math.sqrt(features / subspace) * rng.standard_normal((*trials, rows, subspace))
    return seen, support


def largest_distance(points: Array) -> float:
    """The largest Euclidean distance between two rows."""
    return max((float(np.linalg.norm(points - point, axis=1).max()) for point in points), default=0.0)


def _distance(given: float) -> None:
    if not (math.isfinite(given) and given >= 0):
        raise ConfigError(f"distance is a number of at least 0, got {given}")


def _turned(point: Array, direction: Array, chord: float) -> Array:
    """A point of the same norm as `point` at distance `chord` from it, towards `direction`."""
    norm = float(np.linalg.norm(point))
    if chord > 2 * norm:
        raise ConfigError(f"two vectors of norm {norm:g} are at most {2 * norm:g} apart, got a distance of {chord:g}")
    across = direction - (direction @ point) / norm**2 * point
    length = float(np.linalg.norm(across))
    if length <= 1e-12 * float(np.linalg.norm(direction)):
        raise ConfigError("with one feature no other truth has the same norm; take at least 2 features")
    angle = 2 * math.asin(chord / (2 * norm))
    turned: Array = math.cos(angle) * point + math.sin(angle) * norm / length * across
    return turned
