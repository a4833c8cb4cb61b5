"""Fewer rows than columns: an l2-penalised fit lies in the span of the rows, so it is found in as many dimensions as
there are rows, exactly. With Xᵀ = QR, the fit z to the rows of Rᵀ gives w = Qz, and ‖w‖ = ‖z‖."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.typing import Array


def in_span_of_rows(client: Client, loss: LinearLoss) -> tuple[Client, LinearLoss, Array]:
    """The client with the columns Rᵀ, the loss for them, and Q. Features are mapped, and the intercept stays apart."""
    design = loss.design(client)
    rows = like(np.eye(client.n_samples), client.y)
    X = to_numpy(design.rmatvec(rows))[: design.shape[1] - (loss.intercept is not None)]
    Q, R = np.linalg.qr(X)
    s, offset = (None if one is None else to_numpy(one) for one in (client.sample_weight, client.offset))
    small = Client(client.name, np.ascontiguousarray(R.T), to_numpy(client.y), s, offset=offset)
    small.counts = client.counts  # its work is the client's
    return small, replace(loss, features=None), Q


def in_columns(w: Array, Q: Array, loss: LinearLoss) -> Array:
    """Weights of the columns Rᵀ as weights of the client's own."""
    return Q @ w if loss.intercept is None else np.concatenate([Q @ w[:-1], w[-1:]])
