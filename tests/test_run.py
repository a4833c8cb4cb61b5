"""The loop: stopping, measuring, certificates, history, warm starts, one-shot methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.typing import Array
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic | label-skewed"]
FREE = PROBLEMS["logistic, free intercept | label-skewed"]


def optimum(problem: object) -> float:
    """f* from the pooled fit, evaluated by NumPy alone."""
    X, y, w = problem.X, problem.y, problem.pooled()
    eta = X @ w if problem.loss.intercept is None else X @ w[:-1] + w[-1]
    penalised = w[:-1] if problem.loss.intercept == "free" else w
    return float(np.mean(np.logaddexp(0, eta) - y * eta) + problem.loss.l2 / 2 * penalised @ penalised)


def test_history_has_a_row_per_round_with_growing_costs() -> None:
    result = fs.run(fs.FedAvg(PROBLEM.loss), PROBLEM.clients(), rounds=5)
    assert [row.round for row in result.history] == [0, 1, 2, 3, 4, 5]
    assert all(row.value is not None and row.gradient_norm is not None for row in result.history)
    for column in ("bytes_up", "bytes_down", "scalars_up", "exchanges", "seconds"):
        values = [getattr(row, column) for row in result.history]
        assert values == sorted(values)
        assert values[0] < values[-1]
    assert result.status == "rounds"
    assert result.history[-1].bytes_up == result.ledger.total("algorithm").bytes_up


def test_measuring_travels_along_and_changes_nothing() -> None:
    """Measured every round or never: the same iterates, the same algorithm bytes but for shared headers, no extra
    exchange until the last."""
    measured = fs.run(fs.Scaffold(PROBLEM.loss), PROBLEM.clients(), rounds=8)
    silent = fs.run(fs.Scaffold(PROBLEM.loss), PROBLEM.clients(), rounds=8, measure=0)
    assert np.array_equal(measured.model.w, silent.model.w)
    assert len(measured.ledger.records) == len(silent.ledger.records)
    ours, theirs = measured.ledger.total("algorithm"), silent.ledger.total("algorithm")
    assert (ours.scalars_up, ours.scalars_down) == (theirs.scalars_up, theirs.scalars_down)
    assert measured.ledger.total("measure").scalars_up == 9 * 4 * (6 + 1)  # rounds × clients × (gradient, value)
    assert [row.value for row in silent.history[:-1]] == [None] * 8
    assert silent.history[-1].value == measured.history[-1].value


def test_a_state_that_knows_its_gradient_is_not_asked() -> None:
    result = fs.run(fs.Newton(PROBLEM.loss), PROBLEM.clients(), tolerance=1e-10)
    assert result.converged
    assert result.ledger.total("measure").exchanges == 0
    # One exchange at the start and one per round, for the unit step always passes here.
    assert result.history[-1].exchanges == 1 + result.rounds


def test_convergence_is_declared_on_the_state_that_was_measured() -> None:
    result = fs.run(fs.FedAvg(PROBLEM.loss, fs.GradientSteps(1)), PROBLEM.clients(), rounds=5000, tolerance=1e-6)
    assert result.converged
    g = sum(c.weight / 160 * PROBLEM.loss.gradient(c, result.model.w) for c in PROBLEM.clients())
    assert np.linalg.norm(g) == pytest.approx(result.history[-1].gradient_norm, rel=1e-9)
    assert np.linalg.norm(g) <= 1e-6


@pytest.mark.parametrize("problem", [PROBLEM, FREE], ids=["penalised", "free intercept"])
def test_certificates_are_honest(problem: object) -> None:
    result = fs.run(fs.Newton(problem.loss), problem.clients(), rounds=20, tolerance=1e-11)
    best = optimum(problem)
    for row in result.history:
        if row.gap_is_bound:
            assert row.value - best <= row.gap + 1e-14
        else:
            # ½gᵀH⁻¹g is no bound; near the optimum it is the distance to second order.
            assert row.gap_is_bound is False
    assert result.history[0].gap_is_bound == (problem.loss.intercept is None)
    near = result.history[-2]
    assert near.gap == pytest.approx(near.value - best, rel=0.05, abs=1e-14) or near.gap_is_bound
    assert result.certificate.kind == ("strong convexity" if problem is PROBLEM else "newton decrement")


def test_no_certificate_is_claimed_where_none_is_known() -> None:
    result = fs.run(fs.FedAvg(FREE.loss), FREE.clients(), rounds=3)
    assert result.certificate is None
    assert all(row.gap is None for row in result.history)


@pytest.mark.parametrize(
    ("stopping", "status"),
    [
        (fs.Stopping(rounds=4), "rounds"),
        (fs.Stopping(bytes=10_000), "bytes"),
        (fs.Stopping(seconds=0.0), "seconds"),
        (fs.Stopping(rounds=10_000, change=1e-6), "settled"),
        (fs.Stopping(rounds=10_000, gap=1e-3), "converged"),
    ],
)
def test_every_budget_stops_a_run(stopping: fs.Stopping, status: str) -> None:
    result = fs.run(fs.FedAvg(PROBLEM.loss, fs.GradientSteps(1)), PROBLEM.clients(), stopping=stopping)
    assert result.status == status
    assert result.history[-1].value is not None


@pytest.mark.parametrize("loss", [fs.Squared(l2=1e-2), fs.Logistic(l2=1e-2)])
def test_divergence_is_said_with_what_to_try(loss: object) -> None:
    algorithm = fs.FedAvg(loss, fs.GradientSteps(steps=5, step_size=1e4))
    result = fs.run(algorithm, PROBLEM.clients(), rounds=500)
    assert result.status == "diverged"
    assert "try smaller" in result.message
    assert result.rounds < 500


def test_one_shot_methods_finish() -> None:
    result = fs.run(fs.DKRR(PROBLEMS["squared | balanced"].loss), PROBLEMS["squared | balanced"].clients())
    assert result.status == "finished"
    assert result.ledger.total("algorithm").exchanges == 1
    assert result.history[-1].value is not None


def test_any_algorithm_starts_from_another_s_model() -> None:
    problem = PROBLEMS["squared | unbalanced"]
    first = fs.run(fs.DKRR(problem.loss), problem.clients())
    warm = fs.run(fs.FedAvg(problem.loss), problem.clients(), rounds=0, warm_start=first.model)
    assert np.array_equal(warm.model.w, first.model.w)
    with pytest.raises(fs.errors.ConfigError, match=r"shape \(3,\), this problem needs \(6,\)"):
        fs.run(fs.FedAvg(problem.loss), problem.clients(), warm_start=np.zeros(3))


@dataclass(frozen=True)
class Counting:
    """Uses what no algorithm here uses yet: several calls in one exchange, arguments by client, data of the server."""

    loss: fs.Squared

    @dataclass(frozen=True)
    class State:
        w: Array
        names: tuple[str, ...]

    @fs.client_step
    def scaled(self, client: fs.Client, by: float) -> float:
        return by * client.n_samples

    @fs.client_step
    def size(self, client: fs.Client) -> int:
        return client.n_samples

    def start(self, fed: fs.Federation) -> State:
        by = fs.PerClient({name: float(index) for index, name in enumerate(fed.clients)})
        total, each, mean = fed.exchange(fs.Sum(self.scaled, by=by), fs.Gather(self.size), fs.Mean(self.size).uniform())
        assert total == sum(index * n for index, n in enumerate(each.values()))
        assert mean == pytest.approx(np.mean(list(each.values())))
        w = self.loss.minimise(fed.server)
        return self.State(w, tuple(each))

    def round(self, fed: fs.Federation, state: State) -> fs.Finished[State]:
        return fs.Finished(state)

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


@pytest.mark.parametrize("kind", [fs.transports.InProcess, fs.transports.Processes])
def test_several_calls_per_client_arguments_and_server_data(kind: type) -> None:
    problem = PROBLEMS["squared | unbalanced"]
    server = fs.Client("server", problem.X[:20], problem.y[:20])
    result = fs.run(Counting(problem.loss), kind(problem.clients()), server=server)
    assert result.state.names == ("client-0", "client-1", "client-2", "client-3")
    (_, counts) = result.ledger.server_counts[0]
    assert counts == {"gradients": 20, "hessians": 1, "factorisations": 1}
    starts = [record for record in result.ledger.records if record.calls[0] == "algorithm.scaled"]
    assert len(starts) == 1
    assert starts[0].calls == ("algorithm.scaled", "algorithm.size", "algorithm.size")
    with pytest.raises(fs.errors.DataError, match="server=Client"):
        fs.run(Counting(problem.loss), problem.clients())


def test_public_names() -> None:
    """What users import. A name that goes away breaks them: change this list on purpose or not at all."""
    assert {name for name in fs.__all__ if name[0].isupper()} >= {
        "Armijo", "Client", "DKRR", "Evaluation", "FedAvg", "FedNL", "Federation", "Finished", "Gather",
        "GradientSteps", "LinearModel", "Link", "LocalSolver", "Logistic", "Loss", "Mean", "Model", "Newton",
        "Participation", "Patience", "PerClient", "Pointwise", "Replay", "Run", "Scaffold", "Session", "Squared",
        "Stopping", "StoppingRule", "Sum", "Verdict",
    }  # fmt: skip
    assert all(hasattr(fs, name) for name in fs.__all__)
