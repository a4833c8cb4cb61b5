"""Sums over a round in Appendices D and E of Shen et al. (2022): (34), (42), drift, step sizes, logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step

D, E = "Appendix D", "Appendix E"
TELESCOPE = Same("(34) and (42)", "the sum of ⟨f* − g, ĥ − ∇F⟩ over a round, with h_i as printed")
TELESCOPE_HAT = Same("(34) and (42)", "… with ĥ_i, because g^(k+1) = g^k − ηĥ_i")
YOUNG = Below("(34) and (42)", "it is at most μ/2‖f* − g^K‖² + ((1 − γ)G/γ)²/(2μ) + (1 − γ)(2 − γ)G²/γ² Ση, as printed")
YOUNG_FOUR = Below("(34) and (42)", "… with 4(1 − γ)G²/γ² Ση, for ĥ_i")
LOG = Check("(34) and (42)", "Σ_(k<K) η ≤ log(tK + K) − log(tK + 2), as printed, μ = 0.5")
LOG_RIGHT = Check("(34) and (42)", "… ≤ c/μ (log(tK + K) − log(tK + 1)), c = 4 and 2")
DOUBLE = Check(f"{D} and {E}", "η^κ ≤ 2η^k for κ ≤ k and every t ≥ 0")
DOUBLE_LATER = Check(f"{D} and {E}", "… for t ≥ 1")
SQUARES = Check(f"{D} and {E}", "the mean of ‖g_i − ḡ‖² is at most 36 and 16 Σ_κ (η^κ)² G²/γ², K = 200")
SQUARED = Check(f"{D} and {E}", "… at most 36 and 16 (Σ_κ η^κ)² G²/γ², K = 5 to 200")
DRIFT = Check(f"{D} and {E}", "… at most 144 and 64 η²K²G²/γ², K = 5 to 200, t = 0 and 20")
CENTRED = Below(E, "E[(X − EX)²] ≤ E[X²] for g_i − f^t")
CANCELS = Below(E, "μ/2‖f* − g^K‖² cancels with the last term of (41), as printed, K = 1 and 4")
CANCELS_QUARTER = Below(E, "… with μ/4 in Young's inequality")
DRIFT_GROWS = Check(f"{D} and {E}", "… and the quotient does not grow with K, 10 to 200", "exponent", 0.1)
DRIFTS = (5, 10, 50, 200)
ROUNDS = (TELESCOPE, TELESCOPE_HAT, YOUNG, YOUNG_FOUR, CENTRED, CANCELS, CANCELS_QUARTER)
SIZES = (LOG, LOG_RIGHT, DOUBLE, DOUBLE_LATER, SQUARES, SQUARED, DRIFT, DRIFT_GROWS)

SUM = Check(f"{D} and {E}", "Σ_k 1/(tK + k + 1) ≤ log(tK + K + 1) − log(tK + 1), K = 1 to 64")
SUM_SHORT = Check(f"{E}, (41)", "… ≤ log(tK + K) − log(tK + 1), as printed in (41), K = 1 to 64")
TIMES_D = Same(
    f"{D}, times (Kt + k + 1)", "D: the coefficients 4/μ, 2δ/μ and μ/2 of the multiplied recursion, as printed"
)
TIMES_D_RIGHT = Same(f"{D}, times (Kt + k + 1)", "D: … 8/μ, 4δ/μ and 2, and Kt + k for ‖ḡ^k − f*‖²")
TIMES_E = Same(f"{E}, times (tK + k + 1)", "E: the coefficients Kt + k, 4/μ and 2/μ · μ/2 of the multiplied recursion")
CONSTANT = AtLeast(
    f"{E}, after (42)", "E: (4/μ)((1 − γ)/(2μγ))² is at least what (42) gives, μ = 0.5, 1 and 4", most=1.0
)
FORMULAS = (SUM, SUM_SHORT, TIMES_D, TIMES_D_RIGHT, TIMES_E, CONSTANT)


def in_round(one: Posed, steps: Sequence[Step], gamma: float, K: int, short: bool, found: Found) -> None:
    """The telescoping sum of one round, and what becomes of it; `short` says the step sizes of Theorem 4.3."""
    f, mu, last = one.best, one.mu, steps[-1]
    left = sum((one.own(f - s.g, s.h - one.gradient(s.g)) for s in steps), np.zeros(len(one.mass)))
    end = one.own(f - last.g, -last.residual)
    plain = sum((s.eta * one.own(s.h, s.residual) for s in steps[:-1]), np.zeros(len(one.mass)))
    full = sum((s.eta * one.own(s.h + mu * s.g, s.residual) for s in steps[:-1]), np.zeros(len(one.mass)))
    if K > 1:
        found.same(TELESCOPE, left, end + plain)
    found.same(TELESCOPE_HAT, left, end + full, end, full, *(one.own(f - s.g, s.residual) for s in steps))
    far, weak = one.own(f - last.g, f - last.g), ((1 - gamma) / gamma * G) ** 2
    total = sum(s.eta for s in steps[:-1])
    start = mu / 2 * far + weak / (2 * mu)
    found.below(YOUNG, left, start + (1 - gamma) * (2 - gamma) / gamma**2 * G**2 * total)
    found.below(YOUNG_FOUR, left, start + 4 * (1 - gamma) / gamma**2 * G**2 * total)
    moved = last.g - last.f
    spread = one.own(last.g - last.g.mean(axis=0), last.g - last.g.mean(axis=0)).mean()
    if short:
        found.below(CENTRED, spread, one.own(moved, moved).mean())
        sums = sum(one.own(f - s.g, f - s.g).mean() for s in steps)
        found.below(CANCELS, 4 / mu * mu / 2 * far.mean(), 2 / mu * mu / 2 * sums)
        found.below(CANCELS_QUARTER, 4 / mu * mu / 4 * far.mean(), 2 / mu * mu / 2 * sums)


def step_sizes(found: Found, mu: float = 0.5) -> None:
    """The step sizes by themselves, and the drift of two clients with gradients ±G and γ = 1."""
    for numerator, K, t in ((c, K, t) for c in (4.0, 2.0) for K in (2, 4, 16, 64) for t in range(6)):
        eta = numerator / (mu * (t * K + np.arange(1, K + 1) + 1))
        found.note(DOUBLE if t == 0 else DOUBLE_LATER, eta[0] / (2 * eta[-1]))
        sent, printed = eta[:-1].sum(), log(t * K + K) - log(t * K + 2)
        found.note(LOG, sent / printed if printed > 0 else inf)
        found.note(LOG_RIGHT, sent / (numerator / mu * (log(t * K + K) - log(t * K + 1))))
    one = Posed(np.full((2, 3), 1 / 3), np.array([[0.0] * 3, [1.0] * 3]), mu)
    for (numerator, constant, most), at in ((case, at) for case in ((4.0, 36, 144), (2.0, 16, 64)) for at in (0, 20)):
        ends = [_drift(one, numerator, K, at, constant, most, found) for K in DRIFTS]
        found.note(DRIFT_GROWS, float(np.polyfit(np.log(DRIFTS[1:]), np.log(ends[1:]), 1)[0]))


def _drift(one: Posed, numerator: float, K: int, at: int, constant: int, most: int, found: Found) -> float:
    """Round `at` of two clients with gradients ±G and γ = 1; ‖g_i − ḡ‖² over its bound before the last step."""
    g, last = np.zeros((2, 3)), 0.0
    etas: list[float] = []
    for k in range(1, K + 1):
        spread = float(one.own(g - g.mean(axis=0), g - g.mean(axis=0)).mean())
        size = numerator / (one.mu * (at * K + k + 1))
        last = spread / (most * size**2 * K**2 * G**2)
        found.note(DRIFT, last)
        if etas:
            found.note(SQUARED, spread / (constant * sum(etas) ** 2))
        if etas and K == 200 and at == 20:
            found.note(SQUARES, spread / (constant * sum(e * e for e in etas)))
        etas.append(size)
        g = g - size * (np.array([[G], [-G]]) + one.mu * g)
    return last


def formulas(found: Found) -> None:
    """Sums of 1/n against logarithms, and coefficients after multiplying by (tK + k + 1)."""
    for K, t in ((K, t) for K in (1, 2, 4, 16, 64) for t in range(20)):
        total = sum(1 / (t * K + k + 1) for k in range(1, K + 1))
        found.note(SUM, total / (log(t * K + K + 1) - log(t * K + 1)))
        short = log(t * K + K) - log(t * K + 1)
        found.note(SUM_SHORT, total / short if short > 0 else inf)
    for mu, n in ((mu, n) for mu in (0.5, 1.0, 4.0) for n in (2, 7, 50)):  # n = tK + k + 1
        long, short = 4 / (mu * n), 2 / (mu * n)
        made = np.array([n * 2 * long, n * long, n * long * mu / 2])
        found.same(TIMES_D, made, np.array([4 / mu, 2 / mu, mu / 2]))
        found.same(TIMES_D_RIGHT, np.append(made, n * (1 - mu * long / 4)), np.array([8 / mu, 4 / mu, 2.0, n - 1.0]))
        parts = np.array([n * (1 - mu * short / 2), n * 2 * short, n * short * mu / 2])
        found.same(TIMES_E, parts, np.array([n - 1.0, 4 / mu, 2 / mu * mu / 2]))
        gamma = 0.3
        given = 4 / mu / (2 * mu) * ((1 - gamma) / gamma) ** 2
        found.note(CONSTANT, 4 / mu * ((1 - gamma) / (2 * mu * gamma)) ** 2 / given)
