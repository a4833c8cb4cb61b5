"""The steps that clients answer, and what these take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedsolve.errors import WrongType
from fedsolve.federation.joining import Joining
from fedsolve.federation.link_meter import purpose_of
from fedsolve.federation.protocol import Signature, fingerprint, is_server_only, signature, steps, types_of
from fedsolve.text import shortened
from fedsolve.typing import Value
from fedsolve.wire.annotation_checks import Check

Joined = tuple[tuple[str, str], ...] | None  # protocols and fingerprints that a server joined with


class ServedStep(NamedTuple):
    """A step, the protocol it belongs to, and what it takes and gives."""

    protocol: object
    function: Callable[..., Value]
    contract: Signature


class Served:
    """The steps that clients started with some protocols answer: one table for all clients of a process."""

    def __init__(self, protocols: Mapping[str, object], remember: bool = True) -> None:
        self.protocols = dict(protocols)
        self.fingerprints = {name: fingerprint(protocol) for name, protocol in protocols.items()}
        # Whether clients keep their last reply for the case that it is asked for again. Without, it is computed again.
        self.remember = remember
        everything: dict[str, object] = {**protocols, "session": Joining()}
        self.steps = {
            (name, step): ServedStep(protocol, function, signature(function))
            for name, protocol in everything.items()
            for step, function in steps(protocol).items()
            if not is_server_only(function)
        }
        self.types = types_of(everything)
        # A protocol that is a field of another serves that one's purpose.
        self.purposes = {
            name: purpose_of(everything.get(name.partition(".")[0], it)) for name, it in everything.items()
        }
        self._agreed: dict[Joined, dict[tuple[str, str], ServedStep]] = {}

    def agreed(self, joined: Joined) -> dict[tuple[str, str], ServedStep]:
        """The steps that a server may call which joined with these protocols and fingerprints."""
        found = self._agreed.get(joined)
        if found is None:
            # Fingerprints again: a client that restarts with other hyper-parameters has agreed to nothing.
            names = {name for name, print_ in joined or () if self.fingerprints.get(name) == print_} | {"session"}
            found = {route: step for route, step in self.steps.items() if route[0] in names}
            self._agreed[joined] = found
        return found


def check_arguments(where: str, expected: Mapping[str, Check], given: Mapping[str, Value]) -> None:
    """Raise WrongType for arguments that a step did not declare, or of another type."""
    if given.keys() != expected.keys():
        came = shortened(sorted(map(str, given)))
        raise WrongType(f"{where} takes {sorted(expected)}, got {came}")
    for name, check in expected.items():
        if not check(given[name]):
            raise WrongType(f"{where} got {name} of type {type(given[name]).__name__}, which is not what it declares")
