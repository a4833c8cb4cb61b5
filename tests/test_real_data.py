"""Figures known from elsewhere, on the data they were found on."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs

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
