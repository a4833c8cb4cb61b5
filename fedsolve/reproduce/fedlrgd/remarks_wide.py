"""Algorithm 1 of Jadbabaie et al. (2023) with many inputs, which it says needs no assumption: d = p = 50, r = 8."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.losses import Logistic
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.remarks_algorithm import literal
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

WIDE = AtLeast(
    "After Proposition 1",
    "d = p = 50, r = 8: runs with finite weights and an end, share of runs",
    "times",
    100.0,
    "% of the runs",
)
USEFUL = Check("After Proposition 1", "… and at most a tenth of F(0) − F* is left, μ = 0.1, S = 400", "times", 0.1)
CHECKS = (WIDE, USEFUL)
WIDTH, CLIENTS, ROWS, OWN = 50, 6, 160, 8


def measured(seed: int) -> dict[str, float]:
    ends, left = zip(*(_wide(seed, kind) for kind in ("alike", "different")), strict=True)
    return named({WIDE: 100 * float(np.mean(ends)), USEFUL: max(left)})


def _wide(seed: int, kind: str) -> tuple[bool, float]:
    """50 inputs, six clients of 160 samples, eight of the server: whether it ends, and what is left of F(0) − F*."""
    rng, loss = np.random.default_rng([seed, 55, len(kind)]), Logistic(l2=0.1)
    truth, rows = rng.standard_normal(WIDTH) / 2, []
    for size in (*[ROWS] * CLIENTS, OWN):
        a, b = (1.0, 1.0) if kind == "alike" else rng.uniform(0.5, 5, 2)
        X = rng.beta(a, b, (size, WIDTH))
        rows.append((X, (rng.random(size) < 1 / (1 + np.exp(-X @ truth))).astype(float)))
    clients = [Client(f"client-{place}", *one) for place, one in enumerate(rows[:-1])]
    done = literal(clients, Client("server", *rows[-1]), loss, 400)
    if done is None:
        return False, math.nan
    X, y = np.vstack([one for one, _ in rows]), np.concatenate([one for _, one in rows])
    theta = np.zeros(WIDTH)
    for _ in range(30):
        share = 1 / (1 + np.exp(-X @ theta))
        H = (X.T * (share * (1 - share))) @ X / len(y) + loss.l2 * np.eye(WIDTH)
        theta = theta - np.linalg.solve(H, X.T @ (share - y) / len(y) + loss.l2 * theta)
    least = float(np.mean(np.logaddexp(0, X @ theta) - y * (X @ theta)) + loss.l2 / 2 * theta @ theta)
    first, last = done.history[0].value, done.history[-1].value
    assert first is not None
    assert last is not None
    return math.isfinite(last), (last - least) / (first - least)
