"""Section 2, Table 1 and Appendix D of Shen et al. (2022): what definitions and remarks say that can be false."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same
from fedsolve.reproduce.ffgb.proof_runs import Posed, posed
from fedsolve.typing import Array

CLIENTS, POINTS, OUTPUTS = 5, 12, 3

INNER = Same("Section 2.1", "⟨f, g⟩_α is symmetric and linear, 200 f, g and k of three outputs on 12 points")
NORM = Below("Section 2.1", "|⟨f, g⟩_α| ≤ ‖f‖_α‖g‖_α, and ‖f + g‖_α ≤ ‖f‖_α + ‖g‖_α")
DEFINITE = AtLeast(
    "Section 2.1", "‖f‖_α over ‖f‖_∞ of functions on X that are not 0, X larger than the support of α", most=1e-12
)
FINITE = Check("Section 2.2", "R[f] of f(x_n) = n, α(x_n) = 2^(−n), logistic loss: 80 points over 40", "times", 1.01)
ANY_LOSS = Check("Section 2.2", "… with the exponential loss, which is convex, too", "times", 1.01)
SLOPE = Check("Section 2.2", "Riesz: the slope of F in 200 directions g is ⟨h, g⟩_α with h of (3)", "off", 1e-6)
STEEPEST = Check("Section 2.2", "… and the largest over g with ‖g‖_α = 1, in the direction of h, is ‖h‖_α", "off", 1e-6)
DESCENT = Check(
    "Section 2.2", "f − η∇F[f] ends within 1e-12 of ‖f⁰ − f*‖², μ = 0.1 to 4, equal and unequal inputs", "times", 1e-12
)
FALLS = Below("Section 2.2", "… and F rises in no step, η = 1/(μ + ¼)")
EXISTS = Check(
    "Section 2.2, (2)", "‖f*‖_α at μ = 1e-8 over that at 1e-6, labels that vary at every point", "times", 1.01
)
EXISTS_ALWAYS = Check("Section 2.2, (2)", "… a label for every point", "times", 1.01)
UNIQUE = Check("Section 2.2, (2)", "μ = 0.1 and 4: minimisers found from five starts are the same", "off", 1e-9)
INPUTS = AtLeast(
    "Table 1, caption", "ω_TV and ω_W1 rise with a client's own share, 0 to 0.8: least increase", most=1e-3
)
EQUAL = Check("Table 1, caption", "… and are 0 with equal inputs", "off", 1e-12)
DATA = AtLeast(
    "Table 1, caption",
    "the larger of ω_TV and ω_W1 where clients' labels contradict each other, equal inputs",
    most=1e-12,
)
APART = AtLeast("Table 1, caption", "… where ‖f_i* − f*‖ of every client's own minimiser is", most=0.1)
CLIP = Below("Appendix D, before (35)", "‖clip(f) − clip(g)‖_α ≤ ‖f − g‖_α, by values and by norms, 200 pairs")
CHECKS = (
    *(INNER, NORM, DEFINITE, FINITE, ANY_LOSS, SLOPE, STEEPEST, DESCENT, FALLS, EXISTS, EXISTS_ALWAYS, UNIQUE),
    *(INPUTS, EQUAL, DATA, APART, CLIP),
)


def measure(rng: np.random.Generator, found: Found) -> None:
    """All checks."""
    _spaces(rng, found)
    _risks(found)
    _slopes(rng, found)
    _descent(rng, found)
    _minimisers(rng, found)
    _heterogeneity(rng, found)


def _spaces(rng: np.random.Generator, found: Found) -> None:
    """Functions are arrays of points and outputs; the last four points are outside of the support."""
    alpha = rng.dirichlet(np.ones(POINTS))

    def inner(f: Array, g: Array, mass: Array = alpha) -> float:
        return float(mass @ (f * g).sum(axis=1))

    def norm(f: Array, mass: Array = alpha) -> float:
        return float(np.sqrt(inner(f, f, mass)))

    for f, g, k in rng.standard_normal((200, 3, POINTS, OUTPUTS)):
        a, size = float(rng.standard_normal()), norm(f) * norm(g)
        found.same(INNER, inner(f, g), inner(g, f), size)
        found.same(INNER, inner(f + a * k, g), inner(f, g) + a * inner(k, g), size, a * norm(k) * norm(g))
        found.below(NORM, abs(inner(f, g)), size)
        found.below(NORM, norm(f + g), norm(f) + norm(g))
        c = float(rng.uniform(0.1, 2))
        found.below(CLIP, norm(np.clip(f, -c, c) - np.clip(g, -c, c)), norm(f - g))
        found.below(CLIP, norm(shortened(f, c) - shortened(g, c)), norm(f - g))
    fewer = np.where(np.arange(POINTS) < POINTS - 4, alpha, 0.0)
    for point in range(POINTS):
        bump = np.zeros((POINTS, OUTPUTS))
        bump[point] = 1.0
        found.note(DEFINITE, norm(bump, fewer / fewer.sum()) / np.abs(bump).max())


def shortened(f: Array, most: float) -> Array:
    """Each value's nearest vector of at most that norm."""
    sizes = np.linalg.norm(f, axis=1, keepdims=True)
    return np.asarray(f * np.minimum(1.0, most / np.maximum(sizes, 1e-300)))


def _risks(found: Found) -> None:
    """R[f] = Σ 2^(−n) ℓ(n, −1): f is in L²(α), Σ n² 2^(−n) being 6."""
    n = np.arange(1, 81)
    for check, losses in ((FINITE, np.logaddexp(0, n)), (ANY_LOSS, np.exp(n))):
        sums = np.cumsum(0.5**n * losses)
        found.note(check, sums[79] / sums[39])


def objective(one: Posed, f: Array) -> float:
    """F[f], the mean of the F_i."""
    return float(one.value(np.tile(f, (len(one.mass), 1))).mean())


def slope(one: Posed, f: Array) -> Array:
    """(3) for the mean of the clients' distributions."""
    wanted = (one.mass * one.labels).sum(axis=0) / one.mass.sum(axis=0)
    return np.asarray(1 / (1 + np.exp(-f)) - wanted + one.mu * f)


def _slopes(rng: np.random.Generator, found: Found, step: float = 1e-4) -> None:
    """Central differences along g, of ‖g‖_α = 1, over the larger of ‖h‖_α and 1."""
    one = posed(rng, CLIENTS, POINTS, 0.5, same=False)
    for f, g in rng.standard_normal((200, 2, POINTS)):
        h = slope(one, f)
        size = float(np.sqrt(one.all(h, h)))
        for check, towards, wanted in ((SLOPE, g, None), (STEEPEST, h, size)):
            unit = towards / np.sqrt(one.all(towards, towards))
            seen = (objective(one, f + step * unit) - objective(one, f - step * unit)) / (2 * step)
            found.note(check, abs(seen - (float(one.all(h, unit)) if wanted is None else wanted)) / max(size, 1.0))


def _descent(rng: np.random.Generator, found: Found) -> None:
    """As many steps as 1 − ημ, the least factor by which all distances shrink, needs for 1e-12, and half as many."""
    for mu in (0.1, 0.5, 4.0):
        for same in (True, False):
            one = posed(rng, CLIENTS, POINTS, mu, same=same)
            eta, f = 1 / (mu + 0.25), np.zeros(POINTS)
            start, before = float(one.all(one.best, one.best)), objective(one, f)
            for _ in range(round(21 / (eta * mu))):
                f = f - eta * slope(one, f)
                now = objective(one, f)
                found.below(FALLS, now, before)
                before = now
            found.note(DESCENT, float(one.all(f - one.best, f - one.best)) / start)


def _minimisers(rng: np.random.Generator, found: Found) -> None:
    """Closed forms need no start: with a share p of ones at a point f* solves σ(f) − p + μf = 0, by bisection."""
    mass = rng.dirichlet(np.ones(POINTS))
    for check, shares in ((EXISTS, rng.uniform(0.1, 0.9, POINTS)), (EXISTS_ALWAYS, np.arange(POINTS) % 2.0)):
        sizes = [float(np.sqrt(mass @ np.square(minimiser(shares, mu)))) for mu in (1e-6, 1e-8)]
        found.note(check, sizes[1] / sizes[0])
    for mu in (0.1, 4.0):
        one = posed(rng, CLIENTS, POINTS, mu, same=False)
        for f in 3 * rng.standard_normal((5, POINTS)):
            for _ in range(round(60 / mu) + 60):
                f = f - slope(one, f) / (mu + 0.25)
            found.note(UNIQUE, np.abs(f - one.best).max())


def minimiser(shares: Array, mu: float) -> Array:
    """The f with σ(f) − p + μf = 0 for each p."""
    low, high = np.full(len(shares), -1e3), np.full(len(shares), 1e3)
    for _ in range(200):
        middle = (low + high) / 2
        rising = (1 + np.tanh(middle / 2)) / 2 - shares + mu * middle > 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return np.asarray((low + high) / 2)


def omegas(mass: Array, x: Array) -> tuple[float, float]:
    """ω_TV and ω_W1 of inputs on a line: W_1 is the area between the distribution functions."""
    apart = mass - mass.mean(axis=0)
    gaps = np.abs(np.cumsum(apart, axis=1)[:, :-1]) @ np.diff(x)
    return float(np.abs(apart).sum(axis=1).mean() / 2), float(gaps.mean())


def _heterogeneity(rng: np.random.Generator, found: Found) -> None:
    """Clients on a line, a share of each client's inputs on points of its own; and equal inputs with other labels."""
    x = np.sort(rng.random(POINTS))
    own = np.arange(POINTS) % 4 == np.arange(4)[:, None]
    levels = [omegas((1 - share) / POINTS + share * own / own.sum(axis=1, keepdims=True), x) for share in SHARES]
    found.note(EQUAL, max(levels[0]))
    found.note(INPUTS, np.diff(np.array(levels), axis=0).min())
    mass = np.tile(rng.dirichlet(np.ones(POINTS)), (4, 1))
    one = Posed(mass, np.tile(np.arange(4)[:, None] % 2.0, (1, POINTS)), 0.5)
    found.note(DATA, max(omegas(mass, x)))
    for label in (0.0, 1.0):
        off = minimiser(np.full(POINTS, label), one.mu) - one.best
        found.note(APART, np.sqrt(one.all(off, off)))


SHARES = (0.0, 0.1, 0.2, 0.4, 0.8)
