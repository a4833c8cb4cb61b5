"""The width of a kernel, chosen where it matters: targets that wind in a circle, under random Fourier features."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.losses import LinearLoss
from tests.selection.pooled import judged

N, M = 300, 40
WIDTHS, PENALTIES = [1e-3, 0.3, 100.0], [1e-5, 1e-3, 1e-1]
MAP = fs.RandomFourier(M, 1.0, seed=4)
LOSSES: dict[str, LinearLoss] = {
    "squared": fs.Squared(intercept="free", features=MAP),
    "logistic": fs.Logistic(intercept="free", features=MAP),
    "softmax": fs.Softmax(classes=3, features=MAP),
    "poisson": fs.Poisson(intercept="free", features=MAP),
}


def clients(kind: str) -> list[fs.Client]:
    """What is to be known of x is its distance from the middle, of which no linear function of x knows anything. Each
    client sees a part of the circle of its own."""
    rng = np.random.default_rng(8)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    wave = np.cos(2.5 * np.hypot(X[:, 0], X[:, 1]))
    y = {
        "squared": wave + 0.3 * rng.standard_normal(N),
        "logistic": (rng.random(N) < 1 / (1 + np.exp(-3 * wave))).astype(float),
        "softmax": np.digitize(wave + 0.3 * rng.standard_normal(N), [-0.5, 0.5]).astype(float),
        "poisson": rng.poisson(np.exp(1.0 + wave)).astype(float),
    }[kind]
    order = np.argsort(np.arctan2(X[:, 1], X[:, 0]))
    return fs.data.partition(X, y, fs.data.Given(tuple(np.sort(part) for part in np.split(order, [40, 170]))))


@pytest.mark.parametrize("kind", LOSSES)
def test_width_and_penalty_are_those_of_pooled_cross_validation(kind: str) -> None:
    grid = fs.loss_grid(LOSSES[kind], l2=PENALTIES, features={"gamma": WIDTHS})
    parties = clients(kind)
    found = fs.cross_validate(grid, parties, folds=4, seed=1)
    pooled = {loss: [error for error, _ in judged(parties, loss, 4, 1)] for loss in grid}
    for candidate in found.candidates:
        # As in test_newton: 3e-9 in the norm of H, times at most 1/√l2 = 300 for the error; 1e-9 for the closed form.
        rtol = 1e-9 if kind == "squared" else 1e-6
        np.testing.assert_allclose(candidate.errors, pooled[candidate.loss], rtol=rtol)
    assert found.best == min(pooled, key=lambda loss: np.mean(pooled[loss]))
    # It matters: the wrong widths, each with its own best penalty, are worse by a tenth at least.
    assert found.best.features == fs.RandomFourier(M, 0.3, seed=4)
    first = found.candidates[0]
    for width in (WIDTHS[0], WIDTHS[2]):
        rival = next(one for one in found.candidates if one.loss.features == fs.RandomFourier(M, width, seed=4))
        assert rival.error > 1.1 * first.error


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_rows_are_mapped_once_for_all_folds_and_penalties(kind: str) -> None:
    grid = fs.loss_grid(LOSSES[kind], l2=PENALTIES, features={"gamma": WIDTHS})
    counts = fs.cross_validate(grid, clients(kind), folds=4).ledger.total().counts
    assert counts["features"] == N * len(WIDTHS)


def test_maps_of_different_sizes_compare() -> None:
    grid = fs.loss_grid(LOSSES["logistic"], l2=[1e-3], features={"features": [3, M], "gamma": [0.3]})
    found = fs.cross_validate(grid, clients("logistic"))
    assert [each.loss.features.dimension(2) for each in found.candidates] == [M, 3]
