"""The roads to a client's eigenpairs, side by side: the whole decomposition, the Gram matrix, Lanczos for a few.

SHED's clients need their leading eigenpairs at every renewal. `eigen.py` chooses; this says whether it chooses well:
each road's CPU time in ratio to the whole decomposition of the Hessian. One thread: scripts/bench eigen.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.curvature import eigenpairs as eigen

REPEAT = 7
SHAPES = ((400, 300), (140, 300), (150, 100), (800, 600), (200, 600))  # samples, unknowns
FEW = (2, 6, 14, 25)


def seconds(road: Callable[..., object], *given: object) -> float:
    found = []
    for _ in range(REPEAT):
        start = time.process_time()
        road(*given)
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    loss = fs.Logistic(l2=1e-6)
    print(f"{'samples × n':>12s} {'eigh':>9s} {'Gram':>6s}" + "".join(f"{f'Lanczos {few}':>12s}" for few in FEW))
    for samples, n in SHAPES:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((samples, n)) * np.linspace(1, 0.01, n) ** 2
        client = fs.Client("one", X, rng.integers(0, 2, samples).astype(float))
        w = 0.1 * rng.standard_normal(n)
        rows = eigen.weighted_rows(loss, client, w)
        whole = seconds(eigen.by_eigh, loss, client, w)
        gram = seconds(eigen.by_gram, rows, loss.l2) / whole if samples < n else float("nan")
        few = [seconds(eigen.by_lanczos, rows, loss.l2, count + 1) / whole for count in FEW]
        taken = ["*" if eigen.lanczos_pays(count + 1, samples, n) else " " for count in FEW]
        cells = "".join(f"{ratio:11.2f}{mark}" for ratio, mark in zip(few, taken, strict=True))
        print(f"{samples:5d} × {n:4d} {whole * 1e3:6.1f} ms {gram:6.2f}{cells}")
    print("Ratios to the whole decomposition; * where Lanczos is taken if so few are wanted.")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
