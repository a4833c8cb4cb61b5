"""Sharing a Hessian a few eigenpairs at a time: what the server keeps of it, and what it asks for next (SHED)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fedsolve.curvature.increments import Increment, Precision
from fedsolve.curvature.renewals import Renewals
from fedsolve.errors import ConfigError, UnknownName, WrongType
from fedsolve.federation.calls import Gather, PerClient
from fedsolve.federation.federation import Federation
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Array

# How many eigenvectors a round: the same for all, by client, or as many as the link carries.
HowMany: TypeAlias = int | dict[str, int] | Literal["link"]


def check_options(increment: HowMany, precision: str, renewals: Any = None) -> None:
    """Refuse what these options cannot be."""
    counts = tuple(increment.values()) if isinstance(increment, dict) else (increment,)
    if increment != "link" and not all(is_whole(one) and one >= 0 for one in counts):
        raise ConfigError(f"increment is a number of vectors, numbers by client, or 'link'; got {increment!r}")
    if precision not in get_args(Precision):
        raise ConfigError(f"precision is one of {', '.join(map(repr, get_args(Precision)))}; got {precision!r}")
    if renewals is not None and not isinstance(renewals, Renewals):
        raise ConfigError(f"renewals is a rule such as Fibonacci() or Periodic(25); got {renewals!r}")


def check_clients(increment: HowMany, clients: tuple[str, ...]) -> None:
    """Refuse increments for clients that there are not, or for some only."""
    if not isinstance(increment, dict):
        return
    for name in increment:
        if name not in clients:
            raise UnknownName("client in increment", name, clients)
    if missing := [name for name in clients if name not in increment]:
        raise ConfigError(f"increment says nothing of {', '.join(missing)}; 0 is for a client that sends no vectors")


@dataclass(frozen=True)
class Spectrum:
    """What the server knows of one client's Hessian: q eigenpairs, and what bounds the others."""

    renewal: int
    vectors: Array  # as precise as they came
    values: Array
    following: float
    least: float

    @staticmethod
    def grown(before: Spectrum | None, client: str, increment: Increment) -> Spectrum:
        """With an increment that follows on; the first one of a renewal begins anew."""
        vectors, values = increment.pairs.vectors, increment.pairs.values
        if increment.first == 0 and before is not None and before.renewal == increment.renewal and before.values.size:
            raise WrongType(f"client {client!r} sent its first eigenpairs of renewal {increment.renewal} twice")
        if increment.first:
            if before is None or before.renewal != increment.renewal or before.values.size != increment.first:
                known = "nothing" if before is None else f"{before.values.size} of renewal {before.renewal}"
                raise WrongType(
                    f"client {client!r} sent eigenpairs from number {increment.first + 1} of renewal "
                    f"{increment.renewal}, where the server knows {known}"
                )
            if not values.size:
                return replace(before, following=increment.following)
            vectors = np.hstack([before.vectors, vectors])
            values = np.concatenate([before.values, values])
        return Spectrum(increment.renewal, vectors, values, increment.following, increment.least)


@dataclass(frozen=True)
class Sharing:
    """How far the clients are with their eigenpairs. A client that was away for a renewal takes the Hessian where it
    is asked again: all others need not wait for it, and it sends nothing that nobody can use."""

    t: int = 0  # iterations begun, as the paper counts them: from 1
    renewal: int = 0  # the number of the last renewal
    renewed: int = 0  # and its iteration
    norms: tuple[float, ...] = ()  # of gradients since then
    spectra: dict[str, Spectrum] = field(default_factory=dict)
    ahead: bool = False  # the eigenpairs of iteration t came with a step that was not taken

    def asked(
        self,
        fed: Federation,
        step: Callable[..., Increment],
        rule: Renewals,
        increment: HowMany,
        n: int,
        renews: bool = False,
    ) -> tuple[Sharing, Gather[Increment]]:
        """The next iteration, and the call of `step` that asks for its eigenpairs (lines 4–14)."""
        t = self.t if self.ahead else self.t + 1
        renews = renews or rule.due(t, self.renewed, n, self.norms)
        following = rule.next_after(t, n)
        counts: dict[str, int | None] = {
            name: 0 if self.ahead and not renews else _count(increment, name) for name in fed.clients
        }
        horizon = {
            name: None if following is None or count is None else count * (following - t)
            for name, count in counts.items()
        }
        renewal = self.renewal + renews
        # Gathers, because ρ_i falls in every round and with it each client's own part of Ĥ.
        call = Gather(step, renewal=renewal, count=PerClient(counts), horizon=PerClient(horizon))
        begun = replace(self, t=t, renewal=renewal, ahead=False)
        return (replace(begun, renewed=t, norms=()) if renews else begun), call

    def received(self, increments: Mapping[str, Increment], gradient_norm: float) -> Sharing:
        """With what the clients sent."""
        grown = {name: Spectrum.grown(self.spectra.get(name), name, one) for name, one in increments.items()}
        return replace(self, spectra={**self.spectra, **grown}, norms=(*self.norms, gradient_norm)[-3:])

    def not_taken(self, before: Sharing) -> Sharing:
        """After a step to where these eigenpairs were asked for was not taken: they stand, its gradient does not, and a
        renewal there is repeated where the iteration truly begins."""
        return replace(self, renewed=before.renewed, norms=before.norms, ahead=True)


def _count(increment: HowMany, client: str) -> int | None:
    if isinstance(increment, dict):
        return increment[client]
    return None if increment == "link" else increment
