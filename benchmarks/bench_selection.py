"""Cross-validation of a logistic grid: all fits together, against the λ path with warm starts.

10 penalties, 5 folds, 10 unequal clients, 20,000 samples of 50 features. On the other side the folds still travel
together, but each penalty begins, fold by fold, where the larger one before it has ended; its exchanges are those of
the slowest fold at each penalty. Then what a bound on the replies costs.

One thread, minimum of 3, in turn: scripts/bench selection.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.federation.ledger import Total
from fedsolve.selection import Selection, fold_of_samples

N, P, FOLDS = 20_000, 50, 5
PENALTIES = np.geomspace(1e-6, 1.0, 10)
LOSS = fs.Logistic(intercept="free")


def problem() -> list[fs.Client]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P))
    y = (rng.random(N) < 1 / (1 + np.exp(-X[:, :5].sum(axis=1)))).astype(float)
    return fs.data.partition(X, y, fs.data.Dirichlet(0.5), clients=10, seed=0)


def together(clients: list[fs.Client], reply_bytes: int = 2**26) -> Selection:
    return fs.cross_validate(fs.loss_grid(LOSS, l2=PENALTIES), clients, folds=FOLDS, reply_bytes=reply_bytes)


def along_the_path(clients: list[fs.Client]) -> tuple[int, int]:
    """Exchanges and bytes up."""
    where = [fold_of_samples(client, FOLDS, 0) for client in clients]
    totals: list[list[Total]] = []
    for fold in range(FOLDS):
        rest = [fs.Client(c.name, c.X[w != fold], c.y[w != fold]) for c, w in zip(clients, where, strict=True)]
        model, totals_of_fold = None, []
        for l2 in PENALTIES[::-1]:
            run = fs.run(fs.Newton(fs.Logistic(l2=float(l2), intercept="free")), rest, warm_start=model, tolerance=1e-9)
            model = run.model
            totals_of_fold.append(run.ledger.total())
        totals.append(totals_of_fold)
    slowest = [max(total.exchanges for total in one) for one in zip(*totals, strict=True)]
    return sum(slowest), sum(total.bytes_up for one in totals for total in one)


def main() -> None:
    clients = problem()
    with threadpool_limits(1):
        seconds = [float("inf")] * 2
        for _ in range(3):
            for side, work in enumerate((together, along_the_path)):
                start = time.perf_counter()
                work(clients)
                seconds[side] = min(seconds[side], time.perf_counter() - start)
        total = together(clients).ledger.total()
        exchanges, up = along_the_path(clients)
        print(f"together       {total.exchanges:4d} exchanges  {total.bytes_up / 1e6:6.1f} MB up  {seconds[0]:.2f} s")
        print(f"along the path {exchanges:4d} exchanges  {up / 1e6:6.1f} MB up  {seconds[1]:.2f} s")
        for limit in (2**18, 2**16, 2**14):
            bound = together(clients, limit).ledger
            largest = max(int(record.bytes_up.sum(axis=0).max()) for record in bound.records)
            print(f"replies of {limit:7,} B: {bound.total().exchanges} exchanges, the largest has {largest:,} B")


if __name__ == "__main__":
    main()
