"""Small networks with softmax and cross-entropy, their gradients and Hessians, and the digits that they learn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedsolve.typing import Array


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
