"""Halves of sentences of Shen et al. (2022) that no rule was about: Section 4.2 and a display of Appendix E."""

from __future__ import annotations

from math import log

import numpy as np

from fedsolve.reproduce.ffgb.judging import Below, Found, Within

ROUND = "Appendix E, a round"
LOG = Below(ROUND, "E: Σ_(k<K) 1/(tK + k + 1) ≤ log(K(t + 1) − 1) − log(Kt + 1), as printed, K = 1 to 64, t = 0 to 20")
LOG_RIGHT = Below(ROUND, "E: … ≤ log(K(t + 1)) − log(Kt + 1)")
STRICT = Within(
    "Section 4.2",
    "a rare point of mass ε: ‖∇R_i‖_αi,∞ with ‖∇R_i‖_αi = 1 grows like ε to the power of",
    most=-0.5,
    give=0.01,
)
CHECKS = (LOG, LOG_RIGHT, STRICT)
MASSES = (1e-2, 1e-4, 1e-6)


def measure(found: Found) -> None:
    """All checks: nothing is drawn."""
    logarithms(found)
    sizes = [norms(mass) for mass in MASSES]
    power = np.polyfit(np.log(MASSES), np.log([largest / mean for mean, largest in sizes]), 1)[0]
    found.note(STRICT, float(power))


def logarithms(found: Found) -> None:
    """Both logarithms, but for K = 1 and t = 0, where the printed one is −∞."""
    for K, t in ((K, t) for K in (1, 2, 4, 16, 64) for t in range(21) if (K, t) != (1, 0)):
        total, printed, right = sums(K, t)
        found.below(LOG, total, printed)
        found.below(LOG_RIGHT, total, right)


def sums(K: int, t: int) -> tuple[float, float, float]:
    """Σ_(k<K) 1/(tK + k + 1), what Appendix E prints for it, and with log(K(t + 1))."""
    total = sum(1 / (t * K + k + 1) for k in range(1, K))
    return total, log(K * (t + 1) - 1) - log(K * t + 1), log(K * (t + 1)) - log(K * t + 1)


def norms(mass: float) -> tuple[float, float]:
    """‖g − y‖_αi and its largest value for the square loss at g = 0: labels 0, and ε^(−½) at a point of mass ε."""
    gradient, alpha = -np.array([0.0, mass**-0.5]), np.array([1 - mass, mass])
    return float(np.sqrt(alpha @ gradient**2)), float(np.abs(gradient).max())
