"""How often the interval of federation gain holds the true ratio, in simulated federations whose truth is known."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fedsolve as fs


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
    truth, w = rng.standard_normal((2, BENCHMARK.FEATURES + 1)) / 2
    X = rng.standard_normal((1_000_000, BENCHMARK.FEATURES))
    true, eta = (X @ each[:-1] + each[-1] for each in (truth, w))
    losses = np.logaddexp(0, eta) - eta / (1 + np.exp(-true))
    assert abs(losses.mean() - BENCHMARK.expected_log_loss(w, truth)) < 5 * losses.std() / 1e3
    y = rng.poisson(np.exp(true / 2)).astype(float)  # whose deviations a million rows know
    losses = fs.Poisson().error(np, eta / 2, y)
    assert abs(losses.mean() - BENCHMARK.expected_deviance(w / 2, truth / 2)) < 5 * losses.std() / 1e3
    squares = (X @ (w - truth)[:-1]) ** 2 + 1
    w[-1] = truth[-1]
    assert abs(squares.mean() - BENCHMARK.expected_square(w, truth)) < 5 * squares.std() / 1e3


def test_sixty_federations() -> None:
    found = BENCHMARK.coverage(GAUSSIAN, 30, 60)
    assert found.covered >= 0.9
    assert found.above < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [30, 100])
@pytest.mark.parametrize("case", BENCHMARK.CASES)
def test_two_hundred_federations(case: str, held_out: int) -> None:
    assert BENCHMARK.coverage(case, held_out, 200).covered >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [30, 100])
@pytest.mark.parametrize("case", [case for case in BENCHMARK.HARD if "cases rare" in case])
def test_where_cases_are_rare_few_verdicts_are_wrong(case: str, held_out: int) -> None:
    assert BENCHMARK.coverage(case, held_out, 60).wrong <= 0.1
