"""Which sets of its rows a site has answered from, over all runs.

A run may set rows aside to judge by, and may leave out incomplete ones. Two sets that differ in one row give that row
away: the sums over both are subtracted. So a new set of rows is used only if no sum or difference of the sets that were
used (each taken up to twice) leaves fewer than `min_rows` rows, and there are at most `row_sets` of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fedsolve.errors import PolicyRefusal, StorageError
from fedsolve.sites.policy import Policy
from fedsolve.wire.storage import write_atomically, writing

AT_ONCE = 5  # sets of which all combinations are looked at together; with the others one after the other


def check_row_sets(folder: Path, file_mark: str, used: Iterable[np.ndarray], policy: Policy) -> None:
    """Remember masks of the rows that a run uses. Raises PolicyRefusal if they are too close to those of other runs."""
    known = known_sets(folder, file_mark)
    keep_sets(folder, file_mark, known, with_used(known, used, policy))


def known_sets(folder: Path, file_mark: str) -> list[np.ndarray]:
    """The sets of rows that runs have used."""
    return _read(_path(folder, file_mark))


def with_used(known: Sequence[np.ndarray], used: Iterable[np.ndarray], policy: Policy) -> list[np.ndarray]:
    """The known sets and those that a run uses. Raises PolicyRefusal if these are too close to the others."""
    found = list(known)
    for mask in used:  # too few rows are not used at all, which is a rule of its own
        if mask.sum() < policy.min_rows or any(np.array_equal(mask, one) for one in found):
            continue
        if len(found) >= policy.row_sets:
            raise PolicyRefusal(
                "row_sets",
                f"runs have used {len(found)} different sets of rows here, by held_out and by complete cases, and this "
                "would be another: use the same share and seed as before",
            )
        found.append(mask)
        if _fewest(np.stack(found)) < policy.min_rows:
            raise PolicyRefusal(
                "row_sets",
                f"this run would use all but fewer than {policy.min_rows} of the rows that another one used, and their "
                "difference would tell of these: use the same held_out, and impute the same way",
            )
    return found


def keep_sets(folder: Path, file_mark: str, known: Sequence[np.ndarray], sets: Sequence[np.ndarray]) -> bool:
    """Remember the sets that `with_used` made of the known ones. False, and nothing is changed, if others are known by
    now: then these have to be judged again. Nobody else may be in here at the same time."""
    path = _path(folder, file_mark)
    now = _read(path)
    if len(now) != len(known) or not all(map(np.array_equal, now, known)):
        return False
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(sets) != len(known) or not path.exists():
        plain = {"rows": len(sets[0]) if sets else 0, "sets": [np.packbits(one).tobytes().hex() for one in sets]}
        write_atomically(path, json.dumps(plain).encode())
    return True


def _path(folder: Path, file_mark: str) -> Path:
    return folder / f"row-sets-{file_mark}.json"


def _fewest(sets: np.ndarray) -> int:
    """The fewest rows, but none, that a combination of the sets leaves."""
    patterns, counts = np.unique(sets, axis=1, return_counts=True)
    small = patterns.astype(np.int8)  # a combination of eight sets is at most 16
    some, others = small[:AT_ONCE], small[AT_ONCE:]
    least, first = len(sets[0]), _factors(len(some)) @ some
    for factors in _factors(len(others)):
        left = (first + factors @ others != 0) @ counts
        least = min(least, left[left > 0].min(initial=least))
    return int(least)


def _factors(sets: int) -> np.ndarray:
    """By what the sets of a combination are multiplied, for all combinations."""
    return np.array(list(itertools.product((-2, -1, 0, 1, 2), repeat=sets)), dtype=np.int8)


def _read(path: Path) -> list[np.ndarray]:
    if not path.exists():
        return []
    try:
        plain = json.loads(path.read_text())
        packed = [np.frombuffer(bytes.fromhex(one), dtype=np.uint8) for one in plain["sets"]]
        return [np.unpackbits(one, count=plain["rows"]).astype(bool) for one in packed]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} cannot be read: {error}; move it away if you know why") from error
