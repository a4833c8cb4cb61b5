"""The files of several sites, each read by itself, and what they must agree on: the columns.

Nothing of one file decides how another is read. What holds for all is declared (by the caller, or by a schema), and
what a single file needs besides is declared for it. Columns are matched by name; a site whose columns differ is
rejected with the name of its file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsolve.data import advice
from fedsolve.data.csv_tables import Reading, Table, read_table
from fedsolve.data.dataset import Array
from fedsolve.data.missing_markers import Na, merged
from fedsolve.data.parquet_tables import is_parquet, read_parquet_table
from fedsolve.data.suspected_codes import suspected_codes
from fedsolve.errors import ConfigError, DataError, UnknownName
from fedsolve.tables.column_names import Names, difference, some, with_hints


@dataclass(frozen=True)
class SiteReading:
    """How one site's file is read, where it differs from the others.

    na       markers of missing cells, in addition to those for all sites
    rename   names of its columns, and what they are called everywhere: {"AGE": "age"}
    absent   columns of which this site has no values: all its cells are missing
    drop     columns that only this file has, and nobody needs

    The others are the fields of `Reading`, and replace those for all sites.
    """

    header: bool | None = None
    names: Sequence[str] | None = None
    na: Na | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    skip: int | None = None
    skip_footer: int | None = None
    rename: Mapping[str, str] | None = None
    absent: Sequence[str] = ()
    drop: Sequence[str] = ()

    def over(self, common: Reading) -> Reading:
        """How the file is read: as all are, except for what is said here."""
        own = {
            name: value
            for name in ("header", "names", "delimiter", "decimal", "thousands", "encoding", "skip", "skip_footer")
            if (value := getattr(self, name)) is not None
        }
        na = merged(common.na, self.na)
        if isinstance(na, Mapping):  # by the names that the file itself has
            turned = {new: old for old, new in (self.rename or {}).items()}
            na = {turned.get(name, name): markers for name, markers in na.items()}
        return replace(common, **own, na=na, shared_na=True)


def known_sites(sites: Mapping[str, SiteReading], paths: Mapping[str, Path]) -> dict[str, SiteReading]:
    """How each site's file is read. Raises UnknownName for a site that has none."""
    for name in sites:
        if name not in paths:
            raise UnknownName("site", name, paths)
    return {name: sites.get(name, SiteReading()) for name in paths}


def read_site(path: Path, common: Reading, own: SiteReading, kinds: Mapping[str, str]) -> Table:
    """One site's table, with its columns under the names that all sites use."""
    how = own.over(common)
    if not is_parquet(path):
        turned = {new: old for old, new in (own.rename or {}).items()}
        table = read_table(path, how, {turned.get(name, name): kind for name, kind in kinds.items()})
    else:
        table = read_parquet_table(path, how, kinds)
    columns = dict(table.columns)
    for old, new in (own.rename or {}).items():
        if old not in columns:
            raise UnknownName(f"column of {path} in rename", old, columns)
        if new in columns:
            raise ConfigError(f"{path}: {old!r} cannot be renamed {new!r}, which is a column of its own; drop one")
        columns = {new if name == old else name: values for name, values in columns.items()}
    for name in own.drop:
        if columns.pop(name, None) is None:
            raise UnknownName(f"column of {path} in drop", name, columns)
    for name in own.absent:
        if name in columns:
            raise ConfigError(
                f"{table.head}: column {name!r} is declared absent, and the file has it; keep one of both"
            )
        columns[name] = np.full(len(table.lines), np.nan)
    return replace(table, columns=columns, absent=frozenset(own.absent))


# ── columns ──


def agreed_features(
    tables: Mapping[str, Table],
    others: Collection[str],
    drop: Collection[str],
    declared: Names | None,
) -> Names:
    """The columns that are features, in the order of the schema or of the first site.

    Args:
        tables: Each site's table.
        others: Columns that every site must have and that are no features: targets, weights, offsets.
        drop: Columns that are no features either; a site may lack them.
        declared: Those of a schema.

    Raises DataError, with the file, for a site whose columns are others; UnknownName for one to drop that nobody has.
    """
    for site, table in tables.items():
        for name in others:
            if name not in table.columns:
                raise DataError(_lacks(table, name, site))
    for name in drop:
        if not any(name in table.columns for table in tables.values()):
            known = {one for table in tables.values() for one in table.columns}
            raise UnknownName("column to drop", name, known)
    own = {site: _features(table, {*others, *drop}) for site, table in tables.items()}
    first = next(iter(tables))
    wanted = own[first] if declared is None else declared
    if any(difference(names, wanted) for names in own.values()):
        against = f"the schema, which all sites use, declares {some(wanted)}"
        if declared is None:  # most sites are right: whoever differs from them is named
            wanted = _usual(list(own.values()))
            against = f"most sites have {some(wanted)}" if len(own) > 2 else f"the other has {some(wanted)}"
        site = next(site for site, names in own.items() if difference(names, wanted))
        lacking = {name: [one for one, names in own.items() if name not in names] for name in wanted}
        raise DataError(_other_columns(tables[site], site, own[site], wanted, against, lacking))
    if not wanted:
        raise DataError(f"{tables[first].path}: no column is left for features; check target and drop")
    return wanted


def _usual(sites: Sequence[Names]) -> Names:
    """The columns that at least half of the sites have."""
    union = dict.fromkeys(name for names in sites for name in names)
    return tuple(name for name in union if 2 * sum(name in names for names in sites) >= len(sites))


def _features(table: Table, left_out: Collection[str]) -> Names:
    return tuple(name for name in table.columns if name not in left_out)


def _lacks(table: Table, name: str, site: str) -> str:
    found = list(table.columns)
    said = with_hints([name], found)
    only = ""
    if len(found) == 1:
        only = "; all of the line is one cell, so check delimiter"
    elif table.header_line is None:
        only = f"; the file has no header, so give the names of its columns: {advice.names_of(site)}"
    return f"{table.head}: no column {said}; the file has {some(found)}{only}"


def _other_columns(
    table: Table, site: str, names: Names, wanted: Names, against: str, lacking: Mapping[str, Sequence[str]]
) -> str:
    """What is said of a site with other columns, and what to write; `lacking` are the sites that lack each column."""
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    undeclared = [name for name in extra if name in table.absent]
    if undeclared and not missing:
        return (
            f"{table.path}: {some(undeclared)} is declared absent for {site}, and {against}; declare it for all sites "
            f"({advice.schema_entry(undeclared[0])}), or take it out of absent"
        )
    if missing and extra:
        do = f"{advice.for_site(site, 'rename', {extra[0]: missing[0]})} if they are the same"
    elif missing:
        each = " and ".join(advice.for_site(one, "absent", [missing[0]]) for one in lacking[missing[0]])
        have = "these sites have" if len(lacking[missing[0]]) > 1 else "this site has"
        do = f"{advice.leave_out(missing[0])} to leave it out everywhere, or {each} if {have} no values of it"
    else:
        do = f"{advice.key('drop', [extra[0]])} to leave it out"
    return f"{table.head}: it {difference(names, wanted)}; {against}. Write {do}"


# ── cells ──


def check_numbers(tables: Mapping[str, Table], features: Sequence[str], what_to_do: str) -> None:
    """Raise DataError, with file, line and column, for a feature that is text."""
    for table in tables.values():
        for name in features:
            values = table.columns[name]
            if values.dtype == object:
                row = first_text(values)
                raise DataError(f"{table.where(row, name)}: {values[row]!r} is not a number; {what_to_do}")


def first_text(values: Array) -> int:
    """The first row of a column of texts whose cell is no number, or, if all are, the first with a text."""
    texts = [row for row, cell in enumerate(values) if isinstance(cell, str)]
    for row in texts:
        try:
            float(values[row])
        except ValueError:
            return row
    return texts[0] if texts else 0


def check_finite(table: Table, features: Sequence[str]) -> None:
    """Raise DataError, with file, line and column, for an infinite number."""
    for name in features:
        values = table.columns[name]
        if values.dtype != object and np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            raise DataError(f"{table.where(row, name)}: an infinite number; correct it, or leave the cell empty")


def check_codes(table: Table, features: Sequence[str], na: Na | None) -> list[str]:
    """Raise DataError for a number that is as a rule a code for "missing", such as -9 among values of 0 and more.
    Returns a sentence for each number that may be one, such as 999."""
    said = []
    for code, sentence in suspected_codes(table, features, na):
        if code < 0:
            raise DataError(sentence)
        said.append(sentence)
    return said
