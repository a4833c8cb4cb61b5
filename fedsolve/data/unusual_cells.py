"""Cells that are missing or of no declared category: where they are, how many, and what stands for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.data import advice
from fedsolve.data.csv_tables import Table
from fedsolve.data.schema import Categorical, Column, Numeric
from fedsolve.errors import DataError
from fedsolve.tables.column_names import some
from fedsolve.typing import Array

EXAMPLES = 3  # different cells, or lines, that are named


def undeclared(table: Table, column: Categorical, name: str | None = None) -> str:
    """What is said of values that a schema does not declare: where they are, and what they count as; empty if there are
    none. `name` is what the file calls the column. Raises DataError where they, or missing ones, are rejected."""
    name = name or column.name
    codes = column.codes(table.columns[name])
    rows = np.flatnonzero(codes == len(column.categories))
    if column.unseen == "error" and _is_required(column):
        _reject(table, column, name, np.flatnonzero((codes == -1) | (codes == len(column.categories))))
    elif column.unseen == "error":
        _reject(table, column, name, rows)
    if not len(rows):
        return ""
    found: dict[object, int] = {}
    for row in rows:
        found.setdefault(table.columns[name][row], int(row))
    others = [f"{_shown(cell)} in {table.unit} {int(table.lines[row])}" for cell, row in list(found.items())[1:]]
    also = ", ".join(others[:EXAMPLES]) + (" …" if len(others) > EXAMPLES else "")
    return (
        f"{table.place(int(rows[0]), name)}: {_shown(next(iter(found)))} is none of the declared categories "
        f"({some(column.categories)}), as in {_share(len(rows), table, also)}; they count as {_place(column)}"
    )


def _is_required(column: Categorical) -> bool:
    """Whether a missing cell goes where an undeclared one goes."""
    return column.impute is None and not column.indicator


def _reject(table: Table, column: Categorical, name: str, rows: Array) -> None:
    if not len(rows):
        return
    cell = table.columns[name][rows[0]]
    said = f"{_shown(cell)} is none of" if cell == cell else "the cell is missing, and so in none of"
    count = "" if len(rows) == 1 else f", as in {_share(len(rows), table)}"
    raise DataError(
        f"{table.where(int(rows[0]), name)}: {said} the declared categories ({some(column.categories)}){count}; "
        f"correct it, or {advice.undeclared(column.name)}"
    )


def _place(column: Categorical) -> str:
    if column.unseen == "other":
        return "the category 'other'"
    first = column.categories[0]
    return f"{_shown(first)}, the reference" if column.drop_first else "none of them"


def missing_cells(table: Table, column: Column, name: str, fill: float) -> str:
    """What is said of missing cells in new rows, with what stands for them; empty if there are none. `fill` is that of
    the transform. Raises DataError where nothing does."""
    rows = np.flatnonzero(column.missing(table.columns[name]))
    if not len(rows) or column.is_complete:
        return ""
    where = f"{table.name}: {name} is missing in {_share(len(rows), table, _lines(table, rows))}"
    if isinstance(column, Numeric):
        if column.keeps_missing:
            return f"{where}; the model takes that as it is"
        if np.isnan(fill):
            raise DataError(f"{where}, and the run had nothing to put in its place; fill it in, or leave the rows out")
        stands = {"mean": "the mean of the run", "mode": "the most frequent value of the run"}.get(
            str(column.impute), "as the run declared"
        )
        return f"{where}; {fill:.4g} stands for it, {stands}"
    if not np.isnan(fill):
        chosen = "the most frequent category of the run" if column.needs_mode else "as the run declared"
        return f"{where}; {_shown(column.categories[int(fill)])} stands for it, {chosen}"
    return f"{where}; they count as {'missing' if column.indicator else _place(column)}"


def _share(count: int, table: Table, lines: str = "") -> str:
    whole = len(table.lines)
    also = f"; {lines}" if lines else ""
    return f"{count:,} of {whole:,} row{'' if whole == 1 else 's'} ({count / whole:.1%}{also})"


def _lines(table: Table, rows: Sequence[int] | Array) -> str:
    shown = ", ".join(str(int(table.lines[row])) for row in rows[:EXAMPLES])
    return f"{table.unit}{'' if len(rows) == 1 else 's'} {shown}{' …' if len(rows) > EXAMPLES else ''}"


def _shown(cell: object) -> str:
    return repr(cell) if isinstance(cell, str) else f"{cell:g}"
