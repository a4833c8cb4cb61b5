"""Privacy in Jadbabaie et al. (2023): what messages of Algorithm 1 tell of samples; p = 2, the loss of Appendix A."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import SAMPLES, P
from fedsolve.reproduce.fedlrgd.proofs_ledger import RANK
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, gradient, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

SECRET = Check(
    "Section I-B, 2",
    "samples of the server, to 1e-3, from the inverses and probes that clients are sent",
    "failures",
    0.0,
)
FEWER = Check("Section I-A, 1", "numbers that a client sends over those that its samples have, s = 50", "times")
SINGLE = Check("Section I-A, 1", "… and of a client with one sample: that sample, to 1e-3", "failures", 0.0)
CHECKS = (SECRET, FEWER, SINGLE)


def measured(seed: int) -> dict[str, float]:
    found = _secrets(np.random.default_rng([seed, 57]))
    return named({**found, FEWER: RANK * P / (SAMPLES * (P + 1))})


def found_sample(gradients: Array, probes: Array) -> Array:
    """x and y of one sample from its gradients at known probes, (r, p): (σ(ϑᵀx) − y) x = a is a direction and sizes."""
    from scipy.optimize import least_squares

    def off(guess: Array) -> Array:
        made = (sigmoid(probes @ guess[:-1]) - guess[-1])[:, None] * guess[:-1] + MU * probes
        return np.asarray((made - gradients).ravel())

    starts = [np.append(x, y) for x in ((0.2, 0.2), (0.8, 0.2), (0.2, 0.8), (0.8, 0.8)) for y in (0.1, 0.9)]
    ends = [least_squares(off, one, xtol=1e-15, ftol=1e-15, gtol=1e-15) for one in starts]
    return np.asarray(min(ends, key=lambda one: float(one.cost)).x)


def _secrets(rng: np.random.Generator) -> dict[Check, float]:
    """Four federations, each client with one sample: clients know ϑ and (G⁽ⁱ⁾)⁻¹, the server knows ϑ, G⁽ⁱ⁾ and v."""
    server: list[bool] = []
    client: list[bool] = []
    for _ in range(4):
        x, y, probes = rng.random((RANK + 1, 2)), rng.random(RANK + 1), rng.uniform(-1, 1, (RANK, 2))
        each = gradient(x[:, None], y[:, None], probes[None])  # samples, probes, p
        inverses = [np.linalg.inv(each[:RANK, :, i]) for i in range(2)]
        G = np.stack([np.linalg.inv(one) for one in inverses], axis=2)
        v = np.stack([each[RANK, :, i] @ inverses[i] for i in range(2)], axis=1)
        sent = np.einsum("ki,kti->ti", v, G)
        for sample, gradients, kept in ((RANK, sent, client), *((k, G[k], server) for k in range(RANK))):
            truth = np.append(x[sample], y[sample])
            kept.append(float(np.abs(found_sample(gradients, probes) - truth).max()) <= 1e-3)
    return {SECRET: float(np.mean(server)), SINGLE: float(np.mean(client))}
