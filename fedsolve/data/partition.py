"""Divide one data set among clients, each sample to exactly one of them, by a scheme and a seed.

partition(X, y, Dirichlet(0.5), clients=10, seed=0)       clients that differ in their labels
partition(X, y, ByGroup(), groups=hospital)               one client for each hospital
split_indices(y, IID(), clients=10)                       only the row numbers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from fedsolve.data.partition_schemes import IID, ByGroup, Indices, Scheme, checked_groups
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.scalars import whole
from fedsolve.tables.column_names import named_matrix, split_frame
from fedsolve.tables.labels import text_classes

SHARED_EVENLY = IID()


def split_indices(
    y: ArrayLike,
    scheme: Scheme = SHARED_EVENLY,
    *,
    clients: int | None = None,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> list[Indices]:
    """Each client's row numbers, sorted; every row exactly once."""
    targets = np.asarray(y)
    group_of = None if groups is None else np.asarray(groups)
    if clients is None:
        clients = scheme.client_count(group_of)
    if clients is None:
        raise ConfigError(f"{scheme}: among how many clients? Give clients=.")
    rng = np.random.default_rng(whole("seed", seed, 0))
    return scheme.split(targets, whole("clients", clients), rng, groups=group_of)


def partition(
    X: Any,
    y: ArrayLike,
    scheme: Scheme = SHARED_EVENLY,
    *,
    clients: int | None = None,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    classes: Sequence[object] | None = None,
) -> list[Client]:
    """The clients among whom (X, y) is divided.

    X is a dense or sparse matrix, or an object array with columns of text. Names are `client-0`, `client-1`
    and so on (`client-00` if there are more than ten), or those of the groups, unless given. Text labels are numbered
    once for all clients, in the order of `classes`, or in alphabetical order.
    """
    X, feature_names = named_matrix(X, feature_names, "X")  # a data frame brings its names
    design = csr_array(X) if issparse(X) else np.asarray(X)
    y, outputs = split_frame(y, "y")
    targets = np.asarray(y)
    if classes is None:
        classes = outputs if outputs is not None and len(outputs) > 1 else text_classes(targets)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    offsets = None if offset is None else np.asarray(offset)
    if design.ndim != 2:
        raise DataError(f"X has shape {design.shape}; expected a matrix with one row per sample.")
    for what, values in (("y", targets), ("sample_weight", weights), ("offset", offsets), ("groups", groups)):
        if values is not None and np.shape(values)[:1] != (design.shape[0],):
            raise DataError(f"{what} has shape {np.shape(values)}, X {design.shape}; expected one value per row.")
    parts = split_indices(targets, scheme, clients=clients, seed=seed, groups=groups)
    if names is None:
        names = _group_names(groups) if isinstance(scheme, ByGroup) else _numbered_names(range(len(parts)))
    if len(names) != len(parts) or len(set(names)) != len(names):
        raise ConfigError(f"names = {list(names)}; expected {len(parts)} different ones.")
    rows = [_as_slice(part) for part in parts]
    return [
        Client(
            name,
            design[part],
            targets[part],
            None if weights is None else weights[part],
            offset=None if offsets is None else offsets[part],
            feature_names=feature_names,
            classes=classes,
        )
        for name, part in zip(names, rows, strict=True)
    ]


def _as_slice(part: Indices) -> Indices | slice:
    """Consecutive rows as a slice: of a dense array it is a view, no copy."""
    first, last = int(part[0]), int(part[-1])
    return slice(first, last + 1) if last - first + 1 == len(part) else part


def _group_names(groups: ArrayLike | None) -> list[str]:
    values = np.unique(checked_groups(None if groups is None else np.asarray(groups)))
    if values.dtype.kind in "iu" and values[0] >= 0:
        return _numbered_names(values.tolist())
    return [str(value) for value in values]


def _numbered_names(numbers: Sequence[int]) -> list[str]:
    width = len(str(numbers[-1]))  # so that the order of the names is that of the numbers
    return [f"client-{number:0{width}}" for number in numbers]
