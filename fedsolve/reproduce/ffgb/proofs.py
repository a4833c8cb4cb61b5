"""Shen et al. (2022), Appendices D and E: the steps of the proofs of Theorems 4.1 and 4.3, on a few points."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import proof_equal as E
from fedsolve.reproduce.ffgb import proof_errors as errors
from fedsolve.reproduce.ffgb import proof_general as D
from fedsolve.reproduce.ffgb import proof_orders as orders
from fedsolve.reproduce.ffgb import proof_radius as radius
from fedsolve.reproduce.ffgb import proof_rounds as R
from fedsolve.reproduce.ffgb import proof_sums as sums
from fedsolve.reproduce.ffgb.judging import Below, Found, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, Step, boosted, posed, square_oracle, sup_oracle
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_1, theorem_4_3
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

CLIENTS, POINTS, T = 5, 12, 6
GAMMAS, MUS, LOCAL = (0.3, 0.7, 1.0), (0.5, 4.0), (1, 4)
LONG, SHORT = 4.0, 2.0  # numerators of the step sizes of Theorems 4.1 and 4.3

WITHOUT_ETA = Below("Appendix D, after (33)", "D: … the last term without η, as printed, K = 1, T = 20,000")
SUM_D = Below("Appendix D, sum over k", "D: the recursion summed over k, 16 for the O(·), coefficients as printed")
SUM_D_RIGHT = Below("Appendix D, sum over k", "D: … with 8/μ, 4δK/μ and 2")
SUM_E = Below("Appendix E, (41)", "E: (41) as a whole, constants 1, with log(tK + K + 1)")
ROUND_D = Below("Appendix D, a round", "D: (K(t + 1) + 1)‖f^(t+1) − f*‖² by ‖f^t − f*‖², constants 1")
ROUND_E = Below("Appendix E, a round", "E: (K(t + 1) + 1)‖f^(t+1) − f*‖² by ‖f^t − f*‖², constants 1")
WHOLE_D = Check("Theorem D.1, (35)", "D: ‖f^T − f*‖² is at most the four terms, constants 1, all T, K, γ and μ")
WHOLE_E = Check("Theorem E.1", "E: ‖f^T − f*‖² is at most the four terms, constants 1, all T, K, γ and μ")
CHECKS = (
    *(*D.AT_BEST, *D.PER_STEP, *R.ROUNDS, *R.SIZES, *R.FORMULAS, *E.CHECKS),
    *(WITHOUT_ETA, SUM_D, SUM_D_RIGHT, SUM_E, ROUND_D, ROUND_E, WHOLE_D, WHOLE_E, *sums.CHECKS, *orders.CHECKS),
    *(*errors.CHECKS, *radius.CHECKS),
)  # fmt: skip


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    rng, found = np.random.default_rng([seed, 41]), Found()
    R.step_sizes(found)
    R.formulas(found)
    for gamma, mu, K, size in product(GAMMAS, MUS, LOCAL, (0.0, 1.0)):
        start = np.full(POINTS, size * 2 * G / (gamma * mu))
        general, equal = posed(rng, CLIENTS, POINTS, mu, same=False), posed(rng, CLIENTS, POINTS, mu, same=True)
        D.at_best(general, found)
        steps = list(boosted(general, start, sup_oracle(general, gamma, rng), LONG, K, T))
        for step in steps:
            D.bounds(general, step, gamma, not size, found)
            D.split(general, step, gamma, not size, found)
            D.convexity(general, step, gamma, not size, found)
            sums.noted(general, step, False, found)
            if not size:
                D.recursion(general, step, gamma, K, found)
        _rounds(general, steps, gamma, K, found, short=False, near=not size)
        steps = list(boosted(equal, start, square_oracle(equal, gamma, rng), SHORT, K, T))
        for step in steps:
            E.expansion(equal, step, gamma, K, found)
            E.convexity(equal, step, found)
            E.sizes(equal, step, gamma, found)
            sums.noted(equal, step, True, found)
        _rounds(equal, steps, gamma, K, found, short=True, near=True)
    opposed = Posed(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[1.0, 0.0], [0.0, 1.0]]), 0.5)
    _without_eta(opposed, found)
    far = np.random.default_rng([seed, 73])
    sums.far(posed(far, CLIENTS, POINTS, 0.5, same=False), far, found)
    orders.measure(np.random.default_rng([seed, 79]), found)
    errors.measure(np.random.default_rng([seed, 109]), found)
    errors.rates(np.random.default_rng([seed, 151]), found)
    radius.measure(seed, found)
    return found.worst


def _rounds(one: Posed, steps: list[Step], gamma: float, K: int, found: Found, short: bool, near: bool) -> None:
    """Sums over each round, the recursion from round to round, and the theorem."""
    f, scale = one.best, G**2 / (one.mu * gamma) ** 2
    first = float(one.all(steps[0].f - f, steps[0].f - f))
    sums.total(one, steps, gamma, K, short, found)
    for t in range(T):
        own = steps[t * K : (t + 1) * K]
        R.in_round(one, own, gamma, K, short, found)
        if not short:
            for step in own[1:]:
                moved = sum(s.eta * (s.h + one.mu * s.g).mean(axis=0) for s in own[: step.k - 1])
                bar = step.g.mean(axis=0) - step.f
                found.same(D.MOVED, one.own(bar, bar), one.own(moved, moved), one.own(step.g, step.g))
        new = own[-1].after.mean(axis=0)
        ahead, behind = float(one.all(new - f, new - f)), float(one.all(own[0].f - f, own[0].f - f))
        grown, late = log(K * (t + 1) + 1) - log(K * t + 1), log(K * (t + 1)) - log(K * t + 1)
        right = (K * t + 1) * behind
        if short:
            right += scale * (K**2 * grown + (1 - gamma) ** 2 + (1 - gamma) * late)
        else:
            right += scale * (K**2 * grown + (1 - gamma) ** 2 + (1 - gamma) * late + K * one.omega_tv)
        if near:
            _summed(one, own, (K * t + 1) * behind, (K * (t + 1) + 1) * ahead, gamma, short, found)
            found.below(ROUND_E if short else ROUND_D, (K * (t + 1) + 1) * ahead, right)
        setting = Setting(first, K, t + 1, one.mu, gamma, G)
        terms = theorem_4_3(setting) if short else theorem_4_1(setting, one.omega_tv)
        if K * (t + 1) > 1:  # log(KT) is 0
            found.note(WHOLE_E if short else WHOLE_D, ahead / sum(terms.values()))


def _summed(one: Posed, own: list[Step], behind: float, ahead: float, gamma: float, short: bool, found: Found) -> None:
    """The recursion summed over the steps of a round, before the sums over clients are bounded."""
    f, t, K = one.best, own[0].t, len(own)
    scale, grown = (G / (one.mu * gamma)) ** 2, log(K * (t + 1) + 1) - log(K * t + 1)
    weak = sum(float(one.own(f - s.g, s.h - one.gradient(s.g)).mean()) for s in own)
    far = sum(float(one.own(f - s.g, f - s.g).mean()) for s in own)
    delta = K * G**2 * one.omega_tv / (one.mu * gamma**2)
    if short:
        found.below(SUM_E, ahead, behind + scale * K**2 * grown + 4 / one.mu * weak - far)
        return
    base = behind + 16 * scale * K**2 * grown  # η²n is 16/(μ²n)
    found.below(SUM_D, ahead, base + 4 / one.mu * weak + 2 * delta / one.mu - 2 * far)
    found.below(SUM_D_RIGHT, ahead, base + 8 / one.mu * weak + 4 * delta / one.mu - 2 * far)


def _without_eta(one: Posed, found: Found, rounds: int = 20_000) -> None:
    """The recursion of Appendix D with −μ/(2N) Σ‖f* − g_i‖², not multiplied by η: K = 1, γ = 1."""
    f, delta = one.best, 48 * G**2 * one.omega_tv / one.mu
    for step in boosted(one, np.zeros(len(f)), lambda query: query, LONG, 1, rounds):
        if step.t % 100 == 99:
            bar, new = step.g.mean(axis=0), step.after.mean(axis=0)
            right = (1 - one.mu * step.eta / 4) * one.all(bar - f, bar - f) + 480 * step.eta**2 + step.eta * delta
            right -= one.mu / 2 * one.own(f - step.g, f - step.g).mean()
            found.below(WITHOUT_ETA, one.all(new - f, new - f), right)


@experiment(
    "ffgb-proofs",
    paper=PAPER,
    place="Appendices D and E",
    title="The proofs of Theorems 4.1 and 4.3, equation by equation",
    takes="2 min",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """Identities to 1e-12, inequalities with the constants that the steps before them give."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{CLIENTS} clients, {POINTS} points, logistic loss (G = 1), μ = 0.5 and 4, K = 1 and 4, T = {T}, γ = 0.3, "
            "0.7 and 1, f⁰ = 0 and 2G/(γμ). Appendix D: unequal inputs with gaps, the oracle's errors as large as (10) "
            "allows, anything within (11) off a client's inputs. Appendix E: equal inputs, and an oracle whose error "
            "is all at one point, as large as (5) allows.",
            "Both sides of an identity or inequality are compared relative to the size of their terms; a negative "
            "number is the room that an inequality has left. A claim holds if it holds in every seed and step.",
            "Drift: two clients with gradients ±G, γ = 1, μ = 0.5; and the clients above with such errors, γ = 0.3, "
            "K = 5 to 200. K = √T: the mean over five runs.",
            "Orders: h = γφ, and errors as above; T = 256 to 4,096, K = 1 to 64, μ = 4 to 1/16, γ = 0.8 to 0.05, and "
            "0.5 to 0.98, ω_TV = 0.4 to 0.004, f⁰ = 10 to 1,000 times 2G/(γμ), one after the other; the largest "
            "exponent of the quotient.",
        ),
        quick,
    )
