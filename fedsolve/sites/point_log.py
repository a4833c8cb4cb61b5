"""What the predictions of all rows were at the points that a site has answered at, over all runs and restarts.

Two gradients can be subtracted from each other whichever run they were sent to, so a new point is judged beside those
of every run on the same rows. One file of float64 numbers, n to a vector; runs that go on side by side see what the
other one added. In memory are a few rows of each vector, which are enough to see that most vectors are far apart; the
others are read again. The oldest vectors are forgotten when there are more than `MOST_VECTORS`, or more than
`MOST_NUMBERS` numbers.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsolve.errors import StorageError
from fedsolve.sites.alone import alone
from fedsolve.typing import Array
from fedsolve.wire.locks import BINARY, NO_LINKS
from fedsolve.wire.storage import check_own_file, write_atomically, writing

MOST_VECTORS = 4096
MOST_NUMBERS = 10**7  # 80 MB
GLANCE = 64  # rows of each vector that are kept in memory, at least
MOST_GLANCED = 2**20  # numbers in memory, of all vectors together


class PointLog:
    """Vectors with an entry for each row, oldest first. Without a path they are kept in memory alone.

    glance    the rows of which `glances` are: all if there are few, else some by chance
    order     their places in an order by chance
    most      how many vectors are kept
    """

    def __init__(self, rows: int, path: Path | None = None) -> None:
        self.rows, self.path = max(1, rows), path if rows else None
        self.most = max(1, min(MOST_VECTORS, MOST_NUMBERS // self.rows))
        rng, seen = np.random.default_rng(), max(GLANCE, MOST_GLANCED // self.most)
        self.glance = np.sort(rng.permutation(self.rows)[:seen])
        self.order = rng.permutation(len(self.glance))
        self._kept: deque[Array] = deque(maxlen=self.most)  # where there is no file
        self._forget()
        if path is not None:
            with self.alone():
                self._shorten(path)

    def _forget(self) -> None:
        self._first = self._count = self._in_file = self._file = 0
        self._table = np.empty((2 * self.most, len(self.glance)))
        self._heights = np.empty(2 * self.most)
        self._marks: deque[bytes] = deque()
        self._known: set[bytes] = set()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, vector: object) -> bool:
        return isinstance(vector, np.ndarray) and _mark(vector) in self._known

    @property
    def glances(self) -> Array:
        """Some rows of each vector, (vectors, rows)."""
        return self._table[self._first : self._first + self._count]

    @property
    def peaks(self) -> Array:
        """The largest size in each vector."""
        return self._heights[self._first : self._first + self._count]

    @property
    def whole(self) -> bool:
        """Whether `glances` are all there is to a vector."""
        return len(self.glance) == self.rows

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other run on these rows asks or adds; with all that others have added before."""
        if self.path is None:
            yield
            return
        with alone(self.path.with_suffix(".lock")):
            self._read(self.path)
            yield

    def vector(self, place: int) -> Array:
        """All rows of one vector."""
        if self.whole:
            return self.glances[place]
        if self.path is None:
            return self._kept[place]
        return self._at(self.path, self._in_file - self._count + place, 1)[0]

    def some(self, places: NDArray[np.int64]) -> Array:
        """All rows of several vectors, in the order of their places, which do not decrease."""
        if self.whole:
            return self.glances[places]
        first, count = int(places[0]), int(places[-1] - places[0]) + 1
        if self.path is None or count > 4 * len(places):
            return np.stack([self.vector(int(place)) for place in places])
        return self._at(self.path, self._in_file - self._count + first, count)[places - first]

    def add(self, vectors: Array) -> None:
        """Remember vectors, on disk before anything is answered there. Raises StorageError if that is impossible."""
        vectors = np.ascontiguousarray(vectors, dtype=np.float64)
        if self.path is None:
            self._kept.extend(vectors)
            self._remember(vectors)
            return
        self._append(self.path, vectors.tobytes())
        self._read(self.path)

    # ── in memory ──

    def _remember(self, vectors: Array) -> None:
        vectors = vectors[-self.most :]
        for _ in range(self._count + len(vectors) - self.most):  # the oldest are forgotten
            self._first, self._count = self._first + 1, self._count - 1
            self._known.discard(self._marks.popleft())
        if self._first + self._count + len(vectors) > len(self._table):
            for table in (self._table, self._heights):
                table[: self._count] = table[self._first : self._first + self._count]
            self._first = 0
        end = self._first + self._count
        self._table[end : end + len(vectors)] = vectors[:, self.glance]
        self._heights[end : end + len(vectors)] = np.abs(vectors).max(axis=1)
        self._count += len(vectors)
        marks = [_mark(vector) for vector in vectors]
        self._marks.extend(marks)
        self._known.update(marks)

    # ── on disk ──

    @property
    def _size(self) -> int:
        return 8 * self.rows

    def _read(self, path: Path) -> None:
        """What was added since, here or by another run."""
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        count = found.st_size // self._size
        if found.st_ino != self._file or count < self._in_file:  # another run has shortened it
            self._forget()
            self._file, self._in_file = found.st_ino, max(0, count - self.most)
        while self._in_file < count:
            some = min(count - self._in_file, max(1, MOST_NUMBERS // (8 * self.rows)))
            self._remember(self._at(path, self._in_file, some))
            self._in_file += some

    def _at(self, path: Path, place: int, count: int) -> Array:
        try:
            found = np.fromfile(path, dtype=np.float64, count=count * self.rows, offset=place * self._size)
            return found.reshape(count, self.rows)
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}") from error

    def _append(self, path: Path, data: bytes) -> None:
        """All of the data or, with an error, none of it. What a process left unfinished that died is taken away."""
        with writing(path):
            check_own_file(path)
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINKS | BINARY, 0o666)
            try:
                size = os.fstat(handle).st_size
                end = size // self._size * self._size
                if end != size:
                    os.ftruncate(handle, end)
                rest = memoryview(data)
                try:
                    while rest:
                        rest = rest[os.write(handle, rest) :]
                except BaseException:
                    with suppress(OSError):  # then the next one takes it away
                        os.ftruncate(handle, end)
                    raise
            finally:
                os.close(handle)

    def _shorten(self, path: Path) -> None:
        """Keep the newest vectors, when a run begins."""
        count = path.stat().st_size // self._size if path.exists() else 0
        if count > 2 * self.most:
            write_atomically(path, self._at(path, count - self.most, self.most).tobytes())
            self._read(path)


def _mark(vector: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(vector).tobytes(), digest_size=16).digest()
