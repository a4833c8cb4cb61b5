"""Appendices D and E of Jadbabaie et al. (2023): roots, minima and powers by means that do not assume them."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import product

import numpy as np

from fedsolve.complexity.fedave_theory import fedave_optimum
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_fedave import constants, lemma_terms
from fedsolve.reproduce.fedlrgd.proofs_scaling import ALPHA
from fedsolve.reproduce.fedlrgd.two_sided import named

ROOTS = Check(
    "Appendix D, (80)",
    "of both roots of εT²/C − bT/m − m²/b², to 50 digits, one is not negative, and it is T of (80)",
    "off",
    1e-9,
)
EDGE = Check(
    "Appendix D, (78)",
    "the cheapest of 10⁵ pairs (b, T) that fulfil (78): how far its left side is below the right one",
    "off",
    0.02,
)
TERMS = Check(
    "Appendix D", "Lemma 3's second term over its third, and its fourth over its first, m = 10¹⁶, b = 1 to m", "times"
)
LATER = Check("Appendix D", "… and from b = m^0.3 on", "times")
POWER = Check(
    "Appendix E, 2",
    "the second estimate's power of d, by its left side at d, 2d and 4d, from (c₂ + 2α + 4)/(2c₁), c₁ = c₂",
    "off",
    0.01,
)
CHECKS = (ROOTS, EDGE, TERMS, LATER, POWER)


def measured(seed: int) -> dict[str, float]:
    return named({ROOTS: _roots(), EDGE: _edge(), **_dominated(), POWER: max(map(_power, (4.0, 10.0)))})


def roots(a: float, b: float, c: float) -> list[Decimal]:
    """Both real roots of ax² + bx + c."""
    with localcontext() as context:
        context.prec = 50
        A, B, C = Decimal(a), Decimal(b), Decimal(c)
        root = (B * B - 4 * A * C).sqrt()
        return [(-B - root) / (2 * A), (-B + root) / (2 * A)]


def _roots() -> float:
    off = 0.0
    for m, b, C, epsilon in product((20.0, 1e4), (1.0, 30.0, 1e4), (0.5, 50.0), (1.0, 1e-3, 1e-6)):
        half = b * C / (2 * m * epsilon)
        T = half + math.sqrt(half**2 + C * m**2 / (epsilon * b**2))  # (80)
        above = [one for one in roots(epsilon / C, -b / m, -(m**2) / b**2) if one >= 0]
        off = max(off, abs(float(above[0]) / T - 1)) if len(above) == 1 else math.inf
    return off


def _edge() -> float:
    """A grid of b and T around the optimum, of a factor of e to both sides, both ways; no use of (80)."""
    worst = 0.0
    for m, phi, tau, C, epsilon in constants():
        near = fedave_optimum(int(m), 1, epsilon, phi=phi, tau=tau, C=C)
        b = near.steps * np.exp(np.linspace(-1, 0.97, 51))[:, None]  # not the optimum itself
        T = near.epochs * np.exp(np.linspace(-1, 0.9993, 2001))
        left = (m / (T * b)) ** 2 + b / (m * T)
        cost = np.where(left <= epsilon / C * (1 + 1e-9), T * (b + phi * tau * m), np.inf)
        best = np.unravel_index(int(np.argmin(cost)), cost.shape)
        worst = max(worst, float(1 - left[best] * C / epsilon))
    return worst


def _dominated() -> dict[Check, float]:
    """The terms themselves; their orders are in `proofs_fedave`."""
    found = {}
    for power in (0.0, 0.3, 0.6, 1.0):
        terms, *_ = lemma_terms(1e16, power)
        found[power] = max(terms[1] / terms[2] if terms[2] else math.inf, terms[3] / terms[0])
    return {TERMS: max(found.values()), LATER: max(found[power] for power in (0.3, 0.6, 1.0))}


def _power(c: float) -> float:
    """log of the left side is A + P log d + K d: L(4d) − 3 L(2d) + 2 L(d) = −P log 2. η = (c + 2α + 2) d, L_2 = 1."""

    def left(d: float) -> float:
        eta = (c + 2 * ALPHA + 2) * d
        found = d * math.log(eta) + eta * (d + 1) * math.log(2 * math.e) + eta / 2 * math.log(d)
        return (found + eta * d * math.log((eta + d) / (eta - 1))) / (c * d)

    d = 1000.0
    power = -(left(4 * d) - 3 * left(2 * d) + 2 * left(d)) / math.log(2)
    return abs(power - (c + 2 * ALPHA + 4) / (2 * c))
