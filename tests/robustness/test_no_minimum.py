"""Where f has no minimum no run says that it found one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import fedsolve as fs

RNG = np.random.default_rng(1)
N = 300
X = RNG.standard_normal((N, 2))
NOISY = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
LEVEL = (RNG.random(N) < 0.2).astype(float)  # a category that only one class, or no count, has
COUNTS = RNG.poisson(1.0, N).astype(float)
WEIGHTS = 0.1 + RNG.random(N)

Case = tuple[fs.losses.LinearLoss, np.ndarray, np.ndarray, np.ndarray | None]
CASES: dict[str, Case] = {
    "separable": (fs.Logistic(), X, (X[:, 0] > 0).astype(float), None),
    "separable, weighted": (fs.Logistic(intercept="free"), X, (X[:, 0] > 0.3).astype(float), WEIGHTS),
    "separable in one feature of two": (fs.Logistic(), np.c_[X, LEVEL], np.maximum(NOISY, LEVEL), None),
    "quasi-separable, weighted": (
        fs.Logistic(intercept="free"), np.c_[X, LEVEL], np.maximum(NOISY, LEVEL), 1e3 * WEIGHTS
    ),
    "one class only": (fs.Logistic(l2=0.1, intercept="free"), X, np.ones(N), None),
    "a class never occurs": (fs.Softmax(classes=3, intercept="free"), X, NOISY, None),
    "a class never occurs, penalised": (fs.Softmax(classes=3, l2=0.1, intercept="free"), X, NOISY, WEIGHTS),
    "counts of a level are zero": (
        fs.Poisson(intercept="free"), np.c_[X, LEVEL], np.where(LEVEL > 0, 0.0, COUNTS), None
    ),
    "all counts are zero": (fs.Poisson(l2=0.1, intercept="free"), X, np.zeros(N), None),
}  # fmt: skip

ALGORITHMS: dict[str, Callable[[fs.losses.LinearLoss], object]] = {
    "Newton": fs.Newton,
    "FedNewtonCG": fs.FedNewtonCG,
    "GIANT": fs.GIANT,
    "SHED": fs.SHED,
    "MontDec": fs.MontDec,
    "FedNL": fs.FedNL,
    "AGD": lambda loss: fs.AGD(loss, step_size=0.5),
    "Scaffold": lambda loss: fs.Scaffold(loss, fs.GradientSteps(steps=3, step_size=0.5)),
    "FedAvg": lambda loss: fs.FedAvg(loss, fs.GradientSteps(steps=1, step_size=0.5)),
    "FedProx": fs.FedProx,
    "FedDyn": fs.FedDyn,
    "FedSplit": fs.FedSplit,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_nobody_converges_to_a_minimum_that_is_not_there(case: str, name: str) -> None:
    loss, features, y, weights = CASES[case]
    clients = fs.data.partition(features, y, fs.data.Contiguous(), clients=3, sample_weight=weights)
    # A tolerance that first-order methods reach too.
    run = fs.run(ALGORITHMS[name](loss), clients, rounds=200, tolerance=1e-5)  # type: ignore[arg-type]
    assert run.status != "converged", run.message
    if name in ("Newton", "FedNewtonCG", "SHED"):
        assert run.status == "diverged"
        assert "no finite minimum" in run.message
        assert "penalise" in run.message
        assert name not in run.message  # no advice to use what was used


def test_the_same_problems_with_a_penalty_have_one() -> None:
    for loss, features, y, weights in CASES.values():
        clients = fs.data.partition(features, y, fs.data.Contiguous(), clients=3, sample_weight=weights)
        penalised = type(loss)(l2=1e-2, intercept="penalised", **({"classes": 3} if hasattr(loss, "classes") else {}))
        for algorithm in (fs.Newton, fs.SHED):
            assert fs.run(algorithm(penalised), clients).converged


@pytest.mark.parametrize("algorithm", [fs.Newton, fs.FedNewtonCG, fs.SHED])
def test_one_sample_on_the_wrong_side_is_enough(algorithm: type) -> None:
    """The optimum is far out, where curvatures are small; and one sample of little weight may stand against all."""
    y = (X[:, 0] > 0).astype(float)
    y[np.argmax(X[:, 0])] = 0.0
    clients = fs.data.partition(X, y, fs.data.Contiguous(), clients=3)
    assert fs.run(algorithm(fs.Logistic()), clients).converged
    weights = np.ones(N)
    weights[np.argmax(X[:, 0])] = 1e-6
    clients = fs.data.partition(X, y, fs.data.Contiguous(), clients=3, sample_weight=weights)
    assert fs.run(algorithm(fs.Logistic()), clients).status != "diverged"


def test_soft_labels_are_not_separable() -> None:
    """Their loss can be smaller than log 2 / n all the same."""
    y = 1 / (1 + np.exp(-30 * X[:, 0]))
    run = fs.run(fs.Newton(fs.Logistic()), fs.data.partition(X, y, clients=3))
    assert run.converged
    np.testing.assert_allclose(run.model.w, [30.0, 0.0], atol=1e-4)


def test_a_run_cut_short_on_separated_classes_says_so() -> None:
    clients = fs.data.partition(X, (X[:, 0] > 0).astype(float), clients=3)
    run = fs.run(fs.Newton(fs.Logistic()), clients, rounds=12)
    assert run.status == "diverged"
    assert "can be separated" in run.message


def test_cross_validation_of_soft_labels_without_a_penalty() -> None:
    y = 1 / (1 + np.exp(-10 * X[:, 0]))
    found = fs.cross_validate(fs.loss_grid(fs.Logistic(), l2=[0.0, 1e-3]), fs.data.partition(X, y, clients=3), folds=3)
    assert all(np.isfinite(one.errors).all() for one in found.candidates)


# ── rounding ──


def test_a_tolerance_below_rounding_is_given_up() -> None:
    """Large columns with a small spread: predictions are differences of large numbers, and so is the gradient."""
    features = np.c_[1e9 + X[:, 0], X[:, 1]]
    y = X[:, 0] + RNG.standard_normal(N)
    clients = fs.data.partition(features, y, clients=3)
    for algorithm in (fs.Newton, fs.FedNewtonCG, fs.GIANT):
        stopping = fs.Stopping(300, tolerance=1e-17)
        run = fs.run(algorithm(fs.Squared(intercept="free")), clients, stopping=stopping)
        assert run.status == "tolerance unattainable", run.message
        assert run.rounds < 100


@pytest.mark.parametrize("seed", range(20))
def test_giant_never_goes_up(seed: int) -> None:
    """A client with one sample and a penalty of 1e-8: its inverse Hessian makes the direction 10¹⁰ times too long."""
    rng = np.random.default_rng(seed)
    features, y = 100 * rng.standard_normal((40, 5)), (rng.random(40) < 0.5).astype(float)
    clients = [fs.Client("one", features[:1], y[:1]), fs.Client("rest", features[1:], y[1:])]
    run = fs.run(fs.GIANT(fs.Logistic(l2=1e-8)), clients, rounds=100)
    values = [row.value for row in run.history]
    assert all(after <= before + 1e-15 for before, after in pairwise(values))
    assert run.status != "diverged"
    best = fs.run(fs.Newton(fs.Logistic(l2=1e-8)), clients)
    assert best.converged
    assert values[-1] - best.history[-1].value <= 1e-9 * (values[0] - values[-1])
