"""The area under the ROC curve from counts in score bins, with a rigorous bound on what the binning leaves open.

The server names cut points, each client says how much weight of positives and of negatives it has between them, and the
sums are enough. A pair of a positive and a negative whose bins do not overlap is ordered for certain; one whose bins do
overlap counts ½, and is wrong by at most ½. So

    AUC = (certain + ½ open) / (P N),     |AUC − exact| ≤ ½ open / (P N)

with `open` the weight of the pairs whose order is not known: Σ_b pos_b · neg_b if all clients use the same bins. Bins
where positives and negatives meet are split further, one exchange at a time, until the bound is small; where scores
fall apart it is zero, and the AUC is exact.
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
        least: Bins are joined from below until a run has at least so many rows; what is left above joins the last run.
    """
    where = np.searchsorted(edges, scores, side="right")
    runs = runs_of(np.bincount(where, minlength=len(edges) + 1), least)
    found = np.zeros((len(edges) + 1, 4))
    first, last = runs[0][where], runs[1][where]
    for column, (place, weight) in enumerate(
        ((first, positive), (last, positive), (first, negative), (last, negative))
    ):
        np.add.at(found[:, column], place, weight)
    return found


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


def refined(masses: Floats, edges: Floats, more: int) -> Floats:
    """Cut points with about so many more, where they lower the bound most; the same ones if none would.

    A bin whose pairs are open in the number c, cut in m, leaves about c/m of them open, so Σ c/m is least for
    m ~ √c. Half of a bin's cuts are at equal distances. The others are at equal distances among the floating-point
    numbers there are in it, so that tails without an end, and scores that lie close together near 0, are cut as well.
    """
    open_pairs = np.where(_single(edges), 0.0, masses[:, STARTS_POS] * masses[:, STARTS_NEG])
    if not open_pairs.any():
        return edges
    share = np.sqrt(open_pairs)
    pieces = np.ceil(more * share / share.sum()).astype(int)
    bounds = np.r_[-np.inf, edges, np.inf]
    cuts = [_cut(bounds[k], bounds[k + 1], int(pieces[k])) for k in np.flatnonzero(pieces)]
    return np.unique(np.concatenate([edges, *cuts]))


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


def _cut(low: float, high: float, pieces: int) -> Floats:
    half = max(pieces // 2, 1)
    first, last = _key(low), _key(high)
    keys = [first + (last - first) * step // (half + 1) for step in range(1, half + 1)]
    found = np.array([_number(key) for key in keys])
    if np.isfinite(low) and np.isfinite(high):
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
