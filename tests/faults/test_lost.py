"""A client that is lost is not waited for in every round, and is invited again when it comes back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation.attendance import LONG
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.loop.history import Row
from fedsolve.wire.messages import Failure, Reply, Request
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["squared | unbalanced"]
LOGISTIC = PROBLEMS["logistic | unbalanced"]
POLICY = fs.Participation(deadline=1.0, quorum=0.5)


def clients(problem: Any = PROBLEM, count: int = 4) -> list[fs.Client]:
    return fs.data.partition(problem.X, problem.y, fs.data.IID(), clients=count, seed=2)


class Road:
    """A transport on which some clients are gone in some rounds; the waiting is counted, and not done.

    slow  clients that answer, but only after the deadline: what they said comes with the next exchange
    """

    def __init__(self, made: list[fs.Client], gone: Mapping[str, range], slow: bool = False) -> None:
        self.inner, self.gone, self.slow = InProcess(made), dict(gone), slow
        self.waits: list[int] = []  # the rounds in which a deadline was waited for
        self.asked: list[tuple[int, str]] = []
        self.held: list[tuple[str, Reply | Failure]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    def open(self, protocols: Mapping[str, Any]) -> None:
        self.inner.open(protocols)

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterable[tuple[str, Reply | Failure]]:
        round_ = next(iter(requests.values())).preamble.round
        away = {name for name in requests if round_ in self.gone.get(name, ())}
        self.asked += [(round_, name) for name in away]
        late, self.held = self.held, []
        if self.slow:
            self.held = list(self.inner.deliver({name: requests[name] for name in away}, deadline))
        if away and (deadline is None or deadline > 0):
            self.waits.append(round_)
        here = {name: one for name, one in requests.items() if name not in away}
        return [*late, *self.inner.deliver(here, deadline)]

    def memories(self) -> Any:
        return self.inner.memories()

    def restore(self, memories: Any, attempt: int) -> None:
        self.inner.restore(memories, attempt)

    def close(self) -> None:
        self.inner.close()


def others() -> np.ndarray:
    """The minimiser of the objective of all clients but client-2."""
    here = [client for client in clients() if client.name != "client-2"]
    return fs.run(fs.Newton(PROBLEM.loss), here).model.w


def test_lost_for_good() -> None:
    road = Road(clients(), {"client-2": range(3, 1000)})
    algorithm = fs.FedNewtonCG(PROBLEM.loss)
    result = fs.run(algorithm, road, rounds=30, participation=POLICY, tolerance=1e-12)
    assert result.converged
    assert len(road.waits) <= 2
    assert result.message.endswith(
        "This is the objective of client-0, client-1, client-3, with 75% of the total weight; lost: client-2 (since "
        "round 4: no answer within 1 s)"
    )
    np.testing.assert_allclose(result.model.w, others(), rtol=1e-8, atol=1e-10)
    # A fresh gradient is asked for where the recurrence begins: at the start, and when the cohort has changed.
    begun = [record.round for record in result.ledger.records if "algorithm.local_gradient" in record.calls]
    assert len(begun) <= 4
    assert not [round_ for round_ in begun if round_ > 6]
    for row in result.history[5:]:
        assert dict(row.missing)["client-2"] == "lost in round 4: no answer within 1 s"
        assert row.cohort == 3
    # Nothing of it was lost or invented: a replay of the cohorts has the same bits.
    policy = fs.Replay(cohorts=result.ledger.cohorts())
    replay = fs.run(algorithm, clients(), rounds=result.rounds, participation=policy, tolerance=0)
    assert np.array_equal(result.model.w, replay.model.w)


def test_lost_for_good_with_an_algorithm_that_goes_on_for_thirty_rounds() -> None:
    road = Road(clients(LOGISTIC), {"client-2": range(3, 1000)})
    result = fs.run(fs.FedAvg(LOGISTIC.loss), road, rounds=30, participation=POLICY, tolerance=0)
    assert result.rounds == 30
    assert len(road.waits) <= 2
    assert [row.cohort for row in result.history[4:]] == [3] * 27


def test_a_long_silence_is_waited_for_at_growing_intervals() -> None:
    road = Road(clients(LOGISTIC), {"client-2": range(3, 1000)})
    fs.run(fs.FedAvg(LOGISTIC.loss), road, rounds=4 * LONG, participation=POLICY, tolerance=0, measure=0)
    assert road.waits == [3, 4, 4 + LONG, 4 + 3 * LONG, 4 * LONG][: len(road.waits)]
    assert len(road.waits) >= 4


@pytest.mark.parametrize("slow", [False, True])
def test_a_client_that_comes_back_is_invited_again(slow: bool) -> None:
    road = Road(clients(), {"client-2": range(3, 9)}, slow)
    result = fs.run(fs.FedNewton(PROBLEM.loss), road, rounds=30, participation=POLICY, tolerance=1e-10)
    sizes = [row.cohort for row in result.history]
    assert sizes[3:8] == [3] * 5
    assert sizes[-1] == 4
    assert result.converged
    assert "objective of" not in result.message
    np.testing.assert_allclose(result.model.w, fs.run(fs.Newton(PROBLEM.loss), clients()).model.w, rtol=1e-7)


def test_one_silence_is_not_a_loss() -> None:
    road = Road(clients(), {"client-2": range(3, 4)})
    result = fs.run(fs.FedNewton(PROBLEM.loss), road, rounds=5, participation=POLICY, tolerance=0)
    assert [row.cohort for row in result.history] == [4, 4, 4, 3, 4, 4]
    assert dict(result.history[3].missing) == {"client-2": "no answer within 1 s"}


def test_without_a_quorum_a_run_does_not_converge_on_the_objective_of_some() -> None:
    road = Road(clients(), {"client-2": range(3, 1000)})
    policy = fs.Participation(deadline=1.0)
    result = fs.run(fs.FedNewton(PROBLEM.loss), road, rounds=30, participation=policy)
    assert not result.converged
    assert len(road.waits) <= 2


def test_all_are_lost() -> None:
    road = Road(clients(), {f"client-{index}": range(3, 1000) for index in range(4)})
    result = fs.run(fs.FedNewton(PROBLEM.loss), road, rounds=30, participation=POLICY, tolerance=0)
    assert result.status == "no quorum"
    assert result.rounds == 2


def test_lost_clients_are_not_waited_for_where_there_is_no_deadline() -> None:
    """Lost because it failed, then gone for good: a transport would wait for it for ever."""

    @dataclass(frozen=True)
    class Failing(fs.FedAvg):
        @fs.client_step
        def local_update(self, client: fs.Client, w: np.ndarray, step_size: float) -> np.ndarray:
            if client.name == "client-2":
                raise RuntimeError("the disk is full")
            return super().local_update(client, w, step_size)

    road = Road(clients(LOGISTIC), {"client-2": range(3, 1000)})
    policy = fs.Participation(quorum=0.5)
    result = fs.run(Failing(LOGISTIC.loss), road, rounds=12, participation=policy, tolerance=0)
    assert result.rounds == 12
    assert road.asked
    assert not road.waits


@pytest.mark.parametrize("from_round", [3, 12])
def test_a_resumed_run_with_the_client_still_gone_goes_on(tmp_path: Path, from_round: int) -> None:
    """Gone before the checkpoint, or after it: then it misses the joining."""
    path, algorithm = tmp_path / "run", fs.FedAvg(LOGISTIC.loss)
    options: dict[str, Any] = {"participation": POLICY, "tolerance": 0, "checkpoint": path}
    road = Road(clients(LOGISTIC), {"client-2": range(from_round, 1000)})
    fs.run(algorithm, road, rounds=10, **options)
    road = Road(clients(LOGISTIC), {"client-2": range(from_round if from_round < 10 else 0, 1000)})
    resumed = fs.run(algorithm, road, rounds=20, resume=True, **options)
    assert resumed.rounds == 20
    assert [row.cohort for row in resumed.history[11:]] == [3] * 10
    assert len(road.waits) <= 1
    if from_round == 3:
        road = Road(clients(LOGISTIC), {"client-2": range(3, 1000)})
        whole = fs.run(algorithm, road, rounds=20, participation=POLICY, tolerance=0)
        assert np.array_equal(whole.model.w, resumed.model.w)


def test_a_client_that_comes_back_to_a_resumed_run_joins_it(tmp_path: Path) -> None:
    path, algorithm = tmp_path / "run", fs.FedAvg(LOGISTIC.loss)
    options: dict[str, Any] = {"participation": POLICY, "tolerance": 0, "checkpoint": path}
    fs.run(algorithm, Road(clients(LOGISTIC), {"client-2": range(3, 1000)}), rounds=10, **options)
    road = Road(clients(LOGISTIC), {"client-2": range(0, 14)})
    resumed = fs.run(algorithm, road, rounds=20, resume=True, **options)
    assert [row.cohort for row in resumed.history[9:]] == [3] * 5 + [4] * 7


def test_resuming_without_a_quorum_needs_everyone(tmp_path: Path) -> None:
    path, algorithm = tmp_path / "run", fs.FedAvg(LOGISTIC.loss)
    fs.run(algorithm, clients(LOGISTIC), rounds=3, checkpoint=path, tolerance=0)
    road = Road(clients(LOGISTIC), {"client-2": range(0, 1000)})
    with pytest.raises(fs.errors.QuorumNotReached, match="client-2"):
        fs.run(algorithm, road, rounds=6, checkpoint=path, resume=True)


def test_a_client_that_is_missing_when_a_run_begins_ends_it() -> None:
    road = Road(clients(), {"client-2": range(0, 1000)})
    with pytest.raises(fs.errors.QuorumNotReached, match=r"everyone must take part.*client-2"):
        fs.run(fs.FedNewton(PROBLEM.loss), road, participation=POLICY)


def test_one_that_comes_back_with_other_data_stays_out() -> None:
    made = clients()
    road = Road(made, {"client-2": range(3, 6)})

    def swap(row: Row) -> None:
        if row.round == 4:
            made[2].weight *= 2

    result = fs.run(fs.FedNewton(PROBLEM.loss), road, rounds=9, participation=POLICY, tolerance=0, on_round=swap)
    assert [row.cohort for row in result.history[3:]] == [3] * 7
    assert "data must not change" in dict(result.history[-1].missing)["client-2"]


# ── worker processes ──


@pytest.fixture
def workers() -> Iterator[Processes]:
    transport = Processes(clients(LOGISTIC), workers=4, start="fork")
    yield transport
    for pid in transport.pids:
        os.kill(pid, signal.SIGCONT)
    transport.close()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there are no stopped processes here")
def test_a_stopped_worker_costs_one_deadline_and_is_back_when_it_is_continued(workers: Processes) -> None:
    def stop_and_go(row: Row) -> None:
        if row.round == 2:
            os.kill(workers.pids[2], signal.SIGSTOP)
        if row.round == 20:
            os.kill(workers.pids[2], signal.SIGCONT)

    began = time.monotonic()
    result = fs.run(
        fs.FedAvg(LOGISTIC.loss), workers, rounds=30, participation=POLICY, tolerance=0, on_round=stop_and_go
    )
    sizes = [row.cohort for row in result.history]
    assert set(sizes[4:20]) == {3}
    assert set(sizes[24:]) == {4}
    assert time.monotonic() - began < 12  # of 17 rounds with a deadline of a second
    assert "is stopped" in dict(result.history[10].missing)["client-2"]


@dataclass(frozen=True)
class Hanging(fs.FedAvg):
    """In which one client computes for ever, from round 3 on."""

    @fs.client_step
    def local_update(self, client: fs.Client, w: np.ndarray, step_size: float) -> np.ndarray:
        if client.name == "client-2" and client.moment[1] >= 3:
            time.sleep(600)
        return super().local_update(client, w, step_size)


def test_a_client_that_computes_for_ever_costs_two_deadlines_at_most(workers: Processes) -> None:
    began = time.monotonic()
    result = fs.run(Hanging(LOGISTIC.loss), workers, rounds=30, participation=POLICY, tolerance=0)
    assert {row.cohort for row in result.history[4:]} == {3}
    assert time.monotonic() - began < 15
