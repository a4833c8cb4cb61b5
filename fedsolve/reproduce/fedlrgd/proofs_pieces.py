"""The proofs of Lemma 1 and Theorem 1 of Jadbabaie et al. (2023), on g(x; ϑ) = sin(ϑᵀx)."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product

import numpy as np

from fedsolve.complexity.low_rank import low_rank_errors
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.proofs_covers import centres
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

LAGRANGE = Check(
    "Proof of Lemma 1", "g − P is between the least and the largest Lagrange remainder over τ", "off", 1e-6
)
MULTINOMIAL = Check("Proof of Lemma 1", "Σ |(y − z)^s|/s! over |s| = l is ‖y − z‖₁^l/l!", "off", 1e-12)
POINTWISE = Check("Proof of Lemma 1", "|g − P| ≤ L_2 ‖y − z‖₁^(η − l) Σ |(y − z)^s|/s! at every point")
CLASS = Check("Section II-C", "a function with η-th derivatives up to L_2 is in the (η, L_2)-Hölder class, η = 1 to 6")
PRINTED = Check("(6)", "… and with ‖y − y'‖₁^(η − 1) in (6), as the text has it, instead of η − l (η = 3)")
ENTRIES = Check("Proof of Theorem 1, (50)", "max |M − N| is at most L_2/(l! q^η)")
FACTORS = Check("Proof of Theorem 1, (55)", "N is Σ_I 1{y ∈ I} U(y)ᵀ V_I(ϑ), monomials times coefficients", "off", 1e-8)
RANK = Check("Proof of Theorem 1, (51)", "the rank of N is at most |S| (l+d choose d)")
BEST = Check("Proof of Theorem 1", "M_r of that rank leaves no more than N: (1/nk)‖M − M_r‖² over (1/nk)‖M − N‖²")
CHECKS = (LAGRANGE, MULTINOMIAL, POINTWISE, CLASS, PRINTED, ENTRIES, FACTORS, RANK, BEST)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 33])
    return named({**_taylor(rng), **_hoelder(rng), **_models(rng)})


def wave(order: int, t: Array) -> Array:
    """The derivative of the sine."""
    return np.asarray(np.sin(t + order * np.pi / 2))


def powers(d: int, most: int) -> list[tuple[int, ...]]:
    """Multi-indices s with |s| ≤ most."""
    chosen = [one for size in range(most + 1) for one in combinations_with_replacement(range(d), size)]
    return [tuple(one.count(i) for i in range(d)) for one in chosen]


def _taylor(rng: np.random.Generator) -> dict[Check, float]:
    outside, multi, point = 0.0, 0.0, 0.0
    tau = np.linspace(0, 1, 2001)
    for d, eta in product((1, 2, 3), range(1, 7)):
        degree = eta - 1
        for _ in range(20):
            theta, z, y = rng.uniform(-3, 3, d), rng.random(d), rng.random(d)
            at, step, far = theta @ z, theta @ (y - z), float(np.abs(y - z).sum())
            terms = [wave(k, at) * step**k / math.factorial(k) for k in range(degree + 1)]
            rest = float(np.sin(theta @ y) - sum(terms))
            lagrange = (wave(degree, at + tau * step) - wave(degree, at)) * step**degree / math.factorial(degree)
            outside = max(outside, rest - lagrange.max(), lagrange.min() - rest)
            each = [s for s in powers(d, degree) if sum(s) == degree]
            total = sum(float(np.prod(np.abs(y - z) ** s)) / math.prod(map(math.factorial, s)) for s in each)
            multi = max(multi, abs(total / (far**degree / math.factorial(degree)) - 1))
            point = max(point, (abs(rest) - 1e-14) / (np.abs(theta).max() ** eta * far * total))
    return {LAGRANGE: max(outside, 1e-16), MULTINOMIAL: multi, POINTWISE: point}


def _hoelder(rng: np.random.Generator) -> dict[Check, float]:
    """∇^s g = ϑ^s sin^(l)(ϑᵀx), |s| = l; L₂ = max|ϑ_i|^η. Near points, too."""
    fair, printed = 0.0, 0.0
    for d, eta in product((1, 2, 3), range(1, 7)):
        theta, x = rng.uniform(-3, 3, d), rng.random((2, 2000, d))
        x[1, ::2] = np.clip(x[0, ::2] + 0.001 * rng.standard_normal((1000, d)), 0, 1)
        apart = np.abs(wave(eta - 1, x[0] @ theta) - wave(eta - 1, x[1] @ theta))
        steep = max(abs(float(np.prod(theta**s))) for s in np.array(powers(d, eta - 1)) if sum(s) == eta - 1)
        far, L_2 = np.abs(x[0] - x[1]).sum(axis=1), np.abs(theta).max() ** eta
        fair = max(fair, float((apart * steep / (L_2 * far)).max()))
        if eta == 3:
            printed = max(printed, float((apart * steep / (L_2 * far ** (eta - 1))).max()))
    return {CLASS: fair, PRINTED: printed}


def _models(rng: np.random.Generator) -> dict[Check, float]:
    """N from the monomials of the proof, their coefficients expanded about 0 from those about the centres."""
    entries, factors, ranks, best = 0.0, 0.0, 0.0, 0.0
    for d, eta, cells in ((1, 2, 2), (1, 3, 4), (2, 2, 2), (2, 3, 2), (3, 2, 2)):
        theta, y, z = rng.uniform(-3, 3, (150, d)), rng.random((200, d)), centres(cells, d)
        own = np.abs(y[:, None] - z).max(axis=2).argmin(axis=1)
        step, at = (y - z[own]) @ theta.T, z[own] @ theta.T
        N = sum(wave(k, at) * step**k / math.factorial(k) for k in range(eta))
        M, q = np.sin(y @ theta.T), 2 * cells / d
        entries = max(entries, np.abs(M - N).max() * math.factorial(eta - 1) * q**eta / np.abs(theta).max() ** eta)
        U = np.array([np.prod(y**s, axis=1) for s in powers(d, eta - 1)]).T
        made = np.zeros_like(N)
        for j, centre in enumerate(z):  # V_I by fitting the polynomial at points of its own
            points = rng.random((len(powers(d, eta - 1)) * 3, d))
            values = sum(
                wave(k, theta @ centre) * ((points - centre) @ theta.T) ** k / math.factorial(k) for k in range(eta)
            )
            basis = np.array([np.prod(points**s, axis=1) for s in powers(d, eta - 1)]).T
            V = np.linalg.lstsq(basis, values, rcond=None)[0]
            made += (own == j)[:, None] * (U @ V)
        factors = max(factors, float(np.abs(made - N).max()))
        rank, most = int(np.linalg.matrix_rank(N, tol=1e-9 * np.linalg.norm(N, 2))), len(z) * U.shape[1]
        ranks = max(ranks, rank / most)
        best = max(best, low_rank_errors(M)[rank] / np.mean((M - N) ** 2))
    return {ENTRIES: entries, FACTORS: factors, RANK: ranks, BEST: best}
