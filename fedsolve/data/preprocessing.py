"""Standardise, impute and encode by sums of the clients' statistics.

    run(Newton(Logistic(l2=1e-3)), clients, preprocess=Preprocess())            every column a number
    run(…, preprocess=Preprocess(Schema((Numeric("age"), Categorical("sex", ("f", "m"))))))

Two exchanges learn what there is to learn, and a third tells every client what was agreed:

    1  Σ s and Σ s x over the observed values of each column give the mean m (s: the sample weights);
       Σ s over the samples of each category gives the mode
    2  Σ s (x − m) and Σ s (x − m)² give the standard deviation

Σ s x² in the first exchange would spare the second, but a variance as a difference of two large sums has lost
all its digits where the mean is 10⁸ deviations. About m, which is nearly the mean, nothing cancels; what
rounding left between m and the mean is corrected by Σ s (x − m) (Chan, Golub and LeVeque, 1983). An exchange
is left out where the schema leaves nothing for it to learn. To the last one clients answer with the weight of
their missing cells and of those in no declared category, column by column; the sums go with the transform.

Statistics are those of the observed values: a column's mean and deviation do not depend on what stands for
the missing ones (scikit-learn's StandardScaler, then SimpleImputer).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from fedsolve.data import advice
from fedsolve.data.fitted_transform import Transform, check_sparse
from fedsolve.data.formula_design import FormulaDesign, Product
from fedsolve.data.formula_factors import FACTORS
from fedsolve.data.formula_terms import has_intercept, read, sides
from fedsolve.data.schema import Categorical, Column, Discrete, Numeric, Schema
from fedsolve.errors import ConfigError, DataError, ProtocolMismatch, WrongType
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape
from fedsolve.wire.messages import Purpose

__all__ = ["Categorical", "Column", "Discrete", "Numeric", "Preprocess", "Schema", "Transform"]


@dataclass(frozen=True)
class Totals:
    """Weight and weighted sum of each column's observed values (0 for a categorical column), and the weight
    of each category of the columns that are imputed by their mode, one column after the other."""

    weight: Array
    total: Array
    levels: Array


@dataclass(frozen=True)
class Spread:
    """Σ s (x − m) and Σ s (x − m)² of each column's observed values."""

    residual: Array
    square: Array


@dataclass(frozen=True)
class Gaps:
    """The weight of each column's missing cells, and of those in no declared category."""

    missing: Array
    unseen: Array


@dataclass(frozen=True)
class Preprocess:
    """The preprocessing protocol. Without a schema all columns are numbers, and the options hold for all.

    standardise  divide by the standard deviation, after subtracting the mean unless `centre=False` (sparse X)
    impute       "mean", a number, or None: a missing value is an error; "keep": it stays missing, for learners that
                 take missing values, such as trees; "complete": rows with a missing cell are left out before the
                 run (see `complete_cases`)
    indicator    add a column for each that is 1 where the value is missing
    formula      which columns to make of these, as statisticians write it: "age * sex + bs(chol, df=4) + C(cp)". The
                 columns enter in their own units, and what the formula makes is standardised. A left-hand side names
                 the target, which the clients have as y. Needs formulaic; see docs/formulas.md
    """

    schema: Schema | None = None
    standardise: bool = True
    centre: bool = True
    impute: Literal["mean", "keep", "complete"] | float | None = "mean"
    indicator: bool = False
    formula: str | None = None

    purpose: ClassVar[Purpose] = "setup"

    # What a checkpoint must know to read a Transform.
    transform_types: ClassVar[tuple[type, ...]] = (
        *(Transform, Numeric, Categorical, Discrete),
        *(FormulaDesign, Product, *FACTORS),
    )

    def __post_init__(self) -> None:
        self._check_schema()
        if self.formula is not None:
            sides(self.formula)
            if self.schema is not None:
                self._design(self.schema.columns)

    def _check_schema(self) -> None:
        if self.schema is None:
            self._numeric("x0")  # refuses now what it would refuse at each client
        elif not isinstance(self.schema, Schema):
            raise ConfigError(
                f"schema is a Schema, got {type(self.schema).__name__}; Schema.from_plain reads plain lists"
            )
        elif (self.standardise, self.centre, self.impute, self.indicator) != (True, True, "mean", False):
            raise ConfigError(
                "with a schema each column says for itself how it is scaled and imputed: leave standardise, "
                f"centre, impute and indicator out{self._said_by_column(self.schema)}"
            )

    def _said_by_column(self, schema: Schema) -> str:
        """What to write instead, where `impute` was given for all columns."""
        if self.impute == "mean":
            return ""
        names = [one.name for one in schema.columns if isinstance(one, Numeric) or self.impute == "complete"]
        return f"; write {advice.for_columns(names, 'impute', 'none' if self.impute is None else self.impute)}"

    # ── clients ──

    @client_step(sends="sums of its columns, and counts of its categories")
    def totals(self, client: Client) -> Totals:
        columns = self._columns(client)
        X, s = _raw(client, columns), _weights(client)
        if sp.issparse(X):
            # A zero that is not stored is observed all the same.
            weight = np.full(len(columns), s.sum())
            return Totals(weight, _sparse_sums(X, X.data, s), np.zeros(0))
        values = _numbers(columns, X, self._needed(columns))
        observed = ~np.isnan(values)
        return Totals(s @ observed, s @ np.where(observed, values, 0.0), _level_weights(columns, X, s))

    @client_step(sends="sums of squares of its columns")
    def spread(self, client: Client, mean: Array) -> Spread:
        columns = self._columns(client)
        require_shape("mean", mean, len(columns))
        X, s, m = _raw(client, columns), _weights(client), to_numpy(mean)
        if sp.issparse(X):
            r = X.data - m[X.indices]
            zeros = s.sum() - _sparse_sums(X, np.ones_like(r), s)
            return Spread(_sparse_sums(X, r, s) - zeros * m, _sparse_sums(X, r * r, s) + zeros * m * m)
        R = _numbers(columns, X) - m
        R[np.isnan(R)] = 0.0
        with np.errstate(over="ignore"):  # what is too large to square the server refuses by name
            return Spread(s @ R, s @ (R * R))

    @client_step(sends="counts of missing and undeclared cells in its columns")
    def adopt(self, client: Client, transform: Transform) -> Gaps:
        columns = self._columns(client)
        self._check_agreed(columns, transform)
        client.session["transform"] = transform
        _ = client.design  # what cannot be transformed is refused here, not in the first round
        return _gaps(columns, _raw(client, columns), _weights(client), self._needed(columns))

    @client_step(sends="sums for a formula: counts of rows between bounds, and sums of powers of its columns")
    def term_sums(self, client: Client, transform: Transform) -> Array:
        """What this client's rows say of what a formula leaves open: knots, means, deviations. Nothing without one."""
        values, missing = self._cells(client, transform)
        return np.zeros(0) if transform.design is None else transform.design.sums(values, missing)

    @client_step(sends="sums of the columns that a formula makes")
    def made_totals(self, client: Client, transform: Transform) -> Array:
        """Σ s v of each column that the formula makes."""
        values, _ = self._cells(client, transform)
        return np.zeros(0) if transform.design is None else _weights(client) @ transform.design.apply(values)

    @client_step(sends="sums of squares of the columns that a formula makes")
    def made_spread(self, client: Client, transform: Transform, mean: Array) -> Spread:
        """Σ s (v − m) and Σ s (v − m)² of each column that the formula makes."""
        values, _ = self._cells(client, transform)
        design, s = transform.design, _weights(client)
        require_shape("mean", mean, 0 if design is None else len(design.products))
        if design is None:
            return Spread(np.zeros(0), np.zeros(0))
        R = design.apply(values) - to_numpy(mean)
        with np.errstate(over="ignore"):
            return Spread(s @ R, s @ (R * R))

    def _cells(self, client: Client, transform: Transform) -> tuple[dict[str, Array], dict[str, Array]]:
        """The columns of the formula, imputed, and where they were missing; the transform must be of what this client
        has declared."""
        columns = self._columns(client)
        self._check_agreed(columns, transform)
        if self.formula is None:
            return {}, {}
        if sp.issparse(client.X):
            raise DataError(f"client {client.name!r}: X is sparse, and a formula fills it: use X.toarray()")
        X = to_numpy(client.ordered([column.name for column in transform.columns]))
        return transform.of_numpy().cells(X)

    @client_step(sends="its number of columns")
    def width(self, client: Client) -> int:
        """This client's number of columns."""
        return int(client.X.shape[1])

    # ── server ──

    def fit(self, fed: Federation) -> Transform:
        """Learn what the schema leaves open, and have every client adopt it. Every client must take part: one that
        missed what was agreed would later answer with columns of another meaning."""
        with fed.setting_up():
            return self._fit(fed)

    def _fit(self, fed: Federation) -> Transform:
        declared = () if self.schema is None else self.schema.columns
        if self.formula is not None:
            return self._agree(fed, self._fit_formula(fed))
        if self.schema is not None and not any(_learns(column) for column in declared):
            return self._agree(fed, _transform(declared, np.zeros(len(declared)), np.ones(len(declared)), ()))
        totals = self._totals(fed)
        names = fed.feature_names or tuple(f"x{j}" for j in range(len(totals.weight)))
        columns = declared or tuple(self._numeric(name) for name in names)
        numeric = [isinstance(column, Numeric) and column.needs_mean for column in columns]
        _check_observed(columns, totals.weight, numeric)
        mean = np.divide(totals.total, totals.weight, out=np.zeros(len(columns)), where=numeric)
        _check_finite(columns, mean)
        deviation = np.ones(len(columns))
        measured = [isinstance(column, Numeric) and column.needs_deviation for column in columns]
        if any(measured):
            spread = fed.sum(self.spread, mean=mean)
            samples = sum(info.samples for info in fed.info.values())
            mean, deviation = _moments(columns, mean, totals.weight, spread, measured, samples)
        return self._agree(fed, _transform(columns, mean, deviation, _modes(columns, totals.levels)))

    def _fit_formula(self, fed: Federation) -> Transform:
        """Learn what stands for missing cells, then what the formula leaves open, then the scale of its columns."""
        if self.schema is None and fed.feature_names is None:
            raise DataError(
                "a formula is of columns by name, and the clients' columns have none: give feature_names= to each, or "
                "a schema"
            )
        declared = self._declared(fed.feature_names or ())
        design, columns = self._design(declared), self._effective(declared)
        mean, modes = np.zeros(len(columns)), tuple[int, ...]()
        if any(_learns(column) for column in columns):
            totals = self._totals(fed)
            needed = [isinstance(column, Numeric) and column.needs_mean for column in columns]
            _check_observed(columns, totals.weight, needed)
            np.divide(totals.total, totals.weight, out=mean, where=needed)
            _check_finite(columns, mean)
            modes = _modes(columns, totals.levels)
        transform = _transform(columns, mean, np.ones(len(columns)), modes)
        transform = replace(transform, design=design)
        while design.open:
            design = design.told(fed.sum(self.term_sums, transform=transform))
            transform = replace(transform, design=design)
        return replace(transform, design=self._scaled_design(fed, transform, design))

    def _scaled_design(self, fed: Federation, transform: Transform, design: FormulaDesign) -> FormulaDesign:
        """The design with its columns centred and scaled by sums, unless that is not wanted."""
        names = tuple(Numeric(one.name) for one in design.products)
        if not self.standardise:
            return design.scaled(np.zeros(len(names)), np.ones(len(names)))
        total = np.full(len(names), sum(fed.weights.values()))
        mean = fed.sum(self.made_totals, transform=transform) / total
        _check_finite(names, mean)
        spread = fed.sum(self.made_spread, transform=transform, mean=mean)
        samples = sum(info.samples for info in fed.info.values())
        mean, deviation = _moments(names, mean, total, spread, [True] * len(names), samples)
        return design.scaled(mean if self.centre else np.zeros(len(names)), deviation)

    def _totals(self, fed: Federation) -> Totals:
        try:
            totals: Totals = fed.sum(self.totals)
        except WrongType:
            # Replies of different lengths: ask who has how many columns, only now that it matters.
            # Gathered: the question is whose number differs, and joining tells it of columns that are no longer raw.
            widths = fed.gather(self.width)
            first = next(iter(widths))
            for name, width in widths.items():
                if width != widths[first]:
                    raise DataError(
                        f"client {name!r} has {width} columns where {first!r} has {widths[first]}; "
                        "all must have the same columns"
                    ) from None
            raise
        return totals

    def _agree(self, fed: Federation, transform: Transform) -> Transform:
        gaps: Gaps = fed.sum(self.adopt, transform=transform)
        total = sum(fed.weights.values())
        return replace(transform, missing=gaps.missing / total, unseen=gaps.unseen / total)

    # ── columns ──

    @property
    def keeps_missing(self) -> bool:
        """Whether missing cells may stay missing, so that only learners that take them can follow."""
        columns = (self._numeric("x0"),) if self.schema is None else self.schema.columns
        return self.formula is None and any(isinstance(one, Numeric) and one.keeps_missing for one in columns)

    @property
    def complete_columns(self) -> bool | tuple[str, ...]:
        """The columns in which no cell may be missing, so that rows are left out; True for all."""
        if self.schema is None:
            return self.impute == "complete"
        return tuple(column.name for column in self._effective(self.schema.columns) if column.is_complete)

    @property
    def has_intercept(self) -> bool | None:
        """Whether the formula has an intercept; None: there is no formula."""
        return None if self.formula is None else has_intercept(self.formula)

    def columns_of(self, client: Client) -> tuple[Numeric | Categorical, ...]:
        """The columns of this client's data, in the order of the schema. Raises DataError if they are others."""
        return self._columns(client)

    def _numeric(self, name: str) -> Numeric:
        scaling: Literal["standardise", "scale"] = "standardise" if self.centre else "scale"
        return Numeric(name, self.impute, self.indicator, scaling if self.standardise else None)

    def _columns(self, client: Client) -> tuple[Numeric | Categorical, ...]:
        """The columns of this client's data, which must be those declared."""
        given = client.X.shape[1]
        if self.schema is not None and client.feature_names is None and len(self.schema.columns) != given:
            declared = [column.name for column in self.schema.columns]
            listed = ", ".join(declared[:8]) + (" …" if len(declared) > 8 else "")
            raise DataError(
                f"X has {given} columns where the schema has {len(declared)}: {listed}; without names they are "
                "taken by place"
            )
        columns = self._effective(self._declared(client.column_names or [f"x{j}" for j in range(given)]))
        if sp.issparse(client.X):
            check_sparse(columns)
        return columns

    def _declared(self, names: Sequence[str]) -> tuple[Numeric | Categorical, ...]:
        """The columns as the schema has them; without one, numbers with these names."""
        return tuple(self._numeric(name) for name in names) if self.schema is None else self.schema.columns

    # ── formula ──

    def _design(self, declared: tuple[Numeric | Categorical, ...]) -> FormulaDesign:
        """What the formula makes of these columns."""
        assert self.formula is not None
        design = read(self.formula, declared)
        for column in declared:
            if column.name in design.columns and isinstance(column, Numeric) and column.keeps_missing:
                raise ConfigError(
                    f"column {column.name!r}: a formula cannot compute with missing cells, which impute='keep' leaves "
                    "as they are; say impute='mean', a number or 'complete'"
                )
        return design

    def _needed(self, columns: Sequence[Column]) -> tuple[str, ...] | None:
        """The columns that the formula names; None: there is no formula, and all are used."""
        return None if self.formula is None else self._design(self._declared([one.name for one in columns])).columns

    def _effective(self, declared: tuple[Numeric | Categorical, ...]) -> tuple[Numeric | Categorical, ...]:
        """The columns as they are used: in a formula in their own units, and those that it does not name not at all."""
        if self.formula is None:
            return declared
        needed = self._design(declared).columns
        found: list[Numeric | Categorical] = []
        for column in declared:
            if isinstance(column, Numeric):
                column = replace(column, scaling=None)
            found.append(column if column.name in needed else replace(column, impute=None, indicator=False))
        return tuple(found)

    def _check_agreed(self, columns: Sequence[Column], transform: Transform) -> None:
        """Reject a transform of other columns than this client declares: of a million categories, say, which would be
        as many columns, or of another formula. Names may differ, where some clients know none."""
        ours, theirs = (Counter(replace(one, name="x") for one in each) for each in (columns, transform.columns))
        if ours != theirs:
            raise ProtocolMismatch(
                f"the server sent a transform of {len(transform.columns)} columns that are not the {len(columns)} "
                "declared here; start both sides with the same preprocessing"
            )
        declared = None if self.formula is None else self._design(self._declared([one.name for one in columns]))
        if declared != (None if transform.design is None else transform.design.declared()):
            raise ProtocolMismatch(
                "the server sent a transform of another formula than the one declared here; start both sides with the "
                "same preprocessing"
            )


# ── what a client computes ──


def _raw(client: Client, columns: Sequence[Column]) -> Array:
    """The inputs with their columns in this order, matched by name where they have names."""
    X = client.ordered([column.name for column in columns])
    return X if sp.issparse(X) else to_numpy(X)


def _weights(client: Client) -> Array:
    s = client.sample_weight
    return np.ones(client.n_samples) if s is None else to_numpy(s)


def _numbers(columns: Sequence[Column], X: Array, needed: Sequence[str] | None = None) -> Array:
    """All columns as numbers, NaN where missing; a categorical column is missing altogether, and so is one that is not
    needed."""
    if X.dtype.kind == "f" and all(isinstance(column, Numeric) for column in columns):
        return X
    out = np.full(X.shape, np.nan)
    for j, column in enumerate(columns):
        if isinstance(column, Numeric) and (needed is None or column.name in needed):
            out[:, j] = column.values(X[:, j])
    return out


def _sparse_sums(X: Array, entries: Array, s: Array) -> Array:
    """Σ_i s_i v_ij over the stored entries v."""
    weights = entries * np.repeat(s, np.diff(X.indptr))
    return np.bincount(X.indices, weights=weights, minlength=X.shape[1])


def _level_weights(columns: Sequence[Column], X: Array, s: Array) -> Array:
    parts: list[Array] = [np.zeros(0)]
    for j, column in enumerate(columns):
        if isinstance(column, Categorical | Discrete) and column.needs_mode:
            codes, k = column.codes(X[:, j]), len(column.levels)
            declared = (codes >= 0) & (codes < k)
            parts.append(np.bincount(codes[declared], weights=s[declared], minlength=k))
    return np.concatenate(parts)


def _gaps(columns: Sequence[Column], X: Array, s: Array, needed: Sequence[str] | None) -> Gaps:
    missing, unseen = np.zeros(len(columns)), np.zeros(len(columns))
    if sp.issparse(X):  # numbers only, and none of them missing
        return Gaps(missing, unseen)
    for j, column in enumerate(columns):
        if needed is not None and column.name not in needed:
            continue
        if isinstance(column, Categorical):
            codes = column.codes(X[:, j])
            missing[j], unseen[j] = s @ (codes == -1), s @ (codes == len(column.categories))
        elif X.dtype.kind not in "iub":
            missing[j] = s @ np.isnan(column.values(X[:, j]))
    return Gaps(missing, unseen)


# ── what the server makes of the sums ──


def _learns(column: Column) -> bool:
    return column.needs_mode or (isinstance(column, Numeric) and column.needs_mean)


def _moments(
    columns: Sequence[Column], m: Array, weight: Array, spread: Spread, measured: Sequence[bool], samples: int
) -> tuple[Array, Array]:
    """Mean and standard deviation, 1 for a column that is constant."""
    where = np.asarray(measured)
    total = np.where(where, weight, 1.0)
    shift = np.where(where, spread.residual / total, 0.0)
    _check_finite(columns, spread.square)
    mean, variance = m + shift, np.where(where, spread.square / total - shift**2, 1.0)
    # A constant is constant up to the rounding of so long a sum: the bound of scikit-learn's StandardScaler.
    epsilon = np.finfo(np.float64).eps
    constant = variance <= samples * epsilon * variance + (samples * epsilon * mean) ** 2
    return mean, np.where(constant, 1.0, np.sqrt(np.maximum(variance, 0.0)))


def _modes(columns: Sequence[Column], levels: Array) -> tuple[int, ...]:
    """The most frequent category of each column that is imputed by it; of equals the first declared."""
    found, start = [], 0
    for column in columns:
        if column.needs_mode:
            counts = levels[start : start + len(column.levels)]
            start += len(column.levels)
            if not counts.any():
                what = "categories" if isinstance(column, Categorical) else "choices"
                raise DataError(f"column {column.name!r}: no client has any of its {what}, so there is no mode")
            found.append(int(np.argmax(counts)))
    return tuple(found)


def _transform(columns: Sequence[Column], mean: Array, deviation: Array, modes: tuple[int, ...]) -> Transform:
    fill, centre, scale = np.full(len(columns), np.nan), np.zeros(len(columns)), np.ones(len(columns))
    mode = iter(modes)
    for j, column in enumerate(columns):
        if isinstance(column, Categorical):
            place = next(mode) if column.needs_mode else column.imputed
            fill[j] = np.nan if place is None else place
            continue
        if column.needs_mode:
            fill[j] = column.levels[next(mode)]
        elif column.impute is not None and not column.keeps_missing and not column.is_complete:
            fill[j] = mean[j] if isinstance(column.impute, str) else column.impute
        if column.scaling == "range":
            assert column.low is not None
            assert column.high is not None
            centre[j], scale[j] = column.low, column.high - column.low
        elif column.scaling is not None:
            centre[j] = mean[j] if column.scaling == "standardise" else 0.0
            scale[j] = deviation[j]
    return Transform(tuple(columns), fill, centre, scale)


def _check_observed(columns: Sequence[Column], weight: Array, needed: Sequence[bool]) -> None:
    empty = [column.name for column, s, need in zip(columns, weight, needed, strict=True) if need and not s > 0]
    if empty:
        raise DataError(
            f"no client has an observed value in column {', '.join(map(repr, empty))}: drop it, or declare a "
            "number to impute and no standardising"
        )


def _check_finite(columns: Sequence[Column], sums: Array) -> None:
    for column, value in zip(columns, sums, strict=True):
        if not np.isfinite(value):
            raise DataError(f"column {column.name!r} has values too large to square: give it another unit")
