"""FedDyn and FedSplit: their recursions by NumPy, their limit for every local solver, and what absence does to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from tests.faults.faulty import FaultyRoad, until_done
from tests.faults.test_lost import Road
from tests.loop.test_network_loss import Tanh
from tests.loop.test_network_loss import clients as network_clients
from tests.problems import PROBLEMS

SQUARED = PROBLEMS["squared | unbalanced"]
LOGISTIC = PROBLEMS["logistic | unbalanced"]
BOTH = [fs.FedDyn, fs.FedSplit]


def names(kind: type) -> str:
    return kind.__name__


def quadratics(clients: list[fs.Client], l2: float) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """p_j, H_j and b_j of f_j = ½ wᵀH_j w − b_jᵀw, by NumPy alone."""
    total = sum(client.weight for client in clients)
    eye = l2 * np.eye(clients[0].X.shape[1])
    return [(one.weight / total, one.X.T @ one.X / one.weight + eye, one.X.T @ one.y / one.weight) for one in clients]


def feddyn(rounds: int, alpha: float) -> np.ndarray:
    """Acar et al., Algorithm 1, with p_k in place of 1/m."""
    parts = quadratics(SQUARED.clients(), SQUARED.loss.l2)
    theta, h, g = np.zeros(6), np.zeros(6), [np.zeros(6) for _ in parts]
    for _ in range(rounds):
        local = []
        for k, (_, H, b) in enumerate(parts):
            local.append(np.linalg.solve(H + alpha * np.eye(6), b + g[k] + alpha * theta))
            g[k] = g[k] - alpha * (local[k] - theta)
        h = h - alpha * sum(p * (one - theta) for (p, _, _), one in zip(parts, local, strict=True))
        theta = sum(p * one for (p, _, _), one in zip(parts, local, strict=True)) - h / alpha
    return theta


def fedsplit(rounds: int, pull: float) -> np.ndarray:
    """Pathak and Wainwright, Algorithm 1, with p_j in place of 1/m."""
    parts = quadratics(SQUARED.clients(), SQUARED.loss.l2)
    x, z = np.zeros(6), [np.zeros(6) for _ in parts]
    for _ in range(rounds):
        for j, (_, H, b) in enumerate(parts):
            half = np.linalg.solve(H + pull * np.eye(6), b + pull * (2 * x - z[j]))
            z[j] = z[j] + 2 * (half - x)
        x = sum(p * one for (p, _, _), one in zip(parts, z, strict=True))
    return x


@pytest.mark.parametrize(("kind", "reference"), [(fs.FedDyn, feddyn), (fs.FedSplit, fedsplit)], ids=["dyn", "split"])
@pytest.mark.parametrize("rounds", [1, 2, 7, 20])
@pytest.mark.parametrize("pull", [0.05, 0.4])
def test_the_recursions_of_the_papers(kind: Any, reference: Any, rounds: int, pull: float) -> None:
    found = fs.run(kind(SQUARED.loss, pull=pull), SQUARED.clients(), rounds=rounds, tolerance=0.0, measure=0)
    assert found.state.pull == pull
    # A round amplifies rounding by at most cond(H_j + pull) < 1e2, and contracts what came before.
    np.testing.assert_allclose(found.model.w, reference(rounds, pull), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", BOTH, ids=names)
@pytest.mark.parametrize("local", [fs.GradientSteps(5), fs.GradientSteps(20), fs.CG(3)], ids=["5 steps", "20", "cg"])
@pytest.mark.parametrize(
    "case", ["squared | unbalanced", "logistic, free intercept | one class at a client", "softmax | weighted"]
)
def test_they_end_at_the_pooled_solution_however_well_clients_solve(kind: Any, local: Any, case: str) -> None:
    problem = PROBLEMS[case]
    found = fs.run(kind(problem.loss, local=local), problem.clients(), rounds=600, tolerance=1e-11, measure=20)
    assert found.converged
    assert problem.distance(found.model.w) <= 1e-8


@pytest.mark.parametrize("kind", BOTH, ids=names)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_pull_is_found_in_any_units_on_a_badly_conditioned_problem(kind: Any, scale: float) -> None:
    """κ = 1e3. Theory, with the best pull: 1 − 1/√κ a round for Douglas-Rachford, 1 − 2/√κ for Peaceman-Rachford, so
    √κ ln 1e8 ≈ 580 rounds and half as many to 1e-8; an unknown pull may cost twice that."""
    rng = np.random.default_rng(0)
    X = scale * rng.standard_normal((600, 8)) @ np.diag(np.geomspace(1, 1e-3**0.5, 8))
    shifted = 0.3 * scale * np.repeat(np.arange(3), [400, 150, 50])
    y = X @ rng.standard_normal(8) + 0.1 * scale * rng.standard_normal(600) + shifted
    parts = {"a": slice(0, 400), "b": slice(400, 550), "c": slice(550, 600)}
    clients = [fs.Client(name, X[part], y[part]) for name, part in parts.items()]
    rounds = 1160 if kind is fs.FedDyn else 580
    found = fs.run(kind(fs.Squared()), clients, rounds=rounds, tolerance=0.0, measure=0)
    pooled = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.linalg.norm(found.model.w - pooled) <= 1e-8 * np.linalg.norm(pooled)


@pytest.mark.parametrize("kind", BOTH, ids=names)
@pytest.mark.parametrize("local", [None, fs.GradientSteps(5)], ids=["exact", "5 steps"])
def test_clients_with_fewer_rows_than_columns_in_any_units(kind: Any, local: Any) -> None:
    """The columns times c, the weights over c: a power of 2, so that nothing is rounded otherwise, round for round."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((60, 5)), rng.standard_normal(5)
    y = X @ truth + 0.3 * rng.standard_normal(60)
    pooled = np.linalg.lstsq(X, y, rcond=None)[0]
    rounds = []
    for scale in (2.0**-13, 1.0, 2.0**10, 2.0**13):
        clients = [fs.Client(f"c{j}", scale * X[3 * j : 3 * j + 3], y[3 * j : 3 * j + 3]) for j in range(20)]
        found = fs.run(kind(fs.Squared(), local=local), clients, rounds=200, measure=10)
        assert found.converged, found.message
        assert np.linalg.norm(scale * found.model.w - pooled) <= 1e-7 * np.linalg.norm(pooled)
        rounds.append(found.rounds)
    assert max(rounds) == min(rounds)


@pytest.mark.parametrize("kind", BOTH, ids=names)
@pytest.mark.parametrize(
    ("case", "local"),
    [
        ("logistic | unbalanced", fs.GradientSteps(1, 0.02)),
        ("logistic | unbalanced", fs.GradientSteps(5, 0.02)),
        ("logistic | unbalanced", fs.GradientSteps(20, 0.02)),
        ("logistic | unbalanced", fs.GradientSteps(5, 0.1)),
        ("poisson | unbalanced", fs.GradientSteps(20, 0.02)),
        ("poisson, free intercept | label-skewed", fs.GradientSteps(5, 0.1)),
        ("squared | one sample at a client", fs.GradientSteps(3, 0.01)),
    ],
)
def test_short_steps_are_slow_and_do_not_diverge(kind: Any, case: str, local: fs.GradientSteps) -> None:
    """With the pull that they choose they come at least as near as gradient descent on the pooled samples does with
    steps of ηK/2; FedAvg with one step is just that."""
    problem, way = PROBLEMS[case], local.step_size * local.steps
    found = fs.run(kind(problem.loss, local=local), problem.clients(), rounds=300, tolerance=0.0, measure=0)
    assert found.state.pull >= 0.5 / way
    plain = fs.FedAvg(problem.loss, fs.GradientSteps(1, way / 2))
    pooled = fs.run(plain, problem.clients(), rounds=300, tolerance=0.0, measure=0)
    assert problem.distance(found.model.w) <= max(1e-8, problem.distance(pooled.model.w))


@pytest.mark.parametrize("kind", BOTH, ids=names)
def test_a_way_of_adam_does_not_diverge_with_the_pull_that_is_chosen(kind: Any) -> None:
    local = fs.Adam(epochs=1, step_size=0.01, batch_size=8)
    found = fs.run(kind(LOGISTIC.loss, local=local), LOGISTIC.clients(), rounds=300, tolerance=0.0, measure=100)
    assert LOGISTIC.distance(found.model.w) <= 0.2  # Adam's steps go on for as long as they are


def test_where_nothing_says_how_strong_a_pull_is_it_must_be_given() -> None:
    with pytest.raises(fs.errors.ConfigError, match="FedDyn cannot choose a pull for Adam and Tanh: give one"):
        fs.FedDyn(Tanh(), local=fs.Adam(5))
    found = fs.run(fs.FedDyn(Tanh(), local=fs.GradientSteps(5, 0.1)), network_clients(), rounds=1)
    assert found.state.pull == pytest.approx(1.0)  # 1 / (2 · 5 · 0.1)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_tenth_of_the_clients_in_each_round_in_any_units(scale: float) -> None:
    """No client answers twice before some late round: what the run began with must not count for good."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((60, 5)), rng.standard_normal(5)
    y = X @ truth + 0.3 * rng.standard_normal(60)
    pooled = np.linalg.lstsq(X, y, rcond=None)[0]
    clients = [fs.Client(f"c{j}", scale * X[3 * j : 3 * j + 3], y[3 * j : 3 * j + 3]) for j in range(20)]
    tenth = fs.Participation(fraction=0.1)
    found = fs.run(fs.FedDyn(fs.Squared()), clients, rounds=1600, participation=tenth, tolerance=0.0, measure=0)
    assert np.linalg.norm(scale * found.model.w - pooled) <= 1e-8 * np.linalg.norm(pooled)
    # Reflections of clients with fewer rows than columns contract nothing: FedSplit is slow, and must not go away.
    found = fs.run(fs.FedSplit(fs.Squared()), clients, rounds=1600, participation=tenth, tolerance=0.0, measure=0)
    assert np.linalg.norm(scale * found.model.w - pooled) <= 0.1 * np.linalg.norm(pooled)


@pytest.mark.parametrize("kind", BOTH, ids=names)
def test_a_weak_pull_is_slow_and_no_fault_of_a_client(kind: Any) -> None:
    """Its anchor is far away, at predictions where an exponential overflows; the minimum is not."""
    problem = PROBLEMS["poisson, free intercept | balanced"]
    found = fs.run(kind(problem.loss, pull=0.01), problem.clients(), rounds=30, tolerance=0.0, measure=0)
    assert found.rounds == 30
    assert np.isfinite(found.model.w).all()


@pytest.mark.parametrize("kind", BOTH, ids=names)
@pytest.mark.parametrize("warm", [False, True])
def test_half_of_the_clients_in_each_round_are_enough(kind: Any, warm: bool) -> None:
    """A client that is asked for the first time in a late round has its part in h and x from the beginning."""
    start = np.linspace(-1.0, 2.0, 6) if warm else None
    policy = fs.Participation(fraction=0.5)
    pull = 0.3 if warm else None
    found = fs.run(
        kind(SQUARED.loss, pull=pull),
        SQUARED.clients(),
        rounds=1500,
        participation=policy,
        warm_start=start,
        tolerance=0.0,
        measure=0,
    )
    assert SQUARED.distance(found.model.w) <= 1e-8


@pytest.mark.parametrize("kind", [*BOTH, fs.Scaffold], ids=names)
def test_where_a_client_is_lost_the_objective_of_the_others_is_minimised(kind: Any) -> None:
    clients = fs.data.partition(SQUARED.X, SQUARED.y, fs.data.IID(), clients=4, seed=2)
    road = Road(clients, {"client-2": range(6, 10_000)})
    policy = fs.Participation(deadline=1.0, quorum=0.5)
    found = fs.run(kind(SQUARED.loss), road, rounds=400, participation=policy, tolerance=1e-12)
    assert found.converged
    assert "lost: client-2" in found.message
    others = [client for client in clients if client.name != "client-2"]
    expected = fs.run(fs.Newton(SQUARED.loss), others).model.w
    np.testing.assert_allclose(found.model.w, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", [*BOTH, fs.Scaffold], ids=names)
def test_a_client_that_comes_back_counts_again(kind: Any) -> None:
    clients = fs.data.partition(SQUARED.X, SQUARED.y, fs.data.IID(), clients=4, seed=2)
    road = Road(clients, {"client-2": range(6, 14)})
    policy = fs.Participation(deadline=1.0, quorum=0.5)
    found = fs.run(kind(SQUARED.loss), road, rounds=400, participation=policy, tolerance=1e-12)
    assert found.converged
    assert found.state.epoch == 2
    assert SQUARED.distance(found.model.w) <= 1e-8


@pytest.mark.parametrize("kind", BOTH, ids=names)
def test_without_a_minimum_a_long_run_says_so(kind: Any) -> None:
    """The pull falls with the curvature, until 100 Newton steps do not solve a client's problem any more."""
    X = np.random.default_rng(0).standard_normal((60, 5))
    y = (X[:, 0] > 0).astype(float)
    clients = [
        fs.Client(name, X[part], y[part]) for name, part in zip("abc", np.split(np.arange(60), [20, 50]), strict=True)
    ]
    found = fs.run(kind(fs.Logistic(intercept="free")), clients, rounds=400, measure=20)
    assert found.status == "diverged"
    assert "no finite minimum" in found.message


# Momentum on fixed batches under a schedule: a wrong seed, round or memory shows.
LOCAL = fs.Momentum(epochs=2, step_size=0.1, batch_size=8, batches="fixed", schedule=fs.InverseTime(0.1))
SHUFFLED = fs.GradientSteps(epochs=2, step_size=0.1, batch_size=8, scale="client")
RUNS = {
    "FedDyn": fs.FedDyn(LOGISTIC.loss),
    "FedDyn, fixed batches": fs.FedDyn(LOGISTIC.loss, pull=0.5, local=LOCAL),
    "FedSplit": fs.FedSplit(LOGISTIC.loss),
    "FedSplit, shuffled batches": fs.FedSplit(LOGISTIC.loss, pull=0.5, local=SHUFFLED),
    "FedProx, fixed batches": fs.FedProx(
        LOGISTIC.loss, local=fs.ProximalSteps(batch_size=8, epochs=1, batches="fixed")
    ),
    "Scaffold, fixed batches": fs.Scaffold(LOGISTIC.loss, LOCAL),
    "Scaffold, Adam": fs.Scaffold(LOGISTIC.loss, fs.Adam(steps=3, step_size=0.01)),
    "FedAvg, shuffled batches": fs.FedAvg(LOGISTIC.loss, SHUFFLED),
}


def eight() -> list[fs.Client]:
    return fs.data.partition(LOGISTIC.X, LOGISTIC.y, fs.data.QuantitySkew(1.0), clients=8, seed=2)


@pytest.mark.parametrize("algorithm", RUNS.values(), ids=RUNS.keys())
def test_everything_at_once_leaves_no_trace(tmp_path: Path, algorithm: Any) -> None:
    """30 % of replies lost, a client restarted, the server killed between two checkpoints and resumed."""
    road = FaultyRoad(eight(), tmp_path, loss=0.3, repeat=True, late=True, restart=[(5, "client-3")], crash=9, seed=1)

    def attempt(resume: bool) -> fs.Run:
        path = tmp_path / "run"
        return fs.run(algorithm, road, rounds=14, seed=5, checkpoint=path, checkpoint_every=4, resume=resume)

    faulty = until_done(attempt)
    assert road.lost > 10
    assert road.restarted == 1
    replay = fs.Replay(cohorts=faulty.ledger.cohorts())
    clean = fs.run(algorithm, eight(), rounds=14, seed=5, participation=replay)
    assert np.array_equal(faulty.model.w, clean.model.w)
    assert not np.array_equal(faulty.model.w, fs.run(algorithm, eight(), rounds=14, seed=5).model.w)


@pytest.mark.parametrize("algorithm", RUNS.values(), ids=RUNS.keys())
def test_transports_change_nothing(algorithm: Any) -> None:
    here = fs.run(algorithm, InProcess(eight(), threads=1), rounds=6, seed=3)
    there = fs.run(algorithm, Processes(eight(), workers=2, threads=1, start="fork"), rounds=6, seed=3)
    assert np.array_equal(here.model.w, there.model.w)
    assert here.ledger == there.ledger


@pytest.mark.parametrize("kind", BOTH, ids=names)
def test_a_network_is_trained_by_local_steps(kind: Any) -> None:
    found = fs.run(kind(Tanh(), pull=0.5, local=fs.GradientSteps(10, step_size=0.3)), network_clients(), rounds=40)
    assert found.history[-1].value < 0.7 * found.history[0].value
    with pytest.raises(fs.errors.ConfigError, match=f"{kind.__name__} needs a loss with minimise, which Tanh does not"):
        fs.run(kind(Tanh()), network_clients())


@pytest.mark.parametrize("kind", BOTH, ids=names)
@pytest.mark.parametrize("pull", [0.0, -1.0, float("inf"), float("nan"), "1", True])
def test_a_pull_is_positive(kind: Any, pull: Any) -> None:
    with pytest.raises(
        fs.errors.ConfigError, match=r"the weight of the proximal term \(or None\), is a positive number"
    ):
        kind(SQUARED.loss, pull=pull)
