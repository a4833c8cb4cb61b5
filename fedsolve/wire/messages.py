"""What is asked of a client, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from fedsolve import errors
from fedsolve.text import has_controls, printable
from fedsolve.typing import Value
from fedsolve.wire import encoding as wire
from fedsolve.wire.encoding import FAILURE, PREAMBLE_SIZE, REPLY, REQUEST, Part, Preamble, plain_size

Purpose = Literal["algorithm", "measure", "setup"]
Verb = Literal["mean", "sum", "gather"]  # what becomes of a call's replies
Counts = dict[str, int]
Route = list[str]  # protocol, step, purpose, verb
VERB_WIDTH = 7  # characters of a verb as it travels, filled up with blanks: 8 bytes a call, whichever it is

# Calls in one request. The library itself sends at most three; an algorithm of your own may send more.
MOST_CALLS = 64
# Characters of what a client says went wrong.
MOST_TEXT, MOST_WORD = 2000, 200
# What a reply may say of its own cost: kinds of computations in one call, characters of their names, their number.
MOST_KINDS, MOST_KIND, MOST_COUNTED = 64, 64, 2**48


@dataclass(slots=True)
class Request:
    """A list of calls for one client.

    `number` counts the exchanges of a run; `used` is the number of the last reply of this client that the server used,
    so that the client knows which of its memories is the true one; `keep` is the one the server would resume from.
    `attempt` counts the server's restarts: an older server that still lives is not obeyed.
    """

    preamble: Preamble
    routes: Part
    arguments: tuple[Part, ...]

    @property
    def size(self) -> int:
        return PREAMBLE_SIZE + self.routes.size + sum(part.size for part in self.arguments)

    def encode(self) -> bytes:
        return wire.encode(self.preamble, (self.routes, *self.arguments))

    @classmethod
    def decode(cls, data: bytes, types: Iterable[type]) -> Request:
        """A request from bytes; raises WireError for what is none. `types` are those that `wire.decode` may build."""
        if (count := wire.count_parts(data) - 1) > MOST_CALLS:  # before anything is decoded
            raise too_many_calls(count)
        preamble, (routes, *arguments), _ = _expect(data, types, (REQUEST,))
        if not isinstance(routes, list) or len(routes) != len(arguments):
            raise errors.WireError("a request came whose calls and arguments do not match")
        for route in routes:
            if not (isinstance(route, list) and len(route) == 4 and all(isinstance(word, str) for word in route)):
                raise errors.WrongType("a request came with a call that names no protocol and step")
            if route[3] not in _VERB_WORDS:
                raise errors.WrongType(f"a request came with a call whose replies are to {printable(route[3], 20)!r}")
        if not all(isinstance(value, dict) for value in arguments):
            raise errors.WrongType("a request came whose arguments have no names")
        return cls(preamble, Part.plain(routes), tuple(Part(value) for value in arguments))


def verb_word(verb: str) -> str:
    """A verb as it travels."""
    return verb.ljust(VERB_WIDTH)


_VERB_WORDS = frozenset(map(verb_word, get_args(Verb)))


def too_many_calls(count: int) -> errors.WireError:
    """The error for a request with more calls than allowed, or with none."""
    if not count:
        return errors.WireError("a request came that calls nothing")
    return errors.TooLarge(
        f"a request with {count} calls came, at most {MOST_CALLS} are allowed: send several requests"
    )


def overhead(counts: list[Counts]) -> int:
    """The bytes around the results of a reply: preamble and envelope. A float has the same size whatever its value."""
    return PREAMBLE_SIZE + plain_size([0.0, counts])


class Reply:
    """One result per call, with what it cost to compute."""

    __slots__ = ("counts", "overhead", "preamble", "results", "seconds")

    def __init__(
        self, preamble: Preamble, seconds: float, counts: list[Counts], results: list[Part], around: int | None = None
    ) -> None:
        self.preamble = preamble  # the request's own, which it answers
        self.seconds = seconds
        self.counts = counts  # of each call
        self.results = results
        self.overhead = overhead(counts) if around is None else around  # where that is known already

    def encode(self) -> bytes:
        envelope = Part.plain([self.seconds, self.counts])
        return wire.encode(self.preamble._replace(kind=REPLY), (envelope, *self.results))


_ERRORS: dict[str, type[errors.ClientError]] = {
    "MemoryLost": errors.MemoryLost,
    "LinkExceeded": errors.LinkExceeded,
    "ProtocolMismatch": errors.ClientMismatch,
    "DataError": errors.ClientInputError,
    "ConfigError": errors.ClientInputError,
    "UnknownName": errors.ClientInputError,
    "PolicyRefusal": errors.ClientRefused,
}


@dataclass(slots=True)
class Failure:
    """A client could not answer: which step, and what went wrong in words.

    The words are the client's: wherever a Failure is made, on either side, their control characters are written out and
    their length is bounded, so that they can be shown.
    """

    preamble: Preamble
    kind: str
    step: str
    text: str
    cause: BaseException | None = None  # in one process only; never on the wire

    def __post_init__(self) -> None:
        self.kind, self.step = printable(self.kind, MOST_WORD), printable(self.step, MOST_WORD)
        self.text = printable(self.text, MOST_TEXT)

    def encode(self) -> bytes:
        return wire.encode(self.preamble, (Part.plain([self.kind, self.step, self.text]),))

    def error(self, client: str) -> errors.ClientError:
        """The exception the server raises for it."""
        return _ERRORS.get(self.kind, errors.ClientError)(client, self.step, self.text)


def decode_answer(data: bytes, types: Iterable[type]) -> Reply | Failure:
    """What came back from a client."""
    preamble, values, _ = _expect(data, types, (REPLY, FAILURE))
    if preamble.kind == FAILURE:
        words = values[0]
        if not (isinstance(words, list) and len(words) == 3 and all(isinstance(word, str) for word in words)):
            raise errors.WrongType("a failure came that says nothing")
        return Failure(preamble, *words)
    envelope, *results = values
    if not _is_envelope(envelope, len(results)):
        raise errors.WrongType("a reply came whose envelope does not fit its results")
    reply = Reply(preamble, envelope[0], envelope[1], [Part(value) for value in results])
    if reply.overhead + sum(part.size for part in reply.results) != len(data):
        # The ledger writes down sizes of values; bytes that say the same at another length would cheat it.
        raise errors.WireError("a reply came that is not encoded as this library encodes it")
    return reply


def _is_envelope(value: Value, results: int) -> bool:
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], float) and 0 <= value[0] < inf):
        return False
    return isinstance(value[1], list) and len(value[1]) == results and all(map(_are_counts, value[1]))


def _are_counts(value: Value) -> bool:
    """Whether these can go into the ledger: few kinds of computations, with names to be shown, each so many times."""
    return (
        isinstance(value, dict)
        and len(value) <= MOST_KINDS
        and all(type(n) is int and 0 <= n <= MOST_COUNTED for n in value.values())
        and all(isinstance(kind, str) and len(kind) <= MOST_KIND and not has_controls(kind) for kind in value)
    )


def _expect(data: bytes, types: Iterable[type], kinds: tuple[int, ...]) -> tuple[Preamble, list[Value], list[int]]:
    preamble, values, sizes = wire.decode(data, types)
    if preamble.kind not in kinds or not values:
        raise errors.WireError(f"a message of kind {preamble.kind} came where {kinds} was expected")
    return preamble, values, sizes
