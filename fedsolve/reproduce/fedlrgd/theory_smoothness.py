"""Smoothness and low rank in Jadbabaie et al. (2023): Appendix A, assumptions, Lemma 1, Theorem 1."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.complexity.low_rank import least_rank, low_rank_bound, low_rank_errors, piecewise_polynomial_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

MU, PAIRS = 0.1, 20_000
SMOOTH = Check("Appendix A, (68)", "the gradient of the loss is Lipschitz in θ with L_1 = (d − 1)/2 + μ")
CONVEX = Check("Appendix A, 2", "the loss is μ-strongly convex in θ: no curvature is below μ", "off", 1e-12)
HOELDER = Check("Appendix A, (72)", "each entry of the gradient is in the (2, 1)-Hölder class, |θ_i| ≤ 1")
PARTS = Check("Appendix A, (70)", "… with the constants ¾ and 1, ½, and 1 of the three cases")
NORMS = Check("Section II-C", "a Hölder condition in another ℓ^q norm holds in ℓ¹, too: ‖x‖_q is at most ‖x‖₁")
PIECES = Check("Lemma 1", "piecewise Taylor polynomials are within L_2/(l! q^η) of g, d = 1 and 2, η = 1 to 6")
RANK = Check("Theorem 1", "(1/nk) ‖M − M_r‖² is at most the bound, d = 1 and 2, η = 1 to 6, every rank it is for")
SHARP = Check("Proof of Theorem 1", "… and at most the sharper bound of the proof, from d! (l+d choose d) on")
STIRLING = Check("Proof of Theorem 1, (52)", "d! (l+d choose d) is at most e√d (l + d)^d, d ≤ 20 and l ≤ 50")
COVER = Check(
    "Proof of Theorem 1", "[0, 1]^d has a cover by ℓ¹-balls of radius 1/q of at most d! (q + 1)^d balls, d ≤ 3"
)
SINGULAR = AtLeast(
    "Assumption 4",
    "every G⁽ⁱ⁾ of distinct samples and parameters can be inverted, r ≤ 12: least singular value over rounding",
    "times",
    unit="times rounding",
)
CONDITION = Check(
    "Assumption 5, (8)", "‖G⁻¹‖ ≤ r^α: the α that r = 12 needs is at most 1.2 times that of r = 4", "times", 1.2
)
CHECKS = (
    *(SMOOTH, CONVEX, HOELDER, PARTS, NORMS, PIECES, RANK, SHARP, STIRLING, COVER, SINGULAR, CONDITION),
)  # fmt: skip


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 21])
    found = {**_appendix_a(rng), **_lemma_1(rng), **_theorem_1(rng), **_counts(), **_matrices(rng)}
    return named(found)


def sigmoid(t: Array) -> Array:
    return 1 / (1 + np.exp(-t))


def gradient(x: Array, y: Array, theta: Array) -> Array:
    return (sigmoid((x * theta).sum(axis=-1)) - y)[..., None] * x + MU * theta


def derivatives(x: Array, y: Array, theta: Array) -> Array:
    """∇^s g_1 for the d orders s of size 1: by x_1, by the other inputs, by y (equation 69)."""
    share = sigmoid((x * theta).sum(axis=-1))
    found = theta * (x[:, :1] * (share * (1 - share))[:, None])
    found[:, 0] += share - y
    return np.column_stack([found, -x[:, 0]])


def _appendix_a(rng: np.random.Generator) -> dict[Check, float]:
    smooth, curved, whole, parts, norms = 0.0, 0.0, 0.0, 0.0, 0.0
    for d in (2, 3, 6):
        x, y = rng.random((2, PAIRS, d - 1)), rng.random((2, PAIRS))
        x[1, ::2] = np.clip(x[0, ::2] + 0.01 * rng.standard_normal((PAIRS // 2, d - 1)), 0, 1)  # near, too
        theta = rng.uniform(-1, 1, (2, PAIRS, d - 1))
        moved = np.linalg.norm(gradient(x[0], y[0], theta[0]) - gradient(x[0], y[0], theta[1]), axis=1)
        smooth = max(smooth, (moved / np.linalg.norm(theta[0] - theta[1], axis=1)).max() / ((d - 1) / 2 + MU))
        share = sigmoid((x[0] * theta[0]).sum(axis=1))
        curvature = [
            np.linalg.eigvalsh(s * (1 - s) * np.outer(row, row) + MU * np.eye(d - 1))[0]
            for s, row in zip(share[:500], x[0], strict=False)
        ]
        curved = max(curved, MU - min(curvature))
        apart = np.abs(derivatives(x[0], y[0], theta[0]) - derivatives(x[1], y[1], theta[0]))
        inputs, labels = np.abs(x[0] - x[1]).sum(axis=1), np.abs(y[0] - y[1])
        whole = max(whole, (apart.max(axis=1) / (inputs + labels)).max())
        cases = [apart[:, 0] / (0.75 * inputs + labels), apart[:, -1] / np.abs(x[0] - x[1])[:, 0]]
        cases += [apart[:, j] / (0.5 * inputs) for j in range(1, d - 1)]
        parts = max(parts, *(float(one.max()) for one in cases))
        norms = max(norms, *(float((np.linalg.norm(x[0] - x[1], q, axis=1) / inputs).max()) for q in (2, 3, np.inf)))
    return {SMOOTH: smooth, CONVEX: max(curved, 0.0), HOELDER: whole, PARTS: parts, NORMS: norms}


def _ridge(rng: np.random.Generator, d: int) -> tuple[Array, float]:
    """g(x; ϑ) = sin(ϑᵀx): its derivatives of order η are at most L_2 = max|ϑ_i|^η."""
    theta = rng.uniform(-3, 3, (40, d))
    return theta, float(np.abs(theta).max())


def _lemma_1(rng: np.random.Generator) -> dict[Check, float]:
    worst = 0.0
    for d, eta, cells in product((1, 2), range(1, 7), (1, 2, 4, 8)):
        theta, steep = _ridge(rng, d)
        y = rng.random((400, d))
        centres = (np.floor(np.minimum(y, 1 - 1e-12) * cells) + 0.5) / cells
        q = 2 * cells / d  # a cube of side 1/cells is within an ℓ¹-ball of this 1/radius
        at, step = centres @ theta.T, (y - centres) @ theta.T
        taylor = sum(np.sin(at + k * np.pi / 2) * step**k / math.factorial(k) for k in range(eta))  # degree η − 1
        worst = max(worst, np.abs(np.sin(y @ theta.T) - taylor).max() / piecewise_polynomial_bound(q, eta, steep**eta))
    return {PIECES: worst}


def _theorem_1(rng: np.random.Generator) -> dict[Check, float]:
    plain, sharp = 0.0, 0.0
    for d, n in ((1, 120), (2, 300)):
        theta = rng.uniform(-3, 3, (n, d))
        errors, steep = low_rank_errors(np.sin(rng.random((n, d)) @ theta.T)), float(np.abs(theta).max())
        for eta in range(1, 7):
            first = math.ceil(least_rank(eta, d))
            plain = max(plain, *(errors[r] / low_rank_bound(r, eta, steep**eta, d) for r in range(first, n + 1)), 0.0)
            fewest = math.factorial(d) * math.comb(eta - 1 + d, d) + 1
            bounds = [low_rank_bound(r, eta, steep**eta, d, sharp=True) for r in range(fewest, n + 1)]
            sharp = max(sharp, *(errors[fewest + k] / bound for k, bound in enumerate(bounds)), 0.0)
    return {RANK: plain, SHARP: sharp}


def _counts() -> dict[Check, float]:
    ratios = [
        math.exp(math.lgamma(d + 1) + math.log(math.comb(d + l, d)) - 1 - 0.5 * math.log(d) - d * math.log(l + d))
        for d in range(1, 21)
        for l in range(51)
    ]
    # Cubes of side 2/(dq) lie in ℓ¹-balls of radius 1/q.
    covers = [math.ceil(d * q / 2) ** d / (math.factorial(d) * (q + 1) ** d) for d in (1, 2, 3) for q in range(1, 50)]
    return {STIRLING: max(ratios), COVER: max(covers)}


def _matrices(rng: np.random.Generator) -> dict[Check, float]:
    """Of the logistic loss of Appendix A with soft labels: samples in [0, 1]³, parameters in [−1, 1]²."""
    needed: dict[int, list[float]] = {4: [], 12: []}
    singular = math.inf
    for r in (2, 4, 6, 8, 10, 12):
        for _ in range(20):
            x, y, theta = rng.random((r, 2)), rng.random(r), rng.uniform(-1, 1, (r, 2))
            G = gradient(x[:, None, :], y[:, None], theta[None])[..., 0]
            scales = np.linalg.svd(G, compute_uv=False)
            singular = min(singular, float(scales[-1] / (np.finfo(float).eps * r * scales[0])))
            if r in needed:
                needed[r].append(-math.log(max(scales[-1], 1e-300)) / math.log(r))
    return {SINGULAR: singular, CONDITION: float(np.median(needed[12]) / np.median(needed[4]))}
