"""Theorems 4.1 and 4.3 of Shen et al. (2022) as orders: ‖f^T − f*‖² over the bound, as one quantity after the other
changes.

With constants 1 a bound can be a hundred times as large as what it bounds, and hide a term that is wrong. An O(·) says
that the quotient stays bounded: it may not grow while one quantity changes by a factor of 16 or more and the others
stay. Runs are long where 1 − γ and ω_TV change, so that their terms are the largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.reproduce.ffgb.proof_runs import G, Oracle, Posed, boosted, posed, square_oracle, sup_oracle
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_1, theorem_4_3

CLIENTS, POINTS = 5, 12
LENGTHS, LOCAL = (256, 1024, 4096), (1, 4, 16, 64)
GAMMAS, NEAR_ONE, MUS, FAR = (0.8, 0.2, 0.05), (0.5, 0.9, 0.98), (4.0, 0.5, 0.0625), (10.0, 100.0, 1000.0)
SHARES = (0.5, 0.05, 0.005)  # of a client's inputs that are its own
GENERAL = Check(
    "Theorem D.1",
    "D: ‖f^T − f*‖² over the four terms grows with none of T, K, 1/μ, 1/γ, 1/(1 − γ), 1/ω_TV and ‖f⁰‖, two oracles",
    "exponent",
    0.1,
)
EQUAL = Check(
    "Theorem E.1",
    "E: ‖f^T − f*‖² over the four terms grows with none of T, K, 1/μ, 1/γ, 1/(1 − γ) and ‖f⁰‖, two oracles",
    "exponent",
    0.1,
)
CHECKS = (GENERAL, EQUAL)


@dataclass(frozen=True, eq=False)
class Case:
    """A run of Theorem 4.3, if `short`, or of Theorem 4.1; its oracle is h = γφ, or off by as much as (5) or (10)
    allows; f⁰ is `far` times 2G/(γμ) at all points."""

    one: Posed
    short: bool
    errors: bool
    gamma: float = 0.3
    K: int = 4
    T: int = 64
    far: float = 0.0

    def quotient(self, rng: np.random.Generator) -> float:
        """‖f^t − f*‖², its mean over the last quarter of the rounds, over the theorem's terms with constants 1."""
        one, f = self.one, self.one.best
        start = np.full(len(f), self.far * 2 * G / (self.gamma * one.mu))
        steps = boosted(one, start, self.oracle(rng), 2.0 if self.short else 4.0, self.K, self.T)
        ends = [step.after.mean(axis=0) - f for step in steps if step.k == self.K and 4 * (step.t + 1) > 3 * self.T]
        setting = Setting(float(one.all(start - f, start - f)), self.K, self.T, one.mu, self.gamma, G)
        terms = theorem_4_3(setting) if self.short else theorem_4_1(setting, one.omega_tv)
        return float(one.all(np.array(ends), np.array(ends)).mean()) / sum(terms.values())

    def oracle(self, rng: np.random.Generator) -> Oracle:
        if not self.errors:
            return lambda query: self.gamma * query
        return (square_oracle if self.short else sup_oracle)(self.one, self.gamma, rng)


def measure(rng: np.random.Generator, found: Found) -> None:
    """The largest exponent of each theorem."""
    general, equal = (posed(rng, CLIENTS, POINTS, 0.5, same=same) for same in (False, True))
    for errors in (False, True):
        for check, one in ((GENERAL, general), (EQUAL, equal)):
            for power in exponents(Case(one, check is EQUAL, errors), equal, rng):
                found.note(check, power)
    labels = (rng.random(8 + CLIENTS) < 0.5).astype(float)
    own = [Case(own_points(share, labels), False, False, 1.0, 1, 4096) for share in SHARES]
    found.note(GENERAL, growth([1 / case.one.omega_tv for case in own], own, rng))


def exponents(base: Case, equal: Posed, rng: np.random.Generator) -> Iterator[float]:
    """By T, K, 1/μ, 1/γ, 1/(1 − γ) and ‖f⁰‖; `equal` has the inputs without which ω_TV hides 1 − γ."""
    yield growth(LENGTHS, [replace(base, K=2, T=T) for T in LENGTHS], rng)
    yield growth(LOCAL, [replace(base, K=K) for K in LOCAL], rng)
    others = [replace(base, one=Posed(base.one.mass, base.one.labels, mu)) for mu in MUS]
    yield growth([1 / mu for mu in MUS], others, rng)
    yield growth([1 / gamma for gamma in GAMMAS], [replace(base, gamma=gamma) for gamma in GAMMAS], rng)
    weak = [replace(base, one=equal, gamma=gamma, T=1024) for gamma in NEAR_ONE]
    yield growth([1 / (1 - gamma) for gamma in NEAR_ONE], weak, rng)
    with np.errstate(over="ignore"):  # e^1000 in a gradient that is 1 or 0
        yield growth(FAR, [replace(base, K=1, T=2, far=far) for far in FAR], rng)


def growth(x: Sequence[float], cases: Sequence[Case], rng: np.random.Generator) -> float:
    """The exponent of the quotient in x."""
    return float(np.polyfit(np.log(x), np.log([case.quotient(rng) for case in cases]), 1)[0])


def own_points(share: float, labels: np.ndarray) -> Posed:
    """The first eight points are everybody's, each other one is one client's, which has this share of its inputs
    there: ‖f^T − f*‖² is proportional to ω_TV."""
    mass = np.hstack([np.full((CLIENTS, 8), (1 - share) / 8), share * np.eye(CLIENTS)])
    return Posed(mass, np.tile(labels, (CLIENTS, 1)), 0.5)
