"""The answers to the requests of an exchange: those that count, in the order of the clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fedsolve.federation.participation import Participation
from fedsolve.federation.transports.base import Transport
from fedsolve.wire.encoding import Preamble
from fedsolve.wire.messages import Failure, Reply, Request

Answer = Reply | Failure


@dataclass(slots=True)
class Answers:
    """Sends requests, waits, and asks again those who did not answer.

    Terms are added in the order of the clients, so an answer that comes before its turn is held until then. Answers to
    an earlier exchange are dropped; who sent one is noted in `heard`.
    """

    transport: Transport
    policy: Participation
    head: Preamble  # of the requests
    places: Mapping[str, int]  # of the clients, by which chance is drawn
    certain: bool  # nothing is lost in simulation
    deadline: float | None
    tries: dict[str, int] = field(default_factory=dict)  # of those who were asked more than once
    lost: list[str] = field(default_factory=list)  # whose reply was lost in simulation
    heard: list[str] = field(default_factory=list)  # who sent an answer to an earlier exchange

    def to(self, requests: Mapping[str, Request]) -> Iterable[tuple[str, Answer]]:
        """The answers that count, each as soon as it is its turn."""
        if self.policy.retries > 0:
            return self._in_turn(self._insist(requests), requests, judged=True)
        answers = self.transport.deliver(requests, self.deadline)
        if self.certain and getattr(self.transport, "in_turn", False):
            return answers
        return self._in_turn(answers, requests, judged=False)

    def again(self, requests: Mapping[str, Request]) -> Iterable[tuple[str, Answer]]:
        """The same requests once more, to clients that have answered them: nothing is lost in simulation."""
        self.certain = True
        for name in requests:
            self.tries[name] = self.tries.get(name, 1) + 1
        return self._in_turn(self.transport.deliver(requests, self.deadline), requests, judged=False)

    def _in_turn(
        self, answers: Iterable[tuple[str, Answer]], requests: Mapping[str, Request], judged: bool
    ) -> Iterator[tuple[str, Answer]]:
        number, attempt = self.head.number, self.head.attempt
        certain = judged or self.certain
        held: dict[str, Answer | None] = {}  # what came before its turn
        order = iter(requests)
        turn = next(order, None)
        for name, answer in answers:
            head = answer.preamble
            expected = head.number == number and head.attempt == attempt
            if certain and expected and name == turn and type(answer) is Reply:  # as a rule
                turn = next(order, None)
                yield name, answer
            elif expected:
                held[name] = answer if judged or self._arrives(name, answer, 0) else None
            else:  # late, from an earlier exchange: leaves no trace, and does not stand for the one to this
                self.heard.append(name)
            del answer  # or it would be alive while the next one is computed
            while held and turn in held:
                if (ready := held.pop(turn)) is not None:
                    yield turn, ready
                turn = next(order, None)
        while turn is not None:  # some never came; those behind them are still to be had
            if (ready := held.pop(turn, None)) is not None:
                yield turn, ready
            turn = next(order, None)

    def _insist(self, requests: Mapping[str, Request]) -> Iterable[tuple[str, Answer]]:
        """All that came, those who did not answer having been asked again."""
        arrived: dict[str, Answer] = {}
        missing = requests
        for attempt in range(1 + self.policy.retries):
            for name, answer in self.transport.deliver(missing, self.deadline):
                if (answer.preamble.number, answer.preamble.attempt) != (self.head.number, self.head.attempt):
                    self.heard.append(name)
                elif self._arrives(name, answer, attempt):
                    arrived[name] = answer
            missing = {name: request for name, request in requests.items() if name not in arrived}
            if not missing or attempt == self.policy.retries:
                break
            self.tries.update(dict.fromkeys(missing, attempt + 2))
        return arrived.items()

    def _arrives(self, name: str, answer: Answer, attempt: int) -> bool:
        """Whether an answer is not lost on its way in simulation."""
        if type(answer) is Failure or self.certain:
            return True
        head = self.head
        if self.policy.arrives(head.seed, head.round, head.exchange, attempt, name, self.places[name]):
            return True
        self.lost.append(name)
        return False
