"""Where partial derivatives are compared: points in a box around the current model."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Loss
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

# How far the predictions of a linear model move between probes (their root mean square), in units in which curvature
# changes by a factor of about e; for a quadratic loss, of the residuals. Derivatives of a loss are nearly linear within
# a quarter of it, so that p + 1 functions stand for all; with less, rounding would begin to count.
SPREAD = 0.25


def half_widths(loss: Loss, client: Client, box: float | None) -> Array:
    """Half the side of the box in each coordinate: `box`, or what the server's own samples say of the units of columns
    and targets, so that the same problem in other units has the same probes."""
    shape = loss.shape(client.design.shape[1], tuple(client.y.shape[1:]))
    if box is not None or not isinstance(loss, LinearLoss):
        return np.full(math.prod(shape), 1.0 if box is None else box)
    columns, residual, _ = (to_numpy(client.xp.asarray(one)) for one in loss.scale(client))
    sizes = np.sqrt(columns)
    if not (sizes > 0).any():
        raise DataError(f"the server's data ({client.name!r}) has only zeros: give it samples like the clients'")
    sizes = np.where(sizes > 0, sizes, sizes[sizes > 0].mean())  # of a column of zeros nothing is known
    unit = np.sqrt(residual) if loss.quadratic else np.ones(1)
    unit = np.where(unit > 0, unit, 1.0)
    per_row = SPREAD * math.sqrt(3.0 / sizes.size) / sizes
    widths = per_row[:, None] * unit  # a column, or one for each output
    return np.broadcast_to(widths, (shape[0], math.prod(shape[1:]))).reshape(-1).copy()
