"""The cells of what a loss computes with: the columns that a transform, a formula or a feature map makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.formula_arithmetic import compute
from fedsolve.data.formula_design import names_of
from fedsolve.data.formula_factors import Spline
from fedsolve.data.schema import Categorical
from fedsolve.features import FeatureMap
from fedsolve.features.base import dense
from fedsolve.features.mapped import FeatureDesign
from fedsolve.federation.client import Client
from fedsolve.numerics.design import as_design
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.consent import name_of_map
from fedsolve.sites.raw_rows import levels_of, numbers_as_they_are
from fedsolve.sites.small_cells import Least, Part, check_columns, check_parts
from fedsolve.typing import Array


def check_design(
    client: Client, counted: Array, outcome: Sequence[Part], maps: Iterable[FeatureMap], least: Least
) -> None:
    """Raise PolicyRefusal for a column of few rows in the design of a client, as the run has agreed on it."""
    transform = client.session.get("transform")
    made = np.asarray(to_numpy(dense(client.design.take(slice(None)))), dtype=np.float64)[counted]
    if isinstance(transform, Transform):
        parts = _parts(transform.of_numpy(), client, counted, _whole(made))
    else:
        parts = numbers_as_they_are(client, counted)
    check_parts([*parts, *outcome], least)
    for one in maps:
        _check_map(one, made, outcome, least)


def check_made(transform: Transform, client: Client, counted: Array, outcome: Sequence[Part], least: Least) -> None:
    """The same for the columns of a formula that is not agreed on yet."""
    names = [column.name for column in transform.columns]
    made = transform.apply(client.ordered(names))[counted]
    check_parts([*_parts(transform, client, counted, made), *outcome], least)


def _whole(made: Array) -> Array:
    """The design with usual values where cells stay missing, for trees, whose leaves have many rows anyway."""
    missing = np.isnan(made)
    if not missing.any():
        return made
    made = made.copy()
    for place in np.flatnonzero(missing.any(axis=0)):
        there = made[~missing[:, place], place]
        made[missing[:, place], place] = np.sort(there)[len(there) // 2] if len(there) else 0.0
    return made


def _parts(transform: Transform, client: Client, counted: Array, made: Array) -> list[Part]:
    """The columns of a design by what they are of."""
    if transform.design is not None:
        return list(_formula_parts(transform, client, counted, made))
    parts, start = [], 0
    for column in transform.columns:
        block = made[:, start : (start := start + len(column.feature_names()))]
        parts.append(Part(f"column {column.name!r}", block, levels=isinstance(column, Categorical)))
    return parts


def _formula_parts(transform: Transform, client: Client, counted: Array, made: Array) -> Iterator[Part]:
    design = transform.design
    assert design is not None
    values, _ = transform.cells(client.ordered([column.name for column in transform.columns])[counted])
    categories = {
        one.name: values[one.name] for one in transform.columns if isinstance(one, Categorical) and one.name in values
    }
    yield from levels_of(categories)
    for place, product in enumerate(design.products):
        of = dict.fromkeys(name for factor, _ in product.parts for name in names_of(design.factors[factor]))
        yield Part(f"a column that the formula makes of {' and '.join(map(repr, of))}", made[:, place, None])
    indicated = [column.name for column in transform.columns if column.indicator and column.name in values]
    for place, name in enumerate(indicated, start=len(design.products)):
        yield Part(f"column {name!r}", made[:, place, None])


def check_knots(transform: Transform, client: Client, counted: Array, least: Least) -> None:
    """Raise PolicyRefusal for knots of a formula, learned by the server, with few rows between two of them."""
    if transform.design is None or least.rows <= 1:
        return
    values, _ = transform.cells(client.ordered([column.name for column in transform.columns])[counted])
    for factor in transform.design.factors:
        if isinstance(factor, Spline) and factor.learned and factor.knots:
            counts = np.histogram(compute(factor.source, values), [-np.inf, *factor.knots, np.inf])[0]
            if ((counts > 0) & (counts < least.rows)).any():
                least.refuse([f"the ranges between the knots of the formula for {factor.source}"])


def _check_map(one: FeatureMap, made: Array, outcome: Sequence[Part], least: Least) -> None:
    """The columns of a feature map are never whole in memory."""
    mapped = FeatureDesign(one, as_design(made))
    beside = np.concatenate([made[:, :0], *(part.values for part in outcome)], axis=1)
    owners = [f"a column of the feature map {name_of_map(one)}"] * mapped.shape[1]
    owners += [part.of for part in outcome for _ in range(part.values.shape[1])]
    check_columns(
        lambda: (np.concatenate([block, beside[rows]], axis=1) for rows, block in mapped.blocks(keep=False)),
        owners,
        least,
    )
