"""Which sets of its rows runs have tried to use, whether they were let or not.

Whether a set is refused says something of the rows in it, and by the seed of `held_out` a server can choose among as
many sets as it likes, of rows whose places it knows. So only a few are tried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.sites.kept_file import KeptFile

MORE = 2  # times as many sets as may be used


def note_tried(path: Path, used: Sequence[np.ndarray], row_sets: int) -> None:
    """Remember the sets of a run, before they are judged. Raises PolicyRefusal if too many were tried already."""
    mark = hashlib.blake2b(digest_size=16)
    for one in used:
        mark.update(np.packbits(one).tobytes())
    kept, this = KeptFile(path), mark.hexdigest()
    with kept.alone():
        known = kept.read()
        if this in known:
            return
        if len(known) >= MORE * row_sets:
            raise PolicyRefusal(
                "row_sets",
                f"runs have tried {len(known)} different sets of rows here, by held_out and by complete cases, and "
                "this would be another: use the same share and seed as before",
            )
        kept.write({**known, this: len(known)})
