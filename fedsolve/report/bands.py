"""Several runs of one algorithm as one line with a band: their median, and how far they lie apart.

Runs are compared at the same number of rounds, bytes or seconds. Between two rounds a run stands where the earlier one
left it; a run that has ended stays where it ended; one that has diverged is at infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Spread = Literal["range", "quartiles"]
Path: TypeAlias = Sequence[tuple[float, float]]  # what was spent, and what was reached with it, in order

MOST_PLACES = 1000  # of a line


@dataclass(frozen=True)
class Band:
    """A line and its band, at the same places."""

    places: Floats
    middle: Floats
    low: Floats
    high: Floats


def band(paths: Sequence[Path], spread: Spread = "range") -> Band:
    """The median of several paths, and from the least to the largest of them, or from quartile to quartile.

    It begins where the last of them begins. Paths without any point are left out; quartiles are values of runs, the
    outer ones where one lies between two.
    """
    drawn = [np.array(path, dtype=np.float64) for path in paths if len(path)]
    if not drawn:
        nothing = np.empty(0)
        return Band(nothing, nothing, nothing, nothing)
    begin = max(path[0, 0] for path in drawn)
    places = _thinned(np.unique(np.concatenate([path[:, 0] for path in drawn])))
    places = places[places >= begin]
    reached = np.stack([_at(path, places) for path in drawn])
    low, high = (0.0, 1.0) if spread == "range" else (0.25, 0.75)
    return Band(
        places,
        np.median(reached, axis=0),
        np.quantile(reached, low, axis=0, method="lower"),
        np.quantile(reached, high, axis=0, method="higher"),
    )


def _at(path: Floats, places: Floats) -> Floats:
    """What a path had reached at these places, none of which lies before its beginning."""
    # Of several points at one place the last one counts.
    found: Floats = path[np.searchsorted(path[:, 0], places, side="right") - 1, 1]
    return np.where(np.isfinite(found), found, np.float64(np.inf))


def _thinned(places: Floats) -> Floats:
    if len(places) <= MOST_PLACES:
        return places
    kept: Floats = places[np.unique(np.linspace(0, len(places) - 1, MOST_PLACES).round().astype(int))]
    return kept
