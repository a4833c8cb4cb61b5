"""Runs marked client steps for many torch clients in one call; `stacked.py` says what such a step may use.

Small clients spend more time in calls of the array library than in arithmetic. Together they share one call. Clients
are run together if they have torch tensors on one device, no limit on their link, and were sent the same arguments. A
loss that computes with tensors of its own (`loss.computing`), as networks do, makes them of any client's rows.
Their replies equal those of separate calls up to rounding (`TOLERANCE`); counts and sizes in the ledger are the same.
Losses in float32 are compared in float64: there, rounding that many steps amplify is not taken for a mistake.
What steps write to `client.memory` is handed over with the replies (`Ahead.written`) and is remembered as always.

Everything else runs for one client at a time, and `Together.one_by_one` says why:
- a step that is not array code throughout, or whose reply for one client differs from what that client answers by
  itself (checked once for each group, and for each way that its memory sends a step): from then on;
- a client in whose reply or memory something is not finite, and a group in which a step raised an error of the library:
  in this exchange, so that an error names the client it belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol, cast

import array_api_compat as api
import numpy as np

from fedsolve.errors import FedsolveError
from fedsolve.federation.array_kinds import map_arrays
from fedsolve.federation.client import Client
from fedsolve.federation.client_runtime import Ahead, Runtime
from fedsolve.federation.links import UNLIMITED
from fedsolve.federation.memory import Memory, scope_of
from fedsolve.federation.protocol import runs_together
from fedsolve.federation.served_steps import check_arguments
from fedsolve.federation.stacked import NotTogether, Replies, Split, Stack, kind
from fedsolve.typing import Array, Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Counts, Request, Route

_log = logging.getLogger(__name__)

# How far a reply from a stack may be from that of the client by itself, relative to the largest entry of all replies.
TOLERANCE = 1e-9
# The largest client, in entries of X. Larger ones spend their time on arithmetic, which stacking does not speed up; on
# the CPU it slows it down (FedAvg with 2**18 entries took twice to three times as long in a stack).
MOST_ON_CPU, MOST_ELSEWHERE = 2**15, 2**20
# The largest stack, and all stacks of a run, in entries of X with padding. Stacks are a copy of the data. Networks on a
# GPU may have more: what a step does not find memory for is halved.
MOST_OF_STACK, MOST_OF_ALL = 2**24, 2**26
MOST_ON_GPU = 32  # times as much
# The rows of a stack with padding, relative to those of its clients.
MOST_PADDING = 2.0
# How many clients a stack has at least, where a step for all of them did not fit into memory: it is halved until then.
FEWEST = 2


class _Answer(NamedTuple):
    """What one call came to for one client."""

    part: Part
    counts: Counts
    seconds: float
    written: dict[str, Value]  # to its memory


@dataclass(eq=False)
class _Group:
    """A stack, and where a step's answers for it were compared with those of a client by itself: for which keys that
    the clients had in their memories, or had not."""

    stack: Stack
    compared: set[frozenset[tuple[str, bool]]] = field(default_factory=set)


class Computes(Protocol):
    """A loss that computes with other arrays than the client's own; `Network` is one."""

    def computing(self, client: Client, /) -> Client: ...

    def gains_together(self, client: Client, /) -> bool:
        """Whether a client like this one is faster in a stack."""

    def in_double(self) -> object:
        """The same loss in float64, where steps that run together are compared; itself if it is."""


@dataclass(frozen=True)
class _Call:
    """One marked call of a request: what to run, for whom, and with which loss's arrays (None: the clients' own)."""

    name: str
    loss: Computes | None
    route: Route
    index: int
    arguments: Part
    requests: Mapping[str, Request]
    memories: Mapping[str, Memory]

    @property
    def scope(self) -> str:
        return scope_of(self.route[0])

    def enter(self, client: Client, memory: Memory | None = None) -> None:
        """Begin the call, with the client's memory or with another one."""
        head = self.requests[client.name].preamble
        moment = (head.seed, head.round, head.exchange, self.index)
        client.enter(self.memories[client.name] if memory is None else memory, moment, self.scope)

    def enter_by_itself(self, client: Client) -> None:
        """Begin the call with a copy of the memory, in arrays that the loss computes with: what the step writes there
        is compared and forgotten."""
        known = self.memories[client.name]
        items = known.data
        if self.loss is not None:
            own = [key for key in items if key.startswith(self.scope)]
            items = items | {key: client.localise(items[key]) for key in own}
        self.enter(client, Memory(items, known.types))


class Together:
    """Runs marked steps for the clients of one process that can be stacked."""

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = dict(runtimes)
        clients = {name: runtime.client for name, runtime in runtimes.items() if runtime.client.link is UNLIMITED}
        served = next(iter(runtimes.values())).serves.protocols.values() if runtimes else ()
        converted = any(_converting(protocol) is not None for protocol in served)
        self._clients = {name: one for name, one in clients.items() if converted or api.is_torch_array(one.y)}
        # Reasons, by marked step and by client.
        self._alone: dict[str, str] = {}
        self._left_out: dict[str, str] = {}
        self._stacks: dict[Computes | None, list[Stack]] = {}  # by the loss whose arrays they hold
        self._groups: dict[str, list[_Group]] = {}  # of each step

    @property
    def one_by_one(self) -> dict[str, str]:
        """What ran for one client at a time, and why. Keys are steps ("algorithm.local_update") and clients ("client
        'north'")."""
        others = self._runtimes.keys() - self._clients.keys()
        left_out = dict.fromkeys(others, "it has no torch tensors, or a link with a limit") | self._left_out
        return self._alone | {f"client {name!r}": left_out[name] for name in self._runtimes if name in left_out}

    def ahead(self, requests: Mapping[str, Request]) -> dict[str, Ahead]:
        """The results of the first calls of these requests, for those clients that could be asked together."""
        alike: dict[tuple[int, ...], dict[str, Request]] = {}
        for name, request in requests.items():
            if name in self._clients:  # asked the same: one and the same object for all
                question = (id(request.routes), *map(id, request.arguments))
                alike.setdefault(question, {})[name] = request
        return {name: found for some in alike.values() if len(some) > 1 for name, found in self._answered(some)}

    def _answered(self, requests: dict[str, Request]) -> Iterator[tuple[str, Ahead]]:
        """The results of clients that are asked the same."""
        request = next(iter(requests.values()))
        memories: dict[str, Memory] = {}
        found: dict[str, list[_Answer]] = {}
        written: dict[str, dict[tuple[str, str], Value]] = {}
        # Only the first calls: one after a call that is not run here would be run out of turn.
        for index, route in enumerate(request.routes.value):
            name = ".".join(route[:2])
            if name in self._alone or not self._is_marked(route, requests):
                break
            if not index:
                prepared = {name: self._runtimes[name].prepare(request) for name, request in requests.items()}
                memories = {name: memory for name, memory in prepared.items() if type(memory) is Memory}
            agreed = [name for name in memories if self._runtimes[name].agreed_step(route) is not None]
            memories = {name: memories[name] for name in agreed}
            protocol = self._runtimes[next(iter(requests))].steps[route[0], route[1]][0]
            call = _Call(name, _converting(protocol), route, index, request.arguments[index], requests, memories)
            for name, answer in self._run(call):
                found.setdefault(name, []).append(answer)
                for key, value in answer.written.items():
                    memories[name].put(call.scope, key, value)  # for the next call
                    written.setdefault(name, {})[call.scope, key] = value
            memories = {name: memory for name, memory in memories.items() if len(found.get(name, ())) > index}
        for name, answers in found.items():
            parts, counts, seconds, _ = zip(*answers, strict=True)
            yield name, Ahead(list(parts), list(counts), sum(seconds), written.get(name, {}))

    def _is_marked(self, route: Route, requests: Mapping[str, Request]) -> bool:
        found = self._runtimes[next(iter(requests))].steps.get((route[0], route[1]))
        return found is not None and runs_together(found[1])

    def _run(self, call: _Call) -> Iterator[tuple[str, _Answer]]:
        """One call, for all groups."""
        for name in call.memories:
            call.enter(self._clients[name])  # from here on its design is the one that this call sees
        groups = self._groups_for(call)
        for group in [*groups]:
            there = [place for place, client in enumerate(group.stack.clients) if client.name in call.memories]
            whole = len(there) == len(group.stack)
            if call.name not in self._alone and len(there) > 1:
                yield from self._run_group(call, group, group.stack if whole else group.stack.take(there), groups)

    def _run_group(
        self, call: _Call, group: _Group, stack: Stack, groups: list[_Group]
    ) -> Iterator[tuple[str, _Answer]]:
        kept = stack is group.stack and group in groups  # and not made for this exchange
        try:
            found = [*self._call(call, group, stack)]
        except Split as split:
            places: dict[object, list[int]] = {}
            for place, answer in enumerate(split.answers):
                places.setdefault(answer, []).append(place)
            compared = {} if split.lasting else {"compared": group.compared}
            parts = [_Group(stack.take(some), **compared) for some in places.values() if len(some) > 1]
            if kept and split.lasting:
                groups.remove(group)
                groups.extend(parts)
                lone = [some[0] for some in places.values() if len(some) == 1]
                self._left_out.update({stack.clients[place].name: str(split) for place in lone})
            for part in parts:
                yield from self._run_group(call, part, part.stack, groups)
        except MemoryError as error:
            _log.debug("%s, for %d clients together: %s", call.name, len(stack), error)
            if len(stack) >= 2 * FEWEST:
                middle = len(stack) // 2
                halves = [_Group(stack.take(range(middle))), _Group(stack.take(range(middle, len(stack))))]
                if kept:
                    groups.remove(group)
                    groups.extend(halves)
                for half in halves:
                    yield from self._run_group(call, half, half.stack, groups)
        except FedsolveError as error:  # asked by itself, the client it is about says so
            _log.debug("%s, for %d clients together: %s", call.name, len(stack), error)
        except Exception as error:  # noted, not hidden: what is wrong with the step itself comes again one by one
            reason = str(error) if isinstance(error, NotTogether) else f"{type(error).__name__}: {error}"
            self._alone[call.name] = reason
            _log.debug("%s runs for one client at a time: %s", call.name, reason)
        else:
            yield from found

    def _call(self, call: _Call, group: _Group, stack: Stack) -> Iterator[tuple[str, _Answer]]:
        """One call for one stack."""
        step = self._runtimes[stack.clients[0].name].agreed_step(call.route)
        assert step is not None
        protocol, function, contract = step
        if call.arguments.checked is not contract:
            check_arguments(call.name, contract.arguments, call.arguments.value)
            call.arguments.checked = contract
        for client in stack.clients:
            call.enter(client)  # its generator anew, if the call was begun before
        started = perf_counter()
        replies = stack.call(partial(function, protocol), call.arguments.value, contract.returns)
        seconds = (perf_counter() - started) / len(stack)
        if replies.finite and replies.looked_up not in group.compared:
            place = min(replies.finite, key=lambda place: stack.clients[place].n_samples)  # padded most
            if call.loss is None or call.loss.in_double() is call.loss:
                call.enter_by_itself(stack.clients[place])
                _compare(stack.clients[place], partial(function, protocol), call.arguments, replies, place)
            else:
                self._compare_in_double(call, stack, place)
            group.compared.add(replies.looked_up)
        for place in replies.finite:
            name = stack.clients[place].name
            written = replies.written(place, self._clients[name])
            yield name, _Answer(Part(replies.value(place)), replies.counts(place), seconds, written)

    def _compare_in_double(self, call: _Call, stack: Stack, place: int) -> None:
        """Compare the client that is padded most, beside the largest, in float64. Raises NotTogether if they differ."""
        step = self._runtimes[stack.clients[0].name].agreed_step(call.route)
        assert call.loss is not None
        assert step is not None
        protocol, function, contract = step
        double = call.loss.in_double()
        exact = partial(function, replace(cast(Any, protocol), loss=double))
        largest = max(range(len(stack)), key=lambda other: (other != place, stack.clients[other].n_samples))
        pair = [self._clients[stack.clients[one].name] for one in (place, largest)]
        twins = [cast(Computes, double).computing(client) for client in pair]
        arguments = Part(map_arrays(call.arguments.value, lambda array: _in_double(array)))
        for client in twins:
            call.enter(client)
        replies = Stack.of(twins).call(exact, arguments.value, contract.returns)
        call.enter_by_itself(twins[0])
        _compare(twins[0], exact, arguments, replies, 0)

    def _groups_for(self, call: _Call) -> list[_Group]:
        """The groups in which a step is run; made anew when a client has come to learn from other inputs."""
        stacks = self._stacks.get(call.loss)
        if stacks is None or not all(self._is_current(call, stack) for stack in stacks):
            self._groups, self._left_out = {}, {}
            stacks = self._stacks[call.loss] = [*self._arranged(call.loss)]
        if call.name not in self._groups:
            self._groups[call.name] = [_Group(stack) for stack in stacks]
        return self._groups[call.name]

    def _is_current(self, call: _Call, stack: Stack) -> bool:
        same = call.loss is None or all(_own(call.loss, self._clients[one.name]) is one for one in stack.clients)
        return same and stack.current()

    def _arranged(self, loss: Computes | None = None) -> Iterator[Stack]:
        """All clients that fit together, in stacks that are neither too large nor padded too much."""
        alike: dict[tuple[object, ...], list[Client]] = {}
        for client in [_own(loss, client) for client in self._clients.values()]:
            shared = kind(client, client.design)
            if shared is None:
                self._left_out[client.name] = "its inputs are not one dense matrix"
            elif not _gains(loss, client):
                self._left_out[client.name] = "it is so large that it would gain nothing"
            else:
                alike.setdefault(shared, []).append(client)
        room, most = MOST_OF_ALL, MOST_OF_STACK
        if loss is not None and any(client.y.device.type != "cpu" for some in alike.values() for client in some):
            room, most = MOST_ON_GPU * room, MOST_ON_GPU * most
        for some in alike.values():
            for members in _cut(sorted(some, key=lambda client: client.n_samples), most):
                numbers = len(members) * members[-1].n_samples * members[-1].design.shape[1]
                if len(members) == 1 or numbers > room:
                    reason = "no other is like it" if len(members) == 1 else "the stacks have grown too large"
                    self._left_out.update({client.name: reason for client in members})
                    continue
                room -= numbers
                yield Stack.of(members)


def _converting(protocol: object) -> Computes | None:
    """The loss of a protocol that computes with other arrays than the clients' own; None if it has none."""
    loss = getattr(protocol, "loss", None)
    return cast(Computes, loss) if getattr(loss, "converts", False) else None


def _own(loss: Computes | None, client: Client) -> Client:
    """A client as a step's loss computes with it."""
    return client if loss is None else loss.computing(client)


def _in_double(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _gains(loss: Computes | None, client: Client) -> bool:
    if loss is not None:
        return loss.gains_together(client)
    most = MOST_ON_CPU if client.y.device.type == "cpu" else MOST_ELSEWHERE
    return client.n_samples * client.design.shape[1] <= most


def _cut(clients: Sequence[Client], most: int) -> Iterator[list[Client]]:
    """Clients by growing size, cut where a stack would be too large or padded too much."""
    members: list[Client] = []
    rows = 0
    for client in clients:
        n, width = client.n_samples, client.design.shape[1]
        padded = (len(members) + 1) * n
        if members and (padded > MOST_PADDING * (rows + n) or padded * width > most):
            yield members
            members, rows = [], 0
        members.append(client)
        rows += n
    yield members


def _compare(client: Client, step: Callable[..., Value], arguments: Part, replies: Replies, place: int) -> None:
    """Ask one client by itself as well; it is in a call with a memory for this alone. Raises NotTogether if it answers,
    or remembers, something else."""
    own = {name: client.localise(value) for name, value in arguments.value.items()}
    memory, before = client.memory, client.memory.data
    alone, together = client.globalise(step(client, **own)), replies.value(place)
    if client.counts != replies.counts(place):
        raise NotTogether(f"client {client.name!r} by itself counts {client.counts}, together {replies.counts(place)}")
    kept = client.globalise(replies.written(place, client))
    changed = {key for key in memory if memory[key] is not before.get(memory.scope + key, memory)}
    remembered = client.globalise({key: memory[key] for key in memory if key in changed or key in kept})
    for what, a, b, largest in (
        ("answers", alone, together, replies.largest),
        ("remembers", remembered, kept, replies.largest_written),
    ):
        if not _close(a, b, TOLERANCE * largest):
            raise NotTogether(
                f"client {client.name!r} by itself {what} otherwise than together: sums over samples must be weighted "
                "by client.sample_weight"
            )


def _close(a: Value, b: Value, bound: float) -> bool:
    """Whether two replies are of one form and differ by no more than rounding."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and bool(np.all(np.abs(a - b) <= bound))
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(_close(x, y, bound) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key], bound) for key in a)
    return abs(a - b) <= bound if isinstance(a, float) else bool(a == b)
