"""The radius of Theorem 4.1 of Shen et al. (2022): what unequal inputs add to where FFGB ends, as ω_TV goes to 0.

With a weak oracle and a fixed K FFGB ends away from f* also where inputs are equal. What ω_TV adds is (‖f^T − f*‖ less
that with equal inputs and the same errors)², which the theorem bounds by G²ω_TV/(μγ)².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found
from fedsolve.reproduce.ffgb.proof_runs import Posed, boosted, sup_oracle
from fedsolve.typing import Array

PLACE = "Theorem D.1"
SHARES, NONE = (0.3, 0.03, 0.003), 1e-9  # of a client's inputs that are its own; equal inputs
SETTINGS = "N = 2 to 80, μ = 0.1 to 4, γ = 0.3 to 1, two oracles, two families of inputs"
RADIUS = Check(PLACE, f"D: what ω_TV adds to ‖f^T − f*‖ is at most Gω_TV^½/(μγ), squared: {SETTINGS}")
ORDER = Check(PLACE, "D: … over that it grows with none of 1/ω_TV, in any of these, 1/μ, 1/γ and N", "exponent", 0.1)
RISES = AtLeast(
    PLACE,
    "D: ‖f^T − f*‖² over that of a tenth of the share: own points, exact oracle, N = 2 to 20, μ = 0.1 to 4",
    most=1.0,
)
CHECKS = (RADIUS, ORDER, RISES)


@dataclass(frozen=True)
class Case:
    """A family of problems by the share of inputs that is a client's own: points that nobody else has (`points`), or
    all points in proportions of its own; and an oracle, h = γφ or one that is off by as much as (10) allows."""

    seed: int
    points: bool
    errors: bool
    clients: int = 5
    mu: float = 0.5
    gamma: float = 0.3
    K: int = 16
    T: int = 32

    def posed(self, share: float) -> Posed:
        rng, N = np.random.default_rng([self.seed, 139]), self.clients
        own = np.hstack([np.zeros((N, 8)), np.eye(N)]) if self.points else rng.dirichlet(np.full(12, 0.5), N)
        common = np.where(own.any(axis=0) & self.points, 0.0, 1.0)
        labels = (rng.random((1 if self.points else N, own.shape[1])) < 0.5).astype(float)
        return Posed(
            (1 - share) * common / common.sum() + share * own, np.broadcast_to(labels, own.shape).copy(), self.mu
        )

    def distance(self, share: float) -> tuple[float, float]:
        """‖f^T − f*‖ and ω_TV."""
        one = self.posed(share)
        noisy = sup_oracle(one, self.gamma, np.random.default_rng([self.seed, 149]))

        def scaled(query: Array) -> Array:
            return np.asarray(self.gamma * query)

        *_, last = boosted(one, np.zeros(len(one.alpha)), noisy if self.errors else scaled, 4.0, self.K, self.T)
        off = last.after.mean(axis=0) - one.best
        return float(one.all(off, off)) ** 0.5, one.omega_tv

    def added(self) -> tuple[list[float], list[float]]:
        """What each share adds over the bound, and ω_TV."""
        first = self.distance(NONE)[0]
        every = [self.distance(share) for share in SHARES]
        quotients = [max(far - first, 0.0) ** 2 * (self.mu * self.gamma) ** 2 / omega for far, omega in every]
        return quotients, [omega for _, omega in every]


def measure(seed: int, found: Found) -> None:
    """All checks."""
    for points in (True, False):
        for errors in (False, True):
            base = Case(seed, points, errors)
            kept: dict[Case, float] = {}
            for case in settings(base):
                quotients, omegas = case.added()
                found.note(RADIUS, max(quotients))
                if min(quotients) > 0:
                    found.note(ORDER, power([1 / omega for omega in omegas], quotients))
                kept[case] = max(quotients)
            mus, gammas, many = (4.0, 0.5, 0.1), (1.0, 0.7, 0.3), (20, 80)
            found.note(ORDER, power([1 / mu for mu in mus], [kept[replace(base, mu=mu)] for mu in mus]))
            weak = [kept[replace(base, gamma=gamma)] for gamma in gammas]
            found.note(ORDER, power([1 / gamma for gamma in gammas], weak))
            if points:  # where every N has the same inputs and labels
                found.note(ORDER, power(many, [kept[replace(base, clients=N)] for N in many]))
    for case in settings(Case(seed, True, False, gamma=1.0)):
        levels = [case.distance(share)[0] ** 2 for share in SHARES[::-1]]
        found.note(RISES, min(b / a for a, b in pairwise(levels)))


def settings(base: Case) -> list[Case]:
    """This case, and those that differ from it in one number."""
    others = [replace(base, clients=N) for N in (2, 20, 80)[: 3 if base.points else 2]] + [
        replace(base, mu=mu) for mu in (4.0, 0.1)
    ]
    return list(dict.fromkeys([base, *others, *(replace(base, gamma=gamma) for gamma in (0.3, 0.7, 1.0))]))


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of y in x."""
    return float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-300)), 1)[0])
