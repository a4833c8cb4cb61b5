"""Memory is kept by protocol: two protocols that remember the same word do not meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError, StorageError
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.federation import Federation
from fedsolve.federation.memory_store import MemoryStore
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.typing import Array
from tests.core.federations import clients
from tests.faults.faulty import FaultyRoad, until_done
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic | unbalanced"]


@dataclass(frozen=True)
class Remembering:
    """Remembers w, and whatever else it is told to."""

    number: int = 0

    @fs.client_step
    def keep(self, client: fs.Client, w: float) -> float:
        client.memory["w"] = w
        client.memory["columns"] = w  # a word of the library's own
        client.memory["transform"] = w
        return w

    @fs.client_step
    def recall(self, client: fs.Client) -> float:
        return float(client.memory["w"])

    @fs.client_step
    def words(self, client: fs.Client) -> int:
        return len(client.memory) + 100 * ("w" in client.memory)

    @fs.client_step
    def drop(self, client: fs.Client) -> float:
        del client.memory["w"]
        return 0.0


@dataclass(frozen=True)
class Holding:
    inner: Remembering = field(default_factory=lambda: Remembering(2))

    @fs.client_step
    def recall(self, client: fs.Client) -> float:
        return float(client.memory["w"])


@pytest.mark.parametrize("kind", [InProcess, Processes])
def test_two_protocols_that_remember_the_same_word_do_not_meet(kind: type) -> None:
    one, holding = Remembering(1), Holding()
    protocols = {"one": one, "other": holding, "other.inner": holding.inner}
    transport = kind(clients())
    transport.open(protocols)
    try:
        fed = Federation(transport, protocols)
        fed.join()
        fed.begin_round(1)
        fed.sum(one.keep, w=1.0)
        assert fed.mean(one.words) == 103
        assert fed.mean(holding.inner.words) == 0
        fed.exchange(fs.Sum(holding.inner.keep, w=2.0), fs.Sum(one.words))
        assert fed.exchange(fs.Mean(one.recall), fs.Mean(holding.inner.recall)) == (1.0, 2.0)
        with pytest.raises(ClientError, match=r"remembers no 'w'"):
            fed.mean(holding.recall)
        fed.sum(one.drop)
        assert fed.mean(holding.inner.recall) == 2.0
        with pytest.raises(ClientError, match=r"remembers no 'w'"):
            fed.mean(one.recall)
    finally:
        transport.close()


@dataclass(frozen=True)
class Search:
    """A field of an algorithm that remembers the same word as the algorithm."""

    @fs.client_step
    def note(self, client: fs.Client, w: Array) -> float:
        before = client.memory.get("w")
        client.memory["w"] = -w
        return 0.0 if before is None else float(before[0])


@dataclass(frozen=True)
class State:
    w: Array
    sums: tuple[float, ...]


@dataclass(frozen=True)
class Algorithm:
    loss: fs.Logistic
    search: Search = field(default_factory=Search)

    @fs.client_step
    def gradient(self, client: fs.Client, w: Array) -> Array:
        before = client.memory.get("w")
        client.memory["w"] = w
        return self.loss.gradient(client, w if before is None else 0.5 * (w + before))

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss), ())

    def round(self, fed: fs.Federation, state: State) -> State:
        g, noted = fed.exchange(fs.Mean(self.gradient, w=state.w), fs.Sum(self.search.note, w=state.w))
        return State(state.w - g, (*state.sums, noted))

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


def test_checkpoints_and_stores_carry_it(tmp_path: Path) -> None:
    made = fs.data.partition(PROBLEM.X, PROBLEM.y, fs.data.IID(), clients=3, seed=2)
    whole = fs.run(Algorithm(PROBLEM.loss), made, rounds=8, tolerance=0)
    assert any(whole.state.sums)
    path = tmp_path / "run"
    fs.run(Algorithm(PROBLEM.loss), made, rounds=4, tolerance=0, checkpoint=path)
    resumed = fs.run(Algorithm(PROBLEM.loss), made, rounds=8, tolerance=0, checkpoint=path, resume=True)
    road = FaultyRoad(made, tmp_path, restart=[(3, "client-1")], crash=5)

    def attempt(resume: bool) -> fs.Run:
        return fs.run(
            Algorithm(PROBLEM.loss), road, rounds=8, tolerance=0, checkpoint=tmp_path / "other", resume=resume
        )

    stored = until_done(attempt)
    for one in (resumed, stored):
        assert np.array_equal(one.state.w, whole.state.w)
        assert one.state.sums == whole.state.sums


def test_a_store_of_an_earlier_version_is_rejected(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "store")
    store.write(1, {0: {}, 1: {"w": 1.0}})
    store.close()
    with pytest.raises(StorageError, match="did not keep memory by protocol"):
        Runtime(clients()[0], {"one": Remembering()}, MemoryStore(tmp_path / "store"))
