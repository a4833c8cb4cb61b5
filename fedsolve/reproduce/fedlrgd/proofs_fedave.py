"""The proof of Theorem 3 of Jadbabaie et al. (2023), Appendix D: orders of terms, the minimum, its scaling."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.complexity.fedave_theory import FedAveProblem, fedave_optimum
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

FIRST_EPOCH = Check("Theorem 3, 5", "T₀ = Θ(m/b), b = O(m): T₀ b/m is at most 4 max(κ, 4 + …, 4/μ²)")
NO_LESS = AtLeast("Theorem 3, 5", "… and at least 16/μ², as many times", "times", unit="times 16/μ²")
ORDERS = Check(
    "Appendix D", "the four terms of Lemma 3 over their orders do not grow, m = 10⁸ to 10¹⁶", "exponent", 0.01
)
DOMINATE = Check("Appendix D", "p/(mT) over bp/(mT), and p/(T²b) over m²p/(T²b²), are at most 1 for b ≤ m")
CONSTANT = Check(
    "Appendix D", "Lemma 3's bound over m²p/(T²b²) + bp/(mT) does not grow, m = 10¹⁶ to 10³²", "exponent", 0.01
)
BOUNDS = Check("Appendix D, (81)", "T is at most twice bC/(2mε) + (m/b)√(C/ε)")
SUMS = AtLeast("Appendix D, (81)", "… and at least that, as many times", "times", unit="times the left side")
EITHER = Check("Appendix D, (85)", "Γ(FedAve) is at most twice the least g(b)")
NOT_LESS = AtLeast("Appendix D, (85)", "… and at least the least g(b), as many times", "times", unit="times min g")
EXPANDED = Check(
    "Appendix D", "g(b) = (C₁b + C₂/b)(b + C₃) is C₁b² + C₁C₃b + C₂C₃/b + C₂; g' by differences", "off", 1e-6
)
CONVEX = AtLeast("Appendix D", "g is convex: g(b − h) + g(b + h) over 2g(b)", "times", unit="times 2g(b)")
LEAST = Check("Appendix D", "the least g(b) is g(b*) in the printed form, and no other b has less", "off", 1e-9)
AFTER = AtLeast(
    "Appendix D, (81)", "T ≥ T₀ is satisfied: T of (80) over T₀, C as Lemma 3 gives it, ε ≤ 1", "times", unit="T₀"
)
CHECKS = (
    *(FIRST_EPOCH, NO_LESS, ORDERS, DOMINATE, CONSTANT, BOUNDS, SUMS, EITHER, NOT_LESS),
    *(EXPANDED, CONVEX, LEAST, AFTER),
)  # fmt: skip


def constants() -> list[tuple[float, float, float, float, float]]:
    """m, φ, τ, C and ε = ϵ/p, with φ ≥ 40/(C^¼ τ) (88)."""
    chosen = product((20, 10**4), (1.0, 1e-3, 1e-6), (0.1, 1.0), (0.5, 1.0, 50.0), (1, 10))
    return [(float(m), more * 40 / (C**0.25 * tau), tau, C, epsilon) for m, epsilon, tau, C, more in chosen]


def letters(m: float, phi: float, tau: float, C: float, epsilon: float) -> tuple[float, float, float]:
    """C₁, C₂ and C₃, (82) to (84)."""
    return C / (2 * m * epsilon), m * math.sqrt(C / epsilon), phi * tau * m


def best(C_1: float, C_2: float, C_3: float) -> float:
    """b* by Viète's formula."""
    return C_3 / 3 * (math.sin(math.asin(1 - 54 * C_2 / (C_1 * C_3**2)) / 3 + 2 * math.pi / 3) - 0.5)


def measured(seed: int) -> dict[str, float]:
    return named({**_orders(), **_epochs(), **_minimum()})


def lemma_terms(m: float, power: float, later: float = 10.0) -> tuple[list[float], list[float], FedAveProblem, float]:
    """The four terms of Lemma 3 and their orders, after `later` T₀ epochs of m^power steps; σ² = distance = p = 10."""
    p, tau = 10.0, 0.5
    one, b = FedAveProblem(2.0, 0.5, p, p, int(m), tau), max(1.0, round(m**power))
    T_0 = float(one.first_epoch(b))
    T, kappa = later * T_0, one.L_1 / one.mu
    x, absent = T * b + 1, (1 - tau) / (tau * (m - 1))
    terms = [
        one.L_1 * (T_0 * b + 1) ** 2 / (2 * x**2) * p,
        8 * kappa * p / (one.mu * m) * (1 + 8 * absent * m) * b / x,
        8 * math.e * one.L_1 * kappa**2 * p / m * (b - 1) ** 2 / x,
        128 * math.e * kappa**3 * p / one.mu * (1 + 8 * absent) * (b - 1) / x**2,
    ]
    return terms, [m**2 * p / (T * b) ** 2, p / (m * T), b * p / (m * T), p / (T**2 * b)], one, b


def _orders() -> dict[Check, float]:
    grown, whole, dominate, most, least, after = -math.inf, -math.inf, 0.0, 0.0, math.inf, math.inf
    for power in (0.0, 0.3, 0.6, 1.0):
        C = 0.0  # for every T ≥ T₀
        for later in (1.0, 10.0, 1e4):
            ends = [lemma_terms(m, power, later) for m in (1e8, 1e16)]
            for k in range(4):
                first, last = (terms[k] / orders[k] for terms, orders, _, _ in ends)
                grown = max(grown, math.log10(last / first) / 8) if first > 0 < last else grown
            both = [ends[1], lemma_terms(1e32, power, later)]
            first, last = (sum(terms) / (orders[0] + orders[2]) for terms, orders, _, _ in both)
            whole, C = max(whole, math.log10(last / first) / 16), max(C, first)
            dominate = max(dominate, *(max(one[1] / one[2], one[3] / one[0]) for _, one, _, _ in ends))
        for _, _, one, b in ends:
            share, kappa = float(one.first_epoch(b)) * b / one.m, one.L_1 / one.mu
            largest = 4 * max(kappa, 4 + 32 * kappa**2 * (1 - one.tau) / (one.tau * (one.m - 1)), 4 / one.mu**2)
            most, least = max(most, share / largest), min(least, share / (16 / one.mu**2))
        half = b * C / (2 * one.m)  # ϵ/p = 1, the largest; T grows as it falls
        after = min(after, (half + math.hypot(half, one.m / b * math.sqrt(C))) / float(one.first_epoch(b)))
    return {ORDERS: grown, CONSTANT: whole, DOMINATE: dominate, FIRST_EPOCH: most, NO_LESS: least, AFTER: after}


def _epochs() -> dict[Check, float]:
    upper, lower = 0.0, math.inf
    for m, b, C, epsilon in product((20.0, 1e4), (1.0, 30.0, 1e4), (0.5, 50.0), (1.0, 1e-3, 1e-6)):
        half = b * C / (2 * m * epsilon)
        root = math.sqrt(half**2 + C * m**2 / (epsilon * b**2))
        T, bound = half + root, half + m / b * math.sqrt(C / epsilon)
        upper, lower = max(upper, T / (2 * bound)), min(lower, T / bound)
    return {BOUNDS: upper, SUMS: lower}


def _minimum() -> dict[Check, float]:
    most, least, expanded, convex, apart = 0.0, math.inf, 0.0, math.inf, 0.0
    for m, phi, tau, C, epsilon in constants():
        C_1, C_2, C_3 = letters(m, phi, tau, C, epsilon)

        def g(b: np.ndarray | float, a: float = C_1, c: float = C_2, e: float = C_3) -> np.ndarray:
            return np.asarray((a * b + c / b) * (b + e))

        star = best(C_1, C_2, C_3)
        found = fedave_optimum(int(m), 1, epsilon, phi=phi, tau=tau, C=C)
        low = float(g(star))
        most, least = max(most, found.total / (2 * low)), min(least, found.total / low)
        b = star * np.array([0.01, 0.3, 1.0, 3.0, 100.0])
        sums, h = C_1 * b**2 + C_1 * C_3 * b + C_2 * C_3 / b + C_2, 1e-5 * b
        slope = 2 * C_1 * b + C_1 * C_3 - C_2 * C_3 / b**2
        steep = np.abs((g(b + h) - g(b - h)) / (2 * h) - slope) * b / g(b)
        expanded = max(expanded, float((np.abs(sums / g(b) - 1)).max()), float(steep.max()))
        convex = min(convex, float(((g(b * 0.9) + g(b * 1.1)) / (2 * g(b))).min()))
        grid = star * np.exp(np.linspace(-3, 3, 2001))
        printed = C / (2 * m * epsilon) * star**2 + C * phi * tau / (2 * epsilon) * star
        printed += m**2 * phi * tau / star * math.sqrt(C / epsilon) + m * math.sqrt(C / epsilon)
        apart = max(apart, abs(printed / low - 1), low / float(g(grid).min()) - 1)
    return {EITHER: most, NOT_LESS: least, EXPANDED: expanded, CONVEX: convex, LEAST: apart}
