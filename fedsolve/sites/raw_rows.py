"""What a site knows of its rows when a run begins, before anything is agreed on: cells, gaps and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical, Numeric
from fedsolve.federation.client import Client
from fedsolve.losses import Pointwise
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.small_cells import Part
from fedsolve.typing import Array


@dataclass
class RawRows:
    """Rows that a run is answered from.

    counted   the rows with a weight
    parts     columns as far as they are known: categories, numbers that are there, the outcome, weights
    gaps      of each column that is imputed and has missing cells, where these are
    observed  the other cells of each column of numbers
    """

    counted: Array
    parts: list[Part] = field(default_factory=list)
    gaps: dict[str, Array] = field(default_factory=dict)
    observed: dict[str, Array] = field(default_factory=dict)


def raw_rows(client: Client, preprocess: Preprocess | None, loss: Pointwise | None) -> RawRows:
    """What is known of a client's rows."""
    counted = np.ones(client.n_samples, dtype=bool)
    if client.sample_weight is not None:
        counted = to_numpy(client.sample_weight) > 0
    found = RawRows(counted, outcome_parts(client, loss, counted))
    if preprocess is None:
        if not client.raw:
            found.parts += numbers_as_they_are(client, counted)
        return found
    columns = preprocess.columns_of(client)
    needed = preprocess._needed(columns)
    X = client.ordered([column.name for column in columns])
    for place, column in enumerate(columns):
        if needed is None or column.name in needed:
            cells = X[:, place][counted]
            if isinstance(column, Categorical):
                _add_category(found, column, cells)
            else:
                _add_numbers(found, column, cells, in_formula=needed is not None)
    return found


def numbers_as_they_are(client: Client, counted: Array) -> list[Part]:
    """The columns of a client that nothing is made of."""
    X = to_numpy(client.X)[counted].astype(np.float64)
    names = client.feature_names or tuple(f"x{place}" for place in range(X.shape[1]))
    return [Part(f"column {name!r}", X[:, place, None]) for place, name in enumerate(names)]


def outcome_parts(client: Client, loss: Pointwise | None, counted: Array) -> list[Part]:
    """The outcome, a column for each class where there are classes; weights and offset."""
    y = to_numpy(client.y)[counted].reshape(int(counted.sum()), -1).astype(np.float64)
    classes = loss is not None and loss.classifies
    if classes and y.shape[1] == 1:
        y = (y == np.unique(y)).astype(np.float64)
    found = [Part("the outcome", y, levels=classes)]
    for of, values in (("the weights of the rows", client.sample_weight), ("the offset", client.offset)):
        if values is not None:
            found.append(Part(of, to_numpy(values)[counted].reshape(len(y), -1).astype(np.float64)))
    return found


def _add_category(found: RawRows, column: Categorical, cells: Array) -> None:
    of, codes, count = f"column {column.name!r}", column.codes(cells), len(column.categories)
    missing = codes == -1
    if missing.any():
        found.gaps[column.name] = missing
        if column.indicator:
            found.parts.append(Part(of, missing[:, None].astype(np.float64)))
        if column.needs_mode:  # nobody knows yet where they go
            return
        nowhere = count + 1 if column.indicator else count
        codes = np.where(missing, nowhere if column.imputed is None else column.imputed, codes)
    found.parts.append(Part(of, _levels(column, codes), levels=True))


def _levels(column: Categorical, codes: Array) -> Array:
    """A column for each place that a cell can have."""
    if column.unseen == "zeros" and column.drop_first:  # then a cell of no category looks like the first
        codes = np.where(codes == len(column.categories), 0, codes)
    return np.asarray((codes[:, None] == np.arange(len(column.categories) + 2)).astype(np.float64))


def _add_numbers(found: RawRows, column: Numeric, cells: Array, in_formula: bool) -> None:
    """A column of numbers; those of a formula are not columns themselves."""
    of, values = f"column {column.name!r}", column.values(cells)
    missing = np.isnan(values)
    found.observed[column.name] = values[~missing]
    if missing.all():
        return
    if missing.any() and not column.keeps_missing:
        found.gaps[column.name] = missing
    if missing.any() and (column.indicator or 2 * missing.sum() > len(values)):  # few that have a value are few as well
        found.parts.append(Part(of, missing[:, None].astype(np.float64)))
    if not in_formula:  # the others by themselves, so that nobody can try numbers for the missing ones
        usual = np.sort(values[~missing])[int((~missing).sum()) // 2]
        filled: Array = np.where(missing, usual, values)
        found.parts.append(Part(of, filled[:, None]))


def levels_of(codes: Mapping[str, Array]) -> list[Part]:
    """Categories by their places, as a formula takes them."""
    return [
        Part(f"column {name!r}", (places[:, None] == np.unique(places)).astype(np.float64), levels=True)
        for name, places in codes.items()
    ]
