"""One client for each site of a table: `sites` says whose each row is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.federation.transports import Transport
from fedsolve.numerics.linalg import to_numpy
from fedsolve.tables.cells import is_missing
from fedsolve.typing import Array

ALONE = "site"  # the name of the one client of a table without sites


@dataclass(frozen=True)
class Problem:
    """What an estimator must know of all sites together to choose a loss and an algorithm.

    weight    the sum of the sample weights of all sites: the number of rows where there are none
    rows      the number of rows
    sites     how many sites there are
    features  the number of columns
    outputs   the shape of one target: () for a number, (k,) for k of them
    dense     whether no site's rows are a sparse matrix
    """

    weight: float
    rows: int
    sites: int
    features: int
    outputs: tuple[int, ...]
    dense: bool

    @classmethod
    def of(cls, clients: Sequence[Client]) -> Problem:
        """Of these clients."""
        first = clients[0]
        return cls(
            sum(client.weight for client in clients),
            sum(client.n_samples for client in clients),
            len(clients),
            int(first.X.shape[1]),
            () if first.y is None else tuple(map(int, first.y.shape[1:])),
            not any(sp.issparse(client.X) for client in clients),
        )


def checked_weights(sample_weight: Array | None, rows: int) -> Array | None:
    """Sample weights as a vector of float64, or None. Raises DataError for others than numbers of at least 0."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise DataError(f"sample_weight has shape {weights.shape}, expected ({rows},): one number for each row of X")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise DataError("sample_weight has finite numbers of at least 0, and not only zeros")
    return weights


def site_names(sites: Array | None, rows: int) -> Array:
    """The name of each row's site. Raises DataError for a wrong length, or a row without a site."""
    if sites is None:
        return np.full(rows, ALONE)
    given = sites.to_numpy() if hasattr(sites, "to_numpy") else sites
    given = np.asarray(given, dtype=getattr(given, "dtype", object))  # a list may mix 1, 1.0 and "1"
    if given.shape != (rows,):
        raise DataError(f"sites has shape {given.shape}, expected ({rows},): the site of each row of X")
    names = [_name(one) for one in given.tolist()]
    missing = [row for row, one in enumerate(given.tolist()) if is_missing(one) or not names[row]]
    if missing:
        raise DataError(
            f"sites is missing for {len(missing)} of {rows} rows, the first is row {missing[0]} (from 0): name the "
            "site of every row, or drop these rows"
        )
    return np.array(names)


def _name(site: object) -> str:
    """What a site is called: 1 and 1.0 are one site, and so are "a" and "a "."""
    if isinstance(site, float) and site.is_integer():
        return str(int(site))
    return (site.decode(errors="replace") if isinstance(site, bytes) else str(site)).strip()


def clients_of(
    X: Array,
    y: Array,
    sites: Array | None = None,
    sample_weight: Array | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    classes: Sequence[object] | None = None,
) -> list[Client]:
    """A client for each site, in the order of their names. A site whose rows all have weight 0 is left out, because
    rows of weight 0 are no rows."""
    weights, names = checked_weights(sample_weight, X.shape[0]), site_names(sites, X.shape[0])
    found = []
    for name in np.unique(names).tolist():
        rows = np.flatnonzero(names == name)
        own = None if weights is None else weights[rows]
        if own is None or own.any():
            found.append(Client(name, X[rows], y[rows], own, feature_names=feature_names, classes=classes))
    return found


def held_clients(clients: Sequence[Client] | Transport) -> list[Client]:
    """The clients of a list, or of a transport on this machine. Raises ConfigError for anything else."""
    held = getattr(clients, "clients", None)
    found = list(held.values()) if isinstance(held, dict) else clients
    if not isinstance(found, Sequence) or not found or not all(isinstance(one, Client) for one in found):
        raise ConfigError(
            "fit_federation takes a list of fs.Client, or a transport that holds its clients on this machine, such as "
            f"fs.transports.InProcess(clients), got {clients!r}"
        )
    return list(found)


def agreed_classes(clients: Sequence[Client]) -> Array:
    """The classes of all clients: those they declare, else 0 … k − 1. Raises DataError where labels are neither."""
    declared = clients[0].classes
    if declared is not None:
        return np.asarray(declared)
    unlabelled = [client.name for client in clients if client.y is None]
    if unlabelled:
        raise DataError(f"client {unlabelled[0]!r} has no targets: give it y, or leave it out")
    labels = [to_numpy(client.y) for client in clients]
    if any(one.ndim != 1 for one in labels):
        raise DataError("a classifier takes one label for each row; at some client y has several columns")
    codes = np.unique(np.concatenate(labels))
    if (codes < 0).any() or (codes != np.floor(codes)).any():
        raise DataError(
            f"without declared classes the labels are 0, 1, …, got {codes[0]:g} … {codes[-1]:g}; declare what the "
            'labels are, the same at every client: Client(…, classes=("no", "yes"))'
        )
    return np.arange(int(codes[-1]) + 1)


def class_weights(clients: Sequence[Client], classes: int) -> Array:
    """The weight of all rows of each class."""
    total = np.zeros(classes)
    for client in clients:
        codes, weights = to_numpy(client.y), client.sample_weight
        if codes.ndim == 1 and (codes >= 0).all() and (codes < classes).all():  # else the run says what is wrong
            total += np.bincount(codes.astype(int), None if weights is None else to_numpy(weights), minlength=classes)
    return total
