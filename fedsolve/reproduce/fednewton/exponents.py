"""FedNewton, the exponents of |D| in the proofs of Theorems 3 and 4, over a grid of r and γ with 2r + γ ≥ 1."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from fedsolve.reproduce.result import Verdict

PAIRS = [(r, g, 2 * r + g) for r, g in product((0.25, 0.5, 0.75, 1.0), (0.0, 0.25, 0.5, 1.0)) if 2 * r + g >= 1]
SHARES = np.linspace(0.0, 1.0, 41)  # |D_j| = |D|^share
SHIFTS = (0.01, 0.1, 1.0)  # Δ_Dj, fixed
NEAR = 1e-12
AT = f"at {len(PAIRS)} pairs of r and γ"


def four_terms(n: float, l: float, gamma: float) -> list[float]:
    """Exponents of the product of (10) and (22) term by term, where |D_j| = |D|^n and λ = |D|^-l."""
    return [-2 * n + 1.5 * l, -1.5 * n + (1 + 0.5 * gamma) * l, -1.5 * n + l, -n + 0.5 * (1 + gamma) * l]


def case_39(n: float, gamma: float, total: float) -> float:
    """The exponent that (39) gives."""
    l = 1 / total
    if n <= (1 - gamma) * l:
        return -2 * n + 1.5 * l
    return -1.5 * n + (1 + 0.5 * gamma) * l if n <= l else -n + (1 + gamma) / (2 * total)


def _orders() -> Iterator[tuple[str, Verdict]]:
    dropped = max(four_terms(n, 1 / s, g)[2] - four_terms(n, 1 / s, g)[1] for _, g, s in PAIRS for n in SHARES)
    said = f"its exponent less that of the second is at most {dropped:.2g}, {AT}"
    yield "Before (39): the third term is dropped", Verdict(dropped <= NEAR, said)
    off = max(abs(max(four_terms(n, 1 / s, g)) - case_39(float(n), g, s)) for _, g, s in PAIRS for n in SHARES)
    said = f"the largest of four exponents differs from the case's by at most {off:.1g}, {AT} and {len(SHARES)} sizes"
    yield "(39): its three cases are the largest term", Verdict(off <= NEAR, said)
    # λ < |D_j|^(1/(γ−1)) is |D_j| < |D|^((1−γ)/(2r+γ)), and λ < 1/|D_j| is |D_j| < |D|^(1/(2r+γ))
    tried = [
        (n, g, s) for _, g, s in PAIRS if g < 1 for n in SHARES if min(abs(n - (1 - g) / s), abs(n - 1 / s)) > NEAR
    ]
    wrong = sum((-1 / s < n / (g - 1)) != (n < (1 - g) / s) or (-1 / s < -n) != (n < 1 / s) for n, g, s in tried)
    said = f"{wrong} of {len(tried)} sizes are in another case"
    yield "(39): the boundaries in λ are those in |D_j|", Verdict(wrong == 0, said)
    fourth = max(-n + (1 + g) / (2 * s) + r / s for r, g, s in PAIRS for n in SHARES if n >= (s + 1) / (2 * s))
    said = f"above (2r+γ+1)/(4r+2γ) the third case exceeds −r/(2r+γ) by at most {fourth:.2g}, {AT}"
    yield "(41): its fourth case", Verdict(fourth <= NEAR, said)
    other = [(r, g) for r, g, s in PAIRS if abs(-2 * r / s - -r / s) > NEAR]
    said = f"another exponent than −r/(2r+γ) at {len(other)} of {len(PAIRS)} pairs, twice as large"
    yield "Section 5: the optimal rate is |D|^(−2r/(2r+γ)), as in Theorem 3", Verdict(not other, said)


def _theorem_4() -> Iterator[tuple[str, Verdict]]:
    low = min(1 / s - n for _, _, s in PAIRS for n in SHARES if n <= 1 / s)
    said = f"the exponent of 1/(λ|D_j|) is at least {low:.2g}, {AT}"
    yield "Theorem 4, case 1: 1/(λ|D_j|) ≥ √(1/(λ|D_j|)) ≥ 1", Verdict(low >= -NEAR, said)
    # with R its bound 1/(λ|D_j|) ≥ 1: 2R + (1 + R)Δ/λ ≤ 2R(1 + Δ/λ)
    worst = max(
        (2 * R + (1 + R) * x) / (2 * R * (1 + x)) for R in (1.0, 2.0, 10.0, 1e3) for x in (0.0, 0.1, 1.0, 10.0, 1e4)
    )
    said = f"left over right at most {worst:.3g} with the constant 2, R ≥ 1"
    yield "Theorem 4, case 1: 2R + (1 + R)Δ/λ ≲ R(1 + Δ/λ)", Verdict(worst <= 1 + NEAR, said)
    growth = {d: [1 + d * 10 ** (k / s) for k in (3, 6)] for d in SHIFTS for s in (2.0,)}
    least = min(1 / s for _, _, s in PAIRS)
    said = "1 + Δ/λ for r = ½, γ = 1 goes from {:.3g} at |D| = 1e3 to {:.3g} at 1e6 with Δ = 0.1".format(*growth[0.1])
    said += f"; its exponent is 1/(2r+γ), at least {least:.2g}"
    yield "Theorem 4, case 1: (1 + Δ/λ)^1.5 ≲ √(1 + Δ/λ), as printed", Verdict(least <= 0, said)
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


def proof_exponents() -> Iterator[tuple[str, Verdict]]:
    """What the proofs of Theorems 3 and 4 do with powers of |D|."""
    yield from _orders()
    yield from _theorem_4()
