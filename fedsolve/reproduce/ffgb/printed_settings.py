"""Section 6 of Shen et al. (2022): whether our full Table 2 has the printed settings, and how data are divided."""

from __future__ import annotations

import numpy as np

from fedsolve.data import Homogeneity, split_indices
from fedsolve.local import Adam
from fedsolve.networks import CNN, FlipAndCrop
from fedsolve.networks.modules import initial_weights
from fedsolve.reproduce.ffgb import full_settings, methods
from fedsolve.reproduce.ffgb.images import EMNIST
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Within

SETTINGS = Within(
    "Section 6", "of 10 printed settings, those that the full Table 2 has", most=10.0, give=0.0, words="{} of 10"
)
WEIGHTS = Within(
    "Section 6",
    "weights of the CNN for CIFAR-10 over 64·(3·25 + 1) + … by hand",
    most=1.0,
    give=0.0,
    words="{} times the count by hand",
)
BLOCKS = AtLeast("Section 6", "the share of a client's rows of its two most frequent labels, s = 0.1", most=0.9)
SHARED = AtLeast("Section 6", "the share of labels that every client has some of, s = 1, 100 rows each", most=0.9)
CHECKS = (SETTINGS, WEIGHTS, BLOCKS, SHARED)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    adam = Adam(epochs=100)
    printed = (
        full_settings.CLIENTS == 100,
        {one.split(":")[1] for one in full_settings.SETTINGS} == {"0.1", "0.2", "0.3"},
        CNN((3, 32, 32)).convolutions == ((64, 5), (64, 5)) and CNN((3, 32, 32)).hidden == (394, 192),
        EMNIST.convolutions == ((64, 5), (64, 5)) and EMNIST.hidden == (120, 84),
        methods.FUNCTIONAL == (10.0,),
        adam.step_size == 0.001,
        methods.BATCH == 64,
        methods.CLIP == 5.0,
        {0.0, *methods.STEP_SIZES} == {0.0, 0.01, 0.05, 0.1},
        FlipAndCrop().padding == 4 and FlipAndCrop().flip,
    )
    found.note(SETTINGS, float(sum(printed)))
    count = len(initial_weights(CNN((3, 32, 32)), 3072, 10, 0))
    by_hand = 64 * (3 * 25 + 1) + 64 * (64 * 25 + 1) + 394 * (64 * 25 + 1) + 192 * (394 + 1) + 10 * (192 + 1)
    found.note(WEIGHTS, count / by_hand)
    y = rng.permutation(np.repeat(np.arange(10), 1000))
    for part in split_indices(y, Homogeneity(0.1), clients=100, seed=0):
        found.note(BLOCKS, np.sort(np.bincount(y[part], minlength=10))[-2:].sum() / len(part))
    for part in split_indices(y, Homogeneity(1.0), clients=100, seed=0):
        found.note(SHARED, len(np.unique(y[part])) / 10)
