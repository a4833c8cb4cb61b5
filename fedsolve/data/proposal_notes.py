"""What `fedsolve init` says of all files together: cells that are missing, and files that are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedsolve.data import advice
from fedsolve.data.csv_tables import Table
from fedsolve.data.schema import Categorical, Column


def missing_cells(
    tables: Mapping[str, Table], columns: Sequence[Column], codes: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, int]]:
    """How many cells of each column are missing, by site; codes for missing values count."""
    found = {}
    for column in columns:
        counts = {site: _missing(table, column, codes.get(column.name, ())) for site, table in tables.items()}
        if any(counts.values()):
            found[column.name] = {site: count for site, count in counts.items() if count}
    return found


def missing_notes(columns: Sequence[Column], gaps: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Where cells are missing, and what stands for them: a sentence for numbers, and one for categories."""
    numbers = [one.name for one in columns if not isinstance(one, Categorical)]
    modes = [one.name for one in columns if isinstance(one, Categorical) and one.needs_mode]
    return [
        *_said({name: gaps[name] for name in numbers if name in gaps}, "they become the mean over all sites"),
        *_said({name: gaps[name] for name in modes if name in gaps}, "they become the most frequent category"),
    ]


def _said(found: Mapping[str, Mapping[str, int]], becomes: str) -> list[str]:
    if not found:
        return []
    listed = [
        f"{name} {' and '.join(f'{count} at {site}' for site, count in at.items())}" for name, at in found.items()
    ]
    count = sum(sum(at.values()) for at in found.values())
    more = f" and {len(listed) - advice.MOST_NAMED} more columns" if len(listed) > advice.MOST_NAMED else ""
    cells = "1 cell is" if count == 1 else f"{count:,} cells are"
    complete = advice.for_columns(list(found), "impute", "complete")
    return [
        f"{cells} missing ({', '.join(listed[: advice.MOST_NAMED])}{more}); {becomes}. R's glm would leave these rows "
        f"out: for that write {complete}"
    ]


def _missing(table: Table, column: Column, codes: Sequence[float]) -> int:
    values = table.columns[column.name]
    coded = np.isin(values, codes) if values.dtype != object else np.zeros(len(values), dtype=bool)
    return int((column.missing(values) | coded).sum())


def same_rows(tables: Mapping[str, Table]) -> list[str]:
    """That two sites have files with the same contents, byte by byte."""
    seen: dict[bytes, str] = {}
    said = []
    for site, table in tables.items():
        with Path(table.path).open("rb") as file:
            mark = hashlib.file_digest(file, hashlib.blake2b).digest()
        other = seen.setdefault(mark, site)
        if other != site:
            said.append(
                f"{tables[other].name} and {table.name} have the same contents, so every row of {other} counts twice; "
                f"was one meant to be another file than {site}'s?"
            )
    return said
