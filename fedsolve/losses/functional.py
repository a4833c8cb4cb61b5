"""A loss of functions: what boosting asks of a `Pointwise`, for any f and not only for linear ones.

    R_i[f] = Σ_j s_j ℓ(f(x_j), y_j) / Σ_j s_j,        F_i[f] = R_i[f] + (μ/2) Σ_j s_j ‖f(x_j)‖² / Σ_j s_j

Shen, Hassani, Kale and Karbasi 2022, equations 3, 8 and 9. A client's offset is added to f(x_j).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.losses.pointwise import Pointwise
from fedsolve.typing import Array

DIGITS = 20  # binary ones of a value
STEPS, SMALL = 200, 1e-9  # Newton steps for a constant, and how small the last one is


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
                "intercept": 'a constant to begin with is initial="constant"',
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
    return loss.derivative(client.xp, _predictor(loss, client, f), _targets(loss, client))


def value(loss: Pointwise, client: Client, f: Array, tikhonov: float) -> float:
    """F_i[f]. Where somebody watches the rows, to six digits: it only measures, and from all digits of a sum one can
    solve for how many rows of each kind are in it."""
    xp, s = client.xp, client.sample_weight
    client.count("losses", client.n_samples)
    costs = loss.pointwise(xp, _predictor(loss, client, f), _targets(loss, client))
    if tikhonov:
        costs = costs + 0.5 * tikhonov * (f * f if f.ndim == 1 else xp.sum(f * f, axis=1))
    found = float(xp.sum(costs if s is None else s * costs)) / client.weight
    return found if client.watch is None else in_six_digits(found)


def in_six_digits(number: float) -> float:
    """A number rounded to 20 binary digits, some six decimal ones."""
    if not math.isfinite(number):
        return number
    fraction, exponent = math.frexp(number)
    return math.ldexp(round(fraction * 2**DIGITS), exponent - DIGITS)


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

    c, found = np.zeros(y.shape), False
    # Beyond this the share of a class is below rounding: with none at all the loss falls for ever.
    farthest = 25.0 * max(1.0, float(np.abs(y).max()))
    for _ in range(STEPS):
        size, step, before = 1.0, _newton_step(slope, c), cost(c)
        found = bool(np.abs(step).max() <= SMALL * max(1.0, float(np.abs(c).max())))
        while size > SMALL and not cost(c - size * step) <= before:
            size *= 0.5
        if size > SMALL:
            c = c - size * step
        if found or size <= SMALL or np.abs(c).max() > farthest:
            break
    if not found or np.abs(c).max() > farthest:
        raise ConfigError(
            f"no constant is the best one for targets with the mean {np.asarray(mean).tolist()}: the loss falls for "
            'ever; begin with initial="zero", or give tikhonov > 0'
        )
    return np.asarray(c[0])


def _newton_step(slope: Callable[[Array], Array], c: Array) -> Array:
    """H⁻¹g at c, with H by central differences of the slope g."""
    sizes = [1e-6 * max(1.0, abs(one)) for one in c.ravel().tolist()]
    moved = [np.where(np.arange(c.size) == place, size, 0.0).reshape(c.shape) for place, size in enumerate(sizes)]
    H = np.stack([(slope(c + m) - slope(c - m)) / (2 * size) for m, size in zip(moved, sizes, strict=True)])
    return np.linalg.lstsq(H, slope(c), rcond=None)[0].reshape(c.shape)


def _predictor(loss: Pointwise, client: Client, f: Array) -> Array:
    if client.offset is not None:
        f = f + (client.offset if f.ndim == 1 or client.offset.ndim == 2 else client.offset[:, None])
    if client.watch is not None:
        client.watch.visit(loss, client, None, f)
    return f


def _targets(loss: Pointwise, client: Client) -> Array:
    return loss.targets(client) if isinstance(loss, LinearLoss) else client.y
