"""The next eigenpairs that a client sends of its Hessian, as many as its link lets through (SHED, Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from array_api_compat import device

from fedsolve.curvature.eigenpairs import Eigenpairs, eigenpairs
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.structured_arrays import LowRank
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_count
from fedsolve.wire.encoding import Part

Precision = Literal["float64", "float32", "float16"]


@dataclass(frozen=True)
class Increment:
    """A client's next eigenpairs.

    renewal    of which Hessian
    first      how many were sent before these
    pairs      the eigenvectors and eigenvalues
    following  λ_{q+1}, the largest eigenvalue that is not sent yet
    least      λ_n, or a lower bound on it
    """

    renewal: int
    first: int
    pairs: LowRank
    following: float
    least: float


def next_increment(
    loss: LinearLoss,
    client: Client,
    w: Array,
    renewal: int,
    count: int | None,
    horizon: int | None,
    precision: Precision,
    reserve: int = 0,
) -> Increment:
    """The next eigenpairs of the Hessian of a renewal. A client that missed the renewal recomputes its Hessian at w and
    starts with the first.

    count    how many; None for as many as the link lets through
    horizon  how many may be asked for before the next renewal, None if that is not known: a few are cheaper than all
    reserve  bytes of the link that are left for later in the round
    """
    require_count("count", count)
    require_count("horizon", horizon)
    memory = client.memory
    if memory.get("renewal") != renewal:
        memory["renewal"], memory["renewed at"], memory["sent"], memory["horizon"] = renewal, w, 0, horizon
    sent = memory["sent"]
    found = _spectrum(loss, client, sent + (count or 0))
    fitting = found.worth_sending - sent if count is None else min(count, found.worth_sending - sent)
    if client.vectors is not None:
        fitting = min(fitting, client.vectors)
    increment = _increment(found, renewal, sent, fitting, precision)
    if client.room is not None:
        increment = _squeezed(increment, found, client.room - reserve, precision)
    memory["sent"] = sent + increment.pairs.values.size
    if client.vectors is not None:
        client.vectors -= increment.pairs.values.size  # the rest is for other calls of this round
    return increment


def _spectrum(loss: LinearLoss, client: Client, needed: int) -> Eigenpairs:
    """The eigenpairs at the last renewal: all of them if more are needed than the horizon said."""
    at, horizon = client.memory["renewed at"], client.memory["horizon"]
    few = horizon if horizon is not None and needed <= horizon else None
    # Cached for the last point and the last number asked for.
    number = client.xp.asarray([-1.0 if few is None else float(few)], dtype=at.dtype, device=device(client.y))
    key = client.xp.concat([client.xp.reshape(at, (-1,)), number])
    return client.at((loss, "eigenpairs"), key, lambda _: eigenpairs(loss, client, at, few))


def _increment(found: Eigenpairs, renewal: int, first: int, count: int, precision: Precision) -> Increment:
    part = slice(first, first + max(count, 0))
    vectors = np.ascontiguousarray(found.vectors[:, part], dtype=precision)
    return Increment(renewal, first, LowRank(vectors, found.values[part]), found.after(part.stop), found.least)


def _squeezed(increment: Increment, found: Eigenpairs, room: int, precision: Precision) -> Increment:
    """The increment with as many of its pairs as fit into `room` bytes."""
    count = increment.pairs.values.size
    while count and Part(increment).size > room:
        each = found.order * np.dtype(precision).itemsize + 8
        count = max(0, count - max(1, (Part(increment).size - room) // each))
        increment = _increment(found, increment.renewal, increment.first, count, precision)
    return increment
