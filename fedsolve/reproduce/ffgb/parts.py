"""Finished parts of a long experiment, a file each, so that the next run goes on where this one stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsolve.errors import DataError
from fedsolve.report.json_values import to_json
from fedsolve.reproduce.ffgb.traces import Trace, trace_of
from fedsolve.wire.storage import write_atomically


@dataclass(frozen=True)
class Part:
    """The trace of one method in one setting, with the step size that it was given."""

    step_size: float
    trace: Trace


@dataclass(frozen=True)
class Parts:
    """A folder of parts by name."""

    folder: Path

    def path(self, name: str, suffix: str = ".json") -> Path:
        return self.folder / (name.replace(":", "-").replace(" ", "-") + suffix)

    def find(self, name: str) -> Part | None:
        """A part that was saved. Raises DataError for a file that holds none."""
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            plain: dict[str, Any] = json.loads(path.read_text())
            return Part(float(plain["step_size"]), trace_of(plain["trace"]))
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} is no part of an experiment ({error}); remove it to run it again") from None

    def made(self, name: str, make: Callable[[], Part]) -> Part:
        """The part of this name, made unless a whole one is there. One that time cut short is made anew, and replaces
        what is there if it got farther."""
        known = self.find(name)
        if known is not None and known.trace.is_whole:
            return known
        found = make()
        if known is not None and not found.trace.is_whole and found.trace.rounds < known.trace.rounds:
            return known
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = {"step_size": found.step_size, "trace": found.trace.plain()}
        write_atomically(self.path(name), (to_json(plain, indent=1) + "\n").encode())
        return found
