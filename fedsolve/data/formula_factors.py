"""The factors of a formula's terms: what each makes of a column, and how the federation agrees on what it depends on.

A factor makes columns of one row at a time, from the row alone and from numbers that all sites share: the coding of
declared categories, knots, means. Numbers that no one has declared are learned from sums over all sites, one exchange
after the other, until no factor is `open`:

    splines                 counts of rows between bounds, from which quantiles follow: the inner knots
    poly, scale, center     Σ p² and Σ x p² of the orthogonal polynomials p = p₀, p₁, … that are known so far:
                            p_{k+1} = (x − α_k) p_k − β_k p_{k−1},  α_k = Σ x p_k² / Σ p_k²,  β_k = Σ p_k² / Σ p_{k−1}²

Rows in which a cell of the factor is missing are left out of these sums, and each row counts once, whatever its weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np

from fedsolve.errors import DataError
from fedsolve.typing import Array

Beyond = Literal["raise", "clip", "extend"]
CELLS = 100  # between the bounds of a spline, whose rows are counted
ROUNDING = 1e-13  # of a value: more than what its rounding changes
MOST_KNOTS, HIGHEST = 50, 9  # inner knots, and the degree of polynomials
DIGITS = 1e-3  # of the range: to what knots are rounded, so that they can be written down


def _require(factor: object, sound: bool) -> None:
    if not sound:
        raise DataError(f"a {type(factor).__name__} of a formula has numbers that do not fit together")


def _finite(values: Iterable[float]) -> bool:
    return all(math.isfinite(one) for one in values)


@dataclass(frozen=True)
class Number:
    """Arithmetic on columns, as it is.

    source  the text of it
    """

    source: str

    numbered: ClassVar[bool] = False  # whether the names of its columns have a number

    @property
    def width(self) -> int:
        return 1

    def columns(self, x: Array) -> Array:
        return x[:, None]


@dataclass(frozen=True)
class Powers:
    """x, x², …, up to a degree: `poly(x, 3, raw=True)`."""

    source: str
    degree: int

    numbered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _require(self, 1 <= self.degree <= HIGHEST)

    @property
    def width(self) -> int:
        return self.degree

    def columns(self, x: Array) -> Array:
        with np.errstate(over="ignore"):  # what is too large is rejected as a column
            return np.stack([x**k for k in range(1, self.degree + 1)], axis=1)


@dataclass(frozen=True)
class Category:
    """A declared column of categories.

    source  its name
    coding  for each level the values of the columns that are made of it; a cell of no level has zeros
    """

    source: str
    coding: tuple[tuple[float, ...], ...]

    numbered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        sound = self.coding and len({len(row) for row in self.coding}) == 1
        _require(self, bool(sound) and _finite(one for row in self.coding for one in row))

    @property
    def width(self) -> int:
        return len(self.coding[0])

    @property
    def is_indicator(self) -> bool:
        """Whether its columns hold nothing but zeros and ones."""
        return all(one in (0.0, 1.0) for row in self.coding for one in row)

    def columns(self, codes: Array) -> Array:
        rows = np.array([*self.coding, (0.0,) * self.width])
        return rows[np.minimum(codes, len(self.coding))]


# ── splines ──


@dataclass(frozen=True)
class Spline:
    """What splines have in common.

    source     arithmetic on columns
    low, high  where the spline begins and ends
    inner      how many inner knots there are
    learned    whether the inner knots are quantiles of all rows, and not declared
    knots      the inner knots; None: they are yet to be agreed on
    beyond     what is done with values outside: "raise" rejects them, "clip" takes the nearer end for them, "extend"
               goes on with the polynomial (a natural spline with a straight line)
    """

    source: str
    low: float
    high: float
    inner: int
    learned: bool
    knots: tuple[float, ...] | None
    beyond: Beyond

    numbered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        knots = (self.low, *(self.knots or ()), self.high)
        rising = all(a < b for a, b in itertools.pairwise(knots))
        _require(self, rising and _finite(knots) and 0 <= self.inner <= MOST_KNOTS)
        _require(self, self.knots is None or len(self.knots) == self.inner)

    @property
    def open(self) -> bool:
        return self.knots is None

    @property
    def asked(self) -> int:
        """How many sums are asked for."""
        return CELLS

    def sums(self, x: Array) -> Array:
        edges = np.linspace(self.low, self.high, CELLS + 1)
        return np.histogram(x[(x >= self.low) & (x <= self.high)], edges)[0].astype(np.float64)

    def told(self, sums: Array, name: str) -> Self:
        """With knots at the quantiles. Raises DataError where they cannot be told apart."""
        shares = np.concatenate([[0.0], np.cumsum(sums)]) / max(float(sums.sum()), 1.0)
        edges = np.linspace(self.low, self.high, CELLS + 1)
        found = np.interp(np.linspace(0, 1, self.inner + 2)[1:-1], shares, edges)
        step = 10.0 ** math.floor(math.log10((self.high - self.low) * DIGITS))
        knots = tuple(round(float(round(one / step) * step), 12) for one in found)
        cells = np.unique(np.minimum(np.searchsorted(edges, found, side="right"), CELLS))
        if len(cells) < self.inner or not (self.low < knots[0] and knots[-1] < self.high):
            raise DataError(
                f"{name}: its {self.inner} knots at quantiles do not differ by a hundredth of the range, {self.low:g} "
                f"to {self.high:g}: take fewer (df), narrow low and high, or say where they are, knots = [...]"
            )
        return replace(self, knots=knots)

    def within(self, x: Array, name: str) -> Array:
        """The values, all of them where the spline is defined."""
        outside = (x < self.low) | (x > self.high)
        if self.beyond == "raise" and outside.any():
            raise DataError(
                f"{name}, row {int(np.argmax(outside))}: outside {self.low:g} to {self.high:g}, where the spline "
                "begins and ends; widen low and high, or write extrapolation='clip' or 'extend' in the formula"
            )
        return x if self.beyond == "extend" else np.clip(x, self.low, self.high)

    def in_words(self) -> str:
        """Where its knots are, for people who want to fit the same elsewhere."""
        knots = ", ".join(f"{one:.12g}" for one in self.knots or ())
        return f"{f'knots at {knots}' if knots else 'no inner knots'} between {self.low:.12g} and {self.high:.12g}"


@dataclass(frozen=True)
class BSplines(Spline):
    """B-splines: `bs(x, df=4)`, as in R.

    degree     of the polynomials
    intercept  whether the first of them is there too, with which they sum to one
    """

    degree: int = 3
    intercept: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self, 1 <= self.degree <= HIGHEST)

    @property
    def width(self) -> int:
        return self.inner + self.degree + self.intercept

    def columns(self, x: Array) -> Array:
        from scipy.interpolate import BSpline  # takes long to import

        assert self.knots is not None
        ends = self.degree + 1
        t = np.array([self.low] * ends + list(self.knots) + [self.high] * ends)
        made: Array = BSpline(t, np.eye(len(t) - ends), self.degree, extrapolate=True)(x)
        return made if self.intercept else made[:, 1:]


@dataclass(frozen=True)
class NaturalSplines(Spline):
    """Natural cubic splines, a column for the value at each knot: `cr(x, df=4)`, as in mgcv. The columns sum to one,
    unless they are centred.

    centred  whether there is one column less, so that the sum over all rows of any combination is zero
    totals   the sum of each column over all rows, where they are centred; empty: yet to be learned
    """

    centred: bool = False
    totals: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        sound = len(self.totals) in (0, self.inner + 2) and _finite(self.totals)
        _require(self, sound and (not self.totals or math.hypot(*self.totals) > 0))

    @property
    def width(self) -> int:
        return self.inner + 2 - self.centred

    @property
    def open(self) -> bool:
        return self.knots is None or (self.centred and not self.totals)

    @property
    def asked(self) -> int:
        return CELLS if self.knots is None else self.inner + 2

    def sums(self, x: Array) -> Array:
        return super().sums(x) if self.knots is None else self._values(self.within(x, self.source)).sum(axis=0)

    def told(self, sums: Array, name: str) -> Self:
        if self.knots is None:
            return super().told(sums, name)
        if not sums.any():
            raise DataError(f"{name}: no site has a value; leave the term out")
        return replace(self, totals=tuple(sums.tolist()))

    def columns(self, x: Array) -> Array:
        values = self._values(x)
        if not self.centred:
            return values
        # The last columns of the Householder reflection that takes the totals to a multiple of the first unit vector.
        v = np.array(self.totals)
        v[0] += math.copysign(float(np.linalg.norm(v)), v[0])
        reflection = np.eye(len(v)) - 2.0 / (v @ v) * np.outer(v, v)
        return values @ reflection[:, 1:]

    def _values(self, x: Array) -> Array:
        assert self.knots is not None
        knots = np.array([self.low, *self.knots, self.high])
        if len(knots) == 2:
            share = (x - self.low) / (self.high - self.low)
            return np.stack([1.0 - share, share], axis=1)
        from scipy.interpolate import CubicSpline  # takes long to import

        spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
        inside = np.clip(x, self.low, self.high)
        made: Array = spline(inside) + (x - inside)[:, None] * spline(inside, 1)
        return made


# ── by moments ──


@dataclass(frozen=True)
class Moments:
    """What is made from orthogonal polynomials of all rows.

    source        arithmetic on columns
    alpha, norms  α_k and Σ p_k² for k = 0, 1, …, as far as they are known
    """

    source: str
    alpha: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()

    numbered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        known = len(self.alpha) == len(self.norms) <= self.order + 1
        _require(self, known and _finite((*self.alpha, *self.norms)) and all(one > 0 for one in self.norms))

    @property
    def order(self) -> int:
        """The last k that is needed."""
        return 0

    @property
    def open(self) -> bool:
        return len(self.norms) <= self.order

    @property
    def asked(self) -> int:
        """How many sums are asked for."""
        return 2

    def sums(self, x: Array) -> Array:
        p = self.polynomials(x)[len(self.norms)]
        return np.array([p @ p, (x * p) @ p])

    def told(self, sums: Array, name: str) -> Self:
        """With what the sums tell. Raises DataError for too few different values."""
        norm, total = sums.tolist()
        if not math.isfinite(total) or not norm > self._rounding():
            raise DataError(
                f"{name}: too few different values at all sites together, or too large ones; leave the term out"
            )
        return replace(self, alpha=(*self.alpha, total / norm), norms=(*self.norms, norm))

    def _rounding(self) -> float:
        """What rounding may leave of the next Σ p² where values do not differ any more; 0 of the first."""
        norms = self.norms
        if not norms:
            return 0.0
        spread = norms[1] / norms[0] if len(norms) > 1 else 0.0
        return norms[-1] * (ROUNDING**2) * (spread + self.alpha[-1] ** 2)

    def polynomials(self, x: Array) -> list[Array]:
        """p₀, p₁, …, as far as they follow from what is known."""
        found = [np.ones(len(x))]
        for k in range(len(self.norms)):
            after = (x - self.alpha[k]) * found[k]
            found.append(after if k == 0 else after - self.norms[k] / self.norms[k - 1] * found[k - 1])
        return found

    @property
    def width(self) -> int:
        return 1


@dataclass(frozen=True)
class Polynomials(Moments):
    """Polynomials that are orthonormal over the rows of all sites: `poly(x, 3)`."""

    degree: int = 1

    numbered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _require(self, 1 <= self.degree <= HIGHEST)
        super().__post_init__()

    @property
    def order(self) -> int:
        return self.degree

    @property
    def width(self) -> int:
        return self.degree

    def columns(self, x: Array) -> Array:
        found = self.polynomials(x)
        return np.stack([found[k] / math.sqrt(self.norms[k]) for k in range(1, self.degree + 1)], axis=1)


@dataclass(frozen=True)
class Scaled(Moments):
    """`center(x)`, `scale(x)` and `standardize(x)`, by mean and standard deviation over the rows of all sites."""

    centred: bool = True
    divided: bool = True
    ddof: float = 1.0

    @property
    def order(self) -> int:
        return int(self.divided)

    def columns(self, x: Array) -> Array:
        mean = self.alpha[0]
        if not self.divided:
            return (x - mean)[:, None] if self.centred else x[:, None]
        square = self.norms[1] + (0.0 if self.centred else mean * mean * self.norms[0])
        if not self.norms[0] > self.ddof:
            raise DataError(f"{self.source}: too few rows for a standard deviation with ddof = {self.ddof:g}")
        deviation = math.sqrt(square / (self.norms[0] - self.ddof))
        return ((x - mean if self.centred else x) / deviation)[:, None]


Factor: TypeAlias = Number | Powers | Category | BSplines | NaturalSplines | Polynomials | Scaled
FACTORS: Sequence[type] = (Number, Powers, Category, BSplines, NaturalSplines, Polynomials, Scaled)
