"""Sections 6.2 and 6.3 of Su, Xu and Yang (2023) on linear regression: coefficients, subspaces and the gain of joining.

Everything is exact: a round is θ ← Aθ + Cy, so that expectations over the noise are norms of matrices.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from fedsolve.closed_forms.bounds import coefficient_bound, truth_distance_bound
from fedsolve.closed_forms.linear_path import round_map
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.numerics.early_stopping import rademacher
from fedsolve.reproduce.checks import Check
from fedsolve.typing import Array

D, SIGMA, SIZES = 12, 0.5, (60, 5, 30, 100, 45)
STEPS, SHARE = (1, 5, 10), 0.9  # of γ
ROUNDS = (1, 3, 10, 100, 1000)
ROUNDING = 1e-10
LOW = 0.1  # α of Corollary 13: the smallest eigenvalue of the covariances, the largest is 1
PLENTY = 8  # N = 8 ν d log d for Corollary 14

ORDER = Check("Lemma 29", "I − sηΦᵀΦ/N ⪯ 𝓛 ⪯ I − sηΦᵀΦ/(κN)", "off", ROUNDING)
COEFFICIENTS = Check("Theorem 12, (25)", "E‖θ_t − θ̄‖² is at most (1 − sηρ/κ)^(2t) ‖θ_0 − θ̄‖² + σ²κd/(Nρ)")
DISTANCE = Check("Theorem 12, (26)", "‖θ̄ − θ_j*‖ is at most ‖Δ_f‖ √(κ/(Nρ)), for every client")
BALANCED = Check("Section 6.2, (27)", "Δ·Ψ = 0 at f̄, which balances the clients", "off", ROUNDING)
UNBIASED = Check(
    "Section 6.2", "the limit is an unbiased estimator of θ̄: its mean over the noise is θ̄", "off", ROUNDING
)
TRACE = Check("Lemma 30", "Tr Σ is at most (ηs/N) Σ (1 − λ̃^t)²/(1 − λ̃), and that at most (ηts)² R²(1/√(ηts))")
LEMMA_28 = Check("Lemma 28", "‖A‖ is at most (sη/N) ‖𝓣(I − 𝓛)𝓣‖ and Tr A at most (sη/N) Tr 𝓣(I − 𝓛)𝓣, 𝓣 = Σ 𝓛^τ")
AS_PRINTED = Check("Corollary 13, (28)", "E‖θ_t − θ̄‖² is at most the bound with the rate 1 − sη/(2κ), as printed")
AS_PROVED = Check("Corollary 13, (28)", "… and with the rate 1 − sηα/(2κ), which the proof has")
NEAR = Check("Corollary 13, (29)", "‖θ̄ − θ_j*‖ is at most 2 Γ√κ, for N = 20 d to 80 d")
SUBSPACES = Check(
    "Corollary 14, (30)", "with N = 8 ν d log d rows in random subspaces E‖θ_t − θ̄‖² is at most the bound"
)
APART = Check("Corollary 14, (31)", "… and ‖θ̄ − θ_j*‖ at most Γ √(2κβνMd/(αN))")
CHECKS = (
    *(ORDER, LEMMA_28, TRACE, COEFFICIENTS, DISTANCE, BALANCED, UNBIASED),
    *(AS_PRINTED, AS_PROVED, NEAR, SUBSPACES, APART),
)  # fmt: skip


@dataclass(frozen=True)
class Rounds:
    """A round of a method on these rows: θ ← Aθ + Cy."""

    X: Sequence[Array]
    method: Method
    A: Array
    C: Array
    kappa: float
    G: Array  # ΦᵀΦ/N

    @classmethod
    def of(cls, X: Sequence[Array], method: Method) -> Rounds:
        total = sum(map(len, X))
        targets = np.split(np.eye(total), np.cumsum([len(rows) for rows in X])[:-1])
        A, C = round_map(X, targets, method)
        steepest = max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
        pooled = np.vstack(X)
        return cls(X, method, A, C, method.kappa(method.step_size * steepest), pooled.T @ pooled / total)

    @property
    def samples(self) -> int:
        return int(self.C.shape[1])

    @property
    def rho(self) -> float:
        return float(np.linalg.eigvalsh(self.G)[0])

    def means(self, truths: Array) -> Array:
        """f_i*(x_ij)."""
        return np.concatenate([rows @ truth for rows, truth in zip(self.X, truths, strict=True)])

    def centre(self, truths: Array) -> Array:
        """θ̄."""
        found: Array = np.linalg.solve(np.eye(len(self.A)) - self.A, self.C @ self.means(truths))
        return found

    def summed(self, t: int) -> Array:
        """Σ_{τ<t} A^τ."""
        values, vectors = np.linalg.eigh((self.A + self.A.T) / 2)
        left = np.maximum(1 - values, 1e-300)
        return (vectors * (-np.expm1(t * np.log1p(-left)) / left)) @ vectors.T

    def error(self, t: int, distance: Array) -> float:
        """E‖θ_t − θ̄‖² for θ_0 − θ̄ = `distance`."""
        bias = np.linalg.matrix_power(self.A, t) @ distance
        return float(bias @ bias + SIGMA**2 * np.square(self.summed(t) @ self.C).sum())

    def share(self, theta: Array, rate: float, low: float) -> float:
        """Of (1 − rate)^(2t) ‖θ̄‖² + 2σ²κd/(Nα), the form of (28) and (30), from θ_0 = 0: the largest over t."""
        noise, size = 2 * SIGMA**2 * self.kappa * D / (self.samples * low), float(theta @ theta)
        return max(self.error(t, theta) / ((1 - rate) ** (2 * t) * size + noise) for t in ROUNDS)


def methods(X: Sequence[Array]) -> tuple[Method, ...]:
    """With γ = 0.9."""
    eta = SHARE / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    return *(LocalSteps(eta, s) for s in STEPS), ProximalStep(eta)


def measured(seed: int) -> dict[str, float]:
    """Each check's worst value over methods and rounds."""
    worst: dict[str, float] = defaultdict(lambda: -math.inf)
    rng = np.random.default_rng([seed, 5])
    for values in (*_general(rng), *_independent_rows(rng), *_subspaces(rng)):
        for check, value in values.items():
            worst[check.claim] = max(worst[check.claim], float(value))
    return dict(worst)


def scaled_rows(rng: np.random.Generator, sizes: Sequence[int], low: float) -> list[Array]:
    """Gaussian rows; each client has a covariance of its own, with eigenvalues between `low` and 1."""
    made = []
    for n in sizes:
        basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
        made.append(rng.standard_normal((n, D)) * np.sqrt(np.linspace(low, 1, D)) @ basis.T)
    return made


def _general(rng: np.random.Generator) -> list[dict[Check, float]]:
    X = scaled_rows(rng, SIZES, 0.3)
    truths = rng.standard_normal(D) + 0.5 * rng.standard_normal((len(SIZES), D))
    return [{**_operator(made), **_coefficients(made, truths)} for made in (Rounds.of(X, one) for one in methods(X))]


def _operator(made: Rounds) -> dict[Check, float]:
    pace, eye = made.method.step_size * made.method.steps, np.eye(D)
    above = np.linalg.eigvalsh(eye - pace / made.kappa * made.G - made.A)
    below = np.linalg.eigvalsh(made.A - eye + pace * made.G)
    lam = np.linalg.eigvalsh(made.G)
    traces, norms = [], []
    for t in ROUNDS:
        T = made.summed(t)
        inner = T @ (eye - made.A) @ T
        moved = T @ made.C
        trace, first = np.square(moved).sum(), pace / made.samples * np.trace(inner)
        last = (pace * t) ** 2 * rademacher(lam, (pace * t) ** -0.5, made.samples) ** 2
        traces.append(max(trace / first, first / last))
        norms.append(np.linalg.norm(moved, 2) ** 2 / (pace / made.samples * np.linalg.norm(inner, 2)))
    return {
        ORDER: max(0.0, -above[0], -below[0]),
        TRACE: max(traces),
        LEMMA_28: max(*norms, *traces[:1]),
    }


def _coefficients(made: Rounds, truths: Array) -> dict[Check, float]:
    theta, rho, means = made.centre(truths), made.rho, made.means(truths)
    size = float(np.linalg.norm(theta))  # the distance of θ_0 = 0
    bound = partial(
        coefficient_bound,
        method=made.method,
        kappa=made.kappa,
        rho=rho,
        samples=made.samples,
        dimension=D,
        distance=size,
        sigma=SIGMA,
    )
    shares = [made.error(t, theta) / bound(t) for t in ROUNDS]
    pooled = np.vstack(made.X)
    apart = [
        float(np.linalg.norm(theta - own)) / truth_distance_bound(made.kappa, rho, made.samples, means - pooled @ own)
        for own in truths
    ]
    moved = made.A @ theta + made.C @ means  # one round from θ̄ on the mean targets
    return {
        COEFFICIENTS: max(shares),
        DISTANCE: max(apart),
        BALANCED: float(np.abs(made.C @ (means - pooled @ theta)).max() / size),
        UNBIASED: float(np.abs(moved - theta).max() / size),
    }


def _independent_rows(rng: np.random.Generator) -> list[dict[Check, float]]:
    """Corollary 13: clients of unequal sizes with covariances between α = 0.1 and β = 1."""
    found = []
    for times in (20, 40, 80):
        sizes = [max(1, times * D * share // 100) for share in (5, 10, 15, 30, 40)]
        X = scaled_rows(rng, sizes, LOW)
        truths = rng.standard_normal(D) + rng.standard_normal((len(sizes), D))
        gaps = max(float(np.linalg.norm(a - b)) for a, b in product(truths, truths))
        for made in (Rounds.of(X, one) for one in methods(X)):
            theta, pace = made.centre(truths), made.method.step_size * made.method.steps
            apart = max(float(np.linalg.norm(theta - own)) for own in truths)
            found.append(
                {
                    AS_PRINTED: made.share(theta, pace / (2 * made.kappa), LOW),
                    AS_PROVED: made.share(theta, pace * LOW / (2 * made.kappa), LOW),
                    NEAR: apart / (2 * gaps * math.sqrt(made.kappa)),
                }
            )
    return found


def _subspaces(rng: np.random.Generator) -> list[dict[Check, float]]:
    """Corollary 14: random subspaces of dimension 4, 8 orthogonal-like rows each; α and β are those of the draw."""
    r, n = 4, 8
    clients = math.ceil(PLENTY * (n / r) * D * math.log(D) / n)
    scale, X, lows, highs = math.sqrt(D / r), [], [], []
    for _ in range(clients):
        U = np.linalg.qr(rng.standard_normal((D, r)))[0]
        F = math.sqrt(n) * np.linalg.qr(rng.standard_normal((n, r)))[0] * np.linspace(0.8, 1.2, r)
        values = np.linalg.eigvalsh(F.T @ F / n)
        lows.append(values[0])
        highs.append(values[-1])
        X.append(scale * F @ U.T)
    low, high = min(lows), max(highs)
    truths = rng.standard_normal(D) + 0.3 * rng.standard_normal((clients, D))
    gaps = max(float(np.linalg.norm(a - b)) for a, b in product(truths, truths))
    found = []
    for made in (Rounds.of(X, one) for one in methods(X)):
        theta, N = made.centre(truths), made.samples
        rate = made.method.step_size * made.method.steps * low / (2 * made.kappa)
        bound = gaps * math.sqrt(2 * made.kappa * high * (n / r) * clients * D / (low * N))
        found.append(
            {
                SUBSPACES: made.share(theta, rate, low),
                APART: max(float(np.linalg.norm(theta - own)) for own in truths) / bound,
            }
        )
    return found
