"""Bounds on gradient steps in Jadbabaie et al. (2023) on problems that reach them: (13), footnote 11, Lemmas 2 and 3.

A logistic regression stays well within these bounds, so that it does not see a wrong constant.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd import theory_descent
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

LEADING = Check(
    "Section II-C, (13)",
    "a quadratic along its leading eigenvector: ‖∇F‖²/(2L_1) over what a step of 1/L_1 lowers F by, or its inverse",
    "times",
)
COSINES = Check("Section II-C, (13)", "Σ cos θ_i, not convex: ‖∇F‖²/(2L_1) over what a step of 1/L_1 lowers F by")
LARGEST = AtLeast(
    "Section II-C, (13)", "… and its largest, so that the bound is reached", "times", 0.95, unit="of the bound"
)
STILL = Check(
    "Lemma 2",
    "errors against the descent from ‖e‖/μ: F(θ^(S)) − F* over the bound of Lemma 2, or its inverse, S to 1,000",
    "times",
)
WITHIN = Check(
    "Section II-C", "with errors up to e iterates on a logistic regression stay within ‖θ⁽⁰⁾ − θ*‖ + e/μ of θ*"
)
AS_FAR = AtLeast(
    "Section II-C",
    "… and on quadratics, from θ*, they get as far as that: ‖θ − θ*‖ over e/μ, its least",
    "times",
    0.99,
    unit="of e/μ",
)
PROJECTED = Check(
    "Section II-C",
    "projected, errors along the least eigenvector: ‖θ − θ*‖ over that bound, or its inverse",
    "times",
)
GAP = Check("Footnote 11", "F(θ⁽⁰⁾) − F* is at most L_1 ‖θ⁽⁰⁾ − θ*‖² on a logistic regression")
HALF = Check("Lemma 3", "F(θ) − F* is at most (L_1/2) ‖θ − θ*‖² on a logistic regression")
HALF_COSINES = Check("Lemma 3", "Σ (1 + cos θ_i), not convex: F − F* over (L_1/2) ‖θ − θ*‖²")
HALF_LEADING = Check(
    "Lemma 3",
    "a quadratic along its leading eigenvector: F − F* over (L_1/2) ‖θ − θ*‖², or its inverse",
    "times",
)
QUARTER = Check("Appendix A, (68)", "the gradient is Lipschitz in θ with (d − 1)/4 + μ, d = 2 to 20")
ALL_ONES = AtLeast(
    "Appendix A, (68)",
    "… and x = (1, …, 1), θ near 0, reaches it: the ratio, its least over d",
    "times",
    1 - 1e-5,
    unit="of the bound",
)
CHECKS = (
    *(LEADING, COSINES, LARGEST, STILL, WITHIN, AS_FAR, PROJECTED, GAP, HALF, HALF_COSINES, HALF_LEADING, QUARTER),
    ALL_ONES,
)  # fmt: skip
KAPPAS, SIZES = (1.0, 2.0, 10.0, 100.0, 1e4), (1, 2, 10, 30)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 90])
    logistic = theory_descent.measured(seed)
    same = {
        WITHIN: logistic[theory_descent.COMPACT.claim],
        GAP: logistic[theory_descent.GAP.claim],
        HALF: logistic[theory_descent.HALF.claim],
    }
    return named(
        {**same, **_leading(rng), **_cosines(rng), **_errors(rng), **_lipschitz(rng), PROJECTED: _projected(rng)}
    )


def quadratic(rng: np.random.Generator, kappa: float, size: int) -> tuple[Array, Array]:
    """A Hessian with curvatures from L_1/κ to L_1 in random directions, L_1 from 0.1 to 10, and its eigenvectors."""
    curvatures = np.geomspace(1 / kappa, 1, size) * 10 ** rng.uniform(-1, 1)
    vectors, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (vectors * curvatures) @ vectors.T, vectors


def _either(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _leading(rng: np.random.Generator) -> dict[Check, float]:
    drops, halves = [], []
    for kappa, size in product(KAPPAS, SIZES):
        H, vectors = quadratic(rng, kappa, size)
        theta, L_1 = vectors[:, -1] * 10 ** rng.uniform(-2, 2), float(np.linalg.eigvalsh(H)[-1])
        drops.append(_either(drop_ratio(H, theta, L_1)))
        halves.append(_either(float(theta @ H @ theta) / (L_1 * float(theta @ theta))))
    return {LEADING: max(drops), HALF_LEADING: max(halves)}


def drop_ratio(H: Array, theta: Array, L_1: float) -> float:
    """‖∇F‖²/(2L_1) over what a step of 1/L_1 lowers θᵀHθ/2 by."""
    g = H @ theta
    after = theta - g / L_1
    return float(g @ g) / L_1 / (float(theta @ H @ theta) - float(after @ H @ after))


def _cosines(rng: np.random.Generator) -> dict[Check, float]:
    ratios, halves = [], []
    for size in (1, 2, 10):
        theta = rng.uniform(0, 2 * np.pi, (2000, size))
        step = np.sin(theta)  # −∇F
        drop = 2 * (np.sin(theta + step / 2) * np.sin(step / 2)).sum(axis=1)  # cos θ − cos(θ + step)
        ratios.append(np.square(step).sum(axis=1) / 2 / drop)
        away = theta - np.pi  # θ* is π in each coordinate, and 1 + cos θ = 2 sin²((θ − π)/2)
        halves.append(2 * 2 * np.square(np.sin(away / 2)).sum(axis=1) / np.square(away).sum(axis=1))
    found = float(np.concatenate(ratios).max())
    return {COSINES: found, LARGEST: found, HALF_COSINES: float(np.concatenate(halves).max())}


def _errors(rng: np.random.Generator) -> dict[Check, float]:
    ratios, far = [], []
    for kappa, size in product(KAPPAS, SIZES):
        H, vectors = quadratic(rng, kappa, size)
        if size > 1 or kappa == 1:  # one curvature is κ = 1
            ratios += [_either(one) for one in against(H, vectors[:, 0], float(rng.uniform(0.1, 10)))]
        if size > 1 and kappa in (2.0, 10.0, 100.0):
            far.append(drift(H, vectors[:, 0], float(rng.uniform(0.1, 10)), int(20 * kappa)))
    return {STILL: max(ratios), AS_FAR: min(far)}


def against(H: Array, least: Array, error: float, steps: tuple[int, ...] = (1, 10, 1000)) -> list[float]:
    """F(θ^(S)) − F* over Lemma 2's bound, from error/μ along `least`, its eigenvector; errors away from θ*."""
    scales = np.linalg.eigvalsh(H)
    mu, L_1 = float(scales[0]), float(scales[-1])
    theta = least * error / mu
    bound, found = float(theta @ H @ theta) / 2, []
    for step in range(1, max(steps) + 1):
        theta = theta - (H @ theta - error * least) / L_1
        bound = (1 - mu / L_1) * bound + error**2 / (2 * L_1)
        if step in steps:
            found.append(float(theta @ H @ theta) / 2 / bound)
    return found


def drift(H: Array, least: Array, error: float, steps: int) -> float:
    """‖θ − θ*‖ over error/μ after so many steps from θ*, each with the same error."""
    scales = np.linalg.eigvalsh(H)
    theta = np.zeros(len(H))
    for _ in range(steps):
        theta = theta - (H @ theta - error * least) / scales[-1]
    return float(np.linalg.norm(theta) * scales[0] / error)


def _lipschitz(rng: np.random.Generator) -> dict[Check, float]:
    worst, least = 0.0, np.inf
    for d in (2, 3, 6, 20):
        bound = (d - 1) / 4 + MU
        x = rng.random((4000, d - 1))
        theta = rng.standard_normal((4000, d - 1)) * 10 ** rng.uniform(-2, 1.5, (4000, 1)) / np.sqrt(d - 1)
        step = rng.standard_normal((4000, d - 1))
        step *= 10 ** rng.uniform(-2, 1, (4000, 1)) / np.linalg.norm(step, axis=1, keepdims=True)
        worst = max(worst, float(moved(x, theta, theta + step).max()) / bound)
        ones = np.ones((1, d - 1))
        least = min(least, float(moved(ones, 0 * ones, 1e-4 * ones)[0]) / bound)
    return {QUARTER: worst, ALL_ONES: least}


def moved(x: Array, theta: Array, other: Array) -> Array:
    """‖∇f(θ) − ∇f(θ′)‖ over ‖θ − θ′‖; the label drops out."""
    shares = [sigmoid((x * one).sum(axis=1)) for one in (theta, other)]
    apart = (shares[1] - shares[0])[:, None] * x + MU * (other - theta)
    return np.asarray(np.linalg.norm(apart, axis=1) / np.linalg.norm(other - theta, axis=1))


def _projected(rng: np.random.Generator) -> float:
    """Onto [−1, 1]^8; H is diagonal, its least curvature is in the first coordinate, and L_1 = 1."""
    worst = 0.0
    for kappa in (2.0, 10.0, 100.0):
        H, centre = np.linspace(1 / kappa, 1, 8), rng.uniform(-0.1, 0.1, 8)
        theta = centre.copy()
        theta[0] += 0.5
        bound = 0.5
        for _ in range(100):
            size = rng.uniform(0, 0.8) / kappa  # less than what leads out of the box
            error = np.zeros(8)
            error[0] = -size
            theta = np.clip(theta - H * (theta - centre) - error, -1, 1)
            bound = (1 - 1 / kappa) * bound + size
            worst = max(worst, _either(float(np.linalg.norm(theta - centre)) / bound))
    return worst
