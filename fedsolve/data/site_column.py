"""The site as a covariate: a column with the name of the client whose each row is.

    clients, preprocess = site_intercepts(clients, Preprocess())
    run(Newton(Logistic(intercept="free")), clients, preprocess=preprocess)

Each client writes its own name into a column `site`, and the schema declares all names as its categories, so that every
site has an intercept of its own. The model takes that column from then on, as it takes any other raw column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from fedsolve.data.formula_terms import has_intercept, sides
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical, Column, Schema
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


def site_intercepts(
    clients: Sequence[Client],
    preprocess: Preprocess | None = None,
    *,
    reference: str | None = None,
    full: bool = False,
    column: str = "site",
) -> tuple[list[Client], Preprocess]:
    """Clients with a column that names them, and the preprocessing that makes an indicator of each site of it.

    Args:
        clients: The clients. They are left as they are. Their columns become NumPy arrays; sparse ones are rejected.
        preprocess: What to do with the other columns; by default they stay as they are.
        reference: The site without an indicator, with which the others are compared. Default: the first client.
        full: An indicator for every site and none as the reference, for a loss with `intercept=None`.
        column: What the column is called: indicators are `site=arden`, `site=brook`, …

    Returns:
        New clients, and a `Preprocess` with a schema for all columns; give both to `fs.run`. If there is a formula, the
        column becomes a term of it.

    Raises:
        ConfigError: If the reference is no client.
        DataError: If the clients have a column of that name, or sparse columns.
    """
    names = [client.name for client in clients]
    if len(names) < 2:
        raise ConfigError(f"site intercepts need at least two clients, got {len(names)}")
    if full and reference is not None:
        raise ConfigError("either full=True, an indicator for every site, or a reference site, and not both")
    reference = names[0] if reference is None else reference
    if reference not in names:
        raise ConfigError(f"reference is the name of a client, one of {', '.join(names)}; got {reference!r}")
    ordered = tuple(names) if full else (reference, *(name for name in names if name != reference))
    site = Categorical(column, ordered, unseen="error", drop_first=not full)
    made = [with_site_column(client, column) for client in clients]
    found = made[0].feature_names
    assert found is not None
    schema = Schema((*_columns(preprocess, found[:-1]), site))
    if preprocess is None or preprocess.formula is None:
        return made, Preprocess(schema)
    return made, Preprocess(schema, formula=with_term(preprocess.formula, column, full))


def with_term(formula: str, column: str, full: bool) -> str:
    """The formula with the sites as a term of it; the first and without an intercept if each has an indicator."""
    left, right = sides(formula)
    if full and has_intercept(formula):
        raise ConfigError(
            "the formula has an intercept, beside which not every site can have one of its own: write - 1 in it, or "
            "leave full=True out"
        )
    start = "" if left is None else f"`{left}` ~ "
    return f"{start}0 + `{column}` + {right}" if full else f"{start}{right} + `{column}`"


def _columns(preprocess: Preprocess | None, names: Sequence[str]) -> tuple[Column, ...]:
    """The other columns as the preprocessing has them."""
    if preprocess is None:
        preprocess = Preprocess(standardise=False, impute=None)
    if preprocess.schema is not None:
        return preprocess.schema.columns
    return tuple(preprocess._numeric(name) for name in names)


def with_site_column(client: Client, column: str = "site") -> Client:
    """The client with a last column in which every row has the client's name."""
    X, names = client.X, client.feature_names
    if sp.issparse(X):
        raise DataError(f"client {client.name!r}: X is sparse, and a column of names is not: use X.toarray()")
    names = names or tuple(f"x{j}" for j in range(X.shape[1]))
    if column in names:
        raise DataError(f"client {client.name!r} has a column {column!r} already: choose another, column='hospital'")
    held = client._held
    y, s, offset = (None if one is None else to_numpy(one) for one in (client.y, client.sample_weight, client.offset))
    made = Client(
        client.name, with_name(X, client.name), y, s, offset=offset, feature_names=(*names, column), link=client.link
    )
    made.classes, made.numbering = client.classes, client.numbering
    made._held = None if held is None else with_site_column(held, column)
    return made


def with_name(X: Array, name: str | Array) -> Array:
    """X with a last column that holds a name, or each row's."""
    cells = np.empty((X.shape[0], X.shape[1] + 1), dtype=object)
    cells[:, :-1] = to_numpy(X)
    cells[:, -1] = name
    return cells
