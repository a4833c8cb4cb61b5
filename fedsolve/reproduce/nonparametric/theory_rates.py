"""What Su, Xu and Yang (2023) say of rates, probabilities and constants, by draws where there is no closed form.

Where a theorem has a constant that it does not name, the rule is one about the order: an exponent over a range of N, or
that failures are rare and do not become more frequent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import gamma
from fedsolve.features.exact_kernels import ExactKernel, PolynomialKernel, Sobolev
from fedsolve.models.kernel_expansion import KernelExpansion
from fedsolve.numerics.early_stopping import stopping_round, stopping_time
from fedsolve.reproduce.checks import Check
from fedsolve.typing import Array

SIGMA = 0.5
FREEDOM = 5.0  # of Student's t, which has moments below the fifth

FASTER = Check("After Theorem 8", "s local steps need 1/s of the rounds to T, up to one round", "off", 1.0)
DECAY = Check("After Theorem 8", "ηTs grows as N^(2β/(2β+1)) if λ_i = i^(−2β), β = 1 and 2", "off", 0.02)
OPTIMAL = Check(
    "Corollary 24",
    "kernel min(x, y): ‖f_T − f*‖² falls at least as fast as N^(−0.6); the optimum is −2/3",
    "exponent",
    -0.6,
)
FINITE = Check(
    "Corollary 23",
    "finite rank: ‖f_T − f*‖² falls at least as fast as N^(−0.9), N = 6,400 to 102,400; the optimum is −1",
    "exponent",
    -0.9,
)
UNIVERSAL = Check(
    "Corollary 24", "c_3 is universal: with f* 10 times as large the error at T is at most twice as large", "times", 2.0
)
CHECKS = (FASTER, DECAY, OPTIMAL, UNIVERSAL, FINITE)


def measured(seed: int, quick: bool) -> dict[str, float]:
    """Each check's value; the quick form has fewer rows."""
    sizes = (40, 80, 160) if quick else (50, 100, 200, 400, 800)
    found = {**_stopping(), **_rates(seed, sizes)}
    return {check.claim: float(value) for check, value in found.items()}


def _stopping() -> dict[Check, float]:
    apart, off = 0.0, 0.0
    for beta in (1.0, 2.0):
        totals = np.array([1e3, 1e4, 1e5, 1e6])
        lam = np.arange(1.0, 10_001) ** (-2 * beta)
        times = [stopping_time(lam, SIGMA, total) for total in totals]
        slope = float(np.polyfit(np.log(totals), np.log(times), 1)[0])
        apart = max(apart, abs(slope - 2 * beta / (2 * beta + 1)))
        rounds = {s: stopping_round(lam, SIGMA, 1e4, 0.01, s) or 0 for s in (1, 5, 10)}
        off = max(off, *(abs(rounds[s] - rounds[1] / s) for s in (5, 10)))
    return {DECAY: apart, FASTER: off}


def posed(kernel: ExactKernel, total: int, seed: int) -> tuple[Array, tuple[int, ...], KernelExpansion]:
    """Rows in [0, 1], unequal clients, and a truth that is an expansion of the kernel."""
    rng = np.random.default_rng([seed, 12, total])
    X = rng.random((total, 1))
    sizes = (total // 2, total // 4, total // 8, total - total // 2 - total // 4 - total // 8)
    f = KernelExpansion(np.array([[0.2], [0.5], [0.9]]), np.array([2.0, -3.0, 2.0]), kernel)
    return X, sizes, f


def norms(coefficients: Array, X: Array, f: KernelExpansion) -> Array:
    """‖f_t − f‖ in the kernel's norm, a column of coefficients for each draw."""
    points = np.vstack([X, f.points])
    joined = np.vstack([coefficients, np.repeat(-f.coefficients[:, None], coefficients.shape[1], axis=1)])
    return np.sqrt(np.maximum(np.sum(joined * (f.kernel(points) @ joined), axis=0), 0.0))


def _rates(seed: int, sizes: Sequence[int]) -> dict[Check, float]:
    """The slope of the population error at T in N, the worst over methods."""
    ways = (LocalSteps, ProximalStep)
    optimal = max(_slope(sizes, [_error(total, seed, way) for total in sizes]) for way in ways)
    loud = _error(sizes[-2], seed, LocalSteps, 10.0) / _error(sizes[-2], seed, LocalSteps)
    far = [100 * 4**power * 64 for power in range(3)]
    finite = max(_slope(far, [_exact_error(total, seed, way) for total in far]) for way in ways)
    return {OPTIMAL: optimal, UNIVERSAL: loud, FINITE: finite}


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Without the x at which T is 0, where y is NaN."""
    some = [(one, value) for one, value in zip(x, y, strict=True) if not math.isnan(value)]
    return slope(*zip(*some, strict=True)) if len(some) > 1 else math.nan


def _method(way: type[LocalSteps] | type[ProximalStep], eta: float) -> Method:
    return LocalSteps(eta, 5) if way is LocalSteps else ProximalStep(eta)


def _error(total: int, seed: int, way: type[LocalSteps] | type[ProximalStep], loud: float = 1.0) -> float:
    """‖f_T − f*‖² over [0, 1] for min(x, y), the mean over 50 draws of the noise; NaN where T is 0. f* is `loud` times
    the usual one."""
    kernel = Sobolev()
    X, clients, f = posed(kernel, total, seed)
    grid = ((np.arange(500) + 0.5) / 500)[:, None]
    K, noise = kernel(X), SIGMA * np.random.default_rng([seed, 14, total]).standard_normal((total, 50))
    method = _method(way, 0.9 / gamma(K, clients, 1.0))
    T = stopping_round(np.linalg.eigvalsh(K / total), SIGMA, total, method.step_size, method.steps)
    if not T:
        return math.nan
    path = simulate(K, clients, loud * f.predict(X)[:, None] + noise, method, T, every=T)
    ends = path.values_at(kernel(grid, X))[-1] - loud * f.predict(grid)[:, None]
    return float(np.square(ends).mean())


def _exact_error(total: int, seed: int, way: type[LocalSteps] | type[ProximalStep]) -> float:
    """The same expectation for (1 + xz)², whose features are 1, √2 x and x², by these; NaN where T is 0."""
    X, clients, f = posed(PolynomialKernel(2), total, seed)
    grid = (np.arange(500) + 0.5) / 500
    blocks = np.split(_features(X[:, 0]), np.cumsum(clients)[:-1])
    H = [rows.T @ rows / len(rows) for rows in blocks]
    method = _method(way, 0.9 / max(float(np.linalg.norm(one, 2)) for one in H))
    A, noise = np.eye(3), np.zeros((3, 3))
    for one, n in zip(H, clients, strict=True):
        values, vectors = np.linalg.eigh(one)
        p = method.step_size * n / total * (vectors * method.filter(values)) @ vectors.T
        A, noise = A - p @ one, noise + p @ one @ p / n
    spectrum = np.linalg.eigvalsh(sum(n * one for one, n in zip(H, clients, strict=True)) / total)
    T = stopping_round(spectrum, SIGMA, total, method.step_size, method.steps)
    if not T:
        return math.nan
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    summed = (vectors * (-np.expm1(T * np.log(values)) / (1 - values))) @ vectors.T
    bias = (vectors * values**T) @ vectors.T @ (_features(f.points[:, 0]).T @ f.coefficients)
    spread = SIGMA**2 * summed @ noise @ summed
    return float(np.trace(_features(grid).T @ _features(grid) / len(grid) @ (np.outer(bias, bias) + spread)))


def _features(x: Array) -> Array:
    return np.stack([np.ones(len(x)), math.sqrt(2) * x, x**2], axis=1)
