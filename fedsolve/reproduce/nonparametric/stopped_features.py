"""FedAvg and FedProx stopped at T of (23), on drawn rows of a few features: errors in L²(P), exactly and by draws.

A kernel Σ_k φ_k(x)φ_k(z) has ‖f‖ = ‖θ‖ for f = Σ θ_k φ_k. From f_0 = 0, with one truth θ*,

    θ_T − θ* = Σ_{τ<T} A^τ ν − A^T θ*,   A = I − M,   M = η Σ (n_i/N) p(H_i) H_i,   ν = (η/N) Σ p(H_i) Φ_iᵀ ξ_i

with H_i = Φ_iᵀΦ_i/n_i and p of `closed_forms.methods`. ‖f‖² in L²(P) is θᵀGθ with G = E φφᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.numerics.early_stopping import stopping_round
from fedsolve.typing import Array

STEPS = (1, 5, 20)  # of FedAvg; 0 is FedProx
GAMMA = 0.9
_LEAST = 1e-300


def clients_of(total: int) -> tuple[int, ...]:
    """Four clients of unequal sizes."""
    return total // 2, total // 4, total // 8, total - total // 2 - total // 4 - total // 8


@dataclass(frozen=True, eq=False)
class Stopped:
    """A method on drawn rows.

    Attributes:
        method: FedAvg or FedProx, γ = 0.9.
        rows: N.
        spectrum: The eigenvalues of ΦᵀΦ/N.
        m: The eigenvalues of M.
        back: G^½ times the eigenvectors of M.
        noise: A root of ν's covariance for σ = 1, in these eigenvectors.
    """

    method: Method
    rows: int
    spectrum: Array
    m: Array
    back: Array
    noise: Array

    @property
    def kappa(self) -> float:
        """κ."""
        return self.method.kappa(GAMMA)

    def stop(self, sigma: float) -> int:
        """T."""
        T = stopping_round(self.spectrum, sigma, self.rows, self.method.step_size, self.method.steps)
        if T is None:
            raise ArithmeticError("there is no reason to stop")
        return T

    def parts(self, T: int) -> tuple[Array, Array]:
        """G^½A^Tθ* for the θ* of norm 1 whose bias is the largest, and G^½ Σ_{τ<T} A^τ times the root of the noise."""
        left = self.back * (1 - self.m) ** T
        values, vectors = np.linalg.eigh(left @ left.T)
        bias = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
        sums = np.where(self.m > _LEAST, -np.expm1(T * np.log1p(-self.m)) / np.maximum(self.m, _LEAST), float(T))
        return bias, self.back * sums @ self.noise

    def errors(self, sigma: float, count: int, rng: np.random.Generator) -> tuple[float, Array]:
        """‖f_T − f*‖² in L²(P) for the worst f* of norm 1: its expectation over the noise, and draws of it."""
        bias, spread = self.parts(self.stop(sigma))
        moved = sigma * spread @ rng.standard_normal((spread.shape[1], count)) - bias[:, None]
        return float(bias @ bias + sigma**2 * np.square(spread).sum()), np.square(moved).sum(axis=0)


def runs(Phi: Array, sizes: Sequence[int], root: Array) -> Iterator[Stopped]:
    """FedAvg with 1, 5 and 20 steps and FedProx on these rows; `root` is G^½."""
    N = len(Phi)
    blocks = np.split(Phi, np.cumsum(sizes)[:-1])
    spectra = [np.linalg.eigh(one.T @ one / len(one)) for one in blocks]
    spectrum = np.maximum(np.linalg.eigvalsh(Phi.T @ Phi / N), 0.0)
    eta = GAMMA / max(float(values[-1]) for values, _ in spectra)
    for steps in (*STEPS, 0):
        method: Method = LocalSteps(eta, steps) if steps else ProximalStep(eta)
        M, roots = np.zeros((Phi.shape[1],) * 2), []
        for (values, vectors), one in zip(spectra, blocks, strict=True):
            h = np.maximum(values, 0.0)
            p = eta * method.filter(h)
            M += len(one) / N * (vectors * (p * h)) @ vectors.T
            roots.append(np.sqrt(len(one)) / N * vectors * (p * np.sqrt(h)))
        m, V = np.linalg.eigh(M)
        yield Stopped(method, N, spectrum, np.clip(m, 0.0, 1 - 1e-15), root @ V, V.T @ np.hstack(roots))
