"""Section 4.3 of Shen et al. (2022): “the extension to R^c is analogous”. Algorithm 3 with labels in R^c.

Clients have shifted copies of the same rows, as in `theory_problems`. The subgradient is g − u_i with either of two
extensions: (13) for each output, which is √c L-Lipschitz, or values that are jointly L-Lipschitz, as Kirszbraun's
theorem promises them; of those that are left at a point, the farthest in a random direction, as (13) is the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.linalg import norm

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.reproduce.ffgb.theory_bounds import Setting, theorem_4_4
from fedsolve.typing import Array

S = "Section 4.3"
CLIENTS, ROWS, L = 4, 12, 1.0
SHIFTS = (0.001, 0.01, 0.1, 1.0)
OUTPUTS = (2, 5)  # c
JOINT = Check(S, "two outputs: the largest slope of Kirszbraun's extensions, between all points, over L", most=1.0001)
RISES = AtLeast(S, "outputs in R², R^5, γ = 1: ‖f^T − f*‖² over that at the shift before, both extensions", most=1.0)
RADIUS = Check(S, "… ‖f^T − f*‖² is at most L(LD + B)ω_W1, γ = 1; (13) for each output: √c L for L")
ORDER = Check(
    S,
    "… ‖f^T − f*‖² over that radius does not grow with 1/ω_W1, nor the largest of all shifts with c = 1, 2, 5, 20",
    "exponent",
    0.1,
)
WEAK = Check(S, "… ‖f^T − f*‖² is at most the four terms, constants 1, γ = 0.3 and 0.7, both oracles")
CHECKS = (JOINT, RISES, RADIUS, ORDER, WEAK)

Oracle = Callable[[Array, int], Array]  # of φ and of the step, counted from the end of the round


@dataclass(frozen=True, eq=False)
class Outputs:
    """Clients with inputs X in the plane and labels y in R^c, jointly L-Lipschitz; `inputs` knows their distances."""

    inputs: Regression
    y: Array

    @cached_property
    def coordinates(self) -> Array:
        """(13) for each output: (clients, points, c)."""
        apart = self.inputs.apart
        return np.array(
            [(self.y[own][None] + L * apart[:, own, None]).min(axis=1) for own in self.inputs.inside],
        )

    @cached_property
    def B(self) -> float:
        return float(norm(self.y, axis=1).max())

    def level(self, f: Array) -> float:
        """‖f − f*‖²_α."""
        return float(self.inputs.alpha @ np.square(f - self.y).sum(axis=1))

    def radius(self, slope: float) -> float:
        """L(LD + B)ω_W1 with this slope for L."""
        return float(slope * (slope * self.inputs.D + self.B) * self.inputs.w1.mean())

    def terms(self, slope: float, gamma: float, K: int, T: int) -> float:
        """The four terms of Theorem 4.4 from f⁰ = 0, with this slope for L."""
        one = self.inputs
        G = float(np.sqrt(2 * slope**2 * one.squares.mean() + 2 * self.B**2))
        setting = Setting(self.level(np.zeros(self.y.shape)), K, T, 1.0, gamma, G)
        return sum(theorem_4_4(setting, float(one.w1.mean()), slope, one.D, self.B).values())


def posed(base: Array, shift: float, towards: Array, turn: Array) -> Outputs:
    """The i-th copy of the rows is moved by i · shift; labels (sin x, cos z), of slope at most 1, turned."""
    X = np.vstack([base + i * shift * towards for i in range(CLIENTS)])
    y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])]) @ turn
    return Outputs(Regression(X, y[:, 0], np.repeat(np.arange(CLIENTS), len(base)), L), y)


def turned(rng: np.random.Generator, c: int) -> Array:
    """Orthonormal rows in R^c: two, or one for c = 1, which is what (0.6, 0.8) does to the two functions."""
    return np.array([[0.6], [0.8]]) if c == 1 else np.linalg.qr(rng.standard_normal((c, 2)))[0].T


def kirszbraun(one: Outputs, a: Array) -> Array:
    """For labels in the plane: (clients, points, 2), jointly L-Lipschitz. Point by point, the value farthest along a
    that all values so far allow: the top of one of their discs, or where two of the circles meet."""
    apart, found = one.inputs.apart, np.zeros((CLIENTS, *one.y.shape))
    for u, own in zip(found, one.inputs.inside, strict=True):
        u[own], known = one.y[own], own.nonzero()[0].tolist()
        for place in (~own).nonzero()[0]:
            u[place] = farthest(u[known], L * apart[place, known], a)
            known.append(place)
    return found


def farthest(centres: Array, radii: Array, a: Array) -> Array:
    """The point of all discs that is farthest along a; where rounding leaves none, the one that is least outside."""
    i, j = np.triu_indices(len(radii), 1)
    towards, r, s = centres[j] - centres[i], radii[i], radii[j]
    d = np.maximum(norm(towards, axis=1), 1e-12)
    along = (d**2 + r**2 - s**2) / (2 * d)
    half = np.sqrt(np.maximum(r**2 - along**2, 0))
    towards = towards / d[:, None]
    across = np.column_stack([-towards[:, 1], towards[:, 0]])
    middle = centres[i] + along[:, None] * towards
    every = np.vstack(
        [centres + radii[:, None] * a, middle + half[:, None] * across, middle - half[:, None] * across],
    )
    out = (norm(every[:, None] - centres[None], axis=2) / radii).max(axis=1) - 1
    good = out <= max(1e-7, float(out.min()))
    return np.asarray(every[good][np.argmax(every[good] @ a)])


def algorithm3(u: Array, oracle: Oracle, K: int, T: int) -> Array:
    """f^T from f⁰ = 0, with the step sizes of Theorem 4.4 (μ = 1) and h = −Q(Δ − u)."""
    f = np.zeros(u.shape[1:])
    for t in range(T):
        g, residual = np.tile(f, (len(u), 1, 1)), np.zeros(u.shape)
        for k in range(1, K + 1):
            h = oracle(u - residual, K - k)
            residual = residual - u + h
            g = g - 4 / (t * K + k + 1) * (g - h)
        f = g.mean(axis=0)
    return f


def scaled(gamma: float) -> Oracle:
    """γφ."""
    return lambda phi, left: gamma * phi


def moved(one: Outputs, gamma: float, a: Array) -> Oracle:
    """φ less a constant along a, as large as (14) allows, until the last step of a round, and φ plus it then."""

    def answer(phi: Array, left: int) -> Array:
        inside = one.inputs.inside
        size = np.array([norm(each[own], axis=1).max() for each, own in zip(phi, inside, strict=True)])
        return np.asarray(phi + (-1 if left else 1) * (1 - gamma) * size[:, None, None] * a)

    return answer


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    base, angle = rng.random((ROWS, 2)), rng.uniform(0, 2 * np.pi)
    towards = np.array([np.cos(angle), np.sin(angle)])
    turns = {c: turned(rng, c) for c in (1, *OUTPUTS, 20)}
    direction = {c: turn[0] / norm(turn[0]) for c, turn in turns.items()}
    quotients: dict[tuple[int, bool], list[float]] = {}
    omegas = []
    for c, turn in turns.items():
        before = {False: 0.0, True: 0.0}
        for shift in SHIFTS:
            one = posed(base, shift, towards, turn)
            omegas.append(float(one.inputs.w1.mean()))
            for joint in (False, True)[: 1 + (c == 2)]:
                u, slope = (kirszbraun(one, direction[c]), L) if joint else (one.coordinates, np.sqrt(c) * L)
                level = one.level(algorithm3(u, scaled(1.0), 2, 8))
                quotients.setdefault((c, joint), []).append(level / one.radius(slope))
                if c in OUTPUTS:
                    found.note(RISES, level / before[joint] if before[joint] else np.inf)
                    found.note(RADIUS, quotients[c, joint][-1])
                    _weak(one, u, slope, direction[c], found)
                before[joint] = level
                if joint:
                    found.note(JOINT, steepest(one, u) / L)
    for quotient in quotients.values():
        found.note(ORDER, _power([1 / omega for omega in omegas[: len(SHIFTS)]], quotient))
    found.note(ORDER, _power(list(turns), [max(quotients[c, False]) for c in turns]))


def _weak(one: Outputs, u: Array, slope: float, a: Array, found: Found) -> None:
    K, T = 4, 32
    for gamma, constant in product((0.3, 0.7), (False, True)):
        oracle = moved(one, gamma, a) if constant else scaled(gamma)
        found.note(WEAK, one.level(algorithm3(u, oracle, K, T)) / one.terms(slope, gamma, K, T))


def steepest(one: Outputs, u: Array) -> float:
    """The largest slope of any client's extension between two points."""
    apart = np.where(one.inputs.apart > 0, one.inputs.apart, np.inf)
    return max(float((norm(each[:, None] - each[None], axis=2) / apart).max()) for each in u)


def _power(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
