"""What stood for missing cells in the runs of a site, over all of them.

Two runs that put different numbers into the empty cells of a column differ in these rows alone, so that the difference
of what they were sent is a sum over these rows. Where they are few, all runs fill them alike. A column without few gaps
in this run may have few beside another column in the next one, so everything is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fedsolve.errors import PolicyRefusal
from fedsolve.sites.kept_file import KeptFile
from fedsolve.text import listed

Known: TypeAlias = dict[str, tuple[frozenset[str], bool]]  # by column, its fills, and whether its gaps were ever few
ENOUGH = 2  # different fills are remembered: that they differ is all there is to know


@dataclass(frozen=True)
class Fill:
    """What stands for the missing cells of a column, and whether they are few."""

    what: str
    few: bool


class FillLog:
    """The fills of all runs on one data file."""

    def __init__(self, path: Path) -> None:
        self.kept = KeptFile(path)

    def check(self, fills: Mapping[str, Fill]) -> None:
        """Raise PolicyRefusal for a column that an earlier run filled otherwise, where its gaps are few."""
        _merged(self._known(), fills)

    def keep(self, fills: Mapping[str, Fill]) -> None:
        """Check again, and remember, before anything is answered that depends on it."""
        if not fills:
            return
        with self.kept.alone():
            known = self._known()
            merged = _merged(known, fills)
            if merged != known:
                self.kept.write({name: {"fills": sorted(whats), "few": few} for name, (whats, few) in merged.items()})

    def _known(self) -> Known:
        found: Known = {}
        for name, one in self.kept.read().items():
            match one:
                case {"fills": list(whats), "few": bool(few)}:
                    found[name] = frozenset(map(str, whats)), few
                case _:
                    raise self.kept.unreadable(f"what it says of {name!r} is nothing that was kept")
        return found


def _merged(known: Known, fills: Mapping[str, Fill]) -> Known:
    found, differ = dict(known), []
    for name, fill in fills.items():
        whats, few = found.get(name, (frozenset(), False))
        few = few or fill.few
        if few and whats - {fill.what}:
            differ.append(name)
        found[name] = (whats | {fill.what} if len(whats) < ENOUGH else whats), few
    if differ:
        of, first = listed(f"column {name!r}" for name in differ), json.dumps(differ[0], ensure_ascii=False)
        raise PolicyRefusal(
            "fills",
            f"earlier runs here put something else into the missing cells of {of}, and the difference would tell of "
            "the rows that have them. Impute as those runs did: by the mean over the same sites and rows, or by what "
            f"it was: impute = NUMBER under name = {first} in [[preprocess.schema]] of the run file, with all digits "
            f'of fs.load_model("…/model.npz").transform.fills[{first}], where the model is of one of those runs (of a '
            "column of categories it is a category). Or leave the column out",
        )
    return found
