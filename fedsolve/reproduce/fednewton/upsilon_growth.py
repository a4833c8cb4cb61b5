"""FedNewton, after (42): whether Υ = 2 Σ p_j P_Dj R_Dj is of the order of Σ p_j R_Dj, by the size of the clients."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.proofs_operators import FEATURES
from fedsolve.typing import Array

GROWN, LIMIT = (8192, 131_072), 1.1  # |D|; times: it does not grow
ENOUGH, FEW = (0.5, 0.6, 0.75), 0.4  # |D_j| = |D|^share; with λ = |D|^-½ |D|^(1/(2r+γ)) is |D|^½


def claim(share: float) -> str:
    return f"after (42): Σ p_j P_Dj R_Dj over Σ p_j R_Dj does not grow with |D|, |D_j| = |D|^{share:g}"


CHECKS = tuple(Check("after (42)", claim(share), "times", LIMIT) for share in (*ENOUGH, FEW))


def weighted(P: Array, R: Array) -> float:
    """Σ p_j P_j R_j over Σ p_j R_j, for clients of equal weight: between the least P_j and the largest."""
    return float((P * R).sum() / R.sum())


def growth(share: float, rng: np.random.Generator) -> float:
    """How many times larger the ratio is at the larger |D|, clients alike, λ = |D|^-½."""
    ratios = []
    for total in GROWN:
        clients = round(total ** (1 - share))
        alike = world(clients, FEATURES)
        same = alike.locals()
        small = Drawn.of(alike.draw(total // clients, rng), same, total**-0.5).ops
        P, R = (np.array([f(*pair) for pair in zip(small.samples, same, strict=True)]) for f in (small.P, small.R))
        ratios.append(weighted(P, R))
    return ratios[1] / ratios[0]


def growths(seed: int, rng: np.random.Generator) -> dict[str, float]:
    """By claim. `rng` is for |D|^0.6, the first share that was tried; the others have one of their own."""
    own = np.random.default_rng((seed, 83))
    return {claim(share): growth(share, rng if share == 0.6 else own) for share in (*ENOUGH, FEW)}
