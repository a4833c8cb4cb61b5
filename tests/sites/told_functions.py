"""What a curious server tells of functions: bins and trees of its own making."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fedsolve as fs
from fedsolve.learners.base import Arrays
from fedsolve.learners.bins import Bins
from fedsolve.learners.hearing import News
from fedsolve.learners.parts import Part

BOOSTING = fs.FFGB(fs.Logistic(), fs.Trees())
SHARE = -0.1  # the sum of coefficients that a round adds: minus the step size


def bins(*edges: Sequence[float], groups: Sequence[tuple[int, int]] = ()) -> Arrays:
    """Bins with these edges in the first columns, of three."""
    columns = [np.asarray(one, dtype=np.float64) for one in (*edges, (), (), ())][:3]
    starts = np.cumsum([0, *map(len, columns)]).astype(np.int64)
    pairs = np.array(groups, dtype=np.int64).reshape(-1, 2)
    return Bins(np.concatenate(columns), starts, np.zeros(3, dtype=np.int64), pairs).arrays()


def stump(column: int, threshold: float, left: float, right: float) -> Arrays:
    """A tree with one split."""
    return (
        np.array([column, -1, -1], dtype=np.int32),
        np.array([threshold]),
        np.array([1], dtype=np.uint8),
        np.array([0], dtype=np.int32),
        np.zeros(0, dtype=np.uint8),
        np.array([1.0]),
        np.array([left, right]),
    )


def box(edges: Sequence[tuple[int, float, bool]], inside: float) -> Arrays:
    """A tree that is `inside` where each (column, edge, whether below) holds, and 0 elsewhere."""
    # A chain: of each split one child is a leaf of 0, the other goes on.
    feature, values = [edges[0][0]], list[float]()
    for place, (_, _, below) in enumerate(edges):
        follows = edges[place + 1][0] if place + 1 < len(edges) else -1
        feature += [follows, -1] if below else [-1, follows]
        last = place + 1 == len(edges)
        values += ([inside, 0.0] if below else [0.0, inside]) if last else [0.0]
    count = len(edges)
    return (
        np.array(feature, dtype=np.int32),
        np.array([edge for _, edge, _ in edges]),
        np.zeros(count, dtype=np.uint8),
        np.zeros(count, dtype=np.int32),
        np.zeros(0, dtype=np.uint8),
        np.ones(count),
        np.array(values),
    )


def part(*functions: Arrays, decay: float = 1.0) -> Part:
    """A part as a round of `BOOSTING` makes it."""
    return Part(decay, np.full(len(functions), SHARE / len(functions)), functions)


def begin(agreed: Arrays, *parts: Part, start: float = 0.0) -> News:
    """What a client is told that knows nothing."""
    return News(0, parts, np.array(start), agreed)
