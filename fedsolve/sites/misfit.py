"""How badly rows fit at a point, and how badly they may.

For classes this is the mean log-loss, beside that of a model that says nothing. Of a loss with the link "exponential"
it is the mean deviance, a square of residuals, once all predictions are multiplied by the number that suits the rows
best: a first Newton step overshoots far, but in all rows alike, which tells nothing of any of them.

Whether a point is refused must not tell of the largest row: by bisection twenty refusals are twenty digits of its
prediction. So limits on predictions themselves are kept by their mean and root mean square over all rows, well before
the largest one is cut off or overflows.
"""

from __future__ import annotations

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Pointwise
from fedsolve.numerics.linalg import rms, to_numpy
from fedsolve.typing import Array

# Predictions of this size (root mean square) are no fit's, and the squares of the largest are still numbers.
FARTHEST = 1e100
# Where a loss is cut off above some prediction, the mean and so many times the root mean square from it stay below half
# of that. Of up to 255 rows none is then cut off; of more, those that are have nearly all of the curvature.
SPREAD = 16.0
BY_CHANCE = 1.0  # the mean deviance that counts have by chance, where there are counts above zero


def is_far(loss: Pointwise, eta: Array) -> bool:
    """Whether predictions as a whole are too large to be a fit's."""
    found = to_numpy(eta)
    with np.errstate(all="ignore"):  # what is not finite is far
        if not rms(found) <= FARTHEST:
            return True
        centre = float(found.mean())
        return not centre + SPREAD * rms(found - centre) < loss.ceiling / 2


def misfit(loss: Pointwise, client: Client, eta: Array) -> float:
    """How badly the rows fit at these predictions."""
    if loss.link != "exponential":
        return _mean_error(loss, client, eta)
    return _at_best_level(loss, client, eta)


def reference(loss: Pointwise, client: Client, times: float) -> float:
    """How badly they may: so many times as badly as without a model, or, of deviances, its square."""
    y = loss.targets(client) if isinstance(loss, LinearLoss) else client.y
    nothing = 0.0 * y
    if client.offset is not None:
        nothing = nothing + (client.offset if nothing.ndim == client.offset.ndim else client.offset[:, None])
    if loss.link != "exponential":
        return times * _mean_error(loss, client, nothing)
    return times * times * max(_at_best_level(loss, client, nothing), BY_CHANCE)


def _at_best_level(loss: Pointwise, client: Client, eta: Array) -> float:
    """The mean error if all predictions are multiplied by one number, such that their sum is that of the targets."""
    s, y = _weights(client), to_numpy(client.y)
    total = float(s @ y)
    if not total > 0:
        return 0.0  # zeros are fitted as well as one likes by a small enough number
    level = np.log(total / (s @ to_numpy(loss.responses(client.xp, eta))))
    return _mean_error(loss, client, eta + float(level))


def _mean_error(loss: Pointwise, client: Client, eta: Array) -> float:
    y = loss.targets(client) if isinstance(loss, LinearLoss) else client.y
    s = _weights(client)
    return float(s @ to_numpy(loss.error(client.xp, eta, y)) / s.sum())


def _weights(client: Client) -> Array:
    return np.ones(client.n_samples) if client.sample_weight is None else to_numpy(client.sample_weight)
