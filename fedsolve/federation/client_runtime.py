"""The client's side of an exchange: answers requests, keeps the versions of the memory, holds the link's limit.

A lost, late or repeated reply leaves no trace: a request says which reply was used last (`used`), and the steps start
from the memory as it was after that one. Versions the server may still come back to (`used`, `keep`, the newest) are
kept, the rest forgotten. With a `store`, versions are on disk before the reply leaves, so that a client may restart.

Only a server that has joined is answered: steps of the protocols it named at `session.join`, under the attempt it
joined with. What was agreed is kept with the memory. A request that fails changes nothing: neither the attempt nor any
version. Who may talk to a client at all is for the transport to say; here, one message of a stranger, of a server that
was replaced, or one that arrives late does not stop the server that joined.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import NamedTuple

from fedsolve.errors import (
    FedsolveError,
    LinkExceeded,
    MemoryLost,
    ProtocolMismatch,
    WireError,
)
from fedsolve.federation.client import Client
from fedsolve.federation.client_owner import Guard, Store
from fedsolve.federation.joining import JOINED
from fedsolve.federation.link_meter import Meter, used_before, used_so_far, write_down
from fedsolve.federation.links import UNLIMITED
from fedsolve.federation.memory import Memory, scope_of
from fedsolve.federation.served_steps import Joined, Served, ServedStep, check_arguments
from fedsolve.federation.versions import still_needed
from fedsolve.typing import Value
from fedsolve.wire import encoding as wire
from fedsolve.wire.encoding import FAILURE, Part, Preamble
from fedsolve.wire.messages import MOST_CALLS, Counts, Failure, Reply, Request, Route, overhead, too_many_calls

# Room left for the envelope of a reply (seconds and counts) when a step asks how much fits.
ENVELOPE_RESERVE = 256
# How far ahead of the last attempt it knows a client believes a server to be: restarts that it never heard of, such as
# one a minute in the week in which it was away.
MOST_RESTARTS = 10_000

# Where a failure happened that was in no step
_SESSION: Route = ["session"]


class Ahead(NamedTuple):
    """What the first calls of a request came to, where they were run for many clients at once."""

    results: list[Part]
    counts: list[Counts]
    seconds: float
    written: Mapping[tuple[str, str], Value]  # what they remember, by the protocol's scope and key


class AgreedCall(NamedTuple):
    """A call that has been looked up and whose arguments have been checked, for all clients that agreed to the same."""

    agreed: object  # the steps among which it was found
    protocol: object
    function: Callable[..., Value]
    scope: str  # of the protocol, in the memory


class Runtime:
    """Answers requests for one client with the protocols it was started with.

    store  where it keeps its memory between restarts; None: nowhere
    guard  what its owner allows beyond that; None: everything
    """

    def __init__(
        self,
        client: Client,
        protocols: Mapping[str, object] | Served,
        store: Store | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.client = client
        self.serves = protocols if isinstance(protocols, Served) else Served(protocols)
        client.protocols, client.fingerprints = self.serves.protocols, self.serves.fingerprints
        self.steps, self.types = self.serves.steps, self.serves.types
        self.store, self.guard = store, guard
        self.attempt = 0  # of the server that joined last
        self.versions: dict[int, dict[str, Value]] = {0: {}}  # the newest is the last of them
        self.joined: Joined = None  # what was agreed, as last seen in the memory
        self.agreed = self.serves.agreed(None)  # the steps that follow from it
        self._last_request: Request | None = None
        self._last_reply: Reply | None = None
        self.counts: list[Counts] = []
        self.around = overhead([])
        if store is not None:
            self.restore(*store.read(self.types))

    def answer(self, request: Request, ahead: Ahead | None = None) -> Reply | Failure:
        """Run the calls of a request, or say why not."""
        memory = self.prepare(request)
        if not isinstance(memory, Memory):
            return memory
        reply = self.run(request, memory, ahead)
        return self.finish(request, memory, reply) if isinstance(reply, Reply) else reply

    # An answer in three parts, so that those of many clients can be worked on together. Only the last one leaves a
    # trace; what failed, or has been answered before, is the answer already.

    def prepare(self, request: Request) -> Memory | Reply | Failure:
        """The memory from which the request's calls start, if it may be answered at all."""
        try:
            last, head = self._last_request, request.preamble
            if last is not None and last.preamble.number == head.number and last.preamble.attempt == head.attempt:
                assert self._last_reply is not None
                return self._answer_again(last, request, self._last_reply)
            return Memory(self._admit(request), self.types)
        except Exception as error:  # reported, not hidden: the server raises it with the client's name
            return failure_of(request.preamble, "session", error)

    def run(self, request: Request, memory: Memory, ahead: Ahead | None = None) -> Reply | Failure:
        """The calls, one after the other; those whose results came ahead are not run again."""
        head, route = request.preamble, _SESSION
        try:
            client = self.client
            results: list[Part] = []
            counts: list[Counts] = []
            meter = client.vectors = client.room = None
            if client.link is not UNLIMITED:
                meter = self._meter(memory, head)
            started, routes = perf_counter(), request.routes.value
            if ahead is not None:
                results, counts, spent = [*ahead.results], [*ahead.counts], ahead.seconds
                started, routes = started - spent, routes[len(results) :]
                for (scope, key), value in ahead.written.items():
                    memory.put(scope, key, value)
            for route in routes:
                index = len(results)
                arguments = request.arguments[index]
                call = self.call(route, arguments)
                client.enter(memory, (head.seed, head.round, head.exchange, index), call.scope)
                if meter is not None:
                    client.room = meter.room(wire.PREAMBLE_SIZE + ENVELOPE_RESERVE)
                if self.guard is not None:
                    self.guard.before(route, call.protocol, arguments.value, client)
                if client.is_numpy:
                    part = Part(call.function(call.protocol, client, **arguments.value))
                else:
                    part = self._converted(call, arguments.value)
                if self.guard is not None:
                    self.guard.after(route, call.protocol, part, client)
                if meter is not None:
                    meter.add(route, self.serves.purposes[route[0]], part.size)
                results.append(part)
                counts.append(client.counts)
            if counts != self.counts:  # as a rule they are those of the last reply
                self.counts, self.around = counts, overhead(counts)
            reply = Reply(head, perf_counter() - started, counts, results, self.around)
            if meter is not None:
                route = meter.heaviest  # what to name if it is too much
                self._charge(memory, head, meter, reply)
            return reply
        except Exception as error:
            return failure_of(head, ".".join(route[:2]), error)

    def finish(self, request: Request, memory: Memory, reply: Reply) -> Reply | Failure:
        """Remember what the calls remembered; from here on the reply may leave."""
        try:
            self._commit(request.preamble, memory.data)
        except Exception as error:
            return failure_of(request.preamble, "session.store", error)
        if self.serves.remember:
            self._last_request, self._last_reply = request, reply
        return reply

    def answer_bytes(self, data: bytes) -> bytes:
        """The same, encoded."""
        try:
            request = Request.decode(data, self.types)
        except WireError as error:
            return Failure(wire.peek(data), type(error).__name__, "decode", str(error)).encode()
        return self.answer(request).encode()

    def call(self, route: Route, arguments: Part) -> AgreedCall:
        """What to run, if the server may call it, with these arguments."""
        known = arguments.checked
        if type(known) is AgreedCall and known.agreed is self.agreed:
            return known
        found = self.agreed.get((route[0], route[1]))
        if found is None:
            raise self._no_step((route[0], route[1]))
        protocol, function, contract = found
        check_arguments(".".join(route[:2]), contract.arguments, arguments.value)
        arguments.checked = made = AgreedCall(self.agreed, protocol, function, scope_of(route[0]))
        return made

    def _converted(self, call: AgreedCall, arguments: Mapping[str, Value]) -> Part:
        """A step of a client that computes with another array library."""
        client = self.client
        own = {name: client.localise(value) for name, value in arguments.items()}
        return Part(client.globalise(call.function(call.protocol, client, **own)))

    def agreed_step(self, route: Route) -> ServedStep | None:
        """Protocol, function and contract of a step that the server may call; None: it may not."""
        return self.agreed.get((route[0], route[1]))

    def _no_step(self, route: tuple[str, str]) -> ProtocolMismatch:
        if route in self.steps:
            return ProtocolMismatch(
                f"the server has not joined this client with protocol {route[0]!r} as it is here; a server joins "
                "first, with the same version, protocols and hyper-parameters"
            )
        known = ", ".join(f"{protocol}.{step}" for protocol, step in self.steps)
        return ProtocolMismatch(f"no such step here; this client answers {known}")

    # ── who is answered ──

    def _admit(self, request: Request) -> dict[str, Value]:
        """The version of the memory to start from, if this request may be answered. Changes nothing that lasts."""
        calls, versions = request.routes.value, self.versions
        _, attempt, _, _, number, used, _, _ = request.preamble
        if not 0 < len(calls) <= MOST_CALLS:
            raise too_many_calls(len(calls))
        if attempt != self.attempt:
            joins = len(calls) == 1 and calls[0][:2] == ["session", "join"]
            self._check_attempt(request.preamble, joins)
        elif number in versions and number != next(reversed(versions)):
            raise ProtocolMismatch(f"request {number} came late: a later one has been answered")
        found = versions.get(used)
        if found is None:
            raise self._lost(used)
        if number <= used:
            raise ProtocolMismatch(f"request {number} builds on reply {used}, which is not earlier")
        joined = found.get(JOINED)
        if joined is not self.joined:
            self.joined, self.agreed = joined, self.serves.agreed(joined)
        return found

    def _lost(self, number: int) -> MemoryLost:
        text = (
            f"the server builds on this client's reply {number}, whose memory is gone (it has "
            f"{sorted(self.versions)}); restart the run, or give the client its store back"
        )
        return MemoryLost(self.client.name, "session", text)

    def _check_attempt(self, head: Preamble, joins: bool) -> None:
        """Another attempt than the last that joined may only join, and only if it is later."""
        attempt = head.attempt
        if attempt < self.attempt:
            raise ProtocolMismatch(
                f"attempt {attempt} of the server asks, but attempt {self.attempt} has taken over; if no other server "
                "runs, resume the run once more: each time counts as an attempt"
            )
        if not joins and not self.attempt and head.used:
            raise self._lost(head.used)  # it joined before this client restarted without a store
        if not joins:
            raise ProtocolMismatch(f"attempt {attempt} of the server asks, but it has not joined; a server joins first")
        if attempt > self.attempt + MOST_RESTARTS:
            raise ProtocolMismatch(
                f"attempt {attempt} of the server asks to join, but this client knows of attempt {self.attempt}, and "
                f"does not believe in more than {MOST_RESTARTS} restarts that it missed; start a new run"
            )

    def _answer_again(self, last: Request, request: Request, reply: Reply) -> Reply:
        """Asked twice: the same answer, computed once."""
        if last is request or last.encode() == request.encode():
            return reply
        raise ProtocolMismatch(
            f"request {request.preamble.number} has been answered, and this one asks something else under its number"
        )

    # ── memory ──

    def _commit(self, head: Preamble, memory: dict[str, Value]) -> None:
        versions, attempt, number = self.versions, head.attempt, head.number
        if attempt == self.attempt and number in versions:
            return  # answered before this client restarted: what it remembered then stands
        kept = still_needed(versions, head, attempt != self.attempt)
        kept[number] = memory
        if self.store is not None:
            self.store.write(attempt, self._saved(kept))  # if this fails, no reply leaves and nothing changes
        self.versions, self.attempt = kept, attempt

    def snapshot(self) -> dict[int, dict[str, Value]]:
        """The versions as they can be saved: NumPy arrays, whatever the client computes with."""
        return self._saved(self.versions)

    def _saved(self, versions: Mapping[int, dict[str, Value]]) -> dict[int, dict[str, Value]]:
        return {number: self.client.globalise(memory) for number, memory in versions.items()}

    def restore(self, attempt: int, versions: Mapping[int, dict[str, Value]]) -> None:
        """Go back to saved versions."""
        self.attempt = attempt
        self.versions = {number: self.client.localise(memory) for number, memory in versions.items()}
        self._last_request = self._last_reply = None

    # ── link ──

    def _meter(self, memory: Memory, head: Preamble) -> Meter:
        client, versions = self.client, self.versions
        # A round's capacity is one draw, whatever is asked in it.
        client.enter(memory, (head.seed, head.round, 0, 2**32))
        capacity, vectors = client.link.allowance(head.round, client), client.link.vectors(head.round, client)
        if head.attempt == self.attempt and head.number in versions:  # answered before, and charged
            before = used_before(versions[head.number])
        else:
            before = used_so_far(versions.values(), head.attempt, head.round)
        meter = Meter(capacity, vectors, before)
        client.vectors = meter.vectors
        return meter

    def _charge(self, memory: Memory, head: Preamble, meter: Meter, reply: Reply) -> None:
        size, sent = meter.total(reply.overhead), meter.before.sent
        if meter.capacity is not None and size and sent + size > meter.capacity:
            text = (
                f"a reply of {size} bytes, but the link has {meter.capacity - sent} left in round {head.round}; give "
                f"the link at least {sent + size} bytes per round{self._sending_less()}"
            )
            raise LinkExceeded(self.client.name, "link", text)
        meter.settle(size, self.client.vectors)
        write_down(memory, head.attempt, head.round, meter)

    def _sending_less(self) -> str:
        for protocol in self.serves.protocols.values():
            if hint := getattr(protocol, "asking_less", ""):
                return f", or {hint}"
        if getattr(self.serves.protocols.get("algorithm"), "fits_link", False):
            return ""
        return ", or use an algorithm that sends less or fits what it sends to the link"


def failure_of(head: Preamble, where: str, error: Exception) -> Failure:
    text = getattr(error, "text", str(error))
    if not isinstance(error, FedsolveError):
        last = traceback.extract_tb(error.__traceback__)[-1:]
        place = f" ({os.path.basename(last[0].filename)}:{last[0].lineno})" if last else ""
        text = f"{type(error).__name__}: {text}{place}"
    return Failure(head._replace(kind=FAILURE), type(error).__name__, where, text, error)
