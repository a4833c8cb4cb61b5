"""What a server may write into a transform: what the columns' declarations leave open, within the site's own ranges.

A centre far away rounds all values of a column to a few, and with two such centres a single value moves from one to
the next; a scale near the end of the range of numbers overflows for the largest value alone. So centre and scale keep
at least half of the digits of the site's own values. Of these only a coarse range is used: from refusals at a bound
that depended on the largest value one could find it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedsolve.data.centring import Centred
from fedsolve.data.fitted_transform import Transform
from fedsolve.data.formula_design import FormulaDesign
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical, Column
from fedsolve.errors import PolicyRefusal
from fedsolve.text import listed
from fedsolve.typing import Array

RULE = "transform"
DIGITS = 2.0**26  # widths of the site's own values that a centre may be away: half of the digits are left
LARGEST = 1e12  # of a scaled value, and of the scale beside the width; squares and their products stay numbers


@dataclass(frozen=True)
class Coarse:
    """A range that contains some values, and one more width on each side: multiples of a power of two, `width`."""

    low: float
    high: float
    width: float

    @classmethod
    def of(cls, values: Array) -> Coarse | None:
        """That of these values; None where there are none, or they are all the same."""
        if not values.size:
            return None
        least, most = float(values.min()), float(values.max())
        if not 0 < most - least < math.inf:
            return None
        width = 2.0 ** math.ceil(math.log2(most - least))
        return cls((math.floor(least / width) - 1) * width, (math.ceil(most / width) + 1) * width, width)

    def reach(self, centre: float) -> float:
        """How far from a centre a value can be."""
        return max(abs(self.low - centre), abs(self.high - centre))


def check_declared(preprocess: Preprocess, columns: Sequence[Column], transform: Transform) -> None:
    """Raise PolicyRefusal for a transform in which something is not as the run declared it."""
    declared = {column.name: column for column in columns}
    if sorted(declared) != sorted(column.name for column in transform.columns):
        raise PolicyRefusal(RULE, "the server sent a transform of other columns than this run declares")
    for place, column in enumerate(transform.columns):
        fill, centre, scale = (float(one[place]) for one in (transform.fill, transform.centre, transform.scale))
        free = isinstance(preprocess, Centred)
        if column != declared[column.name] or not _is_fill_of(column, fill) or not _fits(column, centre, scale, free):
            raise PolicyRefusal(
                RULE,
                f"the server sent a transform that fills, moves or scales column {column.name!r} otherwise than "
                "this run declares",
            )


def _is_fill_of(column: Column, fill: float) -> bool:
    if isinstance(column, Categorical):
        if column.needs_mode:
            return fill in range(len(column.categories))
        return math.isnan(fill) if column.imputed is None else fill == column.imputed
    if column.needs_mode:
        return fill in column.levels
    if isinstance(column.impute, float):
        return fill == column.impute
    return math.isfinite(fill) if column.impute == "mean" else math.isnan(fill)


def _fits(column: Column, centre: float, scale: float, free_centre: bool) -> bool:
    if isinstance(column, Categorical) or column.scaling is None:
        return scale == 1 and (centre == 0 or (free_centre and not isinstance(column, Categorical)))
    if column.scaling == "range":
        assert column.low is not None
        assert column.high is not None
        return centre == column.low and scale == column.high - column.low
    return column.scaling == "standardise" or centre == 0


def check_units(ranges: Mapping[str, Coarse | None], units: Mapping[str, tuple[float, float]]) -> None:
    """Raise PolicyRefusal for a column whose centre and scale leave little of its values; units are given by column."""
    for name, (centre, scale) in units.items():
        known = ranges.get(name)
        if known is None or (centre, scale) == (0.0, 1.0):  # a column of one value stays one
            continue
        check_centre(name, known, centre)
        if known.reach(centre) > LARGEST * scale or scale > LARGEST * known.width:
            raise PolicyRefusal(
                RULE, f"the server scales column {name!r} far from this site's own values; give it another unit"
            )


def check_centre(name: str, known: Coarse | None, centre: float) -> None:
    """The same for a number that is subtracted from a column."""
    if known is not None and centre != 0 and not known.reach(centre) <= DIGITS * known.width:
        raise PolicyRefusal(
            RULE,
            f"the server moves column {name!r} so far from this site's own values that their digits are lost; subtract "
            "a constant from it at all sites",
        )


def is_far(fill: float, known: Coarse | None, observed: Array) -> bool:
    """Whether a number is far from a column's own; where all of these are one, any other is."""
    if math.isnan(fill) or not observed.size:
        return False
    return not known.low <= fill <= known.high if known is not None else fill != float(observed[0])


def refuse_far(columns: Sequence[str]) -> None:
    """Raise PolicyRefusal that names the columns whose missing cells are few and get a number that is far."""
    if columns:
        of = listed(f"column {name!r}" for name in columns)
        raise PolicyRefusal(
            "fills",
            f"what is put into the missing cells of {of} lies far from this site's own values, and would tell of the "
            "few rows that have them. If a site has the column in another unit, convert it there; else impute another "
            "number, take complete cases, or leave the column out",
        )


def made_ranges(design: FormulaDesign, values: Mapping[str, Array]) -> dict[str, Coarse | None]:
    """Those of the columns that a formula makes, in their own units."""
    made = replace(design, centre=(), scale=()).apply(values)
    return {name: Coarse.of(made[:, place]) for place, name in enumerate(design.feature_names)}
