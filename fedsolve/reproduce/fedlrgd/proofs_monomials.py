"""Section III-C of Jadbabaie et al. (2023): the monomials of (44) and (56), and the matrix Φ of (45).

d = 1 and l = 1, so that D = 2, on |S| intervals of equal length; the server has r = 2 |S| samples.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

INDEPENDENT = AtLeast(
    "(56)",
    "the r monomials are linearly independent functions, |S| ≤ 8: least singular value over rounding",
    "times",
    unit="times rounding",
)
INVERTIBLE = AtLeast(
    "(45)",
    "Φ can be inverted for samples drawn uniformly, |S| = 4: share of 2,000 draws",
    "times",
    50.0,
    unit="% of the draws",
)
BLOCKS = AtLeast(
    "(45)",
    "… it can where every interval has exactly D samples, and only there: share of draws",
    "times",
    100.0,
    unit="% of the draws",
)
SHARE = Check("(45)", "… which is as frequent as that: share for |S| = 2 over 4!/(2² 2⁴) = ⅜", "off", 0.15)
EQUAL = AtLeast(
    "Assumption 4",
    "… and where two samples have x_1 = 0 (G⁽¹⁾, r = 4): least singular value over rounding",
    "times",
    unit="times rounding, where it is largest",
)
CHECKS = (INDEPENDENT, INVERTIBLE, BLOCKS, SHARE, EQUAL)
DRAWS = 2000


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 40])
    agreed, shares = [], {}
    for pieces in (2, 3, 4):
        found = [_inverted(rng.random(2 * pieces), pieces) for _ in range(DRAWS)]
        shares[pieces] = float(np.mean([one for one, _ in found]))
        agreed += [one == other for one, other in found]
    off = abs(shares[2] / (math.factorial(4) / (2**2 * 2**4)) - 1)
    grid = (np.arange(4000) + 0.5) / 4000
    least = min(_least(monomials(grid, k) / 63) for k in range(1, 9))
    return named(
        {
            INDEPENDENT: least,
            INVERTIBLE: 100 * shares[4],
            BLOCKS: 100 * float(np.mean(agreed)),
            SHARE: off,
            EQUAL: _equal(rng),
        }
    )


def monomials(x: Array, pieces: int) -> Array:
    """φ_w(x) = 1{x ∈ I} x^v, v = 0 and 1 (56): a row for each w."""
    own = np.minimum((x * pieces).astype(int), pieces - 1) == np.arange(pieces)[:, None]
    return np.vstack([own, own * x]).astype(float)


def _least(M: Array) -> float:
    scales = np.linalg.svd(M, compute_uv=False)
    return float(scales[-1] / (np.finfo(float).eps * max(M.shape) * scales[0]))


def _inverted(x: Array, pieces: int) -> tuple[bool, bool]:
    """Whether Φ can be inverted; whether every interval has two samples."""
    counts = np.bincount(np.minimum((x * pieces).astype(int), pieces - 1), minlength=pieces)
    return _least(monomials(x, pieces)) > 1, bool((counts == 2).all())


def _equal(rng: np.random.Generator) -> float:
    """Of the loss of Appendix A: g_1 = (σ − y) x_1 + μθ_1 is then μθ_1 for both samples, whatever else they are."""
    most = 0.0
    for _ in range(20):
        x, y, theta = rng.random((4, 2)), rng.random(4), rng.uniform(-1, 1, (4, 2))
        x[:2, 0] = 0
        most = max(most, _least(gradient(x[:, None], y[:, None], theta[None])[..., 0]))
    return most
