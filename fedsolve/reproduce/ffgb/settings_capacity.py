"""Shen et al. (2022), section 6: the CNN printed for EMNIST against one of twice the filters and units."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np

from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.federation.client import Client
from fedsolve.local import Adam
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.networks import CNN
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.images import EMNIST, emnist_letters, tensor
from fedsolve.reproduce.ffgb.methods import BATCH, CLIP, PAPER
from fedsolve.reproduce.ffgb.traces import Arena
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

ROWS, EPOCHS, LONG = 400, 15, 45
ERRORS = 2.0  # standard errors that the mean paired difference must exceed
WIDE = CNN(
    EMNIST.shape,
    tuple((2 * filters, size) for filters, size in EMNIST.convolutions),
    tuple(2 * units for units in EMNIST.hidden),
)
NAMES = {"as printed": EMNIST, "twice the filters and units": WIDE}
CLAIM = (
    "EMNIST's capitals, pooled: twice the filters and units are better than the printed CNN: the mean paired "
    "difference is above 2 standard errors"
)
LATER = (
    "EMNIST's capitals, pooled, 45 epochs: twice the filters and units are better than the printed CNN: the mean "
    "paired difference is above 2 standard errors"
)


def measured(seed: int, quick: bool, epochs: int = EPOCHS) -> dict[str, float]:
    """The test accuracy of both networks, trained alike on the same rows, which the seed draws."""
    images, found = emnist_letters(0), {}
    rows = np.random.default_rng([seed, 197]).permutation(len(images.y))[: 128 if quick else ROWS]
    pooled = Client("all", tensor(images.X[rows], "cpu"), images.y[rows].astype(float))
    arena = Arena([pooled], images.server(), images.X_test, images.y_test, seed)
    for name, architecture in NAMES.items():
        loss = Network(architecture, Softmax(classes=images.classes))
        local = Adam(epochs=1 if quick else epochs, batch_size=BATCH, clip=CLIP)
        found[name] = arena.follow(FedAvg(loss, local), 1)[0].accuracies[-1]
    return found


def claim(every: Sequence[dict[str, float]], quick: bool) -> Verdict:
    """Whether the mean paired difference is above so many standard errors."""
    narrow, wide = NAMES
    apart = np.array([one[wide] - one[narrow] for one in every])
    error = float(apart.std(ddof=1)) / sqrt(len(apart)) if len(apart) > 1 else inf
    said = f"by {apart.mean():.3f} ± {error:.3f} ({apart.min():.3f} to {apart.max():.3f}, {len(apart)} seeds)"
    return stated(bool(apart.mean() > ERRORS * error), said, quick)


@experiment(
    "ffgb-settings-capacity",
    paper=PAPER,
    place="Section 6",
    title="The CNN of EMNIST against one of twice the filters and units",
    takes="3 min",
    seeds=5,
)
def capacity(seeds: Seeds, quick: bool) -> Result:
    """Pooled rows, so that only the network differs; the rule was written before the first run."""
    return compared([measured(seed, quick) for seed in seeds], CLAIM, EPOCHS, quick)


@experiment(
    "ffgb-settings-capacity-long",
    paper=PAPER,
    place="Section 6",
    title="The same networks, trained three times as long",
    takes="5 min",
    seeds=3,
)
def capacity_long(seeds: Seeds, quick: bool) -> Result:
    """Whether the larger network is only the sooner one; the rule was written before the first run."""
    return compared([measured(seed, quick, LONG) for seed in seeds], LATER, LONG, quick)


def compared(every: Sequence[dict[str, float]], words: str, epochs: int, quick: bool) -> Result:
    """The accuracies of both networks, and the claim."""
    return Result(
        columns=(Column("network"), Column("accuracy", "{:.3f}".format)),
        rows=[(name, Measured(tuple(one[name] for one in every))) for name in NAMES],
        claims=[(words, claim(every, quick))],
        notes=(
            f"{ROWS} NIST capitals, which stand in for EMNIST's letters, drawn by the seed; 1,000 others to test. "
            f"{epochs} epochs of Adam with 0.001, batches of {BATCH}, gradients clipped to norm {CLIP:g}: the paper's "
            "settings, but for the epochs, of which it has 100.",
        ),
    )
