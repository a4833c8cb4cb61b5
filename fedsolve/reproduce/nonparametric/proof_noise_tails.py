"""Lemma 27 and Theorem 10 of Su, Xu and Yang (2023), sub-Gaussian noise: with which probability the noise is large.

Neither bound fails in any draw. Their probability, 1 − exp(−cN/(σ²ηts)) with one c for every kernel, method, noise and
t, shows in smaller events of the proofs, whose other constants change c and nothing else: of Lemma 27 that
‖Σ 𝓛^τ(ξ·Ψ)‖², which is ξᵀΣξ with a mean of at most 1/(2e), is above ¼ instead of 1/e, or above its mean by a tenth of
the proof's δ = 1/(2e); of Theorem 10 that ‖(I − L^t)ξ‖² is above its mean by a tenth of the proof's δ = Nκ/(eηts).

A share counts if at least TEN draws make it. If fewer do, it is below TEN/DRAWS, and says no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import Matern, Sobolev
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_rates import posed
from fedsolve.typing import Array

CASES = (
    "N = 12 to 192, σ = 0.1 to 2, t = T/10, T/3 and T, Gaussian, uniform and Rademacher noise, s = 1, 5 and 10 and "
    "FedProx, min(x, y) and Matérn, where T ≥ 1"
)
QUARTER = Quantity(
    "Lemma 27",
    "−log of the share of draws with ‖Σ 𝓛^τ(ξ·Ψ)‖² above ¼ is at least 0.1 N/(σ²ηts), where it can be counted: "
    + CASES,
    "−log of the share over N/(σ²ηts)",
    least=0.1,
)
ABOVE_MEAN = Quantity(
    "Lemma 27",
    "… and of draws in which it is above its mean by a tenth of the proof's δ = 1/(2e), at least 0.01 N/(σ²ηts)",
    "−log of the share over N/(σ²ηts)",
    least=0.01,
)
REACHED = Quantity(
    "Lemma 27",
    "… and the shares above ¼ that can be counted have exponents N/(σ²ηts) over a range of at least a factor of 5",
    "largest over least exponent",
    least=5.0,
)
THEOREM_10 = Quantity(
    "Theorem 10",
    "−log of the share of draws with ‖(I − L^t)ξ‖² above its mean by a tenth of δ = Nκ/(eηts) is at least 0.01 "
    "N/(σ²ηts), where it can be counted: " + CASES,
    "−log of the share over N/(σ²ηts)",
    least=0.01,
)
QUANTITIES = (QUARTER, ABOVE_MEAN, REACHED, THEOREM_10)
TOTALS, NOISES, SHARES = (12, 24, 48, 96, 192), (0.1, 0.5, 1.0, 2.0), (10, 3, 1)  # t = T/10, T/3 and T
DRAWS, TEN = 4000, 10


def measured(seed: int, notes: Notes, draws: int = DRAWS) -> None:
    """The same draws of the noise for every kernel, method and σ."""
    rng = np.random.default_rng([seed, 141])
    exponents = []
    for total in TOTALS:
        noise = laws(rng, total, draws)
        for found in federations(total, seed):
            learned = [found.inverse @ one for one in noise]  # V⁻¹ξ for σ = 1
            squares = [np.square(one) for one in learned]
            for sigma, t in times(found):
                u = found.method.step_size * found.method.steps * t
                exponent = total / (sigma**2 * u)
                weights = sigma**2 * norm_weights(found, t)
                mean = float(weights @ np.square(found.inverse).sum(axis=1))
                for some in squares:
                    drawn = weights @ some
                    for quantity, level in ((QUARTER, 0.25), (ABOVE_MEAN, mean + 0.1 / (2 * math.e))):
                        if ratio := counted(drawn > level, exponent):
                            notes.add(quantity, ratio)
                            if quantity is QUARTER:
                                exponents.append(exponent)
                margin = 0.1 * total * found.kappa / (math.e * u)
                left = sigma * found.vectors * (1 - found.decay**t)
                mean = float(np.square(left @ found.inverse).sum())
                for one in learned:
                    if ratio := counted(np.square(left @ one).sum(axis=0) > mean + margin, exponent):
                        notes.add(THEOREM_10, ratio)
    notes.add(REACHED, max(exponents) / min(exponents))


def laws(rng: np.random.Generator, total: int, draws: int) -> tuple[Array, ...]:
    """Gaussian, uniform and Rademacher noise of variance 1, a column for each draw."""
    shape = (total, draws)
    half = math.sqrt(3)
    return rng.standard_normal(shape), rng.uniform(-half, half, shape), rng.choice([-1.0, 1.0], shape)


def federations(total: int, seed: int) -> Iterator[Decomposition]:
    """Two kernels, and six methods with γ = 0.3 or 0.9."""
    for kernel in (Sobolev(), Matern(1.5)):
        X, sizes, _ = posed(kernel, total, seed)
        K = kernel(X)
        eta = 1 / gamma(K, sizes, 1.0)
        chosen: tuple[Method, ...] = (
            *(LocalSteps(0.3 * eta, s) for s in (1, 5, 10)),
            *(LocalSteps(0.9 * eta), LocalSteps(0.9 * eta, 5), ProximalStep(0.9 * eta)),
        )
        for method in chosen:
            yield Decomposition.of(K, sizes, method)


def times(found: Decomposition) -> Iterator[tuple[float, int]]:
    """σ and t: T/10, T/3 and T, where they are 1 or more."""
    for sigma in NOISES:
        T = stopping_round(found.kernel_eigenvalues, sigma, found.samples, found.method.step_size, found.method.steps)
        yield from ((sigma, t) for t in sorted({(T or 0) // share for share in SHARES}) if t)


def norm_weights(found: Decomposition, t: int) -> Array:
    """w with ‖Σ 𝓛^τ(ξ·Ψ)‖² = Σ w_j (V⁻¹ξ)_j²: the values at the rows are V(I − D^t)V⁻¹ξ, and K = N VΛVᵀ."""
    lam = np.maximum(found.eigenvalues, 0.0)
    # 1 − D^t is at most tηΛ, so that w is 0 where Λ is.
    moved = -np.expm1(t * np.log1p(-found.method.step_size * lam))
    w = np.divide(np.square(moved), lam, out=np.zeros_like(lam), where=lam > 0)
    return np.asarray(w / found.samples)


def counted(above: Array, exponent: float) -> float:
    """−log of the share of draws over the exponent; 0 if it cannot be counted."""
    count = int(above.sum())
    return -math.log(count / len(above)) / exponent if TEN <= count < len(above) else 0.0
