"""The bins that all clients share, and a client's inputs as bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedsolve.errors import WrongType
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HALF = 0.5  # a column of zeros and ones, or of whole codes, is cut between whole numbers


@dataclass(frozen=True, eq=False)
class Bins:
    """Edges for each column, one column after the other. A value is in the bin after all edges that are below it.

    edges    all edges
    starts   where each column's edges begin; one entry more than columns
    missing  1 for columns in which some client has missing values: these have a bin of their own, the last
    groups   a row for each categorical feature: its first column, and how many one-hot columns it has; or minus the
             number of its categories, where one column holds codes 0, 1, …
    """

    edges: Floats
    starts: Ints
    missing: Ints
    groups: Ints

    @classmethod
    def of(cls, agreed: tuple[Array, ...], columns: int) -> Bins:
        """What was agreed on, checked against the number of columns."""
        if len(agreed) != 4:
            raise WrongType(f"bins are four arrays, got {len(agreed)}: the learner has not been prepared")
        edges, starts, missing, groups = (np.asarray(to_numpy(one)) for one in agreed)
        groups = groups.reshape(-1, 2)
        fits = len(starts) == columns + 1 and len(missing) == columns and edges.dtype == np.float64
        if not fits or starts[0] != 0 or starts[-1] != len(edges) or (np.diff(starts) < 0).any():
            raise WrongType(f"these are no bins of {columns} columns")
        found = cls(edges, starts.astype(np.int64), missing.astype(np.int64), groups.astype(np.int64))
        if len(groups) and ((groups[:, 0] < 0) | (groups[:, 0] + np.maximum(groups[:, 1], 1) > columns)).any():
            raise WrongType(f"a categorical feature lies outside {columns} columns")
        return found

    def arrays(self) -> tuple[Array, ...]:
        """The arrays that all clients are told."""
        return self.edges, self.starts, self.missing, self.groups

    def column(self, j: int) -> Floats:
        """The edges of one column."""
        return self.edges[self.starts[j] : self.starts[j + 1]]

    @cached_property
    def counts(self) -> Ints:
        """How many bins each column has, that of missing values included."""
        return np.diff(self.starts) + 1 + self.missing

    @cached_property
    def one_hot(self) -> NDArray[np.bool_]:
        """Which columns are one-hot columns of a categorical feature."""
        found = np.zeros(len(self.missing), dtype=np.bool_)
        for start, width in self.groups.tolist():
            found[start : start + max(width, 0)] = True
        return found


@dataclass(frozen=True, eq=False)
class Table:
    """A client's inputs as bins. Bins are numbered through over all columns. Only entries that are not in a column's
    usual bin are listed: with sparse inputs those that are not zero.

    rows, bins   the entries, column by column
    ends         where each column's entries begin; one more than columns
    usual        the bin of each column that is not listed
    first        the first bin of each column; one more than columns
    """

    n: int
    shared: Bins
    rows: NDArray[np.intp]
    bins: NDArray[np.intp]
    ends: Ints
    usual: Ints
    first: Ints

    @classmethod
    def of(cls, X: Array, shared: Bins) -> Table:
        """The bins of dense or CSR inputs; missing values (NaN) are in the last bin of their column."""
        first = np.concatenate([[0], np.cumsum(shared.counts)])
        if sp.issparse(X):
            parts = _sparse_entries(sp.csc_array(X), shared, first)
        else:
            parts = _dense_entries(np.asarray(to_numpy(X)), shared, first)
        rows, bins, usual = parts
        ends = np.concatenate([[0], np.cumsum([len(one) for one in rows])])
        return cls(
            X.shape[0],
            shared,
            np.concatenate(rows).astype(np.intp),
            np.concatenate(bins).astype(np.intp),
            ends,
            np.array(usual, dtype=np.int64),
            first,
        )

    @cached_property
    def total(self) -> int:
        """How many bins there are."""
        return int(self.first[-1])

    @cached_property
    def column_of(self) -> Ints:
        """The column of each bin."""
        return np.repeat(np.arange(len(self.usual)), self.shared.counts)

    @cached_property
    def edge_of(self) -> Floats:
        """The edge above each bin; the largest number for the last bin of numbers and for that of missing values."""
        found = np.full(self.total, np.finfo(np.float64).max)
        number = np.arange(self.total) - self.first[self.column_of]
        has_edge = number < np.diff(self.shared.starts)[self.column_of]
        found[has_edge] = self.shared.edges
        return found

    @cached_property
    def missing_bin(self) -> Ints:
        """The bin of each column's missing values; −1 where there are none."""
        return np.where(self.shared.missing > 0, self.first[1:] - 1, -1)

    @cached_property
    def is_missing(self) -> NDArray[np.bool_]:
        """Which bins are of missing values."""
        found = np.zeros(self.total, dtype=np.bool_)
        found[self.missing_bin[self.missing_bin >= 0]] = True
        return found


Entries = tuple[list[Ints], list[Ints], list[int]]


def numbered(values: Floats, shared: Bins, j: int) -> Ints:
    """The bin of each value of column j, from 0."""
    found = np.searchsorted(shared.column(j), values, side="left").astype(np.int64)
    absent = np.isnan(values)
    if absent.any():
        # Missing in a column in which nobody had missing values when the bins were agreed on: like the largest.
        found[absent] = shared.counts[j] - 1
    return found


def _dense_entries(X: Floats, shared: Bins, first: Ints) -> Entries:
    rows, bins, usual = [], [], []
    for j in range(X.shape[1]):
        codes = numbered(X[:, j], shared, j)
        common = 0 if shared.one_hot[j] else int(np.argmax(np.bincount(codes)))
        listed = np.flatnonzero(codes != common)
        rows.append(listed)
        bins.append(codes[listed] + first[j])
        usual.append(int(first[j]) + common)
    return rows, bins, usual


def _sparse_entries(X: Array, shared: Bins, first: Ints) -> Entries:
    rows, bins, usual = [], [], []
    for j in range(X.shape[1]):
        stored = slice(X.indptr[j], X.indptr[j + 1])
        codes = numbered(X.data[stored], shared, j)
        common = int(np.searchsorted(shared.column(j), 0.0, side="left"))
        listed = np.flatnonzero(codes != common)
        rows.append(X.indices[stored][listed])
        bins.append(codes[listed] + first[j])
        usual.append(int(first[j]) + common)
    return rows, bins, usual
