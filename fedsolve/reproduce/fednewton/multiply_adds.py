"""Counts the multiply-adds that the library does while something runs, from the shapes its linear algebra is given.

All dense products, factorisations and solves of clients go through `numerics.design` and `numerics.linalg`, and all
sums of replies at the server through `federation.aggregation`. A profile function looks at their arguments as they are
called; nothing is replaced. Additions of vectors of M numbers, and divisions of a matrix by a number, do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from types import CodeType, FrameType

from fedsolve.features import RandomFourier
from fedsolve.features.mapped import FeatureDesign
from fedsolve.federation import aggregation
from fedsolve.numerics import linalg
from fedsolve.numerics.design import DenseDesign
from fedsolve.typing import Array

Arguments = dict[str, Array]


def _columns(b: Array) -> int:
    return 1 if b.ndim == 1 else int(b.shape[1])


def _gram(given: Arguments) -> int:
    n, p = given["self"].shape
    return int(n * p * p)


def _product(given: Arguments) -> int:
    other = given["w"] if "w" in given else given["r"]
    return int(prod(given["self"].shape)) * _columns(other)


def _squares(given: Arguments) -> int:
    return int(prod(given["self"].shape)) * _columns(given["weights"])


def _features(given: Arguments) -> int:
    n, d = given["X"].shape
    return int(n * d * given["self"].features)


def _cholesky(given: Arguments) -> int:
    return int(given["full"].shape[0]) ** 3 // 6


def _spectral(given: Arguments) -> int:
    return 9 * int(given["full"].shape[0]) ** 3  # eigenvalues and eigenvectors, as textbooks count them


def _solve(given: Arguments) -> int:
    return int(given["lower"].shape[0]) ** 2 * _columns(given["b"])


def _symmetric(given: Arguments) -> int:
    return int(given["full"].shape[0]) ** 2 * _columns(given["v"])


def _sum(given: Arguments) -> int:
    return int(given["value"].size)


def _scaled(given: Arguments) -> int:
    return 0 if given["scale"] is None else int(given["self"].total.size)


CLIENT: dict[CodeType, Callable[[Arguments], int]] = {
    DenseDesign.gram.__code__: _gram,
    DenseDesign.matvec.__code__: _product,
    DenseDesign.rmatvec.__code__: _product,
    DenseDesign.squares.__code__: _squares,
    FeatureDesign.matvec.__code__: _product,
    RandomFourier.block.__code__: _features,
    linalg.cholesky.__code__: _cholesky,
    linalg._spectral_factor.__code__: _spectral,
    linalg.cholesky_solve.__code__: _solve,
    linalg.symmetric_product.__code__: _symmetric,
}
SERVER: dict[CodeType, Callable[[Arguments], int]] = {
    aggregation._Arrays.add.__code__: _sum,  # every array that is added, whatever holds it
    aggregation._Arrays.result.__code__: _scaled,
}


@dataclass
class Counted:
    """Multiply-adds so far, of all clients together and of the server."""

    clients: int = 0
    server: int = 0
    by_name: dict[str, int] = field(default_factory=dict)

    def look(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in CLIENT:
            amount = CLIENT[code](frame.f_locals)
            self.clients += amount
            self.by_name[code.co_name] = self.by_name.get(code.co_name, 0) + amount
        elif code in SERVER:
            self.server += SERVER[code](frame.f_locals)


@contextmanager
def counting() -> Iterator[Counted]:
    """Counts what this thread computes inside."""
    counted, before = Counted(), sys.getprofile()
    sys.setprofile(counted.look)
    try:
        yield counted
    finally:
        sys.setprofile(before)
