"""FedDyn and Scaffold of networks in one call for all clients: what they remember is each client's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation import together
from fedsolve.federation.transports import InProcess
from tests.core.test_together_memory import assert_equal, memories
from tests.networks.problems import federation, network
from tests.networks.test_together import EQUAL, LOCALS, UNEQUAL, both, calls, distance

__all__ = ["calls"]

KINDS = {"FedDyn": fs.FedDyn, "Scaffold": fs.Scaffold}
EPOCHS = fs.GradientSteps(epochs=2, step_size=0.05, batch_size=16)


def method(kind: str, local: fs.LocalSolver, **options: Any) -> Any:
    """FedDyn cannot choose a pull for Adam."""
    loss = network(**{"dtype": "float64", "l2": 0.01, **options})
    return fs.Scaffold(loss, local) if kind == "Scaffold" else fs.FedDyn(loss, 1.0, local)


@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("local", ["all samples", "drawn batches", "epochs", "momentum", "Adam", "scaled"])
@pytest.mark.parametrize("kind", KINDS)
def test_together_is_one_by_one(kind: str, local: str, sizes: list[int], calls: list[tuple[int, str]]) -> None:
    clients = federation(sizes=sizes, weights=sizes is UNEQUAL and local == "epochs")
    alone, joint, transport = both(method(kind, LOCALS[local]), clients)
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert [row.value for row in joint.history] == pytest.approx([row.value for row in alone.history], rel=1e-12)
    assert transport.one_by_one == {}
    assert sum(n for n, _ in calls) >= 2 * 3 * len(sizes)  # the updates and the measuring


@pytest.mark.parametrize("as_torch", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_clients_remember_the_kind_of_arrays_that_they_have(kind: str, dtype: str, as_torch: bool) -> None:
    clients = federation(sizes=UNEQUAL, as_torch=as_torch)
    kept = []
    for joint in (False, True):
        transport = InProcess(clients, together=joint)
        fs.run(method(kind, EPOCHS, dtype=dtype), transport, rounds=2)
        newest = [[*runtime.versions.values()][-1] for runtime in transport._runtimes.values()]
        kinds = [{key: (type(value), getattr(value, "dtype", None)) for key, value in one.items()} for one in newest]
        kept.append((kinds, memories(transport)))
    assert kept[0][0] == kept[1][0]
    if dtype == "float64":
        assert_equal(kept[1][1], kept[0][1])
    for client in clients:
        for key, value in kept[0][1][client.name].items():
            # Control variates divide differences of weights, rounded by 6e-8 each, by 2 to 8 steps of 0.05.
            np.testing.assert_allclose(kept[1][1][client.name][key], value, rtol=0, atol=1e-5)
    assert transport.one_by_one == {}


@pytest.mark.parametrize("kind", KINDS)
def test_in_float32_up_to_its_rounding(kind: str, calls: list[tuple[int, str]]) -> None:
    """The comparison is in float64, before a client remembers anything and after it does."""
    alone, joint, transport = both(method(kind, EPOCHS, dtype="float32"), federation(sizes=UNEQUAL))
    assert distance(alone, joint) <= 1e-5
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}
    assert sum(dtype == "torch.float64" for _, dtype in calls) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_torch_clients_and_others_train_side_by_side(kind: str) -> None:
    mixed = [*federation(sizes=UNEQUAL)[:5], *federation(sizes=UNEQUAL, as_torch=True)[5:]]
    alone, joint, transport = both(method(kind, EPOCHS), mixed)
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


@pytest.mark.parametrize(
    "participation",
    [fs.Participation(fraction=0.5), fs.Participation(dropout=0.3, retries=1, quorum=0.1)],
    ids=["some are asked", "replies are lost"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_the_clients_in_a_round(kind: str, participation: fs.Participation) -> None:
    clients = federation(sizes=UNEQUAL)
    alone, joint, transport = both(method(kind, EPOCHS), clients, 5, participation=participation)
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_resumed_to_the_bit(kind: str, tmp_path: Path) -> None:
    algorithm, clients = method(kind, EPOCHS), federation(sizes=UNEQUAL)
    some = fs.Participation(fraction=0.6)

    def run(rounds: int, joint: bool = True, **options: Any) -> fs.Run:
        return fs.run(algorithm, InProcess(clients, together=joint), rounds=rounds, participation=some, **options)

    whole = run(5)
    run(2, checkpoint=tmp_path / "run")
    again = run(5, checkpoint=tmp_path / "run", resume=True)
    assert again.model.w.tobytes() == whole.model.w.tobytes()
    run(2, False, checkpoint=tmp_path / "other")
    assert distance(whole, run(5, checkpoint=tmp_path / "other", resume=True)) <= 1e-12


def test_a_device_that_is_too_small_in_some_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack made for one exchange, of those who were asked, is halved as well."""
    call, seen = together.Stack.call, list[int]()

    def small(stack: together.Stack, *args: Any) -> Any:
        if len(stack) > 3:
            raise MemoryError("a small device")
        seen.append(len(stack))
        return call(stack, *args)

    monkeypatch.setattr(together.Stack, "call", small)
    clients = federation(sizes=[20] * 10)
    alone, joint, transport = both(method("FedDyn", EPOCHS), clients, 4, participation=fs.Participation(fraction=0.6))
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}
    assert seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_diverges_is_the_same_both_ways(kind: str) -> None:
    clients = federation("numbers", sizes=[10, 12, 14])
    wild = fs.Client("wild", 1e30 * clients[0].X, clients[0].y)
    local = fs.GradientSteps(30, 1e9)
    loss = network("numbers")
    algorithm: Any = fs.Scaffold(loss, local) if kind == "Scaffold" else fs.FedDyn(loss, 1.0, local)
    runs = [
        fs.run(algorithm, InProcess([*clients, wild], together=joint), rounds=2, tolerance=0.0)
        for joint in (False, True)
    ]
    assert runs[0].status == runs[1].status == "diverged"
