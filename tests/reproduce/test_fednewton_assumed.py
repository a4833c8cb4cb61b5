"""What FedNewton assumes: the lower bound against a simulated best method, maps of rounds against the library."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import assumed
from fedsolve.reproduce.fednewton.synthetic import SETTING
from fedsolve.reproduce.iterates import iterates


def test_the_bound_is_below_the_best_method_for_two_signs() -> None:
    """One direction: the posterior mean of ± δ has the least mean square, which is above δ² Φ(−δ√n/s) and of its
    order."""
    rng = np.random.default_rng(0)
    for ratio in (0.3, 1.0, 2.0):  # δ √n / s
        z = ratio + rng.standard_normal(200_000)
        best = float(np.mean((np.tanh(ratio * z) - 1) ** 2))
        bound = 0.5 * math.erfc(ratio / math.sqrt(2))
        assert bound < best < 4 * bound


def test_the_hypotheses_are_in_the_ball_and_the_bound_falls_as_the_theorem_says() -> None:
    for r, gamma in ((0.5, 0.5), (1.0, 0.25)):
        k = 7
        delta = (2 * k) ** (-2 * r / gamma) / k
        i = np.arange(k, 2 * k)
        assert np.sum(delta * i ** (2 * r / gamma)) <= 1
    assert assumed.below(0.5, 1.0, 2**20) / assumed.below(0.5, 1.0, 2**10) == pytest.approx(2 ** (-2.5), rel=0.1)


def test_maps_of_rounds_are_the_rounds_of_the_library() -> None:
    rng = np.random.default_rng(2)
    clients = [Client(f"client-{j}", rng.standard_normal((30, 4)), rng.standard_normal(30)) for j in range(3)]
    loss = Squared(l2=0.1)
    hessians = [one.X.T @ one.X / 30 + 0.1 * np.eye(4) for one in clients]
    moments = [one.X.T @ one.y / 30 for one in clients]
    w = np.linalg.solve(np.mean(hessians, axis=0), np.mean(moments, axis=0))
    maps = assumed.rounds_as_maps(hessians, moments, w)
    library = {
        "FedAvg": FedAvg(loss, GradientSteps(steps=2, step_size=SETTING.step_size)),
        "FedProx": FedProx(loss, SETTING.pull),
    }
    for name, method in library.items():
        path = [one.state.w for one in islice(iterates(method, clients), 5)]
        assert maps[name].after(path[0] - w) == pytest.approx(path[1] - w, rel=1e-6, abs=1e-9)
        assert maps[name].twice().twice().after(path[0] - w) == pytest.approx(path[4] - w, rel=1e-6, abs=1e-9)


def test_assumed_quick() -> None:
    found = dict(perform(find("fednewton-assumed"), quick=True).result.claims)
    assert all(verdict.holds is None for verdict in found.values())
