"""Jadbabaie et al. (2023) in two and three dimensions: what other experiments measure for d = 1 alone."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.readings_monomials import covering, monomials
from fedsolve.reproduce.fedlrgd.remarks_matrices import over_rounding
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, judged_by, named
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.typing import Array

FALLS = {
    d: Check(
        "Abstract",
        f"c(ϑ)‖x − ϑ‖^η in {d} dimensions: rank that leaves 1e-3, over that of the η before, ½ to 3½",
        "times",
        0.9,
    )
    for d in (2, 3)
}
LOW = {
    d: Check("Abstract", f"… at η = 3½ in {d} dimensions: that rank over the 600 of the matrix", "times", 0.1)
    for d in (2, 3)
}
LOGISTIC = Check(
    "Abstract", "g_1 of Appendix A, 2 to 10 inputs and labels: rank that leaves 1e-3, over 400", "times", 0.1
)
FEW = Check("Abstract", "… 2 to 5 inputs and labels: rank that leaves 1e-3, over 400", "times", 0.1)
INVERTIBLE = AtLeast(
    "(45)",
    "Φ can be inverted for uniform samples, d = 1 to 3, l = 0 to 2, two pieces or more: least share of draws",
    "times",
    50.0,
    unit="% of the draws",
)
BLOCKS = AtLeast(
    "(45)",
    "… d = 1 to 3: it can where every piece has exactly D samples, and only there: share of draws",
    "times",
    100.0,
    unit="% of the draws",
)
SINGLE = AtLeast("(45)", "… with one piece: least share of draws", "times", 100.0, unit="% of the draws")
PIECES = {
    d: AtLeast(
        "After Theorem 1",
        f"‖x − z‖^η, η = 1½ to 3½, {d} dimensions, 12 pieces a side: error of constants over that of polynomials",
        "times",
        2.0,
        unit="times that of polynomials",
    )
    for d in (2, 3)
}
CHECKS = (*PIECES.values(), *FALLS.values(), *LOW.values(), LOGISTIC, FEW, INVERTIBLE, BLOCKS, SINGLE)
ETAS = (0.5, 1.5, 2.5, 3.5)


@experiment(
    "fedlrgd-dimensions",
    paper="FedLRGD",
    place="Abstract, sections II-C and III-C",
    title="Low rank and monomials in two and three dimensions",
    takes="15 s",
)
def dimensions(seeds: Seeds, quick: bool) -> Result:
    """The quick form is the same with one seed."""
    return judged_by(CHECKS, [_measured(seed) for seed in seeds], ("A claim holds if it holds in every seed.",), quick)


def _measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 96])
    found: dict[Check, float] = {}
    for d in (2, 3):
        x, theta, signs = rng.random((600, d)), rng.random((600, d)), rng.choice([-1, 1], 600)
        far = np.linalg.norm(x[:, None] - theta, axis=2)
        ranks = [needed(signs * far**eta) for eta in ETAS]
        found[FALLS[d]] = max(later / earlier for earlier, later in pairwise(ranks))
        found[LOW[d]] = ranks[-1] / 600
        found[PIECES[d]] = min(_constants(rng, d, eta) for eta in ETAS[1:])
    worst, few = 0, 0
    for p in (2, 3, 5, 10):
        x, y, theta = rng.random((400, p)), rng.random(400), rng.uniform(-1, 1, (400, p))
        worst = max(worst, needed(gradient(x[:, None], y[:, None], theta[None])[..., 0]))
        few = worst if p <= 5 else few
    return named({**found, LOGISTIC: worst / 400, FEW: few / 400, **_monomials(rng)})


def needed(M: Array, left: float = 1e-3) -> int:
    """The least rank that leaves at most that share of the Frobenius norm."""
    energy = np.linalg.svd(M, compute_uv=False) ** 2
    rest = np.append(np.cumsum(energy[::-1])[::-1], 0.0)
    return int((rest > left**2 * rest[0]).sum())


def _constants(rng: np.random.Generator, d: int, eta: float, cells: int = 12) -> float:
    """Both fitted to 60 points in each cube: the largest error of constants over that of polynomials of degree l."""
    z, errors = rng.random(d), np.zeros(2)
    inside = rng.random((60, d))
    bases = [np.linalg.qr(monomials(inside, l))[0] for l in (0, math.ceil(eta) - 1)]  # of one shape in every cube
    for corner in product(range(cells), repeat=d):
        values = np.linalg.norm((np.array(corner) + inside) / cells - z, axis=1) ** eta
        errors = np.maximum(errors, [float(np.abs(values - Q @ (Q.T @ values)).max()) for Q in bases])
    return float(errors[0] / errors[1])


def _monomials(rng: np.random.Generator) -> dict[Check, float]:
    least, single, agreed = 100.0, 100.0, []
    for (d, finest), l, size in product(((1, 4.0), (2, 2.7), (3, 2.0)), range(3), (0.1, 1.5, math.inf)):
        q = min(size, finest)
        centres, D = covering(rng, d, q), math.comb(l + d, d)
        shares = []
        for _ in range(200):
            x = rng.random((D * len(centres), d))
            inside = np.abs(x[:, None] - centres).sum(axis=2) <= 1 / q
            own = np.where(inside.any(axis=1), inside.argmax(axis=1), len(centres))  # between points of its grid
            shares.append(_inverted(x, own, len(centres), l))
            agreed.append(shares[-1] == bool((np.bincount(own, minlength=len(centres)) == D).all()))
        share = 100 * float(np.mean(shares))
        if len(centres) > 1:
            least = min(least, share)
        else:
            single = min(single, share)
    return {INVERTIBLE: least, BLOCKS: 100 * float(np.mean(agreed)), SINGLE: single}


def _inverted(x: Array, own: Array, pieces: int, l: int) -> bool:
    """Φ of (45): a row for each monomial on each piece, a column for each sample."""
    powers = monomials(x, l)
    phi = np.hstack([powers * (own == j)[:, None] for j in range(pieces)])
    return over_rounding(phi) > 1
