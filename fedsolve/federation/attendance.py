"""Who is there: clients that gave no sign are not waited for in every round, and are invited again when they are back.

A client that lets an exchange with a deadline pass without a sign is asked once more in the next round. If it is silent
again, or if the transport says that it cannot be reached, it is lost: it is no longer invited. A lost client is

- asked to join again as soon as the transport says that it can be reached (`reachable`), or once an answer of it to an
  earlier exchange has come;
- otherwise, where the transport cannot tell, asked in every round without being waited for, and waited for after 32
  rounds, 64, 128 and so on.

A client that answers, but fails (it raises an error, or its reply cannot be used), in two rounds in a row in which it
takes part is lost too. It is asked to join again as above; the next failure loses it at once, unless it has done well
in a whole round since.

One that is back and lost again is left alone for 1, 2, 4, … 32 rounds, so that a client that is always too slow does
not hold up every second round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedsolve.federation.transports.base import Transport

MISSES = 2  # deadlines in a row that are waited for
LONG = 32  # rounds after which a lost client is waited for again; then twice as many each time


@dataclass(frozen=True)
class Lost:
    """A client that is not there."""

    since: int  # the round
    reason: str


class Attendance:
    """The clients that are lost, and those that may soon be."""

    def __init__(self) -> None:
        self.lost: dict[str, Lost] = {}
        self.misses: dict[str, int] = {}  # exchanges in a row without a sign
        self._times: dict[str, int] = {}  # how often a client has been lost
        self._heard: set[str] = set()
        self.failed: dict[str, list[int]] = {}  # rounds in a row in which a client failed
        self._well: dict[str, int] = {}  # of these clients, the first round since in which they answered

    def present(self, clients: tuple[str, ...]) -> tuple[str, ...]:
        """Those who are not lost."""
        return tuple(name for name in clients if name not in self.lost) if self.lost else clients

    def hear(self, names: Iterable[str]) -> None:
        """Answers of these clients to an earlier exchange have come."""
        self._heard.update(name for name in names if name in self.lost)

    def note(
        self, answered: Iterable[str], silent: Mapping[str, str], round: int, transport: Transport, waited: bool
    ) -> None:
        """Take account of an exchange.

        Args:
            answered: Who answered, if only to say that it failed.
            silent: Who gave no sign, with the reason.
            waited: Whether there was a deadline, which they let pass.
        """
        if self.misses:
            for name in answered:
                self.misses.pop(name, None)
        if not silent:
            return
        there = reachable(transport, tuple(silent))
        for name, reason in silent.items():
            self.misses[name] = self.misses.get(name, 0) + 1
            gone = there is not None and name not in there
            if gone or (waited and self.misses[name] >= MISSES):
                self.lose(name, round, reason)

    def note_failures(self, answered: Iterable[str], failed: Mapping[str, str], round: int) -> None:
        """Take account of who did well in an exchange, and who failed, with the reason."""
        for name in answered if self.failed else ():
            if name in self.failed and round > self.failed[name][-1]:
                self._well.setdefault(name, round)
        for name, reason in failed.items():
            rounds = self.failed.setdefault(name, [])
            if self._well.pop(name, round) < round:  # a whole round without a failure
                rounds.clear()
            if not rounds or rounds[-1] != round:
                rounds[:] = [*rounds[1 - MISSES :], round]
            if len(rounds) >= MISSES:
                self.lose(name, round, reason)

    def lose(self, name: str, round: int, reason: str) -> None:
        """This client is lost from now on."""
        if name not in self.lost:
            self._times[name] = self._times.get(name, 0) + 1
            self.lost[name] = Lost(round, reason)
        self.misses.pop(name, None)
        self._heard.discard(name)

    def refuse(self, name: str, round: int, reason: str) -> None:
        """This client is there, but cannot take part: it is lost from now on, and left alone for longer if it was."""
        self.lost.pop(name, None)
        self.lose(name, round, reason)

    def find(self, name: str) -> None:
        """This client is back."""
        self.lost.pop(name, None)
        self._heard.discard(name)

    def to_ask(self, round: int, transport: Transport) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Which lost clients to ask to join before this round: those to wait for, and those not to wait for."""
        if not self.lost:
            return (), ()
        due = [name for name in self.lost if round - self.lost[name].since >= min(2 ** (self._times[name] - 1), LONG)]
        there = reachable(transport, tuple(due))
        if there is not None:
            return tuple(name for name in due if name in there), ()
        waited = tuple(name for name in due if name in self._heard or _is_long_ago(round - self.lost[name].since))
        return waited, tuple(name for name in due if name not in waited)


def _is_long_ago(rounds: int) -> bool:
    return rounds >= LONG and rounds % LONG == 0 and (rounds // LONG + 1).bit_count() == 1


def reachable(transport: Transport, names: tuple[str, ...]) -> frozenset[str] | None:
    """Which of these clients the transport can reach now; None where it cannot tell without asking them."""
    ask = getattr(transport, "reachable", None)
    return None if ask is None else frozenset(ask(names))
