"""Clients in Jadbabaie et al. (2023): what a message tells, what they compute besides gradients, and what Γ counts."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.complexity.oracle import oracle_complexity
from fedsolve.loop.history import Run
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import SAMPLES, posed
from fedsolve.reproduce.fedlrgd.proofs_ledger import CLIENTS, RANK, _descended, _gradients
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

SENT = Check(
    "Section I-A, after (3)",
    "other samples that send the same numbers, s = 50, in four draws: largest difference of a number",
    "off",
    1e-9,
)
SHARED = Check(
    "Section I-A, after (3)", "… and share of the client's samples that are among them, to 1e-2", "failures", 0.0
)
BESIDES = Check(
    "Section II-D",
    "a client's operations besides gradients over those of its gradients, s = 50, r = 3 to 100, logistic regression",
    "times",
)
FEWER = Check("Section II-D", "… and for r up to s = 50", "times")
ALONE = Check(
    "After Definition 1",
    "one client: Γ with φ = 0 is the number of gradients of server and client by the ledger, their ratio",
    "times",
)
ALL = Check("After Definition 1", "… with six clients: the gradients of all over Γ with φ = 0", "times")
STRAGGLERS = Check(
    "After Definition 1", "stragglers in (21): log(τm) over 2b at τm = 10⁶ over that at 20", "times", 0.01
)
CHECKS = (SENT, SHARED, BESIDES, FEWER, ALONE, ALL, STRAGGLERS)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 75])
    each = [_other(rng) for _ in range(4)]
    shares = [besides(r) for r in range(3, 101)]
    return named(
        {
            SENT: max(one for one, _ in each),
            SHARED: max(other for _, other in each),
            BESIDES: max(shares),
            FEWER: max(shares[: SAMPLES - 2]),
            STRAGGLERS: max(math.log(10**6) / (2 * b) / (math.log(20) / (2 * b)) for b in (1, 10, 100)),
            **_counted(seed),
        }
    )


def besides(r: int, s: int = SAMPLES) -> float:
    """(35): sums of s rows of r numbers, and a row times an r × r matrix, 2r², for each coordinate; over 4 operations
    for each coordinate of each of rs gradients."""
    return (r * s + 2 * r**2) / (4 * r * s)


def message(samples: Array, probes: Array) -> Array:
    """Σ_j ∇f(x_j; ϑ_k), from which (35) is made by known matrices. Samples have their label last."""
    return gradient(samples[:, None, :2], samples[:, None, 2], probes[None]).sum(axis=0).ravel()


def _slopes(samples: Array, probes: Array) -> Array:
    """Of the message by the entries of the samples."""
    x, share = samples[:, :2], sigmoid(samples[:, :2] @ probes.T)  # samples, probes
    curved = (share * (1 - share))[..., None, None] * x[:, None, :, None] * probes[None, :, None]
    by_x = curved + (share - samples[:, 2:])[..., None, None] * np.eye(2)
    by_y = -np.broadcast_to(x[:, None, :, None], (*share.shape, 2, 1))
    whole = np.concatenate([by_x, by_y], axis=3)  # samples, probes, p, entries
    return np.asarray(whole.transpose(1, 2, 0, 3).reshape(2 * len(probes), -1))


def _other(rng: np.random.Generator) -> tuple[float, float]:
    """Independent samples, moved as little as possible within [0, 1]³ until they send what the client sends."""
    mine, probes = rng.random((SAMPLES, 3)), rng.uniform(-1, 1, (RANK, 2))
    sent, z = message(mine, probes), rng.normal(0, 1.5, (SAMPLES, 3))
    for _ in range(60):
        theirs = sigmoid(z)
        J = _slopes(theirs, probes) * (theirs * (1 - theirs)).ravel()
        step = np.linalg.lstsq(J, sent - message(theirs, probes), rcond=1e-13)[0].reshape(z.shape)
        z = z + step * min(1.0, 1 / float(np.abs(step).max() + 1e-300))
    theirs = sigmoid(z)
    nearest = np.abs(mine[:, None] - theirs).max(axis=2).min(axis=1)
    return float(np.abs(message(theirs, probes) - sent).max()), float(np.mean(nearest <= 1e-2))


def _counted(seed: int) -> dict[Check, float]:
    """Runs of Algorithm 1 by the library."""
    alone, every = [], []
    for kind in ("alike", "different"):
        problem = posed(kind, seed, CLIENTS)
        one, six = (_descended(problem, problem.clients[:count], 20) for count in (1, CLIENTS))
        if one is None or six is None:  # G⁽ⁱ⁾ cannot be inverted
            continue
        alone.append(_calls(one) / oracle_complexity(one, 0.0).total)
        every.append(_calls(six) / oracle_complexity(six, 0.0).total)
    if not alone:
        return {ALONE: math.nan, ALL: math.nan}
    return {ALONE: max(max(one, 1 / one) for one in alone), ALL: max(every)}


def _calls(done: Run) -> int:
    clients, server = _gradients(done)
    return sum(clients) + server
