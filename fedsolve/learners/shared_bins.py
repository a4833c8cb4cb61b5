"""The protocol by which clients agree on bins: quantiles of all rows, found from counts alone.

1 exchange    each column's typical size (the geometric mean of its values other than zero), and its missing cells
4 to 6        counts over a grid that is refined where many rows are, as a rule; at most `EXCHANGES`
1             whether an edge is a value of somebody's data: it is then moved

All of it is sums over clients. Unless a bin's rows all have one value, it holds at most its share of the rows and a
quarter of that, or its share and 9 rows if that is more (see `bin_grid.per_bin` for how a single value counts). Rows
count alike whatever their weights.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fedsolve.data.schema import Categorical, Schema
from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.learners.base import Arrays, WeakLearner
from fedsolve.learners.bin_grid import SMALLEST, Flags, Floats, Grid, Ints, cells_for
from fedsolve.learners.bins import HALF, Bins
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

EXCHANGES = 12  # grids that are counted, at most
MOVES = 8  # times that an edge is moved away from data


@dataclass(frozen=True)
class ColumnSizes:
    """Σ log₂|x| over each column's values other than zero, and how many of these there are (0 and 0 for fewer than
    `SMALLEST`); and the missing cells."""

    logs: Array
    others: Array
    missing: Array


@dataclass(frozen=True)
class CellCounts:
    """The rows between each two neighbouring bounds, and how many clients have different values there."""

    rows: Array
    mixed: Array


class SharedBins(WeakLearner):
    """A learner that works on bins which all clients share."""

    @property
    @abstractmethod
    def most_bins(self) -> int:
        """How many bins a column has at most, without that of missing values."""

    @property
    @abstractmethod
    def declared_codes(self) -> tuple[tuple[str | int, int], ...]:
        """Columns that hold codes of categories, and how many categories each has."""

    # ── clients ──

    @client_step(sends="the typical size of the values in each column, and its numbers of missing cells")
    def column_sizes(self, client: Client) -> ColumnSizes:
        """How large the values of each column are. Of a column with few values other than zero nothing is said: the
        sum over a single one would be that value."""
        columns = list(_sorted_columns(client))
        sizes = [np.abs(values[values != 0]) for values, _, _ in columns]
        logs = [float(np.log2(one).sum()) if len(one) >= SMALLEST else 0.0 for one in sizes]
        others = [len(one) if len(one) >= SMALLEST else 0 for one in sizes]
        return ColumnSizes(np.array(logs), np.array(others), np.array([missing for _, _, missing in columns]))

    @client_step(sends="counts of its rows by ranges of each column")
    def cell_counts(self, client: Client, bounds: Array, starts: Array) -> CellCounts:
        """The rows between each two neighbouring bounds of each column."""
        rows, mixed = [], []
        for one, (values, zeros, _) in zip(
            _asked(client, bounds, starts, self.most_bins), _sorted_columns(client), strict=True
        ):
            if not len(one):
                continue
            places = np.searchsorted(values, one, side="right")
            found = np.diff(places)
            first, last = places[:-1][found > 0], places[1:][found > 0] - 1
            differ = np.zeros(len(found), dtype=np.int32)
            differ[found > 0] = values[first] != values[last]
            rows.append(found + zeros * np.diff((one >= 0).astype(np.int64)))
            mixed.append(differ)
        if not rows:
            raise WrongType("no bounds to count between")
        return CellCounts(np.concatenate(rows).astype(np.int32), np.concatenate(mixed))

    @client_step(sends="counts of its rows at the bounds between ranges")
    def values_at(self, client: Client, edges: Array, starts: Array) -> Array:
        """How many values of each column are equal to each edge."""
        found = [np.zeros(0, dtype=np.int32)]
        for one, (values, zeros, _) in zip(
            _asked(client, edges, starts, self.most_bins), _sorted_columns(client), strict=True
        ):
            equal = np.searchsorted(values, one, side="right") - np.searchsorted(values, one, side="left")
            found.append((equal + zeros * (one == 0)).astype(np.int32))
        return np.concatenate(found)

    # ── server ──

    def prepare(self, fed: Federation) -> Arrays:
        """Agree on bins. All clients take part; only sums are used."""
        with fed.setting_up():
            sizes: ColumnSizes = fed.sum(self.column_sizes)
            columns = _checked_sizes(sizes, fed)
            groups = self._groups(fed, columns)
            fixed = _fixed_edges(groups)
            means = np.divide(sizes.logs, sizes.others, out=np.zeros(columns), where=sizes.others > 0)
            scales = np.exp2(np.clip(means, -1000.0, 1000.0))
            grids = {j: Grid.first(float(scales[j])) for j in range(columns) if j not in fixed}
            self._count(fed, grids, columns)
            edges = [fixed[j] if j in fixed else grids[j].edges(self.most_bins) for j in range(columns)]
            edges = self._moved(fed, edges, fixed)
        starts = np.concatenate([[0], np.cumsum([len(one) for one in edges])]).astype(np.int64)
        missing = (sizes.missing > 0).astype(np.int64)
        return Bins(np.concatenate([np.zeros(0), *edges]), starts, missing, groups).arrays()

    def _count(self, fed: Federation, grids: dict[int, Grid], columns: int) -> None:
        """Refine all grids until no cell holds more than its share."""
        todo = {j: np.arange(len(grid.counts)) for j, grid in grids.items()}
        for exchange in range(EXCHANGES):
            if not todo:
                return
            ends, parts = {}, {}
            for j, cells in todo.items():
                first = (grids[j].bounds, np.array([len(cells)]))
                ends[j], parts[j] = grids[j].split(cells, self.most_bins) if exchange else first
            bounds = [grids[j].values(ends[j]) if j in ends else np.zeros(0) for j in range(columns)]
            reply: CellCounts = fed.sum(self.cell_counts, bounds=np.concatenate(bounds), starts=_starts(bounds))
            _check_counts(reply, sum(len(one) - 1 for one in ends.values()), fed)
            at = 0
            for j, cells in todo.items():
                here = slice(at, at + len(ends[j]) - 1)
                at = here.stop
                counts, mixed = reply.rows[here], reply.mixed[here] > 0
                if exchange == 0:
                    grids[j] = Grid(grids[j].scale, grids[j].bounds, counts, mixed)
                else:
                    real = np.delete(np.arange(len(counts)), np.cumsum(parts[j] + 1)[:-1] - 1)
                    grids[j] = grids[j].refined(cells, ends[j], parts[j], counts[real], mixed[real])
            todo = {j: cells for j in todo if len(cells := grids[j].heavy(self.most_bins))}

    def _moved(self, fed: Federation, edges: list[Floats], fixed: dict[int, Floats]) -> list[Floats]:
        """The edges, none of which is a value of anybody's data. Those between whole numbers stay where they are: of
        one-hot columns by their making, and of codes clients check theirs (`bins.check_codes`)."""
        for move in range(MOVES):
            asked = [one if j not in fixed else np.zeros(0) for j, one in enumerate(edges)]
            if not sum(map(len, asked)):
                return edges
            hits: Ints = fed.sum(self.values_at, edges=np.concatenate(asked), starts=_starts(asked))
            if not hits.any():
                return edges
            for j, hit in enumerate(np.split(hits > 0, _starts(asked)[1:-1])):
                if hit.any():
                    # Data as dense as the numbers of a computer: rather one edge less than one that is a value.
                    edges[j] = _nudged(edges[j], hit, move) if move < MOVES - 1 else edges[j][~hit]
        return edges

    def _groups(self, fed: Federation, columns: int) -> Ints:
        """The categorical features: one-hot columns of the preprocessing's schema, and columns of codes."""
        names = fed.feature_names or tuple(f"x{j}" for j in range(columns))
        return categorical_groups(fed.protocols.get("preprocess"), self.declared_codes, names)


def categorical_groups(preprocess: object, codes: Sequence[tuple[str | int, int]], names: Sequence[str]) -> Ints:
    """The categorical features that a preprocessing's schema and a learner's codes imply for columns of these names, as
    `Bins.groups` has them. Raises ConfigError for codes of a column that is not there, or is one-hot already."""
    schema = getattr(preprocess, "schema", None) if getattr(preprocess, "formula", None) is None else None
    found = list(_one_hot_groups(schema)) if isinstance(schema, Schema) else []
    for which, count in codes:
        place = names.index(which) if which in names else which
        if not isinstance(place, int) or not 0 <= place < len(names):
            raise ConfigError(f"categories: there is no column {which!r}; the columns are {', '.join(names[:8])} …")
        if any(start <= place < start + max(1, width) for start, width in found):
            raise ConfigError(f"categories: column {which!r} is one of a categorical feature already")
        found.append((place, -count))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _rows(fed: Federation) -> int:
    return sum(info.samples for info in fed.info.values())


def _checked_sizes(sizes: ColumnSizes, fed: Federation) -> int:
    """How many columns there are. Raises DataError for sums that no rows have."""
    columns, rows = fed.features, _rows(fed)
    for what in (sizes.logs, sizes.others, sizes.missing):
        if what.shape != (columns,):
            raise DataError(f"the clients' sums are of {what.shape} columns, expected {columns}")
    counts = np.stack([sizes.others, sizes.missing])
    # Sizes of numbers are between 2^-1074 and 2^1024. (NaN is not at most anything.)
    sound = (np.abs(sizes.logs) <= 1075.0 * sizes.others).all()
    if not sound or (counts < 0).any() or (counts.sum(axis=0) > rows).any():
        raise DataError("what the clients say of the sizes of their columns is true of no rows: one of them is wrong")
    return columns


def _check_counts(reply: CellCounts, cells: int, fed: Federation) -> None:
    """Raise DataError for counts that no rows have."""
    sound = reply.rows.shape == reply.mixed.shape == (cells,) and reply.rows.dtype.kind in "iu"
    if not sound or (reply.rows < 0).any() or (reply.rows > _rows(fed)).any():
        raise DataError("what the clients count between bounds is true of no rows: one of them is wrong")


def _starts(parts: Sequence[Floats]) -> Ints:
    return np.concatenate([[0], np.cumsum([len(one) for one in parts])]).astype(np.int64)


def _one_hot_groups(schema: Schema) -> Iterator[tuple[int, int]]:
    at = 0
    for column in schema.columns:
        width = len(column.feature_names())
        if isinstance(column, Categorical):
            # The last column may say that a level was imputed. Such a row has two ones: it is no level more.
            levels = width - (column.indicator and column.impute is not None)
            if levels > 1:
                yield at, levels
        at += width


def _fixed_edges(groups: Ints) -> dict[int, Floats]:
    """The edges of columns that hold zeros and ones, or codes: halfway between whole numbers."""
    found: dict[int, Floats] = {}
    for start, width in groups.tolist():
        if width > 0:
            found.update({j: np.array([HALF]) for j in range(start, start + width)})
        else:
            found[start] = np.arange(-width - 1) + HALF
    return found


def _nudged(edges: Floats, hit: Flags, move: int) -> Floats:
    """Edges that are values, moved by a few of the smallest steps there are; farther each time."""
    for _ in range(3**move):
        edges = np.where(hit, np.nextafter(edges, np.inf), edges)
    return np.unique(edges)


# ── what a client computes ──


def _asked(client: Client, bounds: Array, starts: Array, bins: int) -> Iterator[Floats]:
    """The bounds of each column, in order. Raises WrongType for what is none, or too much."""
    edges, where = np.asarray(to_numpy(bounds)), np.asarray(to_numpy(starts))
    columns = client.design.shape[1]
    sound = edges.ndim == where.ndim == 1 and edges.dtype == np.float64 and where.dtype == np.int64
    if not sound or len(where) != columns + 1 or where[0] != 0 or where[-1] != len(edges) or (np.diff(where) < 0).any():
        raise WrongType(f"bounds of {columns} columns are float64 numbers and {columns + 1} places among them")
    most = 4 * cells_for(bins)  # each heavy cell cut in two needs three bounds
    if np.isnan(edges).any() or np.diff(where).max() > most:
        raise WrongType(f"at most {most} bounds for each column, which are numbers")
    for j in range(columns):
        yield edges[where[j] : where[j + 1]]


def _sorted_columns(client: Client) -> list[tuple[Floats, int, int]]:
    """For each column its values in order, the zeros that are not among them (sparse inputs), and the missing."""
    return client.cached(("sorted columns", "for bins"), lambda: list(_sort(client.design.take(slice(None)))))


def _sort(X: Array) -> Iterator[tuple[Floats, int, int]]:
    if sp.issparse(X):
        by_column = sp.csc_array(X)
        for j in range(X.shape[1]):
            stored = np.sort(by_column.data[by_column.indptr[j] : by_column.indptr[j + 1]])
            yield stored, X.shape[0] - len(stored), 0
        return
    dense = np.asarray(to_numpy(X))
    for j in range(dense.shape[1]):
        values = np.sort(dense[:, j])  # NaN last
        missing = int(np.isnan(values).sum())
        yield values[: len(values) - missing], 0, missing
