"""Appendices D and E of Shen et al. (2022) with oracles whose errors are as large as (10) and (5) allow.

How far clients drift apart, by K, and the rate of Corollary 4.1; elsewhere both are looked at with exact oracles and
with h = γφ. Errors at random average out, so that (5) is also tested with an error that is always the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.reproduce.ffgb.proof_runs import G, Oracle, Posed, boosted, posed, square_oracle, sup_oracle
from fedsolve.typing import Array

PLACE = "Appendix D and E"
DRIFT = Check(
    PLACE,
    "the mean of ‖g_i − ḡ‖² is at most 144 and 64 η²K²G²/γ², errors as large as (10) and (5) allow, K = 5 to 200",
)
GROWS = Check(PLACE, "… and with such errors the quotient does not grow with K = 10 to 200", "exponent", 0.1)
RATE = Check(
    "Corollary 4.1",
    "E: K = √T, errors as large as (5) allows: ‖f^T − f*‖² falls at least as fast as T^(−½), T = 4 to 256",
    "exponent",
    -0.5,
)
OTHERS = "h = γφ and errors as large as {} allows: ‖f^T − f*‖² falls at least as fast as T^(−½), γ, μ and N by turns"
RATES = Check("Corollary 4.1", f"E: K = √T, {OTHERS.format('(5)')}", "exponent", -0.5)
DIRECT = Check("Section 4.2", f"D: equal inputs, K = √T, {OTHERS.format('(10)')}", "exponent", -0.5)
CHECKS = (DRIFT, GROWS, RATE, RATES, DIRECT)
GAMMA, MU, LOCAL, LENGTHS, RUNS = 0.3, 0.5, (5, 10, 50, 200), (4, 16, 64, 256), 5


def against(one: Posed, gamma: float = GAMMA) -> Oracle:
    """(5) with equality: all of the error of client i is at point i, and against the query."""
    rows = np.arange(len(one.mass))
    at = rows % one.mass.shape[1]

    def answer(query: Array) -> Array:
        h = query.copy()
        size = np.sqrt(one.own(query, query) / one.mass[rows, at])
        h[rows, at] -= np.sign(query[rows, at]) * (1 - gamma) * size
        return h

    return answer


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    general, equal = (posed(rng, 5, 12, MU, same=same) for same in (False, True))
    kinds = (
        (general, sup_oracle(general, GAMMA, rng), False),
        (equal, square_oracle(equal, GAMMA, rng), True),
        (equal, against(equal), True),
    )
    for one, oracle, short in kinds:
        ends = []
        for K in LOCAL:
            at = list(quotients(one, oracle, short, K))
            found.note(DRIFT, max(quotient for _, _, quotient in at))
            ends.append(max(quotient for t, k, quotient in at if t and k == K))
        found.note(GROWS, _power(LOCAL[1:], ends[1:]))
    for oracle, runs in ((square_oracle(equal, GAMMA, rng), RUNS), (against(equal), 1)):
        levels = [float(np.mean([level(equal, oracle, T) for _ in range(runs)])) for T in LENGTHS]
        found.note(RATE, _power(LENGTHS, levels))


def quotients(one: Posed, oracle: Oracle, short: bool, K: int, rounds: int = 4) -> Iterator[tuple[int, int, float]]:
    """t, k, and (1/N) Σ‖g_i^k − ḡ^k‖²_αi over 144η²K²G²/γ², or 64 with the step sizes of Theorem 4.3, if `short`."""
    for step in boosted(one, np.zeros(len(one.alpha)), oracle, 2.0 if short else 4.0, K, rounds):
        apart = step.g - step.g.mean(axis=0)
        bound = (64 if short else 144) * (step.eta * K * G / GAMMA) ** 2
        yield step.t, step.k, float(one.own(apart, apart).mean()) / bound


def rates(rng: np.random.Generator, found: Found) -> None:
    """The rate of Corollary 4.1 with other γ, μ and N than `measure` has, one at a time."""
    for gamma, mu, clients in (
        (0.1, 0.5, 5),
        (0.9, 0.5, 5),
        (0.3, 0.1, 5),
        (0.3, 4.0, 5),
        (0.3, 0.5, 2),
        (0.3, 0.5, 20),
    ):
        one = posed(rng, clients, 12, mu, same=True)
        lengths = LENGTHS[1:] if gamma > 0.1 else (64, 256, 1024)

        def scaled(query: Array, gamma: float = gamma) -> Array:
            return np.asarray(gamma * query)

        for check, oracle, numerator in (
            (RATES, scaled, 2.0),
            (RATES, against(one, gamma), 2.0),
            (DIRECT, scaled, 4.0),
            (DIRECT, sup_oracle(one, gamma, rng), 4.0),
        ):
            found.note(check, _power(lengths, [level(one, oracle, T, numerator) for T in lengths]))


def level(one: Posed, oracle: Oracle, T: int, numerator: float = 2.0) -> float:
    """‖f^T − f*‖² of a run with K = √T and the step sizes of Theorem 4.3, or with 4 of Theorem 4.1."""
    *_, last = boosted(one, np.zeros(len(one.alpha)), oracle, numerator, round(T**0.5), T)
    off = last.after.mean(axis=0) - one.best
    return float(one.all(off, off))


def _power(x: Sequence[int], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
