"""What is computed where the data is: sums of gradients at the probes, and the gradient of every sample.

Models travel as rows of p numbers, whatever shape the loss gives them.
"""

from __future__ import annotations

import math

from fedsolve.errors import WrongType
from fedsolve.federation.client import Client
from fedsolve.losses import Loss
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape

MOST = 2**24  # entries that the sums at the probes may have, so that a request cannot take all memory


def weights(loss: Loss, client: Client, points: Array, bases: Array, with_penalty: bool) -> Array:
    """Σ_j s_j ∂f/∂θ_i(x_j; ϑ_k) at all probes ϑ_k, times bases[i] (Jadbabaie et al., equation 35): (r, p).

    points        (probes, p)
    bases         (p, probes, r)
    with_penalty  whether the penalty is a part of every sample's f
    """
    p = math.prod(_shape(loss, client))
    require_shape("points", points, range(1, MOST // p + 1), p)
    require_shape("bases", bases, p, points.shape[0], range(1, points.shape[0] + 1))
    xp = client.xp
    sums = xp.stack([_sum(loss, client, points[k, :], with_penalty) for k in range(points.shape[0])])
    return xp.stack([sums[:, i] @ bases[i, :, :] for i in range(p)], axis=1)


def row_of(found: Array, row: int) -> Array:
    """One row of what was computed, as an array of one row."""
    if not 0 <= row < found.shape[0]:
        raise WrongType(f"row should be from 0 to {found.shape[0] - 1}, got {row}")
    return found[row : row + 1, :]


def partials(loss: Loss, client: Client, points: Array, with_penalty: bool) -> Array:
    """∂f/∂θ_i(x_j; ϑ_k) of every sample at every point: (points, samples, p)."""
    xp, shape = client.xp, _shape(loss, client)
    found = []
    for k in range(points.shape[0]):
        w = xp.reshape(points[k, :], shape)
        each = xp.reshape(loss.sample_gradients(client, w), (client.n_samples, -1))
        found.append(each + xp.reshape(loss.penalty_gradient(w), (1, -1)) if with_penalty else each)
    return xp.stack(found)


def _sum(loss: Loss, client: Client, point: Array, with_penalty: bool) -> Array:
    """The sum of the samples' gradients, each times its sample weight."""
    w = client.xp.reshape(point, _shape(loss, client))
    mean = loss.gradient(client, w)
    return client.xp.reshape(client.weight * (mean if with_penalty else mean - loss.penalty_gradient(w)), (-1,))


def _shape(loss: Loss, client: Client) -> tuple[int, ...]:
    return loss.shape(client.design.shape[1], tuple(client.y.shape[1:]))
