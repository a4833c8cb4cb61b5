"""What section II of Jadbabaie et al. (2023) says of gradient descent, with and without its assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

CONVEX = AtLeast(
    "Section II-C",
    "without strong convexity (θ⁴) Lemma 2 with κ = 10, 100 and 1,000 fails: F − F* after 20κ steps over its bound",
    "times",
    unit="of the bound",
)
STEEP = AtLeast(
    "Section II-C",
    "with an L_1 below the largest curvature (0.4 for 1) Lemma 2 fails: F − F* after 20 steps over its bound",
    "times",
    unit="of the bound",
)
LINEAR = Check(
    "Section II-C", "strongly convex, κ = 10: steps from 1e-10 to 1e-15 over steps from 1e-5 to 1e-10", "times", 1.1
)
SLOW = AtLeast(
    "Section II-C", "θ⁴, which is convex only: steps from 1e-5 to 1e-10 over steps to 1e-5", "times", 10.0, unit="times"
)
PLAIN = AtLeast(
    "Section II-C", "gradient descent: steps to 1e-8 grow like κ^0.9 or more, κ = 10² to 10⁴", "exponent", 0.9
)
FASTER = Check("Section II-C", "with momentum and with acceleration: the exponent of κ is at most 0.6", "exponent", 0.6)
PROJECTED = Check(
    "Section II-C", "projected, with errors e: ‖θ − θ*‖ ≤ (1 − 1/κ)^k (‖θ⁽⁰⁾ − θ*‖ + Σ (1 − 1/κ)^(−i) ‖e_i‖/L_1)"
)
CHECKS = (CONVEX, STEEP, LINEAR, SLOW, PLAIN, FASTER, PROJECTED)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 52])
    return named({**_without(), **_momentum(), PROJECTED: _projected(rng)})


def _without() -> dict[Check, float]:
    theta, steps = 1.0, 0
    left: list[float] = []
    places = {20 * kappa: kappa for kappa in (10, 100, 1000)}
    reached: dict[float, int] = {}
    while len(left) < 3 or len(reached) < 2:
        theta, steps = theta - theta**3 / 3, steps + 1  # L_1 = 12 where |θ| ≤ 1
        if steps in places:
            left.append(theta**4 / (1 - 1 / places[steps]) ** steps)
        for share in (1e-5, 1e-10):
            if theta**4 <= share:
                reached.setdefault(share, steps)
    H, point = np.array([0.1, 1.0]), np.ones(2)
    first = float(H @ point**2)
    for _ in range(20):
        point = point - H * point / 0.4
    steep = float(H @ point**2) / first / (1 - 0.1 / 0.4) ** 20
    strong = [_steps(10.0, share, lambda theta, _, H: theta - H * theta) for share in (1e-5, 1e-10, 1e-15)]
    slow = (reached[1e-10] - reached[1e-5]) / reached[1e-5]
    linear = (strong[2] - strong[1]) / (strong[1] - strong[0])
    return {CONVEX: min(left), STEEP: steep, LINEAR: linear, SLOW: slow}


def _steps(kappa: float, share: float, move: Callable[[Array, Array, Array], Array]) -> int:
    """Until (F − F*)/(F(0) − F*) ≤ share: curvatures from 1/κ to 1; `move` makes θ of it, of the one before and H."""
    H = np.geomspace(1 / kappa, 1, 30)
    before = theta = np.ones(30)
    for count in range(1, 10**6):
        before, theta = theta, move(theta, before, H)
        if H @ theta**2 <= share * H.sum():
            return count
    return 10**6


def _momentum() -> dict[Check, float]:
    def exponent(make: Callable[[float], Callable[[Array, Array, Array], Array]]) -> float:
        return math.log10(_steps(1e4, 1e-8, make(1e4)) / _steps(1e2, 1e-8, make(1e2))) / 2

    def heavy(kappa: float) -> Callable[[Array, Array, Array], Array]:
        root = math.sqrt(1 / kappa)
        step, keep = 4 / (1 + root) ** 2, ((1 - root) / (1 + root)) ** 2
        return lambda theta, before, H: theta - step * H * theta + keep * (theta - before)

    def nesterov(kappa: float) -> Callable[[Array, Array, Array], Array]:
        keep = (math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1)
        return lambda theta, before, H: (1 - H) * (theta + keep * (theta - before))

    plain = exponent(lambda kappa: lambda theta, before, H: theta - H * theta)
    return {PLAIN: plain, FASTER: max(exponent(heavy), exponent(nesterov))}


def _projected(rng: np.random.Generator) -> float:
    """Onto [−1, 1]^8, quadratics whose free minimum is inside or outside; random errors and such that oppose."""
    worst = 0.0
    for _ in range(50):
        kappa, size = 10 ** rng.uniform(0.5, 2), 10 ** rng.uniform(-3, 0)
        H, centre, theta = np.linspace(1 / kappa, 1, 8), rng.uniform(-2, 2, 8), rng.uniform(-1, 1, 8)
        best = np.clip(centre, -1, 1)
        bound = float(np.linalg.norm(theta - best))
        for k in range(100):
            error = size * (rng.standard_normal(8) if k % 2 else np.sign(best - theta))
            theta = np.clip(theta - H * (theta - centre) - error, -1, 1)
            bound = (1 - 1 / kappa) * bound + float(np.linalg.norm(error))
            worst = max(worst, float(np.linalg.norm(theta - best)) / bound)
    return worst
