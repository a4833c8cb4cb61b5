"""Lines and asides of the proofs of Theorems 1 and 2 of Jadbabaie et al. (2023) tested as a whole elsewhere."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.complexity.low_rank import piecewise_polynomial_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_gradients import ETA, Q, R, lines_59
from fedsolve.reproduce.fedlrgd.proofs_waves import functions, norm
from fedsolve.reproduce.fedlrgd.remarks_smoothness import ETAS, constant, derivative
from fedsolve.reproduce.fedlrgd.theory_orders import problems
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

SAME = Check("Proof of Theorem 2, (53)", "(53): its first lines, up to the one with Σ_j w_jk, are equal", "off", 1e-9)
CHAIN = Check("Proof of Theorem 2, (53)", "lines three to five of (53): each is at most the next")
ONLY_59 = Check(
    "Proof of Theorem 2, after (59)",
    "where ‖G⁻¹‖ r L_2 > l! q^η: draws in which the first line of (59) is at most line (vii)",
    "failures",
    0.0,
)
ONLY_60 = Check(
    "Proof of Theorem 2, after (60)",
    "where L_2 r^(α + 1) > l! q^η: draws in which the first line of (60) is at most line (vii)",
    "failures",
    0.0,
)
LAST_60 = Check("Proof of Theorem 2, after (60)", "… and draws in which it is at most line (viii)", "failures", 0.0)
WITH_64 = Check(
    "Proof of Theorem 2, (64)",
    "δ of (64) makes the last line of (63) (1 − 1/κ)^S (F(θ⁽⁰⁾) − F* + 9(B + 3)⁴p/2μ)",
    "off",
    1e-12,
)
NEEDED = AtLeast(
    "Proof of Theorem 2, after (65)",
    "Lemma 1 needs q ≥ 1: its largest error over its bound, q = ¼, ½ and 0.9, least over η",
    "times",
    unit="of the bound",
)
EITHER = Check(
    "Proof of Theorem 1",
    "r ≥ e√d 2^d (l + d)^d ⇔ x − 1 ≥ x/2, r > d!(l+d choose d) ⇔ q > 0: cases where one side is true only",
    "failures",
    0.0,
)
IMPLIED = AtLeast(
    "Proof of Theorem 1",
    "r ≥ e√d 2^d (l + d)^d: the least r over e√d (l + d)^d and over d!(l+d choose d)",
    "times",
    1.000001,
    unit="times",
)
CHECKS = (SAME, CHAIN, ONLY_59, ONLY_60, LAST_60, WITH_64, NEEDED, EITHER, IMPLIED)
OWN, CLIENTS, SAMPLES, DRAWS = 5, 10, 4, 20


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 71])
    return named({**_lines_53(rng), **_outside(rng), WITH_64: _with_64(), NEEDED: _coarse(rng), **_equivalences()})


def lines_53(g: tuple[Array, Array], G: tuple[Array, Array]) -> tuple[list[float], list[float]]:
    """At one θ: what is equal, then lines three to five. g and G are rows of the server and of clients' samples."""
    (own, x), (at_own, at_x), n = g, G, len(g[0]) + len(g[1])
    inverse = np.linalg.inv(at_own)
    v = np.array([part.sum(axis=0) @ inverse for part in at_x.reshape(CLIENTS, SAMPLES, -1)])  # (35)
    w = at_x @ inverse  # (38)
    by_client = w.reshape(CLIENTS, SAMPLES, -1).sum(axis=1).sum(axis=0)
    first = (own.sum() + x.sum()) / n - (1 + v.sum(axis=0)) @ own / n  # (32) less (41)
    second = (own.sum() + sum(part.sum() for part in x.reshape(CLIENTS, SAMPLES)) - own @ (1 + by_client)) / n
    third = (np.concatenate([own, x]).sum() - own @ (1 + w.sum(axis=0))) / n
    fourth = (x.sum() - own @ w.sum(axis=0)) / n
    each = np.abs(x - w @ own)
    return [float(one) for one in (first, second, third, fourth)], [abs(fourth), each.sum() / n, each.max()]


def _lines_53(rng: np.random.Generator) -> dict[Check, float]:
    """The logistic loss of Appendix A, p = 2, i = 1, five samples of the server, ten clients of four."""
    off, chain = 0.0, 0.0
    for _ in range(DRAWS):
        rows = [(rng.random((k, 2)), rng.random(k)) for k in (OWN, CLIENTS * SAMPLES)]
        places = rng.uniform(-1, 1, (OWN + 1, 2))
        own, x = (gradient(X[:, None], y[:, None], places[None])[..., 0] for X, y in rows)
        same, lines = lines_53((own[:, 0], x[:, 0]), (own[:, 1:], x[:, 1:]))
        scale = float(np.abs(x[:, 1:] @ np.linalg.inv(own[:, 1:])).max()) + 1
        off = max(off, (max(same) - min(same)) / scale)
        chain = max(chain, *(one / other for one, other in pairwise(lines)))
    return {SAME: off, CHAIN: chain}


def _outside(rng: np.random.Generator) -> dict[Check, float]:
    """As in `proofs_gradients`, where the conditions that (59) and (60) need do not hold; at least 50 draws of each."""
    found: dict[Check, list[bool]] = {ONLY_59: [], ONLY_60: [], LAST_60: []}
    own = np.array([0.0, 1.0])
    for _ in range(400):
        g, x = functions(rng, R, 10 ** rng.uniform(-0.3, 1), 10 ** rng.uniform(-1, 2)), rng.random(1)
        G, T, gap = g.at(own), g.taylor(own), g.L_2 / Q**ETA
        size = norm(np.linalg.inv(G))
        if size * R * gap > 1.01:
            lines = lines_59(g.at(x)[0], g.taylor(x)[0], G, T, gap, g.bound)
            found[ONLY_59].append(lines[0] <= lines[6])
        power = R ** (max(1.0, math.log2(size)) + 1)
        if gap * power > 1.01:
            theta = functions(rng, 1, 1.0, g.L_2)
            B, w = max(g.bound, theta.bound), g.at(x) @ np.linalg.inv(G)
            error = float(np.abs(theta.at(x) - w @ theta.at(own)).max())
            inner = gap * power + gap * power**2 * (B + gap) / (1 - gap * power)
            found[ONLY_60].append(error <= gap * (1 + B * power) + (B + gap) * inner)
            found[LAST_60].append(error <= gap * power**2 * (2 + B + gap) ** 2 * (1 / (1 - gap * power) + 1))
    return {check: float(np.mean(each)) if len(each) >= 50 else math.nan for check, each in found.items()}


def _with_64() -> float:
    off = 0.0
    for one, S in product(problems(), (1, 20, 300)):
        shrink, constant_ = 1 - 1 / one.kappa, 9 * (one.B + 3) ** 4 * one.p / (2 * one.mu)
        delta = shrink ** (S / 2)
        whole = shrink**S * one.spread
        off = max(off, abs(shrink**S * (one.spread - constant_) + constant_ * delta**2 - whole) / whole)
    return off


def _coarse(rng: np.random.Generator) -> float:
    """c(ϑ)|x − ϑ|^η with one piece, whose ball of radius 1/q around ½ is larger than [0, 1]."""
    x, theta, least = rng.random(300), rng.random(300), math.inf
    for eta, q in product(ETAS, (0.25, 0.5, 0.9)):
        step, t = (x - 0.5)[:, None], 0.5 - theta
        taylor = sum(derivative(eta, k, t) * step**k / math.factorial(k) for k in range(math.floor(eta) + 1))
        error = float(np.abs(np.abs(x[:, None] - theta) ** eta - taylor).max())
        least = min(least, error / piecewise_polynomial_bound(q, eta, constant(eta)))
    return least


def _equivalences() -> dict[Check, float]:
    """Of both ⇔ near and far from their edges, d ≤ 8 and l ≤ 12; with l, as in the proof of Theorem 1."""
    wrong, least = [], math.inf
    for d, l, factor in product(range(1, 9), range(13), (0.3, 0.999, 1.001, 3.0, 1e6)):
        low = math.e * math.sqrt(d) * float(l + d) ** d
        count = math.factorial(d) * math.comb(l + d, d)
        edge = low * 2**d
        x = (factor * edge / low) ** (1 / d)
        wrong.append((factor >= 1) != (x - 1 >= x / 2))
        wrong.append((factor * count > count) != ((factor * count / count) ** (1 / d) - 1 > 0))
        if factor >= 1:
            least = min(least, factor * edge / low, factor * edge / count)
    return {EITHER: float(np.mean(wrong)), IMPLIED: least}
