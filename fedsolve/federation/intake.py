"""Replies as they come: checked against what their steps declare, aggregated, and noted for the ledger.

`Aggregation` is the one interface by which replies become results. `InTheClear` is what there is: the server receives
each reply and adds it up, with its weight. Where clients mask what they send, another takes its place; the verb in the
route tells a client whether its reply will be averaged (then the weight is applied before the mask), added or gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fedsolve.errors import ClientRefused, FedsolveError, TooLarge, WrongType
from fedsolve.federation.calls import Call, Collector
from fedsolve.federation.ledger import Receipts
from fedsolve.typing import Value
from fedsolve.wire.messages import Failure, Reply


class Aggregation(Protocol):
    """Makes what takes in the replies to each call of an exchange."""

    def collectors(
        self, calls: Sequence[Call[object]], weights: Mapping[str, float] | None
    ) -> Sequence[Collector[object]]: ...


class InTheClear:
    """The server's process sees every reply. Without weights all clients count the same."""

    def collectors(
        self, calls: Sequence[Call[object]], weights: Mapping[str, float] | None
    ) -> Sequence[Collector[object]]:
        return [call.collector(weights) for call in calls]


class Fault(NamedTuple):
    """Why a client's answer cannot be used."""

    kind: tuple[str, str]  # two clients with the same kind failed alike
    reason: str
    error: FedsolveError
    cause: BaseException | None = None


class DoesNotAdd(Exception):
    """A reply cannot be added to those before it: which of them is wrong can only be told with all of them at hand.

    client  whose reply it is
    fault   what to say of it, if the others are in order
    """

    def __init__(self, client: str, error: WrongType | TooLarge) -> None:
        super().__init__(f"client {client!r}: {error}")
        self.client = client
        self.fault = Fault(("does not add", str(error)), str(error), type(error)(f"client {client!r}: {error}"))


class Intake:
    """Takes in the answers of one exchange.

    With `tolerant`, a client whose answer cannot be used is noted in `faults` and the others are taken in; otherwise
    its error is raised. With `may_refuse` this holds for a client whose policy refuses, and for no other.
    """

    def __init__(
        self,
        calls: Sequence[Call[object]],
        collectors: Sequence[Collector[object]],
        tolerant: bool,
        may_refuse: bool = False,
    ) -> None:
        self.receipts = Receipts(len(calls))
        self.faults: dict[str, Fault] = {}
        self.tolerant, self.may_refuse = tolerant, may_refuse
        self.collectors = collectors
        self._sinks = [
            (call.signature.returns, collector.add_reply, call)
            for call, collector in zip(calls, collectors, strict=True)
        ]

    def take(self, answers: Iterable[tuple[str, Reply | Failure]]) -> None:
        """Take in all answers, in the order in which they are to be added."""
        sinks, count, note = self._sinks, len(self._sinks), self.receipts.note
        only, add_only, _ = sinks[0]
        for name, reply in answers:
            if type(reply) is not Reply or len(reply.results) != count:
                self.fail(name, _unusable(name, reply, count))
                continue
            results = reply.results
            try:
                if count == 1:  # as a rule
                    value = results[0].value
                    if only(value):
                        add_only(name, value)
                        note(name, reply)
                        continue
                elif all([fits(part.value) for part, (fits, _, _) in zip(results, sinks, strict=True)]):
                    for part, (_, add, _) in zip(results, sinks, strict=True):
                        add(name, part.value)
                    note(name, reply)
                    continue
            except (WrongType, TooLarge) as error:
                found = DoesNotAdd(name, error)
                if self.tolerant:
                    raise found from error
                raise found.fault.error from None
            self.fail(name, self._misfit(name, reply))

    def skim(self, answers: Iterable[tuple[str, Reply | Failure]]) -> None:
        """Note who failed, and drop the replies of the others: they will be asked for again."""
        for name, answer in answers:
            if type(answer) is not Reply:
                self.fail(name, _unusable(name, answer, len(self._sinks)))

    def accepts(self, name: str, reply: Reply) -> bool:
        """Whether a reply is what its steps declare; if not, that is its client's fault."""
        if len(reply.results) != len(self._sinks):
            self.fail(name, _unusable(name, reply, len(self._sinks)))
        elif not all([fits(part.value) for part, (fits, _, _) in zip(reply.results, self._sinks, strict=True)]):
            self.fail(name, self._misfit(name, reply))
        return name not in self.faults

    def fail(self, name: str, fault: Fault) -> None:
        """Leave this client out, or raise its error."""
        if not self.tolerant and not (self.may_refuse and isinstance(fault.error, ClientRefused)):
            raise fault.error from fault.cause
        self.faults[name] = fault

    def _misfit(self, name: str, reply: Reply) -> Fault:
        for part, (fits, _, call) in zip(reply.results, self._sinks, strict=True):
            if not fits(part.value):
                said = f"answered {call.name} with a {type(part.value).__name__}, "
                said += f"which is not the {call.signature.returns_hint} it declares"
                return Fault(("WrongType", call.name), said, WrongType(f"client {name!r} {said}"))
        raise AssertionError("the reply fits")

    def outcome(self) -> tuple[Value, ...]:
        """What the replies come to, call by call."""
        return tuple([collector.outcome() for collector in self.collectors])


def _unusable(name: str, answer: Reply | Failure, count: int) -> Fault:
    if isinstance(answer, Failure):
        error = answer.error(name)
        return Fault((answer.kind, answer.step), f"{answer.step}: {error.text}", error, answer.cause)
    said = f"answered {count} calls with {len(answer.results)} results"
    return Fault(("WrongType", "results"), said, WrongType(f"client {name!r} {said}"))
