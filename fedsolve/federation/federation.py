"""The server's only door to the clients. Its verbs say what an algorithm at the server gets to see.

mean     the average of the replies, weighted by the clients' weights
sum      the plain sum of the replies
gather   each reply by itself; whoever gathers says why
exchange several of these in one message each way

An algorithm that uses only `mean` and `sum` is given sums. The server's process is not: it receives every client's
reply by itself and adds them up, so whoever runs the server, or reads its memory, can see each reply. There is no
secure aggregation yet; once there is, it can serve the algorithms that never gather.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fedsolve.errors import ConfigError, DataError, QuorumNotReached, WrongType
from fedsolve.federation.calls import Call, Gather, Mean, PerClient, Sum, for_client
from fedsolve.federation.client import Client
from fedsolve.federation.client_checks import ClientInfo, LabelledInfo, check_client_names, check_joined
from fedsolve.federation.joining import Joining
from fedsolve.federation.ledger import ExchangeRecord, Ledger, Receipts, Tables, sizes_down, tries_of
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import fingerprint
from fedsolve.federation.transports.base import Transport, absences
from fedsolve.tables.names import Classes, agreed_classes, agreed_columns, check_numbering
from fedsolve.typing import Array
from fedsolve.version import __version__
from fedsolve.wire.encoding import REQUEST, Part, Preamble
from fedsolve.wire.messages import MOST_CALLS, Failure, Purpose, Reply, Request

T = TypeVar("T")

# Set-up exchanges are numbered from here, apart from those a round counts.
SETUP_EXCHANGE = 2**31
# So are those that only measure: whether they come does not change what chance decides in the round's own.
MEASURE_EXCHANGE = 2**30
# What prepares a run must reach everyone, so it is given more time than an exchange that can do without some.
SETUP_SECONDS = 60.0


@dataclass(frozen=True)
class Cohort:
    """Who takes part in this round: those asked, less those who did not answer."""

    clients: tuple[str, ...]
    share: float  # of the total weight
    changed: bool  # against the last round

    def __len__(self) -> int:
        return len(self.clients)


@dataclass(frozen=True)
class Position:
    """Where a federation stands between two rounds; what a checkpoint keeps of it."""

    attempt: int
    number: int
    used: dict[str, int]
    cohort: tuple[str, ...] | None


class Federation:
    """All clients, seen from the server.

    Each client's reply reaches the server's process by itself and is added up here (see the module's text): `mean` and
    `sum` keep single replies from the algorithm, not from whoever runs the server.
    """

    def __init__(
        self,
        transport: Transport,
        protocols: Mapping[str, Any],
        *,
        seed: int = 0,
        participation: Participation | None = None,
        server: Client | None = None,
    ) -> None:
        self.transport = transport
        self.protocols = dict(protocols)
        self.seed = seed
        self.participation = participation or Participation()
        self.ledger = Ledger()
        self._tables = Tables()
        self.clients: tuple[str, ...] = check_client_names(transport.names)
        self.participation.check_names(self.clients)
        self.info: dict[str, ClientInfo] = {}
        self.weights: dict[str, float] = {}
        self.classes: Classes | None = None  # what the labels 0, 1, … stand for, where the clients declare it
        self._alike = False  # whether all weights are equal
        self.warm_start: Array | None = None
        self.checkpointing = False  # whether this run may be resumed: then clients remember which data it began with
        self.round = 0
        self._server = server
        # By identity, which is quick; the protocol is held beside its name, so that its identity stays its own.
        self._names: dict[int, tuple[Any, str]] = {
            id(protocol): (protocol, name) for name, protocol in self.protocols.items()
        }
        if self.participation.retries and hasattr(transport, "remember_replies"):
            transport.remember_replies = True  # what is asked again is answered again, not computed again
        self._index = {name: index for index, name in enumerate(self.clients)}
        self._routes: dict[tuple[Any, ...], tuple[Part, tuple[str, ...]]] = {}
        self._exchange = self._setups = self._measures = 0
        self._purpose: Purpose = "algorithm"
        self._attempt, self._number = 1, 0
        # Which reply of each client was used last, and to which the server would go back: never changed in place.
        self._used = self._used_before = self._keep = dict.fromkeys(self.clients, 0)
        self._durable = False
        self._present: tuple[str, ...] = self.clients
        self._previous: tuple[str, ...] | None = None
        self._attached: tuple[tuple[Call, ...], Callable[[tuple[Any, ...]], None]] | None = None

    # ── the verbs ──

    def mean(self, step: Callable[..., Any], /, *unnamed: Any, **arguments: Any) -> Any:
        """The average of the clients' replies, weighted by `client.weight` (or `weights="uniform"`).

        The server's process receives the replies one by one; the caller gets their average.
        """
        return self.exchange(Mean(step, *unnamed, **arguments))[0]

    def sum(self, step: Callable[..., Any], /, *unnamed: Any, **arguments: Any) -> Any:
        """The sum of the clients' replies, which the server's process receives one by one."""
        return self.exchange(Sum(step, *unnamed, **arguments))[0]

    def gather(self, step: Callable[..., Any], /, *unnamed: Any, **arguments: Any) -> Any:
        """Each client's reply by itself, as a dict in the order of the clients."""
        return self.exchange(Gather(step, *unnamed, **arguments))[0]

    def exchange(self, *calls: Call) -> tuple[Any, ...]:
        """Several calls in one message each way."""
        if self._attached is None:
            return self._run(calls, _purposes(self._purpose, calls))
        # What the run wants to measure travels along with the first exchange of the round.
        extra, receive = self._attached
        purposes = _purposes("algorithm", calls) + _purposes("measure", extra)
        results = self._run((*calls, *extra), purposes)
        self._attached = None  # only now: what failed has not answered the question that travelled along
        receive(results[len(calls) :])
        return results[: len(calls)]

    def take_back(self) -> None:
        """Let the clients forget what they remember from the last exchange, as if their replies had been lost: for a
        point that was tried and refused. Whoever is away goes back too, when next asked. The accounts stay."""
        self._used = self._used_before

    @property
    def server(self) -> Client:
        """The server's own data."""
        if self._server is None:
            raise DataError("this algorithm computes with data of the server's own: give it, run(…, server=Client(…))")
        return self._server

    def _enter_server(self) -> None:
        """A new moment for the server's own computations: its chance is seeded like a client's, its counts add up."""
        if self._server is not None:
            counts, moment = self._server.counts, (self.seed, self.round, self._exchange, 2**32)
            self._server.enter(self._server.memory, moment)
            self._server.counts = counts

    @property
    def cohort(self) -> Cohort:
        """Who takes part in this round, with what share of the weight, and whether that is new."""
        total = sum(self.weights.values())
        share = sum(self.weights[name] for name in self._present) / total if total else 1.0
        return Cohort(self._present, share, self._previous is not None and self._present != self._previous)

    @property
    def features(self) -> int:
        """How many features the clients' designs have; all must agree."""
        found = {name: info.features for name, info in self.info.items()}
        first = next(iter(found.values()))
        for name, features in found.items():
            if features is None:
                raise DataError(f"client {name!r} has text columns or missing values: give the run a preprocess=")
            if features != first:
                raise DataError(f"client {name!r} has {features} features where {self.clients[0]!r} has {first}")
        assert first is not None
        return first

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, where the clients know them and agree."""
        found = {info.names for info in self.info.values()}
        return found.pop() if len(found) == 1 else None

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of one target: () for a number, (k,) for k of them; all must agree."""
        first = self.info[self.clients[0]].outputs
        for name, info in self.info.items():
            if info.outputs != first:
                raise DataError(f"client {name!r} has targets of shape {info.outputs}, {self.clients[0]!r} of {first}")
        return first

    def start_point(self, loss: Any) -> Array:
        """Where to begin: the warm start if one was given, else where the loss begins, as a rule at zero."""
        shape = loss.shape(self.features, self.outputs)
        if self.warm_start is None:
            return loss.start_point(self.features, self.outputs)
        if self.warm_start.shape != shape:
            given = self.warm_start.shape
            raise ConfigError(f"the warm start has weights of shape {given}, this problem needs {shape}")
        return self.warm_start

    # ── what the run says ──

    def join(self) -> None:
        """Agree on version, protocols and hyper-parameters, and learn each client's weight and shape.

        Clients answer nothing else before. Raises `ClientMismatch` if a client was started otherwise than the server,
        and `ClientInputError` if what it says of itself cannot be true: see `joining.check_joined`.
        """
        session = Joining()
        self._names[id(session)] = (session, "session")
        prints = {name: fingerprint(protocol) for name, protocol in self.protocols.items()}
        call = Gather(session.join, version=__version__, protocols=prints, checkpointed=self.checkpointing)
        (found,) = self._run((call,), ("setup",))
        check_joined(found, self.info)
        self.info = found
        self.weights = {name: info.weight for name, info in self.info.items()}
        self._alike = len(set(self.weights.values())) == 1
        self._agree_on_names(session)

    def _agree_on_names(self, session: Joining) -> None:
        """Columns are matched by name before anything is computed: where clients have them in different orders, all
        take that of the first one. Whoever has other columns or classes is rejected."""
        agreed = agreed_columns({name: info.names for name, info in self.info.items()})
        known = {name: info if isinstance(info, LabelledInfo) else None for name, info in self.info.items()}
        self.classes = agreed_classes(
            {name: None if info is None or not info.declared else info.classes for name, info in known.items()}
        )
        check_numbering({name: None if info is None else info.classes for name, info in known.items()})
        if agreed is None or all(info.names == agreed for info in self.info.values()):
            return
        self._run((Gather(session.align, columns=agreed),), ("setup",))
        self.info = {name: replace(info, names=agreed) for name, info in self.info.items()}

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """What is exchanged in here prepares the run: all clients are asked, none is lost in simulation, and the ledger
        keeps it apart from the algorithm."""
        self._purpose = "setup"
        try:
            yield
        finally:
            self._purpose = "algorithm"

    def begin_round(self, round: int) -> None:
        """Invite this round's cohort."""
        if round > self.round:
            self._previous = self._present
        self.round, self._exchange, self._measures = round, 0, 0
        self._present = self.participation.invite(self.seed, round, self.clients) if round else self.clients
        self._enter_server()

    def measure(self, *calls: Call) -> tuple[tuple[Any, ...], float] | None:
        """An exchange with all clients that serves only to measure: results, and the share of the weight behind them.

        It leaves the cohort of the round as it is, and holds no quorum; None if nobody answered.
        """
        cohort, policy, exchange = self._present, self.participation, self._exchange
        self._present, self.participation = self.clients, replace(policy, quorum=0.0)
        self._exchange = MEASURE_EXCHANGE + self._measures
        try:
            results = self._run(calls, _purposes("measure", calls))
            return results, self.cohort.share
        except QuorumNotReached:
            return None
        finally:
            self._present, self.participation, self._exchange = cohort, policy, exchange
            self._measures += 1

    def attach(self, calls: tuple[Call, ...], receive: Callable[[tuple[Any, ...]], None]) -> None:
        """Let `calls` travel with the next exchange, and hand their results to `receive`."""
        self._attached = (calls, receive)

    def detach(self) -> bool:
        """Take back what was attached; whether there was anything."""
        waiting, self._attached = self._attached is not None, None
        return waiting

    def position(self) -> Position:
        return Position(self._attempt, self._number, dict(self._used), self._present)

    def resume(self, position: Position, round: int) -> None:
        """Go on from a checkpoint: the next request tells each client which of its memories counts."""
        self._attempt, self._number = position.attempt + 1, position.number
        self._used = {name: position.used[name] for name in self.clients}
        self.round, self._present = round, position.cohort or self.clients
        self.checkpointed()

    def checkpointed(self) -> None:
        """What has been used so far is on the server's disk: clients need not go back behind it."""
        self._keep, self._durable = self._used, True

    # ── one exchange ──

    def _run(self, calls: Sequence[Call], purposes: Sequence[Purpose]) -> tuple[Any, ...]:
        if not 0 < len(calls) <= MOST_CALLS:
            raise ConfigError(f"an exchange has 1 to {MOST_CALLS} calls, got {len(calls)}: divide them among several")
        setup = purposes[0] == "setup"
        exchange = SETUP_EXCHANGE + self._setups if setup else self._exchange
        asked = self.clients if setup else self.participation.asked(self.round, exchange, self._present)
        self._number += 1
        routes, names = self._route(calls, purposes)
        requests = self._requests(calls, routes, asked, exchange)
        receipts = Receipts(len(calls))
        # Clients of equal weight need none: their mean is the plain one.
        collectors = [call.collector(None if self._alike else self.weights) for call in calls]
        sinks = [
            (call.signature.returns, collector.add_reply, call)
            for call, collector in zip(calls, collectors, strict=True)
        ]
        for name, reply in self._answers(requests, exchange, setup, receipts.tries):
            if not isinstance(reply, Reply):
                raise reply.error(name) from reply.cause
            if len(reply.results) != len(sinks):
                raise WrongType(f"client {name!r} answered {len(sinks)} calls with {len(reply.results)} results")
            for part, (fits, add, call) in zip(reply.results, sinks, strict=False):
                value = part.value
                if not fits(value):
                    raise WrongType(
                        f"client {name!r} answered {call.name} with a {type(value).__name__}, "
                        f"which is not the {call.signature.returns_hint} it declares"
                    )
                add(name, value)
            receipts.note(name, reply)
        self._check_answered(receipts.names, requests, setup)
        answered = tuple(receipts.names)
        if answered == asked:
            answered = asked  # one object for all the records of a run
        self._record(names, purposes, requests, receipts, exchange, asked, answered)
        latest = dict.fromkeys(answered, self._number)
        self._used_before, self._used = self._used, latest if answered is self.clients else {**self._used, **latest}
        if setup:
            self._setups += 1
        else:
            self._exchange += 1
            self._present = answered
        self._enter_server()
        return tuple([collector.outcome() for collector in collectors])

    def _requests(
        self, calls: Sequence[Call], routes: Part, asked: tuple[str, ...], exchange: int
    ) -> dict[str, Request]:
        individual = any([isinstance(value, PerClient) for call in calls for value in call.arguments.values()])
        shared = () if individual else tuple([Part(call.arguments) for call in calls])

        def request(state: tuple[int, int], arguments: tuple[Part, ...]) -> Request:
            head = Preamble(REQUEST, self._attempt, self.round, exchange, self._number, *state, self.seed)
            return Request(head, routes, arguments)

        # Clients that are told the same, in the same state of acknowledgement, share one request.
        used, keep = self._used, self._keep if self._durable else self._used
        states = [*zip(map(used.__getitem__, asked), map(keep.__getitem__, asked), strict=True)]
        distinct = set(states)
        if len(distinct) == 1 and not individual:  # as a rule
            return dict.fromkeys(asked, request(distinct.pop(), shared))
        if individual:
            return {
                name: request(state, tuple([Part(for_client(call.arguments, name)) for call in calls]))
                for name, state in zip(asked, states, strict=True)
            }
        made = {state: request(state, shared) for state in distinct}
        return {name: made[state] for name, state in zip(asked, states, strict=True)}

    def _route(self, calls: Sequence[Call], purposes: Sequence[Purpose]) -> tuple[Part, tuple[str, ...]]:
        """The names of the calls, as they travel and as the ledger writes them."""
        key = tuple([(self._name(call), call.name, purpose) for call, purpose in zip(calls, purposes, strict=True)])
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = (
                Part.plain([list(route) for route in key]),
                tuple(f"{protocol}.{step}" for protocol, step, _ in key),
            )
        return found

    def _name(self, call: Call) -> str:
        found = self._names.get(id(call.protocol))
        if found is not None:
            return found[1]
        for name, protocol in self.protocols.items():  # a twin: equal, but not the same object
            if protocol == call.protocol:
                self._names[id(call.protocol)] = (call.protocol, name)
                return name
        raise ConfigError(
            f"{type(call.protocol).__name__} is not one of this run's protocols ({', '.join(self.protocols)}): "
            "make it a field of the algorithm"
        )

    def _answers(
        self, requests: dict[str, Request], exchange: int, setup: bool, tries: dict[str, int]
    ) -> Iterable[tuple[str, Reply | Failure]]:
        """Send, wait, ask again those who did not answer; the answers in the order of the clients."""
        policy = self.participation
        deadline = policy.deadline
        if setup and deadline is not None:
            deadline = max(deadline, SETUP_SECONDS)
        judged = policy.retries > 0
        if judged:
            answers = self._insist(requests, exchange, setup, tries, deadline)
        else:
            answers = self.transport.deliver(requests, deadline)
        certain = judged or setup or not policy.simulates_losses
        if certain and not judged and getattr(self.transport, "in_turn", False):
            return answers
        return self._in_turn(answers, requests, exchange, setup, judged, certain)

    def _in_turn(
        self,
        answers: Iterable[tuple[str, Reply | Failure]],
        requests: dict[str, Request],
        exchange: int,
        setup: bool,
        judged: bool,
        certain: bool,
    ) -> Iterator[tuple[str, Reply | Failure]]:
        """Those of the answers that count, in the order of the clients, each as soon as it is its turn."""
        number, attempt = self._number, self._attempt
        held: dict[str, Reply | Failure | None] = {}  # what came before its turn
        order = iter(requests)
        turn = next(order, None)
        for name, answer in answers:
            head = answer.preamble
            expected = head.number == number and head.attempt == attempt
            if certain and expected and name == turn and type(answer) is Reply:  # as a rule
                turn = next(order, None)
                yield name, answer
            else:
                counts = judged or self._counts(name, answer, exchange, setup, 0)
                held[name] = answer if counts else None
            del answer  # or it would be alive while the next one is computed
            while held and turn in held:
                if (ready := held.pop(turn)) is not None:
                    yield turn, ready
                turn = next(order, None)
        while turn is not None:  # some never came; those behind them are still to be had
            if (ready := held.pop(turn, None)) is not None:
                yield turn, ready
            turn = next(order, None)

    def _insist(
        self, requests: dict[str, Request], exchange: int, setup: bool, tries: dict[str, int], deadline: float | None
    ) -> Iterable[tuple[str, Reply | Failure]]:
        """All that came, those who did not answer having been asked again."""
        arrived: dict[str, Reply | Failure] = {}
        missing = requests
        for attempt in range(1 + self.participation.retries):
            for name, answer in self.transport.deliver(missing, deadline):
                if self._counts(name, answer, exchange, setup, attempt):
                    arrived[name] = answer
            missing = {name: request for name, request in requests.items() if name not in arrived}
            if not missing or attempt == self.participation.retries:
                break
            tries.update(dict.fromkeys(missing, attempt + 2))
        return arrived.items()

    def _counts(self, name: str, answer: Reply | Failure, exchange: int, setup: bool, attempt: int) -> bool:
        """Whether an answer is one to this exchange, and not lost on its way in simulation."""
        head, policy = answer.preamble, self.participation
        if head.number != self._number or head.attempt != self._attempt:
            return False  # late, from an earlier exchange: leaves no trace
        if type(answer) is Failure or setup or not policy.simulates_losses:
            return True
        return policy.arrives(self.seed, self.round, exchange, attempt, name, self._index[name])

    def _check_answered(self, answered: list[str], requests: Mapping[str, Request], setup: bool) -> None:
        if setup and len(answered) < len(requests):
            silent = self._missing(answered, requests)
            raise QuorumNotReached(
                f"everyone must take part in setting up a run, and {silent} did not answer; start again "
                "when all are there, or leave these clients out"
            )
        if answered and not self.participation.quorum:
            return
        if self.participation.quorum == 1.0 and len(answered) < len(requests):
            silent = self._missing(answered, requests)
            raise QuorumNotReached(
                f"round {self.round}: everyone must answer, and {silent} did not; start again when all are there, or "
                "leave these clients out"
            )
        total = sum(self.weights.values())
        share = sum(self.weights[name] for name in answered) / total if total else 1.0
        if not answered or share < self.participation.quorum:
            missing = f". Missing: {self._missing(answered, requests)}" if absences(self.transport) else ""
            raise QuorumNotReached(
                f"round {self.round}: {len(answered)} of {len(requests)} clients answered, with {share:.0%} of the "
                f"total weight; the quorum is {self.participation.quorum:.0%}. Wait for more clients, or lower it"
                f"{missing}"
            )

    def _missing(self, answered: list[str], requests: Mapping[str, Request]) -> str:
        """Those who did not answer, with the reason where the transport knows it."""
        there, by_reason = set(answered), dict[str, list[str]]()
        known = absences(self.transport)
        for name in requests:
            if name not in there:
                by_reason.setdefault(known.get(name, ""), []).append(name)
        return "; ".join(", ".join(names) + (f" ({reason})" if reason else "") for reason, names in by_reason.items())

    def _record(
        self,
        names: tuple[str, ...],
        purposes: Sequence[Purpose],
        requests: Mapping[str, Request],
        receipts: Receipts,
        exchange: int,
        asked: tuple[str, ...],
        answered: tuple[str, ...],
    ) -> None:
        rows = 1 + len(names)
        bytes_down, scalars_down = self._tables.table(("down", *names), sizes_down(requests), rows)
        bytes_up, scalars_up = self._tables.table(("up", *names), receipts.sizes, rows)
        self.ledger.records.append(
            ExchangeRecord(
                self.round,
                exchange,
                names,
                tuple(purposes),
                asked,
                answered,
                bytes_down,
                bytes_up,
                scalars_down,
                scalars_up,
                receipts.counts,
                tries_of(asked, receipts.tries),
                np.array(receipts.seconds),
            )
        )


def _purposes(purpose: Purpose, calls: Sequence[Call]) -> tuple[Purpose, ...]:
    return (purpose,) * len(calls)
