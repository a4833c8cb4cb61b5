"""One file per site, each of which becomes a client: read by itself, matched with the others by name, never pooled.

sites = load_sites("sites/*.csv", target="readmitted", drop=["patient"])
run(algorithm, sites.clients, preprocess=Preprocess(schema))
print(*sites.notes, sep="\\n")            what was recognised: "bryn.csv: separated by ';', decimal comma"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import numpy as np

from fedsolve.data import advice
from fedsolve.data.complete_cases import complete_rows
from fedsolve.data.csv_tables import Reading, Table
from fedsolve.data.dataset import Array
from fedsolve.data.file_formats import matrix, numbers_of
from fedsolve.data.missing_markers import ALL, Na
from fedsolve.data.read_alike import FilesRead
from fedsolve.data.schema import Categorical, Schema
from fedsolve.data.site_names import Files, site_files
from fedsolve.data.site_tables import (
    SiteReading,
    agreed_features,
    check_codes,
    check_finite,
    check_numbers,
    known_sites,
    read_site,
)
from fedsolve.data.site_targets import site_targets
from fedsolve.data.unusual_cells import undeclared
from fedsolve.errors import ConfigError, DataError, UnknownName
from fedsolve.federation.client import Client
from fedsolve.tables.labels import Classes
from fedsolve.tables.outcomes import Positive


@dataclass(frozen=True)
class Sites:
    """The clients, one per file; their columns; what the targets 0, 1, … stand for; what was recognised or left out, a
    sentence each; and how the files were read, for `model.read_as`."""

    clients: tuple[Client, ...]
    feature_names: tuple[str, ...]
    classes: Classes | None
    notes: tuple[str, ...] = ()
    files_read: FilesRead | None = None


class ReadingKeys(TypedDict, total=False):
    """The fields of `fedsolve.data.csv_tables.Reading`, which says what they are."""

    header: bool | None
    names: Sequence[str] | None
    na: Na | None
    delimiter: str | None
    decimal: str | None
    thousands: str | None
    encoding: str | None
    skip: int
    skip_footer: int


@dataclass(frozen=True)
class Roles:
    """What the columns that are no features are for."""

    target: str | Sequence[str]
    weight: str | None = None
    offset: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        targets = (self.target,) if isinstance(self.target, str) else tuple(self.target)
        named = (*targets, *(one for one in (self.weight, self.offset) if one is not None))
        if len(set(named)) < len(named):
            raise ConfigError(f"target, weight and offset are different columns, got {', '.join(named)}")
        return named


def load_sites(
    files: Files,
    *,
    target: str | Sequence[str],
    weight: str | None = None,
    offset: str | None = None,
    drop: Sequence[str] = (),
    schema: Schema | None = None,
    numbers: bool = False,
    classes: Sequence[object] | None = None,
    positive: Positive | None = None,
    binary: bool = False,
    complete: bool | Sequence[str] = False,
    missing_target: Literal["error", "drop"] = "error",
    sites: Mapping[str, SiteReading] | None = None,
    folder: Path | None = None,
    alone: bool = False,
    **how: Unpack[ReadingKeys],
) -> Sites:
    """Read one csv or parquet file per site.

    Args:
        files: The files: a table of names and paths, a list of paths, or a pattern such as "sites/*.csv".
        target: The column to predict, or a list of several.
        weight, offset: Columns with a weight for each row, and with an offset of its prediction.
        drop: Columns that are no features. A site may lack them.
        schema: What the columns are, in their order; a cell that is no number in a numeric column is then rejected.
        numbers: Whether every feature must be a number; for use without a schema.
        classes: All labels of the target in order; by default the sorted labels of all sites.
        positive: Which values of the target are 1: a label, a list of labels, "> 0", or "1..4".
        binary: Whether two labels become 0 and 1.
        complete: True to leave out rows with a missing cell; or the columns that may not be missing.
        missing_target: "drop" to leave out rows without a target, weight or offset, instead of rejecting them.
        sites: What is different at single sites, by name; see `SiteReading`.
        folder, alone: Where relative paths start; and whether there are other sites elsewhere, with other labels.
        how: How all files are read: `header`, `names`, `na`, `delimiter`, `decimal`, `thousands`, `encoding`, `skip`,
            `skip_footer`. What is not given is recognised for each file by itself.

    Returns the clients, in the order of the files, and what was recognised.

    Raises DataError that says which file, line and column is not as expected, and what to write.
    """
    paths = site_files(files, folder)
    own = known_sites(sites or {}, paths)
    roles = Roles(target, weight, offset)
    common = Reading(**how, expected=roles.columns)
    kinds = _kinds(schema)
    tables = {name: read_site(path, common, own[name], kinds) for name, path in paths.items()}
    _check_markers(tables, common.na)
    declared = None if schema is None else tuple(column.name for column in schema.columns)
    features = agreed_features(tables, roles.columns, set(drop), declared)
    if numbers and schema is None:
        check_numbers(tables, features, advice.in_schema())
    notes = _notes(tables, features, schema, {name: own[name].over(common).na for name in paths})
    if complete or missing_target == "drop":
        tables, dropped = complete_rows(tables, _needed(roles, features, complete))
        notes += dropped
    y, found = site_targets(tables, target, classes, positive, binary, alone)
    clients = tuple(_client(name, table, features, y[name], roles, found) for name, table in tables.items())
    return Sites(clients, features, found, tuple(notes), FilesRead.of(how, sites or {}, offset))


def _kinds(schema: Schema | None) -> dict[str, str]:
    if schema is None:
        return {}
    return {column.name: "category" if isinstance(column, Categorical) else "number" for column in schema.columns}


def _check_markers(tables: Mapping[str, Table], na: Na | None) -> None:
    """A table of markers names columns that some site has."""
    if isinstance(na, Mapping):
        known = {name for table in tables.values() for name in table.columns}
        for name in na:
            if name != ALL and name not in known:
                raise UnknownName("column in na", name, known)


def _notes(
    tables: Mapping[str, Table], features: Sequence[str], schema: Schema | None, na: Mapping[str, Na | None]
) -> list[str]:
    """What is said of each file; raises DataError for a cell that looks like a code for a missing value, is infinite,
    or is of a category that must be declared."""
    said = []
    categories = [] if schema is None else [one for one in schema.columns if isinstance(one, Categorical)]
    named = {column.name for column in categories}
    numeric = [name for name in features if name not in named]
    for site, table in tables.items():
        said += [line] if (line := table.said()) else []
        check_finite(table, numeric)
        said += check_codes(table, numeric, na[site])
        said += [line for column in categories if (line := undeclared(table, column))]
        order = [name for name in table.columns if name in set(features)]
        if order != list(features):
            said.append(f"{table.name}: its columns are in another order, and matched by name")
    return said


def _needed(roles: Roles, features: Sequence[str], complete: bool | Sequence[str]) -> tuple[str, ...]:
    return (*roles.columns, *(features if complete is True else tuple(complete or ())))


def _client(
    name: str, table: Table, features: Sequence[str], y: Array, roles: Roles, classes: Classes | None
) -> Client:
    """A site's rows as a client. The features are the columns as they are: what is made of them is up to others."""
    weight = None if roles.weight is None else numbers_of(table, roles.weight, "a weight")
    if weight is not None and (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise DataError(f"{table.where(row, roles.weight or '')}: a weight of {weight[row]:g}; weights are 0 or more")
    offset = None if roles.offset is None else numbers_of(table, roles.offset, "an offset")
    X = matrix([table.columns[column] for column in features])
    if classes is not None and y.ndim == 1:  # labels by name, which the client itself numbers
        y = np.array(classes, dtype=object)[y.astype(np.intp)]
    return Client(name, X, y, weight, offset=offset, feature_names=features, classes=classes)
