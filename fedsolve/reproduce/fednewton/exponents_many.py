"""FedNewton, case 2 in the proof of Theorem 4: |D_j| ≳ |D|^(1/(2r+γ)), line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import sqrt

from fedsolve.reproduce.fednewton.exponents import AT, FEW, NEAR, PAIRS, SHARES
from fedsolve.reproduce.result import Verdict

SIZES = sorted({sizes for _, sizes in FEW})  # |D|, Δ_Dj, Δ_fj
CONSTANT = 2.0  # of the first line
OVER_LAMBDA = (0.0, 0.01, 0.1, 1.0, 10.0, 1e4)  # Δ_Dj/λ


@dataclass(frozen=True)
class Point:
    """Where the second line is tested: λ = |D|^(−1/(2r+γ)) and |D_j| = |D|^share, share ≥ 1/(2r+γ)."""

    r: float
    gamma: float
    share: float
    total: float
    shift: float
    model: float

    @property
    def power(self) -> float:
        """|D|^(1/(2r+γ)), 1/λ."""
        return float(self.total ** (1 / (2 * self.r + self.gamma)))

    @property
    def own(self) -> float:
        """|D_j|."""
        return float(self.total**self.share)

    @property
    def R(self) -> float:
        """√(1/(λ|D_j|)), at most 1."""
        return sqrt(self.power / self.own)

    @property
    def A(self) -> float:
        """|D_j|^-½ |D|^((γ/2)/(2r+γ))."""
        return float(self.own**-0.5 * self.total ** (self.gamma / 2 / (2 * self.r + self.gamma)))


MANY = [
    Point(r, gamma, share, *sizes)
    for r, gamma in sorted({point[:2] for point, _ in FEW})
    for share in sorted({1 / (2 * r + gamma), 0.5 + 0.5 / (2 * r + gamma), 1.0})
    for sizes in SIZES
]


def first_line(R: float, x: float) -> float:
    """2R + (1 + R) Δ/λ less twice R + Δ/λ."""
    return 2 * R + (1 + R) * x - CONSTANT * (R + x)


def brackets(at: Point) -> float:
    """(R + Δ/λ)(A + Δ/λ + Δ_f), with 1 for log(2/δ)."""
    return (at.R + at.power * at.shift) * (at.A + at.power * at.shift + at.model)


def fourth_term(at: Point) -> float:
    """|D|^((γ+2)/(4r+2γ)) |D_j|^-½ Δ, as printed."""
    return float(at.total ** ((at.gamma + 2) / (4 * at.r + 2 * at.gamma)) / sqrt(at.own) * at.shift)


def six_terms(at: Point) -> list[float]:
    """The terms of the second line as printed, in its order."""
    power, shift, model = at.power, at.shift, at.model
    return [at.R * at.A, power * shift, model, fourth_term(at), power**2 * shift**2, power * shift * model]


def many_samples() -> Iterator[tuple[str, Verdict]]:
    """Every line of case 2."""
    worst = max(first_line(k / 20, x) for k in range(21) for x in OVER_LAMBDA)
    said = f"left less twice the right at most {worst:.2g}, R from 0 to 1"
    yield "Theorem 4, case 2: 2R + (1 + R)Δ/λ ≲ R + Δ/λ", Verdict(worst <= NEAR, said)
    share = max(brackets(at) / sum(six_terms(at)) for at in MANY)
    said = f"{share:.3g} of them or less, at {len(MANY)} points"
    yield "Theorem 4, case 2: (R + Δ/λ)(A + Δ/λ + Δ_f) is at most the six terms", Verdict(share <= 1 + NEAR, said)
    off = max(abs(at.power * at.shift * at.A / fourth_term(at) - 1) for at in MANY if at.shift)
    yield "Theorem 4, case 2: the fourth term is A Δ/λ", Verdict(off <= 1e-9, f"off by at most {off:.1g}")
    dropped = max((g + 2) / (2 * s) - n / 2 - 1 / s for _, g, s in PAIRS for n in SHARES if n >= 1 / s)
    said = f"the exponent of |D|^((γ+2)/(4r+2γ)) |D_j|^-½ less 1/(2r+γ) is at most {dropped:.2g}, {AT}"
    yield "Theorem 4, case 2: the dropped term", Verdict(dropped <= NEAR, said)
    R = max(0.5 / s - n / 2 for _, _, s in PAIRS for n in SHARES if n >= 1 / s)
    A = max(
        abs(max(-n + 0.5 / s, (g / s - n) / 2) - (g / (2 * s) - n / 2))
        for _, g, s in PAIRS
        for n in SHARES
        if n >= 1 / s
    )
    said = f"the exponent of √(1/(λ|D_j|)) is at most {R:.2g}; that of A_Dj differs by at most {A:.1g}, {AT}"
    yield "Theorem 4, case 2: R_Dj ≲ 1 and A_Dj ≲ |D_j|^-½ |D|^((γ/2)/(2r+γ))", Verdict(R <= NEAR and A <= NEAR, said)
    off = 0.0
    for a, d, f in product((1.0, 3.0, 40.0), (0.01, 0.5), (0.02, 2.0)):  # |D|^(1/(2r+γ)), Δ_Dj, Δ_fj
        terms = a * d + f + a**2 * d**2 + a * d * f
        off = max(off, abs((1 + a * d) * (a * d + f) / terms - 1))
    yield "Theorem 4, case 2: Π_j is the product of two brackets", Verdict(off <= 1e-9, f"off by at most {off:.1g}")
