"""A site's own record of everything that left: one JSON object a line, written before the reply leaves.

`event` says what a line is: "run" (a run was accepted, with what it may ask), "sent" (a reply), "refused" (what the
policy did not allow, with the rule), "failed" (an answer that says what went wrong). If the log cannot be written, no
reply leaves. The log holds shapes, sizes and hashes of what was sent, and none of its numbers.

A line that is not whole is of a write that failed or of a process that died, before its reply could leave. Readers skip
it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from fedsolve.errors import DataError, StorageError
from fedsolve.numerics.structured_arrays import STRUCTURED
from fedsolve.text import printable
from fedsolve.typing import Value
from fedsolve.wire.lines import append_lines
from fedsolve.wire.messages import MOST_TEXT

Line = dict[str, object]

_BEGINNING = '{"time": "'  # of every line


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
        told = {name: _bounded(fact) for name, fact in facts.items()}
        line: Line = {"time": _in_text(datetime.now(UTC)), "event": event, "run": run, **told}
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path.parent} cannot be made: {error.strerror or error}") from error
        append_lines(self.path, json.dumps(line, ensure_ascii=False) + "\n", sync=True)
        return line

    def spent(self, run: str) -> Spent:
        """What a run has been given so far, restarts included."""
        found = Tally(self.path, run)
        found.read()
        return found.spent

    def recent_runs(self, hours: float = 24.0) -> set[str]:
        """The runs that began here of late, or were refused because of what the rows are."""
        found = Tally(self.path, "", hours)
        found.read()
        return found.recent


class Tally:
    """What a log says that bears on one run: what this run has been given, and which runs began of late.

    Each line is read once: `read` takes in what was added since. The runs of late include those that were refused
    because of what the rows are: that says something too. A clock that was ahead has left lines of the future. They
    were written before the next line that is not, so they count by that one's time; without such a line, as of now.
    """

    def __init__(self, path: Path, run: str, hours: float = 24.0) -> None:
        self.path, self.run, self.hours = path, run, hours
        self._forget()

    def _forget(self) -> None:
        self.spent = Spent()
        self._recent, self._ahead = set[str](), set[str]()
        self._file = self._end = self._lines = 0

    @property
    def recent(self) -> set[str]:
        """The runs of late."""
        return self._recent | self._ahead

    def read(self) -> None:
        """Take in the lines that were added. Raises StorageError for a log that cannot be read, and DataError for one
        that has a line which is none."""
        now = datetime.now(UTC)
        until, since = _in_text(now), _in_text(now - timedelta(hours=self.hours))
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._file or found.st_size < self._end:  # another file than before
                    self._forget()
                    self._file = found.st_ino
                file.seek(self._end)
                for raw in file:
                    line = _whole_line(raw, self.path, self._lines + 1)
                    if line is None and not raw.endswith(b"\n"):
                        break  # somebody is just writing it
                    self._end, self._lines = self._end + len(raw), self._lines + 1
                    if line is not None:
                        self._note(line, since, until)
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error.strerror or error}") from error

    def _note(self, line: Line, since: str, until: str) -> None:
        if line.get("run") == self.run:
            self.spent.note(line)
        counts = line["event"] == "run" or line.get("rows") is True
        time, began = str(line.get("time", "")), {str(line.get("run"))} if counts else set[str]()
        if time > until:
            self._ahead |= began
            return
        if time >= since:
            self._recent |= self._ahead | began
        self._ahead.clear()


def _in_text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


def _bounded(fact: object) -> object:
    """A fact whose texts have a length that a log can bear: some are made of what a server sent."""
    if isinstance(fact, str):
        return printable(fact, MOST_TEXT)
    if isinstance(fact, list):
        return [_bounded(one) for one in fact]
    return {name: _bounded(one) for name, one in fact.items()} if isinstance(fact, dict) else fact


def read_log(path: Path) -> Iterator[Line]:
    """The whole lines of a log. Raises DataError, with its number, for a line that was never one of a log."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                line = _whole_line(raw, path, number)
                if line is not None:
                    yield line
    except OSError as error:
        raise DataError(f"the audit log {path} cannot be read: {error.strerror or error}") from None


def _whole_line(raw: bytes, path: Path, number: int) -> Line | None:
    """The line that some bytes are, up to a line's end or that of the file; None for an empty or an unfinished one."""
    text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
    if not text.strip():
        return None
    found = _line_in(text)
    is_cut = text.startswith(_BEGINNING) or _BEGINNING.startswith(text) or not raw.endswith(b"\n")
    if found is None and not is_cut:
        raise DataError(f"{path}, line {number}: this is no line of an audit log")
    return found


def _line_in(text: str) -> Line | None:
    """The line that a text is, or that follows an unfinished one in it; None if there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        after = text.rfind(_BEGINNING)  # in the texts of a line its quotes would be escaped
        return _line_in(text[after:]) if after > 0 else None
    return found if isinstance(found, dict) and "event" in found else None


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
