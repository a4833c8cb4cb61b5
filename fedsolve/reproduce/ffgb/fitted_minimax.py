"""Shen et al. (2022), (6) of Section 2.2 and (20) of Appendix B: γ of fitted networks for gradients and for queries at
random, and what (11) asks besides (10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.learners import Fitting, gamma
from fedsolve.learners.minimax import Minimax
from fedsolve.learners.mixture import Mixture
from fedsolve.learners.network import NetworkLearner
from fedsolve.networks import MLP
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found
from fedsolve.typing import Array

B20 = "Appendix B, (20)"
G, POINTS, FITS = np.sqrt(2), 400, 10  # of the cross-entropy; where (11) is tried; fits of a minimax
LEARNER = NetworkLearner(MLP((16,)))
SQUARES = AtLeast(
    "Section 2.2, (6)",
    "γ of (5) of a network by Adam, 100 epochs, is above 0.05 for every client, f = 0 and f at random",
    most=0.05,
)
SQUARES_ANY = AtLeast("Section 2.2, (6)", "γ of (5) of such a network for queries at random is above 0.05", most=0.05)
LARGEST = AtLeast(
    B20,
    "γ of (10) of networks by (20), all outputs, is at least 0.01 for every client, f = 0 and f at random",
    most=0.01,
)
LARGEST_ANY = AtLeast(B20, "γ of (10) of such networks for queries at random is at least 0.01", most=0.01)
SMALLER = Check(B20, "the largest error of (20) over that of the mean of as many networks by (6), every client")
BOX = Check(B20, "(11): the answers of (20) at 400 points of the inputs' box over 2G/γ")
ANYWHERE = Check(B20, "(11): … at 400 points of a box 100 times as wide")
CHECKS = (SQUARES, SQUARES_ANY, LARGEST, LARGEST_ANY, SMALLER, BOX, ANYWHERE)


def measure(clients: Sequence[Client], classes: int, rng: np.random.Generator, found: Found) -> None:
    """Every client's gradient at f = 0 and at a linear f, and noise of the same shape."""
    X = np.vstack([np.asarray(client.X) for client in clients])
    low, high = X.min(axis=0), X.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    weights = rng.standard_normal((2, X.shape[1], classes)) * np.array([0.0, 0.3])[:, None, None]
    for client in clients:
        for place, query in enumerate(queries(client, classes, weights, rng)):
            fitting, gradient = Fitting(np.asarray(client.X), query, None, (), rng), place < 2
            h = LEARNER.fit(fitting)
            found.note(SQUARES if gradient else SQUARES_ANY, gamma(query, h(fitting.X)))
            q = Minimax(LEARNER, method="reweighting", rounds=FITS).fit(fitting)
            assert isinstance(q, Mixture)
            best = gamma(query, q(fitting.X), norm="largest")
            found.note(LARGEST if gradient else LARGEST_ANY, best)
            if gradient:
                plain = np.mean([LEARNER.fit(fitting)(fitting.X) for _ in q.members], axis=0)
                found.note(SMALLER, (1 - best) / (1 - gamma(query, plain, norm="largest")))
                for check, wide in ((BOX, 1.0), (ANYWHERE, 100.0)):
                    there = middle + wide * half * rng.uniform(-1, 1, (POINTS, len(half)))
                    size = np.linalg.norm(q(there), axis=1).max()
                    found.note(check, size / (2 * G / best) if best > 0 else np.inf)


def queries(client: Client, classes: int, weights: Array, rng: np.random.Generator) -> list[Array]:
    """∇R_i[f] of the cross-entropy at the client's rows, f = X W for each W, and a draw of the normal distribution."""
    labels = np.eye(classes)[np.asarray(client.y).astype(int)]
    found = []
    for W in weights:
        p = np.exp(np.asarray(client.X) @ W)
        found.append(p / p.sum(axis=1, keepdims=True) - labels)
    return [*found, rng.standard_normal(labels.shape)]
