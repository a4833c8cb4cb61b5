"""A parquet file as columns by name. Needs pyarrow: `pip install "fedsolve[parquet]"`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve.data.csv_tables import Reading, Table
from fedsolve.data.dataset import Array
from fedsolve.data.doubtful_numbers import rounded_integers
from fedsolve.data.missing_markers import Markers, markers_for
from fedsolve.data.text_files import FilePath
from fedsolve.errors import DataError
from fedsolve.tables.column_names import checked_names

MAGIC = b"PAR1"


def is_parquet(path: FilePath) -> bool:
    """Whether a file is parquet, by its first bytes."""
    with Path(path).open("rb") as file:
        return file.read(4) == MAGIC


def read_parquet_table(path: FilePath, how: Reading | None = None, kinds: Mapping[str, str] | None = None) -> Table:
    """The table in a parquet file: numbers and truth values as float64, texts and dates as texts, nulls missing.

    Of `how` only `names` (instead of the file's own) and `na` apply. Raises DataError for columns of other types.
    """
    arrow = _arrow(path)
    try:
        read = arrow.read_table(path)
    except Exception as error:  # pyarrow's errors have no common base beside it
        raise DataError(f"{path}: cannot be read as parquet: {error}") from error
    how = how or Reading()
    given = how.names
    if given is not None and len(given) != read.num_columns:
        raise DataError(f"{path}: {read.num_columns} columns and {len(given)} names; expected one for each.")
    names = checked_names(given or read.column_names, str(path))
    if read.num_rows == 0:
        raise DataError(f"{path}: no rows; expected at least one.")
    markers = markers_for(names, how.na, str(path), how.shared_na)
    rounded = frozenset(rounded_integers({name: read.column(place).to_pylist() for place, name in enumerate(names)}))
    columns = {
        name: _values(path, name, read.column(place), markers[name], (kinds or {}).get(name))
        for place, name in enumerate(names)
    }
    facts = tuple(f"{name} has whole numbers that are too long to be kept exactly" for name in names if name in rounded)
    return Table(path, columns, np.arange(1, read.num_rows + 1), facts, unit="row", rounded=rounded)


def _arrow(path: FilePath) -> Any:
    try:
        import pyarrow.parquet as found

        return found
    except ImportError:
        raise DataError(
            f'{path}: reading parquet files needs pyarrow: pip install "fedsolve[parquet]", or save it as csv'
        ) from None


def _values(path: FilePath, name: str, column: Any, markers: Markers, kind: str | None) -> Array:
    cells = column.to_pylist()
    for row, cell in enumerate(cells, start=1):
        if isinstance(cell, dict | list | bytes):
            raise DataError(
                f"{path}, row {row}, column {name}: a value of type {column.type}; expected numbers or texts"
            )
    if all(cell is None or isinstance(cell, bool | int | float) or _is_decimal(cell) for cell in cells):
        values = np.array([math.nan if cell is None else float(cell) for cell in cells])
        for number in markers.numbers:
            values[values == number] = math.nan
        return values
    if kind == "number":
        row = next(row for row, cell in enumerate(cells) if cell is not None and not isinstance(cell, int | float))
        raise DataError(f"{path}, row {row + 1}, column {name}: {str(cells[row])!r} is not a number")
    made = np.empty(len(cells), dtype=object)
    made[:] = [math.nan if cell is None or markers.hold(str(cell).strip()) else str(cell).strip() for cell in cells]
    return made


def _is_decimal(cell: object) -> bool:
    return type(cell).__name__ == "Decimal"
