"""Complete cases: rows with a missing cell are left out, by each site for itself.

clients, said = complete_cases(clients, preprocess)       columns with impute="complete"
run(algorithm, clients, preprocess=preprocess)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedsolve.data.csv_tables import Table
from fedsolve.data.dataset import is_missing
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import DataError
from fedsolve.federation.client import Client


def complete_rows(tables: Mapping[str, Table], columns: Sequence[str]) -> tuple[dict[str, Table], list[str]]:
    """The tables without the rows that lack a value in one of these columns, and a sentence for each site that has
    such rows. Raises DataError for a site that has no others."""
    found, said = {}, []
    for site, table in tables.items():
        missing = {name: is_missing(table.columns[name]) for name in columns}
        rows = np.logical_or.reduce(list(missing.values()))
        count = int(rows.sum())
        if count == 0:
            found[site] = table
            continue
        worst = max(missing, key=lambda name: int(missing[name].sum()))
        often = f"{worst} is missing most often, in {int(missing[worst].sum())}"
        if count == len(rows):
            raise DataError(
                f"{table.path}: every one of its {count} rows has a missing cell ({often}), so none is complete; "
                f'drop = ["{worst}"], or impute it'
            )
        said.append(f"{table.name}: {count} of {len(rows)} rows have a missing cell and are left out ({often})")
        kept = {name: values[~rows] for name, values in table.columns.items()}
        found[site] = replace(table, columns=kept, lines=table.lines[~rows])
    return found, said


def complete_cases(clients: Sequence[Client], preprocess: Preprocess) -> tuple[list[Client], list[str]]:
    """The clients without the rows that lack a value in a column whose `impute` is "complete".

    Args:
        clients: The clients, with raw columns. They are left as they are.
        preprocess: The preprocessing of the run; its schema says which columns must be complete.

    Returns new clients, and a sentence for each that has left out rows.

    Raises DataError for a client that has no complete row, and for one that has set rows aside already.
    """
    found, said = [], []
    for client in clients:
        if client._held is not None:
            raise DataError(f"client {client.name!r} has held-out rows already; leave out incomplete rows before")
        rows = incomplete_rows(client, preprocess)
        if rows.all():
            raise DataError(
                f"client {client.name!r}: every one of its {len(rows)} rows has a missing cell; impute some"
            )
        if rows.any():
            said.append(f"{client.name}: {int(rows.sum())} of {len(rows)} rows have a missing cell and are left out")
            rebuild, given = client.holding_out(np.flatnonzero(rows)).__reduce__()
            client = rebuild(*given[:-1], None)
        found.append(client)
    return found, said


def incomplete_rows(client: Client, preprocess: Preprocess) -> np.ndarray:
    """Which rows of a client lack a value in a column whose `impute` is "complete"."""
    columns = preprocess.columns_of(client)
    X = client.ordered([column.name for column in columns])
    rows = np.zeros(client.n_samples, dtype=bool)
    for place, column in enumerate(columns):
        if column.is_complete:
            rows |= column.missing(X[:, place])
    return rows
