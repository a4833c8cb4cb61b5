"""A run on disk: enough to go on, to the bit, after the server has died."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_type_hints

from fedsolve import version as library
from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import CheckpointError, ConfigError, StorageError, WireError
from fedsolve.federation.federation import Position
from fedsolve.federation.ledger import ExchangeRecord, Ledger
from fedsolve.federation.protocol import types_of
from fedsolve.federation.transports.base import Versions
from fedsolve.loop.differences import differences
from fedsolve.loop.growing import Growing, Parts
from fedsolve.loop.measure_protocols import Scale
from fedsolve.typing import Value
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.annotation_checks import dataclasses_in
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

FORM = b"checkpoint 2\n"  # what a payload begins with; that of the first form had no mark


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
    scale: Scale | None  # the problem's own units, as they were learned when the run began
    kept: tuple[Value, ...]  # what stopping rules keep, such as an earlier State: `rules.Kept`
    grown: dict[str, int]  # of tuples of these States that are kept with the ledger, because they grow: their lengths


def state_types(algorithm: Algorithm) -> frozenset[type[object]]:
    """The dataclasses an algorithm's State is made of, read from what `start` and `round` declare."""
    found: set[type[object]] = set()
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

    def __init__(
        self, path: Path, algorithm: Algorithm, protocols: dict[str, object], extra: frozenset[type[object]]
    ) -> None:
        if path.name in ("", "..") or "\0" in str(path):
            raise ConfigError(f"checkpoint is the path of a file, got {str(path)!r}")
        self.path = path  # as it was given, for messages
        # The same file by whatever path, and whatever becomes the working directory.
        self.place = Path(os.path.realpath(path.parent)) / path.name
        self.ledger_path = self.place.with_name(path.name + ".ledger")
        self.types = (
            state_types(algorithm) | types_of(protocols) | extra | {Progress, Position, ExchangeRecord, Mark, Scale}
        )
        self._journal = Journal(self.ledger_path, sealed.LEDGER)
        self._lock = FileLock(self.place.with_name(path.name + ".lock"))
        self._mark: Mark | None = None
        self._growing = Growing()
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
        """Whether there is a checkpoint to go on from."""
        return os.path.lexists(self.place)

    def save(self, progress: Progress, ledger: Ledger) -> None:
        """Write what is new; raises CheckpointError, and leaves the last checkpoint as it was, if that fails."""
        grown: tuple[Sequence[object], ...] = (ledger.records, progress.rows, ledger.server_counts)
        split = self._growing.split(_states(progress))
        fresh = [items[saved:] for items, saved in zip(grown, self._saved, strict=True)] + [split.fresh]
        self._take()
        with self._saving():
            mark = self._mark
            if mark is None:
                mark = self._journal.begin(*fresh)
            elif any(fresh):
                mark = self._journal.append(mark, *fresh)
            rest = _with_states(replace(progress, rows=[], grown=split.lengths), split.rest)
            payload = FORM + encode_values(rest, mark)
            write_atomically(self.place, *sealed.seal(sealed.CHECKPOINT, payload))
        self._mark, self._saved = mark, tuple(map(len, grown))
        self._growing.saved(split)

    def load(self, identity: str) -> tuple[Progress, Ledger]:
        """The progress and the ledger that were saved last; raises CheckpointError if they are of another run."""
        progress, mark = self._progress()
        if progress.identity != identity:
            raise CheckpointError(
                f"{self.path} is the checkpoint of another run: {'; '.join(differences(progress.identity, identity))}. "
                "Resume with the same algorithm, preprocessing, seed and clients, or use another file"
            )
        records: list[ExchangeRecord] = []
        rows: list[Value] = []
        counts: list[Value] = []
        parts: Parts = []
        try:
            for more_records, more_rows, more_counts, more_parts in self._journal.read(mark, self.types):
                records += more_records
                rows += more_rows
                counts += more_counts
                parts += more_parts
            states = self._growing.joined(_states(progress), progress.grown, parts)
        except (WireError, ValueError, OSError) as error:
            raise CheckpointError(
                f"the ledger {self.path}.ledger of a checkpoint cannot be read: {_said(error)}. {self._restore}"
            ) from error
        self._mark, self._saved = mark, (len(records), len(rows), len(counts))
        return _with_states(replace(progress, rows=rows, grown={}), states), Ledger(records, counts)

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
        if not payload.startswith(FORM):
            raise CheckpointError(
                f"{self.path} was written by an earlier fedsolve, whose checkpoints had another form: resume with the "
                "version that began the run, or begin a new run with another file"
            )
        try:
            progress, mark = decode_values(payload[len(FORM) :], self.types)
        except (WireError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} cannot be read as a checkpoint of this algorithm, preprocessing and stopping rules: "
                f"{error}. Resume with those that the run began with, or use another file"
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


def _states(progress: Progress) -> dict[str, Value]:
    """The States in a progress, by name."""
    return {"state": progress.state} | {f"kept {place}": state for place, state in enumerate(progress.kept)}


def _with_states(progress: Progress, states: dict[str, Value]) -> Progress:
    """A progress with these States in the place of its own."""
    kept = tuple(states[f"kept {place}"] for place in range(len(progress.kept)))
    return replace(progress, state=states["state"], kept=kept)


def _said(error: Exception) -> str:
    """What is wrong with a file, without its name, which stands before it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
