"""The experiments themselves: quick forms always, full ones with -m slow."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fedsolve.reproduce import Measured, Outcome, find, perform
from fedsolve.reproduce.fednewton.synthetic import problem

needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")


def _medians(outcome: Outcome, column: int) -> list[float]:
    cells = [row[column] for row in outcome.result.rows]
    return [cell.median for cell in cells if isinstance(cell, Measured)]


def _check_cg(outcome: Outcome) -> None:
    assert outcome.result.status == "ok"
    for rho, plain in zip(_medians(outcome, 1), _medians(outcome, 2), strict=True):
        assert np.isfinite(plain) == (rho < 1)


def test_cg_rounds_quick() -> None:
    outcome = perform(find("fednewton-cg-rounds"), quick=True)
    _check_cg(outcome)
    assert len(outcome.result.rows) == 2


@pytest.mark.slow
def test_cg_rounds() -> None:
    outcome = perform(find("fednewton-cg-rounds"))
    _check_cg(outcome)
    assert len(outcome.result.rows) == 4
    assert outcome.seeds == (0, 1, 2, 3, 4)


def test_the_pooled_solution_is_one() -> None:
    posed = problem(20, 500, 0.0, 3)
    X, y = posed.features, np.concatenate([client.y for client in posed.clients])
    gradient = X.T @ (X @ posed.w - y) / len(y) + 1e-6 * posed.w
    assert np.linalg.norm(gradient) < 1e-14 * np.linalg.norm(X.T @ y)
    assert posed.error(posed.w) == posed.weight_error(posed.w) == 0.0
    assert 0.4 < posed.rho < 0.8


@needs_data
def test_newton_rounds_quick() -> None:
    assert perform(find("newton-rounds"), quick=True).result.status == "ok"


@needs_data
@pytest.mark.slow
def test_newton_rounds() -> None:
    outcome = perform(find("newton-rounds"))
    assert outcome.result.status == "ok"
    assert _medians(outcome, 3)[:2] == [8.0, 7.0]


@needs_data
def test_fednl_rounds_quick() -> None:
    """The counts by plain NumPy code, dense and with all eigenvalues, on the same problem."""
    outcome = perform(find("fednl-rounds"), quick=True)
    assert outcome.result.status == "ok"
    assert _medians(outcome, 3) == [37.0, 19.0, 60.0]


@needs_data
@pytest.mark.slow
def test_fednl_rounds() -> None:
    outcome = perform(find("fednl-rounds"))
    assert outcome.result.status == "ok"
    assert _medians(outcome, 3) == [37.0, 19.0, 60.0, 23.0, 20.0]
