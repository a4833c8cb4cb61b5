"""Section II-C of Jadbabaie et al. (2023): gradients and Hessians of networks that classify into K classes.

Two hidden layers of ten units, softmax and cross-entropy, 400 of scikit-learn's digits, plain SGD with batches of 40.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.small_nets import Net, digits, held
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

EACH = AtLeast(
    "Section II-C",
    "gradients of 400 samples: share of their energy in p/20 dimensions, the least of all times",
    "times",
    0.9,
    unit="of the energy",
)
STEPS = AtLeast(
    "Section II-C",
    "gradients of all steps of training: share of their energy in p/20 dimensions",
    "times",
    0.9,
    unit="of the energy",
)
DECAY = Check("Section II-C", "Hessian: its eigenvalue 10K over the largest, the worst of all times", "times", 0.01)
TAYLOR = AtLeast(
    "Section II-C",
    "∇F(θ + δ) − ∇F(θ): share of its energy along the 10K leading eigenvectors, ‖δ‖ = 1 % and 10 % of ‖θ‖",
    "times",
    0.9,
    unit="of the energy",
)
MOSTLY = AtLeast(
    "Section II-C",
    "share of ‖∇F‖² along the K leading eigenvectors of the Hessian, from epoch 1 on",
    "times",
    0.5,
    unit="of ‖∇F‖²",
)
BATCHES = AtLeast(
    "Section II-C",
    "… of the squared gradients of batches, their median",
    "times",
    0.5,
    unit="of the squared norm",
)
BELONG = AtLeast(
    "Section II-C",
    "… the gradient of F is there up to 5 % of ‖∇F‖², from epoch 1 on",
    "times",
    0.95,
    unit="of ‖∇F‖²",
)
DECAY_LATER = Check("Section II-C", "… from epoch 20 on", "times", 0.01)
TAYLOR_SMOOTH = AtLeast("Section II-C", "… with tanh units: share of its energy", "times", 0.9, unit="of the energy")
MOSTLY_LATER = AtLeast(
    "Section II-C", "… share of ‖∇F‖² with ten classes, from epoch 20 on", "times", 0.5, unit="of ‖∇F‖²"
)
BATCHES_LATER = AtLeast(
    "Section II-C",
    "… share of batches' gradients with three and ten classes, from epoch 20 on, their median",
    "times",
    0.5,
    unit="of the squared norm",
)
LATER = (DECAY_LATER, TAYLOR_SMOOTH, MOSTLY_LATER, BATCHES_LATER)
CHECKS = (EACH, STEPS, DECAY, TAYLOR, MOSTLY, BATCHES, BELONG, *LATER)
EPOCHS, BATCH, RATE = (0, 1, 5, 20, 60), 40, 0.2


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    found: dict[Check, list[float]] = {check: [] for check in CHECKS}
    for K, relu in product((3, 10), (False, True)):
        rng = np.random.default_rng([seed, 90, K, relu])
        X, Y = digits(rng, K, 400)
        net = Net((64, 10, 10, K), relu)
        theta, path = net.start(rng), []
        for epoch in range((20 if quick else EPOCHS[-1]) + 1):
            if epoch in EPOCHS:
                _at(net, theta, (X, Y), rng, found, epoch)
            for rows in np.split(rng.permutation(len(X)), len(X) // BATCH):
                path.append(net.gradient(theta, X[rows], Y[rows]))
                theta = theta - RATE * path[-1]
        found[STEPS].append(held(np.array(path), len(theta) // 20))
    return named({check: min(ones) if isinstance(check, AtLeast) else max(ones) for check, ones in found.items()})


def _at(
    net: Net,
    theta: Array,
    data: tuple[Array, Array],
    rng: np.random.Generator,
    found: dict[Check, list[float]],
    epoch: int,
) -> None:
    """What is measured of one θ; only of a trained one where the gradient lies."""
    (X, Y), K = data, net.widths[-1]
    found[EACH].append(held(net.gradients(theta, X, Y), len(theta) // 20))
    curvatures, along = np.linalg.eigh(net.hessian(theta, X, Y))
    order = np.argsort(-np.abs(curvatures))
    size, lead = np.abs(curvatures)[order], along[:, order[: 10 * K]]
    found[DECAY].append(float(size[10 * K - 1] / size[0]))
    slope = net.gradient(theta, X, Y)
    for far in (0.01, 0.1):
        move = rng.standard_normal((100, len(theta)))
        move *= far * np.linalg.norm(theta) / np.linalg.norm(move, axis=1, keepdims=True)
        change = np.array([net.gradient(theta + one, X, Y) - slope for one in move])
        found[TAYLOR].append(float(((change @ lead) ** 2).sum() / (change**2).sum()))
    if epoch > 0:
        top = along[:, np.argsort(-curvatures)[:K]]
        found[MOSTLY].append(float(((slope @ top) ** 2).sum() / (slope**2).sum()))
        found[BELONG].append(found[MOSTLY][-1])
        rows = np.split(rng.permutation(len(X)), len(X) // BATCH)
        batches = np.array([net.gradient(theta, X[one], Y[one]) for one in rows])
        found[BATCHES].append(float(np.median(((batches @ top) ** 2).sum(axis=1) / (batches**2).sum(axis=1))))
    if not net.relu:
        found[TAYLOR_SMOOTH] += found[TAYLOR][-2:]
    if epoch >= 20:
        found[DECAY_LATER].append(found[DECAY][-1])
        found[BATCHES_LATER].append(found[BATCHES][-1])
        found[MOSTLY_LATER] += found[MOSTLY][-1:] if K == 10 else []
