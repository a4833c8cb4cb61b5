"""What a client has sent in a round: counted by the client itself, whatever the server says its calls are for.

What a call is for is said by the client's own protocol (`purpose`), never by the label on the request. The count is
kept with each version of the memory, so that it is on disk where the memory is; but it is not rolled back with it:
bytes that left count, also where the server did not use the reply. A new attempt of the server begins at zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fedsolve.federation.memory import SESSION, Memory, SessionMemory
from fedsolve.typing import Value
from fedsolve.wire.messages import Purpose, Route

# Calls that measure are not charged to the link, so often in a round: a run asks once along with the algorithm, and
# once more at its end.
FREE_MEASUREMENTS = 4
# Calls that set up a run, ask at its end whether it has found a minimum, or judge it by held-out rows are not charged,
# so often in an attempt: joining and preprocessing take six, the last question up to a hundred, a diagnosis some two
# hundred, an evaluation some twenty, and one in every round of the history.
FREE_SETUPS = 1000

_SENT = "sent over the link"
_KEY = SESSION + _SENT  # in a version of the memory


def purpose_of(protocol: object) -> Purpose:
    """What the calls of a protocol are for: its class says so in `purpose`; the algorithm, where it does not."""
    said = getattr(type(protocol), "purpose", None)
    return said if said in ("measure", "setup") else "algorithm"


@dataclass(frozen=True)
class Usage:
    """What went up in one round of one attempt."""

    sent: int = 0  # bytes that are charged
    vectors: int = 0
    measurements: int = 0
    setups: int = 0  # in all rounds of the attempt

    def is_free(self, purpose: Purpose) -> bool:
        """Whether one more call for this purpose is not charged."""
        if purpose == "measure":
            return self.measurements < FREE_MEASUREMENTS
        return purpose == "setup" and self.setups < FREE_SETUPS

    def with_call(self, purpose: Purpose) -> Usage:
        """The same with one more call."""
        if purpose == "measure":
            return replace(self, measurements=self.measurements + 1)
        return replace(self, setups=self.setups + 1) if purpose == "setup" else self


class Meter:
    """Charges one reply to what a link lets through in a round."""

    def __init__(self, capacity: int | None, vectors: int | None, before: Usage) -> None:
        self.capacity = capacity  # bytes of the round; None: no limit
        self.vectors = None if vectors is None else max(0, vectors - before.vectors)  # left of the round's
        self.before = self.after = before
        self.size = 0  # of the results of this reply that are charged
        self.heaviest: Route = ["session"]  # what to name if it is too much
        self._largest = -1

    def room(self, reserve: int) -> int | None:
        """How many bytes the next result may have, where `reserve` more go around the results."""
        return None if self.capacity is None else self.capacity - self.before.sent - self.size - reserve

    def add(self, route: Route, purpose: Purpose, size: int) -> None:
        """A result of so many bytes goes into the reply."""
        if not self.after.is_free(purpose):
            self.size += size
            if size > self._largest:
                self.heaviest, self._largest = route, size
        self.after = self.after.with_call(purpose)

    def total(self, overhead: int) -> int:
        """The bytes this reply is charged: none if it holds only what is free, else those around the results too."""
        return self.size + overhead if self._largest >= 0 else 0

    def settle(self, charged: int, vectors_left: int | None) -> None:
        """The reply will be sent."""
        taken = 0 if self.vectors is None or vectors_left is None else self.vectors - vectors_left
        self.after = replace(self.after, sent=self.before.sent + charged, vectors=self.before.vectors + taken)


def used_so_far(versions: Iterable[Mapping[str, Value]], attempt: int, round: int) -> Usage:
    """What was sent in this round, by all versions of the memory: of two that differ, the larger is the later."""
    found = (0, 0, 0, 0)
    for memory in versions:
        if _KEY in memory:
            (when, where), _, after = memory[_KEY]
            if when == attempt:
                counted = after if where == round else (0, 0, 0, after[3])
                found = tuple(map(max, found, counted))
    return Usage(*found)


def used_before(version: Mapping[str, Value]) -> Usage:
    """What had been sent before the request that led to this version."""
    return Usage(*version[_KEY][1]) if _KEY in version else Usage()


def write_down(memory: Memory, attempt: int, round: int, meter: Meter) -> None:
    """Keep what a reply was charged, with the memory that goes with it."""
    SessionMemory(memory)[_SENT] = ((attempt, round), _plain(meter.before), _plain(meter.after))


def _plain(usage: Usage) -> tuple[int, int, int, int]:
    return usage.sent, usage.vectors, usage.measurements, usage.setups
