"""How Γ of Theorem 2 scales beside φm (p/ε)^Θ(d/η), as Jadbabaie et al. (2023) say it in words, not as (47) has it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_bound, fedlrgd_rank
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

WHOLE = Check(
    "After Theorem 2",
    "Θ(d/η), η − (2α + 2)d from 0.01 d to 20 d: exponent of φmr in 1/ε and in p over d/η, its largest",
    "times",
    4.0,
)
WHOLE_LEAST = AtLeast("After Theorem 2", "… and its least, from 0.01 d to 20 d", "times", 0.25, unit="of d/η")
FAR = Check(
    "After Theorem 2",
    "Θ(d/η), η − (2α + 2)d from 8d/3 to 20 d, as in Proposition 1: exponent of φmr over d/η, its largest",
    "times",
    4.0,
)
FAR_LEAST = AtLeast("After Theorem 2", "… and its least, from 8d/3 to 20 d", "times", 0.25, unit="of d/η")
LINEAR = AtLeast(
    "After Theorem 2",
    "like φm: exponent of Γ in φm, φm from 1 to 1e16, at the same ε, p and η, its least",
    "times",
    0.9,
)
LINEAR_LARGE = AtLeast("After Theorem 2", "… for φm from r + S to 1e16 (r + S), its least", "times", 0.9)
CHECKS = (WHOLE, WHOLE_LEAST, FAR, FAR_LEAST, LINEAR, LINEAR_LARGE)
NEAR, PROPOSITION = (0.01, 0.1, 1.0), (8 / 3, 4.0, 20.0)  # (η − (2α + 2)d)/d; Proposition 1 has more than 8/3
FINITE = 1e100  # of r, so that no cost is above the range of floats


def measured(seed: int) -> dict[str, float]:
    near, far = (_exponents(gaps) for gaps in (NEAR, PROPOSITION))
    linear, large = zip(*(_in_phi(gap) for gap in (*NEAR, *PROPOSITION)), strict=True)
    return named(
        {
            WHOLE: max(near + far),
            WHOLE_LEAST: min(near + far),
            FAR: max(far),
            FAR_LEAST: min(far),
            LINEAR: min(linear),
            LINEAR_LARGE: min(large),
        }
    )


def posed(d: int, alpha: float, gap: float, p: int, epsilon: float) -> SmoothProblem:
    """η = (2α + 2 + gap) d, and the largest L_2 of 1, 10^-0.1, 10^-0.2, … with which r is below 1e100."""
    for power in range(3000):
        one = SmoothProblem(p, d, (2 * alpha + 2 + gap) * d, 1.0, 10 ** (-power / 10), 0.1, 1.0, 1.0, alpha)
        if fedlrgd_rank(one, epsilon) < FINITE:
            return one
    raise ValueError(f"r is above {FINITE:g} for every L_2, with d = {d}, gap {gap:g} and ε = {epsilon:g}")


def in_epsilon_and_p(d: int, alpha: float, gap: float) -> tuple[float, float]:
    """The exponents of φmr, where the second entry of (47) is the larger one by far; φm is fixed."""
    decades = min(100.0, 50 * gap)  # over more r is above the range of floats

    def rank(p: int, epsilon: float, like: SmoothProblem) -> float:
        one = SmoothProblem(p, d, like.eta, 1.0, like.L_2, 0.1, 1.0, 1.0, alpha)
        return math.log10(fedlrgd_rank(one, epsilon))

    hard = posed(d, alpha, gap, 2, 1e-200)
    accurate = rank(2, 1e-200, hard) - rank(2, 10 ** (decades - 200), hard)
    wide, less = 10**200, int(10 ** (200 - decades))
    large = posed(d, alpha, gap, wide, 1.0)
    return accurate / decades, (rank(wide, 1.0, large) - rank(less, 1.0, large)) / decades


def _exponents(gaps: Iterable[float]) -> list[float]:
    return [
        one * (2 * alpha + 2 + gap)
        for d, alpha, gap in product((1, 2), (1.0, 2.0), gaps)
        for one in in_epsilon_and_p(d, alpha, gap)
    ]


def _in_phi(gap: float) -> tuple[float, float]:
    """d = 1 and 2, α = 1 and 2, ε = 1e-200: the least exponent of Γ in φ, m = 1, from φ = 1 and from r + S."""
    found: list[list[float]] = [[], []]
    for d, alpha in product((1, 2), (1.0, 2.0)):
        one = posed(d, alpha, gap, 2, 1e-200)
        first = fedlrgd_bound(one, 1e-200, s=1, m=1, phi=1.0)
        for start, kept in zip((1.0, first.rank + first.steps), found, strict=True):
            ends = [fedlrgd_bound(one, 1e-200, s=1, m=1, phi=start * times).total for times in (1.0, 1e16)]
            kept.append(math.log10(ends[1] / ends[0]) / 16)
    return min(found[0]), min(found[1])
