"""Sharing a Hessian a few eigenpairs at a time: what a client sends (SHED, Algorithm 4, lines 4–14)."""

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
    """A client's next eigenpairs."""

    renewal: int  # of which Hessian
    first: int  # how many were sent before these
    pairs: LowRank
    following: float  # λ_{q+1}, the largest of those not sent
    least: float  # λ_n, or a bound on it from below


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
    """The next `count` eigenpairs (None: all that its link lets through) of the Hessian of this renewal.

    A client that has not seen this renewal takes its Hessian at w and begins with the first. `horizon` is how many
    pairs may be asked of it before the next. `reserve` bytes of the link are left for later in the round.
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
        client.vectors -= increment.pairs.values.size  # what is left to other calls of this round
    return increment


def _spectrum(loss: LinearLoss, client: Client, needed: int) -> Eigenpairs:
    """The eigenpairs at the last renewal; all of them where more are needed than were thought to be."""
    at, horizon = client.memory["renewed at"], client.memory["horizon"]
    few = horizon if horizon is not None and needed <= horizon else None
    # Kept for the last point and the last number asked for, and for no other.
    number = client.xp.asarray([-1.0 if few is None else float(few)], dtype=at.dtype, device=device(client.y))
    key = client.xp.concat([client.xp.reshape(at, (-1,)), number])
    return client.at((loss, "eigenpairs"), key, lambda _: eigenpairs(loss, client, at, few))


def _increment(found: Eigenpairs, renewal: int, first: int, count: int, precision: Precision) -> Increment:
    part = slice(first, first + max(count, 0))
    vectors = np.ascontiguousarray(found.vectors[:, part], dtype=precision)
    return Increment(renewal, first, LowRank(vectors, found.values[part]), found.after(part.stop), found.least)


def _squeezed(increment: Increment, found: Eigenpairs, room: int, precision: Precision) -> Increment:
    """As many of its pairs as fit into so many bytes."""
    count = increment.pairs.values.size
    while count and Part(increment).size > room:
        each = found.order * np.dtype(precision).itemsize + 8
        count = max(0, count - max(1, (Part(increment).size - room) // each))
        increment = _increment(found, increment.renewal, increment.first, count, precision)
    return increment
