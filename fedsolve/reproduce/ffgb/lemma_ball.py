"""Lemma D.1 of Shen et al. (2022): whether f^t stays in its ball, by K, with errors in the worst directions.

One client and one point, where ‖·‖∞ is |·| and ḡ is g. The gradient is that of |f|, or of the logistic loss with label
0; both are convex with G = 1. The oracle is off by (1 − γ)|φ|, as much as (10) allows, in all directions in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import exp

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found

MU, T, GAMMAS, STARTS = 0.5, 3, (0.3, 0.5, 0.7, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)
D = "Lemma D.1, proof"
INDUCTION = Check(D, "f^(t+1) stays within 2G/(γμ) where f^t and all ḡ^k,t do, K = 1, 2 and 4, ‖f⁰‖ = 2G/(γμ)")
LARGER = Check(D, "… K = 2, 3 and 4, ‖f⁰‖ from 0 to 2G/(γμ)")
LOGISTIC = Check(D, "… K = 2, 3 and 4, ‖f⁰‖ from 0 to 2G/(γμ), the logistic loss alone")
WORST = Check("Lemma D.1", "… from f⁰ = 0, the oracle's errors in the worst directions, K = 1 to 4")
SHORTER = Check("Lemma D.1", "… with the step sizes of Theorem 4.3, K = 1 to 4, ‖f⁰‖ from 0 to 2G/(γμ)")
CHECKS = (INDUCTION, LARGER, LOGISTIC, WORST, SHORTER)

Gradient = Callable[[float], float]


def absolute(f: float) -> float:
    return 1.0 if f >= 0 else -1.0


def logistic(f: float) -> float:
    return 1 / (1 + exp(-f))


def path(
    gradient: Gradient, gamma: float, signs: tuple[int, ...], start: float, numerator: float
) -> Iterator[list[float]]:
    """Of every round ḡ^1 = f^t, …, ḡ^K and f^(t+1), in units of 2G/(γμ); `signs` are the errors' of a round."""
    most, K = 2 / (gamma * MU), len(signs)
    f = start * most
    for t in range(T):
        seen, delta = [f / most], 0.0
        for k, sign in enumerate(signs, start=1):
            query = delta + gradient(f)
            h = query + sign * (1 - gamma) * abs(query)
            delta = query - h
            f -= numerator / (MU * (t * K + k + 1)) * (h + MU * f)
            seen.append(f / most)
        yield seen


def measure(found: Found) -> None:
    """All checks: nothing is drawn."""
    for gradient, gamma, K, start in product((absolute, logistic), GAMMAS, (1, 2, 3, 4), STARTS):
        for signs in product((-1, 0, 1), repeat=K):
            for seen in path(gradient, gamma, signs, start, 4.0):
                sizes = [abs(one) for one in seen]
                if max(sizes[:-1]) <= 1 + 1e-12:  # what the induction supposes of round t
                    if start == 1 and K != 3:
                        found.note(INDUCTION, sizes[-1])
                    if K > 1:
                        found.note(LARGER, sizes[-1])
                        if gradient is logistic:
                            found.note(LOGISTIC, sizes[-1])
                if start == 0:
                    found.note(WORST, max(sizes))
            found.note(SHORTER, max(abs(one) for seen in path(gradient, gamma, signs, start, 2.0) for one in seen))
