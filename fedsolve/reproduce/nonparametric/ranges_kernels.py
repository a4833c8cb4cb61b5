"""Su, Xu and Yang (2023), sections 5 and 6.1 on kernels, over wide ranges of t, N, n_i, γ and s."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import Gaussian, Matern, PolynomialKernel, Sobolev
from fedsolve.numerics.early_stopping import rademacher, stopping_round
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.typing import Array

TIMES = np.unique(np.concatenate([np.arange(1, 101), np.geomspace(100, 10**6, 80).round()])).astype(int)
CASES = (
    "t = 1 to 100 and on to 10⁶, N = 20, 60 and 180, six kernels, clients with one row each, with N/4 and of 1 to N/2 "
    "rows, γ = 0.1 and 0.95, four methods"
)
FALLS = bound("After Proposition 7", "2eηts δ_1(t) is at most 1: " + CASES, "largest 2eηts δ_1(t)")
SHARP = Quantity(
    "After Proposition 7",
    "… and over these t its largest value is at least 0.8, the four kernels of full rank, so that no much smaller "
    "constant is enough for any N or kernel",
    "least of the largest 2eηts δ_1(t)",
    least=0.8,
)
BOUND = bound("Proposition 7", "E‖f_t − f‖²_N is at most (18), σ = 0.1, 0.5 and 2, truths that differ: " + CASES)
BIAS = Quantity(
    "Proposition 7",
    "… without noise the error of the worst f of norm 1 over δ_1(t) is at least 1, every tenth t, N = 20 and 60, where "
    "δ_1 is above 1e-9",
    "least error over δ_1(t)",
    least=1 - 1e-6,
)
BIAS_MOST = bound("Proposition 7", "… and at most κ", "largest error over κδ_1(t)")
NOISE = Quantity(
    "Proposition 7", "… the variance over σ²δ_2(t) is at least 1/κ", "least κ times variance over σ²δ_2", least=1 - 1e-6
)
NOISE_MOST = bound("Proposition 7", "… and at most κ, for all of these t", "largest variance over κσ²δ_2")
LEARNED = bound("Proposition 7", "δ_2(t) ≤ (1/N) Σ min{1, ηtΛ_i} ≤ ηts R²(1/√(ηts)): " + CASES)
UNEQUAL = bound(
    "Section 3, (1)",
    "noise whose variance differs from row to row, up to σ² = 1, in one client only, and drawn: E‖f_t − f‖²_N is at "
    "most (18), every t and case of Proposition 7",
)
STOPPED = bound(
    "Theorem 8", "ten t up to T, σ = 0.1, 0.5 and 2, the same N, kernels, clients and methods: at most the bound"
)
NEURAL = bound("Section 3", "… and of these, neural tangent and random features kernels")
QUANTITIES = (
    *(FALLS, SHARP, BOUND, BIAS, BIAS_MOST, NOISE, NOISE_MOST, LEARNED, UNEQUAL, STOPPED, NEURAL),
)  # fmt: skip
NOISES, GAMMAS, SHORT = (0.1, 0.5, 2.0), (0.1, 0.95), (*range(0, 100, 10), *range(100, len(TIMES), 10))
TOTALS = (20, 60, 180)
FULL_RANK = ("Gaussian", "Matérn", "min(x, y)", "neural tangent")


@dataclass(frozen=True, eq=False)
class Case:
    """A method on clients with these kernel values, the truth f of norm 1 at the rows, and truths that differ."""

    name: str
    K: Array
    found: Decomposition
    sizes: Sequence[int]
    f: Array
    truths: Array


def kernels(rng: np.random.Generator, total: int) -> dict[str, Array]:
    """Kernel matrices of `total` rows."""
    X = rng.random((total, 2))
    unit = rng.standard_normal((total, 4))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    inner = np.clip(unit @ unit.T, -1, 1)
    waves = math.sqrt(2 / 15) * np.cos(X @ rng.standard_normal((2, 15)) * 3 + rng.uniform(0, 2 * np.pi, 15))
    made = {"Gaussian": Gaussian(2.0)(X), "Matérn": Matern(1.5)(X), "min(x, y)": Sobolev()(X)}
    made |= {"polynomial": PolynomialKernel(2)(X), "random features": waves @ waves.T}
    return made | {"neural tangent": inner * (np.pi - np.arccos(inner)) / (2 * np.pi)}


def federations(total: int) -> tuple[tuple[int, ...], ...]:
    """Small, moderate and unequal clients."""
    return (1,) * total, (total // 4,) * 4, (total // 2, 1, total // 4, total - total // 2 - total // 4 - 1)


def cases(rng: np.random.Generator, totals: Sequence[int]) -> Iterator[Case]:
    for total in totals:
        for (name, K), sizes in product(kernels(rng, total).items(), federations(total)):
            c, moved = rng.standard_normal(total), rng.standard_normal((len(sizes), total))
            f = K @ c / math.sqrt(c @ K @ c)
            apart = np.array([0.3 * K @ one / math.sqrt(one @ K @ one) for one in moved])
            truths = f + apart[np.repeat(np.arange(len(sizes)), sizes), np.arange(total)]
            for share in GAMMAS:
                eta = share / gamma(K, sizes, 1.0)
                chosen: tuple[Method, ...] = (*(LocalSteps(eta, s) for s in (1, 5, 10)), ProximalStep(eta))
                for method in chosen:
                    yield Case(name, K, Decomposition.of(K, sizes, method), sizes, f, truths)


def measured(seed: int, notes: Notes, totals: Sequence[int] = TOTALS) -> None:
    """Exact expectations."""
    rng = np.random.default_rng([seed, 201])
    for case in cases(rng, totals):
        _errors(case, rng, notes)
        _stopping(case, notes)


def deltas(found: Decomposition, t: Array) -> tuple[Array, Array]:
    """δ_1(t) and δ_2(t)."""
    decays = np.clip(found.decay, 0, 1)[:, None] ** t
    Lam = np.maximum(found.eigenvalues, 0)[:, None]
    return (decays**2 * Lam).max(axis=0) / found.method.steps, np.square(1 - decays).mean(axis=0)


def _errors(case: Case, rng: np.random.Generator, notes: Notes) -> None:
    found, kappa, N = case.found, case.found.kappa, len(case.K)
    eta, s = found.method.step_size, found.method.steps
    first, second = deltas(found, TIMES)
    scaled = 2 * math.e * eta * s * TIMES * first
    notes.add(FALLS, scaled)
    if case.name in FULL_RANK:
        notes.add(SHARP, scaled.max())
    variance = found.expected_error(TIMES, np.zeros(N), sigma=1.0)
    rest = found.expected_error(TIMES, case.truths, target=case.f, sigma=0.0)
    apart = np.square(case.truths - case.f).mean()
    for sigma in NOISES:
        notes.add(BOUND, (rest + sigma**2 * variance) / (3 * kappa * (first + second * sigma**2 + apart)))
    notes.add(NOISE, kappa * variance / second)
    notes.add(NOISE_MOST, variance / (kappa * second))
    middle = np.minimum(1, eta * TIMES * np.maximum(found.eigenvalues, 0)[:, None]).mean(axis=0)
    last = [u * rademacher(found.kernel_eigenvalues, u**-0.5, N) ** 2 for u in eta * s * TIMES]
    notes.add(LEARNED, second / middle, middle / last)
    one = np.repeat(np.arange(len(case.sizes)) == 0, case.sizes).astype(float)
    for k in SHORT:
        power = (found.vectors * found.decay ** TIMES[k]) @ found.inverse
        each = np.square(np.eye(N) - power).sum(axis=0) / N
        for variances in (one, rng.random(N)):
            notes.add(UNEQUAL, (rest[k] + each @ variances) / (3 * kappa * (first[k] + second[k] + apart)))
        if N <= 60 and first[k] > 1e-9:
            worst = np.linalg.norm(power @ case.K @ power.T, 2) / N
            notes.add(BIAS, worst / first[k])
            notes.add(BIAS_MOST, worst / (kappa * first[k]))


def _stopping(case: Case, notes: Notes) -> None:
    found, apart = case.found, np.square(case.truths - case.f).mean()
    eta, s = found.method.step_size, found.method.steps
    for sigma in NOISES:
        T = stopping_round(found.kernel_eigenvalues, sigma, len(case.K), eta, s) or 0
        if T:
            some = np.unique(np.geomspace(1, T, 10).astype(int))
            limits = 3 * found.kappa * (2 / (2 * math.e * eta * s * some) + apart)
            ratios = found.expected_error(some, case.truths, target=case.f, sigma=sigma) / limits
            notes.add(STOPPED, ratios)
            if case.name in ("neural tangent", "random features"):
                notes.add(NEURAL, ratios)
