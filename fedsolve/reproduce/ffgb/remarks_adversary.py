"""Theorem 4.2 and Appendix C of Shen et al. (2022): the adversarial oracle against several deterministic algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Found, Zero
from fedsolve.reproduce.ffgb.theory_problems import two_diracs
from fedsolve.typing import Array

T42, C = "Theorem 4.2", "Appendix C"
G, MU, ROUNDS = np.sqrt(2), 0.1, 30
EQUAL = Zero(T42, "f^t is 0 to 1e-15 with equal weights and any step sizes")
MOMENTUM = Zero(T42, "… with momentum")
UNEQUAL = Zero(T42, "… with weights 0.6 and 0.4")
WITHIN = Check(T42, "the oracle's answers satisfy (11) with Ḡ = 2G/γ, weights 0.6 and 0.4")
FAR = Check(T42, "… weights 0.9 and 0.1")
CYCLIC = Zero(T42, "f^t is 0 to 1e-15 with one client in odd and the other in even rounds")
EXACT = Check(C, "at f^t, t = 0 to 29, the answer at the client's point is ∇F_i by differences: γ = 1", "off", 1e-6)
ELSEWHERE = Check(C, "… as the penalty's part is 0 there: at a random f they differ by μ‖f‖", "off", 1e-6)
SIZE = Check(C, "its answers are at most G = √2, as (11) with Ḡ = G, equal weights")
GRADIENT = Check(C, "∇F_i is ∇ℓ + μf at the client's point: against differences", "off", 1e-6)
TENTH = AtLeast(f"{C}, (22)", "for some μ ‖f*‖² of the example is at least a tenth of G²ω_TV/μ²", most=0.1)
ATTAINED = AtLeast(f"{C}, (22)", "‖f*‖ = G/μ is attained: the largest share of it over μ is at least 0.99", most=0.99)
CHECKS = (
    EQUAL,
    MOMENTUM,
    UNEQUAL,
    WITHIN,
    FAR,
    CYCLIC,
    EXACT,
    ELSEWHERE,
    SIZE,
    GRADIENT,
    TENTH,
    ATTAINED,
)


def slope(f: Array, y: int) -> Array:
    """∇_1 ℓ of the cross-entropy, two classes."""
    p = np.exp(f - f.max())
    return np.asarray(p / p.sum() - np.eye(2)[y])


def answers(f: Array, labels: Sequence[int], weights: Sequence[float]) -> Array:
    """g_i at x_1 and x_2 (clients, points, classes): exact at the client's own point; elsewhere such that the weighted
    sum of both is 0."""
    own = [slope(f[i], labels[i]) for i in range(2)]
    w1, w2 = weights
    return np.array([[own[0], -w2 / w1 * own[1]], [-w1 / w2 * own[0], own[1]]])


def largest(move: Callable[[int, Array, Array], Array], weights: Sequence[float]) -> tuple[float, float]:
    """The largest |f^t|, and the largest answer; `move` makes f^(t+1) of t, f^t and the answers."""
    f, most, said = np.zeros((2, 2)), 0.0, 0.0
    for t in range(ROUNDS):
        g = answers(f, (0, 1), weights)
        said = max(said, float(np.linalg.norm(g, axis=2).max()))
        f = move(t, f, g)
        most = max(most, float(np.abs(f).max()))
    return most, said


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    etas = rng.uniform(0.1, 5, ROUNDS)
    even = largest(lambda t, f, g: f - etas[t] * (g[0] + g[1]) - etas[t] * MU * f, (0.5, 0.5))
    found.note(EQUAL, even[0])
    found.note(SIZE, even[1] / G)
    velocity = np.zeros((2, 2))

    def heavy(t: int, f: Array, g: Array) -> Array:
        nonlocal velocity
        velocity = 0.9 * velocity + g[0] + g[1]
        return f - etas[t] * velocity

    found.note(MOMENTUM, largest(heavy, (0.5, 0.5))[0])
    for weights, check in (((0.6, 0.4), WITHIN), ((0.9, 0.1), FAR)):

        def weighted(t: int, f: Array, g: Array, w: tuple[float, float] = weights) -> Array:
            return np.asarray(f - etas[t] * (w[0] * g[0] + w[1] * g[1]))

        most, said = largest(weighted, weights)
        found.note(check, said / (2 * G))
        if check is WITHIN:
            found.note(UNEQUAL, most)
    found.note(CYCLIC, largest(lambda t, f, g: f - etas[t] * g[t % 2], (0.5, 0.5))[0])
    _exact(rng, etas, found)
    g = rng.standard_normal(2)
    found.note(GRADIENT, np.abs(_differences(g, 0) - slope(g, 0) - MU * g).max())
    mus = 10.0 ** np.linspace(-3, 3, 61)
    sizes = np.array([two_diracs(mu)[1] for mu in mus])
    found.note(TENTH, (sizes / (G**2 * 0.5 / mus**2)).max())
    found.note(ATTAINED, (np.sqrt(sizes) / (G / mus)).max())


def _exact(rng: np.random.Generator, etas: Array, found: Found) -> None:
    """The answers at the clients' own points against ∇F_i, the penalty's part included."""

    def off(f: Array) -> Array:
        g = answers(f, (0, 1), (0.5, 0.5))
        return np.array([_differences(f[i], i) - g[i, i] for i in range(2)])

    f = np.zeros((2, 2))
    for t in range(ROUNDS):
        found.note(EXACT, np.abs(off(f)).max())
        f = f - etas[t] * answers(f, (0, 1), (0.5, 0.5)).sum(axis=0)
    f = rng.standard_normal((2, 2))
    found.note(ELSEWHERE, abs(np.linalg.norm(off(f)) - MU * np.linalg.norm(f)))


def _differences(f: Array, y: int) -> Array:
    """The gradient of `_loss`."""
    h = 1e-6
    return np.array([(_loss(f + h * e, y) - _loss(f - h * e, y)) / (2 * h) for e in np.eye(2)])


def _loss(f: Array, y: int) -> float:
    return float(np.logaddexp(*f) - f[y] + MU / 2 * f @ f)
