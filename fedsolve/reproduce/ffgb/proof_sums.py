"""Appendices D and E of Shen et al. (2022): what is noted in passing at each step, and the sums over all rounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Below, Found, Same
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step, boosted, sup_oracle

D, E = "Appendix D", "Appendix E"
PARTS = Same(f"{D}, after (33)", "D: ĥ_i − ∇F_i[g_i] = h_i − ∇R_i[g_i] on the support of α_i")
APART = Below(f"{D}, after (33)", "D: the mean of ‖g_i − ḡ‖² is at most that of 2‖g_i − f^t‖² + 2‖f^t − ḡ‖²")
NORM = Below(f"{D}, after (33)", "D: ‖·‖_αi ≤ ‖·‖∞ for g_i − f^t, f^t − ḡ and ĥ_i")
APART_E = Below(f"{E}, drift", "E: the mean of ‖g_i − ḡ‖² is at most that of ‖g_i − f^t‖², at every step")
TOTAL_D = Check(f"{D}, before (35)", "D: (KT + 1)‖f^T − f*‖² is at most the five terms, constants 1, k_0 = 0, f⁰ = 0")
TOTAL_FAR = Check(f"{D}, before (35)", "D: … ‖f⁰‖ = 2G/(γμ), T = 8 to 256, K = 1 and 4")
TOTAL_E = Check(f"{E}, end", "E: (KT + 1)‖f^T − f*‖² is at most the four terms, constants 1, KT > 1")
CHECKS = (PARTS, APART, NORM, APART_E, TOTAL_D, TOTAL_FAR, TOTAL_E)


def noted(one: Posed, step: Step, short: bool, found: Found) -> None:
    """Of one step; `short` says the step sizes of Theorem 4.3, and so Appendix E."""
    bar, moved = step.g.mean(axis=0), step.g - step.f
    apart = one.own(step.g - bar, step.g - bar).mean()
    if short:
        found.below(APART_E, apart, one.own(moved, moved).mean(), one.own(step.g, step.g))
        return
    hat, inside = step.h + one.mu * step.g, one.mass > 0
    left = np.where(inside, hat - one.slope(step.g), 0.0)
    found.same(PARTS, left, np.where(inside, step.h - one.gradient(step.g), 0.0), hat)
    back = np.tile(step.f - bar, (len(step.g), 1))
    found.below(APART, apart, 2 * (one.own(moved, moved) + one.own(back, back)).mean(), one.own(step.g, step.g))
    for a in (moved, back, hat):
        found.below(NORM, np.sqrt(one.own(a, a)), np.abs(a).max(axis=1))


def total(one: Posed, steps: Sequence[Step], gamma: float, K: int, short: bool, found: Found) -> None:
    """The recursions from round to round, summed over t = 0 to T − 1, for every T of a run."""
    for T, quotient in enumerate(quotients(one, steps, gamma, K, short), 1):
        if short and K * T > 1:  # else log(KT) is 0
            found.note(TOTAL_E, quotient)
        elif not short and not steps[0].f.any():
            found.note(TOTAL_D, quotient)


def far(one: Posed, rng: np.random.Generator, found: Found, gamma: float = 0.3) -> None:
    """From ‖f⁰‖ = 2G/(γμ), where constants 1 are missed in the first rounds: from T = 8 on."""
    start = np.full(len(one.alpha), 2 * G / (gamma * one.mu))
    for K in (1, 4):
        steps = list(boosted(one, start, sup_oracle(one, gamma, rng), 4.0, K, 256))
        found.note(TOTAL_FAR, max(quotients(one, steps, gamma, K, False)[7:]))


def quotients(one: Posed, steps: Sequence[Step], gamma: float, K: int, short: bool) -> list[float]:
    """(KT + 1)‖f^T − f*‖² over the printed sum with constants 1, T = 1, 2, …"""
    f, scale, found = one.best, G**2 / (one.mu * gamma) ** 2, []
    start = float(one.all(steps[0].f - f, steps[0].f - f))
    for step in steps[K - 1 :: K]:
        T, new = step.t + 1, step.after.mean(axis=0) - f
        weak = (1 - gamma) * G**2 * log(K * T) / (one.mu * gamma**2)
        if short:
            rest = K**2 * log(K * T) + (1 - gamma) * T
        else:
            rest = K**2 * log(K * T + 1) + T * (1 - gamma) ** 2 + T * K * one.omega_tv
        found.append((K * T + 1) * float(one.all(new, new)) / (start + scale * rest + weak))
    return found
