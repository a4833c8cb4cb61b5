"""A run on disk: enough to go on, to the bit, after the server has died."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from fedsolve.errors import CheckpointError, ConfigError, WireError
from fedsolve.federation import Position
from fedsolve.files import append_values, read_appended, read_values, write_values
from fedsolve.ledger import ExchangeRecord, Ledger
from fedsolve.protocol import types_of
from fedsolve.schema import dataclasses_in
from fedsolve.transports.base import Versions
from fedsolve.typing import Value


@dataclass(frozen=True)
class Progress:
    """Everything the loop knows between two rounds."""

    identity: str  # of the algorithm, seed and clients: a checkpoint of another run is refused
    round: int
    state: Value
    position: Position
    rows: list[Value]
    pending: Value  # the row of this round
    measured: bool  # whether it has been measured yet
    transform: Value
    memories: dict[str, Versions] | None
    server: dict[str, Value]  # the memory of the server's own data


def state_types(algorithm: Any) -> frozenset[type[Any]]:
    """The dataclasses an algorithm's State is made of, read from what `start` and `round` declare."""
    found: set[type[Any]] = set()
    for method in (type(algorithm).start, type(algorithm).round):
        hints = get_type_hints(method)
        if "return" not in hints:
            raise ConfigError(f"{method.__qualname__} must declare the State it returns, so that it can be saved")
        found.update(dataclasses_in(hints["return"]))
    return frozenset(found)


class Checkpoint:
    """A file that holds the latest progress of a run, and beside it (`.ledger`) the growing ledger.

    The ledger is only ever appended to, so that a save costs what is new and not all that was; the progress, written
    last and atomically, says how much of it counts.
    """

    def __init__(self, path: Path, algorithm: Any, protocols: dict[str, Any], extra: frozenset[type[Any]]) -> None:
        self.path = path
        self.ledger_path = path.with_name(path.name + ".ledger")
        self.types = state_types(algorithm) | types_of(protocols) | extra | {Progress, Position, ExchangeRecord}
        self._end = self._records = 0

    def exists(self) -> bool:
        return self.path.exists()

    def save(self, progress: Progress, ledger: Ledger) -> None:
        new = ledger.records[self._records :]
        self._end = append_values(self.ledger_path, self._end, new)
        self._records += len(new)
        write_values(self.path, progress, self._end, ledger.server_counts)

    def load(self, identity: str) -> tuple[Progress, Ledger]:
        try:
            progress, self._end, server_counts = read_values(self.path, self.types)
        except (WireError, ValueError, OSError) as error:
            raise CheckpointError(f"{self.path} cannot be read as a checkpoint of this algorithm: {error}") from error
        if progress.identity != identity:
            raise CheckpointError(
                f"{self.path} is the checkpoint of another run: {'; '.join(differences(progress.identity, identity))}. "
                "Resume with the same algorithm, preprocessing, seed and clients, or use another file"
            )
        try:
            pieces = list(read_appended(self.ledger_path, self._end, self.types))
        except (WireError, OSError) as error:
            raise CheckpointError(f"the ledger of {self.path} cannot be read: {error}") from error
        records = [record for (piece,) in pieces for record in piece]
        self._records = len(records)
        return progress, Ledger(records, server_counts)


# ── what differs ──

PARTS = ("algorithm", "preprocess", "seed", "clients")  # of an identity, in its order


def differences(before: str, now: str) -> list[str]:
    """What differs between two identities (`protocol.describe` of the parts), field by field where both have it."""
    ours, theirs = _items(before), _items(now)
    if len(ours) != len(PARTS) or len(theirs) != len(PARTS):
        return ["then {}, now {}".format(*_apart(before, now))]
    found: list[str] = []
    for name, old, new in zip(PARTS, ours, theirs, strict=True):
        found += _clients(old, new) if name == "clients" else _compared(name, old, new)
    return found


def _compared(where: str, old: str, new: str) -> list[str]:
    if old == new:
        return []
    kind, other = (text.partition("(")[0] for text in (old, new))
    if kind == other and old.endswith(")") and new.endswith(")"):
        fields_then, fields_now = (dict(item.partition("=")[::2] for item in _items(text)) for text in (old, new))
        if fields_then.keys() == fields_now.keys():
            return [
                line
                for name in fields_then
                for line in _compared(f"{where}.{name}", fields_then[name], fields_now[name])
            ]
    return ["{} was {}, is {}".format(where, *_apart(old, new))]


def _clients(old: str, new: str) -> list[str]:
    if old == new:
        return []
    then, now = _items(old), _items(new)
    gone, come = [one for one in then if one not in now], [one for one in now if one not in then]
    said = [f"{word} {_short(', '.join(names))}" for word, names in (("without", gone), ("with", come)) if names]
    return [f"clients: {len(then)} then, {len(now)} now, {' and '.join(said) or 'in another order'}"]


def _items(text: str) -> list[str]:
    """The parts between the outermost brackets, at the commas that stand in no inner ones and in no quotes."""
    inner = text[text.find("(") + 1 if not text.startswith("[") else 1 : -1]
    items, depth, quote, start, place = [], 0, "", 0, 0
    while place < len(inner):
        sign = inner[place]
        if quote:
            place += sign == "\\"  # what follows is escaped
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth == 0:
            items.append(inner[start:place].strip())
            start = place + 1
        place += 1
    return [*items, inner[start:].strip()] if inner.strip() else []


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two different texts, short, from shortly before the place where they begin to differ."""
    if max(len(old), len(new)) <= 80:
        return old, new
    same = next((place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - 30)
    lead = "…" if start else ""
    return _short(lead + old[start:]), _short(lead + new[start:])


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
