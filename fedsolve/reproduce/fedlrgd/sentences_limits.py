"""Orders in Jadbabaie et al. (2023) parameter by parameter: Γ(FedAve) in Theorem 3, and both Γ in Proposition 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

from fedsolve.complexity.fedave_theory import compare_bounds, fedave_optimum
from fedsolve.complexity.fedlrgd_theory import SmoothProblem
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import named

ACCURACY = Check("Theorem 3", "the least Γ(FedAve): exponents in 1/ε and p, from ¾", "off", 0.02)
COSTS = Check("Theorem 3", "… and exponents in φ, m and τ, from 1", "off", 0.02)
ORDER = Check(
    "Proposition 1",
    "Γ(FedLRGD)/(φm (p/ε)^ξ), ξ = 0.1 to 0.74, d = 1 and 2, m = 10³ to 10⁶⁰: each over the one before",
    "times",
    1 - 1e-6,
)
FALLS = Check(
    "Proposition 1",
    "Γ(FedLRGD)/Γ₊(FedAve) for these ξ, d, α, ε and p, m = 10³ to 10⁶⁰: each over the one before",
    "times",
    1 - 1e-6,
)
VANISHES = Check("Proposition 1", "… and its exponent in m from 10⁵⁷ to 10⁶⁰", "exponent", -0.01)
CHECKS = (ACCURACY, COSTS, ORDER, FALLS, VANISHES)
POWERS = range(3, 61, 3)  # of m


def measured(seed: int) -> dict[str, float]:
    """The same in every seed: there are no draws."""
    return named({**_theorem_3(), **_proposition_1()})


@dataclass(frozen=True)
class Constants:
    """Of (79); φ is `more` times 80 C^(−¼)/τ."""

    m: int = 1000
    p: int = 10
    epsilon: float = 1e-3
    C: float = 1.0
    tau: float = 1.0
    phi: float = 80.0

    def cost(self) -> float:
        return float(fedave_optimum(self.m, self.p, self.epsilon, phi=self.phi, tau=self.tau, C=self.C).total)


@cache
def _theorem_3() -> dict[Check, float]:
    shapes, scales = [], []
    for m, p, epsilon, C in product((20, 10**6), (1, 100), (1.0, 1e-6), (1.0, 50.0)):
        least = 80 * C**-0.25  # φτ
        fixed = {"m": m, "p": p, "epsilon": epsilon, "C": C, "phi": least}

        def exponent(name: str, low: float, high: float, fixed: dict[str, float] = fixed) -> float:
            ends = [Constants(**{**fixed, name: value}).cost() for value in (low, high)]  # type: ignore[arg-type]
            return math.log(ends[1] / ends[0]) / math.log(high / low)

        shapes += [-exponent("epsilon", 1e-12, 1.0), exponent("p", 1, 10**8)]
        scales += [exponent("phi", least, 1e6 * least), exponent("m", 20, 10**12)]
        scales.append(exponent("tau", 1e-4, 1.0, {**fixed, "phi": 1e4 * least}))
    return {ACCURACY: max(abs(one - 0.75) for one in shapes), COSTS: max(abs(one - 1) for one in scales)}


@cache
def _proposition_1() -> dict[Check, float]:
    orders, falls, ends = [], [], []
    for xi, d, alpha, beta, grows in product((0.1, 0.25, 0.5, 0.74), (1, 2), (1.0, 2.0), (0.25, 0.5), (False, True)):
        found = [both_costs(xi, d, alpha, beta, power, 10**power if grows else 10) for power in POWERS]
        orders += [after[0] / before[0] for before, after in pairwise(found)]
        falls += [after[1] / before[1] for before, after in pairwise(found)]
        ends.append(math.log10(found[-1][1] / found[-2][1]) / 3)
    return {ORDER: max(orders), FALLS: max(falls), VANISHES: max(ends)}


def both_costs(xi: float, d: int, alpha: float, beta: float, power: int, p: int) -> tuple[float, float]:
    """Γ(FedLRGD)/(φm (p/ε)^ξ) and Γ(FedLRGD)/Γ₊(FedAve): c₁ = 2/ξ, ε = n^(−β), s = φ = 100."""
    m = 10**power
    epsilon = (100.0 * m) ** -beta
    one = SmoothProblem(p, d, (2 / xi + 2 * alpha + 2) * d, 1.0, 1.0, 0.5, 10.0, 1.0, alpha)
    found = compare_bounds(one, epsilon, s=100, m=m, phi=100.0)
    return found.fedlrgd / (100.0 * m * (p / epsilon) ** xi), found.ratio
