"""What twice the precision costs: a site computes predictions so where their terms cancel.

Times over the plain product of the same matrices, and that product itself, the better of 5 runs each, taken in turn;
one thread: scripts/bench precise
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from fedsolve.numerics.precise_products import precise_product

RUNS = 5
SIZES = ((60, 2000, 2000), (1000, 50, 10), (1000, 300, 1), (20_000, 50, 1))  # rows, columns, outputs


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(rows: int, columns: int, outputs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    w = rng.normal(size=(columns, outputs) if outputs > 1 else columns)
    start = np.zeros((rows, *w.shape[1:]))
    pairs = [
        (seconds(lambda: precise_product([(slice(0, rows), X)], w, start)), seconds(lambda: X @ w)) for _ in range(RUNS)
    ]
    precise, plain = (min(times) for times in zip(*pairs, strict=True))
    print(
        f"{rows} rows, {columns} columns, {outputs} outputs: {1e3 * precise:.1f} ms, {precise / plain:.0f} times the "
        f"plain product, {1e3 * plain:.2f} ms"
    )


def main() -> None:
    with threadpool_limits(1):
        for sizes in SIZES:
            measure(*sizes)


if __name__ == "__main__":
    main()
