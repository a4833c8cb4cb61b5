"""What worker processes cost: starting them, handing data over, and copies of what clients remember.

(a) Seconds to open and close a pool of 2 workers, forked and spawned, with small clients and with --gigabytes of rows;
    processor time of the workers; memory of the workers that is not shared with this process.
(b) Microseconds per client and exchange with 2 workers and 100 clients: one that sends a vector, and one that also
    remembers a matrix of --features² numbers, which travels along with the reply.

One thread, minimum of 5 repetitions for (b): scripts/bench processes [-- --gigabytes 1]
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fedsolve as fs
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import Processes


@dataclass(frozen=True)
class Steps:
    """A protocol of two steps: one forgets, one remembers."""

    @fs.client_step
    def forget(self, client: fs.Client, w: np.ndarray) -> np.ndarray:
        return 2.0 * w

    @fs.client_step
    def remember(self, client: fs.Client, w: np.ndarray) -> np.ndarray:
        client.memory["H"] = np.outer(w, w)
        return 2.0 * w


def make_clients(count: int, rows: int, features: int) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    return [fs.Client(f"client-{j}", rng.standard_normal((rows, features)), np.ones(rows)) for j in range(count)]


def private_megabytes(pid: int) -> float:
    """Memory of a process that it shares with none other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def opened(clients: list[fs.Client], start: str) -> str:
    road = Processes(clients, workers=2, start=start)
    began = time.perf_counter()
    road.open({"steps": Steps()})
    up = time.perf_counter()
    own = sum(map(private_megabytes, road.pids))
    closing = time.perf_counter()
    before = os.times()
    road.close()
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    down = time.perf_counter() - closing
    return f"open {up - began:6.2f} s, close {down:5.2f} s, busy {busy:5.2f} s, {own:6.0f} MB of their own"


def per_client(step: str, features: int) -> float:
    """Microseconds of one client in one exchange."""
    steps, road = Steps(), Processes(make_clients(100, 2, 2), workers=2)
    road.open({"steps": steps})
    try:
        fed = Federation(road, {"steps": steps})
        fed.join()
        fed.begin_round(1)
        w, found = np.ones(features), []
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(10):
                fed.mean(getattr(steps, step), w=w)
            found.append(time.perf_counter() - began)
    finally:
        road.close()
    return min(found) / 10 / 100 * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.1)
    parser.add_argument("--features", type=int, default=100)
    options = parser.parse_args()
    print("(a) a pool of 2 workers")
    large = make_clients(4, int(options.gigabytes * 2**30 / 8 / 100 / 4), 100)
    for start in ("fork", "spawn"):
        print(f"    {start:6} small data          {opened(make_clients(4, 10, 10), start)}")
        print(f"    {start:6} {options.gigabytes:4.1f} GB of rows     {opened(large, start)}")
    print(f"(b) 100 clients, {options.features} numbers sent: microseconds per client and exchange")
    print(f"    nothing remembered  {per_client('forget', options.features):8.0f}")
    print(f"    a matrix remembered {per_client('remember', options.features):8.0f}")


if __name__ == "__main__":
    main()
