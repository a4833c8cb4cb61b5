"""What follows from what in Appendices D and E of Jadbabaie et al. (2023): (78), and S = O(log r)."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.complexity.fedave_theory import FedAveProblem
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_growth import LARGE, Regime
from fedsolve.reproduce.fedlrgd.proofs_rounds import CLIENTS, MU, P, ratio
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

BY_90 = Check(
    "Appendix E",
    "S = O(log r) by (90) alone, which r = 2 fulfils, too: exponent of S/log r in log n, 10⁴ to 10⁸",
    "exponent",
    0.01,
)
BY_47 = AtLeast(
    "Appendix E",
    "r of (47): log r over log(p/ε)/(2c₂), η from (c₁ + 2α + 2)d to (c₂ + 2α + 2)d, log n = 10⁴ on",
    "times",
    unit="of log(p/ε)/(2c₂)",
)
NECESSARY = AtLeast(
    "Appendix D, (78)",
    "an accuracy of ε needs (78): FedAve's mean F(θ^(T)) − F* over Lemma 3's bound, its largest",
    "times",
    unit="of the bound",
)
CHECKS = (BY_90, BY_47, NECESSARY)
C_1, C_2 = 4.0, 8.0


def measured(seed: int) -> dict[str, float]:
    return named({**_steps(), NECESSARY: _necessary(np.random.default_rng([seed, 72]))})


def _steps() -> dict[Check, float]:
    """d = log(n)^λ, ε = n^(−β), p = n^power, as in `proofs_growth`."""
    grown, low = -math.inf, math.inf
    for c, lam, beta, power in product((C_1, 6.0, C_2), (0.3, 0.6, 0.9), (0.25, 0.5), (0.0, 2.0)):
        one = Regime(c, lam, beta, power)
        places = (1e4, 1e8, LARGE[lam])
        allowed = all(math.log(2) <= one.accuracy(x) / (2 * C_1) for x in places)  # (90) with a constant for sub-poly
        first, last = (one.steps(x) / math.log(2) for x in places[:2])
        grown = max(grown, math.log(last / first) / math.log(places[1] / places[0]) if allowed else math.nan)
        low = min(low, *(one.rank(x) / (one.accuracy(x) / (2 * C_2)) for x in places))
    return {BY_90: grown, BY_47: low}


def _necessary(rng: np.random.Generator) -> float:
    """The runs of `proofs_rounds`: if the error is below the bound, it is ε before the bound is."""
    choices = product((2.0, 4.0), (1, 8))
    return max(ratio(rng, FedAveProblem(L_1, MU, float(P), 1.0, CLIENTS, 1.0), b) for L_1, b in choices)
