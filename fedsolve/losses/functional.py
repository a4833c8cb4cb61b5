"""A loss of functions: what boosting asks of a `Pointwise`, for any f and not only for linear ones.

    R_i[f] = Σ_j s_j ℓ(f(x_j), y_j) / Σ_j s_j,        F_i[f] = R_i[f] + (μ/2) Σ_j s_j ‖f(x_j)‖² / Σ_j s_j

Shen, Hassani, Kale and Karbasi 2022, equations 3, 8 and 9. A client's offset is added to f(x_j).
"""

from __future__ import annotations

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.losses.pointwise import Pointwise
from fedsolve.typing import Array

# Newton steps for a constant, and how small its relative gradient is then.
STEPS, SMALL = 200, 1e-13


def check(loss: object, name: str) -> None:
    """Raise ConfigError unless a loss says what a prediction costs, and nothing about weights that do not exist."""
    if isinstance(loss, type) or not isinstance(loss, Pointwise):
        raise ConfigError(
            f"{name} takes a loss of predictions such as Squared(), Logistic() or Softmax(), got {loss!r}"
        )
    for field, none in (("l2", 0.0), ("l1", 0.0), ("intercept", None), ("features", None)):
        if getattr(loss, field, none) != none:
            instead = {
                "l2": "a penalty on the function itself is tikhonov=",
                "l1": "a penalty on the function itself is tikhonov=",
                "intercept": 'a constant to begin with is start="constant"',
                "features": "give the feature map to the learner, RidgeLearner(features=…)",
            }[field]
            raise ConfigError(
                f"{name} learns a function and no weights, so {type(loss).__name__}({field}=…) means nothing here: "
                f"leave {field} out; {instead}"
            )


def outputs_at(loss: Pointwise, client: Client) -> tuple[int, ...]:
    """The shape of one prediction at a client."""
    return tuple(loss.outputs(client) if isinstance(loss, LinearLoss) else client.y.shape[1:])


def outputs_for(loss: Pointwise, outputs: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one prediction, for targets of this shape."""
    return loss.shape(1, outputs)[1:] if isinstance(loss, LinearLoss) else outputs


def gradient(loss: Pointwise, client: Client, f: Array) -> Array:
    """∇R_i[f] at the client's rows: dℓ/dη of each (equation 3)."""
    client.count("gradients", client.n_samples)
    return loss.derivative(client.xp, _predictor(client, f), _targets(loss, client))


def value(loss: Pointwise, client: Client, f: Array, tikhonov: float) -> float:
    """F_i[f]."""
    xp, s = client.xp, client.sample_weight
    client.count("losses", client.n_samples)
    costs = loss.pointwise(xp, _predictor(client, f), _targets(loss, client))
    if tikhonov:
        costs = costs + 0.5 * tikhonov * (f * f if f.ndim == 1 else xp.sum(f * f, axis=1))
    return float(xp.sum(costs if s is None else s * costs)) / client.weight


def mean_target(loss: Pointwise, client: Client) -> Array:
    """The mean of a client's targets."""
    s, y = client.sample_weight, _targets(loss, client)
    return client.xp.asarray((client.xp.sum(y, axis=0) if s is None else s @ y) / client.weight)


def best_constant(loss: Pointwise, mean: Array, tikhonov: float) -> Array:
    """argmin_c ℓ(c, ȳ) + (μ/2) ‖c‖², at the server, for the mean ȳ of all targets.

    Where dℓ/dη is the predicted mean minus the target, as for every loss of the library, this is the constant with the
    least F. Newton's method with differences of the derivative, halving steps that do not lower the value.

    Raises ConfigError if there is no finite one, such as for a class that never occurs.
    """
    y = np.asarray(mean, dtype=np.float64)[None]

    def cost(c: Array) -> float:
        return float(loss.pointwise(np, c, y)[0] + 0.5 * tikhonov * (c * c).sum())

    def slope(c: Array) -> Array:
        return np.ravel(loss.derivative(np, c, y) + tikhonov * c)

    c = np.zeros(y.shape)
    unit = max(float(np.abs(slope(c)).max()), 1e-300)
    for _ in range(STEPS):
        g = slope(c)
        if np.abs(g).max() <= SMALL * unit or np.abs(c).max() > 100.0 * max(1.0, float(np.abs(y).max())):
            break
        steps = [1e-6 * max(1.0, abs(one)) for one in c.ravel()]
        moved = [np.where(np.arange(c.size) == place, step, 0.0).reshape(c.shape) for place, step in enumerate(steps)]
        H = np.stack([(slope(c + m) - slope(c - m)) / (2 * s) for m, s in zip(moved, steps, strict=True)])
        step = np.linalg.lstsq(H, g, rcond=None)[0].reshape(c.shape)
        size, before = 1.0, cost(c)
        while size > 1e-10 and not cost(c - size * step) <= before:
            size *= 0.5
        if size <= 1e-10:
            break
        c = c - size * step
    if not np.abs(slope(c)).max() <= 1e-6 * unit:
        raise ConfigError(
            f"no constant is the best one for targets with the mean {np.asarray(mean).tolist()}: the loss falls for "
            'ever; begin with start="zero", or give tikhonov > 0'
        )
    return np.asarray(c[0])


def _predictor(client: Client, f: Array) -> Array:
    if client.offset is None:
        return f
    return f + (client.offset if f.ndim == 1 or client.offset.ndim == 2 else client.offset[:, None])


def _targets(loss: Pointwise, client: Client) -> Array:
    return loss.targets(client) if isinstance(loss, LinearLoss) else client.y
