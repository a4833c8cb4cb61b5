"""Shen et al. (2022), Appendix G: a few clients in each round, by all subsets and by draws."""

from __future__ import annotations

from itertools import combinations, product
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import participation_errors as errors
from fedsolve.reproduce.ffgb import participation_orders as orders
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.participation_orders import DRAWS, LENGTHS, M, share
from fedsolve.reproduce.ffgb.participation_paths import CLIENTS, GAMMA, SHORT, K, copied, copied_square
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step, boosted, posed, square_oracle
from fedsolve.reproduce.ffgb.square_problems import regression
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_1, theorem_4_3, theorem_4_4
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

POINTS, MU = 12, 0.5

UNBIASED = Same("Appendix G", "E f^(t+1) = ḡ, and E⟨f^(t+1) − ḡ, ḡ − f*⟩ = 0, over all subsets")
PYTHAGORAS = Same("Appendix G, (56)", "E‖f^(t+1) − f*‖² = E‖f^(t+1) − ḡ‖² + ‖ḡ − f*‖², over all subsets")
NOT_MEAN = AtLeast("Appendix G", "f^(t+1) is not ḡ: the root of E‖f^(t+1) − ḡ‖² is at least 1e-3 in round 1", most=1e-3)
LEMMA = Check("Lemma G.1", "E‖f^(t+1) − ḡ‖² ≤ (N − m)/(N − 1) η²K²G²/(mγ²), constant 1, m = 1 to 4")
ROUND = Below("Appendix G, a round", "((t + 1)K + 1) E‖f^(t+1) − f*‖² by ‖f^t − f*‖², constants 1")
SUM = Check("Appendix G, sum", "Σ_t η^K,t K²/μ over KT log T/(μ²T) does not grow with T, to 4,096", "exponent", 0.0)
TOTAL = Check(
    "Appendix G, sum", "((T + 1)K + 1) E‖f^(T+1) − f*‖² is at most the five terms, constants 1, 2 of 5 clients"
)
BOUNDS = tuple(
    Check(f"Theorem G.{n}", f"G.{n}: E‖f^T − f*‖² is below the bound with constants 1, T = 4 to 256, 2 of 5 clients")
    for n in (1, 2, 3)
)
EVERY = tuple(
    Check(
        f"Theorem G.{n}",
        f"G.{n}: ‖f^T − f*‖² of every one of {DRAWS:,} draws is below it, too, as printed without E",
    )
    for n in (1, 2, 3)
)
CHECKS = (UNBIASED, PYTHAGORAS, NOT_MEAN, LEMMA, ROUND, SUM, TOTAL, *BOUNDS, *EVERY, *orders.CHECKS, *errors.CHECKS)


def measured(seed: int) -> dict[str, float]:
    rng, found = np.random.default_rng([seed, 47]), Found()
    equal, general = (posed(rng, CLIENTS, POINTS, MU, same=same) for same in (True, False))
    steps = boosted(equal, np.zeros(POINTS), square_oracle(equal, GAMMA, rng), SHORT, K, 6)
    for last, m in product([step for step in steps if step.k == K], (1, 2, 3, 4)):
        _subsets(equal, last, m, found)
    lengths = 4 ** np.arange(1, 7)
    sums = [sum(2 / (t * K + K + 1) for t in range(T + 1)) * K / log(T) for T in lengths]
    found.note(SUM, float(np.polyfit(np.log(lengths), np.log(sums), 1)[0]))
    squares, T = regression(rng), LENGTHS[-1]
    orders.variance(equal, rng, found)
    posts = [[Posed(one.mass, one.labels, mu) for mu in orders.MUS] for one in (equal, general)]
    for kind in (orders, errors):
        mus = [kind.paths(a, b, squares, seed)[:2] for a, b in zip(*posts, strict=True)]
        weak = [kind.paths(equal, general, squares, seed, gamma) for gamma in orders.GAMMAS]
        more = [
            kind.paths(copied(equal, N), copied(general, N), copied_square(squares, N), seed) for N in orders.COPIES
        ]
        for n, path in enumerate(kind.paths(equal, general, squares, seed)):
            drawn, whole = path(T, M, DRAWS, K), path(T, CLIENTS, 1, K)
            shares = _bounds(n, drawn, squares, general.omega_tv)
            same = [[one[n] for one in some] for some in (weak, more)]
            varied = orders.Varied([one[n] for one in mus] if n < 2 else [], *same)
            if kind is errors:
                found.note(errors.BOUNDS[n], shares[0])
                found.note(errors.EXCESS[n], orders.falls(drawn.mean(axis=1), whole[:, 0]))
                found.note(errors.GROWTH[n], orders.grows(path, varied))
                continue
            if n == 0:
                _total(drawn.mean(axis=1), found)
            found.note(BOUNDS[n], shares[0])
            found.note(EVERY[n], shares[1])
            orders.by_length(n + 1, drawn, whole, found)
            orders.growth(n + 1, path, varied, found)
    return found.worst


def _bounds(n: int, drawn: Array, squares: Regression, omega_tv: float) -> tuple[float, float]:
    """Theorem G.(n + 1): the mean of the draws over the bound, and the largest of them, for the T with the most."""
    few, most = drawn.mean(axis=1), [0.0, 0.0]
    for T in LENGTHS:
        setting = Setting(few[0], K, T, 1.0 if n == 2 else MU, GAMMA, squares.G2**0.5 if n == 2 else G)
        terms = (
            theorem_4_3(setting),
            theorem_4_1(setting, omega_tv),
            theorem_4_4(setting, float(squares.w1.mean()), squares.L, squares.D, squares.B),
        )[n]
        bound = sum(terms.values()) + share(M) * setting.G**2 * log(T) / (T * (setting.mu * GAMMA) ** 2)
        most = [max(most[0], float(few[T]) / bound), max(most[1], float(drawn[T].max()) / bound)]
    return most[0], most[1]


def _total(few: Array, found: Found) -> None:
    """The recursion of a round, summed from t = 0 to T, as printed; `few` is E‖f^t − f*‖² with equal inputs."""
    scale = (G / (MU * GAMMA)) ** 2
    for T in (length - 1 for length in LENGTHS):
        right = few[0] + scale * (K**2 * log(K * T) + T * (1 - GAMMA) ** 2 + share(M) * K * log(T))
        right += (1 - GAMMA) * G**2 * log(T * K + K) / (MU * GAMMA**2)
        found.note(TOTAL, ((T + 1) * K + 1) * few[T + 1] / right)


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
    scale, t = G**2 / GAMMA**2, last.t
    found.note(LEMMA, apart / (share(m) * scale * (last.eta * K) ** 2))
    right = (t * K + 1) * one.all(last.f - f, last.f - f)
    right += scale / MU**2 * K**2 * (log(t * K + K + 1) - log(t * K + 1))
    right += 4 / MU * ((1 - GAMMA) ** 2 / (2 * MU) + (1 - GAMMA) * (2 - GAMMA) * log((t * K + K) / (t * K + 1))) * scale
    right += share(m) * last.eta * K**2 * scale / MU
    found.below(ROUND, ((t + 1) * K + 1) * left, right)


@experiment(
    "ffgb-participation",
    paper=PAPER,
    place="Appendix G",
    title="A few clients in each round",
    takes="60 s",
)
def participation(seeds: Seeds, quick: bool) -> Result:
    """Expectations over all subsets; Theorems G.1 to G.3 by the mean over draws."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{M} of {CLIENTS} clients, {POINTS} points, K = {K}, γ = {GAMMA:g}, μ = {MU:g} (1 for the square loss), "
            f"the mean over {DRAWS:,} draws of all rounds' subsets; h = γφ, and errors as large as (5), (10) "
            "or (14) allows, minus until the last step of a round and then plus. Bounds have all constants 1.",
            "The exponents are those of the excess over full participation, divided by log T/T, in T = 4 to 256, and "
            f"at T = {orders.ROUNDS} in m = 1 to 4, K = 8 to 32, 1/γ = 1 to 10, 1/μ = ¼ to 4 and N = 5, 10 and 20 "
            f"(copies of the clients, with the same errors), with {orders.FEWER} draws, which are the same but for N. "
            "A seed without an excess is open.",
        ),
        quick,
    )
