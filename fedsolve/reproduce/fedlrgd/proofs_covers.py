"""Section III-A of Jadbabaie et al. (2023): coverings by balls, and the best matrices of low rank."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

COVER = Check("(27) and (28)", "every point is in one set I_j, and within 1/q of its z_j: ‖x − z_j‖₁ over 1/q")
ECKART = Check("(31)", "M_r of (31) is no farther from M than 200 other matrices of rank r")
VOLUME = Check("Proof of Theorem 1", "the ℓ¹-ball of radius 1/(2q) has the volume 1/(d! q^d), d = 1 to 4", "off", 0.02)
NUMBER = AtLeast(
    "After Theorem 1",
    "cubes needed for Lemma 1's bound over d! (q + 1)^d, d = 2 to 11",
    "times",
    unit="of d! (q + 1)^d",
)
CHECKS = (COVER, ECKART, VOLUME, NUMBER)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 39])
    return named({**_cover(rng), **_best(rng), **_balls(rng)})


def centres(cells: int, d: int) -> Array:
    """Of the cubes of side 1/cells; they lie in ℓ¹-balls of radius d/(2 cells)."""
    return (np.array(list(product(range(cells), repeat=d))) + 0.5) / cells


def _cover(rng: np.random.Generator) -> dict[Check, float]:
    """I_j is B_j without the balls before it (28)."""
    worst = 0.0
    for d, cells in product((1, 2, 3), (1, 2, 4)):
        x, z, q = rng.random((500, d)), centres(cells, d), 2 * cells / d
        inside = np.abs(x[:, None] - z).sum(axis=2) <= 1 / q * (1 + 1e-12)
        first = inside & (np.cumsum(inside, axis=1) == 1)  # x ∈ I_j
        if not (first.sum(axis=1) == 1).all():
            return {COVER: math.nan}
        worst = max(worst, float(np.abs(x - z[first.argmax(axis=1)]).sum(axis=1).max() * q))
    return {COVER: worst}


def _best(rng: np.random.Generator) -> dict[Check, float]:
    worst = 0.0
    for _ in range(200):
        M, r = rng.standard_normal((12, 9)), int(rng.integers(1, 8))
        left, scales, right = np.linalg.svd(M)
        kept = (left[:, :r] * scales[:r]) @ right[:r]
        B = left[:, :r] + 10 ** rng.uniform(-3, 0) * rng.standard_normal((12, r))
        other = B @ np.linalg.lstsq(B, M, rcond=None)[0]  # the best with these columns
        worst = max(worst, float(np.linalg.norm(M - kept) / np.linalg.norm(M - other)))
    return {ECKART: worst}


def _balls(rng: np.random.Generator) -> dict[Check, float]:
    """The part of the cube around an ℓ¹-ball that is in it; and coverings by balls of ℓ^∞ instead."""
    off = 0.0
    for d in range(1, 5):
        share = float((np.abs(rng.uniform(-1, 1, (1_000_000, d))).sum(axis=1) <= 1).mean())
        off = max(off, abs(share * math.factorial(d) - 1))
    # ‖y − z‖₁ is up to d/q in a ball of ℓ^∞, at its corners; for ‖y − z‖₁ ≤ 1/q its radius is 1/(dq).
    number = min(math.ceil(d * 1000 / 2) ** d / (math.factorial(d) * 1001**d) for d in range(2, 12))
    return {VOLUME: off, NUMBER: number}
