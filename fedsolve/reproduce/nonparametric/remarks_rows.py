"""Su, Xu and Yang (2023), sections 6.3 and 7.3: rows in random columns, and when clients together have all columns."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.subspaces import FEATURES
from fedsolve.typing import Array

LENGTH = Quantity(
    "Section 7.3",
    "the rows' expected norm is √d, as printed: E‖x‖, the mean of 20,000 rows, within 5 % for r = 1 to 100",
    "mean ‖x‖ over √d",
    0.95,
    1.05,
)
SIGNAL = Quantity(
    "Section 7.3",
    "the signal-to-noise ratio is consistent across r: E(xᵀθ*)² over ‖θ*‖² is within 10 % of 1, r = 1 to 100",
    "mean of (xᵀθ*)² over ‖θ*‖²",
    0.9,
    1.1,
)
CRITICAL = Quantity(
    "After Theorem 17",
    "the jump is at N = Θ(νd log d): the median M r at which all columns are covered is within 25 % of d log d, d = 50 "
    "to 800 with M = 20, and M = 10 to 40 with d = 100",
    "M r over d log d",
    0.75,
    1.25,
)
QUANTITIES = (LENGTH, SIGNAL, CRITICAL)


def measured(seed: int, notes: Notes) -> None:
    """One sentence after the other."""
    rng = np.random.default_rng([seed, 39])
    _rows(rng, notes)
    for d, clients in ((50, 20), (100, 10), (100, 20), (100, 40), (400, 20), (800, 20)):
        notes.add(CRITICAL, np.median(covering(rng, d, clients, 200)) * clients / (d * math.log(d)))


def _rows(rng: np.random.Generator, notes: Notes) -> None:
    truth = rng.standard_normal(FEATURES)
    for r in (1, 2, 10, 50, 100):
        x = math.sqrt(FEATURES / r) * rng.standard_normal((20_000, r))
        notes.add(LENGTH, np.linalg.norm(x, axis=1).mean() / math.sqrt(FEATURES))
        seen = np.argsort(rng.random((20_000, FEATURES)), axis=1)[:, :r]
        power = np.square(truth[seen]).sum(axis=1).mean() * FEATURES / r  # E over the row, given its columns
        notes.add(SIGNAL, power / (truth @ truth))


def covering(rng: np.random.Generator, d: int, clients: int, trials: int) -> Array:
    """In each trial the least r with which the clients' first r columns, in orders of their own, are all columns."""
    return np.array(
        [1 + np.argsort(rng.random((clients, d)), axis=1).argsort(axis=1).min(axis=0).max() for _ in range(trials)]
    )
