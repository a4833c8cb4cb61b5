"""Su, Xu and Yang (2023), sections 3 and 6.2.2: what the setting stands for, networks and collections of images."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps
from fedsolve.closed_forms.recursion import gamma, recursion
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_rates import slope
from fedsolve.typing import Array

NETWORK = Quantity(
    "Section 3",
    "FedAvg on the first layer of a two-layer ReLU network of width 16,384, s = 1, 5 and 10, 20 rounds: f_t at the "
    "rows is within 10 % of ‖y‖ of (13) with the neural tangent kernel",
    "largest share of ‖y‖",
    most=0.1,
)
WIDER = Quantity(
    "Section 3",
    "… in wide networks only: the difference falls with the width from 256 to 16,384, exponent at most −0.35",
    "exponent in the width",
    most=-0.35,
)
SIGNAL = Quantity(
    "Section 6.2.2",
    "λ_min(F_iᵀF_i/n_i) = α = 1, 0.1 and 0.01, r_i = 4 of d = 12, n_i = 8: the variance of the client's own least "
    "squares in the worst direction of its subspace is σ²r_i/(d n_i α), to 1e-8",
    "times it",
    1 - 1e-8,
    1 + 1e-8,
)
IMAGES = Quantity(
    "Section 6.2.2",
    "digits, 64 pixels: 8 directions hold at least 0.9 of the squared length of the images of a class, for each of the "
    "10 classes",
    "least share",
    least=0.9,
)
CLASSES = Quantity(
    "Section 6.2.2",
    "… and leave out of any other class at least twice the share that they leave out of their own",
    "least times",
    least=2.0,
)
QUANTITIES = (NETWORK, WIDER, SIGNAL, IMAGES, CLASSES)
D, WIDTHS, ROWS = 12, (256, 1024, 4096, 16_384), (8, 3, 5)


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 205])
    _networks(rng, notes)
    _signals(rng, notes)
    own, others = images()
    notes.add(IMAGES, 1 - own)
    notes.add(CLASSES, others / own[:, None])


def network(rng: np.random.Generator, width: int, s: int, rounds: int = 20) -> float:
    """The largest ‖f_t − f_t by (13)‖/‖y‖, for a network with f_0 = 0: pairs of units with opposite signs."""
    x = rng.standard_normal((sum(ROWS), 4))
    x, y = x / np.linalg.norm(x, axis=1, keepdims=True), rng.standard_normal(sum(ROWS))
    inner = np.clip(x @ x.T, -1, 1)
    K = inner * (np.pi - np.arccos(inner)) / (2 * np.pi)
    eta = 0.5 / gamma(K, ROWS, 1.0)
    half = rng.standard_normal((width // 2, 4))
    W, signs = np.vstack([half, half]), np.repeat([1.0, -1.0], width // 2) / math.sqrt(width)
    path = recursion(K, ROWS, y, LocalSteps(eta, s), rounds)
    ends, worst = np.cumsum(ROWS)[:-1], 0.0
    for t in range(1, rounds + 1):
        total = np.zeros_like(W)
        for mine, targets in zip(np.split(x, ends), np.split(y, ends), strict=True):
            V = W.copy()
            for _ in range(s):
                before = mine @ V.T
                residual = (np.maximum(before, 0) @ signs - targets) / len(mine)
                V -= eta * signs[:, None] * ((before > 0) * residual[:, None]).T @ mine
            total += len(mine) / len(x) * V
        W = total
        worst = max(worst, float(np.linalg.norm(np.maximum(x @ W.T, 0) @ signs - path[t])))
    return worst / float(np.linalg.norm(y))


def _networks(rng: np.random.Generator, notes: Notes) -> None:
    for s in (1, 5, 10):
        means = []
        for width in WIDTHS:
            found = [network(rng, width, s) for _ in range(10)]
            means.append(float(np.mean(found)))
        notes.add(NETWORK, *found)
        notes.add(WIDER, slope(WIDTHS, means))


def _signals(rng: np.random.Generator, notes: Notes) -> None:
    for low in (1.0, 0.1, 0.01):
        U, Q = np.linalg.qr(rng.standard_normal((D, 4)))[0], np.linalg.qr(rng.standard_normal((8, 4)))[0]
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        X = math.sqrt(D / 4) * (Q * np.sqrt(8 * np.linspace(low, 1, 4))) @ turn @ U.T
        variance = np.linalg.norm(np.linalg.pinv(X), 2) ** 2  # in the worst direction, over σ²
        notes.add(SIGNAL, variance / (4 / (D * 8 * low)))


def images() -> tuple[Array, Array]:
    """What the best 8 directions of each class of digits leave out: of its own squared length, and of the others'."""
    from sklearn.datasets import load_digits

    X, classes = load_digits(return_X_y=True)
    kept = [np.linalg.svd(X[classes == c], full_matrices=False)[2][:8] for c in range(10)]
    left = np.array(
        [
            [1 - np.square(X[classes == c] @ V.T).sum() / np.square(X[classes == c]).sum() for c in range(10)]
            for V in kept
        ]
    )
    return np.diag(left), left[~np.eye(10, dtype=bool)].reshape(10, 9)
