"""Networks in Jadbabaie et al. (2023) as functions of their inputs: smooth with sigmoid units, not with ReLU units."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

SMOOTH = Check(
    "Section II-C",
    "sigmoid units: difference quotients of ∂f/∂θ_i in x, orders 1 to 4, at h = 1/256 over 1/128",
    "times",
    1.2,
)
JUMPS = AtLeast(
    "Appendix C",
    "ReLU units: difference quotients of order 1 grow like 1/h: 1/256 over 1/128",
    "times",
    1.8,
    unit="times",
)
CHECKS = (SMOOTH, JUMPS)


def measured(seed: int) -> dict[str, float]:
    return named(_networks(np.random.default_rng([seed, 58])))


def partial(x: Array, layers: list[Array], relu: bool) -> Array:
    """∂f/∂θ_i, θ_i a weight of the first layer: two hidden layers, softmax, cross-entropy of class 0; rows are x."""
    values, slopes = [x], []
    for W in layers[:-1]:
        t = values[-1] @ W
        values.append(np.maximum(t, 0) if relu else 1 / (1 + np.exp(-t)))
        slopes.append((t > 0).astype(float) if relu else values[-1] * (1 - values[-1]))
    out = values[-1] @ layers[-1]
    share = np.exp(out - out.max(axis=1, keepdims=True))
    back = share / share.sum(axis=1, keepdims=True)
    back[:, 0] -= 1
    for W, slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        back = (back @ W.T) * slope
    return np.asarray(x[:, 0] * back[:, 0])


def _networks(rng: np.random.Generator) -> dict[Check, float]:
    """Along lines through [0, 1]⁵, 5-8-8-3 units."""
    smooth, jumps = 0.0, []
    for _ in range(20):
        layers = [rng.standard_normal(shape) for shape in ((5, 8), (8, 8), (8, 3))]
        start, end = rng.random((2, 5))
        t = np.arange(0, 1, 1 / 4096)[:, None]
        for relu in (False, True):
            g = partial(start + t * (end - start), layers, relu)
            steep = [[np.abs(_difference(g, k, h)).max() / (h / 4096) ** k for h in (32, 16)] for k in range(1, 5)]
            if relu and steep[0][0] > 0:  # else all units on the way to the first layer's are dead
                jumps.append(steep[0][1] / steep[0][0])
            elif not relu:
                smooth = max(smooth, *(fine / coarse for coarse, fine in steep))
    return {SMOOTH: smooth, JUMPS: float(np.median(jumps))}


def _difference(g: Array, order: int, step: int) -> Array:
    for _ in range(order):
        g = g[step:] - g[:-step]
    return g
