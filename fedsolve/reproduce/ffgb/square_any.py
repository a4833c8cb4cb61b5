"""Lemmas F.3 to F.5 of Shen et al. (2022), and what rests on them, with other oracles than h = γφ.

Lemma F.2's ‖h‖ ≤ B/γ holds for h = γφ. In general (14) gives (2 − γ)B/γ, so that a bound that uses it is tested with
oracles that come near this: φ plus or minus a constant. Constants with (2 − γ)B for B follow from the corrected lemma;
that the printed orders stay is seen by γ, with so many local steps that the residual is near its own bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import ceil

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Below, Found
from fedsolve.reproduce.ffgb.square_problems import flipped, moved, regression, scaled, steady
from fedsolve.reproduce.ffgb.square_runs import Oracle, Regression, Step, algorithm3
from fedsolve.typing import Array

OTHERS = "φ plus or minus a constant"
F = "Appendix F"
FIRST = Check("Lemma F.3", f"F: ‖g_i‖ ≤ B/γ at the client's points in the first round, η ≤ ½, {OTHERS}")
LATER = Check("Lemma F.3", "F: … in later rounds, with these two oracles")
LONG = Check("Lemma F.3", "F: … with the step sizes of Theorem 4.4, with these two oracles")
TRIANGLE = Below(
    "Lemma F.3, proof",
    f"F: ‖g^(k+1)‖ ≤ (1 − η)‖g^k‖ + η‖h‖ at the client's points, η ≤ ½, h = γφ and {OTHERS}",
)
TRIANGLE_LONG = Below("Lemma F.3, proof", "F: ‖g^(k+1)‖ ≤ (1 − η)‖g^k‖ + η‖h‖ with the step sizes of Theorem 4.4")
INDUCTION = Below("Lemma F.3, (47)", f"F: ‖g^(k+1)‖ − B/γ ≤ (1 − η)(‖g^k‖ − B/γ), η ≤ ½, {OTHERS}")
INDUCTION_RIGHT = Below("Lemma F.3, (47)", f"F: ‖g^(k+1)‖ − (2 − γ)B/γ ≤ (1 − η)(‖g^k‖ − (2 − γ)B/γ), η ≤ ½, {OTHERS}")
MEAN = Check("Lemma F.4, proof", f"F: ḡ is at most B/γ at every client's points, in every round, η ≤ ½, {OTHERS}")
SQUARED = Check("Lemma F.5, (49)", f"F: ‖ḡ‖²_αs ≤ G_s²/γ², η ≤ ½, {OTHERS}")
SQUARED_RIGHT = Check("Lemma F.5, (49) and (50)", f"F: ‖ḡ‖²_αs and ‖h̄‖²_αs with (2 − γ)B for B, η ≤ ½, {OTHERS}")
GLOBAL = Check("Lemma F.5", f"F: ḡ and h̄ are G/γ-bounded, η ≤ ½, {OTHERS}")
GLOBAL_RIGHT = Check("Lemma F.5", f"F: ḡ and h̄ are G/γ-bounded with (2 − γ)B for B in G, {OTHERS}")
EACH = Check(f"{F}, after (52)", f"F: ‖g_i − h_i‖²_α with (2 − γ)B for B, η ≤ ½, {OTHERS}")
MEANT = Check(f"{F}, (53)", f"F: ‖ḡ − h̄‖²_α with (2 − γ)B for B, f⁰ = 0, B/γ and −B/γ, {OTHERS}")
PRINTED = Check(f"{F}, (53)", f"F: ‖ḡ^(k+1) − f*‖²_α, as printed, with (2 − γ)B for B, f⁰ = 0, {OTHERS}")
INPUTS = Check(f"{F}, after (55)", f"F: the last term of (55) with (2 − γ)B for B, η ≤ ½, {OTHERS}")
YOUNG = Below(f"{F}, after (55)", f"F: the first term of (55) with (2 − γ)B for B, η ≤ ½, {OTHERS}")
TELESCOPE = Below(
    f"{F}, telescoping",
    f"F: … ≤ μ‖f* − g^K‖² + (1 − γ)²B²/(γ²μ) + (3 − γ)/2 G²(1 − γ)/γ² Ση, {OTHERS}",
)
EACH_ORDER, MEANT_ORDER, INPUTS_ORDER, YOUNG_ORDER = (
    Check(place, f"F: {what} does not grow with 1/γ, {OTHERS}", "exponent", 0.1)
    for place, what in (
        (EACH.place, "‖g_i − h_i‖²_α over the printed terms"),
        (MEANT.place, "‖ḡ − h̄‖²_α over the printed terms"),
        (INPUTS.place, "the last term of (55) over the printed one"),
        (YOUNG.place, "‖g_i − h_i‖²_αi in the mean over B²/γ²"),
    )
)
DRIFT = Check(
    f"{F}, drift",
    f"F: Σ‖g_i − ḡ‖²/N over (η^K)²K²G²/γ² grows with neither K = 5 to 200 nor 1/γ, {OTHERS}",
    "exponent",
    0.1,
)
CHECKS = (
    *(FIRST, LATER, LONG, TRIANGLE, TRIANGLE_LONG, INDUCTION, INDUCTION_RIGHT, MEAN),
    *(SQUARED, SQUARED_RIGHT, GLOBAL, GLOBAL_RIGHT, EACH, EACH_ORDER, MEANT, MEANT_ORDER, PRINTED),
    *(INPUTS, INPUTS_ORDER, YOUNG, YOUNG_ORDER, DRIFT, TELESCOPE),
)
GAMMAS, LOCAL, T = (0.3, 0.7, 1.0), (4, 12), 6
WEAKER, LONGER = (0.1, 0.03, 0.01), (5, 10, 50, 200)  # γ and K where an order is looked at
MakeOracle = Callable[[Regression, float, int], Oracle]


def makers(rng: np.random.Generator) -> tuple[MakeOracle, MakeOracle]:
    """Both oracles, by problem, γ and K."""
    return lambda one, gamma, K: moved(one, gamma, rng), flipped


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks, with both oracles."""
    problems = (regression(rng), regression(rng, 0.1), steady(rng))
    for one, gamma, K in product(problems, GAMMAS, LOCAL):
        for oracle in (scaled(gamma), *(make(one, gamma, K) for make in makers(rng))):
            for step in algorithm3(one, oracle, 1.0, K, T):
                triangle(one, step, TRIANGLE, found)
            for step in algorithm3(one, oracle, 4.0, K, T):
                triangle(one, step, TRIANGLE_LONG, found)
        for make in makers(rng):
            steps = list(algorithm3(one, make(one, gamma, K), 1.0, K, T))
            for step in steps:
                at_own(one, step, gamma, found)
                in_squares(one, step, gamma, found)
                differences(one, step, gamma, found)
            for t in range(T):
                telescope(one, steps[t * K : (t + 1) * K], gamma, found)
            for step in algorithm3(one, make(one, gamma, K), np.inf, K, 1, most=0.5):
                found.note(FIRST, one.sup(step.after) / (one.B / gamma))
            for step in algorithm3(one, make(one, gamma, K), 4.0, K, T):
                found.note(LONG, one.sup(step.after) / (one.B / gamma))
            for start in (1.0, -1.0):
                for step in algorithm3(one, make(one, gamma, K), 1.0, K, T, start * one.B / gamma):
                    found.note(MEANT, _apart(one, step) / _room(one, gamma, 2 - gamma).mean())
    orders(problems, rng, found)


def triangle(one: Regression, step: Step, check: Below, found: Found) -> None:
    """The first inequality of the display before (47)."""
    right = (1 - step.eta) * one.sup(step.g) + step.eta * one.sup(step.h)
    found.below(check, one.sup(step.after), right, one.B)


def at_own(one: Regression, step: Step, gamma: float, found: Found) -> None:
    """Lemma F.3 and the proof of Lemma F.4: sizes at the client's own points."""
    most = one.B / gamma
    found.note(LATER if step.t else FIRST, one.sup(step.after) / most)
    for check, bound in ((INDUCTION, most), (INDUCTION_RIGHT, (2 - gamma) * most)):
        ahead, behind = one.sup(step.after) - bound, one.sup(step.g) - bound
        found.below(check, ahead, (1 - step.eta) * behind, one.B)
    found.note(MEAN, np.abs(step.after.mean(axis=0)).max() / most)  # every point is some client's


def in_squares(one: Regression, step: Step, gamma: float, found: Found) -> None:
    """Lemma F.5: ḡ after the step, and h̄."""
    near = 2 * one.L**2 * one.squares.mean(axis=1)
    printed, right = ((near + 2 * (times * one.B) ** 2) / gamma**2 for times in (1.0, 2 - gamma))
    for mean in (step.after.mean(axis=0), step.h.mean(axis=0)):
        sizes = one.own(np.tile(mean, (len(near), 1)), mean)
        found.note(SQUARED_RIGHT, sizes / right)
        found.note(GLOBAL, np.sqrt(sizes.mean() / printed.mean()))
        found.note(GLOBAL_RIGHT, np.sqrt(sizes.mean() / right.mean()))
    bar = step.after.mean(axis=0)
    found.note(SQUARED, one.own(np.tile(bar, (len(near), 1)), bar) / printed)


def differences(one: Regression, step: Step, gamma: float, found: Found) -> None:
    """What is said of g − h between (52) and (55)."""
    way, eta = step.g - step.h, step.eta
    bar, new = step.g.mean(axis=0), step.after.mean(axis=0) - one.y
    room = _room(one, gamma, 2 - gamma)
    found.note(EACH, one.all(way, way) / room)
    found.note(MEANT, _apart(one, step) / room.mean())
    found.note(PRINTED, one.all(new, new) / room.mean())
    found.note(INPUTS, _inputs(one, step) / _slope(one, gamma, 2 - gamma))
    apart = one.own(step.g - bar, step.g - bar).mean() / eta
    young = eta * one.own(way, way).mean() + apart
    found.below(YOUNG, 2 * one.own(step.g - bar, way).mean(), young)
    found.below(YOUNG, young, 4 * ((2 - gamma) * one.B / gamma) ** 2 * eta + apart)


def telescope(one: Regression, steps: Sequence[Step], gamma: float, found: Found) -> None:
    """The sum of a round, every client; μ = 1."""
    f, last, zero = one.y, steps[-1].g, np.zeros(len(one.u))
    left = sum((one.own(f - step.g, one.u - step.h) for step in steps), zero)
    weak = (1 - gamma) ** 2 * one.B**2 / gamma**2
    weak += (3 - gamma) / 2 * one.G2 * (1 - gamma) / gamma**2 * sum(step.eta for step in steps[:-1])
    found.below(TELESCOPE, left, one.own(f - last, f - last) + weak)


def orders(problems: Sequence[Regression], rng: np.random.Generator, found: Found) -> None:
    """The largest left side over the printed right one, by γ; and the clients' spread, by γ and by K."""
    for one, make in product(problems, makers(rng)):
        worst = [_quotients(one, make, gamma) for gamma in WEAKER]
        for place, check in enumerate((EACH_ORDER, MEANT_ORDER, INPUTS_ORDER, YOUNG_ORDER)):
            found.note(check, _power([1 / gamma for gamma in WEAKER], [each[place] for each in worst]))
        spreads = [max(spread(one, make, gamma, ceil(4 / gamma))) for gamma in WEAKER]
        found.note(DRIFT, _power([1 / gamma for gamma in WEAKER], spreads))
        found.note(DRIFT, _power(LONGER, [max(spread(one, make, 0.3, K)) for K in LONGER]))


def spread(one: Regression, make: MakeOracle, gamma: float, K: int, rounds: int = 4) -> Iterator[float]:
    """(1/N) Σ‖g_i − ḡ‖²_αi over (η^K)²K²G²/γ² at the ends of rounds, but of the first."""
    for step in algorithm3(one, make(one, gamma, K), 4.0, K, rounds):
        if step.k == K and step.t:
            apart = step.after - step.after.mean(axis=0)
            yield float(one.own(apart, apart).mean()) / ((step.eta * K / gamma) ** 2 * one.G2)


def _quotients(one: Regression, make: MakeOracle, gamma: float) -> Array:
    """The largest of a run, in the order of the checks."""
    room, slope, K, worst = _room(one, gamma, 1.0), _slope(one, gamma, 1.0), ceil(4 / gamma), np.zeros(4)
    for step in algorithm3(one, make(one, gamma, K), 1.0, K, 2):
        way = step.g - step.h
        near = one.own(way, way).mean() / (4 * (one.B / gamma) ** 2)
        now = (
            (one.all(way, way) / room).max(),
            _apart(one, step) / room.mean(),
            _inputs(one, step) / slope,
            near,
        )
        worst = np.maximum(worst, now)
    return worst


def _apart(one: Regression, step: Step) -> float:
    """‖ḡ − h̄‖²_α."""
    mean = (step.g - step.h).mean(axis=0)
    return float(one.all(mean, mean))


def _inputs(one: Regression, step: Step) -> float:
    """The size of the last term of (55)."""
    way, off = step.g - step.h, step.g.mean(axis=0) - one.y
    return float(abs((one.all(off, way) - one.own(off, way)).mean()))


def _room(one: Regression, gamma: float, times: float) -> Array:
    """8L(LD + B)/γ² W_1(α, α_i) + 4B²/γ², B so many times as large."""
    B = times * one.B
    return np.asarray((8 * one.L * (one.L * one.D + B) * one.w1 + 4 * B**2) / gamma**2)


def _slope(one: Regression, gamma: float, times: float) -> float:
    """8L(LD + B)ω/γ², B so many times as large."""
    return float(8 * one.L * (one.L * one.D + times * one.B) * one.w1.mean() / gamma**2)


def _power(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
