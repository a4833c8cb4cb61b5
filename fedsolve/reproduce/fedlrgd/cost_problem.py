"""The problems on which costs are compared: logistic regression with a penalty (Jadbabaie et al., Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsolve.algorithms.newton import Newton
from fedsolve.complexity.suboptimality import Minimum
from fedsolve.federation.client import Client
from fedsolve.loop.run import run
from fedsolve.losses import Logistic
from fedsolve.typing import Array

P, L2, CLIENTS, SAMPLES = 2, 0.1, 20, 50
OWN = 8  # samples of the server
SIGNAL = 3.0  # the norm of the weights that labels are drawn with
LOSS = Logistic(l2=L2)
KINDS = ("alike", "different")

Rows = tuple[Array, Array]


@dataclass(frozen=True)
class CostProblem:
    """Rows of the clients, and of the server. F is the mean over all of them, n = ms + r (equation 3)."""

    rows: tuple[Rows, ...]
    own: Rows

    @property
    def clients(self) -> list[Client]:
        """For FedLRGD, with `server`."""
        return [Client(f"client-{j:02}", X, y) for j, (X, y) in enumerate(self.rows)]

    @property
    def server(self) -> Client:
        return Client("server", *self.own)

    @cached_property
    def dealt(self) -> tuple[Rows, ...]:
        """The clients' rows when those of the server are dealt out to them, one each: the same F without a server."""
        X, y = self.own
        return tuple(
            (np.vstack([mine, X[j : j + 1]]), np.append(labels, y[j : j + 1])) if j < len(y) else (mine, labels)
            for j, (mine, labels) in enumerate(self.rows)
        )

    @property
    def others(self) -> list[Client]:
        """For algorithms that do not learn from the server's samples."""
        return [Client(f"client-{j:02}", X, y) for j, (X, y) in enumerate(self.dealt)]

    @property
    def samples(self) -> int:
        """n."""
        return sum(len(y) for _, y in self.dealt)

    @cached_property
    def solved(self) -> tuple[Array, Minimum]:
        """θ*, F(0) and F*, by Newton's method to the accuracy of float64."""
        found = run(Newton(LOSS), self.others, tolerance=1e-15, rounds=30)
        values = [row.value for row in found.history if row.value is not None]
        return np.asarray(found.state.w), Minimum(values[0], min(values))

    @property
    def minimum(self) -> Minimum:
        return self.solved[1]


def posed(kind: str, seed: int, clients: int = CLIENTS) -> CostProblem:
    """Clients that are alike share one distribution, x uniform in [0, 1]²; different ones have distributions of x and
    of labels of their own, and the server that of nobody else."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    truth = rng.standard_normal(P)
    truth *= SIGNAL / np.linalg.norm(truth)

    def drawn(count: int, a: float, b: float, shift: float) -> Rows:
        X = rng.beta(a, b, (count, P))
        return X, (rng.random(count) < 1.0 / (1.0 + np.exp(-X @ truth - shift))).astype(float)

    rows = []
    for _ in range(clients):
        a, b = (1.0, 1.0) if kind == "alike" else rng.uniform(0.5, 5.0, 2)
        rows.append(drawn(SAMPLES, a, b, 0.0 if kind == "alike" else 2.0 * rng.standard_normal()))
    return CostProblem(tuple(rows), drawn(OWN, 1.0, 1.0, 0.0))
