"""What FedLRGD needs to reach an accuracy, in theory (Jadbabaie et al., Theorem 2).

The rank of equation (47) is sufficient by worst-case estimates, and above a million for harmless problems with three
inputs: it shows how the cost grows, and is no rank to run with. `fs.FedLRGD` chooses its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from fedsolve.errors import ConfigError
from fedsolve.numerics.scalars import at_least_zero, positive, whole


@dataclass(frozen=True)
class SmoothProblem:
    """The constants of a problem in Jadbabaie et al., section II-B.

    Attributes:
        p: How many parameters.
        d: The dimension of a sample, which lies in [0, 1]^d.
        eta: η, how smooth partial derivatives of the loss are in the sample. Theorem 2 needs η > (2α + 2) d.
        L_1: The Lipschitz constant of the gradient in the parameters.
        L_2: The Hölder constant of its entries in the sample, see `low_rank`.
        mu: The strong convexity, less than L_1.
        gap: F(θ⁽⁰⁾) − F*, how far from the minimum it starts.
        B: A bound on the entries of the gradient.
        alpha: α, with which ‖(G⁽ⁱ⁾)⁻¹‖ ≤ r^α; at least 1.
    """

    p: int
    d: int
    eta: float
    L_1: float
    L_2: float
    mu: float
    gap: float
    B: float = 1.0
    alpha: float = 1.0

    def __post_init__(self) -> None:
        for one in fields(self):
            given, name = getattr(self, one.name), one.name
            if name in ("p", "d"):
                checked: float = whole(name, given, 1)
            else:
                checked = at_least_zero(name, given) if name == "gap" else positive(name, given)
            object.__setattr__(self, name, checked)
        if self.mu >= self.L_1:
            raise ConfigError(f"L_1 is larger than mu, got L_1 = {self.L_1:g} and mu = {self.mu:g}")
        if self.alpha < 1:
            raise ConfigError(f"alpha is at least 1, got {self.alpha:g}")

    @property
    def kappa(self) -> float:
        """κ = L_1/μ."""
        return self.L_1 / self.mu

    @property
    def excess(self) -> float:
        """η − (2α + 2) d, which is positive for Theorem 2."""
        return self.eta - (2 * self.alpha + 2) * self.d

    @property
    def spread(self) -> float:
        """F(θ⁽⁰⁾) − F* + 9 (B + 3)⁴ p / 2μ: the accuracy after no step, gradients being wrong by δ = 1."""
        return self.gap + 9 * (self.B + 3) ** 4 * self.p / (2 * self.mu)


def fedlrgd_complexity(r: float, s: float, S: float, m: int, phi: float) -> float:
    """Γ(FedLRGD) = r² + rs + rS + φmr (Theorem 2). All clients take part, τ = 1.

    Args:
        r: The rank, and how many samples the server has.
        s: How many samples each client has.
        S: How many gradient steps the server takes.
        m: How many clients.
        phi: φ, the cost of sending a vector, in gradients.
    """
    r, s, S = positive("r", r), positive("s", s), at_least_zero("S", S)
    return r * r + r * s + r * S + at_least_zero("phi", phi) * whole("m", m, 1) * r


def fedlrgd_steps(problem: SmoothProblem, epsilon: float) -> int:
    """S, after how many inexact gradient steps F(θ) − F* ≤ ε (equation 48)."""
    epsilon = _accuracy(problem, epsilon)
    return math.ceil(math.log(problem.spread / epsilon) / -math.log1p(-1 / problem.kappa))


def fedlrgd_rank(problem: SmoothProblem, epsilon: float) -> float:
    """r, with which gradients are accurate enough for that (equation 47). Infinite where it is above 1e308.

    In (47) the exponent 1/(η − (2α + 2) d) belongs to the second entry of the maximum only, as at the end of the proof:
    the first is a condition on r itself, that of Theorem 1.
    """
    epsilon = _accuracy(problem, epsilon)
    eta, d, kappa = problem.eta, problem.d, problem.kappa
    if problem.excess <= 0:
        least = (2 * problem.alpha + 2) * d
        raise ConfigError(f"Theorem 2 needs eta > (2 alpha + 2) d = {least:g}, got {eta:g}")
    first = 1 + 0.5 * math.log(d) + d * math.log(2 * (eta + d))
    second = d * math.log(problem.L_2 * eta) + eta * (d + 1) + 0.5 * eta * math.log(d)
    second += eta * d * math.log((2 * eta + 2 * d) / (eta - 1))
    second += 0.5 * d * math.log(kappa * problem.spread / ((kappa - 1) * epsilon))
    logarithm = max(first, second / problem.excess)
    return float(math.ceil(math.exp(logarithm))) if logarithm < 709 else math.inf


@dataclass(frozen=True)
class FedLRGDBound:
    """What Theorem 2 says FedLRGD costs.

    Attributes:
        rank: r, equation (47).
        steps: S, equation (48).
        total: Γ.
    """

    rank: float
    steps: int
    total: float


def fedlrgd_bound(problem: SmoothProblem, epsilon: float, *, s: float, m: int, phi: float) -> FedLRGDBound:
    """The oracle complexity with which FedLRGD reaches F(θ) − F* ≤ ε for certain (Theorem 2).

    Args:
        problem: Its constants.
        epsilon: ε, at most 9 (B + 3)⁴ p / 8μ.
        s: How many samples each client has.
        m: How many clients.
        phi: φ.
    """
    r, S = fedlrgd_rank(problem, epsilon), fedlrgd_steps(problem, epsilon)
    if math.isinf(r):
        fedlrgd_complexity(1, s, S, m, phi)  # its checks
        return FedLRGDBound(r, S, math.inf)
    return FedLRGDBound(r, S, fedlrgd_complexity(r, s, S, m, phi))


def _accuracy(problem: SmoothProblem, epsilon: float) -> float:
    epsilon = positive("epsilon", epsilon)
    most = 9 * (problem.B + 3) ** 4 * problem.p / (8 * problem.mu)
    if epsilon > most:
        raise ConfigError(f"Theorem 2 needs epsilon of at most 9 (B + 3)^4 p / 8 mu = {most:g}, got {epsilon:g}")
    return epsilon
