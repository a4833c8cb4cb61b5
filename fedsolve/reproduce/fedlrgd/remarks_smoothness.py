"""Lemma 1 and Theorem 1 of Jadbabaie et al. (2023) on functions that are exactly so smooth.

c(ϑ)|x − ϑ|^η, x and ϑ in [0, 1], is in the Hölder class of η and of no larger one, η not whole; c is ±1 at random, so
that it is smooth in one variable only. min(x, ϑ) is a graphon with η = 1.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fedsolve.complexity.low_rank import least_rank, low_rank_bound, low_rank_errors, piecewise_polynomial_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

ETAS = (0.5, 1.5, 2.5, 3.5)
CONDITION = Check("Section II-B, (6)", "c(ϑ)|x − ϑ|^η, η = ½ to 3½: both sides of (6), power η − l")
PIECES = Check("Lemma 1", "c(ϑ)|x − ϑ|^η, η = ½ to 3½: piecewise Taylor polynomials are within L_2/(l! q^η)")
RANK = Check("Theorem 1", "c(ϑ)|x − ϑ|^η, η = ½ to 3½: (1/nk) ‖M − M_r‖² is at most the bound, every rank it is for")
GRAPHON = Check("After Theorem 1", "min(x, ϑ), a Lipschitz graphon: (1/nk) ‖M − M_r‖² is at most the bound, η = 1")
PRINTED = Check(
    "Theorem 1", "as printed, (l)² in the denominator: share of η = ½, 1, …, 6 where it is 0", "failures", 0
)
BETTER = Check(
    "Section II-C",
    "polynomials of degree l fitted to samples of c(ϑ)|x − ϑ|^η in q intervals: exponent of the error in q, plus η",
    "exponent",
    0.1,
)
CONSTANTS = AtLeast(
    "After Theorem 1",
    "64 intervals, η = 1½ to 3½: the error of constants over that of polynomials",
    "times",
    10.0,
    unit="times",
)
FEWER = Check(
    "Section III-B",
    "the rank that leaves 1e-3 of 200 × 200 values falls with η: each over the one before",
    "times",
    0.9,
)
FEW = Check("Section III-B", "… and at η = 3½ it is at most 10 of 200", "times", 10)
CHECKS = (
    *(CONDITION, PIECES, RANK, GRAPHON, PRINTED, BETTER, CONSTANTS, FEWER, FEW),
)  # fmt: skip


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 51])
    whole = sum(math.ceil(eta / 2) - 1 == 0 for eta in range(1, 13)) / 12
    return named({**_kinks(rng), **_fitted(rng), PRINTED: whole})


def derivative(eta: float, order: int, t: Array) -> Array:
    """Of |t|^η."""
    factor = math.prod(eta - k for k in range(order))
    return np.asarray(factor * np.sign(t) ** order * np.abs(t) ** (eta - order))


def constant(eta: float) -> float:
    """L_2 of |t|^η: of its l-th derivative c_l sign(t)^l |t|^(η − l)."""
    l = math.floor(eta)
    return math.prod(eta - k for k in range(l)) * (2 ** (1 - eta + l) if l % 2 else 1)


def _kinks(rng: np.random.Generator) -> dict[Check, float]:
    found = {CONDITION: 0.0, PIECES: 0.0, RANK: 0.0}
    n = 300
    x, theta, signs = rng.random(n), rng.random(n), rng.choice([-1.0, 1.0], n)
    ranks = []
    for eta in ETAS:
        l, L = math.floor(eta), constant(eta)
        y, z = rng.random((2, 5000))
        near = np.clip(y + 0.01 * rng.standard_normal(5000), 0, 1)
        at = rng.random(5000)
        for other in (z, near):
            apart = np.abs(derivative(eta, l, y - at) - derivative(eta, l, other - at))
            found[CONDITION] = max(found[CONDITION], float((apart / (L * np.abs(y - other) ** (eta - l))).max()))
        for cells in (1, 2, 5, 16):
            centres = (np.floor(x * cells) + 0.5) / cells
            step, t = (x - centres)[:, None], centres[:, None] - theta
            taylor = sum(derivative(eta, k, t) * step**k / math.factorial(k) for k in range(l + 1))
            error = np.abs(np.abs(x[:, None] - theta) ** eta - taylor).max()
            found[PIECES] = max(found[PIECES], error / piecewise_polynomial_bound(2 * cells, eta, L))
        errors = low_rank_errors(np.abs(x[:, None] - theta) ** eta * signs)
        first = math.ceil(least_rank(eta, 1))
        found[RANK] = max(found[RANK], *(errors[r] / low_rank_bound(r, eta, L, 1) for r in range(first, n + 1)))
        small = low_rank_errors(np.abs(x[:200, None] - theta[:200]) ** eta * signs[:200])
        ranks.append(int(np.argmax(np.sqrt(small / small[0]) <= 1e-3)))
    graphon = low_rank_errors(np.minimum(x[:, None], x))
    found[GRAPHON] = max(graphon[r] / low_rank_bound(r, 1, 1.0, 1) for r in range(math.ceil(least_rank(1, 1)), n + 1))
    found[FEWER] = max(after / before for before, after in pairwise(ranks))
    found[FEW] = ranks[-1]
    return found


def _fitted(rng: np.random.Generator) -> dict[Check, float]:
    """Each interval has 40 samples; the largest error over samples and 400 ϑ."""
    theta, off, gain = rng.random(400), -math.inf, math.inf
    for eta in ETAS:
        errors = {}
        for cells, degree in ((8, math.floor(eta)), (64, math.floor(eta)), (64, 0)):
            t = (np.arange(40) + 0.5) / 40 - 0.5
            basis, _ = np.linalg.qr(np.vander(t, degree + 1))
            x = (np.arange(cells)[:, None] + 0.5 + t) / cells
            values = np.abs(x[..., None] - theta) ** eta
            errors[cells, degree] = float(np.abs(values - basis @ (basis.T @ values)).max())
        fine = errors[64, math.floor(eta)]
        off = max(off, math.log(fine / errors[8, math.floor(eta)]) / math.log(8) + eta)
        if eta > 1:
            gain = min(gain, errors[64, 0] / fine)
    return {BETTER: off, CONSTANTS: gain}
