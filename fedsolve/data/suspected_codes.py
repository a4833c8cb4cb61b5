"""Numbers in a table that look like codes for missing values, and what to write if they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsolve.data import advice
from fedsolve.data.csv_tables import Table
from fedsolve.data.missing_markers import ALL, Na, may_have_codes, suspected

LEAST_SEEN = 3  # rows of a column below which nothing is suspected of it


def suspected_codes(table: Table, features: Sequence[str], na: Na | None) -> list[tuple[float, str]]:
    """The numbers of columns that are as a rule codes for "missing", each with a sentence that says where it is and
    what to write. Columns that `na` names are left alone, and an empty list says that there are no codes."""
    if isinstance(na, Sequence) and not isinstance(na, str) and not na:
        return []
    named = set(na) - {ALL} if isinstance(na, Mapping) else set()
    found = []
    for name in features:
        values = table.columns[name]
        if name in named or values.dtype == object or len(values) < LEAST_SEEN:
            continue
        observed = values[~np.isnan(values)]
        if not len(observed) or not may_have_codes(float(observed.min()), float(observed.max())):
            continue
        code = suspected(np.unique(observed).tolist())
        if code is not None:
            found.append((code, _sentence(table, name, code)))
    return found


def _sentence(table: Table, name: str, code: float) -> str:
    values = table.columns[name]
    rows = np.flatnonzero(values == code)
    others = values[(values != code) & ~np.isnan(values)]
    place = table.where(int(rows[0]), name)
    return (
        f"{place}: {code:g}, in {len(rows)} of {len(values)} rows, where all others are {others.min():g} … "
        f"{others.max():g}, looks like a code for a missing value; write {advice.na(name, [code])} if it is, or "
        f"{advice.na(name, [])} if it is a number"
    )
