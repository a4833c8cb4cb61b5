"""FedAvg and FedProx on linear regression by the clients' Hessians, without a matrix of N × N."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Filtered:
    """A method on clients' Hessians H_i: 𝓛 = I − η Σ w_i H_i p(H_i), and the variance (η/N)² ΦᵀP²Φ of one round.

    It needs no N × N matrix, and so has room for many rows; a test has it against the rounds.
    """

    method: Method
    shares: Array  # w_i
    filtered: Array  # H_i p(H_i), M × d × d
    noise: Array  # ΦᵀP²Φ/N
    pooled: Array  # ΦᵀΦ/N
    samples: int
    kappa: float

    @classmethod
    def of(cls, X: Sequence[Array]) -> Iterator[Filtered]:
        """FedAvg with s = 1, 5 and 10 and FedProx, γ = 0.9."""
        sizes = np.array([len(one) for one in X])
        shares, H = sizes / sizes.sum(), np.array([one.T @ one / len(one) for one in X])
        values, vectors = np.linalg.eigh(H)
        values = np.where(values > 1e-12 * values.max(), values, 0.0)
        eta = 0.9 / float(values.max())
        chosen: tuple[Method, ...] = (*(LocalSteps(eta, s) for s in (1, 5, 10)), ProximalStep(eta))
        for method in chosen:
            p = method.filter(values)
            filtered, noise = (
                (vectors * one[:, None, :]) @ vectors.transpose(0, 2, 1) for one in (values * p, values * p * p)
            )
            summed, pooled = (np.tensordot(shares, one, 1) for one in (noise, H))
            yield cls(method, shares, filtered, summed, pooled, int(sizes.sum()), method.kappa(0.9))

    @property
    def pace(self) -> float:
        """sη."""
        return self.method.step_size * self.method.steps

    @property
    def rho(self) -> float:
        return float(np.linalg.eigvalsh(self.pooled)[0])

    @property
    def moves(self) -> Array:
        """(I − 𝓛)/η."""
        return np.asarray(np.tensordot(self.shares, self.filtered, 1))

    def centre(self, truths: Array) -> Array:
        """θ̄."""
        pulled = np.einsum("i,ijk,ik->j", self.shares, self.filtered, truths)
        return np.asarray(np.linalg.solve(self.moves, pulled))

    def limit(self) -> float:
        """E‖θ_∞ − θ̄‖² over σ²."""
        inverse = np.linalg.inv(self.moves)
        return float(np.trace(inverse @ self.noise @ inverse)) / self.samples


def rows(rng: np.random.Generator, sizes: Sequence[int], d: int, low: float, high: float) -> list[Array]:
    """Gaussian rows; each client has a covariance of its own, with eigenvalues between `low` and `high`."""
    scales = np.sqrt(np.linspace(low, high, d))
    found = []
    for n in sizes:
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        found.append(rng.standard_normal((n, d)) * scales @ basis.T)
    return found
