"""The factors ψ of all rows at the points that a site has answered at, over all runs and restarts.

Two gradients can be subtracted from each other whichever run they were sent to, so a new point is judged beside those
of every run on the same rows. One file of float32 numbers, n to a point; runs that go on side by side see what the
other one added. The oldest points are forgotten when there are more than `MOST` numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedsolve.errors import StorageError
from fedsolve.wire.storage import write_atomically, writing

MOST = 2 * 10**7  # numbers, 80 MB


class PointLog:
    """Points, oldest first. Without a path they are kept in memory alone."""

    def __init__(self, rows: int, path: Path | None = None) -> None:
        self.rows, self.path = max(1, rows), path if rows else None
        self._kept: deque[np.ndarray] = deque(maxlen=max(1, MOST // self.rows))
        self._known: set[bytes] = set()
        self._read_to = 0
        if path is not None:
            with writing(path.parent):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._shorten(path)
            self._read(path)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._kept)

    def __contains__(self, factors: object) -> bool:
        if self.path is not None:
            self._read(self.path)
        return isinstance(factors, np.ndarray) and factors.tobytes() in self._known

    def add(self, factors: np.ndarray) -> None:
        """Remember a point, on disk before anything is answered at it."""
        if self.path is None:
            self._remember(factors)
            return
        with writing(self.path), self.path.open("ab", buffering=0) as file:  # one write, behind all others
            file.write(factors.tobytes())
        self._read(self.path)

    def _remember(self, factors: np.ndarray) -> None:
        if len(self._kept) == self._kept.maxlen:
            self._known.discard(self._kept[0].tobytes())
        self._kept.append(factors)
        self._known.add(factors.tobytes())

    def _read(self, path: Path) -> None:
        """What was added since, here or by another run. A last point that was cut off is not one."""
        try:
            with path.open("rb") as file:
                if path.stat().st_size < self._read_to:  # shortened by another run that began
                    self._read_to = 0
                file.seek(self._read_to)
                added = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
        points = len(added) // (4 * self.rows)
        self._read_to += 4 * self.rows * points
        for one in np.frombuffer(added, dtype=np.float32, count=points * self.rows).reshape(points, self.rows):
            self._remember(one)

    def _shorten(self, path: Path) -> None:
        """Keep the newest points, and whole ones: a process may have died while it wrote."""
        if not path.exists():
            return
        size, point = path.stat().st_size, 4 * self.rows
        whole = size // point * point
        if whole != size or whole > 2 * 4 * MOST:
            with path.open("rb") as file:
                content = file.read()[:whole]
            write_atomically(path, content[-point * max(1, MOST // self.rows) :])
