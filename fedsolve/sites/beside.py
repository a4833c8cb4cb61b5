"""What a server learns from a new answer and an earlier one together.

A gradient is Σ s (μ − y) x, with μ what each row is predicted. Two of them can be subtracted, and more: Σ s x and
Σ s y x are known from other questions, so that 1 − μ of an earlier point is as good as μ, and either can be multiplied
by a number. Where all rows but a few cancel in such a difference, it is these rows. So a new μ is compared with every
earlier one as it is, reflected (1 − μ, for classes), and scaled so that most rows cancel if they can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.regions import Regions
from fedsolve.typing import Array

# Differences below this share of the largest numbers in them are rounding, and say nothing of anybody.
ROUNDING = 1e-14
READ = 2**18  # numbers that are read again at once
FIRST_SIGHT, SECOND_SIGHT = 64, 512  # rows by which most vectors are seen to be far away, in a region too
BLOCK = 2**14  # numbers that are worked on at once, so that they stay in the processor's cache


class Face(NamedTuple):
    """A vector μ, or what is left of it to the weights; and whether it is the latter."""

    values: Array
    peak: float
    reflected: bool


def nearly_one_of(vector: Array, weights: Array, classes: bool, log: PointLog, few: FewRows) -> bool:
    """Whether a few rows make up too much of the difference to an earlier vector.

    Args:
        vector: s μ of each row.
        weights: The sample weights s.
        classes: Whether μ are probabilities, which can be reflected.
        log: The earlier vectors.
        few: How many rows are few, and what is too much.
    """
    if not len(log) or few.most >= 1:
        return False
    near = np.arange(len(log))
    for seen in (FIRST_SIGHT, len(log.glance)):
        columns = log.order[:seen]
        near = near[_may_be_alike(vector, weights, classes, log.glances, log.peaks, near, columns, log.glance, few)]
    return any(_alike(vector, weights, classes, earlier, few) for earlier in _read(log, near))


def two_alike(vectors: Array, weights: Array, classes: bool, log: PointLog, few: FewRows) -> bool:
    """The same for the difference of any two new vectors, of two classes say. The log only says which rows to look at
    first: nobody else knows them."""
    if few.most >= 1:
        return False
    glances, peaks = vectors[:, log.glance], np.abs(vectors).max(axis=1)
    for k, vector in enumerate(vectors):
        near, columns = np.arange(k + 1, len(vectors)), log.order[:FIRST_SIGHT]
        near = near[_may_be_alike(vector, weights, classes, glances, peaks, near, columns, log.glance, few)]
        step = max(1, READ // vectors.shape[1])
        for start in range(0, len(near), step):
            if _alike(vector, weights, classes, vectors[near[start : start + step]], few):
                return True
    return False


def _read(log: PointLog, places: NDArray[np.int64]) -> Iterator[Array]:
    """All rows of earlier vectors, several at once."""
    step = max(1, READ // log.rows)
    for start in range(0, len(places), step):
        yield log.some(places[start : start + step])


def _may_be_alike(
    vector: Array,
    weights: Array,
    classes: bool,
    glances: Array,
    peaks: Array,
    places: NDArray[np.int64],
    columns: NDArray[np.int64],
    glance: NDArray[np.int64],
    few: FewRows,
) -> NDArray[np.bool_]:
    """Which of the vectors at these places are not shown to be far away by some of the rows that were glanced at."""
    near, rows = np.zeros(len(places), dtype=bool), glance[columns]
    step = max(1, BLOCK // len(rows))
    for start in range(0, len(places), step):
        some = places[start : start + step]
        earlier = glances[some][:, columns]
        for difference, _, height in _differences(vector, weights, classes, earlier, peaks[some], rows, few):
            rest = difference.sum(axis=1) - few.count * difference.max(axis=1)
            near[start : start + step] |= ~(rest >= few.slack * height)
    return near


def alike_but_few(vector: Array, weights: Array, classes: bool, earlier: Array, few: FewRows) -> bool:
    """The same for one other vector, by all of its rows."""
    return _alike(vector, weights, classes, earlier[None], few)


def _alike(vector: Array, weights: Array, classes: bool, earlier: Array, few: FewRows) -> bool:
    everybody, peaks = np.arange(len(vector)), np.abs(earlier).max(axis=1)
    found = _differences(vector, weights, classes, earlier, peaks, everybody, few)
    return any(few.exceeded(difference, floor).any() for difference, floor, _ in found)


def alike_in_a_region(vector: Array, weights: Array, classes: bool, log: PointLog, regions: Regions) -> bool:
    """The same for the rows of each region by themselves. Others may have moved far, to hide what few have done."""
    if not len(log) or not len(regions):
        return False
    near = np.ones((len(log), len(regions)), dtype=bool)
    for seen in (SECOND_SIGHT, len(log.glance)):
        some = np.flatnonzero(near.any(axis=1))
        near[some] &= _may_be_alike_within(vector, weights, classes, log, some, log.order[:seen], regions)
    lines = np.flatnonzero(near.any(axis=1))
    for earlier in _read(log, lines):
        asked, lines = near[lines[: len(earlier)]], lines[len(earlier) :]
        if _alike_within(vector, weights, classes, earlier, regions, asked):
            return True
    return False


def _may_be_alike_within(
    vector: Array,
    weights: Array,
    classes: bool,
    log: PointLog,
    places: NDArray[np.int64],
    columns: NDArray[np.int64],
    regions: Regions,
) -> NDArray[np.bool_]:
    """Which earlier vectors are not shown to be far away by some rows, within each region."""
    near, rows = np.zeros((len(places), len(regions)), dtype=bool), log.glance[columns]
    step = max(1, BLOCK // len(rows))
    for start in range(0, len(places), step):
        some = places[start : start + step]
        earlier = log.glances[some][:, columns]
        for face in _faces(vector, weights, classes):
            difference, heights = np.abs(face[rows] - earlier), np.abs(face).max() + log.peaks[some]
            rest = regions.totals(difference, rows) - regions.counts * difference.max(axis=1)[:, None]
            near[start : start + step] |= ~(rest >= regions.slacks * heights[:, None])
    return near


def region_alike(vector: Array, weights: Array, classes: bool, earlier: Array, regions: Regions) -> bool:
    """The same for one other vector."""
    return _alike_within(vector, weights, classes, earlier[None], regions, np.ones((1, len(regions)), dtype=bool))


def _alike_within(
    vector: Array, weights: Array, classes: bool, earlier: Array, regions: Regions, asked: NDArray[np.bool_]
) -> bool:
    for face in _faces(vector, weights, classes):
        difference = np.abs(face - earlier)
        for line, region in regions.doubtful(difference, asked):
            size = np.abs(face[region.rows]).max() + np.abs(earlier[line, region.rows]).max()
            if region.changed.exceeded(difference[line, region.rows][None], ROUNDING * size)[0]:
                return True
    return False


def _faces(vector: Array, weights: Array, classes: bool) -> list[Array]:
    return [vector, weights - vector] if classes else [vector]


def _differences(
    vector: Array,
    weights: Array,
    classes: bool,
    earlier: Array,
    peaks: Array,
    rows: NDArray[np.int64],
    few: FewRows,
) -> Iterator[tuple[Array, Array, Array]]:
    """Sizes of differences in some rows, one line for each earlier vector; the size up to which they are rounding; and
    what no row's difference is larger than."""
    s, most = weights[rows], float(weights.max())
    faces = [Face(vector[rows], float(np.abs(vector).max()), False)]
    others = [(earlier, peaks)]
    if classes:
        faces.append(Face(s - faces[0].values, most, True))
        others.append((s - earlier, np.full(len(peaks), most)))
    # Rows by which two vectors are brought to one scale: the median of their ratios is right if the few are fewer.
    references = np.flatnonzero(s > 0)[: 2 * few.count + 1]
    for face in faces:
        for place, (values, heights) in enumerate(others):
            scales = [_ratio(face.values, values, references)]
            if not place:  # with the other pairs of faces it is one of these again
                scales.append(np.ones(len(values)))
            for scale in scales:
                difference = np.abs(face.values - scale[:, None] * values)
                height = face.peak + np.abs(scale) * heights
                yield difference, ROUNDING * height, height


def _ratio(values: Array, earlier: Array, references: NDArray[np.int64]) -> Array:
    """For each earlier vector the number by which most rows cancel, if there is one; 1 where it cannot be told."""
    with np.errstate(all="ignore"):
        ratios = np.sort(values[references] / earlier[:, references], axis=1)
    found = ratios[:, len(references) // 2] if len(references) else np.ones(len(earlier))
    return np.where(np.isfinite(found), found, 1.0)
