"""Clients with held-out rows that are lost; and the model that a run with `Patience` hands back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.inference import evaluation as steps
from fedsolve.loop.history import Row
from fedsolve.loop.rules import at_the_end
from fedsolve.loop.stopping import Verdict
from fedsolve.report.summary import summarise
from tests.faults.test_lost import Road

LOSS = fs.Logistic(l2=1e-2)
POLICY = fs.Participation(deadline=1.0, quorum=0.2)
STEPS = fs.FedAvg(LOSS, fs.GradientSteps(1, step_size=0.5))


def sites(count: int = 3, rows: int = 40, seed: int = 0) -> list[fs.Client]:
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        X = rng.standard_normal((rows, 3))
        made.append(fs.Client(f"c{index}", X, (X[:, 0] + rng.standard_normal(rows) > 0).astype(float)))
    return made


def one_holds() -> list[fs.Client]:
    """Only c0 has held-out rows."""
    first, *rest = sites()
    return [*fs.data.hold_out([first], 0.5), *rest]


# ── lost clients ──


@pytest.mark.parametrize("metric", [None, "value", "auc"])
@pytest.mark.parametrize("gone", [range(3, 99), range(8, 99)])
def test_losing_the_only_client_with_held_out_rows_does_not_end_the_run(metric: str | None, gone: range) -> None:
    evaluation = fs.Evaluation(LOSS)
    rules: Any = [fs.Stopping(8, tolerance=0)]
    if metric is not None:
        rules.append(fs.Patience(20, evaluation=evaluation, metric=metric))
    road = Road(one_holds(), {"c0": gone})
    run = fs.run(STEPS, road, stopping=rules, participation=POLICY, evaluation=evaluation)
    assert (run.status, run.rounds) == ("rounds", 8)
    seen = [row.round for row in run.history if row.held_out is not None]
    assert seen == list(range(min(gone.start, 9)))
    assert run.evaluation is None
    assert "held-out rows could not be asked" in run.message
    assert "no client has held-out rows" not in run.message


def test_losing_the_client_with_the_positives() -> None:
    """The AUC of the others is not defined, so patience does not judge by it."""
    rng = np.random.default_rng(0)
    clients = []
    for index, client in enumerate(sites()):
        labels = rng.permutation([0.0, 1.0] * 10) if index == 0 else np.zeros(20)
        clients.append(fs.data.with_test_rows(client, rng.standard_normal((20, 3)), labels))
    rule = fs.Patience(20, evaluation=fs.Evaluation(LOSS), metric="auc")
    road = Road(clients, {"c0": range(3, 99)})
    run = fs.run(STEPS, road, stopping=[fs.Stopping(8, tolerance=0), rule], participation=POLICY)
    assert (run.status, run.rounds) == ("rounds", 8)
    with pytest.raises(ConfigError, match="all of them are of one class"):
        fs.run(STEPS, clients[1:], rounds=3, stopping=rule)


def test_with_dropouts() -> None:
    evaluation = fs.Evaluation(LOSS)
    for seed in range(3):
        run = fs.run(
            STEPS, one_holds(), rounds=12, tolerance=0, evaluation=evaluation, seed=seed,
            stopping=fs.Patience(30, evaluation=evaluation), participation=fs.Participation(dropout=0.5, quorum=0.1),
        )  # fmt: skip
        assert run.status in ("rounds", "no quorum")


def test_without_any_held_out_rows_a_run_does_not_begin() -> None:
    with pytest.raises(ConfigError, match="no client has held-out rows"):
        fs.run(STEPS, sites(), rounds=3, evaluation=fs.Evaluation(LOSS), participation=POLICY)
    with pytest.raises(ConfigError, match="no client has 500 rows"):
        fs.run(STEPS, one_holds(), rounds=3, evaluation=fs.Evaluation(LOSS, least=500))


def test_a_client_whose_figures_are_no_numbers_is_named_in_the_row(monkeypatch: Any) -> None:
    clients = fs.data.hold_out(sites(), 0.5)
    true = steps.summed

    def lying(loss: Any, held: fs.Client, *rest: Any) -> Any:
        found = true(loss, held, *rest)
        return replace(found, totals=found.totals * np.nan) if held.name == "c1" else found

    monkeypatch.setattr(steps, "summed", lying)
    run = fs.run(STEPS, clients, rounds=3, tolerance=0, evaluation=fs.Evaluation(LOSS), participation=POLICY)
    for row in run.history:
        assert row.held_out is None or "c1" in dict(row.missing)
    assert run.evaluation is not None
    assert run.evaluation.missing == ("c1",)


# ── patience ──


@dataclass(frozen=True)
class Lost:
    lost: dict[str, tuple[int, str]]


class Fed:
    """A federation of four clients of equal weight, of which one is lost."""

    clients = ("c0", "c1", "c2", "c3")
    participation, objective = POLICY, 0.75

    def __init__(self) -> None:
        self.away = "c0"

    def position(self) -> Lost:
        return Lost({self.away: (1, "gone")})


def test_values_of_other_clients_are_not_compared() -> None:
    """c0 is away, then c1: the share is the same, the objective is not."""
    fed: Any = Fed()
    waiting = fs.Patience(3).prepare(fed, STEPS, None)
    row = Row(1, value=1.0, measured_share=0.75)
    assert waiting.judge(row, "a") is None
    fed.away = "c1"
    assert waiting.judge(replace(row, round=2, value=5.0), "b") is None
    assert waiting.kept is not None
    assert (waiting.kept.state, waiting.kept.round, waiting.kept.value) == ("b", 2, 5.0)
    waiting.judge(replace(row, round=3, value=6.0), "c")
    assert waiting.at_budget(Verdict("rounds", "")).state == "b"
    fed.away = "c0"
    assert waiting.at_budget(Verdict("rounds", "")).state is None


@pytest.mark.parametrize("status", ["settled", "tolerance unattainable", "no quorum", "diverged", "bytes", "my own"])
def test_however_a_run_ends_it_has_the_best_state(status: str) -> None:
    waiting = fs.Patience(9).prepare(Fed(), STEPS, None)  # type: ignore[arg-type]
    for round, value in enumerate([3.0, 1.0, 2.0]):
        waiting.judge(Row(round, value=value, measured_share=0.75), f"state {round}")
    found = at_the_end(Verdict(status, "the end"), [waiting])
    assert (found.status, found.state, found.round) == (status, "state 1", 1)
    for latest in ("converged", "finished"):
        assert at_the_end(Verdict(latest, ""), [waiting]).state is None


def test_a_settled_run_has_the_best_state() -> None:
    """By held-out rows an early State is the best; the run goes on until the weights hardly change."""
    rng = np.random.default_rng(1)
    clients = []
    for index in range(2):
        X = rng.standard_normal((12, 10))
        clients.append(fs.Client(f"c{index}", X, rng.standard_normal(12)))
    held = [fs.data.with_test_rows(one, rng.standard_normal((30, 10)), np.zeros(30)) for one in clients]
    loss = fs.Squared(l2=1e-6)
    rule = fs.Patience(10_000, evaluation=fs.Evaluation(loss))
    run = fs.run(
        fs.FedAvg(loss, fs.GradientSteps(1, step_size=0.1)), held,
        stopping=[fs.Stopping(500, tolerance=0, change=1e-2), rule],
    )  # fmt: skip
    assert run.status == "settled"
    assert run.rounds > 0
    assert run.model_round == 0
    np.testing.assert_array_equal(run.model.w, np.zeros(10))  # y = 0 is what held-out rows ask for
    # ── and the summary is about that model ──
    summary = summarise(run, "FedAvg")
    assert summary["value"] == run.history[0].value != run.history[-1].value
    assert summary["gradient_norm"] == run.history[0].gradient_norm
    assert f"value {run.history[0].value:.6g}" in repr(run)


def test_the_summary_of_a_row_that_was_not_measured_is_empty() -> None:
    clients = fs.data.hold_out(sites(), 0.5)
    rule = fs.Patience(2, evaluation=fs.Evaluation(LOSS), metric="calibration_error")
    run = fs.run(STEPS, clients, rounds=40, tolerance=0, stopping=rule, measure=0)
    assert run.status == "patience"
    assert run.model_round == run.rounds - 2
    assert summarise(run, "FedAvg")["value"] is None


def test_patience_on_the_value_needs_measuring() -> None:
    with pytest.raises(ConfigError, match="measure=0 measures only at the end"):
        fs.run(STEPS, sites(), rounds=5, stopping=fs.Patience(2), measure=0)


def test_an_auc_that_stays_the_same_is_no_progress() -> None:
    """Weights that only grow leave the order of scores as it is: bins of one exchange would show progress."""
    rng = np.random.default_rng(2)
    clients = []
    for index in range(2):
        x = rng.standard_normal((200, 1))
        clients.append(fs.Client(f"c{index}", x, (x[:, 0] + 0.2 * rng.standard_normal(200) > 0).astype(float)))
    held = fs.data.hold_out(clients, 0.5)
    evaluation = fs.Evaluation(LOSS)
    run = fs.run(
        STEPS, held, rounds=60, tolerance=0, evaluation=evaluation,
        stopping=fs.Patience(4, evaluation=evaluation, metric="auc"),
    )  # fmt: skip
    shown = [row.held_out["auc"] for row in run.history if row.held_out]
    assert max(shown[2:]) > shown[1] + 1e-3  # in coarse bins it seems to get better
    assert (run.status, run.rounds, run.model_round) == ("patience", 5, 1)


def test_patience_may_be_longer_in_a_resumed_run(tmp_path: Any) -> None:
    clients = fs.data.hold_out(sites(), 0.5)

    def rule(rounds: int, every: int) -> fs.Patience:
        return fs.Patience(rounds, evaluation=fs.Evaluation(LOSS, every=every), metric="calibration_error")

    whole = fs.run(STEPS, clients, rounds=60, tolerance=0, stopping=rule(9, 1))
    first = fs.run(STEPS, clients, rounds=3, tolerance=0, stopping=rule(8, 1), checkpoint=tmp_path / "run")
    assert first.status == "rounds"
    again = fs.run(
        STEPS, clients, rounds=60, tolerance=0, stopping=rule(9, 5), checkpoint=tmp_path / "run", resume=True
    )
    assert (again.message, again.rounds) == (whole.message, whole.rounds)
    with pytest.raises(ConfigError, match="which this run does not have"):
        fs.run(STEPS, clients, rounds=60, tolerance=0, checkpoint=tmp_path / "run", resume=True)


def test_the_history_may_ask_at_other_times_in_a_resumed_run(tmp_path: Any) -> None:
    clients = fs.data.hold_out(sites(), 0.5)
    given: Any = {"tolerance": 0, "checkpoint": tmp_path / "run"}
    fs.run(STEPS, clients, rounds=4, evaluation=fs.Evaluation(LOSS, every=1), **given)
    run = fs.run(STEPS, clients, rounds=9, evaluation=fs.Evaluation(LOSS, every=4), resume=True, **given)
    assert [row.round for row in run.history if row.held_out is not None] == [0, 1, 2, 3, 4, 8]
