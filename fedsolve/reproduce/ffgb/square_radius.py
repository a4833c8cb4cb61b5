"""The radius of Theorem 4.4 of Shen et al. (2022): what inputs that are shifted add to where FFGB ends, with weak
oracles, too.

With γ < 1 and a fixed K Algorithm 3 ends away from f* also where inputs are equal. What a shift adds is the difference
of f^T − f* at the shifted points and at the points themselves; the theorem bounds its square by L(LD + B)ω_W1/γ².
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.reproduce.ffgb.square_problems import OWN, flipped, scaled
from fedsolve.reproduce.ffgb.square_runs import Regression, algorithm3
from fedsolve.typing import Array

PLACE = "Theorem F.1"
SHIFTS = (0.3, 0.03, 0.003)
SETTINGS = "N = 2 to 20, γ = 0.3 to 1, L = 0.1 and 1, both oracles"
RADIUS = Check(PLACE, f"F: what a shift adds to f^T − f* is at most L(LD + B)ω_W1/γ², squared: {SETTINGS}")
ORDER = Check(
    PLACE, "F: … over that it does not grow with 1/ω_W1, in any of these, nor with N, 1/γ, 1/L", "exponent", 0.1
)
CHECKS = (RADIUS, ORDER)


@dataclass(frozen=True)
class Case:
    """Clients whose points are copies of the same, moved in directions of their own; labels about 1, of slope L."""

    seed: int
    constant: bool
    clients: int = 5
    gamma: float = 0.3
    slope: float = 1.0
    K: int = 16
    T: int = 32

    def posed(self, shift: float) -> Regression:
        """The problem of this shift."""
        base = np.random.default_rng([self.seed, 167]).random((OWN, 2))
        angles = 2 * np.pi * np.arange(self.clients) / self.clients
        X = np.vstack([base + shift * np.array([np.cos(angle), np.sin(angle)]) for angle in angles])
        y = 1 + self.slope * (0.6 * np.sin(X[:, 0]) + 0.8 * np.cos(X[:, 1]) - 1)
        return Regression(X, y, np.repeat(np.arange(self.clients), OWN), self.slope)

    def off(self, one: Regression) -> Array:
        """f^T − f* at the points."""
        oracle = flipped(one, self.gamma, self.K) if self.constant else scaled(self.gamma)
        (last,) = deque(algorithm3(one, oracle, 4.0, self.K, self.T), maxlen=1)
        return np.asarray(last.after.mean(axis=0) - one.y)

    def added(self) -> tuple[list[float], list[float]]:
        """What each shift adds over the bound, and ω_W1."""
        first, every = self.off(self.posed(0.0)), [self.posed(shift) for shift in SHIFTS]
        moved = [float(np.square(self.off(one) - first).mean()) for one in every]
        quotients = [self.gamma**2 * far / one.radius for far, one in zip(moved, every, strict=True)]
        return quotients, [float(one.w1.mean()) for one in every]


def measure(seed: int, found: Found) -> None:
    """Both checks."""
    for constant in (False, True):
        base, kept = Case(seed, constant), {}
        for case in settings(base):
            quotients, omegas = case.added()
            found.note(RADIUS, max(quotients))
            found.note(ORDER, power([1 / omega for omega in omegas], quotients))
            kept[case] = max(quotients)
        found.note(ORDER, power((5, 10, 20), [kept[replace(base, clients=N)] for N in (5, 10, 20)]))
        gammas = (1.0, 0.7, 0.3)
        found.note(
            ORDER, power([1 / gamma for gamma in gammas], [kept[replace(base, gamma=gamma)] for gamma in gammas])
        )
        found.note(ORDER, power((1.0, 10.0), [kept[replace(base, slope=slope)] for slope in (1.0, 0.1)]))


def settings(base: Case) -> list[Case]:
    """This case, and those that differ from it in one number."""
    others = [*(replace(base, clients=N) for N in (2, 10, 20)), *(replace(base, gamma=gamma) for gamma in (0.7, 1.0))]
    return [base, *others, replace(base, slope=0.1)]


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of y in x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
