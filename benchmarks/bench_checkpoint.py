"""What a save costs early and late in a long run: a checkpoint after each of 2,000 rounds.

History and ledger are appended, so that a save writes what is new and the state, whatever was before. Medians over a
hundred saves, wall clock (with the disk) and CPU time. scripts/bench checkpoint
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.loop.checkpoint import Checkpoint

ROUNDS, CLIENTS, FEATURES = 2000, 10, 20
EARLY, LATE = slice(10, 110), slice(ROUNDS - 100, ROUNDS)


def main() -> None:
    rng = np.random.default_rng(0)
    clients = [
        fs.Client(f"site-{i}", rng.standard_normal((50, FEATURES)), rng.integers(0, 2, 50).astype(float))
        for i in range(CLIENTS)
    ]
    wall: list[float] = []
    cpu: list[float] = []
    save = Checkpoint.save

    def timed(self: Checkpoint, *given: Any) -> None:
        started, working = time.perf_counter(), time.process_time()
        save(self, *given)
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - working)

    Checkpoint.save = timed  # type: ignore[method-assign]
    algorithm = fs.Scaffold(fs.Logistic(l2=0.01), fs.GradientSteps(steps=1, step_size=0.1))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        fs.run(algorithm, clients, rounds=ROUNDS, tolerance=0, checkpoint=Path(folder) / "run")
        sizes = {one.name: one.stat().st_size for one in sorted(Path(folder).iterdir())}
    print(f"{CLIENTS} clients, {FEATURES} features, {ROUNDS} rounds; files of {sizes} bytes")
    for name, times in (("wall clock", wall), ("CPU", cpu)):
        early, late = median(times[EARLY]), median(times[LATE])
        print(
            f"{name:>10s}: {early * 1e3:.2f} ms at round 10, {late * 1e3:.2f} ms at round {ROUNDS}: {late / early:.2f}"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
