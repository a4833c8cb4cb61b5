"""Appendix E of Jadbabaie et al. (2023) from (90) on: rank, steps and cost as n, d and p grow, in logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_scaling import ALPHA
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

SUB = Check(
    "Appendix E, (90)",
    "(log r − log(p/ε)/(2c₁))/log n at log n = 10¹² (10¹⁰⁰ for λ = 0.9), a term below any power of n",
    "off",
    0.01,
)
POLY = AtLeast(
    "Appendix E",
    "r grows at least polynomially in n: log r over β log n/(2c₂), log n = 10¹² (10¹⁰⁰ for λ = 0.9)",
    "times",
    unit="of β log n/(2c₂)",
)
STEPS = Check("Appendix E", "S = Θ(log(p/ε)): S/log(p/ε) changes by at most so much from log n = 10⁴ on", "off", 0.05)
LOGR = Check("Appendix E", "S = O(log r): S/log r over 2c/log(κ/(κ − 1)), log n = 10⁴ on", "times", 1.05)
SQUARE = Check("Appendix E", "r² + rs + rS + φmr is at most 4 φmr², s ≤ φm and S ≤ r")
BELOW = Check(
    "Appendix E", "log(Γ/(φm))/log(p/ε) at log n = 10¹² (10¹⁰⁰ for λ = 0.9): at most 2/c₁ ≤ ξ, over 2/c₁", "times"
)
LIMIT = Check(
    "Proposition 1", "log(Γ(FedLRGD)/Γ₊(FedAve))/log n at log n = 10¹² (10¹⁰⁰ for λ = 0.9): below 0", "exponent", 0.0
)
LATE = Check(
    "After Proposition 1",
    "λ = 0.99, p = n²: log(Γ(FedLRGD)/Γ₊(FedAve))/log n at log n = 10²⁸⁰: below 0",
    "exponent",
    0.0,
)
EARLY = Check(
    "After Proposition 1", "… and for n that occur: the least of it from log n = 10 to 1,000", "exponent", 0.0
)
CHECKS = (SUB, POLY, STEPS, LOGR, SQUARE, BELOW, LIMIT, LATE, EARLY)
LARGE = {0.3: 1e12, 0.6: 1e12, 0.9: 1e100}  # log n, by λ


@dataclass(frozen=True)
class Regime:
    """d = c₃ log(n)^λ, ε = n^(−β), η = (c + 2α + 2) d, p = n^power; L₁ = 1, L₂ = 1, μ = ½, B = 1."""

    c: float
    lam: float
    beta: float
    power: float

    def d(self, log_n: float) -> float:
        return float(log_n**self.lam)  # c₃ = 1

    def accuracy(self, log_n: float) -> float:
        """log(p/ε)."""
        return (self.power + self.beta) * log_n

    def first(self, log_n: float) -> float:
        """The logarithm of e√d 2^d (η + d)^d."""
        d = self.d(log_n)
        return 1 + 0.5 * math.log(d) + d * math.log(2 * (self.c + 2 * ALPHA + 3) * d)

    def rank(self, log_n: float) -> float:
        """log r, the larger of both entries of (47)."""
        d, eta = self.d(log_n), (self.c + 2 * ALPHA + 2) * self.d(log_n)
        second = math.log(eta) + eta / d * (d + 1) + 0.5 * eta / d * math.log(d)  # over d
        second += eta * math.log(2 * (eta + d) / (eta - 1)) + 0.5 * (self.spread(log_n) + math.log(2))
        return max(self.first(log_n), second / self.c)

    def spread(self, log_n: float) -> float:
        """The logarithm of (F(θ⁽⁰⁾) − F* + 9 (B + 3)⁴ p/2μ)/ε, F(θ⁽⁰⁾) − F* = p."""
        return math.log(1 + 9 * 4**4) + self.accuracy(log_n)

    def steps(self, log_n: float) -> float:
        """S of (48), κ = 2."""
        return self.spread(log_n) / math.log(2)

    def cost(self, log_n: float) -> float:
        """log(Γ/(φm)), s = φm: r + r²/(φm) + rS/(φm), with φm = n^½, as large as sr ≤ n lets it."""
        r, scale = self.rank(log_n), 0.5 * log_n
        parts = [r + math.log(2), 2 * r - scale, r + math.log(self.steps(log_n)) - scale]
        return max(parts) + math.log(3)


REGIMES = tuple(Regime(*one) for one in product((4.0, 8.0), (0.3, 0.6, 0.9), (0.25, 0.5), (0.0, 2.0)))


def measured(seed: int) -> dict[str, float]:
    return named(_limits())


def _limits() -> dict[Check, float]:
    worst = dict.fromkeys((SUB, STEPS, LOGR, SQUARE, BELOW), 0.0)
    poly, limit = math.inf, -math.inf
    for one in REGIMES:
        large = LARGE[one.lam]
        r, ratio = one.rank(large), one.steps(1e4) / one.accuracy(1e4)
        found = {
            SUB: (r - one.accuracy(large) / (2 * one.c)) / large,
            STEPS: abs(one.steps(large) / one.accuracy(large) / ratio - 1),
            LOGR: max(one.steps(x) / one.rank(x) for x in (1e4, 1e8, large)) * math.log(2) / (2 * one.c),
            BELOW: one.cost(large) / one.accuracy(large) / (2 / one.c),
        }
        worst = {check: max(value, found.get(check, 0.0)) for check, value in worst.items()}
        poly = min(poly, r / (one.beta * large / (2 * one.c)))
        limit = max(limit, (one.cost(large) - 0.75 * one.accuracy(large)) / large)
    squares = [
        (r * r + r * s + r * S + scale * r) / (4 * scale * r * r)
        for r, scale in product((1.0, 10.0, 1e6), (1.0, 100.0, 1e6))
        for s, S in ((1.0, 1.0), (scale, r))
    ]
    nearly = Regime(4.0, 0.99, 0.5, 2.0)
    late, *early = ((nearly.cost(x) - 0.75 * nearly.accuracy(x)) / x for x in (1e280, 10.0, 20.0, 50.0, 1000.0))
    return {**worst, SQUARE: max(squares), POLY: poly, LIMIT: limit, LATE: late, EARLY: min(early)}
