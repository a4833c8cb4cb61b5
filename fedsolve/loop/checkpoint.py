"""A run on disk: enough to go on, to the bit, after the server has died."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from fedsolve import version as library
from fedsolve.errors import CheckpointError, ConfigError, StorageError, WireError
from fedsolve.federation.federation import Position
from fedsolve.federation.ledger import ExchangeRecord, Ledger
from fedsolve.federation.protocol import types_of
from fedsolve.federation.transports.base import Versions
from fedsolve.typing import Value
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.contracts import dataclasses_in
from fedsolve.wire.journal import Journal, Mark
from fedsolve.wire.locks import FileLock
from fedsolve.wire.storage import (
    check_own_file,
    decode_values,
    encode_values,
    reading,
    remove_leftovers,
    write_atomically,
    writing,
)


@dataclass(frozen=True)
class Progress:
    """Everything the loop knows between two rounds."""

    identity: str  # of the algorithm, seed and clients: a checkpoint of another run is refused
    round: int
    state: Value
    position: Position
    rows: list[Value]  # of the history; they grow, so they are kept with the ledger
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
    """A file that holds the latest progress of a run, and beside it (`.ledger`) the growing ledger and history.

    The ledger is only ever appended to, so that a save costs what is new and not all that was; the progress, written
    last and atomically, says how much of it counts, and its checksum. From `open` to `close` the run has the checkpoint
    to itself (`.lock`).
    """

    def __init__(self, path: Path, algorithm: Any, protocols: dict[str, Any], extra: frozenset[type[Any]]) -> None:
        if path.name in ("", "..") or "\0" in str(path):
            raise ConfigError(f"checkpoint is the path of a file, got {str(path)!r}")
        self.path = path  # as it was given, for messages
        # The same file by whatever path, and whatever becomes the working directory.
        self.place = Path(os.path.realpath(path.parent)) / path.name
        self.ledger_path = self.place.with_name(path.name + ".ledger")
        self.types = state_types(algorithm) | types_of(protocols) | extra | {Progress, Position, ExchangeRecord, Mark}
        self._journal = Journal(self.ledger_path, sealed.LEDGER)
        self._lock = FileLock(self.place.with_name(path.name + ".lock"))
        self._mark: Mark | None = None
        self._saved: tuple[int, ...] = (0, 0, 0)  # how many records, rows and counts of the server are on disk

    def open(self, resume: bool) -> None:
        """Take the checkpoint for this run. Without `resume` there must be none yet."""
        with self._saving():
            with writing(self.place):
                self.place.parent.mkdir(parents=True, exist_ok=True)
            check_own_file(self.place)
            check_own_file(self.ledger_path)
        self._take()
        try:
            if self.exists() and not resume:
                raise ConfigError(
                    f"there is already a checkpoint {self.path}; go on from it with resume=True, or remove it"
                )
            if not self.exists():
                self._check_ledger_is_ours()
            remove_leftovers(self.place.parent, (self.place.name, self.ledger_path.name))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others have it. Safe to call twice."""
        self._lock.release()

    def exists(self) -> bool:
        return os.path.lexists(self.place)

    def save(self, progress: Progress, ledger: Ledger) -> None:
        """Write what is new; raises CheckpointError, and leaves the last checkpoint as it was, if that fails."""
        grown: tuple[list[Any], ...] = (ledger.records, progress.rows, ledger.server_counts)
        fresh = [items[saved:] for items, saved in zip(grown, self._saved, strict=True)]
        self._take()
        with self._saving():
            mark = self._mark
            if mark is None:
                mark = self._journal.begin(*fresh)
            elif any(fresh):
                mark = self._journal.append(mark, *fresh)
            payload = encode_values(replace(progress, rows=[]), mark)
            write_atomically(self.place, *sealed.seal(sealed.CHECKPOINT, payload))
        self._mark, self._saved = mark, tuple(map(len, grown))

    def load(self, identity: str) -> tuple[Progress, Ledger]:
        """The progress and the ledger that were saved last; raises CheckpointError if they are of another run."""
        progress, mark = self._progress()
        if progress.identity != identity:
            raise CheckpointError(
                f"{self.path} is the checkpoint of another run: {'; '.join(differences(progress.identity, identity))}. "
                "Resume with the same algorithm, preprocessing, seed and clients, or use another file"
            )
        records, rows, counts = [], [], []
        try:
            for more_records, more_rows, more_counts in self._journal.read(mark, self.types):
                records += more_records
                rows += more_rows
                counts += more_counts
        except (WireError, ValueError, OSError) as error:
            raise CheckpointError(
                f"the ledger {self.path}.ledger of a checkpoint cannot be read: {_said(error)}. {self._restore}"
            ) from error
        self._mark, self._saved = mark, (len(records), len(rows), len(counts))
        return replace(progress, rows=rows), Ledger(records, counts)

    def _progress(self) -> tuple[Progress, Mark]:
        try:
            with reading(self.place) as (file, size):
                version, payload = sealed.unseal(file, size, sealed.CHECKPOINT)
        except (WireError, OSError) as error:
            raise CheckpointError(f"{self.path} cannot be read: {_said(error)}. {self._restore}") from error
        if version != library.__version__:
            raise CheckpointError(
                f"{self.path} was written by fedsolve {version}, and this is fedsolve {library.__version__}: resume "
                "with the version that began the run, or begin a new run with another file"
            )
        try:
            progress, mark = decode_values(payload, self.types)
        except (WireError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} cannot be read as a checkpoint of this algorithm and preprocessing: {error}. Resume with "
                "those that the run began with, or use another file"
            ) from error
        return progress, mark

    @property
    def _restore(self) -> str:
        return "Restore both files from a copy, or remove them and begin a new run"

    def _take(self) -> None:
        """Make sure that nobody else has it, also if somebody has removed the lock's file."""
        with self._saving(), writing(self._lock.path):
            taken = self._lock.acquire()
        if not taken:
            raise CheckpointError(
                f"{self.path} is in use by another run; wait until that has ended, or give this one a file of its own"
            )

    def _check_ledger_is_ours(self) -> None:
        """A new run writes over the ledger of one whose checkpoint was removed, and over nothing else."""
        if not os.path.lexists(self.ledger_path):
            return
        try:
            with reading(self.ledger_path) as (file, size):
                sealed.unseal(file, size, sealed.LEDGER, more=True)
        except (WireError, OSError) as error:
            raise CheckpointError(
                f"{self.path}.ledger is in the way of the checkpoint {self.path}: {_said(error)}. Remove it, or use "
                "another file"
            ) from error

    @contextmanager
    def _saving(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            kept = f". {self.path} is as it was saved before" if self._mark is not None else ""
            raise CheckpointError(f"{error}{kept}") from error


def _said(error: Exception) -> str:
    """What is wrong with a file, without its name, which stands before it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


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
