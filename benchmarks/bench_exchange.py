"""What an exchange costs beyond its arithmetic.

(a) 10 clients of 500 rows, one gradient from rows each, against the same arithmetic in a bare NumPy loop.
    Wanted: at most 2.0 times at M = 100, 1.1 times at M = 1000.
(b) 10 to 10,000 clients of one row: microseconds per client-exchange, which should not grow.

One thread, both sides measured in turn in one run, the minimum of many short repetitions (other work on the machine
lengthens some of them): scripts/bench exchange
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess

L2 = 1e-3


@dataclass(frozen=True)
class Gradients:
    """A protocol of one step: the local gradient."""

    loss: fs.Squared

    @fs.client_step
    def gradient(self, client: fs.Client, w: np.ndarray) -> np.ndarray:
        return self.loss.gradient(client, w)


def make_clients(count: int, rows: int, features: int) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    return [
        fs.Client(f"client-{j}", rng.standard_normal((rows, features)), rng.standard_normal(rows)) for j in range(count)
    ]


def federated(clients: list[fs.Client]) -> Callable[[np.ndarray], Any]:
    protocol = Gradients(fs.Squared(l2=L2))
    transport = InProcess(clients)
    transport.open({"gradients": protocol})
    fed = Federation(transport, {"gradients": protocol})
    fed.join()
    fed.begin_round(1)
    return lambda w: fed.mean(protocol.gradient, w=w)


def bare(clients: list[fs.Client]) -> Callable[[np.ndarray], Any]:
    data = [(client.X, client.y, client.weight) for client in clients]
    total = sum(n for _, _, n in data)

    def gradient(w: np.ndarray) -> np.ndarray:
        mean = np.zeros(w.shape)
        for X, y, n in data:
            mean += (n / total) * (X.T @ (X @ w - y) / n + L2 * w)
        return mean

    return gradient


def best(
    functions: list[Callable[[np.ndarray], Any]], points: list[np.ndarray], repeat: int, number: int
) -> list[float]:
    """Seconds per call: the minimum of `repeat` measurements, taken in turn; never twice the same point running."""
    found, following = [float("inf")] * len(functions), [cycle(points) for _ in functions]
    for _ in range(repeat):
        for index, function in enumerate(functions):
            upcoming = [next(following[index]) for _ in range(number)]
            start = time.perf_counter()
            for point in upcoming:
                function(point)
            found[index] = min(found[index], (time.perf_counter() - start) / number)
    return found


def main() -> None:
    rng = np.random.default_rng(1)
    print("(a) 10 clients × 500 rows, one exchange")
    for features, wanted in ((100, 2.0), (1000, 1.1)):
        clients = make_clients(10, 500, features)
        ours, loop = federated(clients), bare(clients)
        points = [rng.standard_normal(features) for _ in range(3)]
        np.testing.assert_allclose(ours(points[0]), loop(points[0]), rtol=1e-12)
        here, there = best([ours, loop], points, repeat=250, number=10 if features == 100 else 3)
        ratio = here / there
        print(
            f"    M = {features:4d}: {here * 1e6:8.0f} µs, bare loop {there * 1e6:8.0f} µs, "
            f"ratio {ratio:.2f} (wanted ≤ {wanted}) {'ok' if ratio <= wanted else 'MISSED'}"
        )
    print("(b) clients of one row, M = 10")
    for count in (10, 100, 1000, 10_000):
        ours = federated(make_clients(count, 1, 10))
        points = [rng.standard_normal(10) for _ in range(3)]
        (seconds,) = best([ours], points, repeat=5, number=max(1, 2000 // count))
        print(f"    {count:6d} clients: {seconds / count * 1e6:6.1f} µs per client-exchange")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
