"""A site's own record of everything that left: one JSON object a line, written before the reply leaves.

`event` says what a line is: "run" (a run was accepted, with what it may ask), "sent" (a reply), "refused" (what the
policy did not allow, with the rule), "failed" (an answer that says what went wrong). If the log cannot be written, no
reply leaves. The log holds shapes, sizes and hashes of what was sent, and none of its numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from fedsolve.errors import DataError, StorageError
from fedsolve.numerics.structured_arrays import STRUCTURED
from fedsolve.typing import Value
from fedsolve.wire.storage import append_text

Line = dict[str, object]


@dataclass
class Spent:
    """What a run has been given so far: answered requests, bytes, how often each step was answered; and how often
    something was refused or failed."""

    requests: int = 0
    refusals: int = 0
    failures: int = 0
    bytes: int = 0
    steps: Counter[str] = field(default_factory=Counter)

    def note(self, line: Mapping[str, object]) -> None:
        """Add a line of the log."""
        if line.get("event") == "refused":
            self.refusals += 1
        if line.get("event") == "failed":
            self.failures += 1
        if line.get("event") == "sent":
            self.requests += 1
            size, calls = line.get("bytes"), line.get("calls")
            self.bytes += size if isinstance(size, int) else 0
            for call in calls if isinstance(calls, list) else ():
                self.steps[str(call.get("step"))] += 1


class AuditLog:
    """The log of one site."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, run: str, **facts: object) -> Line:
        """Add a line, and see that it is on disk. Raises StorageError if it cannot be written."""
        line: Line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, "run": run, **facts}
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path.parent} cannot be made: {error.strerror or error}") from error
        append_text(self.path, json.dumps(line, ensure_ascii=False) + "\n", sync=True)
        return line

    def spent(self, run: str) -> Spent:
        """What a run has been given so far, restarts included."""
        found = Spent()
        if self.path.exists():
            for line in read_log(self.path):
                if line.get("run") == run:
                    found.note(line)
        return found

    def recent_runs(self, hours: float = 24.0) -> set[str]:
        """The runs that began here of late."""
        since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="milliseconds")
        lines = read_log(self.path) if self.path.exists() else ()
        return {str(line["run"]) for line in lines if line["event"] == "run" and str(line.get("time")) >= since}


def read_log(path: Path) -> Iterator[Line]:
    """The lines of a log. Raises DataError, with its number, for one that is none; a last line that was cut off when
    the power failed is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the audit log {path} cannot be read: {error}") from None
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            if number == len(lines):
                return
            raise DataError(f"{path}, line {number}: this is no line of an audit log") from None
        if not isinstance(found, dict) or "event" not in found:
            raise DataError(f"{path}, line {number}: this is no line of an audit log")
        yield found


def shape_of(value: Value) -> object:
    """What a value looks like without its numbers: shapes of arrays, "number", "text", and lists and tables of them."""
    if isinstance(value, np.ndarray):
        return list(value.shape)
    if type(value) in STRUCTURED:
        return {type(value).__name__: [shape_of(one) for one in value.to_wire()]}
    if isinstance(value, bool | int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, tuple | list):
        return [shape_of(one) for one in value]
    if isinstance(value, dict):
        return {str(key): shape_of(one) for key, one in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: shape_of(getattr(value, name)) for name in value.__dataclass_fields__}
    return type(value).__name__
