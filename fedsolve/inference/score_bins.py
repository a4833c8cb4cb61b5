"""The area under the ROC curve from counts in score bins, with a rigorous bound on what the binning leaves open.

The server names cut points, each client says how much weight of positives and of negatives it has between them, and the
sums are enough. A pair of a positive and a negative whose bins do not overlap is ordered for certain; one whose bins do
overlap counts ½, and is wrong by at most ½. So

    AUC = (certain + ½ open) / (P N),     |AUC − exact| ≤ ½ open / (P N)

with `open` the weight of the pairs whose order is not known: Σ_b pos_b · neg_b if all clients use the same bins. Bins
where positives and negatives meet are split further, one exchange at a time, until the bound is small; where scores
fall apart it is zero, and the AUC is exact. Equal scores end in a bin that holds this one number, where they are ties.

A client that shall not tell of fewer than `least` rows joins the bins of a fixed grid, `GRID`, until they hold so many.
Which rows are together then depends on the scores alone, not on the cut points: replies for other cut points say where
the same runs lie, so no difference of two replies tells of fewer rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The cuts of the first exchange, for scores that are log-odds: probabilities in steps of 1/64, longer tails, and a bin
# for the score 0 alone, which an untrained model gives to every row.
_STEPS = np.arange(1, 64) / 64
_TAILS = np.array([6.0, 8.0, 12.0, 24.0, 64.0])
FIRST: Floats = np.unique(np.r_[np.log(_STEPS / (1 - _STEPS)), _TAILS, -_TAILS, 0.0, np.nextafter(0.0, 1.0)])
# The finest bins of clients that join some: probabilities in steps of 1/1024, and finer tails.
_FINE = np.arange(1, 1024) / 1024
_FINE_TAILS = np.r_[np.arange(7.0, 24.0, 0.5), np.arange(24.0, 64.0, 4.0)]
GRID: Floats = np.unique(np.r_[np.log(_FINE / (1 - _FINE)), _FINE_TAILS, -_FINE_TAILS, FIRST])
MOST_CUTS = 2**20 - 1  # that a client takes for one class
STARTS_POS, ENDS_POS, STARTS_NEG, ENDS_NEG = range(4)  # the columns of a client's reply


def binned(scores: Floats, positive: Floats, negative: Floats, edges: Floats, least: int = 1) -> Floats:
    """What a client says of its rows: the weight of positives and negatives in runs of bins, a row for each bin.

    Bin k holds the scores in [edges[k−1], edges[k]), with infinite ends. The columns are the positive weight in runs
    that start at this bin, in runs that end with it, and the same two of the negative weight: sums of these over
    clients are all that `area` needs, though each client has runs of its own.

    Args:
        scores: Finite or infinite numbers, one for each row.
        positive, negative: The weight of each row as a positive and as a negative.
        edges: The cut points, in ascending order.
        least: Bins of `GRID` are joined from below until a run has at least so many rows; what is left above joins the
            last run. A run lies in all bins that it overlaps.
    """
    first = last = np.searchsorted(edges, scores, side="right")
    if least > 1:
        runs, (starts, ends) = joined(scores, least)
        first = np.searchsorted(edges, starts, side="right")[runs]
        last = np.searchsorted(edges, ends, side="left")[runs]
    found = np.zeros((len(edges) + 1, 4))
    for column, (place, weight) in enumerate(
        ((first, positive), (last, positive), (first, negative), (last, negative))
    ):
        np.add.at(found[:, column], place, weight)
    return found


def joined(scores: Floats, least: int) -> tuple[NDArray[np.int64], tuple[Floats, Floats]]:
    """The run of each row, and where each run starts and ends: at cut points of `GRID`, infinite at the outside."""
    where = np.searchsorted(GRID, scores, side="right")
    first, last = runs_of(np.bincount(where, minlength=len(GRID) + 1), least)
    kept, runs = np.unique(first[where], return_inverse=True)
    bounds = np.r_[-np.inf, GRID, np.inf]
    return runs, (bounds[kept], bounds[last[kept] + 1])


def runs_of(counts: NDArray[np.int64], least: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last occupied bin of each bin's run, where runs have at least `least` rows."""
    first, last = np.arange(len(counts)), np.arange(len(counts))
    if least <= 1:
        return first, last
    occupied = np.flatnonzero(counts)
    groups: list[list[int]] = []
    open_rows = least  # so that the first bin begins a run
    for place in occupied.tolist():
        if open_rows >= least:
            groups.append([])
            open_rows = 0
        groups[-1].append(place)
        open_rows += int(counts[place])
    if len(groups) > 1 and open_rows < least:
        rest = groups.pop()
        groups[-1] += rest
    for group in groups:
        first[group], last[group] = group[0], group[-1]
    return first, last


def area(masses: Floats, edges: Floats, exact_ties: bool = True) -> tuple[float, float] | None:
    """The AUC and the bound on its error, from the sum of what clients say; None if a class is missing.

    Args:
        masses: The sum of `binned` over clients.
        edges: The cut points it was asked with.
        exact_ties: Whether every run is one bin (`least` of 1). Then scores in a bin that holds a single number are
            ties, which count ½ by definition and leave nothing open.
    """
    masses = _scaled(masses)
    total_pos, total_neg = float(masses[:, STARTS_POS].sum()), float(masses[:, STARTS_NEG].sum())
    if not (total_pos > 0 and total_neg > 0):
        return None
    # Certain: a positive whose run starts above the end of a negative's run; and the other way round.
    ended_neg = np.cumsum(masses[:, ENDS_NEG]) - masses[:, ENDS_NEG]
    ended_pos = np.cumsum(masses[:, ENDS_POS]) - masses[:, ENDS_POS]
    above = float(masses[:, STARTS_POS] @ ended_neg)
    below = float(masses[:, STARTS_NEG] @ ended_pos)
    pairs = total_pos * total_neg
    open_pairs = max(pairs - above - below, 0.0)
    if exact_ties:  # then the sum over bins, which is zero where it is zero, and not what rounding leaves of the pairs
        undecided = ~_single(edges)
        open_pairs = float(masses[undecided, STARTS_POS] @ masses[undecided, STARTS_NEG])
    return (0.5 * (pairs + above - below)) / pairs, 0.5 * open_pairs / pairs


def _scaled(masses: Floats) -> Floats:
    """The same in units in which products do not overflow or vanish: powers of two, so that no bit changes."""
    totals = masses.sum(axis=0)
    _, exponents = np.frexp(np.r_[totals[:2].max(), totals[2:].max()])
    return np.asarray(np.ldexp(masses, -exponents[[0, 0, 1, 1]]))


def unsplit(masses: Floats, edges: Floats, before: Floats, edges_before: Floats) -> NDArray[np.bool_]:
    """Which bins hold all that an earlier, wider bin held: cutting that one has separated nothing."""
    parents = np.searchsorted(edges_before, np.r_[-np.inf, edges], side="right")
    mine, theirs = (one[:, STARTS_POS] + one[:, STARTS_NEG] for one in (masses, before))
    cut = np.bincount(parents, minlength=len(edges_before) + 1)[parents] > 1
    return np.asarray(cut & (mine >= theirs[parents] * (1 - 1e-12)))


def refined(masses: Floats, edges: Floats, more: int, stuck: NDArray[np.bool_] | None = None) -> Floats:
    """Cut points with about so many more, where they lower the bound most; the same ones if none would.

    A bin whose pairs are open in the number c, cut in m, leaves about c/m of them open, so Σ c/m is least for
    m ~ √c. Half of a bin's cuts are at equal distances. The others are at equal distances among the floating-point
    numbers there are in it, so that tails without an end, and scores that lie close together near 0, are cut as well.
    All cuts are of that kind in a bin of `stuck`, which the last cuts have not divided: its scores may be equal, and
    then the way to the bin with that one number is the shortest.
    """
    masses = _scaled(masses)
    open_pairs = np.where(_single(edges), 0.0, masses[:, STARTS_POS] * masses[:, STARTS_NEG])
    if not open_pairs.any():
        return edges
    share = np.sqrt(open_pairs)
    pieces = np.ceil(more * share / share.sum()).astype(int)
    bounds = np.r_[-np.inf, edges, np.inf]
    cuts = [
        _cut(bounds[k], bounds[k + 1], int(pieces[k]), stuck is not None and bool(stuck[k]))
        for k in np.flatnonzero(pieces)
    ]
    found = np.unique(np.concatenate([edges, *cuts]))
    return found if len(found) <= MOST_CUTS else edges


def roc(masses: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates at the cut points, from (0, 0) to (1, 1)."""
    pos, neg = masses[::-1, STARTS_POS], masses[::-1, STARTS_NEG]
    return _climbing(neg), _climbing(pos)


def _climbing(masses: Floats) -> Floats:
    """The share of the whole up to each bin, from 0."""
    return np.asarray(np.r_[0.0, np.cumsum(masses)] / max(float(masses.sum()), 1e-300))


def _single(edges: Floats) -> NDArray[np.bool_]:
    """Whether a bin holds one floating-point number only."""
    return np.asarray(np.r_[False, np.nextafter(edges[:-1], np.inf) >= edges[1:], False])


def _cut(low: float, high: float, pieces: int, stuck: bool) -> Floats:
    half = max(pieces // 2, 1)
    count = max(pieces, 1) if stuck else half
    first, last = _key(low), _key(high)
    keys = [first + (last - first) * step // (count + 1) for step in range(1, count + 1)]
    found = np.array([_number(key) for key in keys])
    if not stuck and np.isfinite(low) and np.isfinite(high):
        found = np.r_[found, np.linspace(low, high, half + 2)[1:-1]]
    return found[(found > low) & (found < high)]


_SIGN = 1 << 63


def _key(value: float) -> int:
    """The place of a floating-point number among all of them; infinite ones stand at the ends."""
    bits = int(np.float64(value).view(np.uint64))
    return bits if bits < _SIGN else _SIGN - bits


def _number(key: int) -> float:
    bits = key if key >= 0 else _SIGN - key
    return float(np.uint64(bits).view(np.float64))
