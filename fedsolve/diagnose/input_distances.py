"""How far the clients' inputs are from those of all, without pooling rows: bounds of ω_TV and ω_W1.

    ω_TV = 1/N Σ TV(α, α_i),   ω_W1 = 1/N Σ W_1(α, α_i),   α = 1/N Σ α_i

Shen, Hassani, Kale and Karbasi (2022), "Federated functional gradient boosting", equations 7, 12 and 16. FFGB converges
to a neighbourhood of the minimum whose radius grows with them (Theorems 4.1 and 4.4).

Each client divides its rows into halves. On one half it looks for the projection, and the event or function of it,
by which it differs most from the sum over all clients; on the other half this witness is measured; then the halves
change places. Both distances are suprema over witnesses, so every measured one is a lower bound, estimated without bias
(docs/decisions/041-input-distances.md). Projections are on the columns, on random directions and on each client's
difference of means.

The server sees sums of all clients, a direction for each half of each client (towards its mean, of unit length), and
four numbers of each client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedsolve.diagnose.input_distances_found import InputDistances
from fedsolve.diagnose.input_distances_witness import binned, effective_rows, halves, measure, projections
from fedsolve.diagnose.opened import Clients, asked_in, since
from fedsolve.errors import ConfigError, DataError, QuorumNotReached
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_count, require_finite, require_positive, require_shape
from fedsolve.wire.messages import Purpose

AXES = 256  # columns, at most, that are projections of their own
OWN = 64  # directions of clients, at most; of more clients the leading directions of all are taken


@dataclass(frozen=True)
class InputDistance:
    """Asks for bounds of the distances between the clients' inputs.

    standardise  divide columns by their standard deviation under α, so that W_1 does not depend on their units
    directions   so many random projections, beside the columns and the clients' own
    bins         of each projection
    seed         of the random projections, and of the halves
    """

    standardise: bool = True
    directions: int = 16
    bins: int = 32
    seed: int = 0

    purpose: ClassVar[Purpose] = "setup"

    def __post_init__(self) -> None:
        for name, least in (("directions", 1), ("bins", 2), ("seed", 0)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise ConfigError(f"{name} is a whole number of at least {least}, got {value!r}")

    # ── clients: one with too few rows answers zeros ──

    @client_step
    def means(self, client: Client) -> tuple[float, Array]:
        """Whether this client speaks (1 or 0), and the means of its columns in either half."""
        split, p = self._halves(client), client.design.shape[1]
        if split is None:
            return 0.0, np.zeros((p, 2))
        return 1.0, to_numpy(client.design.rmatvec(like(split, client.design.sample)))

    @client_step
    def squares(self, client: Client, centre: Array) -> Array:
        """The mean squares of the columns about `centre`."""
        split, p = self._halves(client), client.design.shape[1]
        require_shape("centre", centre, p)
        require_finite("centre", centre)
        total, m = np.zeros(p), to_numpy(centre)
        if split is None:
            return total
        for rows, block in client.design.blocks():
            dense = block.toarray() if hasattr(block, "toarray") else to_numpy(block)
            with np.errstate(over="ignore"):  # what is too large to square the server rejects
                total += split[rows].mean(axis=1) @ (dense - m) ** 2
        return total

    @client_step
    def own_directions(self, client: Client, means: Array, scale: Array) -> Array:
        """From the mean of all towards this client's, in either half: unit vectors, or zero."""
        split, p = self._halves(client), client.design.shape[1]
        require_shape("means", means, p, 2)
        require_shape("scale", scale, p)
        require_finite("means", means)
        require_positive("the least scale", float(to_numpy(scale).min()))
        if split is None:
            return np.zeros((p, 2))
        own = to_numpy(client.design.rmatvec(like(split, client.design.sample)))
        apart = (own - to_numpy(means)) / to_numpy(scale)[:, None]
        length = np.linalg.norm(apart, axis=0)
        return np.asarray(apart / np.where(length > 0, length, 1.0))

    @client_step
    def spreads(self, client: Client, V: Array, centre: Array, scale: Array) -> tuple[Array, Array]:
        """First and second moments of the projections in the half that chooses; 1/rows of either half."""
        split, D = self._asked(client, V, centre, scale)
        if split is None:
            return np.zeros((2, 2, D)), np.zeros(2)
        Z = [self._projected(client, V, centre, scale, half) for half in range(2)]
        moments = np.array([[split[:, h] @ Z[h] ** power for power in (1, 2)] for h in range(2)])
        return moments, 1 / np.array(effective_rows(split))

    @client_step
    def histograms(self, client: Client, V: Array, centre: Array, scale: Array, units: Array) -> Array:
        split, D = self._asked(client, V, centre, scale)
        _check_units(units, D)
        if split is None:
            return np.zeros((2, 2, 3, D, self.bins + 2))
        return self._histograms(client, V, centre, scale, to_numpy(units), split)

    @client_step
    def compare(
        self, client: Client, V: Array, centre: Array, scale: Array, units: Array, pooled: Array, rows: Array, N: int
    ) -> Array | None:
        """(bound of TV, its standard error, bound of W_1, its standard error)."""
        split, D = self._asked(client, V, centre, scale)
        _check_units(units, D)
        require_shape("pooled", pooled, 2, 2, 3, D, self.bins + 2)
        require_shape("rows", rows, 2)
        require_finite("pooled", pooled)
        require_finite("rows", rows)
        require_count("N", N - 2)  # a client is compared with at least one other
        if split is None:
            return None
        own = self._histograms(client, V, centre, scale, to_numpy(units), split)
        inverse = 1 / np.array(effective_rows(split))
        found = np.zeros(4)
        for half in range(2):  # the other half measures
            mine = float(inverse[1 - half])
            others = max(float(to_numpy(rows)[1 - half]) / N - mine / N**2, 0.0)
            variances = ((1 - 1 / N) ** 2 * mine, others)
            chooses = 1 / float(inverse[half])
            found += measure(own[half], to_numpy(pooled)[half], to_numpy(units)[half, 1], chooses, variances)
        return np.array([found[0] / 2, np.sqrt(found[1]) / 2, found[2] / 2, np.sqrt(found[3]) / 2])

    def _halves(self, client: Client) -> Array | None:
        return client.cached(("diagnose.halves", self.seed), lambda: halves(client, self.seed))

    def _asked(self, client: Client, V: Array, centre: Array, scale: Array) -> tuple[Array | None, int]:
        p = client.design.shape[1]
        require_shape("V", V, 2, p, range(1, AXES + self.directions + OWN + 1))
        require_shape("centre", centre, p)
        require_shape("scale", scale, p)
        for name, array in (("V", V), ("centre", centre), ("scale", scale)):
            require_finite(name, array)
        require_positive("the least scale", float(to_numpy(scale).min()))
        return self._halves(client), V.shape[2]

    def _projected(self, client: Client, V: Array, centre: Array, scale: Array, half: int) -> Array:
        return projections(client, to_numpy(V)[half], to_numpy(centre), to_numpy(scale))

    def _histograms(self, client: Client, V: Array, centre: Array, scale: Array, units: Array, split: Array) -> Array:
        """(half that chooses, choosing or measuring, weight or sums, direction, bin)."""
        found = np.empty((2, 2, 3, V.shape[2], self.bins + 2))
        for half in range(2):
            U = (self._projected(client, V, centre, scale, half) - units[half, 0]) / units[half, 1]
            for role, rows in enumerate((half, 1 - half)):
                kept = split[:, rows] > 0
                found[half, role] = binned(U[kept], split[kept, rows], self.bins)
        return found

    # ── server ──

    def estimate(self, fed: Federation) -> InputDistances:
        """Six exchanges, five unless columns are standardised. Raises DataError if no two clients have 20 rows."""
        before, cohort = len(fed.ledger.records), fed.cohort.clients
        share, total = fed.exchange(Mean(self.means).uniform())[0]
        N = round(share * len(cohort))
        if N < 2:
            raise DataError(
                f"{N} of {len(cohort)} clients have the 20 rows that comparing inputs needs, at least two must"
            )
        means = total / share
        centre = means.mean(axis=1)
        scale = np.ones(centre.size)
        if self.standardise:
            square = fed.exchange(Mean(self.squares, centre=centre).uniform())[0] / share
            if not np.isfinite(square).all():
                raise DataError("a column has values too large to square: give it another unit")
            rounding = (1e-12 * np.abs(centre)) ** 2  # a constant is constant up to rounding
            scale = np.sqrt(np.where(square > rounding, square, 1.0))
        # Gathered: all rows are projected on each client's own direction. It tells where a mean lies, not how far.
        found = fed.gather(self.own_directions, means=means, scale=scale)
        V = self._directions(list(found.values()), centre.size)
        moments, rows = fed.exchange(Mean(self.spreads, V=V, centre=centre, scale=scale).uniform())[0]
        units = _units(moments / share)
        asked = {"V": V, "centre": centre, "scale": scale, "units": units}
        pooled = fed.exchange(Mean(self.histograms, **asked).uniform())[0] / share
        # Gathered: the question is who differs. Four numbers of each client.
        replies = fed.gather(self.compare, **asked, pooled=pooled, rows=rows / share, N=N)
        if fed.cohort.clients != cohort:
            raise QuorumNotReached(
                "clients left during the diagnosis: their inputs would be in a part of the sums only"
            )
        said = {name: reply for name, reply in replies.items() if reply is not None}
        tv, tv_error, w1, w1_error = ({name: float(reply[k]) for name, reply in said.items()} for k in range(4))
        left_out = tuple(name for name, reply in replies.items() if reply is None)
        return InputDistances(tv, tv_error, w1, w1_error, left_out, self.standardise, since(fed, before))

    def _directions(self, own: list[Array], p: int) -> Array:
        """The projections for either half, (2, p, D)."""
        shared = np.random.default_rng(self.seed).standard_normal((p, self.directions))
        shared /= np.linalg.norm(shared, axis=0)
        if p <= AXES:
            shared = np.hstack([np.eye(p), shared])
        found = []
        for half in range(2):
            each = np.stack([one[:, half] for one in own], axis=1)
            if each.shape[1] > OWN:
                each = np.linalg.svd(each, full_matrices=False)[0][:, :OWN]
            found.append(np.hstack([shared, each]))
        return np.stack(found)


def input_distances(
    clients: Clients,
    *,
    standardise: bool = True,
    seed: int = 0,
    transport: str | type[Any] = "in_process",
) -> InputDistances:
    """Bounds of how far each client's inputs are from those of all, in total variation and in Wasserstein distance.

    `clients` may be a federation that is open already and has `InputDistance(standardise, seed=seed)` among its
    protocols. `exact_input_distances` has the distances of the rows themselves, in simulation.
    """
    protocol = InputDistance(standardise, seed=seed)
    with asked_in("input_distances", protocol, clients, transport, seed) as fed:
        return protocol.estimate(fed)


def _check_units(units: Array, D: int) -> None:
    require_shape("units", units, 2, 2, D)
    require_finite("units", units)
    require_positive("the least unit", float(to_numpy(units)[:, 1].min()))


def _units(moments: Array) -> Array:
    """Centre and standard deviation of each projection, (2, 2, D); 1 where it is constant."""
    mean, square = moments[:, 0], moments[:, 1]
    variance = square - mean**2
    return np.stack([mean, np.sqrt(np.where(variance > 1e-12 * square, variance, 1.0))], axis=1)
