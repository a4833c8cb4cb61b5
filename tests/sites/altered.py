"""The hospitals with other cells, other columns, and one of them as it starts for a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.sites import HeldOut, Site, Terms, read_site_file
from fedsolve.sites.known_protocols import described
from tests.sites.hospitals import COLUMNS, LOSS, PREPROCESS, Hospitals, terms

NEWTON = fs.Newton(LOSS)


def edited(folder: Path, change: Callable[[int, list[str]], list[str]], site: str = "arden") -> None:
    """Change the cells (age, pressure, sex, ill) of each row of a hospital."""
    file = folder / f"{site}.csv"
    head, *lines = file.read_text().splitlines()
    changed = [",".join(change(row, line.split(","))) for row, line in enumerate(lines)]
    file.write_text("\n".join([head, *changed]) + "\n")


def gaps(folder: Path, *rows: int, column: int = 1, site: str = "arden") -> None:
    """Empty the cells of a column in some rows."""

    def change(row: int, cells: list[str]) -> list[str]:
        return ["" if row in rows and place == column else cell for place, cell in enumerate(cells)]

    edited(folder, change, site)


def schema(**changed: Mapping[str, object]) -> fs.data.Preprocess:
    """The usual columns, some with other settings."""
    return fs.data.Preprocess(
        Schema.from_plain([{**column, **changed.get(str(column["name"]), {})} for column in COLUMNS])
    )


def begins(found: Hospitals, preprocess: fs.data.Preprocess = PREPROCESS, algorithm: Any = NEWTON, **more: Any) -> Site:
    """arden, when it starts for a run, before anything is asked."""
    plain = described({"algorithm": algorithm, "preprocess": preprocess, **more})
    asked = Terms(terms().run, plain, held_out=HeldOut(0.3) if "evaluation" in more else None)
    return Site(read_site_file(found.files["arden"]), asked)
