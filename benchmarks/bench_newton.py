"""Exact Newton at the speed of the machine.

(a) gradient and Hessian of 142 dense clients of 350 × 301, in one exchange with its sums, against 142 bare products
    SᵀS. Wanted: at most 1.4 times.
(b) the same on the sparse rows of w8a, against the dense path on the same rows. Wanted: at most 0.25 times.
(c) exact Newton on w8a, 142 clients, to ‖g‖ ≤ 1e-10, against scikit-learn's newton-cholesky on the pooled CSR matrix.
    Wanted: at most 1.0 times without what is set up once per client, 2.5 times with it.

One thread, minimum of 5, sides measured in turn in one run: scripts/bench newton. (b) and (c) need w8a (FEDSOLVE_DATA).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.errors import DataError
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess
from fedsolve.numerics.structured_arrays import Symmetric

LOSS = fs.Logistic(l2=1e-3)
CLIENTS, ROWS = 142, 350
STOPPING = fs.Stopping(tolerance=None, gradient_norm=1e-10)


@dataclass(frozen=True)
class Curvature:
    """A protocol of one step: the local gradient and Hessian."""

    loss: fs.Logistic

    @fs.client_step
    def evaluate(self, client: fs.Client, w: np.ndarray) -> tuple[np.ndarray, Symmetric]:
        return self.loss.gradient(client, w), self.loss.hessian(client, w)


def exchange(clients: list[fs.Client]) -> Callable[[np.ndarray], Any]:
    protocol = Curvature(LOSS)
    transport = InProcess(clients)
    transport.open({"curvature": protocol})
    fed = Federation(transport, {"curvature": protocol})
    fed.join()
    fed.begin_round(1)
    return lambda w: fed.mean(protocol.evaluate, w=w)


def in_turn(*sides: Callable[[], object], repeat: int = 5) -> list[float]:
    """Seconds of each side: the minimum of `repeat` measurements taken in turn."""
    found = [float("inf")] * len(sides)
    for _ in range(repeat):
        for index, side in enumerate(sides):
            start = time.perf_counter()
            side()
            found[index] = min(found[index], time.perf_counter() - start)
    return found


def report(label: str, ours: float, theirs: float, other: str, wanted: float) -> None:
    ratio = ours / theirs
    verdict = "ok" if ratio <= wanted else "MISSED"
    print(
        f"{label}: {ours * 1e3:7.1f} ms, {other} {theirs * 1e3:7.1f} ms, "
        f"ratio {ratio:.2f} (wanted ≤ {wanted}) {verdict}"
    )


def dense() -> None:
    rng = np.random.default_rng(0)
    clients = [
        fs.Client(f"client-{j}", rng.standard_normal((ROWS, 301)), (rng.random(ROWS) < 0.5).astype(float))
        for j in range(CLIENTS)
    ]
    points = iter(rng.standard_normal((100, 301)) / 20)
    ask = exchange(clients)
    data = [client.X for client in clients]

    def bare_products() -> None:
        for S in data:
            S.T @ S

    ours, bare = in_turn(lambda: ask(next(points)), bare_products)
    report("(a) dense ", ours, bare, "bare products", 1.4)


def sparse(X: sp.csr_array, y: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    points = iter(rng.standard_normal((100, X.shape[1])) / 20)
    thin = exchange(fs.data.partition(X, y, fs.data.Contiguous(), clients=CLIENTS))
    full = exchange(fs.data.partition(X.toarray(), y, fs.data.Contiguous(), clients=CLIENTS))
    w = next(points)
    np.testing.assert_allclose(thin(w)[1].full(), full(w)[1].full(), atol=1e-14)
    ours, theirs = in_turn(lambda: thin(next(points)), lambda: full(next(points)))
    report("(b) sparse", ours, theirs, "dense path", 0.25)


def whole(X: sp.csr_array, y: np.ndarray) -> None:
    from sklearn.linear_model import LogisticRegression

    clients = fs.data.partition(X, y, fs.data.Contiguous(), clients=CLIENTS)
    pooled = sp.csr_matrix(X)
    algorithm = fs.Newton(LOSS)
    warm, results = InProcess(clients, keep_caches=True), {}

    def again() -> None:
        results["ours"] = fs.run(algorithm, warm, stopping=STOPPING)

    def anew() -> None:
        fs.run(algorithm, fs.data.partition(X, y, fs.data.Contiguous(), clients=CLIENTS), stopping=STOPPING)

    def scikit_learn() -> None:
        results["theirs"] = LogisticRegression(
            C=1 / (LOSS.l2 * X.shape[0]), solver="newton-cholesky", tol=1e-10, fit_intercept=False
        ).fit(pooled, y)

    again()
    ours, set_up, theirs = in_turn(again, anew, scikit_learn)
    run, model = results["ours"], results["theirs"]
    distance = np.linalg.norm(run.model.w - model.coef_[0]) / np.linalg.norm(model.coef_)
    last = run.history[-1]
    print(f"    {run.rounds} rounds, ‖g‖ = {last.gradient_norm:.1e}, f = {last.value:.15f}, distance {distance:.1e}")
    report("(c) again ", ours, theirs, "scikit-learn", 1.0)
    report("(c) anew  ", set_up, theirs, "scikit-learn", 2.5)


def main() -> None:
    dense()
    try:
        data = fs.data.load("w8a")
    except DataError as error:
        print(f"(b), (c) left out: {error}")
        return
    rows = CLIENTS * ROWS
    X = sp.csr_array(sp.hstack([data.X[:rows], np.ones((rows, 1))], format="csr"))
    sparse(X, data.y[:rows])
    whole(X, data.y[:rows])


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
