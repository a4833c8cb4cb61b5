"""What Su, Xu and Yang (2023) say of rates, probabilities and constants, by draws where there is no closed form.

Where a theorem has a constant that it does not name, the rule is one about the order: an exponent over a range of N, or
that failures are rare and do not become more frequent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedsolve.closed_forms.bounds import early_stopping_bound
from fedsolve.closed_forms.gain import expected_gain
from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import ExactKernel, PolynomialKernel, Sobolev
from fedsolve.models.kernel_expansion import KernelExpansion
from fedsolve.numerics.early_stopping import stopping_round, stopping_time
from fedsolve.reproduce.checks import Check
from fedsolve.typing import Array

SIGMA = 0.5
RARE = 0.01
FREEDOM = 5.0  # of Student's t, which has moments below the fifth

KAPPA = Check(
    "After Lemma 5", "κ − 1 is below 0.01 for γ = 0.001 and s ≤ 10, and κ rises with γ and with s", "off", 0.01
)
NTK = Check("Remark 6", "with the neural tangent kernel FedAvg and FedProx attain zero training error", "off", 1e-6)
LEARNED = Check("After Proposition 7", "δ_2(t) never falls and ends at 1: noise is fitted in the end", "off", 1e-6)
FASTER = Check("After Theorem 8", "s local steps need 1/s of the rounds to T, up to one round", "off", 1.0)
DECAY = Check("After Theorem 8", "ηTs grows as N^(2β/(2β+1)) if λ_i = i^(−2β), β = 1 and 2", "off", 0.02)
STRONGER = Check("(17)", "the error at the rows is at most that in the kernel's norm times max k(x, x)")
GAUSSIAN = Check("Theorem 10", "Gaussian noise: the bound with +3 fails rarely before T", "failures", RARE)
HEAVY = Check("Theorem 10", "Student's t with 5 degrees of freedom: it fails rarely, too", "failures", RARE)
FEWER = Check("Theorem 10", "for both it fails no more often with 8 times as many rows", "failures", 0.0)
NORM = Check("Lemma 27", "‖f_t − f‖ is above ‖f_0 − f‖ + 1 + √(ηst/N) ‖Δ_f‖ rarely up to T", "failures", RARE)
OPTIMAL = Check(
    "Corollary 24",
    "kernel min(x, y): ‖f_T − f*‖² falls at least as fast as N^(−0.6); the optimum is −2/3",
    "exponent",
    -0.6,
)
FINITE = Check(
    "Corollary 23", "finite rank: ‖f_T − f*‖² falls at least as fast as N^(−0.9); the optimum is −1", "exponent", -0.9
)
FAR = Check("Corollary 23", "… and from N = 6,400 to 102,400 at least as fast as N^(−0.9)", "exponent", -0.9)
UNIVERSAL = Check(
    "Corollary 24", "c_3 is universal: with f* 10 times as large the error at T is at most twice as large", "times", 2.0
)
STRINGENT = Check(
    "Section 2.1", "one row per client: the bounded dissimilarity needs B of at least 0.9 √d", "times", 1 / 0.9
)
COUPONS = Check(
    "Section 6.2.2",
    "rows on lines: d log d clients cover all d directions in at least a quarter of trials",
    "times",
    1.0,
)
TOO_FEW = Check("Section 6.2.2", "… and d clients never do", "failures", 0.0)
LARGEST = Check("After Theorem 16", "with Γ = 0 the gain is at least half of min{N/n_j, N/d}", "times", 2.0)
FALLS = Check("After Theorem 16", "the gain falls as Γ grows", "off", 0.0)
CHECKS = (
    *(STRINGENT, KAPPA, NTK, STRONGER, LEARNED, FASTER, DECAY, GAUSSIAN, HEAVY, FEWER, NORM, OPTIMAL, UNIVERSAL),
    *(FINITE, FAR, COUPONS, TOO_FEW, LARGEST, FALLS),
)  # fmt: skip


def measured(seed: int, quick: bool) -> dict[str, float]:
    """Each check's value; the quick form has fewer draws."""
    draws = 200 if quick else 2000
    sizes = (40, 80, 160) if quick else (50, 100, 200, 400, 800)
    found = {
        **_constants(),
        **_tangent_kernel(seed),
        **_stopping(),
        **_probabilities(seed, draws),
        **_rates(seed, sizes),
        **_dissimilarity(seed),
        **_coupons(seed, draws // 10),
        **_gains(seed),
    }
    return {check.claim: float(value) for check, value in found.items()}


def _constants() -> dict[Check, float]:
    steps, gammas = (1, 2, 5, 10), (1e-3, 0.1, 0.5, 0.9)
    table = np.array([[LocalSteps(1.0, s).kappa(g) for g in gammas] for s in steps])
    proximal = np.array([ProximalStep(1.0).kappa(g) for g in gammas])
    falls = min(np.diff(table, axis=0).min(), np.diff(table, axis=1).min(), np.diff(proximal).min())
    small = max(table[:, 0].max(), proximal[0]) - 1
    return {KAPPA: math.inf if falls < -1e-12 else small}


def _tangent_kernel(seed: int) -> dict[Check, float]:
    """k(x, y) = E[h'(wᵀx) h'(wᵀy)] = (π − angle)/2π for the ReLU network of two layers."""
    rng = np.random.default_rng([seed, 11])
    X, sizes = rng.standard_normal((20, 4)), (9, 1, 6, 4)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    K = (np.pi - np.arccos(np.clip(unit @ unit.T, -1, 1))) / (2 * np.pi)
    y, eta = rng.standard_normal(20), 0.9 / gamma(K, sizes, 1.0)
    left, learned = 0.0, []
    for method in (LocalSteps(eta), LocalSteps(eta, 5), ProximalStep(eta)):
        found = Decomposition.of(K, sizes, method)
        left = max(left, float(np.abs(found.values(y, 10**7) - y).max()))
        path = np.array([np.square(1 - found.decay**t).mean() for t in 2 ** np.arange(0, 24)])
        learned.append(max(abs(1 - path[-1]), -np.diff(path).min()))
    return {NTK: left, LEARNED: max(learned)}


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


def _posed(kernel: ExactKernel, total: int, seed: int) -> tuple[Array, tuple[int, ...], KernelExpansion]:
    """Rows in [0, 1], unequal clients, and a truth that is an expansion of the kernel."""
    rng = np.random.default_rng([seed, 12, total])
    X = rng.random((total, 1))
    sizes = (total // 2, total // 4, total // 8, total - total // 2 - total // 4 - total // 8)
    f = KernelExpansion(np.array([[0.2], [0.5], [0.9]]), np.array([2.0, -3.0, 2.0]), kernel)
    return X, sizes, f


def _probabilities(seed: int, draws: int) -> dict[Check, float]:
    rng = np.random.default_rng([seed, 13])
    shares: dict[int, tuple[float, float]] = {}
    norms, stronger = 0.0, 0.0
    for total in (24, 192):
        X, sizes, f = _posed(Sobolev(), total, seed)
        K = Sobolev()(X)
        method = LocalSteps(0.9 / gamma(K, sizes, 1.0), 5)
        found = Decomposition.of(K, sizes, method)
        T = stopping_round(found.kernel_eigenvalues, SIGMA, total, method.step_size, method.steps) or 1
        bound = early_stopping_bound(T, method, found.kappa, f.norm, norm=math.sqrt(3))
        noises = (
            SIGMA * rng.standard_normal((total, draws)),
            SIGMA / math.sqrt(FREEDOM / (FREEDOM - 2)) * rng.standard_t(FREEDOM, (total, draws)),
        )
        failed = []
        for noise in noises:
            ends = found.values(f.predict(X)[:, None] + noise, T) - f.predict(X)[:, None]
            failed.append(float((np.square(ends).mean(axis=0) >= bound).mean()))
        shares[total] = failed[0], failed[1]
        few = noises[0][:, :200]
        path = simulate(K, sizes, f.predict(X)[:, None] + few, method, T, every=T)
        distances = _norms(path.coefficients[-1], X, f)
        norms = max(norms, float((distances > f.norm + 1).mean()))
        at_rows = np.square(path.values[-1] - f.predict(X)[:, None]).max(axis=0)
        stronger = max(stronger, float((at_rows / (distances**2 * np.diag(K).max())).max()))
    more = max(0.0, *(shares[192][i] - shares[24][i] for i in (0, 1)))
    worst = [max(shares[24][i], shares[192][i]) for i in (0, 1)]
    return {GAUSSIAN: worst[0], HEAVY: worst[1], FEWER: more, NORM: norms, STRONGER: stronger}


def _norms(coefficients: Array, X: Array, f: KernelExpansion) -> Array:
    """‖f_t − f‖ in the kernel's norm, a column of coefficients for each draw."""
    points = np.vstack([X, f.points])
    joined = np.vstack([coefficients, np.repeat(-f.coefficients[:, None], coefficients.shape[1], axis=1)])
    return np.sqrt(np.maximum(np.sum(joined * (f.kernel(points) @ joined), axis=0), 0.0))


def _rates(seed: int, sizes: Sequence[int]) -> dict[Check, float]:
    """The slope of the population error at T in N, the worst over methods."""
    kernels: dict[Check, ExactKernel] = {OPTIMAL: Sobolev(), FINITE: PolynomialKernel(2)}
    found = {
        check: max(
            _slope(sizes, [_error(kernel, total, seed, way) for total in sizes]) for way in (LocalSteps, ProximalStep)
        )
        for check, kernel in kernels.items()
    }
    loud = _error(Sobolev(), sizes[-2], seed, LocalSteps, 10.0) / _error(Sobolev(), sizes[-2], seed, LocalSteps)
    far = [100 * 4**power * 64 for power in range(3)]
    slopes = [_slope(far, [_exact_error(total, seed, way) for total in far]) for way in (LocalSteps, ProximalStep)]
    return {**found, UNIVERSAL: loud, FAR: max(slopes)}


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _method(way: type[LocalSteps] | type[ProximalStep], eta: float) -> Method:
    return LocalSteps(eta, 5) if way is LocalSteps else ProximalStep(eta)


def _error(
    kernel: ExactKernel, total: int, seed: int, way: type[LocalSteps] | type[ProximalStep], loud: float = 1.0
) -> float:
    """‖f_T − f*‖² over [0, 1], the mean over 50 draws of the noise; f* is `loud` times the usual one."""
    X, clients, f = _posed(kernel, total, seed)
    grid = ((np.arange(500) + 0.5) / 500)[:, None]
    K, noise = kernel(X), SIGMA * np.random.default_rng([seed, 14, total]).standard_normal((total, 50))
    method = _method(way, 0.9 / gamma(K, clients, 1.0))
    T = stopping_round(np.linalg.eigvalsh(K / total), SIGMA, total, method.step_size, method.steps) or 1
    path = simulate(K, clients, loud * f.predict(X)[:, None] + noise, method, T, every=T)
    ends = path.values_at(kernel(grid, X))[-1] - loud * f.predict(grid)[:, None]
    return float(np.square(ends).mean())


def _exact_error(total: int, seed: int, way: type[LocalSteps] | type[ProximalStep]) -> float:
    """The same expectation for (1 + xz)², whose features are 1, √2 x and x², without a kernel matrix."""
    X, clients, f = _posed(PolynomialKernel(2), total, seed)
    grid = (np.arange(500) + 0.5) / 500
    blocks = np.split(_features(X[:, 0]), np.cumsum(clients)[:-1])
    H = [rows.T @ rows / len(rows) for rows in blocks]
    method = _method(way, 0.9 / max(float(np.linalg.norm(one, 2)) for one in H))
    A, noise = np.eye(3), np.zeros((3, 3))
    for one, n in zip(H, clients, strict=True):
        values, vectors = np.linalg.eigh(one)
        p = method.step_size * n / total * (vectors * method.filter(values)) @ vectors.T
        A, noise = A - p @ one, noise + p @ one @ p / n
    T = (
        stopping_round(
            np.linalg.eigvalsh(sum(n * one for one, n in zip(H, clients, strict=True)) / total),
            SIGMA,
            total,
            method.step_size,
            method.steps,
        )
        or 1
    )
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    summed = (vectors * (-np.expm1(T * np.log(values)) / (1 - values))) @ vectors.T
    bias = (vectors * values**T) @ vectors.T @ (_features(f.points[:, 0]).T @ f.coefficients)
    spread = SIGMA**2 * summed @ noise @ summed
    return float(np.trace(_features(grid).T @ _features(grid) / len(grid) @ (np.outer(bias, bias) + spread)))


def _features(x: Array) -> Array:
    return np.stack([np.ones(len(x)), math.sqrt(2) * x, x**2], axis=1)


def _dissimilarity(seed: int) -> dict[Check, float]:
    """B² ≥ the largest of Σ‖∇ℓ_i‖²/M over ‖∇ℓ‖²: √d over the B that is needed, one row x_i ~ N(0, I) per client."""
    rng = np.random.default_rng([seed, 15])
    worst = 0.0
    for d in (10, 20, 40, 80):
        X = rng.standard_normal((50 * d, d))
        mean = np.linalg.inv(X.T @ X / len(X))
        each = (X * np.square(X).sum(axis=1)[:, None]).T @ X / len(X)
        B = math.sqrt(float(np.linalg.eigvals(mean @ each @ mean).real.max()))
        worst = max(worst, math.sqrt(d) / B)
    return {STRINGENT: worst}


def _coupons(seed: int, trials: int) -> dict[Check, float]:
    """Each client has one of d basis vectors."""
    rng = np.random.default_rng([seed, 16])
    d = 100
    covered = {
        clients: float(np.mean([len(np.unique(rng.integers(0, d, clients))) == d for _ in range(trials)]))
        for clients in (math.ceil(d * math.log(d)), d)
    }
    enough, few = covered.values()
    return {COUPONS: 0.25 / max(enough, 1e-9), TOO_FEW: few}


def _gains(seed: int) -> dict[Check, float]:
    rng = np.random.default_rng([seed, 17])
    d, worst, rise = 12, 0.0, 0.0
    for own in (5, 30, 60):
        X = [rng.standard_normal((n, d)) for n in (own, *(40,) * 9)]
        total, theta, away = sum(map(len, X)), rng.standard_normal(d), rng.standard_normal(d)
        away /= np.linalg.norm(away)
        method = LocalSteps(0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X), 5)
        gains = []
        for distance in (0.0, 0.1, 0.3, 1.0, 3.0):
            # The others differ, so that the client's own model and its local error stay the same.
            truths = np.tile(theta + distance * away, (len(X), 1))
            truths[0] = theta
            gains.append(expected_gain(X, truths, 0, SIGMA, method).ratio)
        rise = max(rise, float(np.diff(gains).max()))
        worst = max(worst, min(total / own, total / d) / gains[0])
    return {LARGEST: worst, FALLS: max(rise, 0.0)}
