"""Section II-C of Jadbabaie et al. (2023): weights, last features and gradients of weight matrices of networks.

Two hidden layers of 64 units, 500 of scikit-learn's digits, ten classes, SGD with batches of 20.
"""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.small_nets import Net, digits, held
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

WEIGHTS = AtLeast(
    "Section II-C",
    "hidden 64 × 64 weights after training with weight decay: share of their energy at rank 10",
    "times",
    0.9,
    unit="of the energy",
)
START = Check("Section II-C", "… and before training", "times", 0.6)
PLAIN = AtLeast("Section II-C", "… after training without weight decay", "times", 0.9, unit="of the energy")
COLLAPSE = Check(
    "Section II-C",
    "last features: scatter within classes over between them, end over when no training error is left",
    "times",
    0.1,
)
FALLS = Check("Section II-C", "… it falls, to a share below one", "times", 0.999)
ANGLES = Check("Section II-C", "… cosines between centred class means, from −1/9, their mean distance", "off", 0.1)
MEMORY = AtLeast(
    "Section II-C",
    "gradients of the 64 × 64 weights at rank 8, a quarter of the numbers: share of energy, median of batches",
    "times",
    0.9,
    unit="of the energy",
)
CHECKS = (WEIGHTS, START, PLAIN, COLLAPSE, FALLS, ANGLES, MEMORY)
BATCH, RATE, DECAY = 20, 0.1, 5e-3


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    found: dict[Check, list[float]] = {check: [] for check in CHECKS}
    for relu in (False, True):
        rng = np.random.default_rng([seed, 91, relu])
        X, Y = digits(rng, 10, 500)
        net = Net((64, 64, 64, 10), relu)
        start = net.start(rng)
        found[START].append(held(_middle(net, start), 10))
        ends = {}
        for decay in (DECAY, 0.0):
            theta, first = start, float("nan")
            for epoch in range(20 if quick else 200):
                gradients = []
                for rows in np.split(rng.permutation(len(X)), len(X) // BATCH):
                    slope = net.gradient(theta, X[rows], Y[rows])
                    gradients.append(_middle(net, slope))
                    theta = theta - RATE * (slope + decay * theta)
                if epoch % 20 == 0:
                    found[MEMORY].append(float(np.median([held(one, 8) for one in gradients])))
                if np.isnan(first) and (net.values(theta, X)[-1].argmax(1) == Y.argmax(1)).all():
                    first = scatter(net.values(theta, X)[-2], Y)[0]
            ends[decay] = held(_middle(net, theta), 10)
            if decay:
                last, off = scatter(net.values(theta, X)[-2], Y)
                found[COLLAPSE].append(last / first)
                found[FALLS].append(last / first)
                found[ANGLES].append(off)
        found[WEIGHTS].append(ends[DECAY])
        found[PLAIN].append(ends[0.0])
    return named(
        {check: float(np.min(ones) if isinstance(check, AtLeast) else np.max(ones)) for check, ones in found.items()}
    )


def _middle(net: Net, theta: Array) -> Array:
    """The weights between the hidden layers, without their biases."""
    return net.layers(theta)[1][:-1]


def scatter(features: Array, Y: Array) -> tuple[float, float]:
    """Σ‖h − mean of its class‖² over Σ‖mean of its class − mean‖²; how far cosines of means are from −1/(K − 1)."""
    K = Y.shape[1]
    means = (Y.T @ features) / Y.sum(axis=0)[:, None]
    own, centred = Y @ means, means - features.mean(axis=0)
    within, between = ((features - own) ** 2).sum(), ((own - features.mean(axis=0)) ** 2).sum()
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[~np.eye(K, dtype=bool)]
    return float(within / between), float(np.abs(cosines + 1 / (K - 1)).mean())
