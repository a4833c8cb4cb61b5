"""Theorem 4.4 of Shen et al. (2022) as an order: ‖f^T − f*‖² over the bound, as one quantity after the other changes
(see `proof_orders`); and where it ends with a weak oracle as ω_W1 goes to 0 (Table 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.reproduce.ffgb.square_problems import CLIENTS, OWN, flipped, regression, scaled
from fedsolve.reproduce.ffgb.square_runs import Regression, algorithm3
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_4

LENGTHS, LOCAL, GAMMAS, NEAR_ONE = (256, 1024, 4096), (1, 4, 16, 64), (0.8, 0.2, 0.05), (0.5, 0.9, 0.98)
SHIFTS, SLOPES, FAR = (0.3, 0.03, 0.003), (1.0, 0.1, 0.01), (10.0, 100.0, 1000.0)
ORDER = Check(
    "Theorem F.1",
    "F: ‖f^T − f*‖² over the four terms grows with none of T, K, 1/γ, 1/(1 − γ), 1/ω_W1, 1/L and ‖f⁰‖, both oracles",
    "exponent",
    0.1,
)
WEAK = Check(
    "Table 1, row 3", "γ = 0.3, K = 4, T = 1,024: ‖f^T − f*‖² over ω_W1 does not grow with 1/ω_W1", "exponent", 0.1
)
CHECKS = (ORDER, WEAK)


@dataclass(frozen=True, eq=False)
class Case:
    """A run of Algorithm 3 from f⁰ = `far` times B/γ; the oracle is h = γφ, or φ less a constant in all steps of a
    round but the last, and φ plus it then."""

    one: Regression
    constant: bool
    gamma: float = 0.3
    K: int = 4
    T: int = 64
    far: float = 0.0

    def level(self) -> float:
        """‖f^T − f*‖²."""
        one, start = self.one, self.far * self.one.B / self.gamma
        oracle = flipped(one, self.gamma, self.K) if self.constant else scaled(self.gamma)
        new = deque(algorithm3(one, oracle, 4.0, self.K, self.T, start), maxlen=1)[0].after.mean(axis=0) - one.y
        return float(one.all(new, new))

    def quotient(self) -> float:
        """‖f^T − f*‖² over the theorem's terms with constants 1."""
        one, first = self.one, self.far * self.one.B / self.gamma - self.one.y
        setting = Setting(float(one.all(first, first)), self.K, self.T, 1.0, self.gamma, one.G2**0.5)
        terms = theorem_4_4(setting, float(one.w1.mean()), one.L, one.D, one.B)
        return self.level() / sum(terms.values())


def measure(rng: np.random.Generator, found: Found) -> None:
    """The largest exponent of both oracles, and Table 1."""
    one, base = regression(rng), rng.random((OWN, 2))
    near = [copies(base, shift) for shift in SHIFTS]
    flat = [Regression(one.X, 1 + L * (one.y - one.y.mean()), one.owner, L) for L in SLOPES]
    for constant in (False, True):
        for power in exponents(Case(one, constant), near, flat):
            found.note(ORDER, power)
    omegas = [float(each.w1.mean()) for each in near]
    levels = [Case(each, False, T=1024).level() for each in near]
    found.note(WEAK, _power([1 / omega for omega in omegas], [a / b for a, b in zip(levels, omegas, strict=True)]))


def exponents(base: Case, near: Sequence[Regression], flat: Sequence[Regression]) -> Iterator[float]:
    """By T, K, 1/γ, 1/(1 − γ), 1/ω_W1, 1/L and ‖f⁰‖; runs are long where the terms that stay are to be seen."""

    def growth(x: Sequence[float], cases: Sequence[Case]) -> float:
        return _power(x, [case.quotient() for case in cases])

    yield growth(LENGTHS, [replace(base, K=2, T=T) for T in LENGTHS])
    yield growth(LOCAL, [replace(base, K=K) for K in LOCAL])
    yield growth([1 / gamma for gamma in GAMMAS], [replace(base, gamma=gamma) for gamma in GAMMAS])
    weak = [replace(base, one=near[-1], gamma=gamma, T=1024) for gamma in NEAR_ONE]
    yield growth([1 / (1 - gamma) for gamma in NEAR_ONE], weak)
    exact = [replace(base, one=one, gamma=1.0, K=1, T=4096) for one in near]
    yield growth([1 / float(one.w1.mean()) for one in near], exact)
    yield growth([1 / one.L for one in flat], [replace(base, one=one, gamma=1.0, K=1, T=4096) for one in flat])
    yield growth(FAR, [replace(base, K=1, T=2, far=far) for far in FAR])


def copies(base: np.ndarray, shift: float) -> Regression:
    """Each client has the same points, moved by so much in a direction of its own."""
    angles = 2 * np.pi * np.arange(CLIENTS) / CLIENTS
    X = np.vstack([base + shift * np.array([np.cos(angle), np.sin(angle)]) for angle in angles])
    y = 0.6 * np.sin(X[:, 0]) + 0.8 * np.cos(X[:, 1])
    return Regression(X, y, np.repeat(np.arange(CLIENTS), OWN), 1.0)


def _power(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
