"""Section II-C of Jadbabaie et al. (2023): gradients and Hessians of networks that classify into K classes.

Two hidden layers of ten units, softmax and cross-entropy, 400 of scikit-learn's digits, plain SGD with batches of 40.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from fedsolve.reproduce.checks import Check
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
CHECKS = (EACH, STEPS, DECAY, TAYLOR, MOSTLY, BATCHES, BELONG)
EPOCHS, BATCH, RATE = (0, 1, 5, 20, 60), 40, 0.2


@dataclass(frozen=True)
class Net:
    """A network of full layers with biases; θ is one vector, the layers one after another."""

    widths: tuple[int, ...]
    relu: bool

    def start(self, rng: np.random.Generator) -> Array:
        parts = [
            np.vstack([rng.standard_normal((a, b)) * np.sqrt((1 + self.relu) / a), np.zeros((1, b))]).ravel()
            for a, b in pairwise(self.widths)
        ]
        return np.concatenate(parts)

    def layers(self, theta: Array) -> list[Array]:
        """One matrix for each layer; its last row is the bias."""
        sizes = [(a + 1) * b for a, b in pairwise(self.widths)]
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        return [part.reshape(a + 1, b) for part, (a, b) in zip(parts, pairwise(self.widths), strict=True)]

    def values(self, theta: Array, X: Array) -> list[Array]:
        """The inputs of every layer, and the outputs before softmax."""
        found, layers = [X], self.layers(theta)
        for W in layers:
            if len(found) > 1:
                found[-1] = np.maximum(found[-1], 0) if self.relu else np.tanh(found[-1])
            found.append(found[-1] @ W[:-1] + W[-1])
        return found

    def errors(self, theta: Array, X: Array, Y: Array) -> list[tuple[Array, Array]]:
        """For every layer its inputs and the derivatives of each sample's loss in its outputs."""
        *inputs, out = self.values(theta, X)
        share = np.exp(out - out.max(axis=1, keepdims=True))
        back = share / share.sum(axis=1, keepdims=True) - Y
        found = []
        for W, value in zip(self.layers(theta)[::-1], inputs[::-1], strict=True):
            found.append((value, back))
            back = (back @ W[:-1].T) * ((value > 0) if self.relu else 1 - value**2)
        return found[::-1]

    def gradient(self, theta: Array, X: Array, Y: Array) -> Array:
        """Of the mean loss."""
        parts = [np.vstack([A.T @ D, D.sum(axis=0)]).ravel() for A, D in self.errors(theta, X, Y)]
        return np.concatenate(parts) / len(X)

    def gradients(self, theta: Array, X: Array, Y: Array) -> Array:
        """Of each sample's loss: a row each."""
        parts = []
        for A, D in self.errors(theta, X, Y):
            wide = np.hstack([A, np.ones((len(A), 1))])
            parts.append((wide[:, :, None] * D[:, None, :]).reshape(len(A), -1))
        return np.hstack(parts)

    def hessian(self, theta: Array, X: Array, Y: Array, step: float = 1e-5) -> Array:
        """By central differences of the gradient."""
        H = np.empty((len(theta), len(theta)))
        for k in range(len(theta)):
            move = np.zeros(len(theta))
            move[k] = step
            H[k] = (self.gradient(theta + move, X, Y) - self.gradient(theta - move, X, Y)) / (2 * step)
        return (H + H.T) / 2


def digits(rng: np.random.Generator, K: int, count: int) -> tuple[Array, Array]:
    """Pixels from 0 to 1 of so many digits of K classes, drawn anew; the classes as unit vectors."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    classes = rng.permutation(10)[:K]
    rows = rng.permutation(np.flatnonzero(np.isin(y, classes)))[:count]
    return X[rows] / 16, (y[rows, None] == classes).astype(float)


def held(G: Array, rank: int) -> float:
    """The share of the energy of a matrix that its best approximation of a rank has."""
    energy = np.linalg.svd(G, compute_uv=False) ** 2
    return float(energy[:rank].sum() / energy.sum())


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    found: dict[Check, list[float]] = {check: [] for check in CHECKS}
    for K, relu in product((3, 10), (False, True)):
        rng = np.random.default_rng([seed, 90, K, relu])
        X, Y = digits(rng, K, 400)
        net = Net((64, 10, 10, K), relu)
        theta, path = net.start(rng), []
        for epoch in range((5 if quick else EPOCHS[-1]) + 1):
            if epoch in EPOCHS:
                _at(net, theta, (X, Y), rng, found, epoch > 0)
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
    trained: bool,
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
    if trained:
        top = along[:, np.argsort(-curvatures)[:K]]
        found[MOSTLY].append(float(((slope @ top) ** 2).sum() / (slope**2).sum()))
        found[BELONG].append(found[MOSTLY][-1])
        rows = np.split(rng.permutation(len(X)), len(X) // BATCH)
        batches = np.array([net.gradient(theta, X[one], Y[one]) for one in rows])
        found[BATCHES].append(float(np.median(((batches @ top) ** 2).sum(axis=1) / (batches**2).sum(axis=1))))
