"""After Proposition 1 of Jadbabaie et al. (2023): the Johnson–Lindenstrauss lemma, and that log n is what it takes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

KEPT = Check(
    "After Proposition 1",
    "n = 20 to 400 points, three kinds, 4 log n/(ε²/2 − ε³/3) dimensions: change of squared distances over ε, best of "
    "ten",
)
FEWER = AtLeast(
    "After Proposition 1",
    "… with a sixth of the dimensions, best of ten, its least over n and ε",
    "times",
    unit="times ε",
)
NEEDED = Check(
    "After Proposition 1",
    "dimensions needed for ε = ½ over log n, n = 20, 100 and 500: largest over smallest",
    "times",
    1.5,
)
CHECKS = (KEPT, FEWER, NEEDED)
WIDE, TRIES, MATRICES = 1500, 10, ((20, 101), (100, 51), (500, 25))


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 93])
    kept, fewer = 0.0, math.inf
    for n, far in product((20, 100, 400), (0.5, 0.25)):
        k = dimensions(n, far)
        for points in _kinds(rng, n):
            kept = max(kept, best(rng, points, k, enough=far) / far)
            fewer = min(fewer, best(rng, points, k // 6, enough=0.0) / far)
    each = [float(np.median([needed(rng, n, 0.5) for _ in range(times)])) / math.log(n) for n, times in MATRICES]
    return named({KEPT: kept, FEWER: fewer, NEEDED: max(each) / min(each)})


def dimensions(n: int, far: float) -> int:
    return math.ceil(4 * math.log(n) / (far**2 / 2 - far**3 / 3))


def _kinds(rng: np.random.Generator, n: int) -> list[Array]:
    plain = rng.standard_normal((n, WIDE))
    pairs = np.repeat(plain[: n // 2], 2, axis=0) + 1e-3 * rng.standard_normal((n, WIDE))
    return [plain, np.eye(n, WIDE), pairs]


def _squares(points: Array) -> Array:
    """Squared distances of all pairs."""
    sizes = np.square(points).sum(axis=1)
    return np.asarray((sizes[:, None] + sizes - 2 * points @ points.T)[np.triu_indices(len(points), 1)])


def best(rng: np.random.Generator, points: Array, k: int, enough: float) -> float:
    """The least change of squared distances by one of ten random matrices; ends with one below `enough`.

    What a normal matrix makes of points does not depend on a rotation, so that n coordinates of n points are enough.
    """
    before = _squares(points)
    root = np.linalg.qr(points.T)[1].T
    found = math.inf
    for _ in range(TRIES):
        mapped = root @ rng.standard_normal((root.shape[1], k)) / math.sqrt(k)
        found = min(found, float(np.abs(_squares(mapped) / before - 1).max()))
        if found < enough:
            break
    return found


def needed(rng: np.random.Generator, n: int, far: float) -> int:
    """The number of dimensions from which on one random matrix, made longer, keeps all distances of normal points."""
    points = rng.standard_normal((n, n))  # a rotation of n points in as many dimensions or more
    most = dimensions(n, far)
    images = points @ rng.standard_normal((n, most))
    before, rows = _squares(points), np.triu_indices(n, 1)
    total, last = np.zeros(len(before)), 0
    for k in range(1, most + 1):
        total += np.square(images[rows[0], k - 1] - images[rows[1], k - 1])
        if float(np.abs(total / k / before - 1).max()) >= far:
            last = k
    return last + 1
