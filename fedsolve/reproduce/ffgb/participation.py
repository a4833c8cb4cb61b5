"""Shen et al. (2022), Appendix G: a few clients in each round, by all subsets and by draws."""

from __future__ import annotations

from itertools import combinations, product
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.participation_paths import GAMMA, LONG, SHORT, K, logistic_path, square_path
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step, boosted, posed, square_oracle
from fedsolve.reproduce.ffgb.square_problems import regression
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_1, theorem_4_3, theorem_4_4
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

CLIENTS, POINTS, M, MU = 5, 12, 2, 0.5
LENGTHS, DRAWS = (4, 16, 64, 256), 200

UNBIASED = Same("Appendix G", "E f^(t+1) = ḡ, and E⟨f^(t+1) − ḡ, ḡ − f*⟩ = 0, over all subsets")
PYTHAGORAS = Same("Appendix G, (56)", "E‖f^(t+1) − f*‖² = E‖f^(t+1) − ḡ‖² + ‖ḡ − f*‖², over all subsets")
NOT_MEAN = AtLeast("Appendix G", "f^(t+1) is not ḡ: the root of E‖f^(t+1) − ḡ‖² is at least 1e-3 in round 1", most=1e-3)
LEMMA = Check("Lemma G.1", "E‖f^(t+1) − ḡ‖² ≤ (N − m)/(N − 1) η²K²G²/(mγ²), constant 1, m = 1 to 4")
ROUND = Below("Appendix G, a round", "((t + 1)K + 1) E‖f^(t+1) − f*‖² by ‖f^t − f*‖², constants 1")
SUM = Check("Appendix G, sum", "Σ_t η^K,t K²/μ over KT log T/(μ²T) does not grow with T, to 4,096", "exponent", 0.0)
BOUNDS = tuple(
    Check(f"Theorem G.{n}", f"G.{n}: E‖f^T − f*‖² is below the bound with constants 1, T = 4 to 256, 2 of 5 clients")
    for n in (1, 2, 3)
)
EXCESS = tuple(
    Check(
        f"Theorem G.{n}", f"G.{n}: what it exceeds full participation by falls at least like log T/T", "exponent", 0.1
    )
    for n in (1, 2, 3)
)
CHECKS = (UNBIASED, PYTHAGORAS, NOT_MEAN, LEMMA, ROUND, SUM, *BOUNDS, *EXCESS)


def measured(seed: int) -> dict[str, float]:
    rng, found = np.random.default_rng([seed, 47]), Found()
    equal, general = (posed(rng, CLIENTS, POINTS, MU, same=same) for same in (True, False))
    steps = boosted(equal, np.zeros(POINTS), square_oracle(equal, GAMMA, rng), SHORT, K, 6)
    for last, m in product([step for step in steps if step.k == K], (1, 2, 3, 4)):
        _subsets(equal, last, m, found)
    lengths = 4 ** np.arange(1, 7)
    sums = [sum(2 / (t * K + K + 1) for t in range(T + 1)) * K / log(T) for T in lengths]
    found.note(SUM, float(np.polyfit(np.log(lengths), np.log(sums), 1)[0]))
    squares = regression(rng)
    share, T = (CLIENTS - M) / (CLIENTS - 1) / M, LENGTHS[-1]
    paths = [
        [logistic_path(equal, SHORT, T, m, n, rng) for m, n in ((M, DRAWS), (CLIENTS, 1))],
        [logistic_path(general, LONG, T, m, n, rng) for m, n in ((M, DRAWS), (CLIENTS, 1))],
        [square_path(squares, T, m, n, rng) for m, n in ((M, DRAWS), (CLIENTS, 1))],
    ]
    for n, (few, full) in enumerate(paths):
        for T in LENGTHS:
            setting = Setting(few[0], K, T, 1.0 if n == 2 else MU, GAMMA, squares.G2**0.5 if n == 2 else G)
            omega = float(squares.w1.mean())
            terms = (
                theorem_4_3(setting),
                theorem_4_1(setting, general.omega_tv),
                theorem_4_4(setting, omega, squares.L, squares.D, squares.B),
            )[n]
            drawn = share * setting.G**2 * log(T) / (T * (setting.mu * GAMMA) ** 2)
            found.note(BOUNDS[n], few[T] / (sum(terms.values()) + drawn))
        over = [max(few[T] - full[T], 1e-300) / (log(T) / T) for T in LENGTHS]
        found.note(EXCESS[n], float(np.polyfit(np.log(LENGTHS), np.log(over), 1)[0]))
    return found.worst


def _subsets(one: Posed, last: Step, m: int, found: Found) -> None:
    """All subsets of m clients after the last step of a round."""
    means = np.array([last.after[list(some)].mean(axis=0) for some in combinations(range(CLIENTS), m)])
    bar, f = last.after.mean(axis=0), one.best
    size = np.abs(means).max()
    found.same(UNBIASED, means.mean(axis=0), bar, size)
    cross = one.all(means - bar, bar - f)
    found.same(UNBIASED, cross.mean(), 0.0, np.abs(cross).max())
    apart, near = one.all(means - bar, means - bar).mean(), one.all(bar - f, bar - f)
    left = one.all(means - f, means - f).mean()
    found.same(PYTHAGORAS, left, apart + near)
    if last.t == 0:
        found.note(NOT_MEAN, np.sqrt(apart))
    share, scale, t = (CLIENTS - m) / (CLIENTS - 1) / m, G**2 / GAMMA**2, last.t
    found.note(LEMMA, apart / (share * scale * (last.eta * K) ** 2))
    right = (t * K + 1) * one.all(last.f - f, last.f - f)
    right += scale / MU**2 * K**2 * (log(t * K + K + 1) - log(t * K + 1))
    right += 4 / MU * ((1 - GAMMA) ** 2 / (2 * MU) + (1 - GAMMA) * (2 - GAMMA) * log((t * K + K) / (t * K + 1))) * scale
    right += share * last.eta * K**2 * scale / MU
    found.below(ROUND, ((t + 1) * K + 1) * left, right)


@experiment(
    "ffgb-participation",
    paper=PAPER,
    place="Appendix G",
    title="A few clients in each round",
    takes="20 s",
)
def participation(seeds: Seeds, quick: bool) -> Result:
    """Expectations over all subsets; Theorems G.1 to G.3 by the mean over draws."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{M} of {CLIENTS} clients, {POINTS} points, K = {K}, γ = {GAMMA:g}, μ = {MU:g} (1 for the square loss), "
            f"the mean over {DRAWS} draws of all rounds' subsets; h = γφ. Bounds have all constants 1.",
            "The exponent is that of the excess over full participation, divided by log T/T, in T = 4 to 256.",
        ),
        quick,
    )
