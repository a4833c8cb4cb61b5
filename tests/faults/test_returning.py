"""Clients that come back to a run, or to one that is resumed, otherwise than they were, are lost with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedsolve as fs
from fedsolve.loop.history import Row
from tests.faults.test_lost import LOGISTIC, POLICY, Road, clients

ALGORITHM = fs.FedAvg(LOGISTIC.loss)


def test_one_that_comes_back_with_other_data_does_not_keep_another_out() -> None:
    made = clients(LOGISTIC)
    road = Road(made, {"client-2": range(3, 8), "client-3": range(3, 8)})

    def swap(row: Row) -> None:
        if row.round == 5:
            made[2].weight *= 2

    policy = fs.Participation(deadline=1.0, quorum=0.3)
    result = fs.run(ALGORITHM, road, rounds=12, participation=policy, tolerance=0, on_round=swap)
    missing = dict(result.history[-1].missing)
    assert list(missing) == ["client-2"]
    assert "data must not change" in missing["client-2"]
    # It is asked again at growing intervals: refused in 8, then left alone for 2 rounds, for 4.
    asked = [record.round for record in result.ledger.records if record.asked == ("client-2",) and record.round >= 8]
    assert asked == [10]


def interrupted(path: Path, gone: range) -> dict[str, Any]:
    options: dict[str, Any] = {"participation": POLICY, "tolerance": 0, "checkpoint": path}
    fs.run(ALGORITHM, Road(clients(LOGISTIC), {"client-2": gone}), rounds=6, **options)
    return options


def test_a_client_lost_before_the_checkpoint_comes_back_with_another_weight(tmp_path: Path) -> None:
    options = interrupted(tmp_path / "run", range(3, 1000))
    made = clients(LOGISTIC)
    made[2].weight *= 2
    resumed = fs.run(ALGORITHM, Road(made, {"client-2": range(0, 8)}), rounds=12, resume=True, **options)
    assert [row.cohort for row in resumed.history[7:]] == [3] * 6
    assert "joined with weight" in dict(resumed.history[-1].missing)["client-2"]


def test_a_client_that_fails_to_join_a_resumed_run_is_lost(tmp_path: Path) -> None:
    options = interrupted(tmp_path / "run", range(0))
    made = clients(LOGISTIC)
    made[2].y[0] = 3.0
    resumed = fs.run(ALGORITHM, Road(made, {}), rounds=9, resume=True, **options)
    assert [row.cohort for row in resumed.history[7:]] == [3] * 3
    assert "session.join" in dict(resumed.history[-1].missing)["client-2"]


@pytest.mark.parametrize("quorum", [0.0, 0.5, 1.0])
def test_where_all_fail_alike_or_everyone_is_needed_the_error_is_raised(tmp_path: Path, quorum: float) -> None:
    policy = fs.Participation(deadline=1.0, quorum=quorum)
    options: dict[str, Any] = {"participation": policy, "tolerance": 0, "checkpoint": tmp_path / "run"}
    fs.run(ALGORITHM, clients(LOGISTIC), rounds=3, **options)
    made = clients(LOGISTIC)
    for client in made if quorum == 0.5 else made[2:3]:
        client.y[0] = 3.0
    with pytest.raises(fs.errors.FedsolveError, match=r"client-\d"):
        fs.run(ALGORITHM, made, rounds=6, resume=True, **options)
