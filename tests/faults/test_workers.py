"""Worker processes that are stopped or killed: nobody waits for ever, nothing is lost, nothing is wrong."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError, MemoryLost, QuorumNotReached, TransportError
from fedsolve.federation.transports import InProcess, Processes, pool, processes
from fedsolve.wire.encoding import REQUEST, Part, Preamble
from fedsolve.wire.messages import Request
from tests.faults.working import STEPS, children, clients, federation, is_there, kill, stop, wait_until, within
from tests.problems import PROBLEMS

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="stopped processes are told by /proc")

LARGE = 2**18  # numbers: 2 MB, more than a connection holds


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


# ── stopped ──


def test_close_ends_a_worker_that_is_stopped() -> None:
    with federation() as (_, transport), within(30):
        pids = transport.pids
        stop(pids[0])
        transport.close()
        assert not any(is_there(pid) for pid in pids)


def test_close_ends_a_worker_that_computes() -> None:
    with federation(deadline=0.2, quorum=0.0) as (fed, transport), within(30):
        with pytest.raises(QuorumNotReached, match=r"Missing: c0, c1, c2, c3 \(no answer within 0.2 s\)"):
            fed.gather(STEPS.sleep, seconds=600.0)
        transport.close()


def test_memories_are_had_without_a_worker_that_is_stopped() -> None:
    with federation() as (fed, transport), within(30):
        fed.gather(STEPS.count)
        stop(transport.pids[0])
        memories = transport.memories()
        assert memories is not None
        assert all(versions[max(versions)]["steps:count"] == 1 for versions in memories.values())


def test_restoring_does_not_wait_for_a_worker_that_is_stopped() -> None:
    with federation() as (fed, transport), within(60):
        fed.gather(STEPS.remember, size=LARGE)
        memories = transport.memories()
        assert memories is not None
        stop(transport.pids[0])
        transport.restore(memories, 1)
        os.kill(transport.pids[0], signal.SIGCONT)
        assert fed.gather(STEPS.count) == dict.fromkeys(transport.names, 1)


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_stopped_worker_is_missing_at_the_deadline_and_back_when_it_goes_on(size: int) -> None:
    with federation(deadline=4.0) as (fed, transport), within(60):
        stop(transport.pids[0])
        assert list(fed.gather(STEPS.take, array=np.arange(size))) == ["c1", "c3"]
        assert "is stopped" in transport.absences["c0"]
        os.kill(transport.pids[0], signal.SIGCONT)
        fed.begin_round(2)
        assert list(fed.gather(STEPS.take, array=np.arange(size))) == ["c0", "c1", "c2", "c3"]


def test_a_stopped_worker_costs_one_deadline_and_not_one_each_exchange() -> None:
    deadline = 3.0
    with federation(deadline=deadline) as (fed, transport), within(60):
        stop(transport.pids[0])
        began = time.monotonic()
        for round_ in range(1, 10):
            fed.begin_round(round_)
            assert list(fed.gather(STEPS.count)) == ["c1", "c3"]
        assert time.monotonic() - began < 4 * deadline


@pytest.mark.parametrize("size", [1, LARGE])
def test_without_a_deadline_a_stopped_worker_is_missing_after_a_while(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LOOK_SECONDS", 0.05)
    with federation() as (fed, transport), within(60):
        stop(transport.pids[0])
        assert list(fed.gather(STEPS.take, array=np.arange(size))) == ["c1", "c3"]


def test_a_worker_stopped_while_it_writes_a_large_reply() -> None:
    with federation(count=1, workers=1) as (_, transport), within(60):
        (pid,) = transport.pids
        head = Preamble(REQUEST, attempt=1, round=1, number=2, used=1, keep=1)
        large = Request(head, Part.plain([["steps", "give", "algorithm", "gather "]]), (Part({"size": LARGE}),))
        assert list(transport.deliver({"c0": large}, 0.001)) == []
        connection = transport._workers[0].channel.socket
        wait_until(lambda: bool(select.select([connection], [], [], 0)[0]))  # it has begun to write
        stop(pid)
        assert list(transport.deliver({"c0": large}, 0.5)) == []
        assert "is stopped" in transport.absences["c0"]
        os.kill(pid, signal.SIGCONT)
        ((name, answer),) = transport.deliver({"c0": large}, None)
        assert (name, answer.results[0].value.size) == ("c0", LARGE)


# ── killed ──


def test_a_killed_worker_is_started_again_with_its_clients_memories() -> None:
    with federation() as (fed, transport), within(60):
        for expected in (1, 2):
            assert fed.gather(STEPS.count) == dict.fromkeys(transport.names, expected)
        killed = transport.pids
        for index in range(2):
            kill(transport, index)
        assert fed.gather(STEPS.count) == dict.fromkeys(transport.names, 3)
        assert not set(killed) & set(transport.pids)


def test_memory_is_restored_as_of_the_reply_that_counted() -> None:
    """What a reply that was taken back, or lost with its worker, changed in the memory is not restored."""
    with federation() as (fed, transport), within(60):
        fed.gather(STEPS.count)
        fed.gather(STEPS.count)
        fed.take_back()
        kill(transport, 1)
        assert fed.gather(STEPS.count) == dict.fromkeys(transport.names, 2)
        fed.begin_round(2)
        assert list(fed.gather(STEPS.leave, name="c0", code=3)) == ["c1", "c3"]
        fed.begin_round(3)
        assert fed.gather(STEPS.count) == dict.fromkeys(transport.names, 3)


def test_a_worker_that_dies_just_after_its_reply() -> None:
    """The reply counts, so what it changed in the memory is there in the next process."""
    with federation(count=1, workers=1) as (fed, transport), within(60):
        fed.gather(STEPS.count)
        channel = transport._workers[0].channel
        send = channel.send

        def send_and_kill(*arguments: bytes) -> None:
            send(*arguments)
            wait_until(lambda: bool(select.select([channel.socket], [], [], 0)[0]))
            kill(transport, 0)

        channel.send = send_and_kill  # type: ignore[method-assign]
        assert fed.gather(STEPS.count) == {"c0": 2}
        assert fed.gather(STEPS.count) == {"c0": 3}


def test_answers_that_nobody_takes_in_leave_their_workers_free() -> None:
    with federation() as (fed, _), within(60):
        for _ in range(20):
            with pytest.raises(ClientError, match="on purpose"):
                fed.gather(STEPS.fail)
            time.sleep(0.01)  # for both workers to have answered by the next exchange
            assert len(fed.gather(STEPS.count)) == 4


def test_a_worker_that_cannot_be_started_again_leaves_its_clients_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    with federation() as (fed, transport), within(60):
        kill(transport, 0)
        monkeypatch.setattr(pool, "Forked", fails)
        assert list(fed.gather(STEPS.count)) == ["c1", "c3"]
        assert "could not be started: Resource temporarily unavailable" in transport.absences["c0"]
        fed.begin_round(2)
        assert list(fed.gather(STEPS.count)) == ["c1", "c3"]
    with pytest.raises(TransportError, match="could not be started"):
        Processes(clients(), workers=2, start="fork").open({})


def test_who_dies_is_missing_and_the_quorum_decides() -> None:
    with federation() as (fed, transport), within(60):
        assert fed.gather(STEPS.leave, name="c2", code=3) == {"c0": "c0", "c1": "c1", "c3": "c3"}
        assert transport.absences == {"c2": "its worker process ended with exit code 3"}
    expected = pytest.raises(QuorumNotReached, match=r"c2 \(its worker process ended with exit code 3\) did not")
    with federation(quorum=1.0) as (fed, _), within(60), expected:
        fed.gather(STEPS.leave, name="c2", code=3)
    with federation(retries=1) as (fed, transport), within(60):  # whoever is asked again may be there again
        assert list(fed.gather(STEPS.leave, name="c0", code=3)) == ["c1", "c2", "c3"]


def test_a_client_that_always_kills_its_worker_is_not_asked_for_ever() -> None:
    with federation() as (fed, transport), within(60):
        workers = []
        for round_ in range(1, 7):
            fed.begin_round(round_)
            # Only the first time is it asked before the other client of its worker.
            there = ["c1", "c3"] if round_ == 1 else ["c1", "c2", "c3"]
            assert list(fed.gather(STEPS.leave, name="c0", code=3)) == there
            workers.append(transport.pids)
        assert "3 times in a row" in dict(fed.missing)["c0"]
        assert len(set(workers)) == 3


def test_a_worker_whose_clients_all_kill_it_is_not_started_for_ever() -> None:
    with federation(count=12) as (fed, transport), within(60):
        workers = []
        for round_ in range(1, 10):
            fed.begin_round(round_)
            assert list(fed.gather(STEPS.leave_in, worker=transport.names[::2])) == list(transport.names[1::2])
            workers.append(transport.pids)
        assert "5th in a row" in dict(fed.missing)["c0"]
        assert len(set(workers)) == 5
        assert len(transport.pids) == 1


def test_a_worker_killed_while_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    class Doomed(pool.Forked):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            started.append(self.pid)
            if len(started) < 4:
                os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(pool, "Forked", Doomed)
    with federation() as (fed, _), within(60):
        assert len(fed.gather(STEPS.count)) == 4
        assert len(started) == 5


def test_workers_that_die_whenever_they_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doomed(pool.Forked):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(pool, "Forked", Doomed)
    with within(60), pytest.raises(TransportError, match=r"should hold c\d.*was killed by SIGKILL, the 5th in a row"):
        Processes(clients(), workers=2, start="fork").open({})


def test_a_worker_killed_while_a_run_is_set_up_is_named() -> None:
    expected = pytest.raises(QuorumNotReached, match=r"and c0, c2 \(its worker process ended with exit code 3\)")
    with federation() as (fed, _), within(60), fed.setting_up(), expected:
        fed.gather(STEPS.leave, name="c0", code=3)


def test_a_memory_that_could_not_be_copied_is_lost_and_not_wrong() -> None:
    with federation() as (fed, transport), within(60):
        fed.gather(STEPS.remember_path)
        fed.gather(STEPS.take, array=np.ones(1))  # as long as the worker lives, its clients remember
        kill(transport, 0)
        with pytest.raises(MemoryLost, match="client 'c0'"):
            fed.gather(STEPS.count)


def test_a_run_goes_on_without_the_clients_of_a_worker_that_dies() -> None:
    transport = Processes(clients(), workers=2)

    def kill_one(row: object) -> None:
        if row.round == 3:  # type: ignore[attr-defined]
            os.kill(transport.pids[0], signal.SIGKILL)

    with within(60):
        result = fs.run(fs.Scaffold(fs.Squared(l2=0.1)), transport, rounds=8, tolerance=0.0, on_round=kill_one)
    assert result.rounds == 8
    replayed = fs.run(
        fs.Scaffold(fs.Squared(l2=0.1)),
        InProcess(clients(), threads=1),
        rounds=8,
        tolerance=0.0,
        participation=fs.Replay(cohorts=result.ledger.cohorts()),
    )
    assert np.array_equal(result.model.w, replayed.model.w)


# ── Ctrl-C, and a server that is killed ──

SERVER = """
import os, signal, sys
from tests.faults.working import STEPS, federation

with federation({policy}) as (fed, transport):
    os.kill(transport.pids[0], signal.SIGSTOP)
    print(*transport.pids, flush=True)
    fed.gather(STEPS.{step})
"""


@pytest.mark.parametrize("step", ["sleep, seconds=600.0", "give, size=2**24"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_is_interrupted_or_killed_leaves_no_process(step: str, how: signal.Signals) -> None:
    """Also those that are stopped end."""
    script = SERVER.format(policy="deadline=600.0", step=step)
    server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with within(60):
        assert server.stdout is not None
        pids = [int(word) for word in server.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.2)
        server.send_signal(how)
        server.wait()
        server.stdout.close()
        wait_until(lambda: not any(is_there(pid) for pid in pids))


# ── at random ──

PROBLEM = PROBLEMS["logistic | unbalanced"]
ALGORITHMS = [
    fs.Newton(PROBLEM.loss),
    fs.FedNewtonCG(PROBLEM.loss),
    fs.Scaffold(PROBLEM.loss, fs.GradientSteps(steps=5, step_size=0.3, batch_size=8)),
    fs.SHED(PROBLEM.loss),
    fs.FedNL(PROBLEM.loss),
]


class Torment:
    """Stops, continues and kills workers at random moments: between any two instructions of the server."""

    def __init__(self, transport: Processes, seed: int) -> None:
        self.transport, self.rng = transport, np.random.default_rng(seed)
        self.stopped = self.killed = 0

    def __enter__(self) -> Torment:
        self.before = signal.signal(signal.SIGALRM, self.strike)
        self.until = time.monotonic() + 120
        return self

    def begin(self, row: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + float(self.rng.exponential(0.15)))

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    def strike(self, *_: object) -> None:
        if time.monotonic() > self.until:
            raise TimeoutError("the run does not end")
        pids = self.transport.pids
        if pids:
            victim = int(self.rng.choice(pids))
            action = self.rng.choice(["stop", "go on", "go on", "kill"])
            self.stopped += action == "stop"
            self.killed += action == "kill"
            os.kill(victim, {"stop": signal.SIGSTOP, "go on": signal.SIGCONT, "kill": signal.SIGKILL}[action])
        signal.setitimer(signal.ITIMER_REAL, 0.001 + float(self.rng.exponential(0.15)))


def tormented(seed: int) -> tuple[Torment, int]:
    """A run whose workers are stopped and killed, against a replay; the faults, and how many clients were missing."""

    def parts() -> list[fs.Client]:
        return fs.data.partition(PROBLEM.X, PROBLEM.y, fs.data.QuantitySkew(1.0), clients=7, seed=2)

    algorithm, before = ALGORITHMS[seed % len(ALGORITHMS)], children()
    transport = Processes(parts(), workers=3, start="spawn" if seed % 3 == 0 else "fork")
    policy = fs.Participation(deadline=0.5, quorum=0.2)
    with Torment(transport, seed) as torment:
        result = fs.run(
            algorithm, transport, rounds=15, tolerance=0.0, seed=seed, participation=policy, on_round=torment.begin
        )
    assert children() <= before
    cohorts = result.ledger.cohorts()
    missed = re.match(r"round (\d+): ", result.message)  # the quorum
    replay = fs.run(
        algorithm,
        InProcess(parts(), threads=1),
        rounds=15 if missed is None else int(missed[1]) - 1,
        tolerance=0.0,
        seed=seed,
        participation=fs.Replay(cohorts=cohorts),
    )
    assert np.array_equal(result.model.w, replay.model.w)
    rounds = [record for record in result.ledger.records if "setup" not in record.purposes]
    return torment, sum(len(record.asked) - len(record.answered) for record in rounds)


@pytest.mark.parametrize("seed", range(5))
def test_workers_stopped_and_killed_at_random(seed: int) -> None:
    tormented(seed)


@pytest.mark.slow
def test_workers_stopped_and_killed_at_random_in_fifty_runs() -> None:
    stopped = killed = missing = runs = 0
    # How many stops fit into a run depends on the machine: fifty runs, and as many more as make fifty of each.
    while runs < 50 or (min(stopped, killed, missing) < 50 and runs < 150):
        torment, lost = tormented(100 + runs)
        stopped, killed, missing = stopped + torment.stopped, killed + torment.killed, missing + lost
        runs += 1
    print(f"{runs} runs, {stopped} stops, {killed} kills, {missing} answers missing")
    assert min(stopped, killed, missing) >= 50
