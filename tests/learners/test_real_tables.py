"""Boosted trees on real tables, by the figures of benchmarks/bench_boosting.py."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

needs_data = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")


def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks/bench_boosting.py"
    spec = importlib.util.spec_from_file_location("bench_boosting", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_boosting"] = module
    spec.loader.exec_module(module)
    return module


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a9a_is_within_the_wanted_distance_of_the_pooled_model(seed: int) -> None:
    bench = benchmark()
    assert bench.compare(bench.a9a(seed), "dirichlet", seed) <= bench.WANTED


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["dirichlet", "quantity"])
def test_california_is_nearer_to_the_pooled_model_than_clients_alone(scheme: str) -> None:
    bench = benchmark()
    problem = bench.california(0)
    run, parts = bench.federated(problem, scheme, 0)
    ours = problem.score(run.model.decision_function(problem.X_test))
    pooled = problem.alone(range(len(problem.y)), 0)
    alone = [problem.alone(rows, 0) for rows in parts]
    assert pooled - ours < (pooled - sum(alone) / len(alone)) / 2
