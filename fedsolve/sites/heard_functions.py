"""What a run has agreed on for learning, and the functions that its server has told: both stay what they were.

A server that may move an edge of the bins, or take a function back and tell another, compares what the same rows give
under both. So the first bins of a run are the only ones, and what was told is only added to, over restarts too. A
server that goes back, to an earlier state of its run, tells a part of the same functions again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedsolve.errors import PolicyRefusal
from fedsolve.learners.hearing import News
from fedsolve.learners.parts import Part
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.kept_file import KeptFile
from fedsolve.typing import Array

FILE = "functions.json"


class HeardFunctions:
    """What the server of a run has told first, kept in the run's folder."""

    def __init__(self, path: Path) -> None:
        self.kept = KeptFile(path)

    def check(self, news: News) -> None:
        """Raise PolicyRefusal for other bins, another constant or other functions than the run had before. What is new
        is remembered, before anything is computed with it."""
        known = self.kept.read()
        begins, parts = known.get("begins", ""), known.get("parts", [])
        if not isinstance(begins, str) or not isinstance(parts, list):
            raise self.kept.unreadable("it holds no marks")
        if news.start is not None:
            mark = _mark(news.start, *news.agreed)
            if begins and mark != begins:
                raise PolicyRefusal(
                    "functions",
                    "this run has agreed on other bins, or begun with another function, before; begin a new run",
                )
            begins = mark
        told = [_mark_of(part) for part in news.parts]
        before = parts[news.since : news.since + len(told)]
        if told[: len(before)] != before:
            raise PolicyRefusal(
                "functions",
                "the server takes back what it has told of the function that this run learns, and tells something else "
                "in its place; begin a new run",
            )
        if news.since <= len(parts) < news.since + len(told):
            parts = [*parts, *told[len(before) :]]
        found = {"begins": begins, "parts": parts}
        if found != known:
            self.kept.write(found)


def _mark_of(part: Part) -> str:
    """A hash of what a round has added."""
    arrays = [array for one in part.functions for array in one]
    return _mark(float(part.decay).hex(), part.coefficients, *arrays)


def _mark(*values: Array | str) -> str:
    found = hashlib.blake2b(digest_size=16)
    for one in values:
        if isinstance(one, str):
            found.update(one.encode())
            continue
        array = to_numpy(one)
        found.update(f"{array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()
