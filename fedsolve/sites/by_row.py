"""What a client has for each row, as NumPy arrays that rules compute with."""

from __future__ import annotations

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Pointwise
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


def weights_by_row(client: Client) -> Array:
    return np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)


def columns_by_row(values: Array) -> Array:
    """One line for each output, or block, with an entry for each row."""
    found = np.asarray(to_numpy(values), dtype=np.float64)
    return found[None] if found.ndim == 1 else np.ascontiguousarray(found.reshape(len(found), -1).T)


def targets_by_row(loss: Pointwise, client: Client) -> Array:
    return loss.targets(client) if isinstance(loss, LinearLoss) else client.y
