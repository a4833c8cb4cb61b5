"""What the columns of a run's design are in the units of the raw columns, and the linear maps between both.

A numeric column x enters as (x − centre) / scale. A weight β of it is β / scale in raw units, and the intercept takes
up the centres: b − Σ β centre / scale. Both are linear in the weights, and so is their covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.formula_design import FormulaDesign
from fedsolve.data.schema import Numeric
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


@dataclass(frozen=True)
class DesignColumn:
    """One column of the design.

    centre, scale   how it is made from a raw column
    indicator       whether it says 0 or 1 of a category, or of a missing cell
    standardised    whether `scale` is the standard deviation of the raw column
    """

    name: str
    centre: float = 0.0
    scale: float = 1.0
    indicator: bool = False
    standardised: bool = False


def design_columns(transform: Transform | None, names: Sequence[str]) -> tuple[DesignColumn, ...]:
    """The columns of a design with these names."""
    if transform is None:
        return tuple(map(DesignColumn, names))
    if transform.design is not None:
        return _of_formula(transform, transform.design)
    centre, scale = to_numpy(transform.centre).tolist(), to_numpy(transform.scale).tolist()
    found: list[DesignColumn] = []
    for j, column in enumerate(transform.columns):
        made = column.feature_names()
        if isinstance(column, Numeric):
            known = column.scaling in ("standardise", "scale")
            found.append(DesignColumn(made[0], centre[j], scale[j], standardised=known))
            made = made[1:]
        found += [DesignColumn(name, indicator=True) for name in made]
    return tuple(found)


def _of_formula(transform: Transform, design: FormulaDesign) -> tuple[DesignColumn, ...]:
    """The terms of a formula, whose own units take the place of raw ones, and indicators of missing cells."""
    made = [
        DesignColumn(name, centre, scale, indicator, standardised=not indicator)
        for name, centre, scale, indicator in zip(
            design.feature_names, design.centre, design.scale, design.indicators, strict=True
        )
    ]
    others = transform.feature_names()[len(made) :]
    return (*made, *(DesignColumn(name, indicator=True) for name in others))


def raw_values(transform: Transform | None, columns: int) -> tuple[Array, Array]:
    """What a raw 0 and a raw 1 have become in each column of a design, computed as the transform computes it."""
    if transform is None:
        return np.zeros(columns), np.ones(columns)
    found = design_columns(transform, ())
    centre, scale = (np.array([getattr(one, what) for one in found]) for what in ("centre", "scale"))
    return (0.0 - centre) / scale, (1.0 - centre) / scale


def raw_map(columns: Sequence[DesignColumn], intercept: bool) -> Array:
    """The matrix that takes weights, the intercept last, to those of the raw columns. Without an intercept there is one
    all the same if columns were centred, which is what their centres come to."""
    return _map([(1.0 / one.scale, -one.centre / one.scale) for one in columns], intercept)


def raw_moments(columns: Sequence[DesignColumn], moments: tuple[Array, Array]) -> Array:
    """Mean and mean square of the raw columns, from those of the design."""
    centre, scale = (np.array([getattr(one, what) for one in columns]) for what in ("centre", "scale"))
    mean, square = moments
    return np.stack([centre + scale * mean, centre**2 + 2 * centre * scale * mean + scale**2 * square])


def standardised_map(
    columns: Sequence[DesignColumn], mean: Array, deviation: Array, indicators: Array, intercept: bool
) -> Array:
    """The matrix that takes weights to the change that one standard deviation of a column makes, and the intercept to
    the predictor at the columns' means. Indicators stay as they are.

    mean, deviation   of the columns of the design; NaN where rounding hides them
    indicators        columns that hold nothing but zeros and ones in raw units
    """
    pairs = []
    for one, m, d, binary in zip(columns, mean.tolist(), deviation.tolist(), indicators.tolist(), strict=True):
        if one.indicator or (binary and not one.standardised):
            pairs.append((1.0, 0.0))
        elif one.standardised:
            pairs.append((1.0, 0.0 if one.centre else m))
        else:
            pairs.append((d, m))
    return _map(pairs if intercept else [(factor, 0.0) for factor, _ in pairs], intercept)


def _map(pairs: Sequence[tuple[float, float]], intercept: bool) -> Array:
    p = len(pairs)
    shifts = np.array([shift for _, shift in pairs])
    row = intercept or bool(shifts.any())
    found = np.zeros((p + row, p + intercept))
    found[np.arange(p), np.arange(p)] = [factor for factor, _ in pairs]
    if row:
        found[p, :p] = shifts
    if intercept:
        found[p, p] = 1.0
    return found
