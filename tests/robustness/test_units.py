"""The verdict and the predictions of a run do not depend on the units of the data."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import FedsolveError
from fedsolve.numerics.linalg import factor
from tests.robustness.federations import problem

FREE_OF_UNITS = (fs.Newton, fs.FedNewtonCG, fs.GIANT)
OTHERS = (
    *(fs.AGD, fs.FedAvg, fs.FedProx, fs.Scaffold, fs.FedDyn, fs.FedSplit),
    *(fs.SHED, fs.FedNL, fs.MontDec, fs.FedNewton, fs.DKRR),
)
GRADIENT_STEPS = (fs.AGD, fs.FedAvg, fs.Scaffold)  # need a bound on the smoothness, which Poisson does not have


def seeds(quick: int, all_: int) -> list[object]:
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(all_)]


def check_minimum(run: fs.Run, first: float, least: float) -> None:
    """A run that says it converged is within a millionth of what there was to gain."""
    if run.converged:
        assert run.history[-1].value - least <= 1e-6 * (first - least) + 1e-12 * abs(first)


@pytest.mark.parametrize("seed", seeds(12, 200))
def test_the_same_in_any_units(seed: int) -> None:
    here = problem(seed)
    there = here.in_units(seed)
    first, least = here.minimum()
    for algorithm in FREE_OF_UNITS:
        # GIANT is slow where clients have fewer samples than features: a limit that all but the slowest stay within.
        a = fs.run(algorithm(here.loss), here.clients(), rounds=300)
        b = fs.run(algorithm(there.loss), there.clients(), rounds=300)
        assert a.status == b.status, (algorithm.__name__, a.message, b.message)
        if algorithm is fs.Newton:  # a few of the random problems can be separated
            endless = here.has_no_minimum()
            assert endless == ("no finite minimum" in a.message), a.message
            assert a.converged or endless, a.message
        assert not (endless and a.converged)
        if algorithm is fs.FedNewtonCG and not endless:
            assert a.converged, a.message
        if a.converged:
            eta, other = here.predictors(a.model.w), there.predictors(b.model.w)
            np.testing.assert_allclose(other, eta, rtol=1e-6, atol=1e-6 * np.abs(eta).max(), err_msg=algorithm.__name__)
        check_minimum(a, first, least)


@pytest.mark.parametrize("seed", seeds(4, 60))
@pytest.mark.parametrize("algorithm", OTHERS)
def test_no_false_verdict_in_any_units(seed: int, algorithm: type) -> None:
    here = problem(seed)
    if here.kind == "poisson" and algorithm in GRADIENT_STEPS:
        return
    first, least = here.minimum()
    for given in (here, here.in_units(seed)):
        try:
            run = fs.run(algorithm(given.loss), given.clients(), rounds=100)
        except FedsolveError:  # a client's own fit has no minimum
            assert algorithm in (fs.DKRR, fs.FedNewton, fs.FedProx)
            continue
        size = given.unit**2
        check_minimum(run, size * first, size * least)
        if algorithm is not fs.FedNewton and run.status == "diverged":  # FedNewton does diverge where clients differ
            assert here.has_no_minimum(), run.message


@pytest.mark.parametrize("seed", range(4))
def test_behind_preprocessing_a_penalty_is_free_of_units_too(seed: int) -> None:
    here = problem(seed)
    there = here.in_units(seed)
    for algorithm in FREE_OF_UNITS:
        loss = type(here.loss)(**{"l2": 1e-2, "intercept": "free"} | ({"classes": 3} if here.kind == "softmax" else {}))
        runs = [
            fs.run(algorithm(loss), one.clients(), preprocess=fs.data.Preprocess())
            for one in (here, there)
            if one.unit == 1.0
        ]
        assert all(run.converged for run in runs)
        if len(runs) == 2:
            a, b = runs[0].model.predict(here.X), runs[1].model.predict(there.X)
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def columns(n: int = 400) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng, rng.standard_normal(n), rng.standard_normal(n)


def split(X: np.ndarray, y: np.ndarray) -> list[fs.Client]:
    return fs.data.partition(X, y, fs.data.Contiguous(), clients=4)


@pytest.mark.parametrize("stopping", [None, fs.Stopping(300, gap=1e-10)])
@pytest.mark.parametrize("algorithm", [fs.Newton, fs.FedNewtonCG, fs.GIANT, fs.FedNL, fs.SHED])
def test_a_collinear_pair_does_not_hide_small_columns(algorithm: type, stopping: fs.Stopping | None) -> None:
    rng, x, u = columns()
    a = rng.random(x.size)
    X = np.c_[a, 1 - a, 5e4 + 1e4 * x, 1e-4 * u]
    y = 3 * a + x + 2 * u + rng.standard_normal(x.size)
    run = fs.run(algorithm(fs.Squared(intercept="free")), split(X, y), stopping=stopping)
    Z = np.c_[np.ones(x.size), a, x, u]  # the same space, well conditioned
    least = 0.5 * np.mean((y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]) ** 2)
    assert run.converged
    assert run.history[-1].value == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("algorithm", [fs.Newton, fs.FedNewtonCG, fs.GIANT])
def test_a_column_twice_and_a_tiny_one(algorithm: type) -> None:
    rng, x, u = columns()
    y = (rng.random(x.size) < 1 / (1 + np.exp(-x - 2 * u))).astype(float)
    run = fs.run(algorithm(fs.Logistic()), split(np.c_[x, x, 1e-8 * u], y))
    plain = fs.run(fs.Newton(fs.Logistic()), split(np.c_[x, u], y))
    assert run.converged
    assert "other coefficients fit as well" in run.message
    assert run.history[-1].value == pytest.approx(plain.history[-1].value, rel=1e-12)


def test_nearly_collinear_columns_are_not_called_solved() -> None:
    """A difference of 1e-9 between two columns is invisible in their Gram matrix, and explains half of the target."""
    rng, x, u = columns()
    X = np.c_[x, x + 1e-9 * u]
    run = fs.run(fs.Newton(fs.Squared()), split(X, x + u + 0.1 * rng.standard_normal(x.size)))
    assert run.status == "tolerance unattainable"
    assert "nearly collinear" in run.message


@pytest.mark.parametrize("algorithm", [fs.Newton, fs.FedNewtonCG, fs.GIANT, fs.SHED, fs.FedNL])
def test_no_false_divergence(algorithm: type) -> None:
    rng, x, u = columns()
    X, soft = np.c_[x, u], 1 / (1 + np.exp(-20 * x))
    assert fs.run(algorithm(fs.Logistic()), split(X, soft)).converged  # soft labels whose loss is nearly zero
    assert fs.run(algorithm(fs.Squared()), split(1e-5 * X, 1e-4 * (x + rng.standard_normal(x.size)))).converged
    hard = (rng.random(x.size) < 1 / (1 + np.exp(-x))).astype(float)
    assert fs.run(algorithm(fs.Logistic()), split(1e-9 * X, hard)).converged


def test_a_start_at_the_optimum_is_no_yardstick_for_divergence() -> None:
    """Interpolated targets: the first value is rounding, and a thousand times rounding is not divergence."""
    _, x, u = columns()
    X = np.c_[x, u]
    for algorithm in (fs.FedNewtonCG, fs.FedNewton, fs.GIANT):
        assert fs.run(algorithm(fs.Squared()), split(X, X @ [1.0, 2.0]), rounds=5).status != "diverged"


def test_a_run_that_stays_behind_names_unequal_columns() -> None:
    rng, x, u = columns()
    y = (rng.random(x.size) < 1 / (1 + np.exp(-x - u))).astype(float)
    for algorithm in (fs.FedNL, fs.AGD, fs.Scaffold):
        run = fs.run(algorithm(fs.Logistic()), split(np.c_[x, 1e-8 * u], y))
        assert not run.converged
        assert "scales differ by a factor of 1e+08: standardise them" in run.message
        better = fs.run(algorithm(fs.Logistic()), split(np.c_[x, 1e-8 * u], y), preprocess=fs.data.Preprocess())
        assert better.converged


def test_the_absolute_tolerance_is_still_to_be_had() -> None:
    rng, x, u = columns()
    y = 1e6 * (x + rng.standard_normal(x.size))
    clients = split(np.c_[x, u], y)
    by_norm = fs.run(fs.AGD(fs.Squared()), clients, stopping=fs.Stopping(500, tolerance=None, gradient_norm=1e-3))
    assert by_norm.converged
    assert by_norm.history[-1].gradient_norm <= 1e-3 < by_norm.history[-2].gradient_norm
    relative = fs.run(fs.AGD(fs.Squared()), clients, rounds=500)
    assert relative.history[-1].relative_gradient <= 1e-8 < relative.history[-2].relative_gradient


# ── solves ──


def test_rank_is_judged_in_units_of_the_columns() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        X = rng.standard_normal((30, 3))
        X = np.c_[X, X[:, 0] - X[:, 1]] * 10.0 ** rng.integers(-8, 9, 4)
        y = rng.standard_normal(30)
        made = factor(X.T @ X)
        assert not made.definite
        residual = y - X @ made.solve(X.T @ y)
        unit = X / np.linalg.norm(X, axis=0)
        assert np.abs(unit.T @ residual).max() <= 1e-10
        assert made.unresolved(X.T @ y) <= 1e-12 * np.linalg.norm(y)


def test_what_a_singular_matrix_does_not_reach_is_said() -> None:
    made = factor(np.diag([4.0, 0.0]))
    assert made.unresolved(np.array([1.0, 0.0])) == 0
    assert made.unresolved(np.array([1.0, 3.0])) == pytest.approx(3.0)  # a zero diagonal has no unit of its own
    assert factor(np.eye(2)).unresolved(np.ones(2)) == 0
