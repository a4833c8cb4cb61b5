"""A small file in a site's store that several runs read and change, one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedsolve.errors import StorageError
from fedsolve.sites.alone import alone
from fedsolve.wire.storage import reading, write_atomically


class KeptFile:
    """A JSON object on disk: whole, or not there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, object]:
        """What it holds; nothing if it is not there. Raises StorageError for what is no such file."""
        if not self.path.exists():
            return {}
        try:
            with reading(self.path) as (file, _):
                plain = json.loads(file.read())
        except (OSError, ValueError) as error:
            raise self.unreadable(error) from error
        if not isinstance(plain, dict):
            raise self.unreadable("it holds no table")
        return plain

    def unreadable(self, why: object) -> StorageError:
        """The error for a file that somebody else has written."""
        return StorageError(f"{self.path} cannot be read: {why}; move it away if you know why")

    def write(self, plain: Mapping[str, object]) -> None:
        """Replace what it holds."""
        write_atomically(self.path, json.dumps(plain, indent=1).encode())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other run changes it meanwhile."""
        with alone(self.path.with_suffix(".lock")):
            yield
