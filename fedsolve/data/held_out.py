"""Rows that each client sets aside to judge a model by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.scalars import whole

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
    count = min(client.n_samples - 1, round(fraction * client.n_samples))
    if count == 0:
        return client
    rng = np.random.default_rng([seed, client.key, _HELD])
    return client.holding_out(np.sort(rng.choice(client.n_samples, count, replace=False)))
