"""What the FedNewton paper's theory is about and only a simulation knows: covariances of distributions, in closed form.

For φ(x) = cos(Ωᵀx + b)/√M and x ~ N(u, I), E cos(vᵀx + c) = exp(−‖v‖²/2) cos(vᵀu + c), and a product of two cosines is
half the sum of the cosines of sum and difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.features import RandomFourier
from fedsolve.typing import Array


def covariance(phi: RandomFourier, mean: Array) -> Array:
    """C = E φ(x) φ(x)ᵀ for x ~ N(mean, I)."""
    omega, b = phi.draw(len(mean))
    at, squares, inner = mean @ omega + b, np.sum(omega**2, axis=0), omega.T @ omega
    both = squares[:, None] + squares
    plus = np.exp(-both / 2 - inner) * np.cos(at[:, None] + at)
    minus = np.exp(-both / 2 + inner) * np.cos(at[:, None] - at)
    found: Array = (plus + minus) / (2 * phi.features)
    return found


def norm(A: Array) -> float:
    """The spectral norm."""
    return float(np.linalg.norm(A, 2))


def sample_covariance(X: Array) -> Array:
    """C_D of features."""
    found: Array = X.T @ X / len(X)
    return found


def root(A: Array) -> Array:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(A)
    found: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return found


@dataclass(frozen=True, eq=False)
class Operators:
    """The operators of section 4.1 for some clients of equal weight.

    samples   C_Dj
    locals    C_j
    """

    samples: Sequence[Array]
    locals: Sequence[Array]
    l2: float

    @property
    def pooled(self) -> Array:
        """C, of the mixture of the clients' distributions."""
        found: Array = np.mean(self.locals, axis=0)
        return found

    @property
    def drawn(self) -> Array:
        """C_D."""
        found: Array = np.mean(self.samples, axis=0)
        return found

    def ridge(self, A: Array) -> Array:
        found: Array = A + self.l2 * np.eye(len(A))
        return found

    def P(self, sample: Array, expected: Array) -> float:
        """‖(C_D + λI)⁻¹ (C + λI)‖."""
        return norm(np.linalg.solve(self.ridge(sample), self.ridge(expected)))

    def R(self, sample: Array, expected: Array) -> float:
        """‖(C + λI)⁻¹ (C − C_D)‖."""
        return norm(np.linalg.solve(self.ridge(expected), expected - sample))

    def shifts(self) -> Array:
        """Δ_Dj = ‖C − C_j‖ of every client."""
        pooled = self.pooled
        return np.array([norm(pooled - each) for each in self.locals])

    def rho(self) -> float:
        """ρ = λ_max(AH) − 1."""
        L = np.linalg.cholesky(self.ridge(self.drawn))
        A = np.mean([np.linalg.inv(self.ridge(each)) for each in self.samples], axis=0)
        return float(np.linalg.eigvalsh(L.T @ A @ L)[-1]) - 1
