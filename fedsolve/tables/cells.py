"""Single cells of a raw table: which are missing, and which are the same."""

from __future__ import annotations

import math
import numbers

import numpy as np

from fedsolve.typing import Array

MISSING = ("?", "NA", "N/A", "NaN", "nan", "null")  # what stands for a missing cell in a file
MISSING_TEXTS = frozenset({"", *MISSING})


def texts(cells: Array) -> Array:
    return np.char.decode(cells, "utf-8") if cells.dtype.kind == "S" else cells


def is_missing(cell: object) -> bool:
    """None, or what is not equal to itself: NaN, NaT, pandas' NA."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except TypeError:  # pandas' NA will not even say whether it is equal to itself
        return True


def key(value: object) -> str | float:
    """A value as categories are compared: a number, or a text that is none."""
    if isinstance(value, np.generic):
        value = value.item()
    text = value.decode() if isinstance(value, bytes) else value
    if isinstance(text, str):
        text = text.strip()
        try:
            number = math.nan if "_" in text else float(text)
        except ValueError:
            return text
        return number if math.isfinite(number) else text
    return float(text) if isinstance(text, numbers.Real) else str(text)
