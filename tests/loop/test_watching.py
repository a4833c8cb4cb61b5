"""Held-out rows in a run: figures in the history, and all of them at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.report.json_values import to_json
from tests.faults.test_lost import Road
from tests.loop.kinds import KMeans
from tests.loop.kinds import clients as clouds
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic, free intercept | unbalanced"]
ALGORITHM = fs.FedAvg(PROBLEM.loss, fs.GradientSteps(2, step_size=0.5))


def held() -> list[fs.Client]:
    return fs.data.hold_out(PROBLEM.clients(), 0.4, 1)


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_every_few_rounds(transport: str) -> None:
    evaluation = fs.Evaluation(PROBLEM.loss, every=3)
    run = fs.run(ALGORITHM, held(), rounds=7, tolerance=0, evaluation=evaluation, transport=transport)
    assert [row.round for row in run.history if row.held_out is not None] == [0, 3, 6]
    at_six = fs.run(ALGORITHM, held(), rounds=6, tolerance=0).model
    found = fs.evaluate(at_six, held(), PROBLEM.loss)
    row = run.history[6].held_out
    assert row is not None
    for name in ("value", "accuracy", "brier", "deviance", "calibration_error"):
        assert row[name] == pytest.approx(getattr(found, name), rel=1e-12)
    assert abs(row["auc"] - found.auc) <= row["auc_error"] + found.auc_error
    final = fs.evaluate(run.model, held(), PROBLEM.loss)
    assert run.evaluation is not None
    assert run.evaluation.plain() == final.plain()
    assert json.loads(to_json(run.history[6]))["held_out"]["accuracy"] == row["accuracy"]


def test_it_changes_nothing_in_the_run() -> None:
    plain = fs.run(ALGORITHM, held(), rounds=5, tolerance=0)
    watched = fs.run(ALGORITHM, held(), rounds=5, tolerance=0, evaluation=fs.Evaluation(PROBLEM.loss))
    assert watched.model.w.tobytes() == plain.model.w.tobytes()
    assert watched.history[-1].bytes_up == plain.history[-1].bytes_up  # it is counted as measuring
    assert watched.ledger.total("algorithm") == plain.ledger.total("algorithm")


def test_with_preprocessing_and_patience() -> None:
    evaluation = fs.Evaluation(PROBLEM.loss)
    run = fs.run(
        ALGORITHM, held(), rounds=40, tolerance=0, evaluation=evaluation, preprocess=fs.data.Preprocess(),
        stopping=fs.Patience(2, evaluation=evaluation),
    )  # fmt: skip
    values = [row.held_out["value"] for row in run.history if row.held_out]
    assert run.evaluation is not None
    assert run.evaluation.value == pytest.approx(min(values), rel=1e-12)  # of the State that is handed back


def test_a_resumed_run_asks_for_no_row_twice(tmp_path: Path) -> None:
    evaluation = fs.Evaluation(PROBLEM.loss, every=2)

    def run(rounds: int, **more: Any) -> fs.Run:
        return fs.run(ALGORITHM, held(), rounds=rounds, tolerance=0, evaluation=evaluation, **more)

    whole = run(7)
    run(4, checkpoint=tmp_path / "run")
    again = run(7, checkpoint=tmp_path / "run", resume=True)
    assert [row.held_out for row in again.history] == [row.held_out for row in whole.history]

    def asked(one: fs.Run) -> int:
        records = (record for record in one.ledger.records if record.round < 7)
        return sum("evaluation.held_figures" in record.calls for record in records)

    assert asked(again) == asked(whole)
    assert again.evaluation is not None
    assert whole.evaluation is not None
    assert again.evaluation.plain() == whole.evaluation.plain()


def test_models_without_weights() -> None:
    run = fs.run(KMeans(), fs.data.hold_out(clouds(), 0.3), rounds=3, evaluation=fs.Evaluation(fs.Squared()))
    assert run.evaluation is not None
    assert all(row.held_out is not None for row in run.history)
    X = np.concatenate([one.held.X for one in fs.data.hold_out(clouds(), 0.3)])
    assert run.evaluation.deviance == pytest.approx(np.mean(run.model.predict(X) ** 2.0))
    with pytest.raises(ConfigError, match="this run preprocesses them"):
        fs.run(
            KMeans(), fs.data.hold_out(clouds(), 0.3), rounds=3, evaluation=fs.Evaluation(fs.Squared()),
            preprocess=fs.data.Preprocess(),
        )  # fmt: skip


def test_mistakes_end_the_run_before_its_first_round() -> None:
    with pytest.raises(ConfigError, match="no client has held-out rows"):
        fs.run(ALGORITHM, PROBLEM.clients(), evaluation=fs.Evaluation(PROBLEM.loss))
    with pytest.raises(ConfigError, match="evaluation is an Evaluation"):
        fs.run(ALGORITHM, held(), evaluation=PROBLEM.loss)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"shape \(7,\), this loss needs \(6,\)"):
        fs.run(ALGORITHM, held(), evaluation=fs.Evaluation(fs.Logistic()))


def test_a_run_that_diverges_ends_as_such() -> None:
    loss = fs.Squared(l2=1e-2)
    clients = fs.data.hold_out(PROBLEMS["squared | unbalanced"].clients(), 0.4)
    run = fs.run(
        fs.FedAvg(loss, fs.GradientSteps(5, step_size=1e30)), clients, rounds=50, evaluation=fs.Evaluation(loss),
        stopping=fs.Patience(60, evaluation=fs.Evaluation(loss)),
    )  # fmt: skip
    assert run.status == "diverged"


def test_an_absent_client_does_not_lose_what_was_learned() -> None:
    """It is missing from some rows, which say so; and if it is gone at the end, the run says so too."""
    road = Road(held(), {held()[0].name: range(4, 6)})
    run = fs.run(
        ALGORITHM, road, rounds=5, tolerance=0, evaluation=fs.Evaluation(PROBLEM.loss),
        participation=fs.Participation(deadline=1.0, quorum=0.2),
    )  # fmt: skip
    shares = [row.held_out.get("share", 1.0) for row in run.history if row.held_out]
    assert shares[:4] == [1.0] * 4
    assert shares[-1] < 1.0
    assert run.status == "rounds"
    lost = run.evaluation is not None and run.evaluation.missing == (held()[0].name,)
    assert lost or "held-out rows could not be asked" in run.message
