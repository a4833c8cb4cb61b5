"""The server's part between the messages: how many weights to ask for, what to make of them, and the descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.lowrank.corrections import C, Corrected, corrected_field
from fedsolve.lowrank.surrogate import Learning
from fedsolve.numerics.linalg import norm, to_numpy
from fedsolve.numerics.scalars import positive, whole
from fedsolve.numerics.vector_fields import Field, zero
from fedsolve.typing import Array

Rank = int | Literal["revealed"] | None
RUNAWAY = 1e6  # times the least gradient so far: steps of gradient descent that lead there will not come back


def check_options(rank: Rank, weights: str, probes: int, steps: int | None, corrections: int | None) -> None:
    """Raise ConfigError for what makes no sense."""
    if weights not in ("truncated", "inverse"):
        raise ConfigError(f"weights is 'truncated' or 'inverse', got {weights!r}")
    if isinstance(rank, str) and rank != "revealed":
        raise ConfigError(f"rank is a number of weights, 'revealed' or None, got {rank!r}")
    whole("probes", probes, 1)
    for name, number, least in (("rank", rank, 1), ("steps", steps, 0), ("corrections", corrections, 0)):
        if number is not None and number != "revealed":
            whole(name, number, least)
    if weights == "inverse" and probes != 1:
        raise ConfigError(f"weights='inverse' has one probe for each weight: probes=1, got {probes}")
    if weights == "inverse" and rank == "revealed":
        raise ConfigError("rank='revealed' is for weights='truncated'; an inverse has as many weights as samples")


def check_positive(**numbers: float | None) -> None:
    """Raise ConfigError unless each number is positive and finite, or None."""
    for name, number in numbers.items():
        if number is not None:
            positive(name, number)


# ── before the clients are asked ──


def rank_of(rank: Rank, weights: str, order: int, server: Client) -> int:
    """r, or the most that it may be. Raises DataError if the server has fewer samples.

    order  p, the number of weights that the gradient of one sample depends on
    """
    samples = server.n_samples
    if rank == "revealed":
        return min(samples, max(order + 1, 3 * order // 2))
    wanted = rank or (samples if weights == "inverse" else order + 1)
    if samples < wanted:
        why, many = "" if rank else ", one more than the model has weights,", "s" * (samples != 1)
        raise DataError(
            f"the server's data ({server.name!r}) has {samples} sample{many}, and rank {wanted}{why} needs "
            f"at least as many: give the server more samples, or set rank='revealed' or a rank of at most {samples}"
        )
    return wanted


def smoothness_needed(fed: Federation, loss: Loss, steps: int | None, step_size: float | None) -> bool:
    """Whether gradient steps need a bound on the smoothness. Raises ConfigError where the loss has none."""
    if steps is None or step_size is not None:
        return False
    if not np.isfinite(loss.smoothness(fed.server)):
        raise ConfigError("this loss has no bound on its smoothness: give FedLRGD a step_size, or steps=None")
    return True


# ── after they have answered ──


def rows_in_turn(fed: Federation, first: Array, ask: Callable[[int], Array], count: int) -> Array:
    """The sums of all rows, some of which are known, over one set of clients: (count, p).

    Weights are of use only if all their rows are sums over the same clients. If somebody leaves in between, those who
    are left are asked for the earlier rows again; they have computed them already.
    """
    rows, cohort = first, fed.cohort.clients
    while len(rows) < count:
        row = ask(len(rows))
        if fed.cohort.clients == cohort:
            rows = np.concatenate([rows, row])
        else:
            rows, cohort = np.empty((0, rows.shape[1])), fed.cohort.clients
    return rows


def learned(fed: Federation, state: C, learning: Learning, sums: Array) -> C:
    """The state with its approximation of the gradient of those who answered and the server: n is the weight of these,
    so that it is their objective which is approximated."""
    if not np.isfinite(sums).all():
        raise DataError(
            "the sum of the clients' weights has NaN or infinite numbers, so nothing can be learned from it; a client "
            "that sends such numbers is left out, and named, if there is a quorum: Participation(quorum=0.5)"
        )
    server, cohort = fed.server, fed.cohort.clients
    own = np.ones(server.n_samples) if server.sample_weight is None else to_numpy(server.sample_weight)
    total = server.weight + sum(fed.weights[name] for name in cohort)
    surrogate = learning.surrogate(sums, own, total)
    if state.cohort != cohort:  # exact gradients of others do not correct it
        state = replace(state, cohort=cohort, value=None, gradient=None, places=None, gradients=None)
    return replace(state, surrogate=surrogate)


def minimise(approximate: Field, state: Corrected, steps: int | None, weights: str) -> Array:
    """Where the approximate gradient, corrected by the exact ones, is zero; or where so many steps of inexact gradient
    descent lead (Jadbabaie et al., equation 42). In the shape of w.

    Steps with an inverse go wherever they lead, as published; others stay within reach. If they run away, they stop.
    """
    assert state.widths is not None
    field, start, widths = corrected_field(approximate, state), state.w.reshape(-1), state.widths
    if steps is None:
        found = start + widths * zero(lambda u: widths * field(start + widths * u), 0.0 * start, state.reach)
        return found.reshape(state.w.shape)
    room = np.inf if weights == "inverse" else state.reach * widths
    w, most = start, np.inf
    for _ in range(steps):
        gradient = field(w[None])[0]
        size = norm(widths * gradient)
        if size <= most:  # and from then on never again: S gradients are counted either way
            most = min(most, RUNAWAY * size)
            w = np.clip(w - state.step * gradient, start - room, start + room)
    return w.reshape(state.w.shape)


def penalties(loss: Loss, fed: Federation, points: Array) -> Array:
    """The gradient of the penalty at each point."""
    shape = loss.shape(fed.features, fed.outputs)
    return np.stack([np.asarray(loss.penalty_gradient(point.reshape(shape))).reshape(-1) for point in points])


def footprint(sizes: Sizes, rank: Rank, probes: int) -> Footprint:
    """Bases for every coordinate, at the client and, with what they are made of, at the server."""
    r = rank if isinstance(rank, int) else sizes.order + 1
    bases = sizes.weights * probes * r * r
    return Footprint(working=bases, server=4 * bases, sent=(r + 1) * sizes.weights)
