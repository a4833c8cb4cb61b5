"""The rank in the proof of Theorem 2 of Jadbabaie et al. (2023), after (65); and whether (8) leaves room for it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_rank
from fedsolve.complexity.low_rank import low_rank_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_orders import problems, second_entry
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

PIECES = Check("After (65)", "r = D |S| ≤ d! (l+d choose d)(q + 1)^d ≤ e√d (η + d)^d (q + 1)^d, both")
RADIUS = Check("After (65)", "(r^(1/d)/(e^(1/d) d^(1/(2d)) (η + d))) is at most q + 1")
ENOUGH = AtLeast("After (65)", "r ≥ e√d 2^d (η + d)^d makes q at least 1: the least q that r allows", "times")
ONLY = Check("After (65)", "as printed (⇔), q ≥ 1 makes e√d 2^d (η + d)^d at most r, too: as many times r")
STIRLING = Check("After (65)", "1/l! is at most η e^η/(η − 1)^η, η from 1.1 to 60")
SOLVED = Check("After (65)", "with the second entry of (47) for r the last bound on (61)'s left side is δ", "off", 1e-9)
TOGETHER = AtLeast(
    "Theorem 2 and assumption 5",
    "with r of (47) ‖G⁻¹‖ ≤ r^α is possible: r^α times the least singular value that Theorem 1 leaves G, its largest",
    "times",
    unit="of what (8) needs, where it is largest",
)
CHECKS = (PIECES, RADIUS, ENOUGH, ONLY, STIRLING, SOLVED, TOGETHER)


def measured(seed: int) -> dict[str, float]:
    return named({**_pieces(), **_rank()})


def first_entry(eta: float, d: int) -> float:
    """e√d 2^d (η + d)^d."""
    return math.exp(1 + 0.5 * math.log(d) + d * math.log(2 * (eta + d)))


def _pieces() -> dict[Check, float]:
    """Cubes of side 2/(dq) lie in ℓ¹-balls of radius 1/q, so a least cover has no more; of d = 1 it is the least."""
    both, radius, only = 0.0, 0.0, 0.0
    for d, eta, q in product((1, 2, 3), (1.5, 2.0, 4.0, 9.5), (1.0, 2.0, 5.0, 20.0)):
        degree = math.ceil(eta) - 1
        r = math.comb(degree + d, d) * math.ceil(d * q / 2) ** d
        middle = math.factorial(d) * math.comb(degree + d, d) * (q + 1) ** d
        last = math.exp(1 + 0.5 * math.log(d) + d * math.log(eta + d)) * (q + 1) ** d
        both = max(both, r / middle, middle / last)
        radius = max(radius, r ** (1 / d) / (math.exp(1 / d) * d ** (1 / (2 * d)) * (eta + d)) / (q + 1))
        only = max(only, first_entry(eta, d) / r)
    return {PIECES: both, RADIUS: radius, ONLY: only}


def _rank() -> dict[Check, float]:
    least, solved, left = math.inf, 0.0, 0.0
    for one, epsilon in product(problems(), (1.0, 1e-3, 1e-6)):
        scale = math.exp(1 / one.d) * one.d ** (1 / (2 * one.d)) * (one.eta + one.d)
        r = fedlrgd_rank(one, epsilon)
        least = min(least, r ** (1 / one.d) / scale - 1)
        if r < 1e300:
            solved = max(solved, abs(_last_bound(one, epsilon)))
            left = max(left, _left(one, r))
    etas = np.linspace(1.1, 60, 590)
    stirling = [
        math.exp(eta * math.log(eta - 1) - math.log(eta) - eta - math.lgamma(math.ceil(eta - 1e-9))) for eta in etas
    ]  # l! = Γ(⌈η⌉)
    return {ENOUGH: least, STIRLING: max(stirling), SOLVED: solved, TOGETHER: left}


def _last_bound(one: SmoothProblem, epsilon: float) -> float:
    """log of L₂ η 2^η e^(η(d+1)/d) d^(η/(2d)) (η + d)^η / ((η − 1)^η r^(η/d − 2α − 2)) over the least δ."""
    eta, d = one.eta, one.d
    found = math.log(one.L_2 * eta) + eta * math.log(2 * (eta + d) / (eta - 1)) + eta * (d + 1) / d
    found += eta / (2 * d) * math.log(d) - (eta / d - 2 * one.alpha - 2) * math.log(second_entry(one, epsilon))
    return found - 0.5 * math.log((one.kappa - 1) * epsilon / (one.kappa * one.spread))


def _left(one: SmoothProblem, r: float) -> float:
    """Theorem 1 for G and rank r − 1: σ_r² = ‖G − G_(r−1)‖² is at most r² times its bound; (8): σ_r ≥ r^(−α)."""
    bound = low_rank_bound(int(r) - 1, one.eta, one.L_2, one.d)
    return float(r * math.sqrt(bound) * r**one.alpha)
