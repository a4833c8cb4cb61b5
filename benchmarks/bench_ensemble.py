"""What a round of FFGB costs early and late: an ensemble of 5,000 functions against one of none.

Clients keep the predictions of f, and are told only what is new, so a round costs the same however large f is. Printed
are the CPU seconds of a round (clients, server, evaluation and checkpoint together), the bytes each way and what the
checkpoint writes, of rounds when 5,000 functions are there and of the first rounds that have something to tell, with
their ratio. Medians over rounds. scripts/bench ensemble
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.loop.checkpoint import Checkpoint

CLIENTS, STEPS, ROWS, COLUMNS = 10, 10, 2000, 8
FUNCTIONS = 5000
OVER = 20  # rounds that a median is of
ROUNDS = FUNCTIONS // (CLIENTS * STEPS) + OVER


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((CLIENTS * ROWS, COLUMNS))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(len(X)) > 0).astype(float)
    loss = fs.Logistic()
    clients = fs.data.hold_out(fs.data.partition(X, y, fs.data.IID(), clients=CLIENTS, seed=0), 0.2, seed=0)
    written: list[int] = []
    save = Checkpoint.save

    def counted(self: Checkpoint, *given: Any) -> None:
        before = self.ledger_path.stat().st_size if self.ledger_path.exists() else 0
        save(self, *given)
        written.append(self.place.stat().st_size + self.ledger_path.stat().st_size - before)

    Checkpoint.save = counted  # type: ignore[method-assign]
    algorithm = fs.FFGB(loss, fs.RidgeLearner(0.01, fs.Polynomial(2)), steps=STEPS, step_size=0.05)
    cpu: list[float] = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        run = fs.run(
            algorithm,
            clients,
            rounds=ROUNDS,
            tolerance=0,
            evaluation=fs.Evaluation(loss),
            checkpoint=Path(folder) / "run",
            on_round=lambda row: cpu.append(time.process_time()),
        )
    print(f"{len(run.model):,} functions, {CLIENTS} clients with {ROWS} rows, K = {STEPS}")
    records = {
        (one.round, "algorithm" in one.purposes): one for one in run.ledger.records if "setup" not in one.purposes
    }
    rounds = [records[t, True] for t in range(1, ROUNDS + 1)]
    asked = [records[t, False] for t in range(1, ROUNDS + 1)]
    figures = {
        "CPU seconds": [after - before for before, after in pairwise(cpu)],
        "bytes up": [int(one.bytes_up.sum()) for one in rounds],
        "bytes down, with the evaluation": [
            int(one.spread(one.bytes_down).sum() + other.spread(other.bytes_down).sum())
            for one, other in zip(rounds, asked, strict=True)
        ],
        "bytes written by the checkpoint": written[1:],
    }
    for name, values in figures.items():
        early, late = median(values[1 : 1 + OVER]), median(values[-OVER - 1 : -1])
        print(f"{name:>32s}: {early:12.6g} early, {late:12.6g} late: {late / early:.3f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
