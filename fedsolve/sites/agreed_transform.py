"""The one transform of a run: with two of them a server could compare what the same rows give under both."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import PolicyRefusal
from fedsolve.plain import describe
from fedsolve.sites.kept_file import KeptFile

MOST_OPEN = 16  # transforms of a formula in which something is still to be learned


class AgreedTransform:
    """What the server of a run has asked for first, kept in the run's folder."""

    def __init__(self, path: Path) -> None:
        self.kept = KeptFile(path)

    def check(self, transform: Transform) -> None:
        """Raise PolicyRefusal for another transform than the run had before. A formula grows: first its knots and
        moments are learned, then its columns, then their units; what is known stays."""
        known = self.kept.read()
        for what, mark in _marks(transform).items():
            marks = known.setdefault(what, [])
            if not isinstance(marks, list):
                raise self.kept.unreadable("it holds no marks")
            if mark in marks:
                continue
            if len(marks) >= (MOST_OPEN if what == "open" else 1):
                raise PolicyRefusal(
                    "transform", "this run has had the site transform its columns otherwise before; begin a new run"
                )
            marks.append(mark)
            self.kept.write(known)


def _marks(transform: Transform) -> dict[str, str]:
    """Hashes of what of a transform is known, but for what was counted when it was agreed on."""
    numbers = zip(transform.fill.tolist(), transform.centre.tolist(), transform.scale.tolist(), strict=True)
    columns = [
        (column.name, *(float(one).hex() for one in each))
        for column, each in zip(transform.columns, numbers, strict=True)
    ]
    found = {"columns": repr(sorted(columns))}
    design = transform.design
    if design is not None and design.open:
        found["open"] = describe(design)
    elif design is not None:
        found["design"] = describe((design.names, design.factors, design.products, design.intercept))
        if design.scale:
            found["units"] = describe((design.centre, design.scale))
    return {what: hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for what, text in found.items()}
