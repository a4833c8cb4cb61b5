"""How Γ of Theorem 2 scales, and the three estimates of (47) in Appendix E of Jadbabaie et al. (2023)."""

from __future__ import annotations

import math
from itertools import product

from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

FAST = Check(
    "After Theorem 2", "Γ(FedLRGD) in 1/ε: exponent over d/(η − (2α + 2)d), ε from 1e-100 to 1e-200", "times", 1.01
)
SLOW = AtLeast("After Theorem 2", "… and at least half of it", "times", 0.5, unit="of d/(η − (2α + 2)d)")
WIDE = Check(
    "After Theorem 2", "Γ(FedLRGD) in p: exponent over d/(η − (2α + 2)d), p from 10¹⁰⁰ to 10²⁰⁰", "times", 1.01
)
NARROW = AtLeast("After Theorem 2", "… and at least half of it, in p", "times", 0.5, unit="of d/(η − (2α + 2)d)")
LINEAR = Check("After Theorem 2", "Γ(FedLRGD) in φm: exponent, φm from 10¹² to 10¹⁵", "exponent", 1.0)
NEARLY = AtLeast("After Theorem 2", "… and at least 0.9", "times", 0.9)
PRINTED = Check("Appendix E, 1", "e√d 2^d (η + d)^d ≤ e (2c₂ + 4α + 6) d^(d + ½), as printed, d = 1 to 20")
FIRST = Check("Appendix E, 1", "… with (2c₂ + 4α + 6)^d")
SUPER = Check("Appendix E, 1", "… which is O(d^(2d + ½)): its logarithm over that of d^(2d + ½), d = 10⁶", "times")
LOGS = Check(
    "Appendix E, 1", "log of d^(2d + ½), d = c₃ log(n)^λ, over 2λc₃ log(n)^((λ + 1)/2), falls to below 1", "times"
)
SECOND = Check(
    "Appendix E, 2", "the second estimate: log of its two sides' ratio grows by so much per d", "exponent", 0.0
)
THIRD = Check("Appendix E, 3", "the third factor's exponent in p/ε over 1/(2c₁)", "times")
CHECKS = (FAST, SLOW, WIDE, NARROW, LINEAR, NEARLY, PRINTED, FIRST, SUPER, LOGS, SECOND, THIRD)
ALPHA = 1.0


def measured(seed: int) -> dict[str, float]:
    return named({**_exponents(), **_first(), **_second()})


def _exponents() -> dict[Check, float]:
    """Γ of the library's formula where the second entry of (47) is the larger one by far."""
    fast, wide, linear = [], [], []
    for d, alpha, more, m, phi in product((1, 2), (1.0, 2.0), (1.0, 4.0, 20.0), (10, 10**6), (1.0, 1e4)):
        eta = (2 * alpha + 2 + more) * d

        def cost(
            p: int, epsilon: float, m: int, phi: float, d: int = d, eta: float = eta, alpha: float = alpha
        ) -> float:
            one = SmoothProblem(p, d, eta, 1.0, 1.0, 0.1, 1.0, 1.0, alpha)
            return math.log10(fedlrgd_bound(one, epsilon, s=1, m=m, phi=phi).total)

        scale = d / (more * d)
        fast.append((cost(2, 1e-200, m, phi) - cost(2, 1e-100, m, phi)) / 100 / scale)
        wide.append((cost(10**200, 1.0, m, phi) - cost(10**100, 1.0, m, phi)) / 100 / scale)
        if more >= 4:
            linear.append((cost(2, 1e-3, 10**6, 1e9) - cost(2, 1e-3, 10**6, 1e6)) / 3)
    return {
        FAST: max(fast),
        SLOW: min(fast),
        WIDE: max(wide),
        NARROW: min(wide),
        LINEAR: max(linear),
        NEARLY: min(linear),
    }


def _first() -> dict[Check, float]:
    printed, fair = 0.0, 0.0
    for c_2, d in product((4.0, 10.0), range(1, 21)):
        left = 1 + 0.5 * math.log(d) + d * math.log(2 * (c_2 + 2 * ALPHA + 3) * d)  # η = (c₂ + 2α + 2) d
        factor = math.log(2 * c_2 + 4 * ALPHA + 6)
        printed = max(printed, math.exp(left - 1 - factor - (d + 0.5) * math.log(d)))
        fair = max(fair, math.exp(left - 1 - d * factor - (d + 0.5) * math.log(d)))
    wide = 1e6  # d
    whole = 1 + wide * math.log(2 * 10 + 4 * ALPHA + 6) + (wide + 0.5) * math.log(wide)
    logs = []
    for lam in (0.3, 0.6, 0.9):
        size = lam * 1000  # log d; log log n = 1000
        logs.append(math.exp(math.log(2 * size) + lam * 1000 - math.log(2 * lam) - (lam + 1) / 2 * 1000))
    return {PRINTED: printed, FIRST: fair, SUPER: whole / ((2 * wide + 0.5) * math.log(wide)), LOGS: max(logs)}


def _second() -> dict[Check, float]:
    """η at both ends and between; the sides' ratio at d = 200 and 400."""
    grown, exponent = -math.inf, 0.0
    c_1, c_2 = 4.0, 10.0
    for c in (4.0, 7.0, 10.0):
        ratios = []
        for d in (200.0, 400.0):
            eta = (c + 2 * ALPHA + 2) * d
            left = d * math.log(eta) + eta * (d + 1) * math.log(2 * math.e) + eta / 2 * math.log(d)
            left = (left + eta * d * math.log((eta + d) / (eta - 1))) / (c * d)
            base = math.log(2 * math.e * (c_2 + 2 * ALPHA + 3) / (c_1 + 2 * ALPHA + 1))
            right = (c_2 + 2 * ALPHA + 4) / (2 * c_1) * math.log(d) + (c_2 + 2 * ALPHA + 2) * d / c_1 * base
            ratios.append(left - right)
            exponent = max(exponent, d / (2 * eta - (4 * ALPHA + 4) * d) * 2 * c_1)
        grown = max(grown, (ratios[1] - ratios[0]) / 200)
    return {SECOND: grown, THIRD: exponent}
