"""Appendix G of Shen et al. (2022): the term of a few clients by itself, by T, m, K, N, 1/γ, 1/μ and the draw.

The bounds of Theorems G.1 to G.3 have other terms, which are many times as large and, in G.2 and G.3, stay: whether
‖f^T − f*‖² is below them says little of this one. Its own size is what a few clients exceed all of them by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log, nan

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Found, Same
from fedsolve.reproduce.ffgb.participation_paths import (
    CLIENTS,
    GAMMA,
    LONG,
    SHORT,
    K,
    logistic_path,
    plain,
    square_path,
)
from fedsolve.reproduce.ffgb.proof_runs import G, Posed, boosted, square_oracle
from fedsolve.reproduce.ffgb.square_runs import Regression
from fedsolve.reproduce.result import Verdict
from fedsolve.typing import Array

M = 2
LENGTHS, DRAWS, FEWER = (4, 16, 64, 256), 2000, 500
SOME, ROUNDS, LOCAL, MUS = (1, 2, 3, 4), 16, (8, 16, 32), (4.0, 1.0, 0.25)  # m; T, K and μ where others than T change
GAMMAS, COPIES = (1.0, 0.5, 0.25, 0.1), (1, 2, 4)  # and γ, and how often every client is there


@dataclass(frozen=True)
class Excess(Check):
    """An exponent of what a few clients exceed all by. A seed in which that is not above 0 has none (NaN), and leaves
    the verdict open."""

    def verdict(self, values: Sequence[float]) -> Verdict:
        known = [one for one in values if one == one]
        left = len(values) - len(known)
        if not known:
            return Verdict(None, f"no excess in any of {left} seeds")
        found = super().verdict(known)
        if not left:
            return found
        return Verdict(None if found.holds else False, f"{found.said}; no excess in {left} of {len(values)} seeds")


THEOREMS = (1, 2, 3)
_ALL = "m = 1 to 4, K = 8 to 32, 1/γ = 1 to 10"
VARIED = {n: f"{_ALL} and N = 5 to 20" if n == 3 else f"{_ALL}, N = 5 to 20 and 1/μ = ¼ to 4" for n in THEOREMS}
EXCESS = tuple(
    Excess(
        f"Theorem G.{n}", f"G.{n}: what it exceeds full participation by falls at least like log T/T", "exponent", 0.1
    )
    for n in THEOREMS
)
GROWTH = tuple(
    Excess(
        f"Theorem G.{n}",
        f"G.{n}: that excess over (N − m)/(N − 1) log T/(T{'' if n == 3 else 'μ²'}mγ²) grows with none of {VARIED[n]}",
        "exponent",
        0.1,
    )
    for n in THEOREMS
)
ROOTS = tuple(
    Excess(
        f"Theorem G.{n}",
        f"G.{n}: by what the root of the largest of all draws exceeds that of full participation falls at least like "
        "(log T/T)^½",
        "exponent",
        0.1,
    )
    for n in THEOREMS
)
VARIANCE = Same(
    "Lemma G.1", "E‖f^(t+1) − ḡ‖² is (N − m)/(N − 1) Σ ‖g_i − ḡ‖²/(Nm), over all subsets, m = 1 to 4, K = 4 to 64"
)
SIZE = Check(
    "Lemma G.1", "E‖f^(t+1) − ḡ‖² over its bound does not grow with K = 8 to 64 nor with t = 8 to 64", "exponent", 0.1
)
CHECKS = (VARIANCE, SIZE, *EXCESS, *GROWTH, *ROOTS)

Path = Callable[[int, int, int, int], Array]  # T, m, draws and K


def paths(
    equal: Posed, general: Posed, squares: Regression, seed: int, gamma: float = GAMMA
) -> tuple[Path, Path, Path]:
    """Runs of Theorems G.1, G.2 and G.3. All begin with the same draws, so that what they differ by is no noise."""

    def rng() -> np.random.Generator:
        return np.random.default_rng([seed, 103])

    weak = plain(gamma)
    return (
        lambda T, m, draws, local: logistic_path(equal, SHORT, T, m, draws, rng(), local, weak),
        lambda T, m, draws, local: logistic_path(general, LONG, T, m, draws, rng(), local, weak),
        lambda T, m, draws, local: square_path(squares, T, m, draws, rng(), local, weak),
    )


@dataclass(frozen=True)
class Varied:
    """What one thing changes in, the rest as it is: problems of other μ, oracles of other γ, and copies of the clients.

    A theorem without one of them has ().
    """

    mus: Sequence[Path] = ()
    gammas: Sequence[Path] = ()
    copies: Sequence[Path] = ()


def share(m: int, clients: int = CLIENTS) -> float:
    return (clients - m) / (clients - 1) / m


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y over log x; NaN where a y is not above 0."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if min(y) > 0 else nan


def excess(path: Path, T: int = ROUNDS, m: int = M, local: int = K, clients: int = CLIENTS) -> float:
    """E‖f^T − f*‖² with m clients, less ‖f^T − f*‖² with all."""
    return float(path(T, m, FEWER, local)[T].mean() - path(T, clients, 1, local)[T, 0])


def by_length(n: int, drawn: Array, whole: Array, found: Found) -> None:
    """Theorem G.n: the mean over the draws, and the largest, from T = 4 to 256."""
    few, most, full = drawn.mean(axis=1), drawn.max(axis=1), whole[:, 0]
    found.note(EXCESS[n - 1], falls(few, full))
    roots = [(most[T] ** 0.5 - full[T] ** 0.5) * (T / log(T)) ** 0.5 for T in LENGTHS]
    found.note(ROOTS[n - 1], power(LENGTHS, roots))


def falls(few: Array, full: Array) -> float:
    """The exponent of what `few` exceeds `full` by, over log T/T."""
    return power(LENGTHS, [(few[T] - full[T]) * T / log(T) for T in LENGTHS])


def growth(n: int, path: Path, varied: Varied, found: Found) -> None:
    """Of Theorem G.n, with h = γφ."""
    found.note(GROWTH[n - 1], grows(path, varied))


def grows(path: Path, varied: Varied) -> float:
    """The largest exponent by m, by K and by what is varied: 1/μ, 1/γ and N; NaN if one is."""
    powers = [power(SOME, [excess(path, m=m) / share(m) for m in SOME])]
    powers.append(power(LOCAL, [excess(path, local=local) for local in LOCAL]))
    for scales, others in ((MUS, varied.mus), (GAMMAS, varied.gammas)):
        if others:
            sizes = [excess(other) * scale**2 for other, scale in zip(others, scales, strict=True)]
            powers.append(power([1 / scale for scale in scales], sizes))
    if varied.copies:
        clients = [times * CLIENTS for times in COPIES]
        sizes = [excess(one, clients=N) / share(M, N) for one, N in zip(varied.copies, clients, strict=True)]
        powers.append(power(clients, sizes))
    return float(np.max(powers))


def variance(one: Posed, rng: np.random.Generator, found: Found) -> None:
    """Lemma G.1 at the ends of rounds, by K and by t."""
    by_local, by_round = [], []
    for local, last in ((4, 64), (8, 1), (16, 1), (64, 1)):
        steps = boosted(one, np.zeros(len(one.alpha)), square_oracle(one, GAMMA, rng), SHORT, local, last + 1)
        for step in (step for step in steps if step.k == local and step.t > 0):
            apart = np.square(step.after - step.after.mean(axis=0)) @ one.alpha
            for m in SOME if step.t == 1 else (M,):
                means = np.array([step.after[list(some)].mean(axis=0) for some in combinations(range(CLIENTS), m)])
                spread = float(one.all(means - step.after.mean(axis=0), means - step.after.mean(axis=0)).mean())
                found.same(VARIANCE, spread, share(m) * apart.mean())
            quotient = spread if step.t > 1 else share(M) * float(apart.mean())
            quotient /= share(M) * (step.eta * local * G / GAMMA) ** 2
            if local > 4:
                by_local.append((local, quotient))
            if local == 4 and step.t >= 8:
                by_round.append((step.t, quotient))
    found.note(SIZE, power(*zip(*by_local, strict=True)))
    found.note(SIZE, power(*zip(*by_round, strict=True)))
