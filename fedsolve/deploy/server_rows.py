"""Rows of the server's own: read where a run is submitted, carried by its job, and used where the run is.

The server opens no file that a job names, and no site gets these rows: they lie in the server's part of the job, as
JSON. Their file is read as a site reads its own, so that labels and columns mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedsolve.algorithms.base import includes_server
from fedsolve.data import advice
from fedsolve.data.csv_tables import Reading
from fedsolve.data.file_formats import matrix
from fedsolve.data.schema import Categorical, Schema
from fedsolve.data.site_names import near_files
from fedsolve.data.site_tables import agreed_features, read_site
from fedsolve.data.sites import load_sites
from fedsolve.deploy.library import Json
from fedsolve.errors import ConfigError, InputError
from fedsolve.federation.client import Client
from fedsolve.losses import Logistic, Network, Softmax
from fedsolve.runfiles.problem import SERVER
from fedsolve.runfiles.server_file import ServerFile, ServerTable
from fedsolve.typing import Array

MOST = 2**23  # characters of the rows in a job; NVFlare takes no file of a job above 10 MiB


def read(what: ServerFile, folder: Path) -> Client | None:
    """The rows that [server] names; None if it names none. `folder` is where the path starts: that of the run file.

    Raises DataError for a file that is not as expected, and ConfigError for a key that does not fit it.
    """
    if what.server is None:
        return None
    try:
        with advice.written_in("run file"):
            client = _all_rows(what, what.server, folder / Path(what.server.file).expanduser())
    except InputError as error:  # what to write for one of several sites is written in [server] here
        error.args = (str(error).replace(f" under [data.sites.{SERVER}]", " under [server]"),)
        raise
    if what.server.rows is None or what.server.rows >= client.n_samples:
        return client
    drawn = np.sort(np.random.default_rng(what.server.seed).choice(client.n_samples, what.server.rows, replace=False))
    return _made(client.X[drawn], None if client.y is None else client.y[drawn], client.feature_names, client.classes)


def _all_rows(what: ServerFile, table: ServerTable, path: Path) -> Client:
    if not path.is_file():
        raise ConfigError(f"server.file: there is no file {path}{near_files(path)}")
    _, entry = what.entry()
    preprocess = what.preprocessing()
    schema = None if preprocess is None else preprocess.schema
    target = table.target or what.sites.target
    if includes_server(entry.algorithm):
        return _labelled(table, path, target, schema, getattr(entry.algorithm, "loss", None))
    return _unlabelled(table, path, target, schema)


def _labelled(table: ServerTable, path: Path, target: str, schema: Schema | None, loss: object) -> Client:
    loss = loss.loss if isinstance(loss, Network) else loss
    classes = table.classes
    if classes is None and table.positive is None:  # as at a site
        if isinstance(loss, Softmax) and loss.classes is not None:
            classes = list(range(loss.classes))
        elif isinstance(loss, Logistic):
            classes = [0, 1]
    read = load_sites(
        {SERVER: str(path)},
        target=target,
        schema=schema,
        numbers=schema is None,
        classes=classes,
        positive=table.positive,
        binary=isinstance(loss, Logistic),
        sites={SERVER: table.build()},
        alone=True,
    )
    return read.clients[0]


def _unlabelled(table: ServerTable, path: Path, target: str, schema: Schema | None) -> Client:
    """The same without targets: the file may have their column, and need not."""
    columns = () if schema is None else schema.columns
    kinds = {one.name: "category" if isinstance(one, Categorical) else "number" for one in columns}
    read = read_site(path, Reading(), table.build(), kinds)
    declared = None if schema is None else tuple(kinds)
    left_out = {target} & set(read.columns)
    features = agreed_features({SERVER: read}, (), left_out, declared)
    return Client(SERVER, matrix([read.columns[name] for name in features]), None, feature_names=features)


def _made(X: Array, y: Array | None, names: tuple[str, ...] | None, classes: tuple[str | float, ...] | None) -> Client:
    """Rows as a client; labels are the places of their classes."""
    if y is not None and classes is not None:
        y = np.array(classes, dtype=object)[np.asarray(y).astype(np.intp)]
    return Client(SERVER, X, y, feature_names=names, classes=classes)


# ── in a job ──


def to_plain(rows: Client) -> Json:
    """The rows as plain values, column by column, with null for a missing cell. Raises ConfigError if they are more
    than a job carries."""
    plain: Json = {
        "columns": list(rows.feature_names or ()),
        "text": rows.X.dtype.kind == "O",
        "cells": [_listed(rows.X[:, place]) for place in range(rows.X.shape[1])],
        "target": None if rows.y is None else rows.y.tolist(),
        "classes": None if rows.classes is None else list(rows.classes),
    }
    size = len(json.dumps(plain))
    if size > MOST:
        raise ConfigError(
            f"the rows of [server] take {size / 2**20:.0f} MiB in the job, and it carries at most {MOST / 2**20:.0f}: "
            "take fewer, with server.rows"
        )
    return plain


def _listed(column: Array) -> list[str | float | None]:
    return [None if one != one else one if isinstance(one, str) else float(one) for one in column.tolist()]


def from_plain(plain: Mapping[str, object]) -> Client:
    """The rows of a job. Raises ConfigError for what are none, and DataError for what no client may have."""
    names, cells, target, classes = (plain.get(key) for key in ("columns", "cells", "target", "classes"))
    try:
        columns = [[np.nan if one is None else one for one in column] for column in cells]  # type: ignore[attr-defined]
        X = np.array(columns, dtype=object if plain.get("text") else np.float64).T
        y = None if target is None else np.array(target, dtype=np.float64)
        known: tuple[str | float, ...] | None = None if classes is None else tuple(classes)  # type: ignore[arg-type]
        return _made(X, y, tuple(names), known)  # type: ignore[arg-type]
    except (TypeError, ValueError, IndexError) as error:
        raise ConfigError(f"the job has no rows of the server's own that can be read: {error}") from None
