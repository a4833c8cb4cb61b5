"""What is checked before a run starts: nothing is sent for a run that cannot end well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from fedsolve.algorithms.base import MATRIX_FREE
from fedsolve.errors import ConfigError, LinkExceeded
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.links import Link
from fedsolve.federation.transports import InProcess, Processes, Transport
from fedsolve.loop.resources import available_memory
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, footprint
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

# Bytes below which nobody asks how much memory there is.
SMALL = 2**28
# Models that are alive at once at the server, and at a client that computes.
MODELS = 8


def as_transport(clients: Sequence[Client] | Transport, kind: str | type[Any]) -> Transport:
    if hasattr(clients, "deliver"):
        return cast(Transport, clients)
    if isinstance(clients, Client):
        raise ConfigError("clients are a list, also if there is only one: run(algorithm, [client])")
    if hasattr(kind, "deliver"):
        raise ConfigError(
            "a transport that already holds its clients is given in their place: run(algorithm, transport)"
        )
    if kind in ("in_process", InProcess):
        return InProcess(clients)
    if kind in ("processes", Processes):
        return Processes(clients)
    raise ConfigError(f"transport is 'in_process' or 'processes', got {kind!r}")


def checked_seed(seed: int) -> int:
    try:
        return whole("seed", seed, 0, 2**64)
    except ConfigError:
        raise ConfigError(f"a seed is a whole number from 0 to 2^64 − 1, got {seed!r}") from None


def warm_weights(warm_start: Any) -> Array | None:
    if warm_start is None:
        return None
    try:
        w = np.array(getattr(warm_start, "w", warm_start), dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"a warm start is a model or an array of weights, got {warm_start!r}") from None
    if not np.isfinite(w).all():
        raise ConfigError("the warm start has weights that are not finite")
    return w


def check_algorithm(algorithm: Any) -> None:
    if isinstance(algorithm, type):
        raise ConfigError(f"{algorithm.__name__} is a class: give an instance, {algorithm.__name__}(loss=…)")
    missing = [name for name in ("start", "round", "model") if not callable(getattr(algorithm, name, None))]
    if missing:
        raise ConfigError(
            f"{type(algorithm).__name__} is no algorithm: it has no {', '.join(missing)}; "
            "an algorithm is a frozen dataclass such as Newton(loss=…)"
        )


def check_needs(algorithm: Any, loss: Any) -> None:
    """What an algorithm needs of a loss is refused before anything is sent, not in the middle of a run."""
    name = type(algorithm).__name__
    if isinstance(loss, type):
        raise ConfigError(f"the loss of {name}, {loss.__name__}, is a class: give an instance, {loss.__name__}(l2=…)")
    needs: frozenset[str] = getattr(algorithm, "needs", frozenset())
    if (loss is not None or needs) and not callable(getattr(loss, "gradient", None)):
        raise ConfigError(f"{name} takes a loss such as Logistic(l2=0.01), got {loss!r}")
    if getattr(loss, "l1", 0.0) > 0 and "l1" not in getattr(algorithm, "supports", ()):
        raise ConfigError(f"{name} has no step for an l1 penalty; use Newton, or l1 = 0")
    for need in sorted(needs):
        if need == "strong convexity":
            if loss.strong_convexity() <= 0:
                raise ConfigError(f"{name} needs strong convexity: give the loss l2 > 0 and no free intercept")
        elif need == "quadratic":
            if not loss.quadratic:
                raise ConfigError(
                    f"{name} needs a quadratic loss such as Squared, got {type(loss).__name__}; use an algorithm "
                    "that takes other losses"
                )
        elif need not in loss.provides:
            raise ConfigError(f"{name} needs a loss with {need}, which {type(loss).__name__} does not have")


def check_resources(protocol: Any, loss: Any, fed: Federation, name: str | None = None) -> None:
    """Reject what will not fit into memory, or into a client's link, before anything large is computed.

    Clients on this machine share its memory with the server; of others only the server's part is known here.
    """
    if not isinstance(loss, LinearLoss) or not fed.info:  # nothing is known of sizes
        return
    name = name or type(protocol).__name__
    sizes = {client: Sizes.of(loss, fed.features, fed.outputs, info.samples) for client, info in fed.info.items()}
    needs = {client: footprint(protocol, one) for client, one in sizes.items()}
    here: dict[str, Client] = getattr(fed.transport, "clients", {})
    for client, need in needs.items():
        if client in here:
            _check_link(name, client, here[client].link, need)
    _check_memory(name, next(iter(sizes.values())), list(needs.values()), bool(here))


def _check_link(name: str, client: str, link: Link, need: Footprint) -> None:
    fixed = type(link).allowance is Link.allowance  # else it may differ by round, and the runtime judges
    if fixed and link.bytes_per_round is not None and 8 * need.sent > link.bytes_per_round:
        raise LinkExceeded(
            client,
            "link",
            f"{name} sends more than {8 * need.sent:,} bytes in a round, and the link carries "
            f"{link.bytes_per_round:,}; give it more, or use an algorithm that sends less or fits what it sends to "
            "the link",
        )


def _check_memory(name: str, sizes: Sizes, needs: Sequence[Footprint], local: bool) -> None:
    clients = 0
    if local:
        clients = sum(need.held for need in needs) + max(need.working for need in needs) + MODELS * sizes.weights
    server = needs[0].server + MODELS * sizes.weights
    wanted = 8 * (clients + server)
    if wanted < SMALL:
        return
    free = available_memory()
    if free is None or wanted <= free:
        return
    parts = [f"{_size(8 * server)} at the server"]
    if local:
        parts.append(f"{_size(8 * clients)} at the {len(needs)} clients")
    matrix = needs[0].held or needs[0].server or needs[0].working
    what = f", with Hessians of order {sizes.order:,}" if matrix else ""
    instead = f"use {needs[0].instead or MATRIX_FREE}" if matrix else "use fewer features or classes"
    raise ConfigError(
        f"{name} would need about {_size(wanted)} of memory for {sizes.weights:,} weights{what} "
        f"({', '.join(parts)}), and {_size(free)} are available; {instead}, or more memory"
    )


def _size(number: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
