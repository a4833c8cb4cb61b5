"""The client's side of an exchange: answers requests, keeps the versions of the memory, holds the link's limit.

A lost, late or repeated reply leaves no trace: a request says which reply was used last (`used`), and the steps start
from the memory as it was after that one. Versions the server may still come back to (`used`, `keep`) are kept, the rest
forgotten. With a `store`, versions are on disk before the reply leaves, so that a client may restart.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsolve import __version__, wire
from fedsolve.client import Client, Memory
from fedsolve.errors import FedsolveError, LinkExceeded, MemoryLost, ProtocolMismatch, WireError, WrongType
from fedsolve.files import read_values, write_values
from fedsolve.links import UNLIMITED
from fedsolve.messages import Counts, Failure, Reply, Request
from fedsolve.protocol import client_step, fingerprint, signature, steps, types_of
from fedsolve.typing import Value
from fedsolve.wire import FAILURE, Part, Preamble

# Room left for the envelope of a reply (seconds and counts) when a step asks how much fits.
ENVELOPE_RESERVE = 256


@dataclass(frozen=True)
class ClientInfo:
    """What the server must know of a client before the first round."""

    weight: float
    samples: int
    features: int | None  # None: raw columns, not yet preprocessed
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Session:
    """The protocol every client answers: joining a run."""

    @client_step
    def join(self, client: Client, version: str, protocols: dict[str, str]) -> ClientInfo:
        if version != __version__:
            raise ProtocolMismatch(f"the server runs fedsolve {version}, this client {__version__}: install the same")
        here = client.protocols
        for name, print_ in protocols.items():
            if name not in here:
                raise ProtocolMismatch(f"the server asks for {name!r}; this client was started with {sorted(here)}")
            if fingerprint(here[name]) != print_:
                raise ProtocolMismatch(f"protocol {name!r} has other hyper-parameters here: {here[name]!r}")
        for protocol in here.values():
            if hasattr(protocol, "loss"):
                protocol.loss.check(client)
        known = not client.raw or client.memory.get("transform") is not None
        return ClientInfo(
            client.weight, client.n_samples, client.design.shape[1] if known else None, tuple(client.y.shape[1:])
        )


class MemoryStore:
    """A client's memory versions on its own disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, attempt: int, versions: Mapping[int, dict[str, Value]]) -> None:
        write_values(self.path, (attempt, dict(versions)))

    def read(self, types: frozenset[type[Any]]) -> tuple[int, dict[int, dict[str, Value]]]:
        if not self.path.exists():
            return 0, {0: {}}
        (saved,) = read_values(self.path, types)
        return saved  # type: ignore[no-any-return]


class Runtime:
    """Answers requests for one client with the protocols it was started with."""

    def __init__(self, client: Client, protocols: Mapping[str, Any], store: MemoryStore | None = None) -> None:
        self.client = client
        self.protocols = {**protocols, "session": Session()}
        client.protocols = dict(protocols)
        self.steps = {
            (name, step): (protocol, function, signature(function))
            for name, protocol in self.protocols.items()
            for step, function in steps(protocol).items()
        }
        self.types = types_of(self.protocols)
        self.store = store
        self.attempt, self.versions = store.read(self.types) if store else (0, {0: {}})
        self._last: tuple[int, int] | None = None
        self._last_reply: Reply | None = None
        self._sent: tuple[int, int] = (-1, 0)  # round, bytes

    def answer(self, request: Request) -> Reply | Failure:
        """Run the calls of a request, or say why not."""
        work = self.begin(request)
        for index in range(len(request.arguments)):
            self.call(work, index)
        return self.finish(work)

    def answer_bytes(self, data: bytes) -> bytes:
        """The same, encoded."""
        try:
            request = Request.decode(data, self.types)
        except WireError as error:
            return Failure(Preamble(FAILURE), type(error).__name__, "decode", str(error)).encode()
        return self.answer(request).encode()

    # An answer has three stages, so that a transport may run one stage for all its clients before the next: the
    # bookkeeping then stays in the processor's cache, which a client's data would push out.

    def begin(self, request: Request) -> Work:
        """Find the memory to build on."""
        work = Work(request)
        head = request.preamble
        if self._last_reply is not None and (head.attempt, head.number) == self._last:
            work.outcome = self._last_reply  # asked twice: the same answer, computed once
            return work
        try:
            work.memory = Memory(self._version(head))
            if self.client.link is not UNLIMITED:
                work.allowance = self._allowance(head)
        except FedsolveError as error:
            work.outcome = _failure(head, "session", error)
        return work

    def call(self, work: Work, index: int) -> None:
        """Run one step."""
        if work.outcome is not None:
            return
        request, client = work.request, self.client
        head, (protocol_name, step_name, purpose) = request.preamble, request.routes.value[index]
        arguments = request.arguments[index]
        client.enter(work.memory, (head.seed, head.round, head.exchange, index))
        client.room = None
        if work.allowance is not None:
            client.room = work.allowance - work.sent - wire.PREAMBLE_SIZE - ENVELOPE_RESERVE
        started = time.perf_counter()
        try:
            found = self.steps.get((protocol_name, step_name))
            if found is None:
                known = ", ".join(f"{protocol}.{step}" for protocol, step in self.steps)
                raise ProtocolMismatch(f"no such step here; this client answers {known}")
            protocol, function, contract = found
            if arguments.checked is not contract:
                check_arguments(f"{protocol_name}.{step_name}", contract.arguments, arguments.value)
                arguments.checked = contract
            if client.is_numpy:
                result = function(protocol, client, **arguments.value)
            else:
                own = {name: client.localise(value) for name, value in arguments.value.items()}
                result = client.globalise(function(protocol, client, **own))
            work.results.append(result)
            if work.allowance is not None and purpose == "algorithm":
                work.sent += Part(result).size
        except Exception as error:  # reported, not hidden: the server raises it with the client's name
            work.outcome = _failure(head, f"{protocol_name}.{step_name}", error)
        work.counts.append(client.counts)
        work.seconds += time.perf_counter() - started

    def finish(self, work: Work) -> Reply | Failure:
        """Outline the reply, hold the link's limit, and keep the memory."""
        if work.outcome is not None:
            return work.outcome
        head = work.request.preamble
        try:
            reply = Reply(head, work.seconds, work.counts, [Part(result) for result in work.results])
            if work.allowance is not None and any(route[2] == "algorithm" for route in work.request.routes.value):
                self._charge(head, work.allowance, work.sent + reply.overhead)
        except FedsolveError as error:
            return _failure(head, ", ".join(".".join(route[:2]) for route in work.request.routes.value), error)
        self._commit(head, work.memory)
        self._last, self._last_reply = (head.attempt, head.number), reply
        return reply

    # ── memory ──

    def _version(self, head: Preamble) -> dict[str, Value]:
        if head.attempt < self.attempt:
            raise ProtocolMismatch(
                f"attempt {head.attempt} of the server asks, but attempt {self.attempt} has taken over"
            )
        found = self.versions.get(head.used)
        if found is None:
            text = (
                f"the server builds on this client's reply {head.used}, whose memory is gone (it has "
                f"{sorted(self.versions)}); restart the run, or give the client its store back"
            )
            raise MemoryLost(self.client.name, "session", text)
        return found

    def _commit(self, head: Preamble, memory: Memory) -> None:
        versions, keep = self.versions, head.keep
        kept = {head.used: versions[head.used], head.number: memory.data}
        if keep in versions:
            kept[keep] = versions[keep]
        self.versions, self.attempt = kept, head.attempt
        if self.store is not None:
            self.store.write(self.attempt, self.versions)

    # ── link ──

    def _allowance(self, head: Preamble) -> int | None:
        client = self.client
        # A round's capacity is one draw, whatever is asked in it.
        client.enter(client.memory, (head.seed, head.round, 0, 2**32))
        whole = client.link.allowance(head.round, client)
        return None if whole is None else whole - self._sent_in(head.round)

    def _charge(self, head: Preamble, allowance: int, size: int) -> None:
        if size > allowance:
            text = f"a reply of {size} bytes, but the link has {allowance} left in round {head.round}"
            raise LinkExceeded(self.client.name, "link", text)
        self._sent = (head.round, self._sent_in(head.round) + size)

    def _sent_in(self, round: int) -> int:
        return self._sent[1] if self._sent[0] == round else 0


class Work:
    """A request on its way through the stages."""

    __slots__ = ("allowance", "counts", "memory", "outcome", "request", "results", "seconds", "sent")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.memory = Memory({})
        self.results: list[Value] = []
        self.counts: list[Counts] = []
        self.seconds = 0.0
        self.sent = 0
        self.allowance: int | None = None
        self.outcome: Reply | Failure | None = None


def _failure(head: Preamble, where: str, error: Exception) -> Failure:
    text = getattr(error, "text", str(error))
    if not isinstance(error, FedsolveError):
        last = traceback.extract_tb(error.__traceback__)[-1:]
        place = f" ({os.path.basename(last[0].filename)}:{last[0].lineno})" if last else ""
        text = f"{type(error).__name__}: {text}{place}"
    return Failure(head._replace(kind=FAILURE), type(error).__name__, where, text, error)


def check_arguments(where: str, expected: Mapping[str, Any], given: Mapping[str, Value]) -> None:
    """Refuse arguments that a step did not declare, or of another type."""
    if given.keys() != expected.keys():
        raise WrongType(f"{where} takes {sorted(expected)}, got {sorted(given)}")
    for name, check in expected.items():
        if not check(given[name]):
            raise WrongType(f"{where} got {name} of type {type(given[name]).__name__}, which is not what it declares")
