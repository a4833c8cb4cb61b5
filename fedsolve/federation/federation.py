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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from fedsolve.errors import ConfigError, DataError, FedsolveError
from fedsolve.federation.absence import check_quorum, in_words
from fedsolve.federation.acknowledged import Acknowledged
from fedsolve.federation.calls import Call, Gather, Here, Mean, Sum
from fedsolve.federation.client import Client
from fedsolve.federation.client_checks import (
    ClientInfo,
    agreed_labels,
    check_client_names,
    check_joined,
    check_returned,
)
from fedsolve.federation.cohort import Cohort, Position
from fedsolve.federation.exchange import Question
from fedsolve.federation.exchange_series import Exchanges
from fedsolve.federation.intake import Aggregation, InTheClear
from fedsolve.federation.joining import Joining
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import fingerprint
from fedsolve.federation.routes import Routes
from fedsolve.federation.server_data import OwnData
from fedsolve.federation.transports.base import Transport
from fedsolve.tables.column_names import agreed_columns
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array, Value
from fedsolve.version import __version__
from fedsolve.wire.messages import MOST_CALLS, Purpose

__all__ = ["Cohort", "Federation", "Position"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")

# Set-up exchanges are numbered from here, apart from those a round counts.
SETUP_EXCHANGE = 2**31
# So are those that only measure: whether they come does not change what chance decides in the round's own.
MEASURE_EXCHANGE = 2**30
# What prepares a run must reach everyone, so it is given more time than an exchange that can do without some.
SETUP_SECONDS = 60.0


class HasShape(Protocol):
    """A loss, as far as it says where to begin and what shape the weights of a problem have."""

    def shape(self, features: int, outputs: tuple[int, ...], /) -> tuple[int, ...]: ...

    def start_point(self, features: int, outputs: tuple[int, ...], /) -> Array: ...


class Federation:
    """All clients, seen from the server.

    Each client's reply reaches the server's process by itself and is added up here (see the module's text): `mean` and
    `sum` keep single replies from the algorithm, not from whoever runs the server.
    """

    def __init__(
        self,
        transport: Transport,
        protocols: Mapping[str, object],
        *,
        seed: int = 0,
        participation: Participation | None = None,
        server: Client | None = None,
        aggregation: Aggregation | None = None,
    ) -> None:
        self.transport = transport
        self.protocols = dict(protocols)
        self.seed = seed
        self.participation = participation or Participation()
        self.ledger = Ledger()
        self.clients: tuple[str, ...] = check_client_names(transport.names)
        self.participation.check_names(self.clients)
        self.info: dict[str, ClientInfo] = {}
        self.classes: Classes | None = None  # what the labels 0, 1, … stand for, where the clients declare it
        self.warm_start: Array | None = None
        self.checkpointing = False  # whether this run may be resumed: then clients remember which data it began with
        self.round = 0
        self._own = OwnData(server, self.clients)
        self._session = Joining()
        routes = Routes(self.protocols)
        routes.add("session", self._session)
        self._exchanges = Exchanges(
            transport, routes, self.participation, aggregation or InTheClear(), seed, self.clients
        )
        self._tolerant = self.participation.is_tolerant
        if (self.participation.retries or self._tolerant) and hasattr(transport, "remember_replies"):
            transport.remember_replies = True  # what is asked again is answered again, not computed again
        self._exchange = self._setups = self._measures = 0
        self._purpose: Purpose = "algorithm"
        self._resuming = False
        self._present: tuple[str, ...] = self.clients
        self._previous: tuple[str, ...] | None = None
        self._attached: tuple[tuple[Call[object], ...], Callable[[tuple[Value, ...]], None]] | None = None

    # ── the verbs ──

    # Typed through the step: a misspelt, missing or wrong argument is an error of the type checker.

    def mean(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The average of the clients' replies, weighted by `client.weight`; `Mean(…).uniform()` is the plain one.

        The server's process receives the replies one by one; the caller gets their average.
        """
        return self.exchange(Mean(step, *args, **kwargs))[0]

    def sum(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The sum of the clients' replies, which the server's process receives one by one."""
        return self.exchange(Sum(step, *args, **kwargs))[0]

    def gather(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> dict[str, T]:
        """Each client's reply by itself, as a dict in the order of the clients."""
        return self.exchange(Gather(step, *args, **kwargs))[0]

    @overload
    def exchange(self, one: Call[A], /) -> tuple[A]: ...

    @overload
    def exchange(self, one: Call[A], two: Call[B], /) -> tuple[A, B]: ...

    @overload
    def exchange(self, one: Call[A], two: Call[B], three: Call[C], /) -> tuple[A, B, C]: ...

    @overload
    def exchange(self, *calls: Call[T]) -> tuple[T, ...]: ...

    def exchange(self, *calls: Call[object]) -> tuple[Value, ...]:
        """Several calls in one message each way; the results in the order of the calls."""
        if self._attached is None:
            return self._run(calls, _purposes(self._purpose, calls))
        # What the run wants to measure travels along with the first exchange of the round.
        extra, receive = self._attached
        purposes = _purposes("algorithm", calls) + _purposes("measure", extra)
        results = self._run((*calls, *extra), purposes)
        self._attached = None  # only now: what failed has not answered the question that travelled along
        receive(results[len(calls) :])
        return results[: len(calls)]

    def here(self, step: Callable[Concatenate[Client, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What a step says of the server's own data. Nothing is sent; what it computes is counted."""
        call = Here(step, *args, **kwargs)
        return cast(T, self._own.run(call, self._exchanges.routes.name_of(call.protocol)))

    def take_back(self) -> None:
        """Let the clients forget what they remember from the last exchange, as if their replies had been lost: for a
        point that was tried and rejected. A missing client goes back too, when next asked; so does the server's own
        data, with what it was asked since. The accounts stay."""
        self._exchanges.acknowledged.take_back()
        self._own.take_back()

    @property
    def server(self) -> Client:
        """The server's own data."""
        return self._own.client

    # ── who is there ──

    @property
    def cohort(self) -> Cohort:
        """Who takes part in this round, with what share of the weight, and whether that is new."""
        changed = self._previous is not None and self._present != self._previous
        return Cohort(self._present, self._exchanges.share(self._present), changed)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The clients that are missing from this round, or from a part of it, with the reason."""
        lost, never = self._exchanges.attendance.lost, self._never_joined
        found = {
            **{name: f"lost in round {one.since}: {one.reason}" for name, one in lost.items()},
            **self._exchanges.missing,
            **{name: f"took no part: {why}" for name, why in never.items()},
        }
        return tuple((name, found[name]) for name in self.clients if name in found) if found else ()

    @property
    def _never_joined(self) -> dict[str, str]:
        """The clients that refused to join and have not joined since, with the reason. They are asked again from time
        to time, so the round in which they are lost is that of the latest refusal, and says nothing."""
        lost = self._exchanges.attendance.lost
        return {name: one.reason.removeprefix("session: ") for name, one in lost.items() if name not in self.weights}

    @property
    def objective(self) -> float:
        """The share of the total weight that belongs to the clients whose objective is minimised: all that are not
        lost, where the quorum says that a part of them is enough."""
        return (
            self._exchanges.share(self._exchanges.attendance.present(self.clients))
            if self.participation.is_tolerant
            else 1.0
        )

    def whose_objective(self) -> str:
        """A remark for the end of a message, where the objective is not that of all clients; else nothing."""
        share, lost = self.objective, self._exchanges.attendance.lost
        known = all(name in self.weights for name in lost)
        if not lost or (known and share >= 1 - 1e-12):
            return ""
        here = ", ".join(self._exchanges.attendance.present(self.clients))
        part = f", with {share:.0%} of the total weight" if known else ""  # one that never joined told no weight
        never = self._never_joined
        gone = {name: f"since round {one.since}: {one.reason}" for name, one in lost.items() if name not in never}
        left = f"; lost: {in_words(gone, gone)}" if gone else ""
        absent = f"; took no part: {in_words(never, never)}" if never else ""
        return f". This is the objective of {here}{part}{left}{absent}"

    @property
    def weights(self) -> Mapping[str, float]:
        """How much each client counts in a mean."""
        return self._exchanges.weights

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
        whose, said = next(iter(self.info.items()))
        for name, info in self.info.items():
            if info.outputs != said.outputs:
                raise DataError(f"client {name!r} has targets of shape {info.outputs}, {whose!r} of {said.outputs}")
        return said.outputs

    def start_point(self, loss: HasShape) -> Array:
        """Where to begin: the warm start if one was given, else where the loss begins, as a rule at zero."""
        shape = loss.shape(self.features, self.outputs)
        if self.warm_start is None:
            seeded = getattr(loss, "seeded_start_point", None)  # of a loss that begins by chance
            if seeded is not None:
                return seeded(self.features, self.outputs, self.seed)
            return loss.start_point(self.features, self.outputs)
        if self.warm_start.shape != shape:
            given = self.warm_start.shape
            raise ConfigError(f"the warm start has weights of shape {given}, this problem needs {shape}")
        return self.warm_start

    # ── what the run says ──

    def join(self) -> None:
        """Agree on version, protocols and hyper-parameters, and learn each client's weight and shape.

        Clients answer nothing else before. Raises `ClientMismatch` if a client was started otherwise than the server,
        and `ClientInputError` if what it says of itself cannot be true: see `client_checks.check_joined`. Everyone must
        answer; where a run is resumed with a quorum, as many as that asks for, and those that fail are lost. A client
        whose policy refuses to take part is lost too, where there is a quorum and the others are one.
        """
        asked = self._exchanges.attendance.present(self.clients)
        enough = self._resuming and self.participation.is_tolerant
        deadline = self.participation.deadline
        # Who fails is missing like one that is silent, so where there is no deadline there is none here.
        patience = None if enough and deadline is None else max(SETUP_SECONDS, deadline or 0.0)
        found = self._join(asked, patience, everyone=not enough, tolerant=enough)
        for name in asked:
            if name not in found:
                self._exchanges.attendance.lose(name, self.round, self._exchanges.missing[name])
        if not enough and len(found) < len(asked):
            self._check_enough(found, asked)
        check_joined(found, self.info)
        self._know(found)
        self._agree_on_names(self._session)
        self._resuming = False

    def _join(
        self, asked: tuple[str, ...], patience: float | None, *, everyone: bool, tolerant: bool, quorum: bool = True
    ) -> dict[str, ClientInfo]:
        prints = {name: fingerprint(protocol) for name, protocol in self.protocols.items()}
        call = Gather(self._session.join, version=__version__, protocols=prints, checkpointed=self.checkpointing)
        question = Question((call,), ("setup",), asked, SETUP_EXCHANGE + self._setups, setup=True)
        question.everyone, question.quorum, question.tolerant = everyone, quorum, tolerant
        question.may_refuse = self.participation.is_tolerant
        question.patience = patience
        found = self._ask(question)
        return {} if found is None else found[0]

    def _check_enough(self, found: Mapping[str, ClientInfo], asked: tuple[str, ...]) -> None:
        """Raise QuorumNotReached if too few are left where some refused. Of clients that never joined nobody knows the
        weight: then each counts the same."""
        missing = {name: self._exchanges.missing[name] for name in asked if name not in found}
        known = all(name in self.weights for name in asked)
        share = self._exchanges.share(found) if known else len(found) / len(asked)
        check_quorum(self.participation, self.round, len(found), len(asked), share, missing, missing)

    def _know(self, info: dict[str, ClientInfo]) -> None:
        self.info = {name: info[name] for name in self.clients if name in info}
        self._exchanges.set_weights({**self.weights, **{name: one.weight for name, one in info.items()}})

    def _agree_on_names(self, session: Joining) -> None:
        """Columns are matched by name before anything is computed: where clients have them in different orders, all
        take that of the first one. Whoever has other columns or classes is rejected."""
        agreed = agreed_columns({name: info.names for name, info in self.info.items()})
        self.classes = agreed_labels(self.info)
        if agreed is None or all(info.names == agreed for info in self.info.values()):
            return
        self._run((Gather(session.align, columns=agreed),), ("setup",))
        self.info = {name: replace(info, names=agreed) for name, info in self.info.items()}

    def _look_for_lost(self) -> None:
        """Ask clients that are lost to join again; those that do take part from this round on."""
        waited, unwaited = self._exchanges.attendance.to_ask(self.round, self.transport)
        # One that is waited for is not waited for for ever, even where there is no deadline.
        for names, patience in ((waited, self.participation.deadline or SETUP_SECONDS), (unwaited, 0.0)):
            found = self._join(names, patience, everyone=False, tolerant=True, quorum=False) if names else {}
            for name, info in found.items():
                try:
                    check_returned(name, info, self.info, self.weights.get(name))
                except FedsolveError as error:  # it is there, but not as it was
                    self._exchanges.attendance.refuse(name, self.round, str(error))
                    continue
                self._exchanges.attendance.find(name)
                self._know({**self.info, name: info})

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
        self._exchanges.missing = {}
        if self._exchanges.attendance.lost:
            self._look_for_lost()
            self._exchanges.missing = {}
        invited = self.participation.invite(self.seed, round, self.clients) if round else self.clients
        self._present = self._exchanges.attendance.present(invited)
        self._own.enter(self.seed, self.round, self._exchange)

    def measure(self, *calls: Call[object], tolerant: bool | None = None) -> tuple[tuple[Value, ...], float] | None:
        """An exchange with all clients that serves only to measure: results, and the share of the weight behind them.

        It leaves the cohort of the round as it is, and holds no quorum; None if nobody answered. With `tolerant` a
        client that fails is missing, whatever the run's participation says of it.
        """
        exchange = MEASURE_EXCHANGE + self._measures
        asked = self.participation.asked(self.round, exchange, self._exchanges.attendance.present(self.clients))
        question = Question(calls, _purposes("measure", calls), asked, exchange, setup=False)
        question.quorum, question.tolerant = False, self.participation.is_tolerant if tolerant is None else tolerant
        cohort = self._present
        try:
            results = self._ask(question)
            return None if results is None else (results, self._exchanges.share(self._present))
        finally:
            self._present = cohort
            self._measures += 1

    def attach(self, calls: tuple[Call[object], ...], receive: Callable[[tuple[Value, ...]], None]) -> None:
        """Let `calls` travel with the next exchange, and hand their results to `receive`."""
        self._attached = (calls, receive)

    def detach(self) -> bool:
        """Take back what was attached; whether there was anything."""
        waiting, self._attached = self._attached is not None, None
        return waiting

    def position(self) -> Position:
        """Where the federation stands, for a checkpoint."""
        lost = {name: (one.since, one.reason) for name, one in self._exchanges.attendance.lost.items()}
        used = dict(self._exchanges.acknowledged.used)
        attempt, number = self._exchanges.attempt, self._exchanges.number
        return Position(attempt, number, used, self._present, dict(self.weights), lost)

    def resume(self, position: Position, round: int) -> None:
        """Go on from a checkpoint: the next request tells each client which of its memories counts."""
        state = self._exchanges
        state.attempt, state.number = position.attempt + 1, position.number
        state.acknowledged = Acknowledged({name: position.used[name] for name in self.clients})
        state.set_weights(position.weights)
        self.round, self._present, self._resuming = round, position.cohort or self.clients, True
        for name, (since, reason) in position.lost.items():
            self._exchanges.attendance.lose(name, since, reason)
        self.checkpointed()

    def checkpointed(self) -> None:
        """What has been used so far is on the server's disk: clients need not go back behind it."""
        self._exchanges.acknowledged.checkpointed()

    # ── one exchange ──

    def _run(self, calls: Sequence[Call[object]], purposes: Sequence[Purpose]) -> tuple[Value, ...]:
        """An exchange with those of the round, or, to set up, with everyone who is not lost."""
        if not 0 < len(calls) <= MOST_CALLS:
            raise ConfigError(f"an exchange has 1 to {MOST_CALLS} calls, got {len(calls)}: divide them among several")
        if purposes[0] != "setup":
            asked = self.participation.asked(self.round, self._exchange, self._present)
            question = Question(calls, purposes, asked, self._exchange, False, tolerant=self._tolerant)
        else:
            asked = self._exchanges.attendance.present(self.clients)
            question = Question(calls, purposes, asked, SETUP_EXCHANGE + self._setups, setup=True, everyone=True)
            question.patience = SETUP_SECONDS
        found = self._ask(question)
        assert found is not None, "without an answer there is no quorum"
        return found

    def _ask(self, question: Question) -> tuple[Value, ...] | None:
        """One exchange, with its accounts written down; None if nobody answered."""
        self._own.remember()
        for place, call in enumerate(question.calls):
            if call.counts_server:
                question.own[place] = self._own.run(call, self._exchanges.routes.name_of(call.protocol))
                question.server = (self.server.name, self.server.weight)
        outcome = self._exchanges.ask(question, self.round)
        if outcome.results is None and not question.setup:
            return None
        self.ledger.records.append(outcome.record)
        if question.setup:
            self._setups += 1
        else:
            self._exchange += question.exchange == self._exchange
            self._present = outcome.answered
        self._own.enter(self.seed, self.round, self._exchange)
        return outcome.results


def _purposes(purpose: Purpose, calls: Sequence[Call[object]]) -> tuple[Purpose, ...]:
    return (purpose,) * len(calls)
