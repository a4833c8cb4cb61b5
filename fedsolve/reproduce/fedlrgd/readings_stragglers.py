"""Section I-A of Jadbabaie et al. (2023): slow clients late, on linear regressions whose clients are alike."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

LATE = Check(
    "Section I-A, 4",
    "fast clients first, twice as many at each stage: time until the accuracy of all samples, over all from the start",
    "times",
)
EARLY = AtLeast("Section I-A, 4", "… with the slow clients first, over that", "times", 1.0, "times as long")
CHECKS = (LATE, EARLY)
CLIENTS, SAMPLES, P = 32, 20, 5


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    rng = np.random.default_rng([seed, 95])
    late, early = [], []
    for _ in range(3 if quick else 10):
        first, last, all_of = _times(rng)
        late.append(first / all_of)
        early.append(last / first)
    return named({LATE: max(late), EARLY: min(early)})


def _times(rng: np.random.Generator) -> tuple[float, float, float]:
    """Until ‖θ − the solution of all samples‖² ≤ p/n: fast clients first, slow ones first, all of them at once.

    A gradient takes 1 for the fastest client and more for the others, exponentially distributed; a round as long as
    for the slowest of those that take part. Each stage ends at the accuracy p/n of its own samples.
    """
    X = rng.standard_normal((CLIENTS, SAMPLES, P))
    y = X @ np.ones(P) + rng.standard_normal((CLIENTS, SAMPLES))
    slow = np.sort(1 + rng.exponential(10.0, CLIENTS))
    found = []
    for order, start in ((np.arange(CLIENTS), 2), (np.arange(CLIENTS)[::-1], 2), (np.arange(CLIENTS), CLIENTS)):
        theta, elapsed, active = np.zeros(P), 0.0, start
        while active <= CLIENTS:
            rows = order[:active]
            A, b = X[rows].reshape(-1, P), y[rows].ravel()
            best, rate = np.linalg.lstsq(A, b, rcond=None)[0], len(A) / float(np.linalg.norm(A, 2)) ** 2
            while ((theta - best) ** 2).sum() > P / len(A):
                theta = theta - rate * A.T @ (A @ theta - b) / len(A)
                elapsed += float(slow[rows].max())
            active *= 2
        found.append(elapsed)
    return found[0], found[1], found[2]
