"""Steps that remember, run for many torch clients in one call: what one by one answers and remembers, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError
from fedsolve.federation import stacked
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess
from fedsolve.losses import LinearLoss
from fedsolve.typing import Array
from tests.algorithms.test_torch import DEVICES, on
from tests.core.test_together import both, federation
from tests.faults.test_lost import POLICY, Road
from tests.problems import PROBLEMS

SIZES = [9, 10, 11, 12]
TWELVE = [5, 6, 8, 10, 12, 15, 18, 20, 20, 21, 24, 27]
EQUAL = 1e-12  # of the largest entry


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many clients each call of a stack served."""
    seen: list[int] = []
    call = stacked.Stack.call

    def counted(self: stacked.Stack, *arguments: Any) -> stacked.Replies:
        found = call(self, *arguments)
        seen.append(len(self))
        return found

    monkeypatch.setattr(stacked.Stack, "call", counted)
    return seen


def memories(transport: InProcess) -> dict[str, dict[str, Any]]:
    """What each client remembers now, but for what the library agreed with it."""
    versions = transport.memories()
    assert versions is not None
    newest = {name: [*each.values()][-1] for name, each in versions.items()}
    return {
        name: {key: value for key, value in memory.items() if not key.startswith("session:")}
        for name, memory in newest.items()
    }


def assert_equal(a: Any, b: Any) -> None:
    """Of the same types, and equal up to rounding."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=EQUAL * max(1.0, np.abs(b).max(initial=0.0)))
    else:
        assert a == b or abs(a - b) <= EQUAL * max(1.0, abs(b))


# ── methods ──

LOCALS: dict[str, fs.LocalSolver] = {
    "all samples": fs.GradientSteps(3),
    "drawn batches": fs.GradientSteps(4, 0.1, 4),
    "epochs": fs.GradientSteps(epochs=2, step_size=0.1, batch_size=8),
    "scaled": fs.Momentum(epochs=2, step_size=0.1, batch_size=8, scale="client"),
    "clipped": fs.GradientSteps(epochs=2, step_size=0.1, batch_size=8, clip=0.1),
}
LOSSES: list[LinearLoss] = [fs.Squared(l2=1e-2, intercept="free"), fs.Logistic(l2=1e-2, intercept="penalised")]


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.parametrize("kind", [fs.FedDyn, fs.Scaffold])
def test_methods_that_remember(kind: Any, local: str, weights: bool, calls: list[int]) -> None:
    loss = LOSSES[weights]
    clients = federation(TWELVE, loss, weights)
    alone, joint, transport = both(kind(loss, local=LOCALS[local]), clients, rounds=4)
    np.testing.assert_allclose(joint.model.w, alone.model.w, rtol=0, atol=EQUAL * np.abs(alone.model.w).max())
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}
    # The update and the measuring of each round, and a part of the clients where batches are too large for some.
    assert sum(calls) >= 4 * 2 * len(clients)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", ["logistic | weighted", "softmax, free intercept | unbalanced", "poisson | offsets"])
@pytest.mark.parametrize("kind", [fs.FedDyn, fs.Scaffold])
def test_devices(kind: Any, case: str, device: str, calls: list[int]) -> None:
    problem = PROBLEMS[case]
    algorithm = kind(problem.loss, local=fs.GradientSteps(3, step_size=0.01))
    alone, joint, transport = both(algorithm, on(device, problem), rounds=4)
    np.testing.assert_allclose(joint.model.w, alone.model.w, rtol=0, atol=EQUAL * np.abs(alone.model.w).max())
    assert joint.ledger.records == alone.ledger.records
    assert "algorithm.local_update" not in transport.one_by_one
    assert calls


@pytest.mark.parametrize("kind", [fs.FedDyn, fs.Scaffold])
@pytest.mark.parametrize(
    "participation",
    [
        fs.Participation(fraction=0.4),
        fs.Participation(dropout=0.3, quorum=0.1),
        fs.Participation(dropout=0.3, retries=2, quorum=0.1),
    ],
    ids=["some are asked", "replies are lost", "and asked for again"],
)
def test_some_of_the_clients(kind: Any, participation: fs.Participation, calls: list[int]) -> None:
    """Those who were not asked yet, or whose replies were all lost, remember nothing, and the others do."""
    clients, algorithm = federation(TWELVE), kind(LOSSES[1], local=LOCALS["epochs"])
    transports = [InProcess(clients), InProcess(clients, together=True)]
    runs, kept = [], []
    for transport in transports:
        runs.append(fs.run(algorithm, transport, rounds=6, tolerance=0.0, participation=participation))
        kept.append(memories(transport))
    alone, joint = runs
    np.testing.assert_allclose(joint.model.w, alone.model.w, rtol=0, atol=EQUAL * np.abs(alone.model.w).max())
    assert joint.ledger.records == alone.ledger.records
    assert transports[1].one_by_one == {}
    assert_equal(kept[1], kept[0])
    assert calls


def test_a_stack_that_memory_has_split_is_split_by_size_as_well(calls: list[int]) -> None:
    """Weighted clients of one batch know the reach of their steps, the others take a gradient more (option I)."""
    clients = federation([*TWELVE, *TWELVE], weights=True)
    algorithm, some = fs.Scaffold(LOSSES[1], LOCALS["scaled"]), fs.Participation(fraction=0.7)
    alone, joint, transport = both(algorithm, clients, participation=some)
    np.testing.assert_allclose(joint.model.w, alone.model.w, rtol=0, atol=EQUAL * np.abs(alone.model.w).max())
    assert joint.ledger.records == alone.ledger.records
    assert "algorithm.local_update" not in transport.one_by_one
    assert calls


@pytest.mark.parametrize("slow", [False, True], ids=["gone", "late"])
@pytest.mark.parametrize("kind", [fs.FedDyn, fs.Scaffold])
def test_clients_that_are_lost_and_come_back(kind: Any, slow: bool, calls: list[int]) -> None:
    """All begin anew: what is remembered of an earlier epoch does not count, together or not."""
    found = []
    for joint in (False, True):
        clients = federation([9, 10, 11, 12, 13, 14])
        road = Road(clients, {"c2": range(2, 5), "c4": range(3, 5)}, slow)
        road.inner = InProcess(clients, together=joint)
        algorithm = kind(LOSSES[1], local=LOCALS["epochs"])
        run = fs.run(algorithm, road, rounds=16, tolerance=0.0, participation=POLICY)
        found.append((run, memories(road.inner)))
    (alone, kept), (joint, kept_together) = found
    assert alone.state.epoch >= 2
    np.testing.assert_allclose(joint.model.w, alone.model.w, rtol=0, atol=EQUAL * np.abs(alone.model.w).max())
    assert joint.ledger.records == alone.ledger.records
    assert road.inner.one_by_one == {}
    assert_equal(kept_together, kept)
    assert 6 in calls


@pytest.mark.parametrize("kind", [fs.FedDyn, fs.Scaffold])
def test_a_run_resumes_to_the_bit(kind: Any, tmp_path: Path) -> None:
    algorithm, clients = kind(LOSSES[1], local=LOCALS["epochs"]), federation(TWELVE)
    some = fs.Participation(fraction=0.6, dropout=0.2, quorum=0.1)

    def run(joint: bool, rounds: int, name: str, **options: Any) -> fs.Run:
        transport = InProcess(clients, together=joint)
        file = tmp_path / name
        return fs.run(
            algorithm, transport, rounds=rounds, tolerance=0.0, participation=some, checkpoint=file, **options
        )

    whole = run(True, 8, "whole")
    run(True, 4, "half")
    again = run(True, 8, "half", resume=True)
    assert again.model.w.tobytes() == whole.model.w.tobytes()
    # A checkpoint is the same thing, whoever wrote it.
    run(False, 4, "alone")
    rest = run(True, 8, "alone", resume=True)
    np.testing.assert_allclose(rest.model.w, whole.model.w, rtol=0, atol=EQUAL * np.abs(whole.model.w).max())
    assert rest.ledger.records == again.ledger.records
    run(True, 4, "together")
    rest = run(False, 8, "together", resume=True)
    np.testing.assert_allclose(rest.model.w, whole.model.w, rtol=0, atol=EQUAL * np.abs(whole.model.w).max())


def test_exact_minima_run_one_by_one_and_say_why() -> None:
    alone, joint, transport = both(fs.FedDyn(fs.Logistic(l2=0.1)), federation(SIZES), rounds=4)
    assert joint.model.w.tobytes() == alone.model.w.tobytes()
    assert joint.ledger.records == alone.ledger.records
    assert list(transport.one_by_one) == ["algorithm.local_update"]


# ── steps of all kinds ──


@dataclass(frozen=True)
class Remembering:
    """Steps that remember, some of them what a stack cannot."""

    loss: LinearLoss = field(default_factory=lambda: fs.Logistic(l2=0.1))

    @client_step
    def prepare(self, client: Client, w: Array) -> Array:
        """Only some clients remember something, and not all the same."""
        client.memory["number"] = client.n_samples % 2
        if client.n_samples > 10:
            client.memory["sum"] = 1.0 * w
        if client.n_samples == 12:
            client.memory["long"] = client.xp.ones(12, dtype=client.y.dtype)
        return w

    @client_step(together=True)
    def count(self, client: Client, w: Array) -> Array:
        client.memory["times"] = client.memory.get("times", 0) + 1
        return w * client.memory["times"]

    @client_step(together=True)
    def add(self, client: Client, w: Array) -> Array:
        before = client.memory["sum"] if "sum" in client.memory else 0.0 * w
        client.memory["sum"] = before + self.loss.gradient(client, w)
        client.memory["both"] = (client.memory["sum"], "a text", (before, None))
        return client.memory["sum"] - before

    @client_step(together=True)
    def recall(self, client: Client, w: Array) -> Array:
        first, _, (second, _) = client.memory["both"]
        return w + first - second

    @client_step(together=True)
    def odd(self, client: Client, w: Array) -> Array:
        return w * (1 + client.memory["number"])

    @client_step(together=True)
    def lengths(self, client: Client, w: Array) -> Array:
        kept = client.memory.get("long")
        return w if kept is None else w + client.xp.sum(kept)

    @client_step(together=True)
    def rows(self, client: Client, w: Array) -> Array:
        client.memory["sum"] = client.xp.ones(len(range(client.n_samples)), dtype=w.dtype)
        return w

    @client_step(together=True)
    def missing(self, client: Client, w: Array) -> Array:
        return w + client.memory["nowhere"]

    @client_step(together=True)
    def forgets_the_weights(self, client: Client, w: Array) -> Array:
        client.memory["mean"] = client.xp.mean(client.y)
        return 2 * w

    @client_step(together=True)
    def removes(self, client: Client, w: Array) -> Array:
        client.memory["w"] = w
        del client.memory["w"]
        return w

    @client_step(together=True)
    def lists(self, client: Client, w: Array) -> Array:
        return w * sum(1 for _ in client.memory)

    @client_step(together=True)
    def sizes(self, client: Client, w: Array) -> Array:
        return w * len(client.memory)

    @client_step(together=True)
    def number(self, client: Client, w: Array) -> Array:
        client.memory["number"] = client.number(client.xp.sum(w))
        return w

    @client_step(together=True)
    def changeable(self, client: Client, w: Array) -> Array:
        client.memory["list"] = [w]
        return w

    @client_step(together=True)
    def diverges(self, client: Client, w: Array) -> Array:
        total = client.weight * client.xp.sum(w * w)
        client.memory["large"] = client.xp.where(total > 43, client.xp.inf * total, total)
        return w


STEPS = Remembering()


def opened(transport: InProcess, protocol: Remembering = STEPS) -> Federation:
    protocols = {"algorithm": protocol}
    transport.open(protocols)
    fed = Federation(transport, protocols, seed=5)
    fed.join()
    fed.begin_round(1)
    return fed


def asked(
    *exchanges: list[Callable[..., Any]], sizes: list[int] = SIZES, weights: bool = False
) -> tuple[dict[str, str], InProcess]:
    """Exchanges of one call or several, one by one and together: replies, ledgers and memories must be the same.
    Returns what was not run together."""
    found: list[Any] = []
    for joint in (False, True):
        transport = InProcess(federation(sizes, weights=weights), together=joint)
        fed = opened(transport)
        replies = [fed.exchange(*(fs.Gather(step, w=np.ones(4)) for step in steps)) for steps in exchanges]
        found.append((tuple(replies), memories(transport), fed.ledger.records))
    assert_equal(found[1][0], found[0][0])
    assert_equal(found[1][1], found[0][1])
    assert found[0][2] == found[1][2]
    return transport.one_by_one, transport


@pytest.mark.parametrize("weights", [False, True])
def test_arrays_numbers_and_tuples(weights: bool, calls: list[int]) -> None:
    why, _ = asked([STEPS.count], [STEPS.add], [STEPS.count], [STEPS.add], [STEPS.recall], weights=weights)
    assert why == {}
    assert calls == [4] * 5


def test_a_call_sees_what_an_earlier_one_of_its_exchange_has_written(calls: list[int]) -> None:
    why, _ = asked([STEPS.add, STEPS.add, STEPS.recall], [STEPS.add, STEPS.prepare, STEPS.recall, STEPS.recall])
    assert why == {}
    assert calls == [4, 4, 4, 4]


def test_clients_that_do_not_remember_yet_are_a_stack_of_their_own(calls: list[int]) -> None:
    why, transport = asked([STEPS.prepare], [STEPS.add], [STEPS.add], sizes=[7, 8, 9, 11, 12])
    assert why == {}
    assert calls == [3, 2, 5]  # without and with; then all remember
    assert transport._together is not None


def test_a_lone_client_without_memory_is_asked_by_itself(calls: list[int]) -> None:
    why, _ = asked([STEPS.prepare], [STEPS.add], [STEPS.add], sizes=[9, 11, 11, 12])
    assert why == {}  # not left out for good
    assert calls == [3, 4]


def test_numbers_and_shapes_that_differ(calls: list[int]) -> None:
    why, _ = asked([STEPS.prepare], [STEPS.odd], [STEPS.lengths], sizes=[9, 10, 11, 12, 12])
    assert why == {}
    assert sorted(calls) == [2, 2, 3, 3]


def test_what_is_remembered_may_be_as_long_as_a_client(calls: list[int]) -> None:
    why, _ = asked([STEPS.rows], [STEPS.rows], [STEPS.prepare], [STEPS.rows], sizes=[9, 9, 12, 12, 12])
    assert why == {}
    assert calls == [2, 3] * 3


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (STEPS.forgets_the_weights, "remembers otherwise"),
        (STEPS.removes, "removes"),
        (STEPS.lists, "lists"),
        (STEPS.sizes, "counts what"),
        (STEPS.number, "remembers otherwise"),
    ],
)
def test_steps_that_cannot_run_together_say_so(step: Any, reason: str) -> None:
    why, _ = asked([STEPS.prepare], [step], [step])
    assert list(why) == [f"algorithm.{step.__name__}"]
    assert reason in why[f"algorithm.{step.__name__}"]


def test_what_is_not_finite_is_remembered_as_by_itself(calls: list[int]) -> None:
    """w · w is 4: clients of 11 and 12 rows have more than 43."""
    why, _ = asked([STEPS.diverges], [STEPS.diverges])
    assert why == {}
    assert calls == [4, 4]


@pytest.mark.parametrize("step", [STEPS.missing, STEPS.changeable])
def test_errors_are_those_of_one_client(step: Any) -> None:
    messages = []
    for joint in (False, True):
        with pytest.raises(ClientError) as caught:
            opened(InProcess(federation(SIZES), together=joint)).gather(step, w=np.ones(4))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_one_client_does_not_hold_on_to_the_arrays_of_all() -> None:
    transport = InProcess(federation(SIZES), together=True)
    opened(transport).gather(STEPS.add, w=np.ones(4))
    for runtime in transport._runtimes.values():
        kept = [*runtime.versions.values()][-1]["algorithm:sum"]
        assert kept.untyped_storage().nbytes() == kept.nbytes


def test_comparing_leaves_no_trace_in_the_memory() -> None:
    """The client that is asked by itself as well does not count twice."""
    transport = InProcess(federation(SIZES), together=True)
    fed = opened(transport)
    for times in (1, 2, 3):
        reply = fed.gather(STEPS.count, w=np.ones(4))
        assert all((reply[name] == times).all() for name in reply)
    assert {memory["algorithm:times"] for memory in memories(transport).values()} == {3}
