"""Appendix A of Jadbabaie et al. (2023), line by line: the cross-entropy with soft labels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU, derivatives, gradient, sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

GRADIENT = Check(
    "Appendix A, 1", "∇f = ((1 − y)/(1 + e^(−θᵀx)) − y/(1 + e^(θᵀx))) x + μθ, by differences of (66)", "off", 1e-7
)
LINES_68 = Check("Appendix A, (68)", "lines 1 to 5 of (68): each is at most the next")
QUARTER = Check("Appendix A", "the sigmoid's slope e^(−t)(1 + e^(−t))^(−2) is at most ¼")
CURVED = Check("Appendix A", "|d/dt e^(−t)(1 + e^(−t))^(−2)| is at most ¼")
CONVEX = Check("Appendix A, 2", "the loss without penalty is convex: between two points it is at most the chord")
PARTIALS = Check("Appendix A, (69)", "the three cases of (69), by differences of the gradient", "off", 1e-7)
LINES_71 = Check("Appendix A, (71)", "lines 1 to 7 of (71): each is at most the next")
BOUNDED = Check("Section II-C, (9)", "on |θ_i| ≤ 1 the entries of the gradient are at most B = 1 + μ")
UNBOUNDED = AtLeast(
    "Section II-B, (9)", "on all of R^p they grow: exponent of |g_1| in θ_1, from 10³ to 10⁶", "times", 0.99
)
EVERYWHERE = Check(
    "Section II-B, (9)", "|g_1| is bounded on all of R^p: exponent in θ_1, from 10³ to 10⁶", "exponent", 0.01
)
CHECKS = (GRADIENT, LINES_68, QUARTER, CURVED, CONVEX, PARTIALS, LINES_71, BOUNDED, UNBOUNDED, EVERYWHERE)
PAIRS, STEP = 4000, 1e-5


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 34])
    worst = {check: 0.0 for check in (GRADIENT, LINES_68, PARTIALS, LINES_71, BOUNDED)}
    highest = 0.0
    for d in (2, 3, 6):
        x, y, theta = rng.random((2, PAIRS, d - 1)), rng.random((2, PAIRS)), rng.uniform(-1, 1, (2, PAIRS, d - 1))
        found = {
            GRADIENT: _differences(x[0], y[0], theta[0]),
            LINES_68: steps(_lines_68(x[0], y[0], theta)),
            PARTIALS: _partials(x[0], y[0], theta[0]),
            BOUNDED: float(np.abs(gradient(x[0], y[0], np.sign(theta[0]))).max()) / (1 + MU),
        }
        if d > 2:  # j ≠ i
            found[LINES_71] = steps(_lines_71(x, theta[0]))
        worst = {check: max(value, found.get(check, 0.0)) for check, value in worst.items()}
        share, far = rng.random(PAIRS)[:, None], 10 * theta
        chord = share[:, 0] * plain(x[0], y[0], far[0]) + (1 - share[:, 0]) * plain(x[0], y[0], far[1])
        middle = plain(x[0], y[0], share * far[0] + (1 - share) * far[1])
        highest = max(highest, float((middle / chord).max()))
    t = np.linspace(-30, 30, 60_001)
    slope = sigmoid(t) * (1 - sigmoid(t))
    bend = np.abs(slope * (1 - 2 * sigmoid(t)))
    return named(
        {
            **worst,
            QUARTER: slope.max() / 0.25,
            CURVED: bend.max() / 0.25,
            CONVEX: highest,
            UNBOUNDED: _growth(),
            EVERYWHERE: _growth(),
        }
    )


def _growth() -> float:
    ends = [gradient(np.array([0.5]), np.array(0.5), np.array([size]))[0] for size in (1e3, 1e6)]
    return float(np.log10(ends[1] / ends[0])) / 3


def plain(x: Array, y: Array, theta: Array) -> Array:
    """(66) without the penalty."""
    t = (x * theta).sum(axis=-1)
    return np.asarray(y * np.logaddexp(0, -t) + (1 - y) * np.logaddexp(0, t))


def steps(lines: list[Array]) -> float:
    """The largest ratio of a line to the next, rounding apart."""
    return max(float(((one - 1e-14) / other).max()) for one, other in pairwise(lines))


def _differences(x: Array, y: Array, theta: Array) -> float:
    printed = ((1 - y) / (1 + np.exp(-(x * theta).sum(axis=1))) - y / (1 + np.exp((x * theta).sum(axis=1))))[
        :, None
    ] * x + MU * theta
    off = float(np.abs(printed - gradient(x, y, theta)).max())
    for i, moved in enumerate(STEP * np.eye(x.shape[1])):
        ahead, behind = (plain(x, y, theta + s * moved) + MU / 2 * ((theta + s * moved) ** 2).sum(1) for s in (1, -1))
        off = max(off, float(np.abs((ahead - behind) / (2 * STEP) - printed[:, i]).max()))
    return off


def _lines_68(x: Array, y: Array, theta: Array) -> list[Array]:
    first, second = (sigmoid((x * one).sum(axis=1)) for one in theta)
    size, far = np.linalg.norm(x, axis=1), np.linalg.norm(theta[0] - theta[1], axis=1)
    inner = np.abs(((theta[0] - theta[1]) * x).sum(axis=1))
    return [
        np.linalg.norm(gradient(x, y, theta[0]) - gradient(x, y, theta[1]), axis=1),
        size * np.abs((1 - y) * first - y * (1 - first) - (1 - y) * second + y * (1 - second)) + MU * far,
        size * (np.abs(first - second) + np.abs((1 - second) - (1 - first))) + MU * far,
        size / 2 * inner + MU * far,
        size**2 / 2 * far + MU * far,
        (x.shape[1] / 2 + MU) * far,
    ]


def _partials(x: Array, y: Array, theta: Array) -> float:
    found, off = derivatives(x, y, theta), 0.0
    for j, moved in enumerate(STEP * np.eye(x.shape[1])):
        ahead, behind = (gradient(x + s * moved, y, theta)[:, 0] for s in (1, -1))
        off = max(off, float(np.abs((ahead - behind) / (2 * STEP) - found[:, j]).max()))
    ahead, behind = (gradient(x, y + s * STEP, theta)[:, 0] for s in (1, -1))
    return max(off, float(np.abs((ahead - behind) / (2 * STEP) - found[:, -1]).max()))


def _lines_71(x: Array, theta: Array) -> list[Array]:
    """i = 1 and j = 2."""
    first, second = (sigmoid((one * theta).sum(axis=1)) for one in x)
    slopes = [one * (1 - one) for one in (first, second)]
    one, other = x[0, :, 0], x[1, :, 0]
    apart, inputs = np.abs(one - other), np.abs(x[0] - x[1]).sum(axis=1)
    bent = np.abs(slopes[0] - slopes[1])
    return [
        np.abs(theta[:, 1] * (one * slopes[0] - other * slopes[1])),
        np.abs(one * slopes[0] - other * slopes[1]),
        bent + slopes[1] * apart,
        bent + apart / 4,
        np.abs(((x[0] - x[1]) * theta).sum(axis=1)) / 4 + apart / 4,
        inputs / 4 + apart / 4,
        inputs / 2,
    ]
