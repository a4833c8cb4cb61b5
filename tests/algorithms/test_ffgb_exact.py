"""FFGB against answers known by other means: oracles whose limit has a closed form, and the paper's counterexample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import fedsolve as fs
from tests.algorithms.toy_learners import Mirror, ScaleOracle, ToyStump

POINTS = 5
SUPPORT = np.arange(POINTS)[:, None].astype(float)
TARGETS = np.random.default_rng(3).normal(size=(3, POINTS))  # of three clients with the same inputs


def clients(targets: Any = TARGETS) -> list[fs.Client]:
    return [fs.Client(f"site-{i}", np.arange(len(y))[:, None].astype(float), y) for i, y in enumerate(targets)]


def function(run: fs.Run, points: int = POINTS) -> Any:
    return run.model.decision_function(np.arange(points)[:, None].astype(float))


def by_hand(
    targets: Any, gamma: float, mu: float, steps: int, rounds: int, numerator: float, residual: str | None
) -> Any:
    """Algorithms 1 and 2 with a scale oracle and the square loss, as arrays: nothing is shared with the library."""
    f, carried = np.zeros(targets.shape[1]), np.zeros(targets.shape)
    for t in range(rounds):
        g, delta = np.tile(f, (len(targets), 1)), carried
        for k in range(1, steps + 1):
            eta = numerator / (mu * (t * steps + k + 1))
            phi = delta + (g - targets)
            h = gamma * phi
            g = g - eta * (h + mu * g)
            delta = phi - h if residual is not None else 0.0 * delta
        carried = delta if residual == "carried" else 0.0 * delta
        f = g.mean(axis=0)
    return f


@pytest.mark.parametrize("residual", ["round", "carried", None])
@pytest.mark.parametrize(("rule", "numerator"), [("theorem 4.1", 4.0), ("theorem 4.3", 2.0), ("theorem 4.4", 4.0)])
def test_iterates_are_those_of_the_algorithm_written_as_arrays(residual: Any, rule: Any, numerator: float) -> None:
    algorithm = fs.FFGB(
        fs.Squared(), ScaleOracle(0.4, POINTS), steps=3, step_size=rule, tikhonov=0.3, residual=residual
    )
    for rounds in (1, 2, 7):
        run = fs.run(algorithm, clients(), rounds=rounds)
        expected = by_hand(TARGETS, 0.4, 0.3, 3, rounds, numerator, residual)
        # 21 steps, each of a few roundings of numbers of size ‖y‖/μ.
        np.testing.assert_allclose(function(run), expected, rtol=0, atol=21 * 4 * 1e-16 * 10)
        value = np.mean([0.5 * np.mean((expected - y) ** 2) + 0.15 * np.mean(expected**2) for y in TARGETS])
        assert run.history[-1].value == pytest.approx(value, rel=1e-13)


def effective(gamma: float, steps: int) -> float:
    """K steps with the residual do what one step of this γ does, as step sizes go to zero: Σ h = Kφ − Δ^K with
    Δ^k = (1 − γ)(Δ^{k−1} + φ)."""
    return 1 - (1 - gamma) * (1 - (1 - gamma) ** steps) / (gamma * steps)


@pytest.mark.parametrize("residual", ["round", None])
@pytest.mark.parametrize(("gamma", "steps"), [(0.3, 1), (0.3, 4), (0.7, 2), (1.0, 3)])
def test_the_limit_of_a_scale_oracle(residual: Any, gamma: float, steps: int) -> None:
    """γ_eff ∇R[f] + μf = 0 in the limit; γ itself without the residual. With steps 2/(μn) the distance falls as 1/n:
    it is halved when the rounds are doubled, and Richardson's extrapolation leaves the square of it."""
    mu, rounds = 0.5, 150
    known = effective(gamma, steps) if residual is not None else gamma
    limit = known * TARGETS.mean(axis=0) / (known + mu)
    algorithm = fs.FFGB(
        fs.Squared(), ScaleOracle(gamma, POINTS), steps=steps, step_size="theorem 4.3", tikhonov=mu, residual=residual
    )
    once, twice = (function(fs.run(algorithm, clients(), rounds=n, measure=0)) for n in (rounds, 2 * rounds))
    size = np.abs(limit).max()
    assert np.abs(twice - limit).max() < 8.0 * steps / (2 * rounds) * size
    assert np.abs(2 * twice - once - limit).max() < 40.0 * (steps / rounds) ** 2 * size
    if steps > 1 and gamma < 1:  # the test tells one limit from the other
        other = gamma if residual is not None else effective(gamma, steps)
        wrong = other * TARGETS.mean(axis=0) / (other + mu)
        assert np.abs(2 * twice - once - wrong).max() > 0.02 * size


def test_one_step_needs_no_residual() -> None:
    found = [
        fs.run(
            fs.FFGB(fs.Squared(), ScaleOracle(0.4, POINTS), steps=1, step_size=0.7, tikhonov=0.2, residual=residual),
            clients(),
            rounds=9,
        )
        for residual in ("round", None)
    ]
    assert np.array_equal(*map(function, found))


def test_the_first_step_of_theorem_3_erases_the_past() -> None:
    """1 − μη is 0 at t = 0, k = 1, whatever rounding makes of μ · (1/μ): f^0 leaves no trace."""
    for mu in (0.1, 0.3, 1 / 3, 7.0):
        algorithm = fs.FFGB(
            fs.Squared(), ScaleOracle(1.0, POINTS), steps=2, step_size="theorem 4.3", tikhonov=mu, initial="constant"
        )
        run = fs.run(algorithm, clients(), rounds=3)
        assert run.state.parts[0].decay == 0.0
        assert run.state.constant != 0.0
        # What the function was before counts for nothing, not even if it was beyond all numbers.
        for before in (0.0, 1e300, np.inf):
            other = replace(run.model, constant=np.array(before))
            assert np.array_equal(other.decision_function(SUPPORT), function(run))
        # Of a constant step 1/μ only the last function of a round is left, and the others are not sent on.
        constant = fs.FFGB(fs.Squared(), ScaleOracle(1.0, POINTS), steps=4, step_size=2.0, tikhonov=0.5)
        state = fs.run(constant, clients(), rounds=2).state
        assert [len(part.functions) for part in state.parts] == [3, 3]


def test_steps_by_a_rule_may_begin_far_away() -> None:
    """With μ = 1e-3 the first steps are 2000 long: the value rises by a factor of a million, and falls again."""
    algorithm = fs.FFGB(fs.Squared(), ScaleOracle(1.0, POINTS), step_size="theorem 4.1", tikhonov=1e-3)
    run = fs.run(algorithm, clients(), rounds=40)
    values = [row.value for row in run.history if row.value is not None]
    assert run.status == "rounds"
    assert max(values) > 1e5 * values[0]
    constant = fs.FFGB(fs.Squared(), ScaleOracle(1.0, POINTS), step_size=50.0)
    assert fs.run(constant, clients(), rounds=40).status == "diverged"


def test_an_exact_oracle_reaches_the_minimum() -> None:
    """γ = 1 and K = 1 is gradient descent on F, point by point: it contracts by at most 1 − η(μ + m)."""
    labels = np.array([[0.0, 0.2, 1.0, 0.9, 0.5], [0.1, 0.0, 1.0, 0.3, 0.5], [0.9, 0.1, 0.4, 1.0, 0.5]])
    mu, eta = 0.1, 2.0
    best = [brentq(lambda v, p=p: 1 / (1 + np.exp(-v)) - p + mu * v, -20, 20, xtol=1e-15) for p in labels.mean(axis=0)]
    algorithm = fs.FFGB(fs.Logistic(), ScaleOracle(1.0, POINTS), step_size=eta, tikhonov=mu)
    run = fs.run(algorithm, clients(labels), rounds=120)
    np.testing.assert_allclose(function(run), best, rtol=0, atol=2 * (1 - eta * mu) ** 120 + 1e-13)


def test_several_outputs_and_softmax_reach_the_minimum() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, POINTS, 2))
    run = fs.run(
        fs.FFGB(fs.Squared(), ScaleOracle(1.0, POINTS), step_size=0.8, tikhonov=0.25), clients(values), rounds=60
    )
    np.testing.assert_allclose(function(run), values.mean(axis=0) / 1.25, atol=1e-13)  # 0 after (1 − 0.8 · 1.25)^t
    shares = rng.dirichlet(np.ones(3), size=(3, POINTS))
    loss = fs.Softmax(classes=3)
    soft = fs.run(fs.FFGB(loss, ScaleOracle(1.0, POINTS), step_size=1.0, tikhonov=0.2), clients(shares), rounds=300)
    f = function(soft)
    slope = loss.responses(np, f) - shares.mean(axis=0) + 0.2 * f  # of F at the found function
    assert np.abs(slope).max() < 1e-12
    counts = rng.poisson(3.0, size=(3, POINTS)).astype(float)
    poisson = fs.run(
        fs.FFGB(fs.Poisson(), ScaleOracle(1.0, POINTS), step_size=0.2, tikhonov=0.2), clients(counts), rounds=300
    )
    f = function(poisson)
    assert np.abs(np.exp(f) - counts.mean(axis=0) + 0.2 * f).max() < 1e-10


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("rule", ["theorem 4.1", "theorem 4.3", 0.7])
def test_the_counterexample_of_theorem_2(steps: int, rule: Any) -> None:
    """Two Diracs with opposite labels and an adversarial oracle of γ = 1: f^t ≡ 0 for all t, far from f*."""
    mu = 0.1
    two = [fs.Client("one", [[0.0]], [0.0]), fs.Client("two", [[1.0]], [1.0])]
    a = brentq(lambda a: a * (1 + np.exp(2 * a)) - 1 / mu, 0, 10, xtol=1e-15)  # f* = ±(a, −a)
    best = np.array([[a, -a], [-a, a]])
    algorithm = fs.FFGB(fs.Softmax(classes=2), Mirror(), steps=steps, step_size=rule, tikhonov=mu)
    seen: list[Any] = []
    run = fs.run(algorithm, two, rounds=25, on_round=lambda row: seen.append(row.value))
    f = run.model.decision_function(np.array([[0.0], [1.0]]))
    assert np.abs(f).max() <= 1e-15
    assert np.mean(np.sum((f - best) ** 2, axis=1)) == pytest.approx(2.264265, abs=5e-7)
    np.testing.assert_allclose(seen, np.log(2.0), atol=1e-15)  # of f^t, for every t
    erased = 4 if (steps, rule) == (5, "theorem 4.1") else 0  # 1 − 4/n is 0 in the third step of the first round
    assert len(run.model) == 2 * steps * 25 - erased  # it was not for want of functions


def stumps(residual: Any, rounds: int = 20) -> tuple[float, float]:
    """‖f^T − f*‖² and ‖f*‖² of stumps on the logistic loss: four clients with the same eight inputs, whose labels
    differ; the mean label waves 1.6 times."""
    points = 8
    noise = np.random.default_rng(0).uniform(-1, 1, (4, points))
    wave = 0.356 * np.sin(2 * np.pi * 1.6 * (np.arange(points) + 0.5) / points)
    labels = 0.5 + wave + 0.1 * (noise - noise.mean(axis=0))
    best = np.array(
        [brentq(lambda v, p=p: 1 / (1 + np.exp(-v)) - p + v, -9, 9, xtol=1e-15) for p in labels.mean(axis=0)]
    )
    algorithm = fs.FFGB(
        fs.Logistic(), ToyStump(points - 1), steps=30, step_size="theorem 4.3", tikhonov=1.0, residual=residual
    )
    found = function(fs.run(algorithm, clients(labels), rounds=rounds, measure=0), points)
    return float(np.mean((found - best) ** 2)), float(np.mean(best**2))


def test_the_residual_matters() -> None:
    with_residual, size = stumps("round")
    without, _ = stumps(None)
    assert size == pytest.approx(3.8e-2, abs=5e-4)
    assert with_residual < 1e-3
    assert without > 2e-2


def test_a_carried_residual_converges() -> None:
    """To the minimum, with a fixed number of steps: what a round leaves over is made up for in later ones."""
    mu, rounds = 0.5, 200
    limit = TARGETS.mean(axis=0) / (1 + mu)
    algorithm = fs.FFGB(
        fs.Squared(), ScaleOracle(0.3, POINTS), steps=2, step_size="theorem 4.3", tikhonov=mu, residual="carried"
    )
    once, twice = (function(fs.run(algorithm, clients(), rounds=n, measure=0)) for n in (rounds, 2 * rounds))
    size = np.abs(limit).max()
    assert np.abs(twice - limit).max() < 1e-2 * size
    assert np.abs(2 * twice - once - limit).max() < 4e-4 * size
    assert stumps("carried")[0] < 0.01 * stumps("round")[0]


def test_clients_count_alike_unless_said_otherwise() -> None:
    """Equation 9 is a plain mean over clients, however many rows they have."""
    y = TARGETS
    repeated = [fs.Client("many", np.tile(SUPPORT, (9, 1)), np.tile(y[0], 9)), fs.Client("few", SUPPORT, y[1])]
    algorithm = fs.FFGB(fs.Squared(), ScaleOracle(1.0, POINTS), step_size=1.0, tikhonov=0.25)
    run = fs.run(algorithm, repeated, rounds=60)
    np.testing.assert_allclose(function(run), (y[0] + y[1]) / 2 / 1.25, atol=1e-12)
    by_samples = fs.FFGB(fs.Squared(), ScaleOracle(1.0, POINTS), step_size=1.0, tikhonov=0.25, weigh="samples")
    run = fs.run(by_samples, repeated, rounds=60)
    f = (0.9 * y[0] + 0.1 * y[1]) / 1.25
    np.testing.assert_allclose(function(run), f, atol=1e-12)
    value = sum(p * (0.5 * np.mean((f - one) ** 2) + 0.125 * np.mean(f**2)) for p, one in ((0.9, y[0]), (0.1, y[1])))
    assert run.history[-1].value == pytest.approx(value, rel=1e-10)


def test_sample_weights_count_like_repeated_rows() -> None:
    rng = np.random.default_rng(7)
    times = rng.integers(1, 5, POINTS)
    y = rng.normal(size=POINTS)
    weighted = fs.Client("a", SUPPORT, y, times.astype(float))
    repeated = fs.Client("a", np.repeat(SUPPORT, times, axis=0), np.repeat(y, times))
    other = fs.Client("b", SUPPORT, TARGETS[1])
    algorithm = fs.FFGB(fs.Squared(), fs.RidgeLearner(0.01), steps=3, step_size=0.5, tikhonov=0.1)
    one, two = (fs.run(algorithm, [first, other], rounds=6) for first in (weighted, repeated))
    np.testing.assert_allclose(function(one), function(two), rtol=1e-12)
    assert one.history[-1].value == pytest.approx(two.history[-1].value, rel=1e-12)


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_the_best_constant(mu: float) -> None:
    """The constant with the least F over all clients, from the mean target alone."""
    rng = np.random.default_rng(2)
    cases: list[tuple[Any, Any]] = [
        (fs.Squared(), [rng.normal(3.0, 1.0, n) for n in (4, 30)]),
        (fs.Squared(), [rng.normal(3.0, 1.0, (n, 2)) for n in (4, 30)]),
        (fs.Logistic(), [(rng.random(n) < p).astype(float) for n, p in ((40, 0.9), (7, 0.5))]),
        (fs.Poisson(), [rng.poisson(5.0, n).astype(float) for n in (4, 30)]),
        (fs.Softmax(classes=3), [rng.integers(0, 3, n).astype(float) for n in (9, 30)]),
    ]
    for loss, targets in cases:
        given = [fs.Client(f"c{i}", rng.normal(size=(len(y), 1)), y) for i, y in enumerate(targets)]
        learner = fs.RidgeLearner()
        run = fs.run(fs.FFGB(loss, learner, tikhonov=mu, initial="constant"), given, rounds=1)
        c = run.state.constant

        def slope(client: fs.Client, c: Any = c, loss: Any = loss) -> Any:
            y = loss.targets(client)
            return np.mean(loss.responses(np, np.zeros_like(y) + c) - y, axis=0) + mu * c

        assert np.abs(np.mean([slope(client) for client in given], axis=0)).max() < 1e-9
        assert run.history[0].value == pytest.approx(
            np.mean(
                [
                    np.mean(loss.pointwise(np, np.zeros_like(loss.targets(one)) + c, loss.targets(one)))
                    + mu / 2 * np.sum(c * c)
                    for one in given
                ]
            )
        )


def test_no_constant_is_best_where_a_class_never_occurs() -> None:
    ones = [fs.Client("a", SUPPORT, np.ones(POINTS)), fs.Client("b", SUPPORT, np.ones(POINTS))]
    with pytest.raises(fs.errors.ConfigError, match="falls for ever"):
        fs.run(fs.FFGB(fs.Logistic(), fs.RidgeLearner(), initial="constant"), ones, rounds=1)
    run = fs.run(fs.FFGB(fs.Logistic(), fs.RidgeLearner(), initial="constant", tikhonov=0.1), ones, rounds=1)
    assert np.isfinite(run.state.constant)
