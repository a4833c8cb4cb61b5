"""The rows that `fedsolve predict` is given: read as the files of the model's run were, and checked like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsolve import data as rooms
from fedsolve.data import advice
from fedsolve.data.csv_tables import Table, is_number
from fedsolve.data.dataset import is_missing
from fedsolve.data.file_formats import numbers_of
from fedsolve.data.load import format_of
from fedsolve.data.missing_markers import Listed, Na
from fedsolve.data.read_alike import FilesRead
from fedsolve.data.schema import Categorical, Column
from fedsolve.data.site_tables import check_codes, check_finite
from fedsolve.data.unusual_cells import missing_cells, undeclared
from fedsolve.errors import DataError
from fedsolve.models import Model
from fedsolve.tables.column_names import are_counted, chosen_columns, first_names
from fedsolve.tables.outcomes import recoded
from fedsolve.typing import Array

TABLES = ("csv", "parquet")


@dataclass(frozen=True)
class Asked:
    """What the user has said of the rows.

    target  the column with the true values
    drop    columns that are no features
    site    whose file it is
    na      what marks a missing cell, by column
    offset  whether the column of the run's offset is used
    """

    target: str | None = None
    drop: Sequence[str] = ()
    site: str | None = None
    na: Mapping[str, Listed] | None = None
    offset: bool = True


@dataclass(frozen=True)
class NewRows:
    """Rows to predict.

    X         the inputs in the model's order
    complete  which of the rows have every value that the model must have; None: all
    truth     the targets: classes by name, or numbers
    offset    what is added to the linear predictor
    notes     what was recognised, is missing or was never seen in the run, a sentence each
    """

    X: Array
    complete: Array | None = None
    truth: Array | None = None
    offset: Array | None = None
    notes: tuple[str, ...] = ()


def new_rows(source: str, model: Model, names: Sequence[str] | None, asked: Asked) -> NewRows:
    """Read the rows of a file or a data set. `names` are the raw columns of the model, in its order.

    Raises DataError, with line and column, for what the model does not take.
    """
    path = Path(source).expanduser()
    known = source in {info.name for info in rooms.datasets()}
    with advice.written_in("command"):
        if not known and path.is_file() and format_of(path) in TABLES:
            return _of_table(path, model, names, asked)
        loaded = rooms.load(source)  # features and targets are apart already
    return NewRows(loaded.inputs_for(names), truth=loaded.labels if model.is_classifier else loaded.y)


def _of_table(path: Path, model: Model, wanted: Sequence[str] | None, asked: Asked) -> NewRows:
    table, na, notes = _read(path, model, wanted, asked)
    for column in (*asked.drop, *([] if asked.target is None else [asked.target])):
        if column not in table.columns:
            raise DataError(f"{path}: no column {column!r}; expected one of {', '.join(table.columns)}")
    table = _with_unneeded(table, model)
    read, others = model.files_read or FilesRead(), {*asked.drop, asked.target}
    try:
        names = chosen_columns(str(path), list(table.columns), wanted, others, model.columns)
    except DataError as error:
        lacking = [name for name in wanted or () if name not in table.columns]
        raise DataError(f"{error}{read.renamed_at(list(table.columns), lacking)}") from None
    kinds = list(model.transform.columns) if model.transform is not None else [None] * len(names)
    needed = None if model.transform is None else model.transform.needed
    looked = [(j, name, kinds[j]) for j, name in enumerate(names) if needed is None or name in needed]
    numeric = [name for _, name, kind in looked if not isinstance(kind, Categorical)]
    for name in numeric:
        _check_numbers(table, name)
    check_finite(table, numeric)
    notes += check_codes(table, numeric, na)
    said, complete = _gaps(table, model, looked)
    truth = None if asked.target is None else recoded(table.columns[asked.target], getattr(model, "classes", None))
    offset = _offset(table, read, asked) if asked.offset else None
    return NewRows(_matrix([table.columns[name] for name in names]), complete, truth, offset, (*notes, *said))


def _read(path: Path, model: Model, wanted: Sequence[str] | None, asked: Asked) -> tuple[Table, Na | None, list[str]]:
    """The file as a table; the columns of one without a header are those of the model, in its order."""
    read = model.files_read or FilesRead()
    declared = () if model.transform is None else model.transform.columns
    kinds = {column.name: "category" for column in declared if isinstance(column, Categorical)}
    table, na = read.table(path, kinds, asked.site, asked.na)
    notes = [line] if (line := table.said()) else []
    found = list(table.columns)
    if wanted is None or are_counted(wanted) or not are_counted(found):
        return table, na, notes
    features = [name for name in found if name not in (*asked.drop, asked.target)]
    if len(features) != len(wanted):
        raise DataError(
            f"{path}: the file has no header. It has {len(features)} columns, and the model takes {len(wanted)} "
            f"({first_names(wanted)}); write the names of the columns in its first line, or say what is no feature "
            "with --target and --drop"
        )
    by_place = dict(zip(features, wanted, strict=True))
    headed = replace(read, every=replace(read.every, names=[by_place.get(name, name) for name in found], header=False))
    table, na = headed.table(path, kinds, asked.site, asked.na)
    notes.append(f"{path.name}: the file has no header; its columns are taken for {first_names(wanted)}, in this order")
    return table, na, notes


def _with_unneeded(table: Table, model: Model) -> Table:
    """The table with the columns that a formula does not name, which may be lacking, or hold anything."""
    if model.transform is None or model.transform.needed is None:
        return table
    empty = np.full(len(table.lines), np.nan)
    others = set(model.input_names or ()).difference(model.transform.needed)
    return replace(table, columns={**table.columns, **dict.fromkeys(others, empty)})


def _gaps(
    table: Table, model: Model, looked: Sequence[tuple[int, str, Column | None]]
) -> tuple[list[str], Array | None]:
    """What is said of cells that are missing or of no declared category, and which rows can be predicted."""
    said: list[str] = []
    complete = np.ones(len(table.lines), dtype=bool)
    for place, name, kind in looked:
        if kind is None:
            continue
        if isinstance(kind, Categorical) and (line := undeclared(table, kind, name)):
            said.append(line)
        assert model.transform is not None
        if line := missing_cells(table, kind, name, float(model.transform.fill[place])):
            said.append(line)
        if kind.is_complete:
            complete &= ~kind.missing(table.columns[name])
    count = int((~complete).sum())
    if count:
        said.append(
            f"{table.name}: {count} of {len(complete)} rows lack a value that the model needs (it was fitted to "
            "complete rows), and get no prediction"
        )
    return said, complete if count else None


def _offset(table: Table, read: FilesRead, asked: Asked) -> Array | None:
    """The offsets, from the column that the run took them from."""
    if read.offset is None:
        return None
    if read.offset not in table.columns:
        raise DataError(
            f"{table.head}: no column {read.offset!r}, the offset of the run; add it, or say --no-offset to predict "
            "for an offset of 0"
        )
    return numbers_of(table, read.offset, "an offset")


def missing_truth(truth: Array) -> Array:
    """Where a target is missing."""
    return is_missing(truth) if truth.ndim == 1 else is_missing(truth).any(axis=1)


def _check_numbers(table: Table, name: str) -> None:
    cells = table.columns[name]
    if cells.dtype != object:
        return
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and not is_number(cell):
            raise DataError(
                f"{table.where(row, name)}: {cell!r} is not a number; correct it, or say {advice.na(name, [cell])} if "
                "it means that the value is missing"
            )


def _matrix(columns: Sequence[Array]) -> Array:
    if all(column.dtype.kind == "f" for column in columns):
        return np.column_stack(columns)
    X = np.empty((len(columns[0]), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        X[:, place] = column
    return X
