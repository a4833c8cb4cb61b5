"""Figures known from elsewhere, on the data they were found on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.problem import prepare
from tests.selection.pooled import judged

needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")


@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "optimum", "iterations"),
    [("w8a", 49_700, 0.091225878589587, 8), ("a9a", 32_518, 0.333223219395488, 7)],
)
def test_newton_on_142_clients(name: str, rows: int, optimum: float, iterations: int) -> None:
    """A constant column penalised like the rest, λ = 1e-3, from 0, to ‖g‖ ≤ 1e-10."""
    data = fs.data.load(name)
    X = sp.hstack([data.X[:rows], np.ones((rows, 1))], format="csr")
    clients = fs.data.partition(X, data.y[:rows], fs.data.Contiguous(), clients=142)
    assert {client.n_samples for client in clients} == {rows // 142}
    result = fs.run(fs.Newton(fs.Logistic(l2=1e-3)), clients, tolerance=1e-10)
    assert result.converged
    assert result.rounds == iterations
    assert abs(result.history[-1].value - optimum) <= 1e-12


@needs_data
def test_cross_validation_on_four_hospitals_chooses_as_pooled() -> None:
    """Heart disease, with its gaps: preprocessing by federated sums, then the same folds for scikit-learn."""
    file = Path(__file__).parents[1] / "examples/heart.toml"
    problem = prepare(config.read(file), file)
    grid = fs.loss_grid(fs.Logistic(intercept="free"), l2=np.geomspace(1e-4, 1.0, 9))
    found = fs.cross_validate(grid, problem.clients, preprocess=problem.preprocess)
    transform = fs.run(fs.Newton(grid[-1]), problem.clients, preprocess=problem.preprocess).model.transform
    pooled = [fs.Client(client.name, transform.apply(client.X), client.y) for client in problem.clients]
    errors = {loss: judged(pooled, loss, 5, 0) for loss in grid}
    for candidate in found.candidates:
        # A decrement of 3e-9 and l2 ≥ 1e-4, as in tests/selection/test_newton.py.
        expected = errors[candidate.loss]
        np.testing.assert_allclose(candidate.errors, [error for error, _ in expected], rtol=3e-7)
        np.testing.assert_allclose(candidate.accuracies, [hits for _, hits in expected], rtol=1e-12)
    assert found.best == min(errors, key=lambda loss: np.mean([error for error, _ in errors[loss]]))
    assert grid[0].l2 < found.best.l2 < grid[-1].l2
