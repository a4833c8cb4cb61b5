"""What is checked before a run starts: nothing is sent for a run that cannot end well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.algorithms.base import MATRIX_FREE
from fedsolve.errors import ConfigError, LinkExceeded
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.links import Link
from fedsolve.loop.resources import available_memory
from fedsolve.losses import LinearLoss, Pointwise
from fedsolve.losses.footprint import Footprint, Sizes, footprint
from fedsolve.models.base import Model
from fedsolve.typing import Array, Value

# Bytes below which nobody asks how much memory there is.
SMALL = 2**28
# Models that are alive at once at the server, and at a client that computes.
MODELS = 8


def warm_weights(warm_start: Model | Array | None) -> Array | None:
    """The weights of a warm start that is an array, or has weights; None for a model, which is asked when the columns
    are known. Raises ConfigError for what is neither, and for weights that are not finite."""
    if warm_start is None or isinstance(warm_start, Model):
        return None
    try:
        w = np.array(getattr(warm_start, "w", warm_start), dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"a warm start is a model or an array of weights, got {warm_start!r}") from None
    if not np.isfinite(w).all():
        raise ConfigError("the warm start has weights that are not finite")
    return w


def check_algorithm(algorithm: object) -> None:
    """Raise ConfigError for what is no algorithm."""
    if isinstance(algorithm, type):
        raise ConfigError(f"{algorithm.__name__} is a class: give an instance, {algorithm.__name__}(loss=…)")
    missing = [name for name in ("start", "round", "model") if not callable(getattr(algorithm, name, None))]
    if missing:
        raise ConfigError(
            f"{type(algorithm).__name__} is no algorithm: it has no {', '.join(missing)}; "
            "an algorithm is a frozen dataclass such as Newton(loss=…)"
        )


def check_needs(algorithm: object, loss: Value) -> None:
    """What an algorithm needs of a loss is refused before anything is sent, not in the middle of a run."""
    name = type(algorithm).__name__
    if isinstance(loss, type):
        raise ConfigError(f"the loss of {name}, {loss.__name__}, is a class: give an instance, {loss.__name__}(l2=…)")
    needs: frozenset[str] = getattr(algorithm, "needs", frozenset())
    pointwise = isinstance(loss, Pointwise) and not needs  # then ℓ is all that the algorithm asks for
    if (loss is not None or needs) and not pointwise and not callable(getattr(loss, "gradient", None)):
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


def check_missing(algorithm: object, preprocess: object) -> None:
    """Reject a preprocessing that keeps missing cells, before an algorithm that computes with all of them."""
    learner = getattr(algorithm, "learner", algorithm)  # of boosting the weak learner takes them, or does not
    if getattr(preprocess, "keeps_missing", False) is True and not getattr(learner, "accepts_missing", False):
        raise ConfigError(
            f"{type(algorithm).__name__} cannot learn from missing cells, which impute='keep' leaves as they are: say "
            "impute='mean' or a number, or boost trees, FFGB(loss, Trees())"
        )


def check_intercept(algorithm: object, loss: object, preprocess: object) -> None:
    """Reject a formula whose intercept the loss of a linear model does not have, or the other way round."""
    wanted = getattr(preprocess, "has_intercept", None)
    if not isinstance(wanted, bool) or not isinstance(loss, LinearLoss) or loss.features is not None:
        return
    if hasattr(algorithm, "learner") or wanted == (loss.intercept is not None):  # learners have none of their own
        return
    kind = type(loss).__name__
    if wanted:
        raise ConfigError(
            f"the formula has an intercept and {kind} has none: say intercept = 'free' in the loss, or write - 1 in "
            "the formula"
        )
    raise ConfigError(
        f"the formula has no intercept and {kind} has one: leave intercept out of the loss, or - 1 (+ 0) out of the "
        "formula"
    )


def check_resources(protocol: object, loss: object, fed: Federation, name: str | None = None) -> None:
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
