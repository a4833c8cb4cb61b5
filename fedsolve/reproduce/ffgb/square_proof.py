"""Shen et al. (2022), Appendix F: Algorithm 3, the lemmas and the proof of Theorem 4.4, on points in the plane."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import square_duality as duality
from fedsolve.reproduce.ffgb import square_forms as forms
from fedsolve.reproduce.ffgb import square_sizes as sizes
from fedsolve.reproduce.ffgb import square_split as split
from fedsolve.reproduce.ffgb.judging import Below, Found, Same, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.square_problems import CLIENTS, OWN, flipped, moved, outlying, regression, scaled, steady
from fedsolve.reproduce.ffgb.square_runs import Regression, Step, algorithm3
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_4
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

T, LOCAL, GAMMAS = 6, (1, 4), (0.3, 0.7, 1.0)
LONG, SMALL = 4.0, 1.0  # numerators of the step sizes; the second are at most ½

TIMES = Same("Appendix F, times (Kt + k + 1)", "F: the coefficients 4/μ and 1 of the multiplied recursion, as printed")
TIMES_RIGHT = Same("Appendix F, times (Kt + k + 1)", "F: … 8/μ and 2, for η = 4/(μ(Kt + k + 1))")
ROUND = Below("Appendix F, a round", "F: (K(t + 1) + 1)‖f^(t+1) − f*‖² by ‖f^t − f*‖², constants 1")
WHOLE = Check("Theorem F.1", "F: ‖f^T − f*‖² is at most the four terms, constants 1, all T, K and γ, both oracles")
CHECKS = (
    *(*sizes.PROBLEM, *sizes.CHECKS, *split.STEPS, *split.ROUNDS, *duality.CHECKS, *forms.CHECKS),
    *(TIMES, TIMES_RIGHT, ROUND, WHOLE),
)  # fmt: skip


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    rng, found = np.random.default_rng([seed, 43]), Found()
    duality.lemma(rng, found)
    forms.drift(found)
    for mu, n in product((0.5, 1.0, 4.0), (2, 7, 50)):
        eta = 4 / (mu * n)
        found.same(TIMES, np.array([n * 2 * eta, n * mu * eta / 2]), np.array([4 / mu, 1.0]))
        found.same(TIMES_RIGHT, np.array([n * 2 * eta, n * mu * eta / 2]), np.array([8 / mu, 2.0]))
    for scale in (1.0, 0.1):
        one = regression(rng, scale)
        sizes.problem(one, rng, found)
        forms.algorithms(one, found)
        for gamma, K, constant in product(GAMMAS, LOCAL, (False, True)):
            oracle = moved(one, gamma, rng) if constant else scaled(gamma)
            _small(one, list(algorithm3(one, oracle, SMALL, K, T)), gamma, K, constant, found)
            steps = list(algorithm3(one, oracle, LONG, K, T))
            for step in steps:
                sizes.slopes(one, step, gamma, False, found)
                split.split(one, step, gamma, False, found)
            _whole(one, steps, gamma, K, found)
    far = outlying(rng)
    found.note(sizes.TIGHTER_FAR, far.G2 / (far.L * far.D + far.B) ** 2)
    one, K = steady(rng), 12
    found.note(sizes.TIGHTER, one.G2 / (one.L * one.D + one.B) ** 2)
    for gamma in GAMMAS:
        for step in algorithm3(one, flipped(one, gamma, K), SMALL, K, T):
            sizes.values(one, step, gamma, True, found)
            sizes.local(one, step, gamma, True, found)
    return found.worst


def _small(one: Regression, steps: list[Step], gamma: float, K: int, constant: bool, found: Found) -> None:
    for step in steps:
        sizes.slopes(one, step, gamma, True, found)
        sizes.values(one, step, gamma, constant, found)
        sizes.local(one, step, gamma, constant, found)
        split.split(one, step, gamma, not constant, found)
        split.convexity(one, step, gamma, K, found)
    for t in range(T):
        split.in_round(one, steps[t * K : (t + 1) * K], gamma, not constant, found)


def _whole(one: Regression, steps: list[Step], gamma: float, K: int, found: Found) -> None:
    """From round to round, and the theorem, with its own step sizes."""
    first = float(one.all(one.y, one.y))
    room = one.radius + one.G2 + one.B**2
    for t in range(T):
        own = steps[t * K : (t + 1) * K]
        new = own[-1].after.mean(axis=0)
        ahead = float(one.all(new - one.y, new - one.y))
        behind = float(one.all(own[0].f - one.y, own[0].f - one.y))
        right = (K * t + 1) * behind + K**2 * room / gamma**2 * (log(K * (t + 1) + 1) - log(K * t + 1))
        right += 2 * (1 - gamma) ** 2 * one.B**2 / gamma**2 + K * one.radius / gamma**2
        right += 2 * one.G2 * (1 - gamma) / gamma**2 * (log(K * (t + 1)) - log(K * t + 1))
        found.below(ROUND, (K * (t + 1) + 1) * ahead, right)
        setting = Setting(first, K, t + 1, 1.0, gamma, one.G2**0.5)
        terms = theorem_4_4(setting, float(one.w1.mean()), one.L, one.D, one.B)
        if K * (t + 1) > 1:
            found.note(WHOLE, ahead / sum(terms.values()))


@experiment(
    "ffgb-square-proof",
    paper=PAPER,
    place="Appendix F",
    title="The proof of Theorem 4.4, equation by equation",
    takes="60 s",
)
def square_proof(seeds: Seeds, quick: bool) -> Result:
    """Algorithm 3 with two oracles that satisfy (14) and (15): γφ, and φ plus or minus a constant."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{CLIENTS} clients with {OWN} points each in the unit square, labels of slope at most L = 1 and 0.1, "
            f"μ = 1, K = 1 and 4, T = {T}, γ = 0.3, 0.7 and 1, f⁰ = 0. Where the proof needs small step sizes they are "
            "1/(tK + k + 1), elsewhere those of Theorem 4.4. Also labels that are all 1 with L = 0.1 and K = 12, where "
            "the constant is taken off φ until the last step of a round and then added.",
            "Both sides of an identity or inequality are compared relative to the size of their terms; a negative "
            "number is the room that an inequality has left. A claim holds if it holds in every seed and step.",
        ),
        quick,
    )
