"""Results of others that Shen et al. (2022) compare theirs with: Li et al. (2019) on FedAvg, Lin et al. (2020)."""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np

from fedsolve.distillation.matching import Probabilities
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Same, Within, Zero

AFTER, LEMMA, FUSION = "After Theorem 4.3", "Lemma G.1", "Section 5, (17)"
LOCAL = Within(
    AFTER,
    "γ = 1, log(KT) taken as 1, over Li et al.'s bound, in T = 1e4 to 1e12, K = 5",
    most=0.0,
    give=0.02,
    words="exponent {}",
)
STEPS = Within(AFTER, "… in K = 1e2 to 1e5, T = 1e12", most=0.0, give=0.02, words="exponent {}")
LOGARITHM = Check(AFTER, "… with the printed log(KT): the quotient at T = 1e12 over that at 1e4", "times", 1.1)
START = Within(
    AFTER,
    "the terms of ‖f⁰ − f*‖² alone, printed over Li et al.'s, in K = 1e2 to 1e5, T = 1e12",
    most=0.0,
    give=0.02,
    words="exponent {}",
)
LIKE = Same(LEMMA, "with γ = 1 it is a quarter of Li et al.'s bound for their scheme II, 200 N, m, K, η and G")
IDENTITY = Same(LEMMA, "over all subsets of m of N vectors E‖mean_S − mean‖² is (N − m)/(N − 1) of their spread over m")
SHIFT = Zero(FUSION, "Lin et al.'s loss does not change when a number is added to all outputs of a row", most=1e-12)
SQUARES = AtLeast(FUSION, "… by which (17) grows by at least 1.25: five outputs and a number of ½ or more", most=1.25)
CHECKS = (LOCAL, STEPS, LOGARITHM, START, LIKE, IDENTITY, SHIFT, SQUARES)
SMOOTH, MU, G = 1.0, 0.5, 1.0  # of the losses: L, μ and the largest gradient


def theirs(K: float, T: float, start: float, spread: float = 0.1) -> float:
    """Li et al.'s Theorem 1 for ‖w − w*‖² after KT steps: v/(γ + KT), all clients, gradients without noise; their κ is
    L/μ, γ the larger of 8κ and K, step sizes 2/(μ(γ + t)), and `spread` their Γ."""
    offset = max(8 * SMOOTH / MU, K)
    noise = 6 * SMOOTH * spread + 8 * (K - 1) ** 2 * G**2
    return max(4 * noise / MU**2, (offset + 1) * start) / (offset + K * T)


def printed(K: float, T: float, start: float, *, logarithm: bool) -> float:
    """The bound that Theorem 4.3 is said to become with γ = 1."""
    return start / (K * T) + K * G**2 * (log(K * T) if logarithm else 1.0) / (T * MU**2)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    rounds, steps = 10.0 ** np.arange(4, 13, 2), 10.0 ** np.arange(2, 6)
    plain = [printed(5, T, 1.0, logarithm=False) / theirs(5, T, 1.0) for T in rounds]
    full = [printed(5, T, 1.0, logarithm=True) / theirs(5, T, 1.0) for T in rounds]
    found.note(LOCAL, float(np.polyfit(np.log(rounds), np.log(plain), 1)[0]))
    found.note(LOGARITHM, full[-1] / full[0])
    over = [printed(K, 1e12, 1.0, logarithm=False) / theirs(K, 1e12, 1.0) for K in steps]
    found.note(STEPS, float(np.polyfit(np.log(steps), np.log(over), 1)[0]))
    starts = [1 / (K * 1e12) / ((max(8 * SMOOTH / MU, K) + 1) / (max(8 * SMOOTH / MU, K) + K * 1e12)) for K in steps]
    found.note(START, float(np.polyfit(np.log(steps), np.log(starts), 1)[0]))
    _sampling(rng, found)
    _losses(rng, found)


def _sampling(rng: np.random.Generator, found: Found) -> None:
    """Lemma G.1 beside Lemma 5 of Li et al., and the identity that both rest on."""
    for _ in range(200):
        N, K = int(rng.integers(3, 100)), int(rng.integers(1, 50))
        m, eta, size = int(rng.integers(1, N)), float(rng.random()), float(rng.uniform(0.1, 5))
        ours = (N - m) / (N - 1) * eta**2 * K**2 * size**2 / (m * 1.0**2)
        found.same(LIKE, ours, (N - m) / (N - 1) * 4 / m * eta**2 * K**2 * size**2 / 4)
    for N in (4, 5, 7):
        x = rng.standard_normal((N, 6))
        spread = float(np.square(x - x.mean(axis=0)).sum(axis=1).mean())
        for m in range(1, N):
            off = [np.square(x[list(S)].mean(axis=0) - x.mean(axis=0)).sum() for S in combinations(range(N), m)]
            found.same(IDENTITY, float(np.mean(off)), (N - m) / (N - 1) * spread / m)


def _losses(rng: np.random.Generator, found: Found) -> None:
    """The divergence from a teacher's probabilities, Lin et al.'s, and squares of outputs."""
    loss = Probabilities()
    teacher, student = 2 * rng.standard_normal((2, 200, 5))
    added = student + rng.uniform(0.5, 2, (200, 1)) * np.sign((student - teacher).mean(axis=1, keepdims=True))
    targets = loss.softened(np, teacher)
    values = [loss.pointwise(np, one, targets) for one in (student, added)]
    found.note(SHIFT, np.abs(values[1] - values[0]).max() / np.abs(values[0]).max())
    squares = [np.square(one - teacher).sum(axis=1) for one in (student, added)]
    found.note(SQUARES, (squares[1] - squares[0]).min())
