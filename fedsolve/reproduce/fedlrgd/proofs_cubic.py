"""The cubic of Appendix D of Jadbabaie et al. (2023), (86) to (89), and the proof of Lemma 4."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fedsolve.complexity.fedave_theory import fedave_optimum
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_fedave import best, constants, letters
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

DEPRESSED = Check("Appendix D, (87)", "b = a − C₃/6 makes 2C₁ times (87) of (86), at 7 points", "off", 1e-9)
DISCRIMINANT = Check("Appendix D", "the three forms of the discriminant of (87) are equal", "off", 1e-6)
POSITIVE = AtLeast("Appendix D", "(88) makes it positive: ½φ²τ² over 27√(ε/C)", "times", unit="times 27√(ε/C)")
EDGES = Check(
    "Appendix D", "the four equivalences (3√6, 6√3, 40 and 3 over τ times (ε/C)^¼) have these edges", "off", 1e-9
)
SIDES = Check(
    "Appendix D",
    "… and the inequality is false at 0.9 times the edge and true at 1.1 times: share of cases that differ",
    "failures",
    0.0,
)
IMPLIED = Check("Appendix D", "each of the four follows from (88), ε ≤ 1: the edge over 40/(C^¼ τ)")
THREE = AtLeast("Appendix D", "(87) has three distinct real roots: least distance over C₃", "times", 1e-9, unit="C₃")
ONE = Check(
    "Appendix D", "(86) has one positive root, and it is b* (Descartes): largest distance, over b*", "off", 1e-5
)
AROUND = Check("Appendix D", "|b* − √(C₂/C₁)| is at most 10C₂/(C₁C₃)")
INSERTED = Check("Appendix D", "… which is √2 m(ε/C)^¼ ± (20m/φτ)√(ε/C), the latter at most (m/2)(ε/C)^¼", "off", 1e-9)
CHAIN = Check("Appendix D", "¾φτm(C/ε)^(3/4) ≤ 9m/8 √(C/ε) + … ≤ min g ≤ 3m√(C/ε) + … ≤ 4φτm(C/ε)^(3/4), all four")
WHOLE = Check(
    "Footnote 14",
    "whole b and T instead of real ones: Γ over the least of (79), at m = 10⁸ over that at 10⁴",
    "times",
    1.1,
)
SLOPES = Check("Proof of Lemma 4", "h' and h'' as printed, by differences", "off", 1e-6)
START = Check("Proof of Lemma 4", "h(0) = ½ and h'(0) = 1/√6", "off", 1e-12)
SECOND = Check("Proof of Lemma 4", "|h''(t)| is at most 4/(9(2 − t²)) + 2t/(3(2 − t²)^(3/2)), that at most 10/9")
GROWS = AtLeast("Proof of Lemma 4", "… which increases: least ratio of neighbours", "times", unit="times the neighbour")
PUISEUX = Check("Footnote 13", "with arcsin(1 − t) the slope at 0 is infinite: it grows like t^(−½)", "off", 0.02)
CHECKS = (
    *(DEPRESSED, DISCRIMINANT, POSITIVE, EDGES, SIDES, IMPLIED, THREE, ONE, AROUND, INSERTED, SLOPES, START),
    *(SECOND, GROWS, PUISEUX, CHAIN, WHOLE),
)  # fmt: skip


def measured(seed: int) -> dict[str, float]:
    return named({**_cubic(), **_edges(), **_lemma_4(), **_scaling()})


def _cubic() -> dict[Check, float]:
    worst = dict.fromkeys((DEPRESSED, DISCRIMINANT, ONE, AROUND, INSERTED), 0.0)
    positive, three = math.inf, math.inf
    for m, phi, tau, C, epsilon in constants():
        C_1, C_2, C_3 = letters(m, phi, tau, C, epsilon)
        star, share = best(C_1, C_2, C_3), epsilon / C
        linear, constant = -(C_3**2) / 12, C_3**3 / 108 - C_2 * C_3 / (2 * C_1)
        a = C_3 * np.linspace(-1, 1, 7)
        shifted = 2 * C_1 * (a - C_3 / 6) ** 3 + C_1 * C_3 * (a - C_3 / 6) ** 2 - C_2 * C_3
        depressed = 2 * C_1 * (a**3 + linear * a + constant)
        forms = [
            4 * (C_3**2 / 12) ** 3 - 27 * constant**2,
            C_2 * C_3**4 / (4 * C_1) - 27 * C_2**2 * C_3**2 / (4 * C_1**2),
            phi**2 * tau**2 * m**6 * math.sqrt(share) * (phi**2 * tau**2 / 2 - 27 * math.sqrt(share)),
        ]
        roots = np.roots([1, 0, linear, constant])
        gaps = np.abs(np.diff(np.sort(roots.real)))
        real = np.roots([2 * C_1, C_1 * C_3, 0, -C_2 * C_3]).real
        ahead = real[real > 0]
        margin = 10 * C_2 / (C_1 * C_3)
        middle, wide = math.sqrt(2) * m * share**0.25, 20 * m / (phi * tau) * math.sqrt(share)
        found = {
            DEPRESSED: float(np.abs(shifted - depressed).max() / np.abs(shifted).max()),
            DISCRIMINANT: max(abs(forms[0] / forms[2] - 1), abs(forms[1] / forms[2] - 1)),
            ONE: float(np.abs(ahead / star - 1).max()) if len(ahead) == 1 else math.inf,
            AROUND: abs(star - math.sqrt(C_2 / C_1)) / margin,
            INSERTED: max(
                abs(middle / math.sqrt(C_2 / C_1) - 1), abs(wide / margin - 1), wide / (m / 2 * share**0.25) - 1
            ),
        }
        worst = {check: max(value, found[check]) for check, value in worst.items()}
        positive = min(positive, phi**2 * tau**2 / 2 / (27 * math.sqrt(share)))
        three = min(three, float(gaps.min()) / C_3) if np.isreal(roots).all() else math.nan
    return {**worst, POSITIVE: positive, THREE: three}


FACTORS = (3 * math.sqrt(6), 6 * math.sqrt(3), 40.0, 3.0)  # the edges of φ are these over τ, times (ε/C)^¼


def inequalities(m: float, phi: float, tau: float, C: float, epsilon: float) -> list[tuple[float, float]]:
    """The smaller and the larger side of the four inequalities on the right of the equivalences, in the order above."""
    C_1, C_2, C_3 = letters(m, phi, tau, C, epsilon)
    share = (epsilon / C) ** 0.25
    return [
        (27 * share**2, phi**2 * tau**2 / 2),
        (3 / C_3 * math.sqrt(6 * C_2 / C_1), 1.0),
        (20 * m / (phi * tau) * share**2, m / 2 * share),
        (3 * m * math.sqrt(C / epsilon), phi * tau * m * (C / epsilon) ** 0.75),
    ]


def _edges() -> dict[Check, float]:
    off, implied, wrong = 0.0, 0.0, []
    for m, _, tau, C, epsilon in constants():
        for k, factor in enumerate(FACTORS):
            edge = factor / tau * (epsilon / C) ** 0.25
            smaller, larger = inequalities(m, edge, tau, C, epsilon)[k]
            off, implied = max(off, abs(smaller / larger - 1)), max(implied, edge / (40 / (C**0.25 * tau)))
            for times in (0.9, 1.1):
                smaller, larger = inequalities(m, times * edge, tau, C, epsilon)[k]
                wrong.append((smaller < larger) != (times > 1))
    return {EDGES: off, SIDES: float(np.mean(wrong)), IMPLIED: implied}


def h(t: Array) -> Array:
    return np.asarray(np.sin(np.arcsin(1 - t**2) / 3 + 2 * np.pi / 3))


def _lemma_4() -> dict[Check, float]:
    t, step = np.linspace(0.01, 0.99, 500), 1e-4
    angle, rest = np.arcsin(1 - t**2) / 3 + 2 * np.pi / 3, 2 - t**2
    first = -2 / (3 * np.sqrt(rest)) * np.cos(angle)
    second = -4 / (9 * rest) * np.sin(angle) - 2 * t / (3 * rest**1.5) * np.cos(angle)
    slope, bend = (h(t + step) - h(t - step)) / (2 * step), (h(t + step) - 2 * h(t) + h(t - step)) / step**2
    bound = 4 / (9 * rest) + 2 * t / (3 * rest**1.5)
    at_zero = -2 / (3 * math.sqrt(2)) * math.cos(math.asin(1) / 3 + 2 * math.pi / 3)
    near = np.array([1e-6, 1e-10])
    steep = (np.sin(np.arcsin(1 - near) / 3 + 2 * np.pi / 3) - 0.5) / near
    return {
        SLOPES: max(np.abs(slope - first).max(), np.abs(bend - second).max()),
        START: max(abs(float(h(np.array(0.0))) - 0.5), abs(at_zero - 1 / math.sqrt(6))),
        SECOND: max((np.abs(second) / bound).max(), bound.max() / (10 / 9)),
        GROWS: (bound[1:] / bound[:-1]).min(),
        PUISEUX: abs(math.log10(steep[1] / steep[0]) / 4 - 0.5),
    }


def _scaling() -> dict[Check, float]:
    worst, rounded = 0.0, 0.0
    for m, phi, tau, C, epsilon in constants():
        C_1, C_2, C_3 = letters(m, phi, tau, C, epsilon)
        b = best(C_1, C_2, C_3)
        rounded = max(rounded, _whole(1e8, phi, tau, C, epsilon) / _whole(1e4, phi, tau, C, epsilon))
        low, root, order = (C_1 * b + C_2 / b) * (b + C_3), m * math.sqrt(C / epsilon), C_3 * (C / epsilon) ** 0.75
        lines = [0.75 * order, 9 / 8 * root + 0.75 * order, low, 3 * root + 3 * order, 4 * order]
        worst = max(worst, *(one / other for one, other in pairwise(lines)))
    return {CHAIN: worst, WHOLE: rounded}


def _whole(m: float, phi: float, tau: float, C: float, epsilon: float) -> float:
    """Γ with b* and T rounded up, over the least of (79)."""
    C_1, C_2, C_3 = letters(m, phi, tau, C, epsilon)
    b = math.ceil(best(C_1, C_2, C_3))
    T = math.ceil(C_1 * b + math.hypot(C_1 * b, C_2 / b))  # (80)
    return T * (b + C_3) / fedave_optimum(int(m), 1, epsilon, phi=phi, tau=tau, C=C).total
