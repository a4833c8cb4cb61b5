"""What a federation has agreed to make of its raw columns; part of the model, so that raw columns go in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import array_api_compat as api
import numpy as np
import scipy.sparse as sp

from fedsolve.data.formula_design import FormulaDesign, names_of
from fedsolve.data.formula_factors import Category
from fedsolve.data.schema import Categorical, Discrete, Numeric, Schema
from fedsolve.errors import ConfigError, DataError
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.tables.column_names import match_columns
from fedsolve.typing import Array

FORMAT = 1
WORTH_SAYING, MOST_SAID = 0.05, 6


@dataclass(frozen=True, eq=False)
class Transform:
    """The columns as declared, and for each of them three numbers that were learned.

    fill     what stands for a missing value, before scaling; in a categorical column the place of a category.
             NaN: nothing does
    centre, scale   a number x becomes (x − centre) / scale; 0 and 1 in a categorical column
    missing, unseen   the share of the weight of all clients whose cell is missing, or is of no declared category;
             None where nobody has counted (the clients' own copy, and models saved by earlier versions)
    design   what a formula makes of the columns, which then stay in their own units; None: there is no formula
    """

    columns: tuple[Numeric | Categorical | Discrete, ...]
    fill: Array
    centre: Array
    scale: Array
    missing: Array | None = None
    unseen: Array | None = None
    design: FormulaDesign | None = None

    def __post_init__(self) -> None:
        for what in ("fill", "centre", "scale", "missing", "unseen"):
            given = getattr(self, what)
            if given is None and what in ("missing", "unseen"):
                continue
            numbers = np.asarray(to_numpy(given))  # a client's own copy is of its library
            if numbers.shape != (len(self.columns),) or numbers.dtype != np.float64:
                raise DataError(
                    f"a transform of {len(self.columns)} columns has as many float64 numbers {what!r}, got "
                    f"{numbers.dtype} of shape {numbers.shape}"
                )
        fill, centre, scale = (to_numpy(one) for one in (self.fill, self.centre, self.scale))
        sound = np.isfinite(centre) & np.isfinite(scale) & (scale > 0) & ~np.isinf(fill)
        for j in [*np.flatnonzero(~sound)[:1], *self._misplaced()]:
            raise DataError(
                f"column {self.columns[j].name!r}: it cannot be filled with {self.fill[j]:g} and scaled by "
                f"{self.scale[j]:g} about {self.centre[j]:g}; the centre is finite, the scale positive, and a category "
                "is filled with the place of one of its own"
            )
        if self.design is not None:
            self._check_design(self.design)

    def _check_design(self, design: FormulaDesign) -> None:
        known = {column.name: column for column in self.columns}
        for name in design.columns:
            if name not in known:
                raise DataError(f"the formula needs a column {name!r}, which is not among those of the transform")
        for factor in design.factors:
            if isinstance(factor, Category) != isinstance(known[names_of(factor)[0]], Categorical):
                raise DataError(f"column {names_of(factor)[0]!r}: the formula takes it for what it is not")

    def _misplaced(self) -> Iterator[int]:
        """Categorical columns that would be filled with what is none of their categories."""
        for j, column in enumerate(self.columns):
            if isinstance(column, Categorical):
                place = float(self.fill[j])
                if not math.isnan(place) and place not in range(len(column.categories)):
                    yield j

    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns that `apply` makes: `age`, `age=missing`, `sex=f`, `sex=other`; of a formula its
        terms, `age:sex[T.m]`, and after them the indicators of missing cells, `age=missing`."""
        if self.design is not None:
            return (*self.design.feature_names, *(f"{column.name}=missing" for _, column in self._indicated()))
        return tuple(name for column in self.columns for name in column.feature_names())

    def apply(self, X: Array) -> Array:
        """Raw columns to float64; a CSR matrix stays one, an Array API array stays with its library.

        The columns of a data frame are matched by name, in any order; those of anything else are taken by place.
        """
        names = [column.name for column in self.columns]
        X = match_columns(
            X, names, "the data frame", "give it exactly the columns that were preprocessed, in any order", self.needed
        )
        if sp.issparse(X):
            return self._apply_sparse(X)
        if not isinstance(X, np.ndarray):
            if api.is_array_api_obj(X):
                return like(self.of_numpy().apply(to_numpy(X)), X)
            X = np.asarray(X, dtype=object)  # a list of rows: no column changes its type for another
        self._check_shape(X.shape)
        if self.design is not None:
            values, missing = self.cells(X)
            gaps = [missing[column.name] for _, column in self._indicated()]
            return np.column_stack([self.design.apply(values), *gaps])
        if X.dtype.kind in "fiub" and all(isinstance(one, Numeric) and not one.indicator for one in self.columns):
            return self._apply_numbers(X)
        parts = [
            self._encoded(j, column, X[:, j]) if isinstance(column, Categorical) else self._scaled(j, column, X[:, j])
            for j, column in enumerate(self.columns)
        ]
        return np.concatenate(parts, axis=1)

    def of_numpy(self) -> Transform:
        """The same with NumPy's arrays: a client's own copy has those of its library."""
        return replace(self, fill=to_numpy(self.fill), centre=to_numpy(self.centre), scale=to_numpy(self.scale))

    @property
    def fills(self) -> dict[str, float | str]:
        """What stands for a missing cell, by the names of the columns that have such a number or category: what a run
        file may say as `impute` of the column, for another run that fills as this one did."""
        found: dict[str, float | str] = {}
        for column, fill in zip(self.columns, to_numpy(self.fill).tolist(), strict=True):
            if not math.isnan(fill):
                found[column.name] = column.categories[int(fill)] if isinstance(column, Categorical) else fill
        return found

    @property
    def needed(self) -> tuple[str, ...] | None:
        """The columns that the formula is of, the only ones that are looked at; None: there is no formula."""
        return None if self.design is None else self.design.columns

    def cells(self, X: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """The columns of a formula as numbers or places of categories, and where they were missing, by name."""
        values, missing = {}, {}
        for j, column in enumerate(self.columns):
            if column.name in (self.needed or ()):
                look = self._codes if isinstance(column, Categorical) else self._filled
                values[column.name], missing[column.name] = look(j, column, X[:, j])  # type: ignore[arg-type]
        return values, missing

    def _indicated(self) -> list[tuple[int, Numeric | Categorical]]:
        """The columns of a formula that have an indicator of their missing cells."""
        needed = self.needed or ()
        return [(j, one) for j, one in enumerate(self.columns) if one.indicator and one.name in needed]

    @property
    def keeps_missing(self) -> bool:
        """Whether cells that are missing stay so."""
        return any(isinstance(column, Numeric) and column.keeps_missing for column in self.columns)

    def gaps(self) -> list[tuple[str, float, float]]:
        """Name, share missing and share unseen of each column that has any of either."""
        if self.missing is None or self.unseen is None:
            return []
        shares = zip(self.columns, self.missing.tolist(), self.unseen.tolist(), strict=True)
        return [(column.name, missing, unseen) for column, missing, unseen in shares if missing > 0 or unseen > 0]

    def notice(self, above: float = WORTH_SAYING) -> str:
        """What deserves a look, in one sentence; empty if no share is above this one."""
        said = []
        for name, missing, unseen in self.gaps():
            if unseen > above:
                said.append(f"{unseen:.0%} of {name} in no declared category")
            if missing > above:
                said.append(f"{missing:.0%} of {name} missing")
        more = f" and {len(said) - MOST_SAID} more" if len(said) > MOST_SAID else ""
        return f"Look at the data: {', '.join(said[:MOST_SAID])}{more}." if said else ""

    def to_plain(self) -> dict[str, Plain]:
        """As JSON has it. Python writes a float with as many digits as it takes to read the same one."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        del plain["name"]
        return {"format": FORMAT, **plain}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Transform:
        """What `to_plain` gave, also with an earlier version; raises DataError for anything else."""
        given = dict(plain)
        found = given.pop("format", None)
        if found != FORMAT:
            raise DataError(f"a transform of format {found!r}; this version reads {FORMAT}")
        try:
            given["columns"] = Schema.from_plain(given.get("columns")).columns
            return Reader().make(cls, given, "transform")
        except ConfigError as error:
            raise DataError(f"this is not a transform that was saved: {error}") from None

    # ── one kind of input each ──

    def _apply_numbers(self, X: Array) -> Array:
        Z = X - self.centre
        Z /= self.scale
        wrong = ~np.isfinite(Z)
        if wrong.any():
            rows, places = np.nonzero(wrong)
            for j in np.unique(places):
                here = rows[places == j]
                column = self.columns[j]
                assert isinstance(column, Numeric)
                Z[here, j] = self._scaled(j, column, X[here, j])[:, 0]
        return Z

    def _apply_sparse(self, X: Array) -> Array:
        self._check_shape(X.shape)
        if self.design is not None:
            raise DataError("X is sparse, and a formula fills it: use X.toarray()")
        check_sparse(self.columns)
        X = sp.csr_array(X, dtype=np.float64)
        if not np.isfinite(X.data).all():
            raise DataError("X is sparse and has NaN or infinite entries, which cannot be imputed: use X.toarray()")
        return sp.csr_array((X.data / self.scale[X.indices], X.indices, X.indptr), shape=X.shape)

    def _scaled(self, j: int, column: Numeric, cells: Array) -> Array:
        values, missing = self._filled(j, column, cells)
        scaled = (values - self.centre[j]) / self.scale[j]
        return np.column_stack([scaled, missing]) if column.indicator else scaled[:, None]

    def _filled(self, j: int, column: Numeric, cells: Array) -> tuple[Array, Array]:
        """The numbers, with what stands for missing ones, and where these are."""
        values = column.values(cells)
        missing = np.isnan(values)
        if missing.any() and not column.keeps_missing:
            if column.is_complete:
                raise DataError(_incomplete(column.name, int(missing.sum())))
            if np.isnan(self.fill[j]):
                raise DataError(
                    f"column {column.name!r}: {int(missing.sum())} missing values and nothing to impute; "
                    "say impute='mean' or a number"
                )
            values[missing] = self.fill[j]
        return values, missing

    def _encoded(self, j: int, column: Categorical, cells: Array) -> Array:
        codes, missing = self._codes(j, column, cells)
        levels = len(column.categories) + (column.unseen == "other")
        one_hot = (codes[:, None] == np.arange(int(column.drop_first), levels)).astype(np.float64)
        return np.column_stack([one_hot, missing]) if column.indicator else one_hot

    def _codes(self, j: int, column: Categorical, cells: Array) -> tuple[Array, Array]:
        """The places of the categories, beyond the last for a cell of none, and where cells are missing."""
        codes, k = column.codes(cells), len(column.categories)
        missing = codes == -1
        if column.is_complete and missing.any():
            raise DataError(_incomplete(column.name, int(missing.sum())))
        # An indicator says it all: a missing value is then of no level, unless one is imputed.
        absent = k + 1 if column.indicator else k
        codes[missing] = absent if np.isnan(self.fill[j]) else int(self.fill[j])
        if column.unseen == "error" and (codes == k).any():
            # The row and not the cell: the message goes to the server, and the cell is someone's.
            raise DataError(
                f"column {column.name!r}, row {int(np.argmax(codes == k))}: missing, or none of the declared "
                f"categories {list(column.categories)}; declare it, or say unseen='other' or 'zeros'"
            )
        return codes, missing

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 2 or shape[1] != len(self.columns):
            names = ", ".join(column.name for column in self.columns[:8]) + (" …" if len(self.columns) > 8 else "")
            raise DataError(f"X has shape {tuple(shape)}, expected {len(self.columns)} raw columns: {names}")


def _incomplete(name: str, count: int) -> str:
    return (
        f"column {name!r}: {count} missing values, and impute='complete' needs complete rows; leave those rows out, "
        "for a run with fs.data.complete_cases(clients, preprocess)"
    )


def check_sparse(columns: tuple[Numeric | Categorical, ...]) -> None:
    """Refuse what would make numbers of the zeros that a sparse matrix does not store."""
    for column in columns:
        if isinstance(column, Categorical) or column.indicator:
            raise DataError(f"column {column.name!r}: X is sparse, which only numeric columns can be: use X.toarray()")
        if column.scaling == "standardise" or (column.scaling == "range" and column.low != 0):
            raise DataError(
                f"column {column.name!r}: X is sparse, and centring would fill it; only scale it, with "
                "Preprocess(centre=False) or Numeric(…, scaling='scale'), or use X.toarray()"
            )
