"""Hölder classes by ℓ¹ and by other norms, and the rate of Theorem 1, in Jadbabaie et al. (2023).

|Σ x_i − ϑ|^η has the constant L_2 of |t|^η in ℓ¹ for every d. Bumps of random signs are what Theorem 1's rate is for:
their matrix of 2r pieces has 2r singular values of about the same size.
"""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.complexity.low_rank import low_rank_bound, low_rank_errors, piecewise_polynomial_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.remarks_smoothness import ETAS, constant, derivative
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

INSIDE = Check("Section II-C", "|Σ x_i − ϑ|^η, d = 2, 3 and 6, with the L_2 of |t|^η: both sides of (6), in ℓ¹")
OUTSIDE = AtLeast(
    "Section II-C",
    "… and in ℓ² and ℓ^∞ with the same L_2: largest left side over right side, its least over d, η and norm",
    "times",
    1.05,
    unit="times the right side",
)
DIAMOND = Check("After Theorem 1", "|Σ x_i − ϑ|^η in an ℓ¹-ball of radius 1/q: Taylor's error over Lemma 1's bound")
CUBE = AtLeast(
    "After Theorem 1",
    "… and in an ℓ^∞-ball of radius 1/q: largest error over Lemma 1's bound, its least over d and η",
    "times",
    1.05,
    unit="times the bound",
)
RATE = Check(
    "Theorem 1",
    "2r bumps of random signs, d = 1 and 2, η = 1 and 2: exponent of (1/nk) ‖M − M_r‖² in r, from −2η/d",
    "off",
    0.1,
)
BELOW = Check("Theorem 1", "… and (1/nk) ‖M − M_r‖² over the bound")
CHECKS = (INSIDE, OUTSIDE, DIAMOND, CUBE, RATE, BELOW)
DIMENSIONS = (2, 3, 6)
SIDES = {1: (48, 96, 192), 2: (18, 22, 26)}  # pieces in each coordinate, by d
INNER = 6  # samples of a piece in each coordinate


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 75])
    return named({**_norms(rng), **_balls(rng), **_bumps(rng)})


def _norms(rng: np.random.Generator) -> dict[Check, float]:
    """All partial derivatives of order l are the l-th derivative of |t|^η at t = Σ x_i − ϑ."""
    inside, outside = 0.0, math.inf
    for d, eta in product(DIMENSIONS, ETAS):
        l, L = math.floor(eta), constant(eta)
        y, step = rng.random((4000, d)) / 2, rng.random((4000, d)) / 2
        step[::2] = step[::2, :1]  # along the diagonal
        theta = y.sum(axis=1) + rng.choice([0.0, 0.5, 1.0], 4000) * step.sum(axis=1)  # the kink is between
        t = np.array([y.sum(axis=1), (y + step).sum(axis=1)]) - theta
        apart = np.abs(derivative(eta, l, t[0]) - derivative(eta, l, t[1])) / L
        ratios = [float((apart / np.linalg.norm(step, q, axis=1) ** (eta - l)).max()) for q in (1, 2, np.inf)]
        inside, outside = max(inside, ratios[0]), min(outside, *ratios[1:])
    return {INSIDE: inside, OUTSIDE: outside}


def _balls(rng: np.random.Generator) -> dict[Check, float]:
    """Around z = (½, …, ½), q = 4; ϑ between the sums of the ball's coordinates."""
    q, diamond, cube = 4.0, 0.0, math.inf
    for d, eta in product(DIMENSIONS, ETAS):
        u = rng.uniform(-1, 1, (2000, d))
        u[0] = 1  # a corner
        theta = d / 2 + np.append(0.0, rng.uniform(-d / q, d / q, 50))
        bound = piecewise_polynomial_bound(q, eta, constant(eta))
        found = [
            taylor_error(eta, ball.sum(axis=1), d / 2 - theta) / bound
            for ball in (u / np.abs(u).sum(axis=1, keepdims=True) / q, u / q)
        ]
        diamond, cube = max(diamond, found[0]), min(cube, found[1])
    return {DIAMOND: diamond, CUBE: cube}


def taylor_error(eta: float, step: Array, t: Array) -> float:
    """The largest error of the Taylor polynomial of |t|^η of degree l, at t + step."""
    taylor = sum(derivative(eta, k, t) * step[:, None] ** k / math.factorial(k) for k in range(math.floor(eta) + 1))
    return float(np.abs(np.abs(t + step[:, None]) ** eta - taylor).max())


def bump(u: Array) -> Array:
    """(1 − cos u)², 0 at both ends of [0, 2π] with its first three derivatives' left and right limits alike."""
    return np.asarray((1 - np.cos(u)) ** 2)


def steepest(order: int) -> float:
    """The largest absolute value of a derivative of the bump; 1.5 − 2 cos u + ½ cos 2u."""
    u = np.linspace(0, 2 * np.pi, 20_001) + order * np.pi / 2
    shift = order * np.pi / 2
    value = -2 * np.cos(u) + 0.5 * 2**order * np.cos(2 * (u - shift) + shift) + (1.5 if order == 0 else 0.0)
    return float(np.abs(value).max())


def _bumps(rng: np.random.Generator) -> dict[Check, float]:
    """g = Σ_I ± A Π bump(2π side x_i), L_2 = 1: every piece has a sign of its own for each ϑ."""
    off, worst = 0.0, 0.0
    for d, eta in product((1, 2), (1, 2)):
        errors = []
        for side in SIDES[d]:
            pieces = side**d
            high = max(math.prod(steepest(k) for k in s) for s in product(range(eta + 1), repeat=d) if sum(s) == eta)
            A = 1 / (high * (2 * np.pi * side) ** eta)
            line = bump(2 * np.pi * (np.arange(INNER) + 0.5) / INNER)
            values = A * (line if d == 1 else np.outer(line, line).ravel())
            signs = rng.choice([-1.0, 1.0], (pieces, 4 * pieces))
            # Rows of one piece are multiples of one another: M has the singular values of ‖values‖ times the signs.
            r = pieces // 2
            error = float(low_rank_errors(signs)[r] * np.mean(values**2))
            errors.append((math.log(r), math.log(error)))
            worst = max(worst, error / low_rank_bound(r, eta, 1.0, d))
        slopes = [(b - a) / (s - r) for (r, a), (s, b) in pairwise(errors)]
        off = max(off, *(abs(slope + 2 * eta / d) for slope in slopes))
    return {RATE: off, BELOW: worst}
