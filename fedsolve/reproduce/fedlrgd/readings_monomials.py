"""Section III-C of Jadbabaie et al. (2023): the monomials of (56) on the partition (28) by ℓ¹-balls.

A covering of least size is not known for d > 1. What is used of it is that no ball can be left out: such coverings
are found by taking balls in turn, and then leaving out what is not needed; their order is drawn.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_pieces import powers
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

INDEPENDENT = AtLeast(
    "(56)",
    "monomials on the partition (28), d = 1 to 3, l = 0 to 3, six q: least singular value over rounding",
    "times",
    unit="times rounding",
)
COUNT = Check("(56)", "… there are |S| (l+d choose d) of them, and their rank is that: largest difference", "off", 0.0)
SPARE = Check(
    "(56)",
    "… with one ball there twice: monomials of its second piece that are independent",
    "times",
    0.0,
)
CHECKS = (INDEPENDENT, COUNT, SPARE)
SIDES = {1: 400, 2: 40, 3: 14}  # points of the grid in each direction
QS = (0.6, 1.0, 1.5, 2.0, 2.7, 4.0)


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    rng = np.random.default_rng([seed, 92])
    least, apart, spare = math.inf, 0, 0
    for d, q in product((1, 2, 3), QS[:3] if quick else QS):
        centres = covering(rng, d, q)
        pieces = [inside(rng, centres, j, q) for j in range(len(centres))]
        again = np.vstack([centres, centres[rng.integers(len(centres))]])
        more = inside(rng, again, len(centres), q)
        for l in range(4):
            D = math.comb(l + d, d)
            found = [independent(monomials(points, l)) for points in pieces]
            least = min(least, *(one for one, _ in found))
            apart = max(apart, abs(sum(rank for _, rank in found) - len(centres) * D))
            spare = max(spare, independent(monomials(more, l))[1])
    return named({INDEPENDENT: least, COUNT: apart, SPARE: spare})


def grid(d: int) -> Array:
    """Points of [0, 1]^d, its corners among them."""
    return np.array(list(product(np.linspace(0, 1, SIDES[d]), repeat=d)))


def covering(rng: np.random.Generator, d: int, q: float) -> Array:
    """Centres of ℓ¹-balls of radius 1/q that cover the grid, none of which can be left out, in a random order."""
    points = grid(d)
    candidates = points[rng.permutation(len(points))[:400]]
    covers = np.abs(candidates[:, None] - points).sum(axis=2) <= 1 / q + 1e-12
    left, chosen = np.ones(len(points), dtype=bool), []
    while left.any():
        best = int((covers & left).sum(axis=1).argmax())
        if not (covers[best] & left).any():  # no candidate has what is left: a ball of its own
            own = points[left][0]
            candidates = np.vstack([candidates, own])
            covers = np.vstack([covers, np.abs(points - own).sum(axis=1) <= 1 / q + 1e-12])
            best = len(candidates) - 1
        chosen.append(best)
        left &= ~covers[best]
    for one in rng.permutation(chosen):
        rest = [other for other in chosen if other != one]
        if rest and covers[rest].any(axis=0).all():
            chosen = rest
    return candidates[rng.permutation(chosen)]


def inside(rng: np.random.Generator, centres: Array, j: int, q: float) -> Array:
    """Points of I_j, at most 400: in an ℓ¹-ball around that point of the grid in it that is farthest from the rest."""
    d = centres.shape[1]
    points = grid(d)
    points = points[np.abs(points - centres[j]).sum(axis=1) <= 1 / q + 1e-12]
    margin = np.full(len(points), 1 / q)
    for before in centres[:j]:
        margin = np.minimum(margin, np.abs(points - before).sum(axis=1) - 1 / q)
    if margin.max() <= 1e-9:
        return np.empty((0, d))
    best = int(margin.argmax())
    step = rng.dirichlet(np.ones(d + 1), 20_000)[:, :d] * rng.choice([-1, 1], (20_000, d)) * margin[best]
    found = points[best] + step
    own = np.abs(found - centres[j]).sum(axis=1) <= 1 / q
    return np.asarray(found[own & ((found >= 0) & (found <= 1)).all(axis=1)][:400])


def monomials(points: Array, l: int) -> Array:
    """x^v, |v| ≤ l: a column for each v."""
    return np.array([np.prod(points**v, axis=1) for v in np.array(powers(points.shape[1], l))]).T


def independent(M: Array) -> tuple[float, int]:
    """The least singular value over rounding, and how many are above it, of columns scaled to one size."""
    if not len(M):
        return 0.0, 0
    scales = np.linalg.svd(M / np.maximum(np.linalg.norm(M, axis=0), 1e-300), compute_uv=False)
    rounding = np.finfo(float).eps * max(M.shape) * scales[0]
    return float(scales[-1] / rounding) if len(scales) == M.shape[1] else 0.0, int((scales > rounding).sum())
