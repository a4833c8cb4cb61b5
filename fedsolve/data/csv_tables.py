"""A csv file as columns by name, as it comes: its separator, decimal mark, encoding and missing cells are declared, or
recognised and said.

    table = read_table("arden.csv", Reading(na=[-9, "?"]))
    table.columns["age"]     float64 with NaN where missing, or texts
    table.said()             "arden.csv: separated by ';', decimal comma, Latin-1"
    table.lines[12]          the line in which row 12 begins

The file is read in chunks whose cells become arrays at once, so that a long file costs little more than its arrays. A
column that turns out to be text only later is read a second time: time and memory stay linear in the file's size.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedsolve.data import advice
from fedsolve.data.dataset import Array
from fedsolve.data.doubtful_numbers import Doubts, doubts
from fedsolve.data.missing_markers import Markers, Na, markers_for
from fedsolve.data.text_files import (
    SEPARATORS,
    FilePath,
    declared_delimiter,
    decoded,
    open_file,
    recognised_delimiter,
    records,
)
from fedsolve.data.written_numbers import Marks, Odd, check_points, recognised_marks
from fedsolve.errors import DataError, InputError
from fedsolve.tables.cells import key
from fedsolve.tables.column_names import checked_names

EMPTY = np.zeros(0)
CHUNK = 20_000  # rows
MOST_ODD = 1_000  # different cells of a column that are looked at to recognise how numbers are written
_TOTALS = {"total", "totals", "grand total", "sum", "summe", "gesamt", "insgesamt", "totaal", "totale", "suma"}
# Texts that stand for a missing number where all other cells of the column are numbers.
_LIKELY_MISSING = frozenset(
    (
        *(".", "-", "--", "*", "NULL", "Null", "None", "none", "nil", "#N/A", "#NULL!", "#VALUE!", "#DIV/0!", "<NA>"),
        *(
            "<na>",
            "n/a",
            "na",
            "N.A.",
            "n.a.",
            "n/d",
            "nd",
            "ND",
            "missing",
            "Missing",
            "MISSING",
            "unknown",
            "Unknown",
        ),
    )
)


@dataclass(frozen=True)
class Reading:
    """How to read a csv file; None: recognised.

    header       whether the first record holds the names
    names        the names of a file without any
    na           what marks a missing cell (see `missing_markers`)
    delimiter    what separates cells: , ; a tab, |, or " " for any blanks
    decimal      the decimal mark, "." or ","
    thousands    what groups thousands: , . ' or a blank
    encoding     as Python calls it: utf-8, latin-1, cp1252, utf-16
    skip         lines above the table, such as a title
    skip_footer  records below it, such as totals
    shared_na    whether `na` is for several files, and may name columns that this one lacks
    expected     names of columns by which a header is known, even if others of its names are numbers
    """

    header: bool | None = None
    names: Sequence[str] | None = None
    na: Na | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    skip: int = 0
    skip_footer: int = 0
    shared_na: bool = False
    expected: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise DataError(f"delimiter is one character, such as ';', got {self.delimiter!r}")
        Marks(self.decimal or ".", self.thousands if self.thousands != (self.decimal or ".") else None)
        if min(self.skip, self.skip_footer) < 0:
            raise DataError(f"skip and skip_footer are 0 or more, got {self.skip} and {self.skip_footer}")


@dataclass(frozen=True)
class Table:
    """Columns by name, the line of the file in which each row begins, and what was recognised."""

    path: FilePath
    columns: dict[str, Array]
    lines: Array
    facts: tuple[str, ...] = ()
    header_line: int | None = None
    unit: str = "line"  # what `lines` counts
    rounded: frozenset[str] = frozenset()  # columns whose whole numbers are too long to be kept exactly
    absent: frozenset[str] = frozenset()  # columns that the file does not have, and is said not to have

    @property
    def name(self) -> str:
        """The name of the file."""
        return Path(self.path).name

    def said(self) -> str:
        """What was recognised and is not the usual, as one line; empty if all is usual."""
        return f"{self.name}: {', '.join(self.facts)}" if self.facts else ""

    def where(self, row: int, column: str) -> str:
        """A cell's place, for errors."""
        return f"{self.path}, {self.unit} {int(self.lines[row])}, column {column}"

    def place(self, row: int, column: str) -> str:
        """A cell's place, for notes, which say only the name of the file."""
        return f"{self.name}, {self.unit} {int(self.lines[row])}, column {column}"

    @property
    def head(self) -> str:
        """Where the names of the columns are, for messages."""
        return f"{self.path}" if self.header_line is None else f"{self.path}, line {self.header_line}"


def read_table(path: FilePath, how: Reading | None = None, kinds: Mapping[str, str] | None = None) -> Table:
    """The table in a csv file.

    Args:
        path: The file; .gz and .bz2 are unpacked.
        how: How to read it.
        kinds: "number" for columns in which every cell that is not missing must be a number, "category" for columns
            whose cells are names even if they look like numbers; others are numbers if all their cells are.

    Raises DataError, with line and column, for what is not such a table.
    """
    return _CsvFile(path, how or Reading(), kinds or {}).table()


@contextmanager
def _explained(path: FilePath) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as csv: {error}; expected text with one sample per line.") from error


class _CsvFile:
    """One file while it is being read."""

    def __init__(self, path: FilePath, how: Reading, kinds: Mapping[str, str]) -> None:
        self.path, self.how, self.kinds = path, how, kinds
        with _explained(path):
            with open_file(path) as file:
                read = decoded(path, file.read(), how.encoding)
            text = read.text
            for _ in range(how.skip):
                text = text.partition("\n")[2]
            self.declared, text = declared_delimiter(text)
            self.text, self.encoding = text, read.encoding
            self.spaced = not text.isascii() or " " in text or "\t" in text  # else there is nothing to strip
            self.joined = re.search(r"_\d", text) is not None  # 12_3, which Python reads as 123
            self.delimiter = how.delimiter or self.declared or recognised_delimiter(path, text)
            self.header_line, self.names, self.width = self._names()
        self.markers = markers_for(self.names, how.na, str(path), how.shared_na)
        self.also_missing: set[str] = set()
        self.surplus = False  # whether every record ends in a separator

    def table(self) -> Table:
        given = Marks(self.how.decimal or ".", self.how.thousands)
        with _explained(self.path):
            columns, lines, odd = self._read(given)
            marks = given
            if self.how.decimal is None and self.how.thousands is None:
                before = self._undeclared(odd)
                marks = recognised_marks(str(self.path), before)
                if marks != given:
                    columns, lines, odd = self._read(marks)
                    if marks.decimal == ",":
                        check_points(str(self.path), self._undeclared(odd), before)
            if self._missing_too(odd):
                columns, lines, odd = self._read(marks)
        self._check_totals(columns, lines)
        self._check_numbers(odd)
        again = self._doubts(columns, marks)
        return Table(
            *(self.path, columns, lines, (*self._facts(marks), *again.facts), self.header_line), rounded=again.rounded
        )

    def _doubts(self, columns: Mapping[str, Array], marks: Marks) -> Doubts:
        ends = f'["\\s{re.escape(self.delimiter)}]'
        zeros = re.search(rf"(?:^|{ends})[+-]?0\d+(?:$|{ends})", self.text) is not None
        points = marks.are_plain and self.how.decimal is None and self.how.thousands is None
        # A column of categories may hold any codes.
        wanted = {name: values if self.kinds.get(name) != "category" else EMPTY for name, values in columns.items()}
        return doubts(self.path, wanted, self._rows(), zeros=zeros, points=points)

    def _undeclared(self, odd: Mapping[str, Odd]) -> dict[str, Odd]:
        return {name: one for name, one in odd.items() if self.kinds.get(name) != "category"}

    def _missing_too(self, odd: Mapping[str, Odd]) -> bool:
        """Whether some texts stand for missing cells though nobody has said so: the only ones in a column of numbers.
        They join the markers of their columns."""
        if self.how.na is not None:
            return False
        found = False
        for name, one in self._undeclared(odd).items():
            if one.has_numbers and _LIKELY_MISSING.issuperset(one.cells):
                old = self.markers[name]
                self.markers[name] = Markers(old.texts | frozenset(one.cells), old.numbers)
                self.also_missing |= one.cells.keys()
                found = True
        return found

    # ── names ──

    def _names(self) -> tuple[int | None, tuple[str, ...], int]:
        """The line of the header, the names of the columns, and how many cells the first record below has."""
        first = list(itertools.islice(self._records(), 2))
        if not first:
            raise DataError(f"{self.path}: empty; expected a table with one sample per line.")
        (line, head), *below = first
        header, given = self.how.header, self.how.names
        if header is None:
            named = bool(self.how.expected) and set(self.how.expected) <= set(head)
            header = named or not any(is_number(cell, self.how.decimal) for cell in head)
            if given is not None and header:
                header = self._repeats(head, given, below, line)
        if header and not below:
            raise DataError(
                f"{self.path}: a header and no rows below it; expected at least one. Pass header=False if it is data."
            )
        row = below[0][1] if header else head
        names = list(given) if given is not None else (head if header else self._counted(len(head)))
        if header and given is not None and self._same_names(head, given):  # by name, whichever order the file has
            folded = {name.strip().casefold(): name for name in given}
            names = [folded[cell.casefold()] for cell in head]
        if header and given is None:
            names = [name or f"unnamed_{place}" for place, name in enumerate(names)]
            if len(names) > 1 and head[-1] == "" and len(row) in (len(head), len(head) - 1):
                names = names[:-1]  # each record ends in a separator
        if len(row) != len(names) and not (len(row) == len(names) + 1 and row[-1] == ""):
            self._wrong_width(header, head, line, row, below[0][0] if header else line, names)
        whose = f"{self.path}, line {line}" if header and given is None else str(self.path)
        return line if header else None, checked_names(names, whose), len(names)

    @staticmethod
    def _same_names(head: Sequence[str], names: Sequence[str]) -> bool:
        return {cell.casefold() for cell in head} == {name.strip().casefold() for name in names}

    def _repeats(self, head: list[str], names: Sequence[str], below: list[tuple[int, list[str]]], line: int) -> bool:
        """Whether the first record, which has no numbers, is the header of a file that needs no names. Raises
        DataError if it is one with other names."""
        if self._same_names(head, names):
            return True
        if below and any(is_number(cell, self.how.decimal) for cell in below[0][1]):
            raise DataError(
                f"{self.path}, line {line}: this looks like a header ({', '.join(head[:6])}), with other names than "
                f"those given; {advice.names_elsewhere()}, or write {advice.key('header', True)} to use those given "
                "instead"
            )
        return False

    @staticmethod
    def _counted(count: int) -> list[str]:
        return [f"column_{place}" for place in range(count)]

    def _wrong_width(
        self, header: bool, head: list[str], line: int, row: list[str], row_line: int, names: Sequence[str]
    ) -> None:
        if self.how.names is not None:
            raise DataError(
                f"{self.path}, line {row_line}: {len(row)} columns and {len(names)} names; expected one for each."
                + self._separator_hint()
            )
        also = ""
        if len(head) == 1:
            also = f" (write skip = {row_line - 1}{advice.where()} if line {line} is a title above the table)"
        elif len(row) == len(head) + 1:
            also = " (R leaves out the name of the row names: give that column a name)"
        raise DataError(
            f"{self.path}: line {row_line} has {len(row)} cells, the header in line {line} has {len(names)}; expected "
            f"the same number in each{also}." + self._separator_hint()
        )

    def _separator_hint(self) -> str:
        said = f" Check delimiter={self.delimiter!r}{advice.where()}."
        if self.how.delimiter is not None:
            try:
                other = recognised_delimiter(self.path, self.text)
            except DataError:
                return said
            if other != self.how.delimiter:
                return f"{said} It looks as if cells are separated by {SEPARATORS.get(other, 'blanks')}."
        return said

    # ── records ──

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Records that are not empty, with stripped cells."""
        skip, spaced = self.how.skip, self.spaced
        for line, record in records(self.text, self.delimiter):
            cells = [cell.strip() for cell in record] if spaced else record
            if cells[0] or any(cells):
                yield line + skip, cells

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The records below the header, each of the right width."""
        found = self._records()
        if self.header_line is not None:
            next(found)
        if self.how.skip_footer:
            found = _without_last(found, self.how.skip_footer)
        width = self.width
        for line, cells in found:
            if len(cells) != width:
                if len(cells) == width + 1 and cells[-1] == "":
                    cells.pop()
                    self.surplus = True
                else:
                    self._ragged(line, cells)
            yield line, cells

    def _ragged(self, line: int, cells: list[str]) -> None:
        quoted = next((name for name, cell in zip(self.names, cells, strict=False) if "\n" in cell), None)
        also = f" A quotation mark in column {quoted} may not be closed." if quoted else self._separator_hint()
        raise DataError(
            f"{self.path}: line {line} has {len(cells)} cells, the first has {self.width}; expected the same number in "
            f"each.{also}"
        )

    # ── columns ──

    def _read(self, marks: Marks) -> tuple[dict[str, Array], Array, dict[str, Odd]]:
        """The columns, the line of each row, and the cells that are no numbers."""
        builders = [_Column(self.markers[name], marks, self.joined) for name in self.names]
        lines = self._fill(builders)
        if not lines:
            raise DataError(f"{self.path}: a header and no rows below it; expected at least one row.")
        again = [builder.as_text() if builder.is_mixed else None for builder in builders]
        if any(again):
            self._fill(again)
        found = {
            name: (second or first).array() for name, first, second in zip(self.names, builders, again, strict=True)
        }
        odd = {
            name: Odd(builder.odd, builder.has_numbers)
            for name, builder in zip(self.names, builders, strict=True)
            if builder.odd
        }
        return found, np.array(lines, dtype=np.int64), odd

    def _fill(self, builders: Sequence[_Column | None]) -> list[int]:
        lines: list[int] = []
        rows = self._rows()
        while chunk := list(itertools.islice(rows, CHUNK)):
            here = [line for line, _ in chunk]
            lines += here
            for builder, cells in zip(builders, zip(*(cells for _, cells in chunk), strict=True), strict=True):
                if builder is not None:
                    builder.add(cells, here)
        return lines

    def _check_numbers(self, odd: Mapping[str, Odd]) -> None:
        for name, one in odd.items():
            if self.kinds.get(name) == "number":
                cell, line = next(iter(one.cells.items()))
                if "\n" in cell:
                    raise DataError(
                        f"{self.path}, line {line}, column {name}: several lines in one cell where a number is "
                        "expected; a quotation mark that is opened there may not be closed"
                    )
                raise DataError(
                    f"{self.path}, line {line}, column {name}: {cell!r} is not a number; correct it, "
                    f"{advice.not_a_number(name, cell)}"
                )

    def _check_totals(self, columns: Mapping[str, Array], lines: Array) -> None:
        """Refuse a last line of totals, which would be learned from as one row more."""
        for name, values in columns.items():
            last = values[-1] if values.dtype == object else None
            if isinstance(last, str) and last.strip(" :").casefold() in _TOTALS and last not in values[:-1].tolist():
                raise DataError(
                    f"{self.path}, line {int(lines[-1])}, column {name}: {last!r} in the last line only, which looks "
                    f"like a line of totals; remove it, or write skip_footer = 1{advice.where()}"
                )

    def _facts(self, marks: Marks) -> tuple[str, ...]:
        found = []
        if self.how.delimiter is None and self.delimiter != ",":
            found.append(f"separated by {SEPARATORS.get(self.delimiter, repr(self.delimiter))}")
        if self.how.decimal is None and self.how.thousands is None:
            found += marks.said()
        if self.encoding is not None:
            found.append(self.encoding)
        if self.also_missing:
            found.append(f"{', '.join(map(repr, sorted(self.also_missing)))} taken for missing in columns of numbers")
        if self.surplus:
            found.append("a separator at the end of each line is ignored")
        return tuple(found)


def _without_last(records: Iterator[tuple[int, list[str]]], count: int) -> Iterator[tuple[int, list[str]]]:
    waiting: list[tuple[int, list[str]]] = []
    for record in records:
        waiting.append(record)
        if len(waiting) > count:
            yield waiting.pop(0)


def is_number(cell: str, decimal: str | None = None) -> bool:
    """Whether a cell is a number and not NaN; without a decimal mark, with a point or a comma."""
    for mark in (decimal,) if decimal else (".", ","):
        try:
            return not math.isnan(Marks(mark).number(cell))
        except ValueError:
            continue
    return False


@dataclass
class _Column:
    """The cells of one column, chunk by chunk: numbers as long as all are."""

    markers: Markers
    marks: Marks
    joined: bool = False  # whether some number of the file may have an underscore
    text_only: bool = False
    has_numbers: bool = False
    parts: list[Array] = field(default_factory=list)
    odd: dict[str, int] = field(default_factory=dict)
    known: dict[str, float | None] = field(default_factory=dict)  # the numbers of cells, None for those that are none

    @property
    def is_mixed(self) -> bool:
        """Whether some chunks are numbers and others texts: then the numbers' own texts are needed."""
        return len({part.dtype for part in self.parts}) > 1

    def as_text(self) -> _Column:
        """The same column, to be read again as text."""
        return replace(self, text_only=True, parts=[], odd={}, known={})

    def array(self) -> Array:
        return self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        known_text = self.text_only or len(self.odd) == MOST_ODD
        values = None if known_text else self._numbers(cells, lines)
        self.parts.append(self._texts(cells) if values is None else values)

    def _numbers(self, cells: Sequence[str], lines: Sequence[int]) -> Array | None:
        values = self._plain_numbers(cells)
        if values is None:
            values = self._other_numbers(cells, lines)
        if values is not None:
            for number in self.markers.numbers:
                values[values == number] = math.nan
        return values

    def _plain_numbers(self, cells: Sequence[str]) -> Array | None:
        """The usual case at full speed: every cell a number as Python writes it."""
        if not self.marks.are_plain:
            return None
        try:
            values = np.array([float(cell) for cell in cells])
        except ValueError:
            return None
        if self.joined and any("_" in cell for cell in cells):
            return None
        self.has_numbers = True
        return values

    def _other_numbers(self, cells: Sequence[str], lines: Sequence[int]) -> Array | None:
        """The numbers, where some cells are missing or written otherwise; None, with the cells noted, if some are no
        numbers."""
        found: list[float] = []
        known, whole = self.known, True
        for cell, line in zip(cells, lines, strict=True):
            number = known[cell] if cell in known else self._number(cell)
            if len(known) < MOST_ODD:
                known[cell] = number
            if number is None:
                whole = False
                if len(self.odd) < MOST_ODD:
                    self.odd.setdefault(cell, line)
            else:
                found.append(number)
        self.has_numbers = self.has_numbers or any(number == number for number in found)
        return np.array(found) if whole else None

    def _number(self, cell: str) -> float | None:
        if cell in self.markers.texts:
            return math.nan
        try:
            return self.marks.number(cell)
        except ValueError:
            return None

    def _texts(self, cells: Sequence[str]) -> Array:
        made = np.empty(len(cells), dtype=object)
        if self.markers.numbers:
            numbers, texts = self.markers.numbers, self.markers.texts
            made[:] = [math.nan if cell in texts or key(cell) in numbers else cell for cell in cells]
        else:
            texts = self.markers.texts
            made[:] = [math.nan if cell in texts else cell for cell in cells]
        return made
