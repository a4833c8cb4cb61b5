"""The names of the calls of an exchange, as they travel and as the ledger writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Call
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Purpose, verb_word


class Routes:
    """Finds the name of a call's protocol, and makes each combination of calls only once."""

    def __init__(self, protocols: Mapping[str, object]) -> None:
        self.protocols = dict(protocols)
        # By identity, which is quick; the protocol is held beside its name, so that its identity stays its own.
        self._names = {id(protocol): (protocol, name) for name, protocol in self.protocols.items()}
        self._made: dict[tuple[tuple[str, str, str, str], ...], tuple[Part, tuple[str, ...]]] = {}

    def add(self, name: str, protocol: object) -> None:
        """Let calls of this protocol travel under a name."""
        self._names[id(protocol)] = (protocol, name)

    def of(self, calls: Sequence[Call[object]], purposes: Sequence[Purpose]) -> tuple[Part, tuple[str, ...]]:
        """The routes of the calls (protocol, step, purpose, verb), and their names in the ledger."""
        parts: list[tuple[str, str, str, str]] = []
        for call, purpose in zip(calls, purposes, strict=True):
            known = self._names.get(id(call.protocol))
            name = self.name_of(call.protocol) if known is None else known[1]
            parts.append((name, call.name, purpose, call.verb))
        key = tuple(parts)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = (
                Part.plain([[*names, verb_word(verb)] for *names, verb in key]),
                tuple(f"{protocol}.{step}" for protocol, step, _, _ in key),
            )
        return found

    def name_of(self, protocol: object) -> str:
        """The name a protocol was given in this run. Raises ConfigError if it is none of the run's."""
        found = self._names.get(id(protocol))
        if found is not None:
            return found[1]
        for name, known in self.protocols.items():  # a twin: equal, but not the same object
            if known == protocol:
                self.add(name, protocol)
                return name
        raise ConfigError(
            f"{type(protocol).__name__} is not one of this run's protocols ({', '.join(self.protocols)}): "
            "make it a field of the algorithm, or announce it with Session(…, also=…)"
        )
