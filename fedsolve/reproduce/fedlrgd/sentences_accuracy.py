"""The proof of Theorem 2 of Jadbabaie et al. (2023): what (61) is needed for, and how the error left depends on it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_steps import Growing, descended, left_by
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

SQUARE = Check(
    "Proof of Theorem 2, (63)",
    "Algorithm 1, r = 2, S = 400: exponent in L_2 of F(θ^(S)) − F*, from 2, as δ² in (63) has it",
    "off",
    0.1,
)
NEEDED = AtLeast(
    "Theorem 2",
    "where (61) does not hold (L_2 = 0.1, S = 200, δ of (64)): draws that end above the promise",
    "times",
    50.0,
    unit="% of the draws",
)
HALVES = Check(
    "Proof of Theorem 2, after (65)",
    "r ≥ e√d 2^d (η + d)^d ⇔ x − 1 ≥ x/2, x = r^(1/d)/(e^(1/d) d^(1/2d) (η + d)): cases where one side is true only",
    "failures",
    0.0,
)
CHECKS = (SQUARE, NEEDED, HALVES)
DRAWS = 30


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 76])
    return named({SQUARE: _square(rng), NEEDED: 100 * _needed(rng), HALVES: _halves()})


def _drawn(rng: np.random.Generator) -> Growing:
    return Growing(rng.uniform(-4, 4), rng.uniform(0.1, 0.8), rng.uniform(1, 9))


def _square(rng: np.random.Generator) -> float:
    """Draws in which (61) holds with δ = ½ for the larger L_2; at least 10 of them."""
    off: list[float] = []
    while len(off) < 10:
        plain, probes, x = _drawn(rng), rng.uniform(-3, 3, 2), rng.random(40)
        large, small = (replace(plain, L_2=L_2) for L_2 in (1e-2, 1e-4))
        if large.L_2 * 2 ** (2 * large.alpha(probes) + 2) / 4 <= 0.5:
            ends = [left_by(g, x, probes, 400)[0] for g in (large, small)]
            off.append(abs(math.log(ends[0] / ends[1]) / math.log(100) - 2))
    return max(off)


def _needed(rng: np.random.Generator) -> float:
    ends = []
    for _ in range(DRAWS):
        g, probes, x = replace(_drawn(rng), L_2=0.1), rng.uniform(-3, 3, 2), rng.random(40)
        delta = (1 - g.mu / g.L_1) ** 100  # (64)
        if g.L_2 * 2 ** (2 * g.alpha(probes) + 2) / 4 > delta:
            ends.append(descended(g, x, probes, 200) > 1)
    return float(np.mean(ends)) if len(ends) >= 10 else math.nan


def _halves() -> float:
    wrong = []
    for d, eta, factor in product(range(1, 9), (0.5, 1.0, 2.7, 10.0, 40.0), (0.3, 0.999, 1.001, 3.0, 1e6)):
        edge = math.e * math.sqrt(d) * (2 * (eta + d)) ** d
        x = (factor * edge) ** (1 / d) / (math.exp(1 / d) * d ** (1 / (2 * d)) * (eta + d))
        wrong.append((factor >= 1) != (x - 1 >= x / 2))
    return float(np.mean(wrong))
