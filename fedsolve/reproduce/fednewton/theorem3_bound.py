"""FedNewton, Theorem 3: every round's error over its bound with Υ^t, γ = ½, on the problem of `sharp`."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.diagnose import upsilon
from fedsolve.diagnose.theory import regime
from fedsolve.reproduce.fednewton.bounded import Drawn
from fedsolve.reproduce.fednewton.sharp import Sharp

PROBLEM = Sharp(0.5, 0.5, size=120)
TOTALS, SHARES = (512, 2048), (0.25, 0.5, 0.75, 0.9)  # |D_j| = |D|^share: the four cases of the theorem
ROUNDS, LOG = 8, math.log(2 / 0.05)  # log(2/δ)


def shares_of_bound(of: Sharp, total: int, share: float, rng: np.random.Generator) -> list[float]:
    """‖f̄^t − f*‖ over Υ^t ℵ log² + |D|^(−r/(2r+γ)) log, t = 0 to 8; clients alike, with equal numbers."""
    clients = max(2, round(float(total ** (1 - share))))
    samples, root, l2 = total // clients, np.sqrt(of.values()), of.l2(total)
    C = np.diag(of.values())
    parts = [(E * root, y) for E, y in of.parts(samples * clients, clients, rng)]
    drawn = Drawn.of(parts, [C] * clients, l2)
    value, case = upsilon(drawn.ops.samples, drawn.ops.locals, C, l2), regime(samples, total, of.r, of.gamma)
    return [
        float(np.linalg.norm(root * w - of.target()) / (value**t * case.aleph * LOG**2 + case.rate * LOG))
        for t, w in enumerate(drawn.rounds(ROUNDS))
    ]


def largest(rng: np.random.Generator) -> float:
    """Over all sizes and rounds."""
    return max(max(shares_of_bound(PROBLEM, total, share, rng)) for total in TOTALS for share in SHARES)
