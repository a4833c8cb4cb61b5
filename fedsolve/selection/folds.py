"""The folds: which samples a fit is judged on, and the client as it is without them.

A sample that is left out keeps its row and has no weight. So all folds of a client compute with one design, and a
feature map is applied once for all of them; the price is a pass over the rows that do not count, one in `folds`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import like
from fedsolve.typing import Array


def fold_of_samples(client: Client, folds: int, seed: int) -> Array:
    """The fold of each of a client's samples: as equal as can be, by chance, a function of seed and client alone.

    Which folds get a sample more is drawn too, so that the folds of all clients together are as equal as can be hoped.
    """
    rng = np.random.default_rng([seed, client.key])
    return rng.permutation((np.arange(client.n_samples) + rng.integers(folds)) % folds)


def fold_weights(client: Client, fold: int, folds: int, seed: int) -> tuple[Array, Array]:
    """The weight of each sample in the fit without this fold, and in the judgement on it."""

    def compute() -> Array:
        return fold_of_samples(client, folds, seed)

    held = like((client.cached(("folds", folds, seed), compute) == fold).astype(np.float64), client.y)
    s = 1.0 if client.sample_weight is None else client.sample_weight
    return s * (1.0 - held), s * held


def check_folds(weights: Sequence[float]) -> None:
    """Raise if some fold has no samples at any client."""
    if min(weights) <= 0:
        raise DataError(f"some of {len(weights)} folds have no samples: use fewer folds")


def outside(weights: Sequence[float], fold: int) -> float:
    """The weight of all folds but one: added, so that nothing cancels."""
    return sum(weight for index, weight in enumerate(weights) if index != fold)
