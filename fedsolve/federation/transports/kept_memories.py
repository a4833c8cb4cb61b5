"""The server's copies of what clients remember, for the case that a worker process dies.

A reply brings along what it changed in the client's memory: it arrives whole or not at all, as the reply does. So the
versions kept here are those the client has, by the same rule (`Runtime._commit`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from fedsolve.errors import WireError, WrongType
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.transports.base import Versions
from fedsolve.typing import Value
from fedsolve.wire import encoding as wire
from fedsolve.wire.encoding import FILE, Part, Preamble
from fedsolve.wire.messages import Request

_LOST = b"lost"  # begins an attachment that says why there is no copy
_NO_LIMIT = 2**62  # this machine talks to itself


def changes(runtime: Runtime, head: Preamble) -> bytes:
    """At the client: what its answer to a request changed in its memory, against the version it began with."""
    before, after = runtime.versions.get(head.used), runtime.versions.get(head.number)
    if before is None or after is None or after is before:
        return b""
    changed = {key: value for key, value in after.items() if key not in before or before[key] is not value}
    dropped = [key for key in before if key not in after]
    try:
        return wire.encode(Preamble(FILE), [Part(runtime.client.globalise(changed)), Part(dropped)])
    except WireError as error:
        return _LOST + str(error).encode(errors="backslashreplace")


class KeptMemory:
    """One client's versions. A version is None, with the reason in `trouble`, where it could not be copied."""

    def __init__(self) -> None:
        self.attempt = 0
        self.versions: dict[int, dict[str, Value] | None] = {0: {}}
        self.trouble = ""

    @property
    def is_blank(self) -> bool:
        """Whether a new client would have the same."""
        return self.attempt == 0 and self.versions == {0: {}}

    def commit(self, request: Request, attachment: bytearray, types: Iterable[type]) -> None:
        """What the client did when it answered."""
        head, versions = request.preamble, self.versions
        before = versions.get(head.used)
        after = before
        if attachment.startswith(_LOST):
            after, self.trouble = None, attachment[len(_LOST) :].decode()
        elif attachment and before is not None:
            _, (changed, dropped), _ = wire.decode(cast(bytes, attachment), types, limit=_NO_LIMIT)
            after = {**before, **changed}
            for key in dropped:
                del after[key]
        kept = {head.used: before, head.number: after}
        if head.keep in versions:
            kept[head.keep] = versions[head.keep]
        self.versions, self.attempt = kept, head.attempt

    def snapshot(self) -> Versions:
        """The versions, to be saved. Raises where one could not be copied."""
        found: Versions = {}
        for number, memory in self.versions.items():
            if memory is None:
                raise WrongType(f"a client's memory cannot be saved: {self.trouble}")
            found[number] = memory
        return found

    def encode(self) -> bytes:
        """For a new worker. A version that could not be copied is left out; the client then says that it is lost."""
        there = {number: memory for number, memory in self.versions.items() if memory is not None}
        return wire.encode(Preamble(FILE, self.attempt), [Part(there)])


def restore(runtime: Runtime, data: bytearray) -> None:
    """At the client: the other end of `KeptMemory.encode`."""
    head, (versions,), _ = wire.decode(cast(bytes, data), runtime.types, limit=_NO_LIMIT)
    runtime.restore(head.attempt, versions)
