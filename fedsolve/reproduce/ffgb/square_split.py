"""Appendix F of Shen et al. (2022), (51) to the end of the proof: a step of Algorithm 3, and the sums of a round."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same
from fedsolve.reproduce.ffgb.square_runs import Regression, Step

F = "Appendix F"
EXPANDED = Same(f"{F}, (51)", "F: the expansion of ‖ḡ^(k+1) − f*‖²")
JENSEN = Below(f"{F}, (52)", "F: ‖ḡ − h̄‖²_α ≤ Σ ‖g_i − h_i‖²_α/N")
EACH = Check(f"{F}, after (52)", "F: ‖g_i − h_i‖²_α ≤ 8L(LD + B)/γ² W_1(α, α_i) + 4B²/γ², h = γφ, η ≤ ½")
PRINTED = Check(f"{F}, (53)", "F: ‖ḡ^(k+1) − f*‖²_α ≤ 8L(LD + B)ω/γ² + 4B²/γ², as printed, f⁰ = 0, h = γφ, η ≤ ½")
MEANT = Check(f"{F}, (53)", "F: ‖ḡ − h̄‖²_α ≤ 8L(LD + B)ω/γ² + 4B²/γ², which is meant, f⁰ = 0, h = γφ, η ≤ ½")
PRINTED_FAR = Check(f"{F}, (53)", "F: … as printed, f⁰ = 10B/γ")
MEANT_FAR = Check(f"{F}, (53)", "F: … which is meant, f⁰ = 10B/γ")
MEANT_EDGE = Check(f"{F}, (53)", "F: … which is meant, f⁰ = B/γ and −B/γ")
SPLIT = Same(f"{F}, (54)", "F: ⟨ḡ − f*, ḡ − h̄⟩_α is the mean over the clients of ⟨ḡ − f*, g_i − h_i⟩_α, as (54) uses")
TURNED = Same(f"{F}, (55)", "F: the split (55), as printed")
SPLIT_RIGHT = Same(f"{F}, (55)", "F: … with the last difference turned round, as in (28)")
INPUTS = Check(f"{F}, after (55)", "F: the last term of (55) is at most 8L(LD + B)ω/γ², h = γφ, η ≤ ½")
YOUNG = Below(f"{F}, after (55)", "F: the first term of (55), by Young's inequality and 4ηB²/γ², h = γφ, η ≤ ½")
CONVEX = Below(f"{F}, after (55)", "F: the second term of (55), as (33), with ηG²/γ², μ = 1")
CONVEX_LESS = Below(f"{F}, after (55)", "F: … also without ηG²/γ² and ‖g_i − ḡ‖²/η")
GRADIENT = Same(f"{F}, after (55)", "F: g − u_i and ∇R_i[g] are the same at the client's points")
SUM = Same(f"{F}, drift", "F: ‖f^t − ḡ^k‖² = ‖Σ_(κ≤k) η(ḡ^κ − h̄^κ)‖², as printed")
SUM_RIGHT = Same(f"{F}, drift", "F: … with κ < k")
PLUGGED = Below(f"{F}, recursion", "F: the recursion of ‖ḡ^k − f*‖² with 1 − μη/2, constants 1, η ≤ ½")
TELESCOPE = Same(f"{F}, telescoping", "F: the sum of ⟨f* − g, u − h⟩ over a round, all five lines")
TELESCOPE_BELOW = Below(f"{F}, telescoping", "F: … ≤ μ‖f* − g^K‖² + (1 − γ)²B²/(γ²μ) + G²(1 − γ)/γ² Ση, constants 1")
FREE = Below(f"{F}, telescoping", "F: … ≤ the same with ‖f* − g^k‖² for every k, as printed")
LOG_PRINTED = AtLeast(
    f"{F}, telescoping", "F: … Ση is at least ⅛ (log(KT + K) − log(Kt)), as printed, t = 0 to 5, K = 4", most=0.125
)
LOG = Check(f"{F}, telescoping", "F: … Ση is at most log(Kt + K) − log(Kt + 1), K = 4")
LOG_LEAST = AtLeast(f"{F}, telescoping", "F: … and at least half of it", most=0.5)
FAR = (PRINTED_FAR, MEANT_FAR, MEANT_EDGE)
STEPS = (
    *(EXPANDED, JENSEN, EACH, PRINTED, MEANT, *FAR, SPLIT, TURNED, SPLIT_RIGHT, INPUTS, YOUNG, CONVEX, CONVEX_LESS),
    GRADIENT,
    PLUGGED,
)
ROUNDS = (SUM, SUM_RIGHT, TELESCOPE, TELESCOPE_BELOW, FREE, LOG_PRINTED, LOG, LOG_LEAST)


def split(one: Regression, step: Step, gamma: float, small: bool, found: Found) -> None:
    """(51) to (55) and what bounds them; f* is the labels, and `small` says h = γφ and η ≤ ½."""
    f, g, eta, way = one.y, step.g, step.eta, step.g - step.h
    bar, mean, new = g.mean(axis=0), way.mean(axis=0), step.after.mean(axis=0)
    ahead, square, cross = one.all(new - f, new - f), one.all(bar - f, bar - f), one.all(bar - f, mean)
    found.same(EXPANDED, ahead, square + eta**2 * one.all(mean, mean) - 2 * eta * cross, square, eta * cross)
    found.below(JENSEN, one.all(mean, mean), one.all(way, way).mean())
    here, there = one.own(bar - f, way), one.all(bar - f, way)
    first, second, third = one.own(g - bar, way), one.own(f - g, g - one.u), one.own(f - g, one.u - step.h)
    found.same(SPLIT, cross, there.mean(), there)
    sizes = (here, there, first, second, third)
    found.same(TURNED, -2 * cross, 2 * (first + second + third + there - here).mean(), *sizes)
    found.same(SPLIT_RIGHT, -2 * cross, 2 * (first + second + third + here - there).mean(), *sizes)
    found.same(GRADIENT, np.where(one.inside, g - one.u, 0.0), np.where(one.inside, g - one.y, 0.0), one.B)
    apart = one.own(g - bar, g - bar)
    young = (eta * one.own(way, way) + apart / eta).mean()
    found.below(YOUNG, 2 * first.mean(), young)
    if small:
        slope = one.L * (one.L * one.D + one.B) / gamma**2
        room = 8 * slope * one.w1 + 4 * one.B**2 / gamma**2
        found.note(EACH, one.all(way, way) / room)
        found.note(MEANT, one.all(mean, mean) / room.mean())
        found.note(PRINTED, ahead / room.mean())
        found.note(INPUTS, np.abs((there - here).mean()) / (8 * slope * one.w1.mean()))
        found.below(YOUNG, young, 4 * eta * one.B**2 / gamma**2 + apart.mean() / eta)


def from_far(one: Regression, step: Step, gamma: float, edge: bool, found: Found) -> None:
    """(53) where f⁰ is not 0; `edge` says that it is as large as Lemma F.3 allows."""
    slope = one.L * (one.L * one.D + one.B) / gamma**2
    room = (8 * slope * one.w1 + 4 * one.B**2 / gamma**2).mean()
    way, new = (step.g - step.h).mean(axis=0), step.after.mean(axis=0) - one.y
    found.note(MEANT_EDGE if edge else MEANT_FAR, one.all(way, way) / room)
    if not edge:
        found.note(PRINTED_FAR, one.all(new, new) / room)


def convexity(one: Regression, step: Step, gamma: float, K: int, found: Found) -> None:
    """The second term of (55), and the recursion; μ = 1, step sizes of at most ½."""
    f, g, eta = one.y, step.g, step.eta
    bar, new, far = g.mean(axis=0), step.after.mean(axis=0), one.own(f - g, f - g).mean()
    apart, square = one.own(g - bar, g - bar).mean(), one.all(bar - f, bar - f)
    right = eta * one.G2 / gamma**2 + (1 / 2 + 1 / eta) * apart - square / 4 - far / 2
    found.below(CONVEX, 2 * one.own(f - g, g - one.u).mean(), right)
    found.below(CONVEX_LESS, 2 * one.own(f - g, g - one.u).mean(), apart / 2 - square / 4 - far / 2)
    room = (eta * K / gamma) ** 2 * (one.radius + one.G2 + one.B**2) + eta * one.radius / gamma**2
    weak = 2 * eta * one.own(f - g, one.u - step.h).mean()
    found.below(PLUGGED, one.all(new - f, new - f), (1 - eta / 2) * square + room + weak - eta / 2 * far)


def in_round(one: Regression, steps: Sequence[Step], gamma: float, small: bool, found: Found) -> None:
    """Sums over a round."""
    f, last, zero = one.y, steps[-1], np.zeros(len(one.u))
    total = np.zeros(len(one.y))
    for step in steps:
        bar, way = step.g.mean(axis=0), (step.g - step.h).mean(axis=0)
        gone = one.own(np.tile(step.f - bar, (len(step.g), 1)), step.f - bar)
        found.same(SUM_RIGHT, gone, one.own(np.tile(total, (len(step.g), 1)), total), one.B**2)
        total = total + step.eta * way
        found.same(SUM, gone, one.own(np.tile(total, (len(step.g), 1)), total))
    left = sum((one.own(f - s.g, one.u - s.h) for s in steps), zero)
    gained = sum((s.eta * one.own(s.g - s.h, s.residual) for s in steps[:-1]), zero)
    minus = sum((one.own(f - s.g, -s.residual) for s in steps), zero)
    lines = [
        sum((one.own(f - s.g, s.before - s.residual) for s in steps), zero),
        minus + sum((one.own(f - s.g, s.before) for s in steps), zero),
        minus + sum((one.own(f - s.after, s.residual) for s in steps[:-1]), zero),
        minus + sum((one.own(f - s.g, s.residual) for s in steps[:-1]), zero) + gained,
        one.own(f - last.g, -last.residual) + gained,
    ]
    for line in lines:
        found.same(TELESCOPE, left, line, minus, gained, one.B**2)
    if small:
        weak = (1 - gamma) ** 2 * one.B**2 / gamma**2
        rest = weak + one.G2 * (1 - gamma) / gamma**2 * sum(s.eta for s in steps[:-1])
        found.below(TELESCOPE_BELOW, left, one.own(f - last.g, f - last.g) + rest)
        for step in steps:
            found.below(FREE, left, one.own(f - step.g, f - step.g) + rest)


def logarithms(t: int, K: int, T: int, total: float, found: Found) -> None:
    """Σ_(k<K) η of round t, `total`, by the difference of logarithms that is printed and by the one that is meant."""
    printed = log(K * T + K) - log(K * t) if t else inf
    found.note(LOG_PRINTED, total / printed)
    meant = log(K * t + K) - log(K * t + 1)
    found.note(LOG, total / meant)
    found.note(LOG_LEAST, total / meant)
