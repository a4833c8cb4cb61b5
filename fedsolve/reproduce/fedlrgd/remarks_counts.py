"""Counts in Jadbabaie et al. (2023): which ranks there are, (52), tilings, and what inverses cost beside gradients."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.complexity.fedlrgd_theory import fedlrgd_rank
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_orders import problems
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

RANKS = AtLeast(
    "Section III-C",
    "any r from 100 to 999 is (l+d choose d)|S| for some q, d = 1 and l = 1: share of them",
    "times",
    100.0,
    "% of the ranks",
)
ROUNDED = Check("Section III-C", "… and each is within l of one that is, l = 1 to 5: largest distance over l", "times")
TILES = AtLeast(
    "Footnote 7",
    "ℓ¹-balls do not tile space edge to edge: 2π over the dihedral angle at d = 3, from the nearest whole number",
    "times",
    0.1,
    unit="off a whole number",
)
BINOMIAL = Check("(52)", "d! ≤ e√d (d/e)^d and (l+d choose d) ≤ (e(l + d)/d)^d, d ≤ 20 and l ≤ 50, both")
DISPLAY = Check("Proof of Theorem 1", "last display, lines two to five: each at most the next, d ≤ 3, η ≤ 6, r to 10⁶")
INVERSES = Check(
    "Section I-A; after (19)",
    "p inverses of r × r take no more operations than r² gradients of a logistic regression, r = 3 to 100",
    "times",
)
ROUNDS = Check(
    "Section I-B, 2",
    "Theorem 2: r of (47), the rounds in which clients send, its least over the grid of constants",
    "times",
    100,
)
CHECKS = (ROUNDS, RANKS, ROUNDED, TILES, BINOMIAL, DISPLAY, INVERSES)


def measured(seed: int) -> dict[str, float]:
    # (2/3 + 4/3) r³ for an inverse; 4p for (σ(θᵀx) − y)x + μθ: 2p for θᵀx, p for the factor, p for the penalty
    operations = max(2 * r**3 / (4 * r**2) for r in (3, 5, 10, 100))
    normals = np.array([[1, 1, 1], [1, 1, -1]]) / math.sqrt(3)  # of two neighbouring faces of the octahedron
    angle = math.pi - math.acos(float(normals[0] @ normals[1]))
    apart = abs(2 * math.pi / angle - round(2 * math.pi / angle))
    return named({**_ranks(), **_displays(), TILES: apart, INVERSES: operations, ROUNDS: _rounds()})


def _rounds() -> float:
    return min(fedlrgd_rank(one, epsilon) for one, epsilon in product(problems(), (1.0, 1e-3, 1e-6)))


def _ranks() -> dict[Check, float]:
    """d = 1: D = l + 1, and |S| = ⌈q/2⌉ is every whole number."""
    pieces = {math.ceil(q / 2) for q in np.arange(0.5, 2000, 0.5)}
    share = float(np.mean([r / 2 in pieces for r in range(100, 1000)]))
    far = max(min(abs(r - (l + 1) * k) for k in pieces) / l for l in range(1, 6) for r in range(100, 200))
    return {RANKS: 100 * share, ROUNDED: far}


def _displays() -> dict[Check, float]:
    binomial, display = 0.0, 0.0
    for d, l in product(range(1, 21), range(51)):
        first = math.lgamma(d + 1) - 1 - 0.5 * math.log(d) - d * (math.log(d) - 1)
        second = math.log(math.comb(l + d, d)) - d * (1 + math.log((l + d) / d))
        binomial = max(binomial, math.exp(max(first, second)))
    for d, eta, more in product((1, 2, 3), (0.5, 1.0, 1.5, 2.0, 4.0, 6.0), (1.0, 2.0, 1e2, 1e6)):
        l = math.ceil(eta) - 1
        if l + d == 0:
            continue
        r = math.ceil(math.e * math.sqrt(d) * 2**d * (l + d) ** d * more)
        scale = math.exp(1 / d) * d ** (1 / (2 * d)) * (l + d)
        q = (r / (math.factorial(d) * math.comb(l + d, d))) ** (1 / d) - 1
        lines = [-2 * eta * math.log(q), -2 * eta * math.log(r ** (1 / d) / scale - 1)]
        last = (
            2 * eta / d
            + eta / d * math.log(d)
            + eta * math.log(4)
            + 2 * eta * math.log(l + d)
            - 2 * eta / d * math.log(r)
        )
        display = max(display, *(math.exp(one - other) for one, other in pairwise([*lines, last])))
    return {BINOMIAL: binomial, DISPLAY: display}
