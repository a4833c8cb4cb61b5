"""What the raw columns of a table are, as all clients have declared it before anything is sent.

    Schema((Numeric("age"), Numeric("dose", scaling="range", low=0, high=50), Categorical("sex", ("f", "m"))))
    Schema.from_plain([{"name": "age"}, {"name": "sex", "categories": ["f", "m"]}])

Categories and ranges are declared, never collected: that a site has some category, or the least value of
a column, may be a fact about one person.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.tables.cells import MISSING_TEXTS, is_missing, key, texts
from fedsolve.typing import Array

Scaling = Literal["standardise", "scale", "range"] | None
Unseen = Literal["other", "zeros", "error"]


@dataclass(frozen=True)
class Numeric:
    """A column of numbers.

    impute     "mean" (of all clients' observed values), a declared number, or None: missing is an error; "keep":
               missing cells stay missing, for learners that take them, such as trees; "complete": rows with a missing
               cell are left out before the run (see `complete_cases`)
    indicator  add a column that is 1 where the value is missing
    scaling    "standardise": subtract the mean, divide by the standard deviation (of all observed values)
               "scale": divide only, which keeps a sparse matrix sparse
               "range": the declared `low` to 0 and `high` to 1; what lies outside goes below 0 or above 1
               None: as it is
    low, high  the range of the column, for scaling="range" and for the splines of a formula
    """

    name: str
    impute: Literal["mean", "keep", "complete"] | float | None = "mean"
    indicator: bool = False
    scaling: Scaling = "standardise"
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check_column(self)
        if isinstance(self.impute, str) and self.impute not in ("mean", "keep", "complete") and not self.needs_mode:
            raise ConfigError(
                f"column {self.name!r}: impute is 'mean', a number or None, 'keep' or 'complete', got {self.impute!r}; "
                "a mode is chosen by Discrete(name, choices=…)"
            )
        if self.scaling not in ("standardise", "scale", "range", None):
            raise ConfigError(
                f"column {self.name!r}: scaling is 'standardise', 'scale', 'range' or None, got {self.scaling!r}"
            )
        for what in ("impute", "low", "high"):
            value = getattr(self, what)
            if value is not None and not isinstance(value, str):
                object.__setattr__(self, what, _finite(self.name, what, value))
        declared = self.low is not None and self.high is not None and self.low < self.high
        if self.scaling != "range" and (self.low, self.high) != (None, None) and not declared:
            raise ConfigError(
                f"column {self.name!r}: low and high are declared together, low below high, got low={self.low}, "
                f"high={self.high}"
            )
        if self.scaling == "range" and not declared:
            raise ConfigError(
                f"column {self.name!r}: scaling='range' needs declared low < high (the least value in the "
                f"data would be one person's), got low={self.low}, high={self.high}"
            )

    @property
    def keeps_missing(self) -> bool:
        return self.impute == "keep"

    @property
    def is_complete(self) -> bool:
        """Whether rows in which it is missing are left out."""
        return self.impute == "complete"

    def missing(self, cells: Array) -> Array:
        """Where the raw cells are missing."""
        return np.isnan(self.values(cells))

    @property
    def needs_mode(self) -> bool:
        return False

    @property
    def levels(self) -> tuple[str | float, ...]:
        """The declared values from which a mode is chosen."""
        return ()

    @property
    def needs_mean(self) -> bool:
        return self.impute == "mean" or self.needs_deviation

    @property
    def needs_deviation(self) -> bool:
        return self.scaling in ("standardise", "scale")

    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}=missing") if self.indicator else (self.name,)

    def values(self, cells: Array) -> Array:
        """The raw cells as float64, NaN where missing."""
        if cells.dtype.kind in "fiub":
            found = cells.astype(np.float64)
        else:
            found = np.array([self._number(cell, row) for row, cell in enumerate(texts(cells))], dtype=np.float64)
        if np.isinf(found).any():
            raise DataError(
                f"column {self.name!r}, row {int(np.argmax(np.isinf(found)))}: an infinite value; "
                "leave it empty and impute, or drop the row"
            )
        return found

    def _number(self, cell: object, row: int) -> float:
        if is_missing(cell) or (isinstance(cell, str) and cell.strip() in MISSING_TEXTS):
            return math.nan
        try:
            return float(cell)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            # The row and not the cell: the message goes to the server, and the cell is someone's.
            raise DataError(
                f"column {self.name!r}, row {row}: not a number; "
                f"declare the column in a Schema, as Categorical({self.name!r}, …), or clean it"
            ) from None


@dataclass(frozen=True)
class Discrete(Numeric):
    """A column of numbers whose missing values become the most frequent of some declared numbers.

    choices  the numbers from which the mode over all clients is chosen. They are declared, because to find them the
             clients would have to send their values
    impute   "mode", or as for `Numeric`

    The rest is as for `Numeric`.
    """

    impute: Literal["mode", "mean", "keep", "complete"] | float | None = "mode"  # type: ignore[assignment]
    choices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence) or not self.choices:
            raise ConfigError(f"column {self.name!r}: choices are a list of numbers, got {self.choices!r}")
        declared = tuple(_finite(self.name, "a choice", one) for one in self.choices)
        if len(set(declared)) < len(declared):
            raise ConfigError(f"column {self.name!r}: choices are different numbers, got {list(declared)}")
        object.__setattr__(self, "choices", declared)

    @property
    def needs_mode(self) -> bool:
        return self.impute == "mode"

    @property
    def levels(self) -> tuple[str | float, ...]:
        return self.choices

    def codes(self, cells: Array) -> Array:
        """The place of each cell's number among the choices; how many there are for any other, −1 if missing."""
        found = self.values(cells)
        order = np.argsort(self.choices)
        ordered = np.asarray(self.choices)[order]
        at = np.minimum(np.searchsorted(ordered, found), len(ordered) - 1)
        codes = np.where(ordered[at] == found, order[at], len(ordered))
        return np.where(np.isnan(found), -1, codes).astype(np.intp)


@dataclass(frozen=True)
class Categorical:
    """A column with declared categories, each of which becomes a column of zeros and ones.

    unseen      where a value goes that was not declared: "other", a level of its own with its own column;
                "zeros", no column, like the first category with `drop_first`; "error", refused
    impute      where a missing value goes: None, to the same place as an unseen one; a declared category;
                "mode", the category that is most frequent over all clients; or "complete": rows with a missing cell
                are left out before the run (see `complete_cases`)
    indicator   add a column that is 1 where the value is missing (which is then not counted as unseen)
    drop_first  no column for the first category: with a free intercept the others then say all

    Categories are text or numbers; "1" and 1 are the same, so it does not matter how a site's file was read.
    """

    name: str
    categories: tuple[str | float, ...]
    impute: str | float | None = None
    indicator: bool = False
    unseen: Unseen = "other"
    drop_first: bool = False

    def __post_init__(self) -> None:
        _check_column(self)
        if isinstance(self.categories, str) or not isinstance(self.categories, Sequence):
            raise ConfigError(f"column {self.name!r}: categories are a list, got {self.categories!r}")
        declared = tuple(
            one if isinstance(one, str) else _finite(self.name, "a category", one) for one in self.categories
        )
        object.__setattr__(self, "categories", declared)
        if len({key(one) for one in declared}) != len(declared) or not declared:
            raise ConfigError(f"column {self.name!r}: expected one or more different categories, got {list(declared)}")
        if self.unseen not in ("other", "zeros", "error"):
            raise ConfigError(f"column {self.name!r}: unseen is 'other', 'zeros' or 'error', got {self.unseen!r}")
        if self.impute == "none" and self.imputed is None:  # TOML has no None
            object.__setattr__(self, "impute", None)
        if self.impute is not None and self.imputed is None and not self.needs_mode and not self.is_complete:
            raise ConfigError(
                f"column {self.name!r}: impute is None, 'mode' or one of {list(declared)}, or 'complete', got "
                f"{self.impute!r}"
            )
        names = self.feature_names()
        if not names:
            raise ConfigError(f"column {self.name!r}: nothing is left of its only category; leave drop_first out")
        if len(set(names)) != len(names):
            raise ConfigError(
                f"column {self.name!r}: two of its columns would have one name ({', '.join(names)}); "
                "leave 'other' to unseen='other' and 'missing' to indicator=True, or name them otherwise"
            )

    @property
    def imputed(self) -> int | None:
        """The place of the declared category that stands for a missing value."""
        return None if self.impute is None else self._places().get(key(self.impute))

    @property
    def is_complete(self) -> bool:
        """Whether rows in which it is missing are left out."""
        return self.impute == "complete" and "complete" not in self.categories

    def missing(self, cells: Array) -> Array:
        """Where the raw cells are missing."""
        return self.codes(cells) == -1

    @property
    def levels(self) -> tuple[str | float, ...]:
        """The declared values from which a mode is chosen."""
        return self.categories

    @property
    def needs_mode(self) -> bool:
        return self.impute == "mode" and "mode" not in self.categories

    def feature_names(self) -> tuple[str, ...]:
        shown = [one if isinstance(one, str) else f"{one:.15g}" for one in self.categories]
        if self.unseen == "other":
            shown.append("other")
        if self.indicator:
            shown.append("missing")
        return tuple(f"{self.name}={one}" for one in shown[self.drop_first :])

    def codes(self, cells: Array) -> Array:
        """The place of each cell's category; k (how many there are) if undeclared, −1 if missing."""
        places, unseen = self._places(), len(self.categories)

        def code(cell: object) -> int:
            missing = is_missing(cell)
            place = None if missing else places.get(key(cell))
            if place is not None:
                return place
            return -1 if missing or (isinstance(cell, str) and cell.strip() in MISSING_TEXTS) else unseen

        # As a rule there are few different values: each is looked up once.
        if cells.dtype != object:
            distinct, which = np.unique(texts(cells), return_inverse=True)
            return np.array([code(cell) for cell in distinct.tolist()], dtype=np.intp)[which]
        known: dict[object, int] = {}
        found = np.empty(len(cells), dtype=np.intp)
        for row, cell in enumerate(cells):
            if cell not in known:
                known[cell] = code(cell)
            found[row] = known[cell]
        return found

    def _places(self) -> dict[str | float, int]:
        return {key(one): place for place, one in enumerate(self.categories)}


Column: TypeAlias = Numeric | Categorical | Discrete


@dataclass(frozen=True)
class Schema:
    """The raw columns, in order. Every client must have these and no others."""

    columns: tuple[Numeric | Categorical | Discrete, ...]

    written_as: ClassVar[str] = "columns"  # in plain form a schema is the list of its columns

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        for column in self.columns:
            if not isinstance(column, Numeric | Categorical):
                raise ConfigError(f"a schema is made of Numeric and Categorical columns, got {column!r}")
        names = [column.name for column in self.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not names:
            raise ConfigError(f"a schema has at least one column, and different names; given twice: {twice}")

    @classmethod
    def from_plain(cls, columns: object) -> Schema:
        """From a list of tables as TOML and JSON have them: `name`, and what the column's class has besides.

        A column with `categories` is categorical; `kind = "numeric"` or `"categorical"` may say so outright.
        TOML has no None: write "none". Raises ConfigError for what is no schema.
        """
        return Reader().make(cls, columns, "schema")

    def to_plain(self) -> Plain:
        """What `from_plain` reads."""
        return to_plain(self)


# ── checks ──


def _check_column(column: Numeric | Categorical) -> None:
    if not isinstance(column.name, str) or not column.name:
        raise ConfigError(f"a column has a name, got {column.name!r}")
    for what in ("indicator", "drop_first"):
        if not isinstance(getattr(column, what, False), bool):
            raise ConfigError(f"column {column.name!r}: {what} is true or false, got {getattr(column, what)!r}")


def _finite(name: str, what: str, value: object) -> float:
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ConfigError(f"column {name!r}: {what} is a finite number (or text), got {value!r}")
    return float(value)
