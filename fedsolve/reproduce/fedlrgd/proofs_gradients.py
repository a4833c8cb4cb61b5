"""The proof of Theorem 2 of Jadbabaie et al. (2023), (53) to (62): the error of the gradient, line by line.

One coordinate. d = 1, η = 2, l = 1: one interval covers [0, 1] with q = 2, so r = D |S| = 2; the server has samples at
0 and 1, and g(x; θ) is a wave of `proofs_waves`. Then d = 1 and 2, l = 2 and 1, r = 3 and 6, with `proofs_cases`.
α is the least with ‖G⁻¹‖ ≤ r^α, at least 1; draws count where (61) holds with δ ≤ ½.
"""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_cases import Case, Polynomials, drawn, polynomials
from fedsolve.reproduce.fedlrgd.proofs_waves import Functions, functions, norm
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

R, Q, ETA = 2, 2.0, 2
DRAWS, CLIENTS, SAMPLES, POINTS = 150, 10, 3, 20
KINDS = ("alike", "different")
CASES, MORE = ((1, 2), (2, 1), (2, 2)), 40  # d and l; draws of each
ROUNDED = 1e-12  # of B

FIRST = Check("Proof of Theorem 2, (53)", "the gradient's error is at most the largest error of one sample (53)")
PIECE = Check("Proof of Theorem 2, (54)", "g is within L_2/(l! q^η) of the Taylor polynomial (54)")
SPANNED = Check("(55) to (58)", "P(x_j; θ) = Σ a_jk P(x_k; θ), a_j from (58) and from Φ alike (55 to 58)", "off", 1e-8)
WEIGHTS = Check("Proof of Theorem 2, (59)", "lines (i) to (vii) of (59): each is at most the next")
ERRORS = Check("Proof of Theorem 2, (60)", "lines (i) to (viii) of (60): each is at most the next, read as (vii) is")
AS_PRINTED = Check("(60), (iv)", "… and (iii) is at most (iv) as printed, where ‖G⁻¹‖²/(1 − …) multiplies both terms")
SUMS = Check("Proof of Theorem 2, (60) (vi)", "Σ_k |w_jk| ≤ √r ‖w_j‖ ≤ ‖G⁻¹‖ √(r Σ g²) ≤ ‖G⁻¹‖ B r, each")
SMALL = Check("Proof of Theorem 2, (61)", "δ ≤ ½ in (61) makes L_2 r^(α + 1) and ‖G⁻¹‖ r L_2 less than l! q^η")
ALIKE = Check("Proof of Theorem 2, (62)", "clients alike: the gradient's error is at most 3(B + 3)²δ where (61) holds")
APART = Check("Proof of Theorem 2, (62)", "clients different: the gradient's error is at most 3(B + 3)²δ, too")
LAST = Check("Proof of Theorem 2, (62)", "δ (2 + B + δ)² (1/(1 − δ) + 1) is at most 3(B + 3)²δ, δ ≤ ½")
COUNTED = AtLeast(
    "Proof of Theorem 2", "draws in which (61) holds, of 150: at least 50 for each kind", "times", 50.0, unit="draws"
)
OTHERS = AtLeast(
    "Proof of Theorem 2",
    "… and of 40, d = 1 with r = 3, d = 2 with r = 3 and 6: at least 20 of each, for each kind",
    "times",
    20.0,
    unit="draws",
)
LARGE = AtLeast(
    "Proof of Theorem 2, (62)",
    "δ = 0.6 instead, B to 1000: δ (2 + B + δ)² (1/(1 − δ) + 1) over 3(B + 3)²δ, its largest",
    "times",
    unit="of the bound",
)
CHECKS = (FIRST, PIECE, SPANNED, WEIGHTS, ERRORS, AS_PRINTED, SUMS, SMALL, ALIKE, APART, LAST, COUNTED, OTHERS, LARGE)


def lines_59(g: Array, P: Array, G: Array, T: Array, gap: float, B: float) -> list[float]:
    """(59) for one sample: g and P are its rows at the probes, T is 𝒫, gap is L₂/(l! q^η)."""
    r, inverse, other = len(G), np.linalg.inv(G), np.linalg.inv(T)
    size, moved = norm(inverse), norm(other - inverse)
    apart, full = float(np.linalg.norm(P - g)), float(np.linalg.norm(G - T))
    return [
        float(np.linalg.norm(P @ other - g @ inverse)),
        float(np.linalg.norm(P @ (other - inverse)) + np.linalg.norm((P - g) @ inverse)),  # (ii)
        float(np.linalg.norm(P)) * moved + apart * size,  # (iii)
        apart * (size + moved) + float(np.linalg.norm(g)) * moved,  # (iv)
        gap * math.sqrt(r) * size + math.sqrt(r) * (B + gap) * moved,  # (v)
        gap * math.sqrt(r) * size + math.sqrt(r) * (B + gap) * size**2 * full / (1 - size * full),  # (vi)
        gap * math.sqrt(r) * size + gap * r**1.5 * (B + gap) * size**2 / (1 - size * r * gap),  # (vii)
    ]


def measured(seed: int) -> dict[str, float]:
    rng, worst = np.random.default_rng([seed, 31]), {check: 0.0 for check in CHECKS[:-3]}
    kept = dict.fromkeys(KINDS, 0)
    interval = Case(np.array([0.0, 1.0]), Q**ETA, lambda x: np.array([np.ones_like(x), x]).T, np.linspace(0, 1, 201))
    for kind in KINDS:
        for _ in range(DRAWS):
            L_2, scale = 10 ** rng.uniform(-4, -0.5), 10 ** rng.uniform(-0.3, 1)
            probes, others = functions(rng, R, scale, L_2), functions(rng, POINTS, scale, L_2)
            x = rng.random(CLIENTS * SAMPLES) if kind == "alike" else _unlike(rng)
            found = _one(interval, probes, others, x, APART if kind == "different" else ALIKE)
            kept[kind] += found is not None
            _add(worst, found)
    counts = []
    for (d, l), kind in product(CASES, KINDS):
        every = [_other(rng, d, l, kind) for _ in range(MORE)]
        counts.append(sum(found is not None for found in every))
        for found in every:
            _add(worst, found)
    grid = np.linspace(0, 1000, 2001)
    worst[LAST] = max(worst[LAST], *(float(_last(delta, grid).max()) for delta in (0.01, 0.1, 0.3, 0.5)))
    return named({**worst, COUNTED: min(kept.values()), OTHERS: min(counts), LARGE: _last(0.6, grid).max()})


def _add(worst: dict[Check, float], found: dict[Check, float] | None) -> None:
    for check, value in (found or {}).items():
        worst[check] = max(worst[check], value)


def _last(delta: float, B: Array) -> Array:
    """The last inequality before (62)."""
    return np.asarray((2 + B + delta) ** 2 * (1 / (1 - delta) + 1) / (3 * (B + 3) ** 2))


def _unlike(rng: np.random.Generator) -> Array:
    """Each client draws from a beta distribution of its own."""
    return np.concatenate([rng.beta(a, b, SAMPLES) for a, b in rng.uniform(0.3, 8, (CLIENTS, 2))])


def _other(rng: np.random.Generator, d: int, l: int, kind: str) -> dict[Check, float] | None:
    """A draw with this d and l; L₂ up to what (61) allows."""
    case, r = drawn(rng, d, l), math.comb(l + d, d)
    plain = polynomials(rng, r, d, l, 0.0)
    power = max(r, float(np.linalg.norm(np.linalg.inv(plain.at(case.own)), 2))) ** 2 * r**2  # r^(2α + 2)
    L_2 = 0.45 * 10 ** rng.uniform(-1, 0) * case.scale / power
    probes = Polynomials(l, plain.coefficients, plain.u, plain.s, L_2)
    x = rng.random((CLIENTS * SAMPLES, d))
    if kind == "different":
        shapes = rng.uniform(0.3, 8, (CLIENTS, 2))
        x = np.concatenate([rng.beta(a, b, (SAMPLES, d)) for a, b in shapes])
    return _one(case, probes, polynomials(rng, POINTS, d, l, L_2), x, APART if kind == "different" else ALIKE)


def _one(
    case: Case, probes: Functions | Polynomials, others: Functions | Polynomials, x: Array, last: Check
) -> dict[Check, float] | None:
    own, gap, B = case.own, probes.L_2 / case.scale, max(probes.bound, others.bound)
    r, G, T = len(own), probes.at(own), probes.taylor(own)
    inverse = np.linalg.inv(G)
    size = norm(inverse)
    alpha = max(1.0, math.log(size) / math.log(r))
    delta = gap * r ** (2 * alpha + 2)  # (61)
    if delta > 0.5:
        return None
    w = probes.at(x) @ inverse  # (38)
    v = w.sum(axis=0)  # (39)
    n = len(x) + r
    exact = (others.at(own).sum(axis=0) + others.at(x).sum(axis=0)) / n  # (32)
    error = float(np.abs(exact - (1 + v) @ others.at(own) / n).max())  # (41)
    far = float(np.abs(others.at(x) - w @ others.at(own)).max())
    a = np.linalg.solve(case.basis(own).T, case.basis(x).T).T  # by Φ (45)
    by_58 = probes.taylor(x) @ np.linalg.inv(T)
    chain = [lines_59(*rows, G, T, gap, B) for rows in zip(probes.at(x), probes.taylor(x), strict=True)]
    lines, printed = _lines_60(others, own, x, a, w, far, (gap, B, size, alpha))
    power, whole = r ** (alpha + 1), float(np.abs(w).sum(axis=1).max())
    middle = math.sqrt(r) * float(np.linalg.norm(w, axis=1).max())
    third = size * math.sqrt(r) * float(np.linalg.norm(probes.at(x), axis=1).max())
    agreed = np.abs(others.taylor(x) - a @ others.taylor(own)).max() + np.abs(a - by_58).max() / (1 + np.abs(a).max())
    return {
        FIRST: error / far,
        PIECE: float(np.abs(others.at(case.points) - others.taylor(case.points)).max()) / gap,
        SPANNED: float(agreed) / max(B, 1.0),
        WEIGHTS: max(_steps(each, ROUNDED * B) for each in chain),
        ERRORS: _steps(lines, ROUNDED * B),
        AS_PRINTED: printed,
        SUMS: max(whole / middle, middle / third, third / (size * B * r)),
        SMALL: max(gap * power, size * r * gap),
        last: error / (3 * (B + 3) ** 2 * delta),
        LAST: float(_last(delta, np.array(B))),
    }


def _steps(lines: list[float], rounding: float) -> float:
    """The largest ratio of a line to the next, but for rounding."""
    return max((one - rounding) / other for one, other in pairwise(lines))


def _lines_60(
    others: Functions | Polynomials,
    own: Array,
    x: Array,
    a: Array,
    w: Array,
    far: float,
    known: tuple[float, float, float, float],
) -> tuple[list[float], float]:
    """(60), from the largest error of one sample on; and (iii) over (iv) as printed. Known are gap, B, ‖G⁻¹‖ and α."""
    (gap, B, size, alpha), r = known, len(own)
    whole, at_own = float(np.abs(w).sum(axis=1).max()), others.taylor(own)
    lines = [far]
    lines.append(gap * (1 + whole) + float(np.abs(others.taylor(x) - w @ at_own).max()))  # (i)
    lines.append(gap * (1 + whole) + float(np.abs((a - w) @ at_own).max()))  # (ii)
    rows, most = float(np.linalg.norm(at_own, axis=0).max()), float(np.linalg.norm(a - w, axis=1).max())
    lines.append(gap * (1 + whole) + most * rows)  # (iii)
    left, right = gap * math.sqrt(r) * size, gap * r**1.5 * (B + gap)
    factor = size**2 / (1 - size * r * gap)
    for first, height in ((whole, rows), (whole, (B + gap) * math.sqrt(r)), (size * B * r, (B + gap) * math.sqrt(r))):
        lines.append(gap * (1 + first) + height * (left + right * factor))  # (iv), (v), (vi)
    power = r ** (alpha + 1)
    inner = gap * power + gap * power**2 * (B + gap) / (1 - gap * power)
    lines.append(gap * (1 + B * power) + (B + gap) * inner)  # (vii)
    lines.append(gap * power**2 * (2 + B + gap) ** 2 * (1 / (1 - gap * power) + 1))  # (viii)
    return lines, lines[3] / (gap * (1 + whole) + rows * (left + right) * factor)
