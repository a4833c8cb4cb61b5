"""How the files of a run were read. Its model keeps this, so that a new file is read in the same way.

read = FilesRead(SiteReading(na={"chol": [-9]}), offset="log_years")
table = read.table(Path("new.csv"))          -9 is a missing cholesterol there, too
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve.data import advice
from fedsolve.data.csv_tables import Reading, Table
from fedsolve.data.missing_markers import ALL, Listed, Markers, Na, table_of
from fedsolve.data.site_tables import SiteReading, read_site
from fedsolve.errors import ConfigError, DataError, UnknownName
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.tables.cells import MISSING, key
from fedsolve.typing import Array


@dataclass(frozen=True)
class FilesRead:
    """How the files of a run were read.

    every   what was declared for all files: markers of missing cells, decimal mark, names of columns, …
    sites   what was declared for single sites besides; only sites of which something was
    offset  the column that was added to the linear predictor
    """

    every: SiteReading = SiteReading()  # noqa: RUF009  # frozen
    sites: Mapping[str, SiteReading] = field(default_factory=dict)
    offset: str | None = None

    @classmethod
    def of(cls, keys: Mapping[str, object], sites: Mapping[str, SiteReading], offset: str | None) -> FilesRead:
        """From the keys of [data]; those that say nothing of how a file is read are left out."""
        known = {one.name for one in fields(SiteReading)} - {"drop", "absent", "rename"}
        given: dict[str, Any] = {name: value for name, value in keys.items() if name in known}
        own = {name: replace(one, drop=()) for name, one in sites.items()}
        return cls(SiteReading(**given), {name: one for name, one in own.items() if one != SiteReading()}, offset)

    # ── files ──

    def to_plain(self) -> dict[str, Plain]:
        """As JSON has it."""
        sites: dict[str, Plain] = {name: _short(one) for name, one in self.sites.items()}
        return {"every": _short(self.every), "sites": sites, "offset": self.offset}

    @classmethod
    def from_plain(cls, plain: object) -> FilesRead:
        """What `to_plain` gave; raises DataError for anything else."""
        try:
            return Reader().make(cls, plain, "files_read")
        except ConfigError as error:
            raise DataError(f"this does not say how files were read: {error}") from None

    # ── new files ──

    def table(
        self, path: Path, kinds: Mapping[str, str], site: str | None = None, na: Mapping[str, Listed] | None = None
    ) -> tuple[Table, Na | None]:
        """A new file, read as those of the run were; and what marks its missing cells.

        Args:
            path: A csv or parquet file.
            kinds: What columns hold, as for `read_table`.
            site: Whose file it is: what was declared for that site holds too.
            na: Markers of missing cells by column, which take the place of the run's.

        Raises UnknownName for a site of which nothing was declared; DataError for a file that cannot be read, or that
        has a cell which marked a missing value at some site, where it is not known whose file it is.
        """
        if site is not None and site not in self.sites:
            if not self.sites:
                raise ConfigError(f"the run declared nothing of the file of {site!r} by itself; leave --site out")
            raise UnknownName("site whose file was read in a way of its own", site, self.sites)
        own = SiteReading() if site is None else _as_far_as_there(path, self, self.sites[site])
        how = self._common()
        if na is not None:
            before: dict[str, Listed] = {} if how.na is None else dict(table_of(how.na))
            how = replace(how, na={**before, **na})
        table = read_site(path, how, own, kinds)
        if site is None:
            self._check_sites(table, na or {})
        return table, own.over(how).na

    def _common(self) -> Reading:
        """How all files are read; a list of markers replaces the usual ones, as in the run."""
        return replace(self.every.over(Reading()), na=self.every.na)

    def _check_sites(self, table: Table, said: Mapping[str, Listed]) -> None:
        """Raise DataError for a cell that marked a missing value at one of the sites."""
        for site, own in self.sites.items():
            for name, markers in ({} if own.na is None else table_of(own.na)).items():
                for column in table.columns if name == ALL else [name] if name in table.columns else []:
                    found = _first(table.columns[column], Markers.of(markers))
                    if found is not None and column not in said:
                        cell = _shown(table.columns[column][found])
                        raise DataError(
                            f"{table.where(found, column)}: {cell}, which marked a missing value at {site} in the run; "
                            f"say --site {site} if it is that site's file, {advice.na(column, [cell])} if {cell} means "
                            f"missing here too, or {advice.na(column, [])} if it is a value"
                        )

    def renamed_at(self, columns: Sequence[str], missing: Sequence[str]) -> str:
        """A hint for a file that lacks columns under the names that all sites use; empty if no site renames them."""
        for site, own in self.sites.items():
            for old, new in (own.rename or {}).items():
                if old in columns and new in missing:
                    return f"; at {site} the run called {old!r} {new!r}, so say --site {site} if it is that site's file"
        return ""


def _short(own: SiteReading) -> dict[str, Plain]:
    """The fields of which something was said."""
    plain = to_plain(own)
    assert isinstance(plain, dict)
    return {name: value for name, value in plain.items() if name != "name" and value not in (None, [])}


def _as_far_as_there(path: Path, read: FilesRead, own: SiteReading) -> SiteReading:
    """What was declared for a site, without columns to rename or to miss that a new file has as they should be."""
    how = replace(own, rename=None, absent=(), drop=())
    columns = read_site(path, read._common(), how, {}).columns
    rename = {old: new for old, new in (own.rename or {}).items() if old in columns and new not in columns}
    kept = [name for name in own.absent if name not in columns]
    return replace(own, rename=rename or None, absent=kept, drop=())


def _first(values: Array, markers: Markers) -> int | None:
    """The first row whose cell is one of the markers, beside the usual ones."""
    texts = markers.texts - {"", *MISSING}
    if values.dtype != object:
        rows = np.flatnonzero(np.isin(values, markers.numbers))
        return int(rows[0]) if len(rows) else None
    for row, cell in enumerate(values):
        if isinstance(cell, str) and (cell in texts or key(cell) in markers.numbers):
            return row
    return None


def _shown(cell: object) -> str:
    return cell if isinstance(cell, str) else f"{cell:g}"
