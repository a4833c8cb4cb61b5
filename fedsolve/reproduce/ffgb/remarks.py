"""Shen et al. (2022), sections 2 to 4: sentences between the theorems, on a few points or by the formulas."""

from __future__ import annotations

from math import log

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import remarks_adversary as adversary
from fedsolve.reproduce.ffgb import remarks_functions as functions
from fedsolve.reproduce.ffgb import remarks_inputs as inputs
from fedsolve.reproduce.ffgb import remarks_labels as labels
from fedsolve.reproduce.ffgb import remarks_needed as needed
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same, Within, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.ffgb.remarks_functions import CLIENTS, GAMMA, MU, POINTS
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_1, theorem_4_3
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

FEDAVG = Same("After Theorem 4.3", "with γ = 1 the bound is ‖f⁰ − f*‖²/(KT) + KG² log(KT)/(Tμ²)")
BEST_K = Within(
    "After Theorem 4.3",
    "the K with the least bound grows like T^½, log(KT) taken as 1",
    most=0.5,
    give=0.02,
    words="exponent {}",
)
RATE = Within(
    "Corollary 4.1",
    "with K = √T the bound falls like T^(−½), log(KT) taken as 1",
    most=-0.5,
    give=0.02,
    words="exponent {}",
)
OMEGA = Within("Corollary 4.1", "… and with K = T^¾, which is Ω(√T), too", most=-0.5, give=0.02, words="exponent {}")
VANISH = Check(
    "After Theorem 4.1",
    "with K = √T the first three terms of Theorem 4.1 fall at least like T^(−0.4), T = 1e4 to 1e12",
    "exponent",
    -0.4,
)
EQUAL = Same("After Theorem 4.1", "with K = T the second term of Theorem 4.1 is G² log(T²)/(μγ)²")
STAYS = AtLeast(
    "After Theorem 4.1",
    "with K = T the first three terms of Theorem 4.1 do not fall, T = 1e4 to 1e12: exponent of their sum",
    most=0.0,
)
SLOWER = Check(
    "After Theorem 4.1",
    "with K = T^¾ the first three terms of Theorem 4.1 fall at least like T^(−0.15), T = 1e4 to 1e12",
    "exponent",
    -0.15,
)
CHECKS = (
    *functions.CHECKS,
    FEDAVG,
    BEST_K,
    RATE,
    OMEGA,
    VANISH,
    EQUAL,
    STAYS,
    SLOWER,
    *adversary.CHECKS,
    *inputs.CHECKS,
    *labels.CHECKS,
    *needed.CHECKS,
)


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    rng, found = np.random.default_rng([seed, 53]), Found()
    _formulas(found)
    functions.measure(rng, found)
    adversary.measure(rng, found)
    inputs.measure(rng, found)
    inputs.shares(seed, found)
    labels.measure(found)
    needed.measure(rng, found)
    return found.worst


def _formulas(found: Found) -> None:
    """Theorems 4.1 and 4.3 as functions of K, T and γ."""
    lengths = 10.0 ** np.arange(4, 13, 2)

    def power(values: list[float]) -> float:
        return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])

    grid = 10.0 ** np.linspace(0, 12, 4001)
    best = [float(grid[np.argmin([_without_log(K, T) for K in grid])]) for T in lengths]
    found.note(BEST_K, power(best))
    found.note(RATE, power([_without_log(T**0.5, T) for T in lengths]))
    found.note(OMEGA, power([_without_log(T**0.75, T) for T in lengths]))
    for growth, check in ((0.5, VANISH), (0.75, SLOWER), (1.0, STAYS)):
        every = [theorem_4_1(Setting(1.0, round(T**growth), round(T), MU, GAMMA, 1.0), 0.5) for T in lengths]
        found.note(check, power([sum(terms.values()) - terms["inputs"] for terms in every]))
    found.same(EQUAL, np.array([terms["drift"] for terms in every]), np.log(lengths**2) / (MU * GAMMA) ** 2)
    for K, T in ((1, 4), (5, 30), (40, 100)):
        terms = theorem_4_3(Setting(2.0, K, T, MU, 1.0, 1.0))
        found.same(FEDAVG, sum(terms.values()), 2.0 / (K * T) + K * log(K * T) / (T * MU**2))


def _without_log(K: float, T: float) -> float:
    """The bound of Theorem 4.3 with 1 for log(KT), for K that need not be whole."""
    left = (1 - GAMMA) / GAMMA**2
    return 1 / (K * T) + K / (T * (MU * GAMMA) ** 2) + left / (K * MU**2) + left / (K * T * MU)


@experiment(
    "ffgb-remarks",
    paper=PAPER,
    place="Sections 2 to 4",
    title="Sentences between the theorems",
    takes="30 s",
)
def remarks(seeds: Seeds, quick: bool) -> Result:
    """Definitions that are claims, what the bounds say, Theorem 4.2 for other algorithms, how the radius grows."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{CLIENTS} clients, {POINTS} points, logistic loss, μ = {MU:g}, γ = {GAMMA:g} where nothing else is said. "
            "A claim holds if it holds in every seed.",
            "Theorem 4.2: two clients with one point each, cross-entropy of two classes, μ = 0.1, 30 rounds.",
            "(5) in the place of (10): two clients, two points, of which each client has one with a mass of 1e-3 to "
            f"1e-5, all of the oracle's error there; T = {needed.ROUNDS:,}, step sizes of Theorem 4.1.",
        ),
        quick,
    )
