"""What FedAve needs to reach an accuracy, in theory (Jadbabaie et al., Theorem 3), and Proposition 1.

In each of T epochs a share τ of the m clients take b stochastic gradient steps each and send their weights:
Γ = T (b + φτm). Lemma 3, which is Theorem 1 of FedPAQ (Reisizadeh et al., 2020) without quantisation, bounds the error;
its constants are explicit here. Theorem 3 keeps their order, with a constant C that stands for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_bound
from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import at_least_zero, positive, whole
from fedsolve.typing import Array


@dataclass(frozen=True)
class FedAveBound:
    """What FedAve costs if b and T are chosen best.

    Attributes:
        steps: b, the stochastic gradients of a client in an epoch.
        epochs: T.
        total: Γ = T (b + φτm).
    """

    steps: float
    epochs: float
    total: float


@dataclass(frozen=True)
class FedAveProblem:
    """The constants of Lemma 3.

    Attributes:
        L_1: The Lipschitz constant of the gradient.
        mu: The strong convexity.
        variance: σ², of a stochastic gradient; of the order of p.
        distance: E‖θ^(T₀) − θ*‖², how far from the minimum T₀ epochs lead; of the order of p.
        m: How many clients, at least 2.
        tau: τ, the share of them that takes part in an epoch.
    """

    L_1: float
    mu: float
    variance: float
    distance: float
    m: int
    tau: float = 1.0

    def __post_init__(self) -> None:
        for name in ("L_1", "mu"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        for name in ("variance", "distance"):
            object.__setattr__(self, name, at_least_zero(name, getattr(self, name)))
        object.__setattr__(self, "m", whole("m", self.m, 2))
        object.__setattr__(self, "tau", _share(self.tau))
        if self.mu > self.L_1:
            raise ConfigError(f"L_1 is at least mu, got L_1 = {self.L_1:g} and mu = {self.mu:g}")

    @property
    def _absent(self) -> float:
        """(1 − τ)/(τ (m − 1)), the variance of who takes part."""
        return (1 - self.tau) / (self.tau * (self.m - 1))

    def first_epoch(self, b: Array | float) -> Array:
        """T₀, from which on Lemma 3 holds."""
        kappa = self.L_1 / self.mu
        least = max(kappa, 4 + 32 * kappa**2 * self._absent)
        return 4 * np.maximum(least, 4 * self.m / (self.mu**2 * np.asarray(b, dtype=float)))

    def terms(self, b: Array | float) -> tuple[Array, Array]:
        """a and c of Lemma 3's bound a/x² + c/x, x = Tb + 1. The number e is Euler's."""
        b = np.asarray(b, dtype=float)
        kappa, m, noise = self.L_1 / self.mu, self.m, self.variance
        a = 0.5 * self.L_1 * (self.first_epoch(b) * b + 1) ** 2 * self.distance
        a = a + 128 * math.e * kappa**3 * noise / self.mu * (1 + 8 * self._absent) * (b - 1)
        c = 8 * kappa * noise / (self.mu * m) * (1 + 8 * m * self._absent) * b
        return a, c + 8 * math.e * self.L_1 * kappa**2 * noise / m * (b - 1) ** 2


def fedave_error(problem: FedAveProblem, T: int, b: int) -> float:
    """A bound on E[F(θ)] − F* after T epochs of b steps (Lemma 3). Raises ConfigError before T₀."""
    T, b = whole("T", T, 1), whole("b", b, 1)
    first = float(problem.first_epoch(b))
    if first > T:
        raise ConfigError(f"Lemma 3 holds from T = {math.ceil(first)} on, got {T}")
    a, c = problem.terms(b)
    x = T * b + 1
    return float(a / x**2 + c / x)


def fedave_bound(problem: FedAveProblem, epsilon: float, *, phi: float, most_steps: int | None = None) -> FedAveBound:
    """The least Γ with which Lemma 3 promises E[F(θ)] − F* ≤ ε, over b = 1, 2, … and T.

    Args:
        problem: Its constants.
        epsilon: ε.
        phi: φ.
        most_steps: The largest b to try. Default 10 m: Theorem 3 has b = O(m).
    """
    epsilon, phi = positive("epsilon", epsilon), at_least_zero("phi", phi)
    most = 10 * problem.m if most_steps is None else whole("most_steps", most_steps, 1)
    b = np.arange(1, most + 1, dtype=float)
    a, c = problem.terms(b)
    x = (c + np.sqrt(c**2 + 4 * a * epsilon)) / (2 * epsilon)  # a/x² + c/x = ε
    T = np.ceil(np.maximum(problem.first_epoch(b), (x - 1) / b))
    total = T * (b + phi * problem.tau * problem.m)
    best = int(np.argmin(total))
    return FedAveBound(float(b[best]), float(T[best]), float(total[best]))


def fedave_optimum(m: int, p: int, epsilon: float, *, phi: float, tau: float = 1.0, C: float = 1.0) -> FedAveBound:
    """The least T (b + φτm) over real b and T with m²/(T²b²) + b/(mT) ≤ ε/(Cp) (equation 79).

    The minimum is between 3/4 and 8 times φτm (Cp/ε)^(3/4) if φ ≥ 40/(C^(1/4) τ): `fedave_order` is the upper one.

    Args:
        m: How many clients.
        p: How many parameters.
        epsilon: ε.
        phi: φ.
        tau: τ.
        C: The constant of Lemma 3's order.
    """
    relative, C_3 = _relative(m, p, epsilon, phi, tau, C)

    def total(logarithm: Array) -> tuple[Array, Array]:
        b = np.exp(logarithm)
        T = b / (2 * m * relative) + np.sqrt((b / (2 * m * relative)) ** 2 + m**2 / (relative * b**2))  # (80)
        return T, T * (b + C_3)

    # The logarithm of the total is convex in log b (a product of sums and roots of powers of b), so it has one minimum.
    # Where φτm is large, that is at √(C_2/C_1) (equation 89), otherwise below it.
    root = 0.5 * math.log(2 * m**2 * math.sqrt(relative))
    low, high = root - 20.0, root + 20.0
    for _ in range(60):
        grid = np.linspace(low, high, 41)
        place = int(np.argmin(total(grid)[1]))
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, 40)]
        if high - low < 1e-9:
            break
    T, cost = total(np.array(0.5 * (low + high)))
    return FedAveBound(math.exp(0.5 * (low + high)), float(T), float(cost))


def fedave_order(m: int, p: int, epsilon: float, *, phi: float, tau: float = 1.0, C: float = 1.0) -> float:
    """Γ₊(FedAve) = 8 φτm (Cp/ε)^(3/4), the upper bound at the end of the proof of Theorem 3 (Appendix D).

    Raises ConfigError unless φ ≥ 40/(C^(1/4) τ) (equation 88) and ε ≤ p.
    """
    relative, C_3 = _relative(m, p, epsilon, phi, tau, C)
    least = 40 / (C**0.25 * tau)
    if phi < least:
        raise ConfigError(f"Theorem 3 needs phi of at least 40/(C^(1/4) tau) = {least:g}, got {phi:g}")
    if epsilon > p:
        raise ConfigError(f"Theorem 3 needs epsilon of at most p = {p}, got {epsilon:g}")
    return 8 * C_3 * math.pow(relative, -0.75)


@dataclass(frozen=True)
class Comparison:
    """FedLRGD beside FedAve, by their bounds (Proposition 1).

    Attributes:
        fedlrgd: Γ(FedLRGD) by Theorem 2.
        fedave: Γ₊(FedAve), the bound of Theorem 3.
        exponent: 2/c₁, with c₁ = η/d − 2α − 2: Γ(FedLRGD) = O(φm (p/ε)^exponent). That of FedAve is 3/4.
    """

    fedlrgd: float
    fedave: float
    exponent: float

    @property
    def ratio(self) -> float:
        """Γ(FedLRGD)/Γ₊(FedAve)."""
        return self.fedlrgd / self.fedave

    @property
    def fedlrgd_wins_in_the_limit(self) -> bool:
        """Whether Proposition 1 says that the ratio tends to 0 as the number of clients grows: 2/c₁ < 3/4. (Where it
        says so, ε falls like a power of the number of samples, and d grows slower than its logarithm.)"""
        return self.exponent < 0.75


def compare_bounds(
    problem: SmoothProblem, epsilon: float, *, s: float, m: int, phi: float, C: float = 1.0
) -> Comparison:
    """The bounds of Theorems 2 and 3 for one problem, all clients taking part (Proposition 1).

    A bound is what a method needs at most. Neither says which of the two is cheaper on a problem at hand.

    Args:
        problem: Its constants.
        epsilon: ε.
        s: How many samples each client has.
        m: How many clients.
        phi: φ.
        C: The constant of FedAve's bound.
    """
    fedlrgd = fedlrgd_bound(problem, epsilon, s=s, m=m, phi=phi)
    fedave = fedave_order(m, problem.p, epsilon, phi=phi, C=C)
    return Comparison(fedlrgd.total, fedave, 2 * problem.d / problem.excess)


def _share(tau: float) -> float:
    tau = positive("tau", tau)
    if tau > 1:
        raise ConfigError(f"tau is a share of the clients, at most 1, got {tau:g}")
    return tau


def _relative(m: int, p: int, epsilon: float, phi: float, tau: float, C: float) -> tuple[float, float]:
    """ε/(Cp), and φτm."""
    relative = positive("epsilon", epsilon) / (positive("C", C) * whole("p", p, 1))
    return relative, positive("phi", phi) * _share(tau) * whole("m", m, 1)
