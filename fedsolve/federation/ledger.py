"""What was sent and computed: per exchange, client, call and direction.

Bytes are the lengths of the encoded messages, as the server sent and received them: a request sent again counts again,
a reply that never arrived does not count. The parts of a message are kept apart: one per call, and the envelope
(preamble, names of the calls, seconds and counts). What was asked only to measure or to set up a run has a purpose of
its own and does not mix with what the algorithm sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fedsolve.typing import Array
from fedsolve.wire.encoding import PREAMBLE_SIZE
from fedsolve.wire.messages import Counts, Purpose, Reply, Request

ENVELOPE = "envelope"
JUDGES = ("evaluation", "gain", "summary")  # protocols that do not fit a model


@dataclass(eq=False, slots=True)
class ExchangeRecord:
    """One exchange. Rows of the arrays are parts (the envelope first, then the calls), columns are clients; what went
    down to all alike has one column for all of them."""

    round: int
    exchange: int
    calls: tuple[str, ...]
    purposes: tuple[str, ...]
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    bytes_down: Array  # per client that was asked
    bytes_up: Array  # per client that answered
    scalars_down: Array
    scalars_up: Array
    counts: tuple[dict[str, int], ...]  # per call, summed over clients
    tries: Array  # how often each client that was asked was sent the request
    seconds: Array  # at each client that answered; not part of equality, no two runs take the same time

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExchangeRecord):
            return NotImplemented
        names = [one.name for one in fields(self) if one.name != "seconds"]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def spread(self, down: Array) -> Array:
        """A table of what went down, with a column for every client; what was sent again counts again."""
        return np.broadcast_to(down, (down.shape[0], len(self.asked))) * self.tries


class Entry(NamedTuple):
    """One line of the ledger."""

    round: int
    exchange: int
    client: str
    call: str
    purpose: str
    direction: str
    bytes: int
    scalars: int


@dataclass(frozen=True)
class Total:
    """Sums over some part of a run."""

    bytes_up: int = 0
    bytes_down: int = 0
    scalars_up: int = 0
    scalars_down: int = 0
    exchanges: int = 0
    counts: Counts = field(default_factory=dict)

    def __add__(self, other: Total) -> Total:
        counts = dict(self.counts)
        add_counts(counts, other.counts)
        return Total(
            self.bytes_up + other.bytes_up,
            self.bytes_down + other.bytes_down,
            self.scalars_up + other.scalars_up,
            self.scalars_down + other.scalars_down,
            self.exchanges + other.exchanges,
            counts,
        )


class Cohorts(dict[tuple[int, int], tuple[str, ...]]):
    """Who answered which exchange, by (round, exchange); `invited` has who was asked first in each round."""

    def __init__(self, records: Iterable[ExchangeRecord] = ()) -> None:
        super().__init__()
        self.invited: dict[int, tuple[str, ...]] = {}
        for record in records:
            self[record.round, record.exchange] = record.answered
            if record.exchange == 0:
                self.invited[record.round] = record.asked


@dataclass(eq=True)
class Ledger:
    """The accounts of a run. Only the federation writes here; algorithms never count."""

    records: list[ExchangeRecord] = field(default_factory=list)
    server_counts: list[tuple[int, dict[str, int]]] = field(default_factory=list)

    def copy(self) -> Ledger:
        """The accounts as they are now."""
        return Ledger(list(self.records), list(self.server_counts))

    def entries(self) -> Iterator[Entry]:
        """Every line: by exchange, client, call and direction."""
        for record in self.records:
            names, purposes = (ENVELOPE, *record.calls), (_envelope_purpose(record), *record.purposes)
            sides = (
                ("down", record.asked, record.spread(record.bytes_down), record.spread(record.scalars_down)),
                ("up", record.answered, record.bytes_up, record.scalars_up),
            )
            for direction, clients, nbytes, scalars in sides:
                for column, client in enumerate(clients):
                    for row, (name, purpose) in enumerate(zip(names, purposes, strict=True)):
                        yield Entry(
                            record.round,
                            record.exchange,
                            client,
                            name,
                            purpose,
                            direction,
                            int(nbytes[row, column]),
                            int(scalars[row, column]),
                        )

    def total(self, purpose: str | None = "algorithm", rounds: Iterable[int] | None = None) -> Total:
        """Sums over the calls of one purpose (None: all). An envelope belongs to the algorithm if it carries any of
        its calls."""
        chosen = None if rounds is None else set(rounds)
        up = down = scalars_up = scalars_down = exchanges = 0
        counts: dict[str, int] = {}
        for record in self.records:
            if chosen is not None and record.round not in chosen:
                continue
            purposes = (_envelope_purpose(record), *record.purposes)
            rows = [row for row, each in enumerate(purposes) if purpose is None or each == purpose]
            if not rows:
                continue
            exchanges += 1
            down += int(record.spread(record.bytes_down)[rows].sum())
            up += int(record.bytes_up[rows].sum())
            scalars_down += int(record.spread(record.scalars_down)[rows].sum())
            scalars_up += int(record.scalars_up[rows].sum())
            for row in rows:
                if row:
                    add_counts(counts, record.counts[row - 1])
        return Total(up, down, scalars_up, scalars_down, exchanges, counts)

    def by_client(self, purpose: str | None = "algorithm") -> dict[str, Total]:
        """The same sums, client by client (without counts, which are kept per call)."""
        sums: dict[str, tuple[int, int, int, int]] = {}
        for entry in self.entries():
            if purpose is not None and entry.purpose != purpose:
                continue
            sums[entry.client] = _with(sums.get(entry.client, (0, 0, 0, 0)), entry)
        return {client: Total(*row) for client, row in sums.items()}

    def by_call(self) -> dict[tuple[str, str], Total]:
        """The same sums by (call, purpose)."""
        sums: dict[tuple[str, str], tuple[int, int, int, int]] = {}
        for entry in self.entries():
            key = (entry.call, entry.purpose)
            sums[key] = _with(sums.get(key, (0, 0, 0, 0)), entry)
        return {key: Total(*row) for key, row in sums.items()}

    def cohorts(self) -> Cohorts:
        """Who answered which exchange, by (round, exchange), and who was invited to which round: for `Replay`."""
        return Cohorts(self.records)

    def with_others(
        self, before: Sequence[tuple[str, Ledger]] = (), after: Sequence[tuple[str | None, Ledger]] = ()
    ) -> Ledger:
        """These accounts with those of what was asked before and after, whose purpose is the name that each comes with.
        What judged the model or computed standard errors in between has the name of its protocol, too, and so has what
        comes without a name."""
        last = max((record.round for record in self.records), default=0)
        known = {id(record) for record in self.records}
        found = [_tagged(record, name, 0) for name, one in before for record in one.records]
        found += [_tagged(record, None, record.round) for record in self.records]
        for name, one in after:
            found += [_tagged(record, name, last) for record in one.records if id(record) not in known]
        return Ledger(found, list(self.server_counts))

    def to_rows(self) -> list[dict[str, Any]]:
        """Plain rows, for files."""
        return [entry._asdict() for entry in self.entries()]


def _tagged(record: ExchangeRecord, purpose: str | None, round: int) -> ExchangeRecord:
    """The record with another purpose; None: with the names of protocols that only judge a model."""
    protocols = [call.partition(".")[0] for call in record.calls]
    own = [name if name in JUDGES else each for name, each in zip(protocols, record.purposes, strict=True)]
    return replace(record, round=round, purposes=tuple(own) if purpose is None else (purpose,) * len(own))


def _with(sums: tuple[int, int, int, int], entry: Entry) -> tuple[int, int, int, int]:
    """Bytes up and down, scalars up and down, with one more line."""
    up, down, scalars_up, scalars_down = sums
    if entry.direction == "up":
        return up + entry.bytes, down, scalars_up + entry.scalars, scalars_down
    return up, down + entry.bytes, scalars_up, scalars_down + entry.scalars


def _envelope_purpose(record: ExchangeRecord) -> str:
    return "algorithm" if "algorithm" in record.purposes else record.purposes[0]


def add_counts(into: dict[str, int], counts: Counts) -> None:
    for what, amount in counts.items():
        into[what] = into.get(what, 0) + amount


class Receipts:
    """What the ledger needs to know of replies that may be gone already."""

    __slots__ = ("counts", "names", "seconds", "sizes")

    def __init__(self, calls: int) -> None:
        self.names: list[str] = []
        self.sizes: list[int] = []  # of each reply: overhead, sizes of the results, 0, their scalars
        self.seconds: list[float] = []
        self.counts: tuple[dict[str, int], ...] = tuple([{} for _ in range(calls)])

    def note(self, name: str, reply: Reply) -> None:
        self.names.append(name)
        results = reply.results
        self.seconds.append(reply.seconds)
        if len(results) == 1:  # as a rule
            part = results[0]
            self.sizes += (reply.overhead, part.size, 0, part.scalars)
            into = self.counts[0]
            for what, amount in reply.counts[0].items():
                into[what] = into[what] + amount if what in into else amount
            return
        self.sizes += (reply.overhead, *[part.size for part in results], 0, *[part.scalars for part in results])
        for into, one in zip(self.counts, reply.counts, strict=True):
            add_counts(into, one)


@lru_cache(maxsize=64)
def _once(clients: int) -> Array:
    """As many ones: everyone was asked once."""
    ones = np.ones(clients, dtype=np.int64)
    ones.setflags(write=False)
    return ones


def tries_of(asked: Sequence[str], tries: Mapping[str, int]) -> Array:
    """How often each client was sent the request, from those that were sent it more than once."""
    return np.array([tries.get(name, 1) for name in asked], dtype=np.int64) if tries else _once(len(asked))


class Tables:
    """Sizes and scalars of messages as arrays. What is as large as in the last exchange of the same calls, as most of
    it is, is the same array: the accounts of a long run then take little memory, and less time."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], tuple[list[int], Array, Array]] = {}

    def table(self, key: tuple[str, ...], sizes: list[int], rows: int) -> tuple[Array, Array]:
        """Sizes and scalars: rows are parts, columns clients. They are listed client by client, sizes first."""
        last = self._last.get(key)
        if last is None or last[0] != sizes:
            table = np.array(sizes, dtype=np.int64).reshape(-1, 2 * rows).T
            table.setflags(write=False)
            last = self._last[key] = (sizes, table[:rows], table[rows:])
        return last[1], last[2]


def record_of(
    tables: Tables,
    when: tuple[int, int],
    purposes: Sequence[Purpose],
    asked: tuple[str, ...],
    names: tuple[str, ...],
    requests: Mapping[str, Request],
    receipts: Receipts,
    answered: tuple[str, ...],
    tries: Mapping[str, int],
) -> ExchangeRecord:
    """What the ledger keeps of an exchange in a round (`when`); `names` are those of the calls."""
    rows = 1 + len(names)
    bytes_down, scalars_down = tables.table(("down", *names), sizes_down(requests), rows)
    bytes_up, scalars_up = tables.table(("up", *names), receipts.sizes, rows)
    return ExchangeRecord(
        *when,
        names,
        tuple(purposes),
        asked,
        answered,
        bytes_down,
        bytes_up,
        scalars_down,
        scalars_up,
        receipts.counts,
        tries_of(asked, tries),
        np.array(receipts.seconds),
    )


def sizes_down(requests: Mapping[str, Request]) -> list[int]:
    """Sizes, then scalars, of the parts of each request; of one, if all got the same."""
    distinct: Iterable[Request] = requests.values()
    if len(set(map(id, distinct))) == 1 or len({id(one.arguments) for one in distinct}) == 1:
        distinct = (next(iter(distinct)),)
    sizes: list[int] = []
    for one in distinct:
        sizes.append(PREAMBLE_SIZE + one.routes.size)
        sizes += [part.size for part in one.arguments]
        sizes.append(0)
        sizes += [part.scalars for part in one.arguments]
    return sizes
