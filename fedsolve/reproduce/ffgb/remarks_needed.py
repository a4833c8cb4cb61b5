"""After Theorem 4.1 of Shen et al. (2022): what becomes of it with (5) in the place of (10); and equal inputs whose
labels differ."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found
from fedsolve.reproduce.ffgb.proof_runs import G, Oracle, Posed, boosted, posed
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_1
from fedsolve.typing import Array

PLACE = "After Theorem 4.1"
GAMMA, MU, ROUNDS = 0.3, 0.5, 2000
MASSES = (1e-3, 1e-4, 1e-5)  # of each client's rare point; small enough that (11) limits the error there
ALONE = AtLeast(
    PLACE,
    "an oracle with (5) alone, its error at a rare point of mass ε: ‖f^T − f*‖² over the four terms grows with 1/ε, "
    "exponent at least 0.5",
    most=0.5,
)
KEPT = Check(PLACE, "… with answers within 2G/γ, as (11) has them, K = 1 and 4, it does not", "exponent", 0.1)
SAME = Check("Section 4.2", "equal inputs, labels of each client's own: the largest ω_TV of the inputs", "off", 1e-12)
DIFFER = AtLeast(
    "Section 4.2", "… while the distributions of inputs and labels of some two clients are 0.1 apart", most=0.1
)
CHECKS = (ALONE, KEPT, SAME, DIFFER)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    labels = (rng.random((2, 2)) < 0.5).astype(float)
    posts = [Posed(np.array([[mass, 1 - mass], [1 - mass, mass]]), labels, MU) for mass in MASSES]

    def growth(K: int, most: float) -> float:
        levels = [level(one, spiked(one, most), K) for one in posts]
        return float(np.polyfit(-np.log(MASSES), np.log(levels), 1)[0])

    found.note(ALONE, growth(1, np.inf))
    for K in (1, 4):
        found.note(KEPT, growth(K, 2 * G / GAMMA))
    equal = posed(rng, 5, 12, MU, same=True)
    found.note(SAME, equal.omega_tv)
    joint = [(equal.mass[0] * (equal.labels[i] != equal.labels[j])).sum() for i in range(5) for j in range(i)]
    found.note(DIFFER, max(joint))


def spiked(one: Posed, most: float = np.inf) -> Oracle:
    """(5) with equality where `most` allows it: all of the error is at the client's rare point, away from the label
    that the other client has there."""
    rows, at = np.arange(len(one.mass)), one.mass.argmin(axis=1)
    sign = 2 * one.labels[1 - rows, at] - 1

    def answer(query: Array) -> Array:
        h = query.copy()
        size = np.sqrt(one.own(query, query))
        h[rows, at] += sign * (1 - GAMMA) * size / np.sqrt(one.mass[rows, at])
        return np.clip(h, -most, most)

    return answer


def level(one: Posed, oracle: Oracle, K: int) -> float:
    """‖f^T − f*‖² over the bound of Theorem 4.1, with its step sizes."""
    last = list(boosted(one, np.zeros(2), oracle, 4.0, K, ROUNDS))[-1].after.mean(axis=0)
    start, end = (float(one.all(f - one.best, f - one.best)) for f in (np.zeros(2), last))
    return end / sum(theorem_4_1(Setting(start, K, ROUNDS, MU, GAMMA, G), one.omega_tv).values())
