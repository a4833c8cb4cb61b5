"""FedAvg, FedDyn and Scaffold on torch clients: one call for many clients against one call each.

Whole runs of five rounds of five local steps, with joining and measuring, on the CPU with one thread and on a GPU if
there is one; FedDyn and Scaffold with full batches of the logistic loss. Both sides are measured in turn, the minimum
of several runs; the results must agree to 1e-8 and the ledgers be equal: scripts/bench together (needs torch)
"""

from __future__ import annotations

import time

import numpy as np
import torch

import fedsolve as fs
from fedsolve.federation.transports import InProcess
from fedsolve.losses import LinearLoss

ROUNDS, REPEAT, L2 = 5, 5, 1e-2
WHOLE, BATCHES = fs.GradientSteps(5), fs.GradientSteps(5, batch_size=10)
SQUARED, LOGISTIC = fs.Squared(L2, "free"), fs.Logistic(L2, "free")
Kind = type[fs.FedAvg] | type[fs.FedDyn] | type[fs.Scaffold]
CASES: list[tuple[Kind, LinearLoss, fs.GradientSteps]] = [
    (fs.FedAvg, SQUARED, WHOLE),
    (fs.FedAvg, LOGISTIC, WHOLE),
    (fs.FedAvg, LOGISTIC, BATCHES),
    (fs.FedDyn, LOGISTIC, WHOLE),
    (fs.Scaffold, LOGISTIC, WHOLE),
]


def make_clients(sizes: list[int], features: int, loss: LinearLoss, device: str) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    truth, made = rng.standard_normal(features) / features**0.5, []
    for index, n in enumerate(sizes):
        X = rng.standard_normal((n, features))
        y = X @ truth + 0.3 + rng.standard_normal(n)
        y = y if loss.quadratic else (y > 0).astype(float)
        made.append(fs.Client(f"client-{index}", torch.tensor(X, device=device), torch.tensor(y, device=device)))
    return made


def compare(sizes: list[int], features: int, kind: Kind, loss: LinearLoss, local: fs.GradientSteps, device: str) -> str:
    """Run both ways and say how they compare."""
    clients, algorithm = make_clients(sizes, features, loss, device), kind(loss, local=local)
    transports = [InProcess(clients), InProcess(clients, together=True)]
    seconds, runs = [float("inf")] * 2, list[fs.Run]()
    for _ in range(REPEAT):
        for side, transport in enumerate(transports):
            started = time.perf_counter()
            runs.append(fs.run(algorithm, transport, rounds=ROUNDS, tolerance=0.0))
            seconds[side] = min(seconds[side], time.perf_counter() - started)
    alone, together = runs[-2:]
    distance = float(np.linalg.norm(together.model.w - alone.model.w) / np.linalg.norm(alone.model.w))
    if distance > 1e-8 or together.ledger.records != alone.ledger.records:
        raise SystemExit(f"the two differ by {distance:.1e}, or in their ledgers")
    note = "" if not transports[1].one_by_one else f", {len(transports[1].one_by_one)} left out"
    return (
        f"{seconds[0] * 1e3:8.1f} ms one by one, {seconds[1] * 1e3:7.1f} ms together, "
        f"ratio {seconds[0] / seconds[1]:5.1f} (distance {distance:.0e}{note})"
    )


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    unequal = [int(n) for n in rng.integers(5, 61, 50)]
    cases = {
        "50 clients × 5 … 60 rows, M = 20": (unequal, 20),
        "200 clients × 20 rows, M = 20": ([20] * 200, 20),
        "50 clients × 250 rows, M = 100": ([250] * 50, 100),
        "10 clients × 2000 rows, M = 100": ([2000] * 10, 100),  # larger than what is stacked on the CPU
    }
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        print(f"── {device}: time of a run")
        for name, (sizes, features) in cases.items():
            print(name)
            for kind, loss, local in CASES:
                batches = "full batch" if local is WHOLE else "batches of 10"
                found = compare(sizes, features, kind, loss, local, device)
                print(f"    {kind.__name__:8s} {type(loss).__name__:8s} {batches:13s} {found}", flush=True)


if __name__ == "__main__":
    main()
