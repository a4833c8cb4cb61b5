"""How worker processes come to their clients: beside any threads, from any script, with any data."""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import array_api_strict as xp
import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, TransportError
from fedsolve.federation.transports import InProcess, Processes, handover
from fedsolve.typing import Array

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((40, 3)), (np.arange(40) % 2).astype(float)


def clients() -> list[fs.Client]:
    return fs.data.partition(X, Y, clients=4)


# ── beside threads ──

BESIDE_THREADS = """
import sys, threading
import numpy as np
import fedsolve as fs
from fedsolve.federation.transports import Processes

rng = np.random.default_rng(0)
A, X, y = rng.standard_normal((300, 300)), rng.standard_normal((40, 3)), np.arange(40) % 2
going = True

def multiply():
    while going:
        A @ A

threads = [threading.Thread(target=multiply) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(int(sys.argv[1])):
    run = fs.run(fs.Newton(fs.Logistic(l2=0.1)), Processes(fs.data.partition(X, y, clients=4), workers=2), rounds=2)
    assert run.rounds == 2
    print("started", flush=True)
going = False
"""


def started_beside_threads(count: int) -> int:
    environment = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "PATH": ""}
    command = [sys.executable, "-c", BESIDE_THREADS, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120.0 * count, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.count("started")


def test_workers_start_beside_threads_that_multiply() -> None:
    assert started_beside_threads(2) == 2


@pytest.mark.slow
def test_workers_start_twenty_times_beside_threads_that_multiply() -> None:
    assert started_beside_threads(20) == 20


@pytest.mark.parametrize(("threads", "expected"), [(0, "Forked"), (1, "Spawned")])
def test_only_a_process_without_other_threads_is_forked(threads: int, expected: str) -> None:
    code = f"""
import threading, time
for _ in range({threads}):
    threading.Thread(target=time.sleep, args=[3600], daemon=True).start()
import numpy as np, fedsolve as fs
from fedsolve.federation.transports import Processes
road = Processes([fs.Client("a", np.ones((2, 1)), np.ones(2))])
road.open({{}})
print(*{{type(worker.process).__name__ for worker in road._workers}})
road.close()
"""
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.strip() == (expected if sys.platform == "linux" else "Spawned"), done.stderr


# ── from any script ──

SCRIPT = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.typing import Array

SCALE = 0.5


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class Rows:
    count: int


def scaled(x):
    return SCALE * x


@dataclass(frozen=True)
class Descent:
    loss: fs.Squared

    @dataclass(frozen=True)
    class Sums:
        gradient: Array
        rows: Rows

    @fs.client_step
    def sums(self, client: fs.Client, w: Array) -> Descent.Sums:
        client.memory["rounds"] = client.memory.get("rounds", 0) + 1
        return self.Sums(self.loss.gradient(client, w), Rows(client.n_samples))

    def start(self, fed: fs.Federation) -> State:
        return State(fed.start_point(self.loss))

    def round(self, fed: fs.Federation, state: State) -> State:
        found = fed.gather(self.sums, w=state.w)  # to send a dataclass of this script
        return State(state.w - scaled(sum(one.gradient * one.rows.count for one in found.values()) / 40))

    def model(self, state: State) -> fs.LinearModel:
        return self.loss.model(state.w)


rng = np.random.default_rng(0)
clients = fs.data.partition(rng.standard_normal((40, 3)), rng.standard_normal(40), clients=4)
there = fs.run(Descent(fs.Squared(l2=0.1)), Processes(clients, workers=2, start="spawn"), rounds=5)
here = fs.run(Descent(fs.Squared(l2=0.1)), InProcess(clients, threads=1), rounds=5)
print(np.array_equal(here.model.w, there.model.w) and here.ledger == there.ledger)
"""


@pytest.mark.parametrize("where", ["file", "option", "input"])
def test_a_script_with_an_algorithm_of_its_own_needs_no_guard(where: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    command = {"file": [str(path)], "option": ["-c", SCRIPT], "input": ["-"]}[where]
    given = SCRIPT if where == "input" else None
    done = subprocess.run([sys.executable, *command], input=given, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True", done.stderr


def run_on(protocol: Any, transport: Any) -> dict[str, float]:
    transport.open({"protocol": protocol})
    try:
        fed = fs.Federation(transport, {"protocol": protocol})
        fed.join()
        found: dict[str, float] = fed.gather(protocol.step, w=np.ones(3))
        return found
    finally:
        transport.close()


def test_a_protocol_written_inside_a_function() -> None:
    factor = 3.0

    @dataclass(frozen=True)
    class Local:
        shift: float

        @fs.client_step
        def step(self, client: fs.Client, w: Array) -> float:
            return float(factor * client.X[0] @ w + self.shift)

    roads = (InProcess(clients(), threads=1), Processes(clients(), workers=2, start="spawn"))
    here, there = (run_on(Local(1.0), road) for road in roads)
    assert here == there


@dataclass(frozen=True)
class Holding:
    """A protocol that can be described in any process, but holds something of this one."""

    what: Any

    @fs.client_step
    def step(self, client: fs.Client, w: Array) -> float:
        return 0.0


def test_what_belongs_to_this_process_cannot_be_handed_over() -> None:
    with pytest.raises(ConfigError, match=r"cannot be handed to a worker process.*lock.*start=\"fork\""):
        run_on(Holding(threading.Lock()), Processes(clients(), workers=2, start="spawn"))


def test_a_module_that_workers_cannot_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("nowhere_to_be_found")
    exec("class Thing: pass", vars(module))
    monkeypatch.setitem(sys.modules, "nowhere_to_be_found", module)
    with pytest.raises(TransportError, match=r"No module named 'nowhere_to_be_found'.*import.*start=\"fork\""):
        run_on(Holding(module.Thing()), Processes(clients(), workers=2, start="spawn"))


@pytest.mark.parametrize("options", [{"start": "threads"}, {"start": "forkserver"}, {"workers": 0}, {"threads": 0}])
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"start is 'spawn'|at least one worker"):
        Processes(clients(), **options)


# ── with any data ──


def test_every_kind_of_data_arrives_as_it_was(tmp_path: Path) -> None:
    file = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (40, 3))
    file[:] = X
    weights = np.linspace(1, 2, 40)
    read_only = X.copy()
    read_only.flags.writeable = False
    given = [
        fs.Client("dense", X, Y),
        fs.Client("weighted", X, Y, weights, offset=weights / 9),
        fs.Client("sparse", sp.csr_array(X * (X > 0)), Y),
        fs.Client("strict", xp.asarray(X), xp.asarray(Y)),
        fs.Client("column-major", np.asfortranarray(X), Y),
        fs.Client("file", file, Y),
        fs.Client("read-only", read_only, Y, link=fs.Link(bytes_per_round=10_000)),
    ]
    data, contents = handover.pack({}, given)
    (_, there) = handover.unpack(bytearray(data), bytearray(b"".join(contents)))
    for one, other in zip(given, there, strict=True):
        assert (one.name, one.weight, one.link) == (other.name, other.weight, other.link)
        assert one.data_mark() == other.data_mark()
        assert type(one.X) is type(other.X)
    assert there[0].X.flags.writeable
    assert not there[-1].X.flags.writeable
    loss = fs.Logistic(l2=0.1)
    here, far = (
        fs.run(fs.Newton(loss), road, rounds=3).model.w
        for road in (InProcess(given, threads=1), Processes(given, workers=2, start="spawn"))
    )
    assert np.array_equal(here, far)


def test_arrays_are_handed_over_without_a_copy() -> None:
    client = fs.Client("a", rng.standard_normal((1000, 50)), np.ones(1000))
    data, contents = handover.pack({}, [client])
    assert len(data) < 5000
    assert any(np.shares_memory(np.frombuffer(piece, np.uint8), client.X) for piece in contents if len(piece))


def test_forked_workers_keep_no_accounts_of_earlier_runs() -> None:
    same, loss = clients(), fs.Squared(l2=0.1)
    here = fs.run(fs.Newton(loss), InProcess(same, threads=1))
    for start in ("fork", "spawn"):
        assert fs.run(fs.Newton(loss), Processes(same, workers=2, start=start)).ledger == here.ledger
