"""Section 6 of Shen et al. (2022): whether our full Table 2 has its data sets, public rows and division of rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsolve.data import Homogeneity, split_indices
from fedsolve.reproduce.ffgb.full_settings import CLIENTS, SETTINGS
from fedsolve.reproduce.ffgb.images import FULL, Images
from fedsolve.reproduce.result import Verdict
from fedsolve.typing import Array

SHARES = (0.1, 0.2, 0.3)
OTHER = {"cifar10": "cifar100", "cifar100": "cifar10", "emnist-d": "emnist-l", "emnist-l": "emnist-d"}


def divided(every: Mapping[str, Images]) -> dict[str, Verdict]:
    """Data sets, public rows and clients."""
    pairs = {name: rows_of(one.public) == rows_of(every[OTHER[name]]) for name, one in every.items()}
    named = {one.split(":")[0] for one in SETTINGS}, {float(one.split(":")[1]) for one in SETTINGS}
    splits = {s: one_split(s) for s in SHARES}
    return {
        "public rows: CIFAR-100 for CIFAR-10, capitals for digits, and the reverse, all of them": Verdict(
            all(pairs.values()),
            ", ".join(f"{name} from {OTHER[name]}: {one}" for name, one in pairs.items()),
        ),
        "100 clients, s = 0.1, 0.2 and 0.3, all data sets": Verdict(
            CLIENTS == 100 and named == (set(FULL), set(SHARES)) and len(SETTINGS) == 12,
            f"{CLIENTS} clients, {len(SETTINGS)} settings",
        ),
        "equal numbers of rows; 1 − s of a client's of two labels, in the clients' order, and others": Verdict(
            all(splits.values()),
            ", ".join(f"s = {s:g}: {one}" for s, one in splits.items()),
        ),
    }


def rows_of(one: Images | Array) -> set[bytes]:
    """The different images, of training and test together where both are there, for CIFAR of training."""
    X = one if not isinstance(one, Images) else one.X if one.augmented else np.concatenate([one.X, one.X_test])
    return {row.tobytes() for row in np.ascontiguousarray(X, dtype=np.float64)}


def one_split(s: float, seed: int = 0) -> bool:
    """10,000 rows of 10 labels for 100 clients."""
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(10), 1000))
    parts = split_indices(y, Homogeneity(s), clients=100, seed=seed)
    counts = np.array([np.bincount(y[part], minlength=10) for part in parts])
    main = counts.argmax(axis=1)
    two = np.sort(counts, axis=1)[:, -2:].sum(axis=1)
    others = 100 - two
    return bool(
        (counts.sum(axis=1) == 100).all()
        and len(np.unique(np.concatenate(parts))) == 10_000
        and (two >= 100 * (1 - s)).all()
        and (np.diff(main) >= 0).all()
        and 0.5 * 80 * s <= others.mean() <= 80 * s
    )
