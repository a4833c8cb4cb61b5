"""Theorem 10 of Su, Xu and Yang (2023), noise with few moments: (55) to (58), p = 4, Student's t of 5 degrees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from fedsolve.reproduce.nonparametric.proof_tails import Stopped
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_rates import FREEDOM
from fedsolve.typing import Array

TOTALS = (24, 96, 192)
P = 4


@cache
def noises() -> dict[str, tuple[Any, tuple[float, ...]]]:
    """Distributions of variance 1, with the moments that are finite."""
    from scipy import stats  # slow to import, and the command line imports this module

    return {
        "Student": (stats.t(FREEDOM, scale=math.sqrt((FREEDOM - 2) / FREEDOM)), (4.0, 4.5)),
        "uniform": (stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)), (4.0, 6.0, 8.0)),
        "Laplace": (stats.laplace(scale=math.sqrt(0.5)), (4.0, 6.0, 8.0)),
    }


MOMENTS = bound(
    "Proof of Theorem 10, (56)",
    "E(ξ² − Eξ²)² ≤ E|ξ|⁴, E|ξ² − Eξ²|^(p/2) ≤ 2^(p/2) E|ξ|^p and M_4^(1/4) ≤ M_p^(1/p), for three kinds of noise",
)
SPLIT = bound(
    "Proof of Theorem 10, (55)",
    "P{|ξᵀQξ − E| > δ} is at most the two probabilities with δ/2, and these at most the two moments over "
    "(δ/2)^(p/2) and (δ/2)^p",
)
ROSENTHAL = bound(
    "Proof of Theorem 10, (56)", "E|Σ Q_ii(ξ_i² − Eξ_i²)|² ≤ M_4 Σ Q_ii² ≤ ‖Q‖_F² M_4, p = 4: the constant is 1"
)
ROSENTHAL_8 = Quantity(
    "Proof of Theorem 10, (56)",
    "… and p = 8, exactly, for uniform and Laplace noise: E|Σ Q_ii(ξ_i² − Eξ_i²)|⁴ is at most 3 times M_8 Σ Q_ii⁴ + "
    "(M_4 Σ Q_ii²)²",
    "ratio at N = 24, 96 and 192",
    most=3.0,
)
LAST_8 = bound(
    "Proof of Theorem 10, (56)",
    "… and p = 8: M_8 Σ Q_ii⁴ + (M_4 Σ Q_ii²)² ≤ 2‖Q‖_F⁴ M_8",
)
DECOUPLED = bound("Proof of Theorem 10", "E|Σ_{i≠j} Q_ij ξ_i ξ_j|⁴ ≤ 4⁴ E|ξᵀQξ'|⁴", "left over right side, by draws")
U_STATISTIC = Quantity(
    "Proof of Theorem 10, (57)",
    "E|ξᵀQξ'|⁴ over ‖Q‖_F⁴ M_4² stays below 1, so that a constant exists",
    "ratio at N = 24, 96 and 192",
    most=1.0,
)
THREE_TERMS = bound("Proof of Theorem 10, (57)", "σ^(2p)‖Q‖_F^p + σ^pM_p‖Q‖_{2,p}^p + M_p²‖Q‖_{p,p}^p ≤ 3‖Q‖_F^pM_p²")
TAIL = Quantity(
    "Proof of Theorem 10, (58)",
    "P{|ξᵀQξ − E| > δ} ≤ C'_p(M_p(‖Q‖_F/δ)^(p/2) + M_p²(‖Q‖_F/δ)^p), p = 4: with C' = 4, ‖Q‖_F/δ = 2, ½ and ⅛",
    "probability over it, without C'",
    most=4.0,
)
CLAIM = bound(
    "Proof of Theorem 10, after (58)",
    "min{1, C(Mr^(p/2) + M²r^p)} ≤ 2CMr^(p/2) for any M = M_p and r = ‖Q‖_F/δ, C ≥ 1",
    "largest ratio",
)
CASES = bound(
    "Proof of Theorem 10, after (58)",
    "… because 2CMr^(p/2) ≥ 1 where r ≥ 1, and M²r^p ≤ Mr^(p/2) elsewhere, as printed",
    "largest ratio",
)
QUANTITIES = (MOMENTS, SPLIT, ROSENTHAL, ROSENTHAL_8, LAST_8, DECOUPLED, U_STATISTIC, THREE_TERMS, TAIL, CLAIM, CASES)


def measured(seed: int, notes: Notes, draws: int = 20_000) -> None:
    """Moments by integration, the two parts of ξᵀQξ by draws."""
    rng = np.random.default_rng([seed, 24])
    _integrals(notes)
    _cases(notes)
    fourth = float(noises()["Student"][0].moment(4))
    for total in TOTALS:
        made = Stopped.of(total, seed, fixed=True)
        Q = made.learned.T @ made.learned
        scale = math.sqrt((FREEDOM - 2) / FREEDOM)
        one, two = (scale * rng.standard_t(FREEDOM, (total, draws)) for _ in range(2))
        _parts(Q, one, two, fourth, notes)
        size, columns = np.linalg.norm(Q), np.linalg.norm(Q, axis=0)
        terms = size**P + fourth * (columns**P).sum() + fourth**2 * (np.abs(Q) ** P).sum()
        notes.add(THREE_TERMS, terms / (3 * size**P * fourth**2))
        notes.add(ROSENTHAL, (fourth - 1) * np.square(np.diag(Q)).sum() / (fourth * np.square(np.diag(Q)).sum()))
        notes.add(ROSENTHAL, np.square(np.diag(Q)).sum() / size**2)
        squares = np.square(np.diag(Q))
        for moments in MOMENTS_OF.values():
            middle = moments[8] * np.square(squares).sum() + (moments[4] * squares.sum()) ** 2
            notes.add(ROSENTHAL_8, fourth_moment(np.diag(Q), moments) / middle)
            notes.add(LAST_8, middle / (2 * size**4 * moments[8]))


# Of variance 1: √3 times uniform on [−1, 1], and Laplace.
MOMENTS_OF = {
    "uniform": {p: 3 ** (p / 2) / (p + 1) for p in (4, 6, 8)},
    "Laplace": {p: math.factorial(p) / 2 ** (p / 2) for p in (4, 6, 8)},
}


def fourth_moment(weights: Array, moments: Mapping[int, float]) -> float:
    """E|Σ w_i(ξ_i² − 1)|⁴ for independent ξ_i of variance 1 with these moments."""
    spread = moments[4] - 1
    own = moments[8] - 4 * moments[6] + 6 * moments[4] - 3
    squares = np.square(weights)
    return float(3 * (spread * squares.sum()) ** 2 + (own - 3 * spread**2) * np.square(squares).sum())


def _parts(Q: Array, one: Array, two: Array, fourth: float, notes: Notes) -> None:
    diagonal = np.diag(Q) @ (one**2 - 1)
    whole = np.sum(one * (Q @ one), axis=0) - np.trace(Q)
    off = whole - diagonal
    apart = np.sum(one * (Q @ two), axis=0)
    for delta in np.linalg.norm(Q) * np.array([0.5, 2.0, 8.0]):
        left = (np.abs(whole) > delta).mean()
        middle = (np.abs(diagonal) > delta / 2).mean() + (np.abs(off) > delta / 2).mean()
        right = (np.abs(diagonal) ** (P / 2)).mean() / (delta / 2) ** (P / 2) + (off**P).mean() / (delta / 2) ** P
        term = fourth * (np.linalg.norm(Q) / delta) ** (P / 2)
        notes.add(TAIL, left / (term + term**2))
        if left > 0:
            notes.add(SPLIT, left / middle, middle / right)
    notes.add(DECOUPLED, (off**P).mean() / (4**P * (apart**P).mean()))
    notes.add(U_STATISTIC, (apart**P).mean() / (np.linalg.norm(Q) ** P * fourth**2))


def _integrals(notes: Notes) -> None:
    for noise, powers in noises().values():
        fourth = float(noise.expect(lambda x: x**4))
        notes.add(MOMENTS, float(noise.expect(lambda x: (x**2 - 1) ** 2)) / fourth)
        for p in powers:
            own = float(noise.expect(lambda x, p=p: np.abs(x) ** p))
            centred = float(noise.expect(lambda x, p=p: np.abs(x**2 - 1) ** (p / 2)))
            notes.add(MOMENTS, centred / (2 ** (p / 2) * own), fourth ** (1 / 4) / own ** (1 / p))


def _cases(notes: Notes) -> None:
    M, r = np.geomspace(1e-4, 1e4, 161)[:, None], np.geomspace(1e-3, 1e3, 121)
    for C in (1.0, 5.0):
        term = M * r ** (P / 2)
        notes.add(CLAIM, np.minimum(1, C * (term + term**2)) / (2 * C * term))
        notes.add(CASES, np.where(r >= 1, 1 / (2 * C * term), term))
