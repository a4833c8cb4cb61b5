"""One exchange, from the calls to their results: requests, answers in turn, aggregation, and what the ledger keeps.

The parts are in modules of their own: `routes` (names of the calls), `requests`, `answers` (who answers, in turn),
`intake` (replies checked and aggregated), `faulty_replies` (who is to blame if they do not add up), `absence` (who is
missing and whether the others are enough), `acknowledged` (which reply was used) and `ledger`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedsolve.errors import ClientError
from fedsolve.federation.absence import check_faults
from fedsolve.federation.answers import Answer, Answers
from fedsolve.federation.calls import Call
from fedsolve.federation.faulty_replies import blamed, is_finite
from fedsolve.federation.intake import Aggregation, DoesNotAdd, Fault, Intake
from fedsolve.federation.said_by_others import with_others
from fedsolve.typing import Value
from fedsolve.wire.messages import Purpose, Reply, Request


@dataclass(slots=True)
class Question:
    """What is asked in an exchange, of whom, and by which rules."""

    calls: Sequence[Call[object]]
    purposes: Sequence[Purpose]
    asked: tuple[str, ...]
    exchange: int  # within the round
    setup: bool  # it prepares the run: nothing is lost in simulation
    quorum: bool = True  # whether too few answers are an error
    everyone: bool = False  # whether a single missing answer is one
    tolerant: bool = False  # whether a client that fails is missing; otherwise its error is raised
    may_refuse: bool = False  # whether one whose policy refuses is missing all the same, and the others must answer
    patience: float | None = None  # to set up: how long to wait (if not tolerant: at least, where there is a deadline)
    own: dict[int, Value] = field(default_factory=dict)  # the server's own answers, by the place of the call
    server: tuple[str, float] = ("", 0.0)  # its name and weight, where it has any

    def waits(self, deadline: float | None) -> float | None:
        """For how many seconds to wait for answers, where the participation has this deadline."""
        if self.patience is None:
            return deadline
        if self.tolerant:
            return self.patience
        return None if deadline is None else max(deadline, self.patience)


@dataclass(slots=True)
class Found:
    """What an exchange came to."""

    intake: Intake
    faults: Mapping[str, Fault]
    results: tuple[Value, ...] | None  # None: nobody answered


def aggregate(
    question: Question,
    requests: Mapping[str, Request],
    answers: Answers,
    aggregation: Aggregation,
    weights: Mapping[str, float] | None,
) -> Found:
    """Ask, and aggregate what comes back.

    With `question.tolerant`, clients whose answers cannot be used are left out, with the reason in `faults`; the error
    is raised only where all failed alike. Otherwise the first such answer raises its error, which also says what others
    have to say.
    """
    calls, tolerant = question.calls, question.tolerant
    intake = Intake(calls, aggregation.collectors(calls, weights), tolerant, question.may_refuse)
    if not tolerant:
        rest = iter(answers.to(requests))
        try:
            intake.take(rest)
        except ClientError as error:
            raise with_others(error, rest) from error.__cause__
        check_faults(len(intake.receipts.names), intake.faults)
        return Found(intake, intake.faults, _outcome(intake, question))
    replied: list[str] = []
    stream, results, sound = _noting(answers.to(requests), replied), None, True
    try:
        intake.take(stream)
        results = _outcome(intake, question)
        sound = results is None or is_finite(results)
    except DoesNotAdd:
        intake.skim(stream)
        sound = False
    if not sound:
        asked = {name: requests[name] for name in requests if name in replied and name not in intake.faults}
        held = _look_again(intake, answers, asked, calls, weights)
        intake = _add_up(held, intake.faults, calls, aggregation, weights)
        results = _outcome(intake, question)
    if question.quorum or not question.setup:  # those who were lost fail each for themselves
        check_faults(len(intake.receipts.names), intake.faults)
    return Found(intake, intake.faults, results)


def _outcome(intake: Intake, question: Question) -> tuple[Value, ...] | None:
    """The results, the server's own answers included; None if no client answered."""
    if not intake.receipts.names:
        return None
    for place, value in question.own.items():  # last, so that clients are added in their order
        intake.collectors[place].add_reply(question.server[0], value)
    return intake.outcome()


def _noting(answers: Iterable[tuple[str, Answer]], replied: list[str]) -> Iterator[tuple[str, Answer]]:
    for name, answer in answers:
        if type(answer) is Reply:
            replied.append(name)
        yield name, answer
        del answer  # or it would be alive while the next one is computed


def _look_again(
    intake: Intake,
    answers: Answers,
    requests: Mapping[str, Request],
    calls: Sequence[Call[object]],
    weights: Mapping[str, float] | None,
) -> dict[str, Reply]:
    """Ask those who answered again and hold all replies: those in order are returned, the others' faults noted."""
    held: dict[str, Reply] = {}
    for name, answer in answers.again(requests):
        if not isinstance(answer, Reply):
            intake.skim([(name, answer)])
        elif intake.accepts(name, answer):
            held[name] = answer
    names, added = [call.name for call in calls], [call.is_added for call in calls]
    for name, fault in blamed(held, names, added, weights).items():
        intake.fail(name, fault)
    return {name: held[name] for name in requests if name in held and name not in intake.faults}


def _add_up(
    held: Mapping[str, Reply],
    faults: Mapping[str, Fault],
    calls: Sequence[Call[object]],
    aggregation: Aggregation,
    weights: Mapping[str, float] | None,
) -> Intake:
    """Take in replies that look to be in order. A client whose reply cannot be added all the same is left out.

    Raises WrongType or TooLarge if no reply can be added: that is a fault of the run, and not of its clients.
    """
    found, first = dict(faults), None
    while True:  # from the beginning: a reply that failed half-way is in a part of the sums
        intake = Intake(calls, aggregation.collectors(calls, weights), tolerant=True)
        intake.faults |= found
        try:
            intake.take((name, reply) for name, reply in held.items() if name not in found)
        except DoesNotAdd as error:
            first = first or error.fault.error
            found[error.client] = error.fault
            continue
        if first is not None and not intake.receipts.names:
            raise first
        return intake
