"""Traces kept on disk, so that experiments with the same problem, method and split compute them once.

The environment variable FEDSOLVE_TRACES names the folder, as `scripts/claims` does; without it nothing is kept. A file
is named by all that its trace depends on: the clients' arrays, the loss, the algorithm with its options, the links, the
seed, the source that computes it, and the versions of NumPy and SciPy.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from fedsolve.reproduce.shed.gaps import Optimum, Trace
from fedsolve.wire.storage import write_atomically

FOLDER = "FEDSOLVE_TRACES"
# Rooms that no trace depends on, and the files of `reproduce` that it does depend on.
WITHOUT = ("cli", "deploy", "report", "reproduce")
AND = ("iterates.py", *(f"shed/{name}.py" for name in ("determinantal", "gaps", "heavy_ball", "methods")))


@dataclass(frozen=True)
class Found:
    """A trace; and if it was kept by another run, the processor seconds that it took there."""

    trace: Trace
    seconds_before: float | None = None


def kept(best: Optimum, what: str, gap: float, rounds: float, compute: Callable[[], Trace]) -> Found:
    """The trace of `what` on a problem until `gap`, or until `rounds` exchanges: kept, or computed and kept."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return Found(compute())
    told = f"{_source()} {_problem(best)} {what} {gap!r}"
    path = Path(folder) / f"{hashlib.sha256(told.encode()).hexdigest()[:40]}.json"
    if path.is_file():
        plain = json.loads(path.read_text(encoding="utf-8"))
        trace = shortened(Trace(**plain["trace"]), gap, rounds)
        if trace is not None:
            return Found(trace, plain["seconds"])
    began = time.process_time()
    found = compute()
    plain = {"seconds": time.process_time() - began, "trace": asdict(found)}
    write_atomically(path, json.dumps(plain).encode())
    return Found(found)


def shortened(trace: Trace, gap: float, rounds: float) -> Trace | None:
    """A trace as it would have been with this limit of rounds; None if it was stopped before."""
    ends = (t for t, one in enumerate(trace.gaps) if one <= gap or trace.exchanges[t] >= rounds)
    end = next(ends, None)
    if end is None:
        return None
    return Trace(**{name: values[: end + 1] for name, values in asdict(trace).items()})


@cache
def _source() -> str:
    """A fingerprint of the code, and of the libraries below it."""
    package = resources.files("fedsolve")
    digest = hashlib.sha256(f"{np.__version__} {scipy.__version__}".encode())
    for room in sorted(package.iterdir(), key=lambda one: one.name):
        if room.name not in WITHOUT:
            for text in _texts(room):
                digest.update(text)
    for name in AND:
        digest.update((package / "reproduce" / name).read_bytes())
    return digest.hexdigest()


def _texts(room: Any) -> Iterator[bytes]:
    if room.is_dir():
        for one in sorted(room.iterdir(), key=lambda one: one.name):
            yield from _texts(one)
    elif room.name.endswith(".py"):
        yield room.read_bytes()


def _problem(best: Optimum) -> str:
    digest = hashlib.sha256(repr(best.loss).encode())
    for one in best.clients:
        X = one.X.toarray() if sp.issparse(one.X) else np.asarray(one.X)
        for array in (X, one.y):
            digest.update(f"{one.name} {one.weight!r} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
