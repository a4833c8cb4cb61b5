"""Which sets of its rows a site has answered from, over all runs.

A run may set rows aside to judge by, and may leave out incomplete ones. Two sets that differ in one row give that row
away: the sums over both are subtracted. So a new set of rows is used only if no sum or difference of the sets that were
used (each taken up to twice) leaves fewer than `min_rows` rows, and there are at most `row_sets` of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedsolve.errors import PolicyRefusal, StorageError
from fedsolve.sites.policy import Policy
from fedsolve.wire.storage import write_atomically, writing


def check_row_sets(folder: Path, file_mark: str, used: Iterable[np.ndarray], policy: Policy) -> None:
    """Remember masks of the rows that a run uses. Raises PolicyRefusal if they are too close to those of other runs."""
    path = folder / f"row-sets-{file_mark}.json"
    known = _read(path)
    for mask in used:  # too few rows are not used at all, which is a rule of its own
        if mask.sum() < policy.min_rows or any(np.array_equal(mask, one) for one in known):
            continue
        if len(known) >= policy.row_sets:
            raise PolicyRefusal(
                "row_sets",
                f"runs have used {len(known)} different sets of rows here, by held_out and by complete cases, and this "
                "would be another: use the same share and seed as before",
            )
        known.append(mask)
        if _fewest(np.stack(known)) < policy.min_rows:
            raise PolicyRefusal(
                "row_sets",
                f"this run would use all but fewer than {policy.min_rows} of the rows that another one used, and their "
                "difference would tell of these: use the same held_out, and impute the same way",
            )
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = {"rows": len(known[0]) if known else 0, "sets": [np.packbits(one).tobytes().hex() for one in known]}
    write_atomically(path, json.dumps(plain).encode())


def _fewest(sets: np.ndarray) -> int:
    """The fewest rows, but none, that a combination of the sets leaves."""
    patterns, counts = np.unique(sets, axis=1, return_counts=True)
    combined = np.array(list(itertools.product((-2, -1, 0, 1, 2), repeat=len(sets)))) @ patterns.astype(np.int64)
    left = (combined != 0).astype(np.int64) @ counts
    return int(left[left > 0].min())


def _read(path: Path) -> list[np.ndarray]:
    if not path.exists():
        return []
    try:
        plain = json.loads(path.read_text())
        packed = [np.frombuffer(bytes.fromhex(one), dtype=np.uint8) for one in plain["sets"]]
        return [np.unpackbits(one, count=plain["rows"]).astype(bool) for one in packed]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} cannot be read: {error}; move it away if you know why") from error
