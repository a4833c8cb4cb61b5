"""One round of boosted trees against scikit-learn's HistGradientBoosting.

One round of FFGB on a9a: 10 clients (Dirichlet 0.5 over the labels) fit K trees each, the server gathers them, and all
clients add all of them to the predictions they keep. Against HistGradientBoostingClassifier fitting as many trees,
10 K, of the same depth on the pooled rows. What is done once is left out on both sides: of FFGB agreeing on bins and
putting rows into them, which is the first round; of HistGradientBoosting the binning, by the difference between two
fits. Wanted: at most 2.0 times.

One thread each, minimum of 3, measured in turn in one run: scripts/bench trees. Needs a9a (FEDSOLVE_DATA).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import fedsolve as fs
from fedsolve.data.dataset import Dataset
from fedsolve.errors import DataError
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess

CLIENTS, WANTED = 10, 2.0


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rounds(data: Dataset, depth: int, steps: int) -> Callable[[], object]:
    """A call for each further round, after the first, which puts the rows into bins."""
    clients = fs.data.partition(data.X, data.y, fs.data.Dirichlet(0.5), clients=CLIENTS, seed=0)
    learner = fs.Trees(depth=depth, leaves=None)
    algorithm = fs.FFGB(fs.Logistic(), learner, steps=steps, initial="constant", residual=None, weigh="samples")
    transport = InProcess(clients)
    protocols = {"algorithm": algorithm, "algorithm.learner": learner}
    transport.open(protocols)
    fed = Federation(transport, protocols)
    fed.join()
    fed.begin_round(0)
    state = algorithm.start(fed)

    def one() -> None:
        nonlocal state
        fed.begin_round(fed.round + 1)
        state = algorithm.round(fed, state)

    one()
    one()  # in the second round, clients hear of the trees of the first
    return one


def histogram(X: np.ndarray, y: np.ndarray, depth: int, trees: int) -> Callable[[], object]:
    model = HistGradientBoostingClassifier(
        max_iter=trees, max_depth=depth, max_leaf_nodes=None, early_stopping=False, random_state=0
    )
    return lambda: model.fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    try:
        data = fs.data.load("a9a")
    except DataError as error:
        print(f"left out: {error}")
        return
    X = data.X.toarray()
    with threadpool_limits(1):
        for depth, steps in ((3, 1), (6, 1), (6, 4)):
            ours, trees = rounds(data, depth, steps), CLIENTS * steps
            theirs, bare = histogram(X, data.y, depth, trees + 1), histogram(X, data.y, depth, 1)
            found = [(seconds(ours), seconds(theirs), seconds(bare)) for _ in range(options.repeat)]
            mine, whole, once = (min(each) for each in zip(*found, strict=True))
            other = whole - once
            print(
                f"depth {depth}, {trees} trees: a round {mine:.3f} s, HistGradientBoosting {other:.3f} s, "
                f"{mine / other:.2f} times (wanted {WANTED})",
                flush=True,
            )


if __name__ == "__main__":
    main()
