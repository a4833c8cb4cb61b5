"""The design that a formula declares: columns that are products of factors, computed row by row.

It is made of plain values, goes to every client, and is saved with the model. To compute it needs neither the formula
nor formulaic: names, codings and products are settled when the formula is read (`formula_terms`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.data.formula_arithmetic import columns_in, compute, syntax
from fedsolve.data.formula_factors import (
    BSplines,
    Category,
    Factor,
    Moments,
    NaturalSplines,
    Number,
    Polynomials,
    Powers,
    Scaled,
    Spline,
)
from fedsolve.errors import ConfigError, DataError
from fedsolve.typing import Array


@dataclass(frozen=True)
class Product:
    """One column: the product of one column each of some factors, times a number.

    name   as formulaic calls it: `age:sex[T.m]`
    parts  places of factors, and of their columns
    """

    name: str
    parts: tuple[tuple[int, int], ...]
    times: float = 1.0


def names_of(factor: Factor) -> tuple[str, ...]:
    """The raw columns that a factor is of."""
    return (factor.source,) if isinstance(factor, Category) else columns_in(syntax(factor.source))


@dataclass(frozen=True)
class FormulaDesign:
    """The columns of a formula.

    names          what the factors are called in the formula
    factors        the factors
    products       the columns, in order; an intercept is not among them
    intercept      whether the formula has one
    centre, scale  a column v becomes (v − centre) / scale, so that a fit converges in any units; empty: not known yet
    """

    names: tuple[str, ...]
    factors: tuple[Number | Powers | Category | BSplines | NaturalSplines | Polynomials | Scaled, ...]
    products: tuple[Product, ...]
    intercept: bool = True
    centre: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        try:
            named = all(names_of(factor) for factor in self.factors)
        except ConfigError as error:
            raise DataError(f"a formula's design has a factor that cannot be computed: {error}") from None
        widths = [factor.width for factor in self.factors]
        inside = all(
            product.parts and all(0 <= at < len(widths) and 0 <= column < widths[at] for at, column in product.parts)
            for product in self.products
        )
        lengths = {len(self.centre), len(self.scale)}
        units = lengths in ({0}, {len(self.products)}) and all(one > 0 and math.isfinite(one) for one in self.scale)
        if not (named and inside and units and len(self.names) == len(widths)):
            raise DataError(f"a formula's design of {len(self.products)} columns has parts that do not fit together")

    # ── what it is of ──

    @property
    def columns(self) -> tuple[str, ...]:
        """The raw columns it needs, each once."""
        return tuple(dict.fromkeys(name for factor in self.factors for name in names_of(factor)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(product.name for product in self.products)

    @property
    def indicators(self) -> tuple[bool, ...]:
        """Which columns hold nothing but zeros and ones, by their coding; these are not scaled."""
        coded = [isinstance(one, Category) and one.is_indicator for one in self.factors]
        return tuple(one.times == 1.0 and all(coded[factor] for factor, _ in one.parts) for one in self.products)

    def declared(self) -> FormulaDesign:
        """The same without what is learned; equal on both sides of a federation."""
        factors: list[Factor] = []
        for factor in self.factors:
            if isinstance(factor, BSplines | NaturalSplines) and factor.learned:
                factor = replace(factor, knots=None)
            if isinstance(factor, NaturalSplines):
                factor = replace(factor, totals=())
            elif isinstance(factor, Polynomials | Scaled):
                factor = replace(factor, alpha=(), norms=())
            factors.append(factor)
        return replace(self, factors=tuple(factors), centre=(), scale=())

    def in_words(self) -> list[str]:
        """What the federation has agreed on that one needs to know to fit the same elsewhere, a sentence each."""
        splines = [(name, one) for name, one in zip(self.names, self.factors, strict=True) if isinstance(one, Spline)]
        return list(dict.fromkeys(f"{name} has {one.in_words()}" for name, one in splines))

    # ── computing ──

    def apply(self, values: Mapping[str, Array]) -> Array:
        """The columns, centred and scaled as far as that is known.

        Args:
            values: By name, the numbers of a column, or the places of its categories; nothing is missing.
        """
        if self.open:
            raise DataError("the formula's knots, means or deviations are not agreed on yet")
        made = [self._columns(name, factor, values) for name, factor in zip(self.names, self.factors, strict=True)]
        rows = len(next(iter(values.values())))
        D = np.empty((rows, len(self.products)))
        for place, product in enumerate(self.products):
            (first, column), *others = product.parts
            D[:, place] = made[first][:, column]
            for factor, column in others:
                D[:, place] *= made[factor][:, column]
            if product.times != 1.0:
                D[:, place] *= product.times
        if self.scale:
            D -= np.array(self.centre)
            D /= np.array(self.scale)
        if not np.isfinite(D).all():
            place = int(np.argmax(~np.isfinite(D).all(axis=0)))
            raise DataError(f"column {self.products[place].name!r} of the formula has values too large to compute with")
        return D

    def _columns(self, name: str, factor: Factor, values: Mapping[str, Array]) -> Array:
        if isinstance(factor, Category):
            return factor.columns(values[factor.source])
        x = compute(factor.source, values)
        if isinstance(factor, BSplines | NaturalSplines):
            x = factor.within(x, name)
        return factor.columns(x)

    # ── agreeing ──

    @property
    def open(self) -> bool:
        """Whether something is yet to be learned of the columns that factors make."""
        return any(isinstance(factor, Spline | Moments) and factor.open for factor in self.factors)

    def sums(self, values: Mapping[str, Array], missing: Mapping[str, Array]) -> Array:
        """What this client's rows add to what is yet to be learned, of all factors one after the other.

        missing  by column, where its cells are missing
        """
        parts: list[Array] = [np.zeros(0)]
        for factor in self.factors:
            if isinstance(factor, Spline | Moments) and factor.open:
                names = columns_in(syntax(factor.source))
                kept = ~np.logical_or.reduce([missing[name] for name in names])
                there = {name: values[name][kept] for name in names}
                parts.append(factor.sums(compute(factor.source, there)))
        return np.concatenate(parts)

    def told(self, sums: Array) -> FormulaDesign:
        """The design with what the sums over all clients tell. Raises DataError for sums that no rows have."""
        asked = [one.asked if isinstance(one, Spline | Moments) and one.open else 0 for one in self.factors]
        if sums.shape != (sum(asked),) or not np.isfinite(sums).all():
            raise DataError(f"the clients' sums for the formula have shape {sums.shape}, or are not finite")
        factors, start = list[Factor](), 0
        for name, factor, width in zip(self.names, self.factors, asked, strict=True):
            if isinstance(factor, BSplines | NaturalSplines | Polynomials | Scaled) and width:
                factors.append(factor.told(sums[start : start + width], name))
            else:
                factors.append(factor)
            start += width
        return replace(self, factors=tuple(factors))

    def scaled(self, mean: Array, deviation: Array) -> FormulaDesign:
        """The design with centred and scaled columns; those of zeros and ones stay as they are, and without an
        intercept none is centred, because that would add one."""
        kept = np.array(self.indicators)
        centre = np.where(kept | (not self.intercept), 0.0, mean)
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(np.where(kept, 1.0, deviation).tolist()))


def check_formula_columns(names: tuple[str, ...]) -> None:
    """Raise ConfigError for columns of one name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"the formula would have two columns called {twice[0]!r}: rename a column, or a category")
