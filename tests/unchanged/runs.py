"""Thirteen algorithms on two problems each and by both transports, as plain values that can be saved and compared.

`python -m tests.unchanged.runs FILE` saves what this version computes. `saved.json` holds what the library computed
before its modules were moved into rooms; `test_unchanged.py` compares.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from tests.problems import PROBLEMS, Problem

ROUNDS = 10
SQUARED, WEIGHTED = "squared, two outputs | unbalanced", "squared, free intercept | weighted"
LOGISTIC = "logistic, penalised intercept | unbalanced"

ALGORITHMS: dict[str, Callable[[Problem], Any]] = {
    "AGD": lambda problem: fs.AGD(problem.loss),
    "DKRR": lambda problem: fs.DKRR(problem.loss),
    "FedAvg": lambda problem: fs.FedAvg(problem.loss, fs.GradientSteps(3, batch_size=4)),
    "FedNL": lambda problem: fs.FedNL(problem.loss, fs.TopKPairs(1)),
    "FedNewton": lambda problem: fs.FedNewton(problem.loss),
    "FedNewtonCG": lambda problem: fs.FedNewtonCG(problem.loss),
    "FedProx": lambda problem: fs.FedProx(problem.loss, pull=0.5),
    "GIANT": lambda problem: fs.GIANT(problem.loss),
    "MontDec": lambda problem: fs.MontDec(problem.loss, increment=2),
    "Newton": lambda problem: fs.Newton(problem.loss),
    "SHED": lambda problem: fs.SHED(problem.loss, increment=2),
    "SHEDLeastSquares": lambda problem: fs.SHEDLeastSquares(problem.loss, increment=2),
    "Scaffold": lambda problem: fs.Scaffold(problem.loss, fs.GradientSteps(steps=5)),
}
CASES = [
    (name, problem)
    for name in ALGORITHMS
    for problem in ((SQUARED, WEIGHTED) if name == "SHEDLeastSquares" else (SQUARED, LOGISTIC))
]
TRANSPORTS = ("in_process", "processes")


def machine() -> dict[str, str]:
    """What decides the last bits of a product: the BLAS library, and which of its kernels this processor gets."""
    found = {f"{one['internal_api']} {one['version']} {one.get('architecture', '')}" for one in threadpool_info()}
    return {"numpy": np.__version__, "blas": "; ".join(sorted(found))}


@contextlib.contextmanager
def _watched(algorithm: Any) -> Iterator[list[np.ndarray]]:
    """The weights after each round, as the server's script returns them."""
    kind, seen = type(algorithm), list[np.ndarray]()
    originals = {"start": kind.start, "round": kind.round}

    def watch(name: str) -> Callable[..., Any]:
        def watched(self: Any, *arguments: Any) -> Any:
            outcome = originals[name](self, *arguments)
            state = outcome.state if isinstance(outcome, fs.Finished) else outcome
            seen.append(np.array(self.model(state).w))
            return outcome

        return watched

    for name in originals:
        setattr(kind, name, watch(name))
    try:
        yield seen
    finally:
        for name, function in originals.items():
            setattr(kind, name, function)


def compute(name: str, problem_name: str, transport: str) -> dict[str, Any]:
    """One run: its iterates, and its ledger by exchange."""
    problem = PROBLEMS[problem_name]
    algorithm, clients = ALGORITHMS[name](problem), problem.clients()
    road = (
        InProcess(clients, threads=1)
        if transport == "in_process"
        else Processes(clients, workers=2, threads=1, start="fork")
    )
    with threadpool_limits(1), _watched(algorithm) as seen:
        result = fs.run(algorithm, road, rounds=ROUNDS, seed=3)
    return {
        "status": result.status,
        "checksum": hashlib.sha256(b"".join(w.tobytes() for w in seen)).hexdigest(),
        "norms": [float(np.linalg.norm(w)) for w in seen],
        "w": result.model.w.ravel().tolist(),
        "exchanges": [_exchange(record) for record in result.ledger.records],
    }


def _exchange(record: Any) -> dict[str, Any]:
    def rows(table: np.ndarray, down: bool) -> list[int]:
        return [int(n) for n in (record.spread(table) if down else table).sum(axis=1)]

    return {
        "round": record.round,
        "calls": list(record.calls),
        "purposes": list(record.purposes),
        "answered": len(record.answered),
        "scalars": [rows(record.scalars_up, False), rows(record.scalars_down, True)],
        "bytes": [rows(record.bytes_up, False), rows(record.bytes_down, True)],
        "counts": [dict(counts) for counts in record.counts],
    }


def everything() -> dict[str, Any]:
    """All of it, as it is saved."""
    with threadpool_limits(1):
        return {
            "machine": machine(),
            "runs": {
                f"{name} | {problem}": compute(name, problem, "in_process")
                for name, problem in CASES  # the same by both transports, as the test sees
            },
        }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(everything(), indent=None, separators=(",", ":")) + "\n")
