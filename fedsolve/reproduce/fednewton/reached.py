"""FedNewton, the steps between (10) and (31) that compare operators: whether they hold, and whether they are reached.

Four operators C, C_j, C_D and C_Dj are drawn at random, numbers or 2 × 2 matrices with eigenvalues from 1e-6 to 1, and
λ as well. No samples are drawn: the steps are to hold for any four.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result
from fedsolve.typing import Array

DRAWS, DECADES = 4000, 6
REACHED = 0.9  # of the bound: one that is reached to this share somewhere has the right constants
SLACK = 1 + 1e-6
VAST = 1e12  # of a right side that is 0, but for rounding


def norms(A: Array) -> Array:
    """Of each operator of a stack."""
    return np.asarray(np.linalg.norm(A, ord=2, axis=(-2, -1)))


def power(A: Array, exponent: float) -> Array:
    """A positive operator to some power, for each of a stack."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * values[..., None, :] ** exponent) @ vectors.swapaxes(-1, -2))


def operators(rng: np.random.Generator, size: int) -> Array:
    """A stack of positive operators in any directions; one in three is 1e-6 I, next to nothing."""
    values = 10 ** rng.uniform(-DECADES, 0, (DRAWS, size))
    values[rng.random(DRAWS) < 1 / 3] = 10.0**-DECADES
    turned = np.linalg.qr(rng.standard_normal((DRAWS, size, size)))[0]
    return np.asarray((turned * values[:, None, :]) @ turned.swapaxes(-1, -2))


@dataclass(frozen=True, eq=False)
class Four:
    """Stacks of C, C_j, C_D and C_Dj, each with λI added, and λ."""

    C: Array
    C_j: Array
    C_D: Array
    C_Dj: Array
    l2: Array

    @staticmethod
    def draw(rng: np.random.Generator, size: int) -> Four:
        l2 = 10 ** rng.uniform(-DECADES, 0, DRAWS)
        some = [operators(rng, size) for _ in range(4)]
        same = rng.random(DRAWS) < 1 / 3
        some[1][same] = some[0][same]  # clients alike
        same = rng.random(DRAWS) < 1 / 3
        some[3][same] = some[1][same]  # samples as their distribution
        whole = [one + l2[:, None, None] * np.eye(size) for one in some]
        return Four(whole[0], whole[1], whole[2], whole[3], l2)

    @property
    def shift(self) -> Array:
        """Δ_Dj/λ."""
        return norms(self.C - self.C_j) / self.l2

    @staticmethod
    def R(expected: Array, seen: Array) -> Array:
        return norms(np.linalg.solve(expected, expected - seen))

    @staticmethod
    def P(expected: Array, seen: Array) -> Array:
        return norms(np.linalg.solve(seen, expected))


@dataclass(frozen=True)
class Step:
    """left ≤ right. `without` has right sides that lack a term or a factor, by its name: each is to fail."""

    name: str
    left: Callable[[Four], Array]
    right: Callable[[Four], Array]
    without: dict[str, Callable[[Four], Array]]


def _sides(A: Array, B: Array, C: Array) -> Array:
    return norms(power(A, 0.5) @ B @ power(C, -0.5))


STEPS = (
    Step(
        "Lemma 1, left",
        lambda one: norms(power(one.C, -0.5) @ (one.C - one.C_D) @ power(one.C, -0.5)),
        lambda one: one.R(one.C, one.C_D),
        {},
    ),
    Step(
        "‖(C + λI)^½ (C_j + λI)^-½‖ ≤ √(1 + Δ_Dj/λ)",
        lambda one: norms(power(one.C, 0.5) @ power(one.C_j, -0.5)),
        lambda one: np.sqrt(1 + one.shift),
        {"1": lambda one: np.sqrt(one.shift), "Δ_Dj/λ": lambda one: np.ones(len(one.l2))},
    ),
    Step(
        "‖(C_j + λI)^½ (C + λI)^-½‖ ≤ √(1 + Δ_Dj/λ)",
        lambda one: norms(power(one.C_j, 0.5) @ power(one.C, -0.5)),
        lambda one: np.sqrt(1 + one.shift),
        {"1": lambda one: np.sqrt(one.shift), "Δ_Dj/λ": lambda one: np.ones(len(one.l2))},
    ),
    Step(
        "‖(C_j + λI)^½ (C_Dj + λI)⁻¹ (C_j + λI)^½‖ ≤ P_Dj",
        lambda one: norms(power(one.C_j, 0.5) @ np.linalg.solve(one.C_Dj, power(one.C_j, 0.5))),
        lambda one: one.P(one.C_j, one.C_Dj),
        {},
    ),
    Step(
        "Lemma 2, β",
        lambda one: np.linalg.eigvalsh(power(one.C, -0.5) @ (one.C - one.C_D) @ power(one.C, -0.5))[:, -1],
        lambda one: 1 - one.l2 / norms(one.C),
        {},
    ),
    Step(
        "(20)",
        lambda one: _sides(one.C, np.linalg.solve(one.C_D, one.C_D - one.C), one.C),
        lambda one: one.P(one.C, one.C_D) * one.R(one.C, one.C_D),
        {"P_D": lambda one: one.R(one.C, one.C_D), "R_D": lambda one: one.P(one.C, one.C_D)},
    ),
    Step(
        "(21)",
        lambda one: _sides(one.C, np.linalg.solve(one.C_D, one.C - one.C_Dj), one.C),
        lambda one: one.P(one.C, one.C_D) * _second(one, 1.0, 1.0),
        {
            "P_D": lambda one: _second(one, 1.0, 1.0),
            "R_Dj": lambda one: one.P(one.C, one.C_D) * _second(one, 0.0, 1.0),
            "R_Dj before Δ_Dj/λ": lambda one: one.P(one.C, one.C_D) * _second(one, 1.0, 0.0),
        },
    ),
    Step(
        "(31), the factors before the bracket",
        lambda one: norms(power(one.C, 0.5) @ np.linalg.solve(one.C_Dj, power(one.C_j, 0.5))),
        lambda one: np.sqrt(1 + one.shift) * one.P(one.C_j, one.C_Dj),
        {"√(1 + Δ_Dj/λ)": lambda one: one.P(one.C_j, one.C_Dj), "P_Dj": lambda one: np.sqrt(1 + one.shift)},
    ),
)


def _second(one: Four, first: float, product: float) -> Array:
    """R_Dj + (1 + R_Dj) Δ_Dj/λ, with weights on the first term and on the product."""
    R = one.R(one.C_j, one.C_Dj)
    return first * R + (1 + product * R) * one.shift


def shares(step: Step, one: Four, right: Callable[[Four], Array]) -> Array:
    """Left over right where the left side is more than rounding."""
    left = step.left(one)
    some = left > 1e-8
    return np.asarray(left[some] / np.maximum(right(one)[some], 1e-300))


# ── Proposition 4, clients in one dimension ──

FOURTH = "Proposition 4 of its proof, one dimension"
MEMBERS = (2, 3, 10)
PARTS = ("P_D", "R_D", "R_Dj", "Δ_Dj/λ")


@dataclass(frozen=True, eq=False)
class Clients:
    """Rows of clients in one dimension: C_j, C_Dj and w_Dj − w_λ, which any targets can give, and λ of each row."""

    expected: Array
    seen: Array
    gaps: Array
    l2: Array

    @staticmethod
    def draw(rng: np.random.Generator, members: int) -> Clients:
        size, l2 = (DRAWS, members), 10 ** rng.uniform(-DECADES, 0, (DRAWS, 1))
        expected, seen = (10 ** rng.uniform(-DECADES, 0, size) for _ in range(2))
        gaps = rng.choice((-1.0, 1.0), size) * 10 ** rng.uniform(-2, 0, size)
        kind = rng.integers(4, size=DRAWS)
        expected[kind == 1] = seen[kind == 1].mean(axis=1, keepdims=True)  # clients alike, as all samples are
        gaps[kind == 1] = np.sign(seen.mean(axis=1, keepdims=True) - seen)[kind == 1]
        expected[kind == 2] = seen[kind == 2][:, :1]  # clients alike, as the samples of the first are
        gaps[kind == 2, 1:] = 0.0
        seen[kind == 3] = expected[kind == 3]
        return Clients(expected, seen, gaps, l2)

    def left(self) -> Array:
        """‖(C + λI)^½ (w̄⁰ − w)‖ by (18), without (C + λ)^½, which the other side has, too."""
        whole = self.seen.mean(axis=1, keepdims=True)
        return np.abs(((whole - self.seen) / (whole + self.l2) * self.gaps).mean(axis=1))

    def right(self, without: str = "") -> Array:
        C, C_D = (one.mean(axis=1, keepdims=True) for one in (self.expected, self.seen))
        R_j = np.abs(self.expected - self.seen) / (self.expected + self.l2)
        shift = np.abs(C - self.expected) / self.l2
        R = np.abs(C - C_D) / (C + self.l2)
        terms = {"R_D": R + 0 * shift, "R_Dj": R_j, "Δ_Dj/λ": (1 + R_j) * shift}
        total = sum((value for name, value in terms.items() if name != without), np.zeros_like(shift))
        P = 1.0 if without == "P_D" else (C + self.l2) / (C_D + self.l2)
        return np.asarray((P * total * np.abs(self.gaps)).mean(axis=1))

    def most(self, without: str = "") -> float:
        """The largest left over right, where the left side is more than rounding."""
        left = self.left()
        some = left > 1e-8
        return float((left[some] / np.maximum(self.right(without)[some], 1e-300)).max())


def holds(name: str) -> str:
    return f"{name}: for any operators"


def reached(name: str) -> str:
    return f"{name}: reached, and no part can go"


@experiment(
    "fednewton-reached",
    paper="FedNewton",
    place="Lemma 1, after (15), (20), (21), (31)",
    title="Inequalities between operators in FedNewton's proofs, for any operators",
    takes="5 s",
)
def reached_bounds(seeds: Seeds, quick: bool) -> Result:
    """Each is tried on numbers and on 2 × 2 matrices, with and without its parts."""
    largest: dict[str, list[float]] = {step.name: [] for step in STEPS}
    parts: dict[str, dict[str, float]] = {step.name: dict.fromkeys(step.without, 0.0) for step in STEPS}
    largest[FOURTH], parts[FOURTH] = [], dict.fromkeys(PARTS, 0.0)
    for seed, members in seeds.over(MEMBERS):
        some = Clients.draw(np.random.default_rng((seed, members, 90)), members)
        largest[FOURTH].append(some.most())
        for part in PARTS:
            parts[FOURTH][part] = max(parts[FOURTH][part], some.most(part))
    for seed, size in seeds.over((1, 2)):
        one = Four.draw(np.random.default_rng((seed, size, 89)), size)
        for step in STEPS:
            largest[step.name].append(float(shares(step, one, step.right).max()))
            for part, right in step.without.items():
                parts[step.name][part] = max(parts[step.name][part], float(shares(step, one, right).max()))
    claims = Claims(quick)
    for name, values in largest.items():
        most = max(values)
        count = f"{len(values) * DRAWS:,} draws"
        claims.add(holds(name), most <= SLACK, f"at most {most:.4g} of the bound, {count}")
        less = parts[name]
        said = "".join(
            f", {'any' if value > VAST else f'up to {value:.2g}'} times the bound without {part}"
            for part, value in less.items()
        )
        enough = most >= REACHED and all(value > SLACK for value in less.values())
        claims.add(reached(name), enough, f"up to {most:.4g} of the bound{said}")
    return Result(
        columns=(Column("step"), Column("left / right")),
        rows=[(name, Measured(tuple(values))) for name, values in largest.items()],
        claims=claims.found,
        notes=(
            f"{DRAWS:,} draws a seed of numbers, and as many of 2 × 2 matrices: eigenvalues from 1e-{DECADES} to 1 in "
            f"any directions, λ from 1e-{DECADES} to 1; a third of C_j is C, and a third of C_Dj is C_j.",
            f"Proposition 4 has {DRAWS:,} draws a seed of each of 2, 3 and 10 clients in one dimension, with any C_Dj, "
            "C_j and w_Dj − w_λ.",
        ),
    )
