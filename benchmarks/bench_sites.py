"""What an exchange between sites costs: a server and four sites on this machine, connected by mutual TLS over gRPC.

Seconds for a round of one exchange, in which
(a) 300 float64 go to each site and 300 come back (AGD, 300 parameters), and
(b) a symmetric matrix comes back, the Hessian of Newton's method, 2000 × 2000, sent as its triangle of 16 MB,
(c) a full matrix of 2000 × 2000, 32 MB, comes back (Newton, 2828 parameters, whose triangle has this size), and
(d) one goes to each site and one comes back (AGD, 2000 columns and classes);
beside the same rounds in one process and in worker processes (`processes`). Medians, computation included, and the load
of the machine before each, because all five participants share it. Needs NVFlare:

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-nvflare/bin/python benchmarks/bench_sites.py [--rounds 30] [--small]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.runfiles.toml_writer import dumps

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "hospitals"))

from four_hospitals import NAMES, federation, submit

ROWS = 60
L2 = 0.1


@dataclass(frozen=True)
class Case:
    """An algorithm whose rounds are one exchange."""

    algorithm: str
    columns: int
    rounds: int
    classes: int = 2

    @property
    def name(self) -> str:
        size = f"{self.columns} parameters" if self.classes == 2 else f"{self.columns} × {self.classes} parameters"
        return f"{self.algorithm}, {size}"

    @property
    def loss(self) -> dict[str, Any]:
        if self.classes == 2:
            return {"name": "Logistic", "l2": L2}
        return {"name": "Softmax", "l2": L2, "classes": self.classes}


def write(folder: Path, case: Case) -> dict[str, Path]:
    """The files of the sites, and the run file."""
    rng = np.random.default_rng(case.columns)
    truth = rng.normal(size=case.columns) / np.sqrt(case.columns)
    columns = [f"x{index}" for index in range(case.columns)]
    files = {}
    for name in NAMES:
        X = rng.normal(size=(ROWS, case.columns)).round(4)
        y = (rng.uniform(size=ROWS) < 1 / (1 + np.exp(-X @ truth))).astype(float)
        if case.classes > 2:
            y = rng.integers(case.classes, size=ROWS).astype(float)
        table = np.column_stack([X, y])
        np.savetxt(folder / f"{name}.csv", table, "%.6g", ",", header=",".join([*columns, "y"]), comments="")
        policy = {
            "parameters_per_row": 1e6,
            "share_of_cells": 1e6,
            "largest_row": 1.0,
            "largest_loss": 1e6,
            "bytes": 2**40,
            "min_cell": 1,  # there are more classes than rows
        }
        site = {
            "name": name,
            "store": f"store-{name}",
            "data": {"file": f"{name}.csv", "target": "y", "classes": list(range(case.classes))},
            "policy": policy,
        }
        files[name] = folder / f"{name}.toml"
        files[name].write_text(dumps(site))
    run = {
        "sites": {"names": list(NAMES), "target": "y"},
        "algorithm": {"name": case.algorithm, "loss": case.loss},
        "run": {"rounds": case.rounds, "tolerance": 0.0, "checkpoint_every": case.rounds},
        "output": {"figures": False},
    }
    (folder / "run.toml").write_text(dumps(run))
    return files


def seconds(rows: Sequence[dict[str, Any]]) -> float:
    """The median of a round, the first left out: it is the one that fills caches."""
    steps = [(b["seconds"] - a["seconds"]) / (b["exchanges"] - a["exchanges"]) for a, b in pairwise(rows[1:])]
    return float(np.median(steps))


def simulated(folder: Path, case: Case, transport: str) -> list[dict[str, Any]]:
    read = fs.data.load_sites(
        {name: folder / f"{name}.csv" for name in NAMES}, target="y", classes=list(range(case.classes))
    )
    settings = {name: value for name, value in case.loss.items() if name != "name"}
    algorithm = getattr(fs, case.algorithm)(getattr(fs, case.loss["name"])(**settings))
    run = fs.run(algorithm, read.clients, rounds=case.rounds, tolerance=0.0, transport=transport, min_rows=0)
    return [{"seconds": row.seconds, "exchanges": row.exchanges} for row in run.history]


def load() -> str:
    return " ".join(f"{one:.1f}" for one in os.getloadavg())


def measure(case: Case) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-sites-") as temporary:
        folder = Path(temporary)
        files = write(folder, case)
        before = load()
        with federation(folder, files) as kit:
            summary = submit(folder / "run.toml", kit, folder / "run")
        lines = (folder / "run" / "history.jsonl").read_text().splitlines()
        between = seconds([json.loads(line) for line in lines])
        exchanges = summary["exchanges"] * len(NAMES)
        up, down = summary["bytes_up"] / exchanges, summary["bytes_down"] / exchanges
        alone, workers = (seconds(simulated(folder, case, name)) for name in ("in_process", "processes"))
        print(
            f"{case.name}: {down:,.0f} bytes down and {up:,.0f} up per site; {between:.3f} s between sites, "
            f"{workers:.3f} s in worker processes (ratio {between / workers:.1f}), {alone:.3f} s in one process; "
            f"load {before} before, {load()} after",
            flush=True,
        )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--rounds", type=int, default=30, help="rounds of 300 parameters; a third of them for matrices")
    asked.add_argument("--small", action="store_true", help="300 parameters only")
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # one that is ended leaves nothing running
    if importlib.util.find_spec("nvflare") is None:
        print("skipped: NVFlare is not installed (pip install 'fedsolve[nvflare]')")
        return
    measure(Case("AGD", 300, given.rounds))
    few = max(4, given.rounds // 3)
    for case in (
        ()
        if given.small
        else (
            Case("Newton", 2000, few),
            Case("Newton", 2828, few),
            Case("AGD", 2000, few, classes=2000),
        )
    ):
        measure(case)


if __name__ == "__main__":
    main()
