"""Ĥ, the server's estimate of the pooled Hessian from shared eigenpairs, and solves with it.

Equations and theorems are those of the SHED paper (Dal Fabbro, Dey, Rossi and Schenato), cited in algorithms/shed.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedsolve.curvature.spectra import Spectrum
from fedsolve.numerics.linalg import cholesky_solve, factor
from fedsolve.typing import Array

# ρ of a client: "largest" is λ_{q+1}, with which Ĥ ≥ H (29); "middle" is (λ_{q+1} + λ_n)/2, the best for least squares
# (Corollary 2).
Shift = Literal["largest", "middle"]

FEW = 8  # conjugate gradient steps that cost less than forming and factorising Ĥ
ENERGY = 1e-20  # of the squared error in the norm of Ĥ: ten digits, more than a search direction needs


class Estimate:
    """Ĥ = Σ p_i [Σ_j (λ_j − ρ_i) v_j v_jᵀ + ρ_i I], equations (12), (13) and (26), (30)."""

    def __init__(self, spectra: Sequence[Spectrum], weights: Sequence[float], shift: Shift) -> None:
        p = np.asarray(weights) / sum(weights)
        following, least = (np.array([getattr(one, name) for one in spectra]) for name in ("following", "least"))
        self.least = max(0.0, float(p @ least))  # λ̄_n
        rho = following if shift == "largest" else 0.5 * (following + least)
        self.rho = float(p @ rho)  # ρ̄
        self.vectors = np.hstack([one.vectors for one in spectra]).astype(np.float64, copy=False)
        self.weights = np.concatenate([p_i * (one.values - r) for p_i, one, r in zip(p, spectra, rho, strict=True)])
        self.order = int(self.vectors.shape[0])

    @property
    def contraction(self) -> float:
        """c_t = 1 − λ̄_n/ρ̄_t of Theorem 3, the factor by which the error falls at least."""
        return max(0.0, 1.0 - self.least / self.rho) if self.rho > 0 else 0.0

    def dense(self) -> Array:
        """Ĥ as a matrix."""
        full = (self.vectors * self.weights) @ self.vectors.T
        full.flat[:: self.order + 1] += self.rho
        return full

    def product(self, x: Array) -> Array:
        """Ĥ x."""
        coordinates = self.vectors.T @ x
        scale = self.weights if x.ndim == 1 else self.weights[:, None]
        return self.vectors @ (scale * coordinates) + self.rho * x


class Solver:
    """Ĥ⁻¹ by conjugate gradients, preconditioned by the Cholesky factor of an earlier Ĥ.

    From round to round Ĥ gains a few vectors and its ρ falls: its old factor stays a good preconditioner for a while.
    After that, and where there is none (`stale` empty), Ĥ is formed and factorised. `stale` is the factor to keep.
    """

    def __init__(self, estimate: Estimate, stale: Array) -> None:
        self.estimate, self.stale = estimate, stale

    def solve(self, b: Array) -> Array:
        """Ĥ⁻¹b."""
        order = self.estimate.order
        columns = b if b.shape[0] == order else b.reshape(order)
        found = self._conjugate_gradients(columns) if self.stale.shape[0] == order else None
        if found is None:
            found = self._factorised(columns)
        return found.reshape(b.shape)

    def _factorised(self, b: Array) -> Array:
        dense = self.estimate.dense()
        fresh = factor(dense)
        self.stale = np.zeros((0, 0)) if fresh.lower is None else fresh.lower
        return fresh.solve(b)

    def _conjugate_gradients(self, b: Array) -> Array | None:
        """The solution, or None if it takes more than a few steps."""
        x, r = np.zeros(b.shape), b
        z = self._preconditioned(r)
        d, first = z, float((r * z).sum())
        rz = first
        for _ in range(FEW):
            if rz <= ENERGY * first:
                return x
            q = self.estimate.product(d)
            alpha = rz / float((d * q).sum())
            x, r = x + alpha * d, r - alpha * q
            z = self._preconditioned(r)
            before, rz = rz, float((r * z).sum())
            d = z + (rz / before) * d
        return x if rz <= ENERGY * first else None

    def _preconditioned(self, r: Array) -> Array:
        return cholesky_solve(self.stale, r)
