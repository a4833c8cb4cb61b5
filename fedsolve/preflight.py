"""What is checked before a run starts: nothing is sent for a run that cannot end well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from fedsolve.client import Client
from fedsolve.errors import ConfigError
from fedsolve.scalars import whole
from fedsolve.transports import InProcess, Processes, Transport
from fedsolve.typing import Array


def as_transport(clients: Sequence[Client] | Transport, kind: str | type[Any]) -> Transport:
    if hasattr(clients, "deliver"):
        return cast(Transport, clients)
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
                    f"{name} needs a quadratic loss such as Squared, got {type(loss).__name__}; use SHED or Newton"
                )
        elif need not in loss.provides:
            raise ConfigError(f"{name} needs a loss with {need}, which {type(loss).__name__} does not have")
