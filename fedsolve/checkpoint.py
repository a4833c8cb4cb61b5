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
                f"{self.path} is the checkpoint of another run ({progress.identity}), not of this one ({identity}); "
                "resume with the same algorithm, seed and clients, or use another file"
            )
        try:
            pieces = list(read_appended(self.ledger_path, self._end, self.types))
        except (WireError, OSError) as error:
            raise CheckpointError(f"the ledger of {self.path} cannot be read: {error}") from error
        records = [record for (piece,) in pieces for record in piece]
        self._records = len(records)
        return progress, Ledger(records, server_counts)
