"""`preprocess.site_intercepts`: every site an intercept of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsolve.data import Dataset, site_intercepts
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.runfiles import keys

FULL = "full"


def with_sites(
    what: keys.Config, names: Sequence[str] | None, clients: Sequence[Client], preprocess: Preprocess | None
) -> tuple[list[Client], Preprocess]:
    """Clients with a column of the sites' names, called as `data.split_by` is or "site", and the preprocessing that
    makes indicators of it. The server's own rows belong to no site and are rejected."""
    assert what.preprocess is not None
    chosen = what.preprocess.site_intercepts
    if what.server is not None:
        raise ConfigError("preprocess.site_intercepts: the rows of [server] belong to no site; leave one of both out")
    column = what.data.split_by if isinstance(what.data.split_by, str) else "site"
    if column in (names or ()):
        column = "site"
    reference = chosen if isinstance(chosen, str) and chosen != FULL else None
    return site_intercepts(clients, preprocess, reference=reference, full=chosen == FULL, column=column)


def pooled_with_sites(loaded: Dataset, clients: Sequence[Client]) -> Dataset:
    """The data with that column. Test rows have no site and are left out."""
    X, y = (np.concatenate([getattr(client, name) for client in clients]) for name in ("X", "y"))
    names = clients[0].feature_names
    return replace(loaded, X=X, y=y, feature_names=names, groups=None, columns=None, X_test=None, y_test=None)
