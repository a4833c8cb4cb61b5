"""What a transport must do: carry requests there and answers back, whoever is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from fedsolve.typing import Value
from fedsolve.wire.messages import Failure, Reply, Request

Versions = dict[int, dict[str, Value]]


class Transport(Protocol):
    """Knows clients and wire, not algorithms.

    One that knows why clients are missing from the last exchange says so in a dict `absences`, by their names. One that
    knows which clients can be reached, without asking or waiting for them, has a method `reachable(names)` that returns
    those; without it, lost clients are asked in every round with a deadline of 0 seconds. An answer that comes after
    its exchange should be given with those of a later one: it is not used, but shows that its client is back.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The clients, in the order in which sums are taken."""
        ...

    def open(self, protocols: Mapping[str, object]) -> None:
        """Start the clients' runtimes with the protocols they will answer."""
        ...

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterable[tuple[str, Reply | Failure]]:
        """Each client's answer, in any order, as it comes; one that did not answer in time is missing. A transport
        with an attribute `in_turn = True` gives them in the order of the requests, and never an old one."""
        ...

    def memories(self) -> dict[str, Versions] | None:
        """The clients' memories for a checkpoint in simulation; None where clients keep their own."""
        ...

    def restore(self, memories: Mapping[str, Versions], attempt: int) -> None:
        """Give the clients the memories of a checkpoint."""
        ...

    def close(self) -> None:
        """Release what was started. Safe to call twice."""
        ...


def absences(transport: Transport) -> Mapping[str, str]:
    """Why clients are missing from the last exchange, as far as the transport knows."""
    found: Mapping[str, str] = getattr(transport, "absences", {})
    return found
