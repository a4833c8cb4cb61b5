"""Columns of a csv file that are carried through to the predictions, such as the number of a patient.

They are read as text, apart from the table: as a number, the id 007 would come out as 7.0.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

from fedsolve.data.read_alike import FilesRead
from fedsolve.errors import ConfigError, DataError

SEPARATORS = (",", ";", "\t", "|")


def id_columns(source: str, wanted: Sequence[str], read: FilesRead | None = None) -> dict[str, list[str]]:
    """The cells of these columns, as they are written in a csv file with a header; lines above and below the table are
    left out as in the run's files (`read`). Raises DataError if it lacks one."""
    if not wanted:
        return {}
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError(f"--id names columns of a csv file, and {source} is no file")
    every = (read or FilesRead()).every
    text = "".join(_text(path).splitlines(keepends=True)[every.skip or 0 :])
    for separator in SEPARATORS:
        records = [row for row in csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True) if row]
        header = [cell.strip() for cell in records[0]] if records else []
        if all(name in header for name in wanted):
            return {
                name: _cells(source, records[1 : len(records) - (every.skip_footer or 0)], header, name)
                for name in wanted
            }
    header = [cell.strip() for cell in next(csv.reader(text.splitlines()[:1]), [])]
    missing = next((name for name in wanted if name not in header), wanted[0])
    raise DataError(f"{source}: no column {missing!r} for --id; expected one of {', '.join(header)}")


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix.lower())
        raw = raw if unpack is None else unpack(raw)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # which takes any bytes; only the cells of these columns are used


def _cells(source: str, rows: Sequence[Sequence[str]], header: Sequence[str], name: str) -> list[str]:
    if header.count(name) > 1:
        raise DataError(f"{source}: the header has {name!r} more than once, so --id {name} is ambiguous")
    place = header.index(name)
    if any(len(row) <= place for row in rows):
        raise DataError(f"{source}: a row has no cell in column {name!r}; every row needs as many cells as the header")
    return [row[place].strip() for row in rows]
