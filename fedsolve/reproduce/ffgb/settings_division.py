"""Section 6 of Shen et al. (2022): whether its division of rows is that of the two papers it names.

Karimireddy et al. (2020, section 7): to each client s % rows drawn at random, the rest by sorting according to label.
Hsu et al. (2020): the published splits of CIFAR are by the concentration of a Dirichlet distribution, with as many rows
for every client: a client's label shares are drawn from it, and its rows by these.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedsolve.data import Homogeneity, split_indices
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found, Within
from fedsolve.typing import Array

LABELS, CLIENTS, ROWS = 10, 100, 50_000
EACH, DRAWS = ROWS // CLIENTS, 40
CONCENTRATIONS = 10.0 ** np.linspace(-2, 2, 41)
SCAFFOLD = Within(
    "Section 6",
    "label counts of Karimireddy et al.'s division, s = 0.1 to 0.3: how far from ours, over ours from another draw",
    most=1.0,
    give=0.1,
    words="{} times",
)
NEAREST = Check(
    "Section 6",
    "s = 0.1 and the Dirichlet division nearest to it in the share of a client's two most frequent labels: that share",
    "off",
    0.02,
)
ABSENT = Check("Section 6", "… the mean number of labels that a client has none of", "off", 1.0)
CHECKS = (SCAFFOLD, NEAREST, ABSENT)


def measure(seed: int, rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    y = rng.permutation(np.repeat(np.arange(LABELS), ROWS // LABELS))
    for s in (0.1, 0.2, 0.3):
        drawn = [ours(y, s, 1000 * seed + one) for one in range(DRAWS + 1)]
        own = np.mean([np.abs(a - b).mean() for a, b in pairwise(drawn)])
        apart = float(np.mean([np.abs(a - theirs(y, s, rng)).mean() for a in drawn[1:]]) / own)
        found.note(SCAFFOLD, max(apart, found.worst.get(SCAFFOLD.claim, apart), key=lambda one: abs(one - 1)))
    top, absent = summary(ours(y, 0.1, seed))
    every = [summary(dirichlet(one, rng)) for one in CONCENTRATIONS]
    near = min(every, key=lambda one: abs(one[0] - top))
    found.note(NEAREST, abs(near[0] - top))
    found.note(ABSENT, abs(near[1] - absent))


def counts(y: Array, parts: list[Array]) -> Array:
    """How many rows of each label a client has, clients in the order of their mean label."""
    table = np.array([np.bincount(y[part], minlength=LABELS) for part in parts])
    return table[np.argsort(table @ np.arange(LABELS), kind="stable")]


def ours(y: Array, s: float, seed: int) -> Array:
    return counts(y, split_indices(y, Homogeneity(s), clients=CLIENTS, seed=seed))


def theirs(y: Array, s: float, rng: np.random.Generator) -> Array:
    """Client by client: s of its rows at random from all that are left, then the rest in the order of labels."""
    left, shared = rng.permutation(len(y)), round(s * EACH)
    some, rest = left[: shared * CLIENTS].reshape(CLIENTS, shared), left[shared * CLIENTS :]
    rest = rest[np.argsort(y[rest], kind="stable")].reshape(CLIENTS, EACH - shared)
    return counts(y, list(np.hstack([some, rest])))


def dirichlet(concentration: float, rng: np.random.Generator) -> Array:
    """Label counts of clients with shares of their own, from a Dirichlet distribution about equal shares."""
    shares = rng.dirichlet(np.full(LABELS, concentration / LABELS), CLIENTS)
    return np.array([rng.multinomial(EACH, share / share.sum()) for share in shares])


def summary(table: Array) -> tuple[float, float]:
    """The mean share of the two most frequent labels, and the mean number of labels that are absent."""
    return float(np.sort(table, axis=1)[:, -2:].sum() / table.sum()), float((table == 0).sum(axis=1).mean())
