"""Theorems G.1 to G.3 of Shen et al. (2022) with oracles whose errors are as large as their condition allows.

The errors are of a fixed kind, minus until the last step of a round and then plus, so that the draws of the clients are
all that is random, and what a few clients exceed all of them by is no noise of the oracle.
"""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.participation_orders import THEOREMS, VARIED, Excess, Path
from fedsolve.reproduce.ffgb.participation_paths import (
    GAMMA,
    LONG,
    SHORT,
    everywhere,
    logistic_path,
    on_support,
    one_point,
    square_path,
)
from fedsolve.reproduce.ffgb.proof_runs import Posed
from fedsolve.reproduce.ffgb.square_runs import Regression

SUCH = "with such errors"
BOUNDS = tuple(
    Check(f"Theorem G.{n}", f"G.{n}: … below the bound, T = 4 to 256, with errors as large as the condition allows")
    for n in THEOREMS
)
EXCESS = tuple(
    Excess(f"Theorem G.{n}", f"G.{n}: … the excess falls at least like log T/T, {SUCH}", "exponent", 0.1)
    for n in THEOREMS
)
GROWTH = tuple(
    Excess(
        f"Theorem G.{n}",
        f"G.{n}: … over (N − m)/(N − 1) log T/(T{'' if n == 3 else 'μ²'}mγ²) it grows with none of {VARIED[n]}, {SUCH}",
        "exponent",
        0.1,
    )
    for n in THEOREMS
)
CHECKS = (*BOUNDS, *EXCESS, *GROWTH)


def paths(
    equal: Posed, general: Posed, squares: Regression, seed: int, gamma: float = GAMMA
) -> tuple[Path, Path, Path]:
    """As `participation_orders.paths`, with the same draws, and the three oracles with errors."""

    def rng() -> np.random.Generator:
        return np.random.default_rng([seed, 103])

    spiked, wide, moved = one_point(equal, gamma), on_support(general, gamma), everywhere(squares.inside, gamma)
    return (
        lambda T, m, draws, local: logistic_path(equal, SHORT, T, m, draws, rng(), local, spiked),
        lambda T, m, draws, local: logistic_path(general, LONG, T, m, draws, rng(), local, wide),
        lambda T, m, draws, local: square_path(squares, T, m, draws, rng(), local, moved),
    )
