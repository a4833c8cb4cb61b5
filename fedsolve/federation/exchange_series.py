"""The server's side of all exchanges of a run: numbers them, puts them to the clients, and judges who answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fedsolve.federation.absence import SILENT, SIMULATED, check_everyone, check_quorum, reasons
from fedsolve.federation.acknowledged import Acknowledged
from fedsolve.federation.answers import Answers
from fedsolve.federation.attendance import Attendance
from fedsolve.federation.exchange import Found, Question, aggregate
from fedsolve.federation.intake import Aggregation
from fedsolve.federation.ledger import ExchangeRecord, Tables, record_of
from fedsolve.federation.participation import Participation
from fedsolve.federation.requests import make_requests
from fedsolve.federation.routes import Routes
from fedsolve.federation.transports.base import Transport
from fedsolve.typing import Value
from fedsolve.wire.encoding import REQUEST, Preamble


class Outcome(NamedTuple):
    """What came of a question: results call by call (None if nobody answered), who answered, and the accounts."""

    results: tuple[Value, ...] | None
    answered: tuple[str, ...]
    record: ExchangeRecord


class Exchanges:
    """What lasts from one exchange to the next."""

    def __init__(
        self,
        transport: Transport,
        routes: Routes,
        participation: Participation,
        aggregation: Aggregation,
        seed: int,
        clients: tuple[str, ...],
    ) -> None:
        self.transport, self.routes, self.seed, self.clients = transport, routes, seed, clients
        self.participation, self.aggregation = participation, aggregation
        self.attendance = Attendance()
        self.attempt, self.number = 1, 0  # of the server, and of its exchanges
        self.acknowledged = Acknowledged(dict.fromkeys(clients, 0))
        self.weights: dict[str, float] = {}
        self.missing: dict[str, str] = {}  # in this round, with the reason
        self._alike = False  # whether all weights are equal
        self._tables = Tables()
        self._places = {name: place for place, name in enumerate(clients)}

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Let the clients count this much."""
        self.weights = dict(weights)
        self._alike = len(set(weights.values())) == 1

    def share(self, names: Iterable[str]) -> float:
        """The part of the total weight that these clients have."""
        total = sum(self.weights.values())
        return sum([self.weights[name] for name in names]) / total if total else 1.0

    def ask(self, question: Question, round: int) -> Outcome:
        """Put a question to clients, and see that enough of them answered."""
        self.number += 1
        policy, known, asked = self.participation, self.acknowledged, question.asked
        routes, names = self.routes.of(question.calls, question.purposes)
        head = Preamble(REQUEST, self.attempt, round, question.exchange, self.number, 0, 0, self.seed)
        requests = make_requests(head, routes, question.calls, asked, known.states(asked))
        answers = Answers(
            self.transport,
            policy,
            head,
            self._places,
            question.setup or not policy.simulates_losses,
            question.waits(policy.deadline),
        )
        # Clients of equal weight need none: their mean is the plain one.
        weights = None if self._alike else self.weights
        if question.own:
            weights = {**self.weights, question.server[0]: question.server[1]}
        found = aggregate(question, requests, answers, self.aggregation, weights)
        answered = self._judge(question, round, answers, found)
        when, receipts = (round, question.exchange), found.intake.receipts
        record = record_of(
            self._tables, when, question.purposes, asked, names, requests, receipts, answered, answers.tries
        )
        known.advance(answered, self.number, answered is self.clients)
        return Outcome(found.results, answered, record)

    def _judge(self, question: Question, round: int, answers: Answers, found: Found) -> tuple[str, ...]:
        """Who answered. Raises QuorumNotReached if these are too few."""
        answered, asked = tuple(found.intake.receipts.names), question.asked
        if answers.heard:
            self.attendance.hear(answers.heard)
        missing: dict[str, str] = {}
        if answered == asked:
            answered = asked  # one object for all the records of a run
        else:
            there = set(answered)
            missing = reasons(answers, found.faults, [name for name in asked if name not in there])
            self.missing |= missing
        if missing or self.attendance.misses:
            silent = {name: why for name, why in missing.items() if name not in found.faults and why is not SIMULATED}
            waited = answers.deadline is not None
            self.attendance.note((*answered, *found.faults), silent, round, self.transport, waited)
        if question.purposes[0] == "algorithm" and (found.faults or self.attendance.failed):
            failed = {name: fault.reason for name, fault in found.faults.items()}
            self.attendance.note_failures(answered, failed, round)
        elif question.setup:
            for name, fault in found.faults.items():
                self.attendance.refuse(name, round, fault.reason)
        if question.everyone:  # but those that were free to refuse, and did
            needed = {name: why for name, why in missing.items() if name not in found.faults}
            check_everyone(needed, _telling(needed))
        elif question.quorum and (self.participation.quorum or not answered):
            told, share = _telling(missing), self.share(answered)
            check_quorum(self.participation, round, len(answered), len(asked), share, missing, told)
        return answered


def _telling(missing: Mapping[str, str]) -> dict[str, str]:
    """Those reasons that say more than that there was no answer."""
    return {name: why for name, why in missing.items() if why not in (SIMULATED, SILENT)}
