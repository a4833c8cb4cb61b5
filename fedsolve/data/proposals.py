"""A schema for all sites, proposed from what each says of its own file, and a loss for their target.

    proposal = propose("sites/*.csv", target="readmitted")
    proposal.schema, proposal.drop, proposal.na        what to declare
    proposal.notes                                     why, a sentence each

Nothing is decided that could not be changed: what is proposed is written into a run file for people to read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedsolve.data import advice
from fedsolve.data.column_facts import MOST_CODES, ColumnFacts, facts_of, rounded_range, shared_gaps
from fedsolve.data.csv_tables import Reading, Table
from fedsolve.data.missing_markers import without_markers
from fedsolve.data.proposal_notes import missing_cells, missing_notes, same_rows
from fedsolve.data.schema import Categorical, Column, Numeric, Schema
from fedsolve.data.site_names import Files, site_files
from fedsolve.data.site_tables import SiteReading, agreed_features, known_sites, read_site
from fedsolve.errors import ConfigError, DataError, UnknownName
from fedsolve.tables.column_names import some
from fedsolve.tables.outcomes import Positive

MOST_CATEGORIES = 1_000  # above that, someone has to agree
RARE = 5  # rows of a category below which a fit without a penalty may not exist
GAPS = 0.05  # the share of missing cells from which they get a column of their own
SAME_ROWS = 0.8  # the share of missing rows that two columns share from which one indicator serves both
APART = 8.0  # the factor between two sites' medians from which their units are doubted
_IDS = re.compile(r"(^|[_. -])(id|ids|nr|no|mrn|pseudonym|uuid|key|index|patient|subject|record|case)($|[_. -])", re.I)

Notes = list[str]


@dataclass(frozen=True)
class Proposal:
    """What `fedsolve init` proposes.

    files     the path of each site's file
    schema    the columns of all sites
    drop      columns to leave out
    na        codes for missing values, by column
    ranges    of the numeric columns, rounded outwards
    rows      how many rows each site has
    notes     what was found and decided, a sentence each
    reveals   what each site tells the others by agreeing to this
    rare      categories of fewer than five rows, over all sites
    sites     what is different at single sites: names of a file without a header, columns that a site lacks
    gaps      how many cells of a column are missing, by site; only columns and sites with some
    """

    files: dict[str, Path]
    schema: Schema
    drop: tuple[str, ...]
    na: dict[str, list[float]]
    ranges: dict[str, tuple[float, float]]
    rows: dict[str, int]
    target: ColumnFacts
    notes: tuple[str, ...]
    reveals: tuple[str, ...]
    rare: tuple[str, ...]
    sites: dict[str, SiteReading] = field(default_factory=dict)
    gaps: dict[str, dict[str, int]] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(repr=False, compare=False, default_factory=dict)


def propose(
    files: Files,
    *,
    target: str,
    weight: str | None = None,
    offset: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    reading: Reading | None = None,
    sites: Mapping[str, SiteReading] | None = None,
    positive: Positive | None = None,
    many_categories: bool = False,
) -> Proposal:
    """Read each site's file, and propose what all of them should declare.

    Args:
        files: As for `load_sites`.
        target, weight, offset, drop: Columns that are no features.
        keep: Columns that stay although some site lacks them: all its cells are missing.
        reading: How all files are read.
        sites: What is different at single sites, by name; see `SiteReading`.
        positive: Which values of the target are 1; only passed on.
        many_categories: Whether a column may have more than 1,000 categories.

    Raises DataError, with file and line, for what no schema could describe; ConfigError for too many categories.
    """
    paths = site_files(files)
    others = [one for one in (target, weight, offset) if one is not None]
    how = replace(reading or Reading(), expected=others)
    own = known_sites(sites or {}, paths)
    tables = {name: read_site(path, how, own[name], {}) for name, path in paths.items()}
    for site, table in tables.items():
        agreed_features({site: table}, others, (), None)  # says which of them lacks the target
    notes: Notes = [line for table in tables.values() if (line := table.said())] + same_rows(tables)
    tables, own = _with_kept(tables, own, keep, {*others, *drop})
    names, left_out = _common_columns(tables, {*others, *drop}, notes)
    facts = {site: facts_of(table, [*names, target]) for site, table in tables.items()}
    made = _Merging(tables, facts, many_categories, notes, without_markers(how.na))
    made.says_rare_labels = positive is None
    columns = [column for name in names if (column := made.column(name)) is not None]
    if not columns:
        raise DataError(f"no column is left for features besides {some([target, *left_out, *made.dropped])}")
    gaps = missing_cells(tables, columns, made.na)
    notes += missing_notes(columns, gaps)
    return Proposal(
        paths,
        Schema(tuple(columns)),
        (*drop, *left_out, *made.dropped),
        made.na,
        made.ranges,
        {site: len(table.lines) for site, table in tables.items()},
        made.target(target),
        tuple(notes),
        _reveals(tables, facts, columns, target),
        tuple(made.rare),
        {site: one for site, one in own.items() if one != SiteReading()},
        gaps,
        tables,
    )


def _with_kept(
    tables: Mapping[str, Table], own: Mapping[str, SiteReading], keep: Sequence[str], no_features: set[str]
) -> tuple[dict[str, Table], dict[str, SiteReading]]:
    """The tables with the columns to keep, which are missing in all rows of the sites that lack them."""
    known = list(dict.fromkeys(name for table in tables.values() for name in table.columns if name not in no_features))
    for name in keep:
        if name not in known:
            raise UnknownName("column to keep", name, known)
    found, readings = dict(tables), dict(own)
    for site, table in tables.items():
        lacking = [name for name in keep if name not in table.columns]
        if lacking:
            empty = np.full(len(table.lines), np.nan)
            columns = {**table.columns, **dict.fromkeys(lacking, empty)}
            found[site] = replace(table, columns=columns, absent=table.absent | set(lacking))
            readings[site] = replace(own[site], absent=(*own[site].absent, *lacking))
    return found, readings


def _common_columns(tables: Mapping[str, Table], no_features: set[str], notes: Notes) -> tuple[list[str], list[str]]:
    """Columns that all sites have, in the first site's order, and those that only some have."""
    every = [[name for name in table.columns if name not in no_features] for table in tables.values()]
    union = list(dict.fromkeys(name for names in every for name in names))
    common = [name for name in union if all(name in names for names in every)]
    partly = [name for name in union if name not in common]
    for name in partly:
        lacking = [site for site, table in tables.items() if name not in table.columns]
        first = tables[lacking[0]]
        where = f"{first.name}{'' if first.header_line is None else f', line {first.header_line}'}: no column {name}"
        if len(lacking) > 1:
            where += f" (nor at {', '.join(lacking[1:])})"
        near = [other for other in first.columns if other.casefold() == name.casefold()]
        do = (
            f"{advice.for_site(lacking[0], 'rename', {near[0]: name})} makes them one"
            if near
            else f"to keep it, say {advice.keep(name)}: its cells are then missing at {' and '.join(lacking)}"
        )
        notes.append(f"{where}, so it is dropped everywhere; {do}")
    return common, partly


class _Merging:
    """The columns of all sites while they are being merged."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        facts: Mapping[str, Mapping[str, ColumnFacts]],
        many: bool,
        notes: Notes,
        said: Collection[str] = (),
    ) -> None:
        self.tables, self.facts, self.many, self.notes = tables, facts, many, notes
        self.said = said  # columns of which it was said that no number is a code
        self.dropped: list[str] = []
        self.na: dict[str, list[float]] = {}
        self.ranges: dict[str, tuple[float, float]] = {}
        self.rare: list[str] = []
        self.says_rare_labels = True
        self.marked: list[str] = []  # columns whose missing cells have a column of their own
        self.shared: Counter[tuple[str, str]] = Counter()
        for table in tables.values():
            self.shared.update(shared_gaps(table, list(next(iter(facts.values())))))

    def _sites(self, name: str) -> dict[str, ColumnFacts]:
        return {site: found[name] for site, found in self.facts.items() if found[name].kind != "empty"}

    def _drop(self, name: str, why: str) -> None:
        self.dropped.append(name)
        self.notes.append(f"{name} is dropped: {why}")

    def _marks_gaps(self, name: str, missing: int) -> bool:
        """Whether missing cells of this column get a column of their own: there are many, and no other column is
        missing in nearly the same rows, so that both would say the same."""
        rows = sum(found[name].rows for found in self.facts.values())
        if missing <= GAPS * rows:
            return False
        for other in self.marked:
            both = self.shared[other, name] + (self.shared[name, other] if other != name else 0)
            if both > SAME_ROWS * max(missing, self.shared[other, other]):
                self.notes.append(
                    f"{name} is missing in nearly the same rows as {other}, so the column that says so of {other} "
                    "serves both"
                )
                return False
        self.marked.append(name)
        if missing < RARE:
            self.rare.append(f"{name}=missing")
        return True

    def column(self, name: str) -> Column | None:
        """The column that all sites declare; None if it is dropped."""
        sites = self._sites(name)
        if not sites:
            self._drop(name, "no site has a value of it")
            return None
        self._check_kinds(name, sites, f", or leave it out with --drop {name}")
        self._check_codes(name, sites)
        whole = _together(list(sites.values()), self.na.get(name, []))
        why = _why_dropped(name, whole, sites)
        if why is not None:
            self._drop(name, why)
            return None
        missing = sum(found[name].missing for found in self.facts.values()) + sum(
            one.levels.get(code, 0) for one in sites.values() for code in self.na.get(name, [])
        )
        if whole.levels:
            return self._category(name, whole, sites, missing)
        return self._numeric(name, whole, sites, missing)

    def target(self, name: str) -> ColumnFacts:
        """What is known of the target over all sites."""
        sites = self._sites(name)
        for site, found in self.facts.items():
            if found[name].missing:
                rows = f"{found[name].missing} of {found[name].rows} rows"
                self.notes.append(
                    f"{self.tables[site].name}: the target {name} is missing in {rows}, which are left out"
                )
        if not sites:
            raise DataError(f"the target {name} has no value at any site")
        self._check_kinds(name, sites, "")
        whole = _together(list(sites.values()), [])
        if whole.distinct == 1:
            raise DataError(f"the target {name} has one value in every row of every site; there is nothing to learn")
        self._check_labels(name, whole, sites)
        return whole

    # ── what sites must agree on ──

    def _check_labels(self, name: str, whole: ColumnFacts, sites: Mapping[str, ColumnFacts]) -> None:
        """Raise DataError for labels that differ in case only, and mention those of few rows."""
        folded: dict[str, str | float] = {}
        for level, count in whole.levels.items():
            other = folded.setdefault(_shown(level).casefold(), level)
            site = next(site for site, one in sites.items() if level in one.levels)
            table = self.tables[site]
            row = table.columns[name].tolist().index(level)
            if other != level:
                raise DataError(
                    f"{table.where(row, name)}: the target is {_shown(level)!r} here and {_shown(other)!r} elsewhere, "
                    "which differ in case only; write it alike everywhere"
                )
            if count < RARE and self.says_rare_labels and len(whole.levels) > 2:
                self.notes.append(
                    f"{table.place(row, name)}: the target {name} is {_shown(level)!r} in fewer than {RARE} rows of "
                    "all sites; is it spelled as it should be?"
                )

    def _check_kinds(self, name: str, sites: Mapping[str, ColumnFacts], instead: str) -> None:
        texts = [site for site, one in sites.items() if one.kind == "text"]
        numbers = [site for site, one in sites.items() if one.kind == "number"]
        if texts and numbers:
            levels = ", ".join(map(repr, sorted(map(str, sites[texts[0]].levels))[:4]))
            raise DataError(
                f"{self.tables[texts[0]].head}: column {name} holds texts ({levels}), and in "
                f"{self.tables[numbers[0]].name} numbers; code it alike everywhere{instead}"
            )

    def _check_codes(self, name: str, sites: Mapping[str, ColumnFacts]) -> None:
        for site, one in sites.items():
            if one.code is not None and name not in self.said:
                table = self.tables[site]
                rows = np.flatnonzero(table.columns[name] == one.code)
                self.notes.append(
                    f"{table.place(int(rows[0]), name)}: {one.code:g} looks like a code for a missing value, and is "
                    f"taken for one in {len(rows)} of {len(table.lines)} rows; if it is a number, write "
                    f"{advice.na(name, [])}"
                )
                if one.code not in self.na.setdefault(name, []):
                    self.na[name].append(one.code)

    # ── kinds of columns ──

    def _numeric(self, name: str, whole: ColumnFacts, sites: Mapping[str, ColumnFacts], missing: int) -> Numeric:
        self.ranges[name] = rounded_range(min(whole.low, 0.0) if whole.zeros else whole.low, whole.high)
        if 0 < whole.zeros < whole.observed and whole.low >= 0.2 * whole.middle > 0:
            at = ", ".join(f"{one.zeros} rows at {site}" for site, one in sites.items() if one.zeros)
            self.notes.append(
                f"{name} is 0 in {at}, and {whole.low:g} or more elsewhere; if 0 means that the value is missing, say "
                f"--na {name}=0"
            )
        middles = {site: one.middle for site, one in sites.items() if one.middle > 0}
        if middles:
            least, most = min(middles, key=middles.__getitem__), max(middles, key=middles.__getitem__)
            if middles[most] > APART * middles[least]:
                self.notes.append(
                    f"{name} is about {middles[most]:.2g} at {most} and {middles[least]:.2g} at {least}: are the "
                    "units the same?"
                )
        return Numeric(name, indicator=self._marks_gaps(name, missing))

    def _category(
        self, name: str, whole: ColumnFacts, sites: Mapping[str, ColumnFacts], missing: int
    ) -> Categorical | None:
        levels = sorted(whole.levels, key=lambda level: (isinstance(level, str), level))
        if len(levels) > MOST_CATEGORIES and not self.many:
            raise ConfigError(
                f"{name} would have {len(levels):,} categories, each with a coefficient; leave it out with --drop "
                f"{name}, or say --yes if that is meant"
            )
        self._say_levels(name, levels, sites)
        self.rare += [f"{name}={_shown(level)}" for level, count in whole.levels.items() if count < RARE]
        clash = {"other", "missing"} & {_shown(level) for level in levels}
        if not missing:
            return Categorical(name, tuple(levels), unseen="error", drop_first=True)
        if clash or not self._marks_gaps(name, missing):
            return Categorical(name, tuple(levels), impute="mode", unseen="error", drop_first=True)
        return Categorical(name, tuple(levels), unseen="other", drop_first=True)

    def _say_levels(self, name: str, levels: Sequence[str | float], sites: Mapping[str, ColumnFacts]) -> None:
        if len(sites) > 1:
            for level in levels:
                having = [site for site, one in sites.items() if level in one.levels]
                if len(having) == 1 and len(levels) <= MOST_CATEGORIES:
                    self.notes.append(f"{name}: the category {_shown(level)!r} occurs at {having[0]} only; it is kept")
        folded: dict[str, str | float] = {}
        for level in levels:
            other = folded.setdefault(_shown(level).casefold(), level)
            if other != level:
                self.notes.append(
                    f"{name}: {_shown(other)!r} and {_shown(level)!r} differ in case only; are they the same?"
                )


# ── over all sites ──


def _together(sites: Sequence[ColumnFacts], codes: Sequence[float]) -> ColumnFacts:
    """The facts of all sites together; codes for missing values are no levels."""
    levels: Counter[str | float] = Counter()
    listed = all(one.levels for one in sites)
    for one in sites:
        levels.update({level: count for level, count in one.levels.items() if level not in codes})
    number = sites[0].kind == "number"
    if number and (len(levels) > MOST_CODES or not all(one.whole for one in sites)):
        listed = False
    middles = sorted(one.middle for one in sites if not math.isnan(one.middle))
    lows = [one.low for one in sites if not math.isnan(one.low)]
    return ColumnFacts(
        sites[0].kind,
        sum(one.rows for one in sites),
        sum(one.missing for one in sites),
        len(levels) if listed else max(one.distinct for one in sites),
        dict(levels) if listed else {},
        all(one.whole for one in sites),
        all(one.consecutive for one in sites),
        all(one.dates for one in sites),
        any(one.rounded for one in sites),
        None,
        sum(one.zeros for one in sites),
        min(lows, default=math.nan),
        max((one.high for one in sites), default=math.nan),
        middles[len(middles) // 2] if middles else math.nan,
    )


def _why_dropped(name: str, whole: ColumnFacts, sites: Mapping[str, ColumnFacts]) -> str | None:
    """Why a column is no feature: an identifier, a date, a constant; None if it may be one."""
    if whole.rounded:
        return "its whole numbers have more digits than are kept, as identifiers have"
    if whole.levels and whole.distinct == 1:
        return "it has one value in every row"
    if len(sites) > 1 and whole.levels and all(one.distinct == 1 for one in sites.values()):
        return "it has one value at each site, so it says no more than whose a row is"
    if whole.dates:
        return "it holds dates or times; give what they mean as a number, such as an age or a duration"
    each = whole.observed >= 10 and all(one.distinct == one.observed for one in sites.values())
    if whole.kind == "text" and (each or (whole.distinct > 20 and whole.distinct > 0.9 * whole.observed)):
        return "nearly every row has a text of its own, as an identifier has"
    named = bool(_IDS.search(name)) or name.startswith("unnamed_")
    if whole.kind == "number" and each and whole.whole and (named or whole.consecutive):
        return "every row has a whole number of its own, as an identifier has"
    return None


def _reveals(
    tables: Mapping[str, Table],
    facts: Mapping[str, Mapping[str, ColumnFacts]],
    columns: Sequence[Column],
    target: str,
) -> tuple[str, ...]:
    """What each site tells the others by agreeing to the proposal."""
    categories = [column.name for column in columns if isinstance(column, Categorical)]
    numbers = [column.name for column in columns if isinstance(column, Numeric)]
    said = []
    for site, table in tables.items():
        parts = [f"the names of its {len(table.columns) - len(table.absent)} columns, its {len(table.lines)} rows"]
        if categories:
            count = sum(facts[site][name].distinct for name in categories)
            parts.append(f"which {count} categories of {', '.join(categories)} occur there, and which are rare")
        if numbers:
            parts.append(f"rounded ranges of {', '.join(numbers)}")
        if facts[site][target].levels:
            parts.append(f"the values of {target}")
        said.append(f"{site} tells {'; '.join(parts)}; where cells are missing")
    return tuple(said)


def _shown(level: str | float) -> str:
    return level if isinstance(level, str) else f"{level:.15g}"
