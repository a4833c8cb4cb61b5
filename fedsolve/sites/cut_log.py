"""Where the bins of all runs on a data file have cut its columns.

A leaf of a tree is a mean over the rows on one side of a cut. Two runs whose cuts enclose one row give what this row
adds to it: its residual, and so its class. Cuts are known by how many rows lie below them, whatever units a run has its
columns in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.learners.bins import Bins
from fedsolve.sites.kept_file import KeptFile
from fedsolve.typing import Array


class CutLog:
    """The cuts of all runs on one data file."""

    def __init__(self, path: Path) -> None:
        self.kept = KeptFile(path)

    def check(self, bins: Bins, values: Mapping[str, Array], learned: Array, least: int) -> None:
        """Remember the cuts of a run. Raises PolicyRefusal where they and earlier ones enclose rows, but fewer than
        `least`.

        Args:
            bins: Those that the run has agreed on.
            values: The columns at all rows of the file, by their names in the order of the bins.
            learned: Which of the rows the run learns from.
            least: How few are too few.
        """
        with self.kept.alone():
            known = self.kept.read()
            for place, (name, column) in enumerate(values.items()):
                before = known.get(name, [])
                if not isinstance(before, list) or not all(isinstance(one, int) for one in before):
                    raise self.kept.unreadable(f"what it says of {name!r} is nothing that was kept")
                there = np.flatnonzero(~np.isnan(column))
                order = there[np.argsort(column[there], kind="stable")]
                new = np.searchsorted(column[order], bins.column(place), side="right")
                if before and _enclosed(new, np.array(before), learned[order], least):
                    raise PolicyRefusal(
                        "bins",
                        f"the bins of this run and those of an earlier one here cut column {name!r} so close to each "
                        f"other that fewer than {least} rows lie between, and what trees say of both would tell of "
                        "these: agree on the same bins (the same sites, held_out and number of bins), or let the site "
                        "set bins = false in its policy if it trusts the server",
                    )
                known[name] = sorted({*before, *new.tolist()})
            self.kept.write(known)


def _enclosed(new: Array, before: Array, learned: Array, least: int) -> bool:
    """Whether some new cut encloses rows that are learned from, but fewer than `least`, with an earlier one, and is not
    itself one of the earlier ones. Cuts are the numbers of rows below them."""
    below = np.concatenate([[0], np.cumsum(learned)])
    known = np.unique(below[np.clip(before, 0, len(learned))])
    here = below[new]
    at = np.searchsorted(known, here)
    up, down = known[np.minimum(at, len(known) - 1)], known[np.maximum(at - 1, 0)]
    distance = np.minimum(np.abs(up - here), np.abs(down - here))
    return bool(((distance > 0) & (distance < least)).any())
