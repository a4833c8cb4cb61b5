"""Values and markers of missing cells, as options of a command write them."""

from __future__ import annotations

from collections.abc import Sequence

from fedsolve.data.missing_markers import ALL, Listed, Marker
from fedsolve.tables.cells import MISSING, key


def value(text: str) -> str | int | float:
    """A text as a number, if it is one."""
    found = key(text)
    if isinstance(found, str):
        return found
    return int(found) if found == int(found) else found


def markers(given: Sequence[str]) -> dict[str, Listed] | None:
    """`--na -9 --na chol=0` as in a run file; the usual markers stay. `--na chol=` says that nothing marks a missing
    cell of this column, besides an empty one."""
    if not given:
        return None
    table: dict[str, list[Marker]] = {}
    for one in given:
        column, equals, marker = one.rpartition("=")
        found = table.setdefault(column if equals else ALL, [])
        if marker:
            found.append(value(marker))
    if ALL in table:
        table[ALL] = [*table[ALL], *MISSING]
    return dict(table)
