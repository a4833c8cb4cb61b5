"""The end of Appendix F of Shen et al. (2022) in another unit of x.

With inputs times c and L divided by c the labels, the functions f^t and L(LD + B)ω_W1 stay what they are, while L²ω_W1,
as the sum over t is printed, is divided by c. Two points show what this means. Client 1 has the input 0 with the label
0, client 2 the input d with the label Ld. The extensions are L|x| and Ld + L|x − d|. With γ = 1, K = 1, f⁰ = 0 and the
step sizes 4/(t + 2) the third one is 1, so that from the third round on f^T is the mean of the extensions: Ld at both
points, and ‖f^T − f*‖² = L²d²/2, whatever T is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from fedsolve.federation.client import Client
from fedsolve.learners.lipschitz import LipschitzLearner
from fedsolve.losses.linear_part import LinearPart
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found, Same
from fedsolve.reproduce.ffgb.square_problems import regression, scaled
from fedsolve.reproduce.ffgb.square_runs import Regression, algorithm3
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_4
from fedsolve.reproduce.ffgb.theory_runs import functions
from fedsolve.typing import Array

END, THEOREM = "Appendix F, end", "Theorem F.1"
UNITS = (1.0, 10.0, 100.0, 1000.0)
LENGTHS, FOREVER, LOCAL = (16, 256, 4096), 10**12, (1, 4)
CLOSED = Same(END, "F: two points: ‖f^T − f*‖² is L²d²/2 from the third round on, by fs.run to T = 8, and written out")
PRINTED = Check(
    END, "F: (KT + 1)‖f^T − f*‖² over the five terms, the last with L²ω, against the unit of x", "exponent", 0.1
)
RIGHT = Check(END, "F: … the last with L(LD + B)ω, against the unit of x", "exponent", 0.1)
RIGHT_LONG = Check(END, "F: … the last with L(LD + B)ω, constants 1, T = 16 to 4,096 in every unit of x")
BOUND = Check(THEOREM, "F: ‖f^T − f*‖² over the four terms, constants 1, T = 16 to 4,096 in every unit of x")
UNIT = Check(THEOREM, "F: ‖f^T − f*‖² over the four terms, against the unit of x", "exponent", 0.1)
CHECKS = (CLOSED, PRINTED, RIGHT, RIGHT_LONG, BOUND, UNIT)


@dataclass(frozen=True)
class Ends:
    """‖f^T − f*‖² over the sum over t as printed, over the same with L(LD + B)ω, and over the theorem's bound."""

    printed: float
    right: float
    bound: float


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks: two points, and the points in the plane."""
    closed(found)
    in_plane = regression(rng)
    for base, K in ((two_points(), 1), *((in_plane, K) for K in LOCAL)):
        every = [long_run(in_unit(base, c), K) for c in UNITS]
        for ends in every:
            found.note(RIGHT_LONG, max(one.right for one in ends))
            found.note(BOUND, max(one.bound for one in ends))
        note_growth([ends[-1] for ends in every], found)
    last = [two_points(c) for c in UNITS]
    note_growth([over_terms(one, 1, FOREVER, end_of_two(one)) for one in last], found)


def note_growth(by_unit: Sequence[Ends], found: Found) -> None:
    """The exponents of the three quotients in c."""
    for check, values in (
        (PRINTED, [one.printed for one in by_unit]),
        (RIGHT, [one.right for one in by_unit]),
        (UNIT, [one.bound for one in by_unit]),
    ):
        found.note(check, float(np.polyfit(np.log(UNITS), np.log(values), 1)[0]))


def two_points(c: float = 1.0) -> Regression:
    """Inputs 0 and c, labels 0 and 1, L = 1/c."""
    return Regression(np.array([[0.0], [c]]), np.array([0.0, 1.0]), np.array([0, 1]), 1 / c)


def in_unit(one: Regression, c: float) -> Regression:
    """The same labels, with inputs times c and L divided by c."""
    return Regression(c * one.X, one.y, one.owner, one.L / c)


def end_of_two(one: Regression) -> float:
    """L²d²/2, ‖f^T − f*‖² of two points from the third round on."""
    return float((one.L * one.apart[0, 1]) ** 2 / 2)


def closed(found: Found) -> None:
    """The closed form of two points, against the library's algorithm and the one written out here."""
    for c in UNITS:
        one = two_points(c)
        clients = [Client(f"c{i}", one.X[i : i + 1], one.y[i : i + 1]) for i in range(2)]
        learner = LipschitzLearner(constant=one.L)
        library = functions(LinearPart(), learner, clients, one.X, 8, K=1, mu=1.0, rule="theorem 4.4")
        written = [step.after.mean(axis=0) for step in algorithm3(one, scaled(1.0), 4.0, 1, 8)]
        for f in (*np.asarray(library)[3:], *written[2:]):
            found.same(CLOSED, level(one, f), end_of_two(one))


def long_run(one: Regression, K: int) -> list[Ends]:
    """At every T of `LENGTHS`, with an exact oracle from f⁰ = 0."""
    ends = []
    for step in algorithm3(one, scaled(1.0), 4.0, K, max(LENGTHS)):
        if step.k == K and step.t + 1 in LENGTHS:
            ends.append(over_terms(one, K, step.t + 1, level(one, step.after.mean(axis=0))))
    return ends


def over_terms(one: Regression, K: int, T: int, error: float) -> Ends:
    """γ = 1 and μ = 1, where the terms of weak oracles are 0; f⁰ = 0 and k_0 = 0."""
    start, omega = level(one, np.zeros(len(one.y))), float(one.w1.mean())
    first = start + K**2 * (one.radius + one.G2 + one.B**2) * log(K * T + 1)
    printed, right = (first + T * K * last for last in (one.L**2 * omega, one.radius))
    terms = theorem_4_4(Setting(start, K, T, 1.0, 1.0, one.G2**0.5), omega, one.L, one.D, one.B)
    left = (K * T + 1) * error
    return Ends(left / printed, left / right, error / sum(terms.values()))


def level(one: Regression, f: Array) -> float:
    """‖f − f*‖²."""
    return float(one.all(f - one.y, f - one.y))
