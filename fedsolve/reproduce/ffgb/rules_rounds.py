"""Appendix D of Shen et al. (2022), a round, as printed: what (Kt + 1)‖f^t − f*‖² grows by, over the printed terms.

The last logarithm has μ under it, δ is G²ω_TV/(μγ²), and log(Kt + 1) stands for log(Kt), which is −∞ in the first
round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.reproduce.ffgb.proof_runs import G, Oracle, Posed, boosted, posed, sup_oracle

ROUND = "Appendix D, a round"
CLIENTS, POINTS, T = 5, 12, 6
MUS, GAMMAS, LOCAL = (4.0, 1.0, 0.5, 0.2, 0.05), (0.7, 0.3, 0.1, 0.05), (1, 2, 4, 8, 16)
SMALL = (5e-3, 5e-4, 5e-5, 5e-6)  # from where trials with larger μ had ended their approach to a limit
NEAR = Check(ROUND, "D: a round's increment over the printed terms, f⁰ = 0, two oracles", "times", 10.0)
FAR = Check(ROUND, "D: … ‖f⁰‖ = 2G/(γμ), two oracles", "times", 10.0)
ORDER = Check(
    ROUND, "D: … its largest over all else grows with none of 1/μ, 1/γ and K, each f⁰ and oracle", "exponent", 0.1
)
EARLY = Check(ROUND, "D: … nor with 1/μ from μ = 4 to 0.05", "exponent", 0.1)
CHECKS = (NEAR, FAR, ORDER, EARLY)


def terms(K: int, t: int, mu: float, gamma: float, omega: float) -> float:
    """What the display prints after (Kt + 1)‖f^t − f*‖², constants 1."""
    scale = (G / (mu * gamma)) ** 2
    grown, late = log(K * (t + 1) + 1) - log(K * t + 1), log(K * (t + 1)) - log(K * t + 1)
    delta = G**2 * omega / (mu * gamma**2)
    return scale * (K**2 * grown + (1 - gamma) ** 2) + G**2 * (1 - gamma) / (mu * gamma**2) * late + 2 * delta * K / mu


def increments(one: Posed, start: np.ndarray, oracle: Oracle, gamma: float, K: int) -> Iterator[float]:
    """(K(t + 1) + 1)‖f^(t+1) − f*‖² less (Kt + 1)‖f^t − f*‖², over the terms, of every round."""
    f = one.best
    for step in boosted(one, start, oracle, 4.0, K, T):
        if step.k == K:
            new, t = step.after.mean(axis=0) - f, step.t
            ahead, behind = float(one.all(new, new)), float(one.all(step.f - f, step.f - f))
            grown = (K * (t + 1) + 1) * ahead - (K * t + 1) * behind
            yield grown / terms(K, t, one.mu, gamma, one.omega_tv)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks, on one draw of inputs and labels."""
    drawn = posed(rng, CLIENTS, POINTS, 1.0, same=False)
    for far, errors in product((False, True), repeat=2):
        worst, small = (over_all(drawn, mus, far, errors, rng) for mus in (MUS, SMALL))
        found.note(FAR if far else NEAR, worst.max())
        by_mu = power([1 / mu for mu in SMALL], small, 0)
        by_gamma, by_local = power([1 / gamma for gamma in GAMMAS], worst, 1), power(LOCAL, worst, 2)
        found.note(ORDER, max(by_mu, by_gamma, by_local))
        found.note(EARLY, power([1 / mu for mu in MUS], worst, 0))


def over_all(drawn: Posed, mus: Sequence[float], far: bool, errors: bool, rng: np.random.Generator) -> np.ndarray:
    """The largest increment over the terms in six rounds, for every μ, γ and K."""
    worst = np.empty((len(mus), len(GAMMAS), len(LOCAL)))
    for at in np.ndindex(worst.shape):
        mu, gamma, K = mus[at[0]], GAMMAS[at[1]], LOCAL[at[2]]
        one = Posed(drawn.mass, drawn.labels, mu)
        oracle = sup_oracle(one, gamma, rng) if errors else scaled(gamma)
        with np.errstate(over="ignore"):  # e^800 in a gradient that is 1 or 0
            worst[at] = max(increments(one, np.full(POINTS, far * 2 * G / (gamma * mu)), oracle, gamma, K))
    return worst


def scaled(gamma: float) -> Oracle:
    """h = γφ."""
    return lambda query: gamma * query


def power(x: Sequence[float], worst: np.ndarray, axis: int) -> float:
    """The exponent in x of the largest over the two other axes."""
    largest = worst.max(axis=tuple(other for other in range(3) if other != axis))
    return float(np.polyfit(np.log(x), np.log(largest), 1)[0])
