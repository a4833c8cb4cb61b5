"""FedNewton, facts about other methods: the kernel of the cosines, stochastic steps, Hessians in the ledger."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.features import RandomFourier
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import background
from fedsolve.reproduce.fednewton.synthetic import STD


def test_the_kernel_is_the_mean_of_the_products_of_cosines() -> None:
    X = np.random.default_rng(0).standard_normal((5, 10))
    phi = RandomFourier.fednewton(STD, 200_000, 1).block(X)
    assert phi @ phi.T == pytest.approx(background.gaussian(X, X), abs=0.01)


def test_stochastic_steps_come_to_the_least_squares_solution() -> None:
    """Without noise in the targets every step is a projection in part, and all of them end at the solution."""
    rng = np.random.default_rng(1)
    phi, w = rng.standard_normal((30, 3)), np.array([1.0, -2.0, 0.5])
    path = background.stochastic(phi, phi @ w, 2000, 0.1, rng)
    assert len(path) == background.CHECKS
    assert path[-1] == pytest.approx(w, abs=1e-6)
    assert np.linalg.norm(path[0] - w) > np.linalg.norm(path[-1] - w)


def test_hessians_by_the_ledger() -> None:
    """Newton's three clients compute one before the first round's step, and one in each of four rounds."""
    assert background.hessians(background.SECOND["Newton"]) == 3 * (background.ROUNDS + 1)
    assert background.hessians(background.FIRST["FedAvg"]) == 0


def test_background_quick() -> None:
    found = dict(perform(find("fednewton-background"), quick=True).result.claims)
    assert all(verdict.holds is None for verdict in found.values())
