"""Networks of many clients in one call: what one by one gives, with the same ledger and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation import stacked
from fedsolve.federation.transports import InProcess
from tests.networks.problems import federation, network

UNEQUAL = [5, 12, 19, 26, 33, 40, 47, 8, 16, 17, 64]
EQUAL = [20] * 6
LOCALS: dict[str, Any] = {
    "all samples": fs.GradientSteps(4, 0.2),
    "drawn batches": fs.GradientSteps(4, 0.2, 4),
    "epochs": fs.GradientSteps(epochs=3, step_size=0.2, batch_size=16),
    "momentum": fs.Momentum(epochs=2, step_size=0.05, batch_size=8, clip=0.5),
    "Adam": fs.Adam(epochs=3, step_size=0.01, batch_size=16),
    "scaled": fs.Adam(epochs=2, step_size=0.05, batch_size=16, scale="client"),
    "epochs of all samples": fs.GradientSteps(epochs=3, step_size=0.2),
    "one batch": fs.Adam(epochs=3, step_size=0.01, batch_size=100),
}


def both(algorithm: Any, clients: list[fs.Client], rounds: int = 3, **options: Any) -> tuple[fs.Run, fs.Run, InProcess]:
    transport = InProcess(clients, together=True)
    alone = fs.run(algorithm, clients, rounds=rounds, **options)
    return alone, fs.run(algorithm, transport, rounds=rounds, **options), transport


def distance(alone: fs.Run, joint: fs.Run) -> float:
    return float(np.linalg.norm(joint.state.w - alone.state.w) / np.linalg.norm(alone.state.w))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """How many clients each call of a stack served, and in which type."""
    seen: list[tuple[int, str]] = []
    call = stacked.Stack.call

    def counted(stack: stacked.Stack, *args: Any) -> stacked.Replies:
        seen.append((len(stack), str(stack.arrays["y"].dtype)))
        return call(stack, *args)

    monkeypatch.setattr(stacked.Stack, "call", counted)
    return seen


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("local", LOCALS)
def test_together_is_one_by_one(local: str, sizes: list[int], weights: bool, calls: list[tuple[int, str]]) -> None:
    clients = federation(sizes=sizes, weights=weights)
    algorithm = fs.FedAvg(network(dtype="float64", l2=0.01), LOCALS[local])
    alone, joint, transport = both(algorithm, clients)
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records  # bytes and counted gradients, by client and call
    assert [row.value for row in joint.history] == pytest.approx([row.value for row in alone.history], rel=1e-12)
    assert transport.one_by_one == {}
    assert sum(n for n, _ in calls) >= 3 * len(sizes)


@pytest.mark.parametrize("kind", ["labels", "numbers", "pairs"])
def test_other_losses(kind: str) -> None:
    alone, joint, transport = both(
        fs.FedAvg(network(kind, dtype="float64"), LOCALS["Adam"]), federation(kind, UNEQUAL, offset=kind != "pairs")
    )
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


@pytest.mark.parametrize("local", ["epochs", "momentum", "Adam"])
def test_in_float32_up_to_its_rounding(local: str, calls: list[tuple[int, str]]) -> None:
    """Rounding is 6e-8 of a number, and some ten steps of these solvers amplify it to less than 1e-5 of the weights.
    What compares the two is computed in float64."""
    alone, joint, transport = both(fs.FedAvg(network(), LOCALS[local]), federation(sizes=UNEQUAL))
    assert distance(alone, joint) <= 1e-5
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}
    doubles = [n for n, dtype in calls if dtype == "torch.float64"]
    assert doubles
    assert set(doubles) == {2}


def test_torch_clients_and_others_train_side_by_side() -> None:
    mixed = [*federation(sizes=UNEQUAL)[:5], *federation(sizes=UNEQUAL, as_torch=True)[5:]]
    alone, joint, transport = both(fs.FedAvg(network(dtype="float64"), LOCALS["epochs"]), mixed)
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


def test_fedprox_too() -> None:
    alone, joint, transport = both(
        fs.FedProx(network(dtype="float64"), 0.3, LOCALS["epochs"]), federation(sizes=UNEQUAL)
    )
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


def test_a_part_of_the_clients_in_a_round() -> None:
    some = fs.Participation(fraction=0.5)
    alone, joint, _ = both(
        fs.FedAvg(network(dtype="float64"), LOCALS["Adam"]), federation(sizes=UNEQUAL), participation=some
    )
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records


def test_a_run_is_resumed_together_or_not(tmp_path: Path) -> None:
    algorithm, clients = fs.FedAvg(network(dtype="float64"), LOCALS["Adam"]), federation(sizes=UNEQUAL)
    whole = fs.run(algorithm, InProcess(clients, together=True), rounds=5)
    file = tmp_path / "run"
    fs.run(algorithm, InProcess(clients, together=True), rounds=2, checkpoint=file)
    again = fs.run(algorithm, InProcess(clients, together=True), rounds=5, checkpoint=file, resume=True)
    assert again.model.w.tobytes() == whole.model.w.tobytes()
    fs.run(algorithm, clients, rounds=2, checkpoint=tmp_path / "other")
    other = fs.run(algorithm, InProcess(clients, together=True), rounds=5, checkpoint=tmp_path / "other", resume=True)
    assert distance(whole, other) <= 1e-12


def test_what_does_not_fit_into_memory_is_halved(monkeypatch: pytest.MonkeyPatch, calls: list[tuple[int, str]]) -> None:
    call = stacked.Stack.call

    def small(stack: stacked.Stack, *args: Any) -> stacked.Replies:
        if len(stack) > 3:
            raise MemoryError("a small device")
        return call(stack, *args)

    monkeypatch.setattr(stacked.Stack, "call", small)
    alone, joint, transport = both(fs.FedAvg(network(dtype="float64"), LOCALS["Adam"]), federation(sizes=UNEQUAL))
    assert distance(alone, joint) <= 1e-12
    assert transport.one_by_one == {}
    assert max(n for n, _ in calls) == 3


def test_preprocessing_stacks_anew() -> None:
    algorithm = fs.FedAvg(network(dtype="float64"), LOCALS["epochs"])
    clients = federation(sizes=UNEQUAL)
    transport = InProcess(clients, together=True)
    plain = fs.run(algorithm, transport, rounds=1)
    runs = [
        fs.run(algorithm, kind, rounds=2, preprocess=fs.data.Preprocess()) for kind in (transport, InProcess(clients))
    ]
    assert distance(runs[1], runs[0]) <= 1e-12
    assert distance(plain, runs[0]) > 1e-3


def test_a_client_that_diverges_is_named() -> None:
    clients = federation("numbers", sizes=[10, 12, 14])
    wild = fs.Client("wild", 1e30 * clients[0].X, clients[0].y)
    algorithm = fs.FedAvg(network("numbers"), fs.GradientSteps(30, 1e9))
    alone, joint = (
        fs.run(algorithm, kind, rounds=2)
        for kind in (InProcess([*clients, wild]), InProcess([*clients, wild], together=True))
    )
    assert alone.status == joint.status == "diverged"


@pytest.mark.parametrize("sizes", [[30, 30, 30], [20, 31, 64]])
def test_a_small_cnn(sizes: list[int]) -> None:
    rng = np.random.default_rng(1)
    clients = [
        fs.Client(f"c{i}", rng.standard_normal((n, 64)), rng.integers(0, 3, n).astype(float))
        for i, n in enumerate(sizes)
    ]
    loss = fs.Network(fs.CNN((1, 8, 8), ((4, 3),), hidden=(6,)), fs.Softmax(classes=3), dtype="float64")
    alone, joint, transport = both(fs.FedAvg(loss, fs.Adam(epochs=2, step_size=0.01, batch_size=16)), clients, 2)
    assert distance(alone, joint) <= 1e-11
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


def test_epochs_of_linear_losses_are_padded_too() -> None:
    clients = federation("labels", UNEQUAL, as_torch=True)
    alone, joint, transport = both(fs.FedAvg(fs.Logistic(l2=0.1, intercept="free"), LOCALS["Adam"]), clients)
    assert distance(alone, joint) <= 1e-12
    assert joint.ledger.records == alone.ledger.records
    assert transport.one_by_one == {}


def test_numpy_clients_of_a_linear_loss_run_one_by_one_as_before() -> None:
    transport = InProcess(federation("labels"), together=True)
    fs.run(fs.FedAvg(fs.Logistic(l2=0.1), fs.GradientSteps(2)), transport, rounds=1)
    assert all("no torch tensors" in why for why in transport.one_by_one.values())
    assert len(transport.one_by_one) == 3
