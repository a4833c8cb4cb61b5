"""Theorems 2 and 3, Proposition 1 and Lemmas 2 and 4 of Jadbabaie et al. (2023)."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.complexity.fedave_theory import compare_bounds, fedave_optimum
from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_rank, fedlrgd_steps
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

INEXACT = Check("Lemma 2", "inexact gradient descent ends no higher than the bound, whatever the errors")
ENOUGH = Check("Theorem 2, (48) and (65)", "with S steps (1 − 1/κ)^S times the spread is at most ε, and δ at most ½")
SUFFICES = Check("Theorem 2, (47)", "with r of (47), its exponent on the second entry only, (61) holds")
LARGE = Check("Theorem 2, (47)", "… and r is at least e√d 2^d (η + d)^d")
PRINTED = Check("Theorem 2, (47)", "as printed, with the exponent on the whole maximum, r is that large, too")
ORDER = Check("Theorem 3, Appendix D", "the least Γ(FedAve) is at most 8 φτm (Cp/ε)^(3/4), φ ≥ 40/(C^¼ τ)")
LEAST = AtLeast(
    "Theorem 3, Appendix D",
    "… and at least ¾ φτm (Cp/ε)^(3/4), as many times",
    "times",
    unit="times ¾ φτm (Cp/ε)^(3/4)",
)
CUBIC = Check("Appendix D", "Viète's formula for b* solves the cubic (86)", "off", 1e-6)
RANGE = Check("Appendix D, (89)", "b* is at most 2 times m (ε/(Cp))^¼", "times", 2.0)
LOWER = AtLeast("Appendix D, (89)", "… and at least ½ times", "times", 0.5, unit="m (ε/(Cp))^¼")
ROOT = Check("Lemma 4", "sin(arcsin(1 − t²)/3 + 2π/3) is within 5t²/9 of ½ + t/√6 on [0, 1]")
SLOWER = Check(
    "Proposition 1", "Γ(FedLRGD)/(φm) grows no faster than (p/ε)^ξ, ξ = ½, as m goes from 10⁶ to 10¹²", "exponent", 0.5
)
VANISHES = Check("Proposition 1", "Γ(FedLRGD)/Γ₊(FedAve) falls with m, from 10³ to 10¹⁵", "times", 1.0)
CHECKS = (
    *(INEXACT, ENOUGH, SUFFICES, LARGE, PRINTED, ORDER, LEAST, CUBIC, RANGE, LOWER, ROOT, SLOWER, VANISHES),
)  # fmt: skip


def measured(seed: int) -> dict[str, float]:
    found = {**_lemma_2(seed), **_theorem_2(), **_theorem_3(), **_lemma_4(), **_proposition_1()}
    return named(found)


def _lemma_2(seed: int) -> dict[Check, float]:
    """A quadratic with κ = 10 and 100, gradients with errors that are random, or that oppose the descent."""
    rng, worst = np.random.default_rng([seed, 24]), 0.0
    for kappa, size, against in product((10.0, 100.0), (0.0, 0.1, 1.0), (False, True)):
        H = np.linspace(1 / kappa, 1, 8)
        theta, L_1, shrink = rng.standard_normal(8), 1.0, 1 - 1 / kappa
        bound = float(theta @ (H * theta)) / 2
        for _ in range(200):
            gradient = H * theta
            error = size * (-gradient if against else rng.standard_normal(8))
            bound = shrink * bound + float(error @ error) / (2 * L_1)
            theta = theta - (gradient + error) / L_1
            worst = max(worst, float(theta @ (H * theta)) / 2 / bound)
    return {INEXACT: worst}


def problems() -> list[SmoothProblem]:
    chosen = product((2, 1000), (1, 2, 4), (1.0, 2.0), (1.0, 4.0, 100.0), (0.2, 5.0), (0.5, 10.0))
    return [
        SmoothProblem(p, d, (2 * alpha + 2 + more) * d, L_1, L_2, 0.1, 1.0, 1.0, alpha)
        for p, d, alpha, more, L_1, L_2 in chosen
    ]


def _smallest_rank(one: SmoothProblem) -> float:
    return math.exp(1 + 0.5 * math.log(one.d) + one.d * math.log(2 * (one.eta + one.d)))


def second_entry(one: SmoothProblem, epsilon: float) -> float:
    """Of the maximum in (47), with its exponent 1/(η − (2α + 2) d)."""
    eta, d = one.eta, one.d
    found = d * math.log(one.L_2 * eta) + eta * (d + 1) + 0.5 * eta * math.log(d)
    found += eta * d * math.log((2 * eta + 2 * d) / (eta - 1))
    found += 0.5 * d * math.log(one.kappa * one.spread / ((one.kappa - 1) * epsilon))
    return math.exp(found / one.excess)


def _theorem_2() -> dict[Check, float]:
    enough, suffices, large, printed = 0.0, 0.0, 0.0, 0.0
    for one, epsilon in product(problems(), (1.0, 1e-3, 1e-6)):
        S, r = fedlrgd_steps(one, epsilon), fedlrgd_rank(one, epsilon)
        if math.isinf(r):
            continue
        left = (1 - 1 / one.kappa) ** S
        delta = math.sqrt(left)
        enough = max(enough, left * one.spread / epsilon, delta / 0.5)
        degree, first = math.ceil(one.eta) - 1, _smallest_rank(one)
        # (61) in logarithms: L_2 r^(2α + 2) / (l! q^η) ≤ δ, with the least q that r allows
        log_q = math.log(r) / one.d - math.log(2 * (one.eta + one.d)) - (1 + 0.5 * math.log(one.d)) / one.d
        power = math.log(one.L_2) + (2 * one.alpha + 2) * math.log(r) - math.lgamma(degree + 1) - one.eta * log_q
        suffices, large = max(suffices, math.exp(min(power - math.log(delta), 50))), max(large, first / r)
        printed = max(printed, first / math.ceil(max(first ** (1 / one.excess), second_entry(one, epsilon))))
    return {ENOUGH: enough, SUFFICES: suffices, LARGE: large, PRINTED: printed}


def _theorem_3() -> dict[Check, float]:
    most, least, cubic, places = 0.0, math.inf, 0.0, []
    for m, p, epsilon, tau, C, more in product(
        (20, 10**4), (1, 100), (1.0, 1e-3, 1e-6), (0.1, 1.0), (0.5, 1.0, 50.0), (1, 10)
    ):
        phi, relative = more * 40 / (C**0.25 * tau), epsilon / (C * p)
        order = phi * tau * m * relative**-0.75
        total = fedave_optimum(m, p, epsilon, phi=phi, tau=tau, C=C).total
        most, least = max(most, total / (8 * order)), min(least, total / (0.75 * order))
        C_1, C_2, C_3 = 1 / (2 * m * relative), m * relative**-0.5, phi * tau * m
        angle = math.asin(1 - 54 * C_2 / (C_1 * C_3**2)) / 3 + 2 * math.pi / 3
        b = C_3 / 3 * (math.sin(angle) - 0.5)
        cubic = max(cubic, abs(2 * C_1 * b**3 + C_1 * C_3 * b**2 - C_2 * C_3) / (C_2 * C_3))
        places.append(b / (m * relative**0.25))
    return {ORDER: most, LEAST: least, CUBIC: cubic, RANGE: max(places), LOWER: min(places)}


def _lemma_4() -> dict[Check, float]:
    t: Array = np.linspace(1e-4, 1, 10_001)
    off = np.abs(np.sin(np.arcsin(1 - t**2) / 3 + 2 * np.pi / 3) - 0.5 - t / math.sqrt(6))
    return {ROOT: float((off / (5 * t**2 / 9)).max())}


def _proposition_1() -> dict[Check, float]:
    """d = 1, ξ = ½: η = (c_1 + 2α + 2) d with c_1 = 2/ξ; ε = n^(−½), s = φ = 100, p = 10."""
    slopes, ratios = [], []
    for c_1 in (4.0, 6.0):
        found = []
        for power in (3, 6, 9, 12, 15):
            m = 10**power
            epsilon = (100.0 * m) ** -0.5
            one = SmoothProblem(10, 1, c_1 + 4, 1.0, 1.0, 0.5, 10.0)
            found.append((10 / epsilon, compare_bounds(one, epsilon, s=100, m=m, phi=100.0), m))
        (x, a, m), (z, b, k) = found[1], found[3]
        slopes.append(math.log(b.fedlrgd / k / (a.fedlrgd / m)) / math.log(z / x))
        each = [both.ratio for _, both, _ in found]
        ratios += [after / before for before, after in pairwise(each)]
    return {SLOWER: max(slopes), VANISHES: max(ratios)}
