"""A damaged file is an error of ours, or gives the very bits of the undamaged one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import CheckpointError, DataError, FedsolveError
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.memory_store import MemoryStore
from fedsolve.wire.encoding import Part
from tests.attack.damage import damaged
from tests.faults.faulty import FaultyRoad
from tests.problems import PROBLEMS

PROBLEM = PROBLEMS["logistic | unbalanced"]
# A run whose clients remember something, so that a damaged memory shows.
ALGORITHM = fs.Scaffold(PROBLEM.loss, fs.GradientSteps(steps=2, step_size=0.3, batch_size=8))
COUNTS = [200, pytest.param(2000, marks=pytest.mark.slow)]

Read = Callable[[], Any]


def clients(count: int = 3) -> list[fs.Client]:
    return fs.data.partition(PROBLEM.X, PROBLEM.y, fs.data.QuantitySkew(1.0), clients=count, seed=2)


def told(run: fs.Run) -> tuple[Any, ...]:
    """All that a run says, but for the time it took."""
    rows = [
        (row.round, row.value, row.gradient_norm, row.change, row.bytes_up, row.scalars_down) for row in run.history
    ]
    return run.model.w.tobytes(), run.status, rows, list(run.ledger.entries()), run.ledger.server_counts


def outcome(read: Read, wanted: type[FedsolveError]) -> tuple[str | None, Any]:
    """What an error of the wanted kind says, or what was read. Any other error ends the test."""
    try:
        return None, read()
    except wanted as error:
        return str(error), None


def attack(path: Path, other: bytes, count: int, read: Read, wanted: type[FedsolveError]) -> Counter[str]:
    """Damage a file so often, and read it; what was read is compared with what the undamaged one says."""
    good = path.read_bytes()
    beside = {each: each.read_bytes() for each in path.parent.iterdir()}
    expected, found = read(), Counter[str]()
    for way, bad in damaged(good, other, count, seed=count):
        for each, data in beside.items():
            each.write_bytes(data)
        path.write_bytes(bad)
        said, answer = outcome(read, wanted)
        if said is None:
            assert answer == expected, way
            found["the very bits"] += 1
        else:
            assert path.name in said, way
            found["rejected"] += 1
    print(f"{path.name}: {dict(found)} of {count}")
    assert found["rejected"] > 0.8 * count
    return found


@pytest.fixture
def resume(tmp_path: Path) -> Callable[[], tuple[Any, ...]]:
    """A folder with the checkpoint of a run that can go on for some rounds more."""
    folder = tmp_path / "run"
    fs.run(ALGORITHM, clients(), rounds=4, seed=3, checkpoint=folder / "run.ckpt", tolerance=0)
    fs.run(ALGORITHM, clients(), rounds=5, seed=4, checkpoint=tmp_path / "other.ckpt", tolerance=0)

    def again() -> tuple[Any, ...]:
        path = folder / "run.ckpt"
        run = fs.run(ALGORITHM, clients(), rounds=6, seed=3, checkpoint=path, resume=True, tolerance=0)
        return told(run)

    return again


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["run.ckpt", "run.ckpt.ledger"])
def test_a_damaged_checkpoint_or_ledger(tmp_path: Path, resume: Read, name: str, count: int) -> None:
    other = (tmp_path / name.replace("run", "other")).read_bytes()
    attack(tmp_path / "run" / name, other, count, resume, CheckpointError)


@pytest.mark.parametrize("count", COUNTS)
def test_a_damaged_memory_store(tmp_path: Path, count: int) -> None:
    road = FaultyRoad(clients(), tmp_path / "run")
    fs.run(ALGORITHM, road, rounds=5, tolerance=0)
    served = next(iter(road.runtimes.values())).serves
    path, other = (tmp_path / f"run/client-{number}.memory" for number in range(2))
    other_bytes = other.read_bytes()
    road.runtimes.clear()

    def read() -> bytes:
        runtime = Runtime(clients()[0], served, MemoryStore(path))
        part = Part((runtime.attempt, runtime.versions))
        return b"".join(part.chunks())

    attack(path, other_bytes, count, read, FedsolveError)


@pytest.mark.parametrize("count", COUNTS)
def test_a_damaged_model(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 3)), rng.integers(0, 3, 60)]).astype(object)
    X[3, 0] = None
    schema = fs.data.Schema.from_plain(
        [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "kind", "categories": [0, 1, 2]}]
    )
    held = [fs.Client(f"site-{i}", X[i::2], (rng.random(30) < 0.5).astype(float)) for i in range(2)]
    folder = tmp_path / "models"
    for name, l2 in (("model", 0.1), ("other", 0.2)):
        run = fs.run(fs.Newton(fs.Logistic(l2=l2)), held, preprocess=fs.data.Preprocess(schema))
        run.model.save(folder / f"{name}.npz")

    def read() -> bytes:
        model = fs.load_model(folder / "model.npz")
        model.save(tmp_path / "copy.npz")
        return (tmp_path / "copy.npz").read_bytes()

    attack(folder / "model.npz", (folder / "other.npz").read_bytes(), count, read, DataError)
