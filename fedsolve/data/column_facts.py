"""What one site says of a column of its own file, before all sites agree on what the column is.

These facts are computed where the file is. They hold no row, but more than a run would reveal: names, categories with
how often they occur, a range rounded outwards, and which numbers look like codes for missing values.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedsolve.data.csv_tables import Table, is_number
from fedsolve.data.dataset import Array, is_missing
from fedsolve.data.missing_markers import suspected
from fedsolve.errors import DataError

MOST_CODES = 10  # different whole numbers up to which a column may hold codes of categories
MOSTLY = 0.9  # the share of numbers above which a text in a column is a mistake
_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}:\d{2}(:\d{2})?"
)
# Numbers with something beside them: 45%, € 12, (12), <0.5, 3.5 kg.
_NUMBER = r"[+-]?\d[\d.,]*"
_UNITS = r"%|‰|[€$£¥₹]|kg|m?g|[µu]g|[md]?l|[cm]?m|mmhg|mg/dl|mmol/l|bpm|years|yrs|days"
_DRESSED = re.compile(
    rf"[<>≤≥~≈]=?\s*{_NUMBER}|\({_NUMBER}\)|{_NUMBER}\s?({_UNITS})|[€$£¥₹]\s?{_NUMBER}", re.IGNORECASE
)

Kind = Literal["number", "text", "empty"]


@dataclass(frozen=True)
class ColumnFacts:
    """One column of one site.

    levels     how often each value occurs, of a text column or of few whole numbers; empty for other columns
    distinct   how many different values there are
    code       a number that looks like a code for "missing", and how often it occurs
    dates      whether every value is a date or a time, also as 20240131
    rounded    whether whole numbers are too long to be kept exactly
    zeros      how often a number is 0
    """

    kind: Kind
    rows: int
    missing: int
    distinct: int
    levels: dict[str | float, int] = field(default_factory=dict)
    whole: bool = False
    consecutive: bool = False
    dates: bool = False
    rounded: bool = False
    code: float | None = None
    zeros: int = 0
    low: float = math.nan
    high: float = math.nan
    middle: float = math.nan

    @property
    def observed(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing


def column_facts(table: Table, name: str) -> ColumnFacts:
    """What a site says of one of its columns. Raises DataError, with the line, for a text among numbers."""
    values = table.columns[name]
    missing = int(is_missing(values).sum())
    if missing == len(values):
        return ColumnFacts("empty", len(values), missing, 0)
    return (_text if values.dtype == object else _number)(table, name, values, missing)


def _text(table: Table, name: str, values: Array, missing: int) -> ColumnFacts:
    counts: Counter[str | float] = Counter(cell for cell in values.tolist() if isinstance(cell, str))
    numbers = {cell for cell in counts if is_number(str(cell))}
    share = sum(counts[cell] for cell in numbers) / counts.total()
    if MOSTLY <= share < 1:
        row = next(row for row, cell in enumerate(values) if isinstance(cell, str) and cell not in numbers)
        raise DataError(
            f"{table.where(row, name)}: {values[row]!r} is not a number, and {share:.0%} of the column are; correct "
            f"it, or say --na {name}={values[row]} if it means that the value is missing"
        )
    _check_dressed(table, name, values, counts, numbers)
    dates = all(_DATE.fullmatch(str(cell)) for cell in counts)
    return ColumnFacts("text", len(values), missing, len(counts), dict(counts), dates=dates)


def _check_dressed(
    table: Table, name: str, values: Array, counts: Counter[str | float], numbers: set[str | float]
) -> None:
    """Raise DataError for many different numbers with something beside them, which would be as many categories."""
    dressed = {cell for cell in counts if cell not in numbers and _DRESSED.fullmatch(str(cell))}
    if dressed and len(counts) > MOST_CODES and len(dressed) + len(numbers) == len(counts):
        row = next(row for row, cell in enumerate(values) if cell in dressed)
        raise DataError(
            f"{table.where(row, name)}: {values[row]!r} is a number with something beside it; write plain numbers in "
            f"all rows, or leave the column out with --drop {name}"
        )


def _are_dates(found: Array) -> bool:
    """Whether all of these whole numbers are days, as in 20240131."""
    months, days = found // 100 % 100, found % 100
    return len(found) >= 3 and bool(
        ((found >= 18500101) & (found < 21010101) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all()
    )


def _number(table: Table, name: str, values: Array, missing: int) -> ColumnFacts:
    observed = values[~np.isnan(values)]
    found, counts = np.unique(observed, return_counts=True)
    if not np.isfinite(found).all():
        row = int(np.argmax(np.isinf(values)))
        raise DataError(f"{table.where(row, name)}: an infinite number; correct it, or leave the cell empty")
    whole = bool((found == np.floor(found)).all())
    code = suspected(found.tolist()) if len(observed) >= 3 else None
    few = whole and len(found) <= MOST_CODES + (code is not None)
    levels = dict(zip(found.tolist(), counts.tolist(), strict=True)) if few else {}
    kept = found if code is None else found[found != code]
    away = kept[kept != 0]
    typical = observed[np.isin(observed, away)]
    return ColumnFacts(
        "number",
        len(values),
        missing,
        len(found),
        levels,
        whole,
        whole and len(found) == len(observed) and found[-1] - found[0] + 1 == len(found),
        whole and _are_dates(found),
        name in table.rounded,
        code=code,
        zeros=int(counts[found == 0].sum()),
        low=float(away.min()) if len(away) else math.nan,
        high=float(kept[-1]),
        middle=float(np.median(typical)) if len(typical) else math.nan,
    )


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A range rounded outwards to about a tenth of its width, so that its ends are no person's own."""
    if not math.isfinite(low) or not math.isfinite(high) or low == high:
        return low, high
    step = 10.0 ** math.floor(math.log10(high - low)) / 2
    return math.floor(low / step) * step, math.ceil(high / step) * step


def facts_of(table: Table, names: Sequence[str]) -> dict[str, ColumnFacts]:
    """The facts of several columns."""
    return {name: column_facts(table, name) for name in names}


def shared_gaps(table: Table, names: Sequence[str]) -> Counter[tuple[str, str]]:
    """In how many rows two columns are both missing; (name, name) for one column."""
    gaps = {name: is_missing(table.columns[name]) for name in names}
    packed = {name: np.packbits(missing) for name, missing in gaps.items() if missing.any()}
    found: Counter[tuple[str, str]] = Counter()
    listed = list(packed)
    for place, first in enumerate(listed):
        for second in listed[place:]:
            found[first, second] = int(np.bitwise_count(packed[first] & packed[second]).sum())
    return found
