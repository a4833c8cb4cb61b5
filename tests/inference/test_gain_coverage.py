"""How often the interval of federation gain holds the true ratio, in simulated federations whose truth is known."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def _benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks/bench_gain_coverage.py"
    spec = importlib.util.spec_from_file_location("bench_gain_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARK = _benchmark()
GAUSSIAN = "squared error, Gaussian noise"


@pytest.mark.parametrize("seed", range(3))
def test_the_expected_errors(seed: int) -> None:
    """Against a plain average over a million rows; within five standard errors."""
    rng = np.random.default_rng(seed)
    truth, w = rng.standard_normal((2, BENCHMARK.FEATURES)) / 2
    X = rng.standard_normal((1_000_000, BENCHMARK.FEATURES))
    eta, p = X @ w, 1 / (1 + np.exp(-X @ truth))
    losses = np.logaddexp(0, eta) - p * eta
    assert abs(losses.mean() - BENCHMARK.expected_log_loss(w, truth)) < 5 * losses.std() / 1e3
    squares = (X @ (w - truth)) ** 2 + 1
    assert abs(squares.mean() - BENCHMARK.expected_square(w, truth)) < 5 * squares.std() / 1e3


def test_sixty_federations() -> None:
    covered, above, _ = BENCHMARK.coverage(GAUSSIAN, 30, 60)
    assert covered >= 0.9
    assert above < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [30, 100])
@pytest.mark.parametrize("case", BENCHMARK.CASES)
def test_two_hundred_federations(case: str, held_out: int) -> None:
    covered, _, _ = BENCHMARK.coverage(case, held_out, 200)
    assert covered >= 0.9
