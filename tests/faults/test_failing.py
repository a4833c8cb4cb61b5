"""A client that fails in every round is lost, like one that is silent, and invited again at growing intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.curvature.increments import Increment
from fedsolve.errors import WrongType
from fedsolve.federation.attendance import Attendance
from fedsolve.numerics.structured_arrays import LowRank
from fedsolve.typing import Array
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic | unbalanced"]
ENOUGH = fs.Participation(quorum=0.5)


@dataclass(frozen=True)
class Failing(fs.Logistic):
    """A loss whose gradient one client cannot compute: in all rounds, or in those before `until`."""

    trouble: str = "raises"
    until: int = 1000

    def gradient(self, client: fs.Client, w: Array) -> Array:
        g = super().gradient(client, w)
        if client.name != "client-2" or not 1 <= client.moment[1] < self.until:
            return g
        if self.trouble == "raises":
            raise RuntimeError("the disk is full")
        return np.full_like(g, np.nan)


def clients() -> list[fs.Client]:
    return fs.data.partition(PROBLEM.X, PROBLEM.y, fs.data.IID(), clients=4, seed=2)


def others() -> Array:
    here = [client for client in clients() if client.name != "client-2"]
    return fs.run(fs.Newton(PROBLEM.loss), here, tolerance=1e-12).model.w


@pytest.mark.parametrize("trouble", ["raises", "NaN"])
@pytest.mark.parametrize("make", [fs.Newton, fs.FedNewtonCG, fs.SHED])
def test_the_run_converges_on_the_objective_of_the_others(make: Any, trouble: str) -> None:
    algorithm = make(Failing(l2=PROBLEM.loss.l2, trouble=trouble))
    result = fs.run(algorithm, clients(), rounds=100, participation=ENOUGH)
    assert result.converged, result.message
    assert "This is the objective of client-0, client-1, client-3, with 75% of the total weight" in result.message
    assert ("the disk is full" if trouble == "raises" else "NaN or infinite") in result.message
    np.testing.assert_allclose(result.model.w, others(), rtol=1e-5, atol=1e-7)
    policy = fs.Replay(cohorts=result.ledger.cohorts())
    replay = fs.run(algorithm, clients(), rounds=result.rounds, participation=policy, tolerance=0)
    assert np.array_equal(result.model.w, replay.model.w)


def test_it_is_invited_again_and_counts_when_it_answers_well() -> None:
    algorithm = fs.FedAvg(Failing(l2=PROBLEM.loss.l2, until=8))
    result = fs.run(algorithm, clients(), rounds=20, participation=ENOUGH, tolerance=0)
    sizes = [row.cohort for row in result.history]
    assert sizes[1:8] == [3] * 7
    assert sizes[-6:] == [4] * 6


def test_intervals_grow() -> None:
    joined = []
    attendance = Attendance()
    for round_ in range(1, 100):
        waited, unwaited = attendance.to_ask(round_, object())  # type: ignore[arg-type]
        if "a" in waited + unwaited:
            attendance.find("a")
            joined.append(round_)
        if "a" not in attendance.lost:
            attendance.note_failures(["b"], {"a": "it failed"}, round_)
    assert joined == [3, 5, 9, 17, 33, 65, 97]


def test_a_failure_now_and_then_is_not_a_loss() -> None:
    attendance = Attendance()
    for round_ in range(1, 40):
        attendance.note_failures(["a", "b"], {}, round_)  # the first exchange of every round is well
        if round_ % 2:
            attendance.note_failures(["b"], {"a": "it failed"}, round_)
    assert not attendance.lost
    attendance.note_failures(["a", "b"], {}, 40)
    attendance.note_failures(["b"], {"a": "it failed"}, 41)
    attendance.note_failures(["a", "b"], {}, 42)
    attendance.note_failures(["b"], {"a": "it failed"}, 42)  # again, though it began the round well
    assert attendance.lost["a"].since == 42


@dataclass(frozen=True)
class Shortened(fs.SHED):
    """SHED in which one client's eigenvectors are a row too short."""

    @fs.client_step
    def local_eigenpairs(self, client: fs.Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        increment = super().local_eigenpairs(client, renewal, count, horizon)
        if client.name != "client-2" or client.moment[1] != 1:
            return increment
        pairs = LowRank(increment.pairs.vectors[:-1], increment.pairs.values)
        return replace(increment, pairs=pairs)


def test_a_gathered_reply_of_the_wrong_shape_makes_its_client_missing() -> None:
    algorithm = Shortened(PROBLEM.loss)
    result = fs.run(algorithm, clients(), rounds=30, participation=ENOUGH)
    assert result.converged
    short = [dict(row.missing).get("client-2", "") for row in result.history]
    assert any("eigenvectors of shape" in reason for reason in short)
    with pytest.raises(WrongType, match=r"client 'client-2': eigenvectors of shape"):
        fs.run(algorithm, clients(), rounds=30)
