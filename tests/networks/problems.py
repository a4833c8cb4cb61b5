"""Small federations for networks, and architectures to try on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.typing import Array
from tests.extras import optional

torch = optional("torch")

FEATURES, CLASSES = 5, 3
SIZES = (20, 33, 7)


def rows(n: int, rng: np.random.Generator, kind: str) -> tuple[Array, Array]:
    """Inputs and targets that no linear model fits: "classes", "labels" (0 and 1), "numbers" or "pairs"."""
    X = rng.standard_normal((n, FEATURES))
    wave = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    if kind == "classes":
        return X, (wave > -0.4).astype(float) + (wave > 0.4)
    if kind == "labels":
        return X, (wave > 0).astype(float)
    return X, wave if kind == "numbers" else np.stack([wave, X[:, 3] ** 2], axis=1)


def federation(
    kind: str = "classes",
    sizes: Sequence[int] = SIZES,
    *,
    weights: bool = False,
    as_torch: bool = False,
    offset: bool = False,
) -> list[fs.Client]:
    """Clients of unequal size."""
    rng = np.random.default_rng(5)
    made = []
    for place, n in enumerate(sizes):
        X, y = rows(n, rng, kind)
        s = rng.random(n) + 0.1 if weights else None
        given: list[Any] = [X, y, s]
        if as_torch:
            given = [None if one is None else torch.tensor(one) for one in given]
        made.append(fs.Client(f"c{place}", *given, offset=rng.standard_normal(n) if offset else None))
    return made


LOSSES = {
    "classes": fs.Softmax(classes=CLASSES),
    "labels": fs.Logistic(),
    "numbers": fs.Squared(),
    "pairs": fs.Squared(),
}


def network(kind: str = "classes", hidden: tuple[int, ...] = (8,), **options: Any) -> fs.Network:
    return fs.Network(fs.MLP(hidden, "tanh"), LOSSES[kind], **options)
