"""Rows that each client sets aside to judge a model by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array

# A stream of the seed that is not that of cross-validation's folds, which are drawn from seed and client alone.
_HELD = 3


def hold_out(clients: Sequence[Client], fraction: float = 0.2, seed: int = 0) -> list[Client]:
    """Let every client set some of its rows aside, by a draw from the seed and its own name.

    The rows are never learned from. They are preprocessed as the others are, with numbers that were learned from the
    others only. `fs.evaluate` and `fs.Patience` judge models by them.

    Args:
        clients: The clients. They are left as they are.
        fraction: The share of each client's rows to set aside, between 0 and 1. At least one row is left to learn from,
            so a client with a single row sets none aside.
        seed: The same seed, client and number of rows give the same draw, whoever else takes part.

    Returns:
        New clients with the rest of the rows, and with `client.held`.

    Raises:
        ConfigError: If the fraction is not between 0 and 1.
        DataError: If a client has held-out rows already.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
        raise ConfigError(f"fraction is the share of rows to set aside, between 0 and 1, got {fraction!r}")
    seed = whole("seed", seed, 0, 2**64)
    return [_holding_out(client, float(fraction), seed) for client in clients]


def _holding_out(client: Client, fraction: float, seed: int) -> Client:
    if client._held is not None:
        raise DataError(f"client {client.name!r} has held-out rows already")
    index = drawn_rows(client, fraction, seed)
    return client.holding_out(index) if len(index) else client


def drawn_rows(client: Client, fraction: float, seed: int) -> np.ndarray:
    """The rows that `hold_out` sets aside."""
    count = min(client.n_samples - 1, round(fraction * client.n_samples))
    rng = np.random.default_rng([seed, client.key, _HELD])
    return np.sort(rng.choice(client.n_samples, count, replace=False))


def with_test_rows(
    client: Client, X_test: Array, y_test: Array, sample_weight: Array | None = None, *, offset: Array | None = None
) -> Client:
    """A client that judges models by test rows of its own, instead of setting some of its rows aside.

    Args:
        client: The client. It is left as it is.
        X_test, y_test: The test rows: the client's columns, in any order if they have names, in the same kind of array;
            labels as the client's are given.
        sample_weight, offset: As those of a `Client`.

    Returns:
        A new client with the same rows to learn from, and the test rows in `client.held`.

    Raises:
        DataError: If the client has held-out rows already, or the test rows have other columns, names where the client
            has none, or another kind of array.
    """
    if client._held is not None:
        raise DataError(f"client {client.name!r} has held-out rows already")
    names = None if hasattr(X_test, "columns") else client.feature_names
    held = Client(
        client.name, X_test, y_test, sample_weight, offset=offset, feature_names=names, classes=client.classes
    )
    if held.X.shape[1] != client.X.shape[1] or held.is_numpy != client.is_numpy:
        raise DataError(
            f"client {client.name!r}: the test rows are {held.X.shape[1]} columns of {type(held.X).__name__}, the "
            f"others {client.X.shape[1]} of {type(client.X).__name__}; give both alike"
        )
    if client.feature_names is None and held.feature_names is not None:
        raise DataError(
            f"client {client.name!r}: the test rows have names for their columns and the others have none, so nobody "
            "can say which is which; give both with names, or the test rows as an array in the order of the others"
        )
    if client.feature_names is not None and held.feature_names != client.feature_names:
        ordered = held.ordered(client.feature_names)
        made = Client(client.name, ordered, held.y, held.sample_weight, offset=held.offset)
        made.feature_names, made.classes, made.numbering = client.feature_names, held.classes, held.numbering
        held = made
    rebuild, given = client.__reduce__()
    return rebuild(*given[:-1], held)
