"""The synthetic problem of the FedNewton paper, with quantities only a simulation knows: pooled solution, ρ, shifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.data.synthetic import heterogeneous
from fedsolve.diagnose import effective_dimension
from fedsolve.features import RandomFourier
from fedsolve.federation.client import Client
from fedsolve.reproduce.fednewton.methods import Setting
from fedsolve.typing import Array

FEATURES, STD, L2 = 200, 0.1, 1e-6  # M, the standard deviation of Ω, λ: Table 2
SAMPLES = 10_000  # of all clients together
SETTING = Setting(L2, pull=7e-7, step_size=0.001)


@dataclass(frozen=True, eq=False)
class Problem:
    """The clients, whose inputs are random features, and the pooled quantities that no client has."""

    clients: list[Client]
    features: Array  # Φ of all training inputs
    w: Array  # pooled KRR, equation (2)
    rho: float
    test: tuple[Array, Array]  # Φ of the test inputs, and f* there
    model_shift: float  # Δ_fj of Figure 4 with |f* − f_j*|, mean over the clients
    signed_shift: float  # the same with f* − f_j*, whose mean is taken first; then the mean of absolute values
    phi: RandomFourier
    means: list[Array]  # u_j

    def error(self, w: Array) -> float:
        """The relative federated error: of the predictions, over all inputs."""
        return float(np.linalg.norm(self.features @ (w - self.w)) / np.linalg.norm(self.features @ self.w))

    def weight_error(self, w: Array) -> float:
        return float(np.linalg.norm(w - self.w) / np.linalg.norm(self.w))

    def test_error(self, w: Array) -> float:
        """The mean squared error at the test points, against the noise-free f*."""
        inputs, truth = self.test
        return float(np.mean((inputs @ w - truth) ** 2))

    @property
    def dimension(self) -> float:
        """N(λ) of the pooled sample (Assumption 1)."""
        return effective_dimension(np.linalg.eigvalsh(_covariance(self.features)), L2)

    @property
    def covariances(self) -> list[Array]:
        """C_Dj of every client."""
        return [_covariance(client.X) for client in self.clients]

    @property
    def data_shift(self) -> float:
        """Δ_Dj = ‖C_D − C_Dj‖ of Figure 4 in the spectral norm, mean over the clients."""
        pooled = _covariance(self.features)
        return float(np.mean([np.linalg.norm(pooled - each, 2) for each in self.covariances]))


def problem(clients: int, samples: int, alpha: float, seed: int, beta: float = 0.0) -> Problem:
    """The synthetic set through random features, its pooled ridge solution, and ρ = λ_max(AH) − 1."""
    drawn = heterogeneous(clients, samples, alpha=alpha, beta=beta, seed=seed)
    phi = RandomFourier.fednewton(STD, FEATURES, seed)
    parts = [(phi.block(X), y) for X, y in drawn.parts]
    hessians = [_covariance(X) + L2 * np.eye(FEATURES) for X, _ in parts]
    H = np.mean(hessians, axis=0)  # clients of one size, so that Σ p_j is the plain mean
    A = np.mean([np.linalg.inv(one) for one in hessians], axis=0)
    L = np.linalg.cholesky(H)
    rho = float(np.linalg.eigvalsh(L.T @ A @ L)[-1]) - 1  # LᵀAL and AH = ALLᵀ have the same eigenvalues
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    w = np.linalg.solve(H, X.T @ y / len(y))
    w += np.linalg.solve(H, X.T @ (y - X @ w) / len(y) - L2 * w)  # what rounding has cost
    gaps = []
    for (inputs, _), own in zip(drawn.parts, drawn.models, strict=True):
        shared = inputs.sum(axis=1)  # 1ᵀx of f*; w_jᵀx of f_j* is equal to the bit where w_j = 1
        gaps.append(np.abs(shared + inputs @ (own - 1.0)) - np.abs(shared))
    return Problem(
        [Client(f"client-{j}", *part) for j, part in enumerate(parts)],
        X,
        w,
        rho,
        (phi.block(drawn.X_test), drawn.y_test),
        float(np.mean(np.abs(gaps))),
        float(np.mean(np.abs(np.mean(gaps, axis=1)))),
        phi,
        drawn.means,
    )


def _covariance(X: Array) -> Array:
    covariance: Array = X.T @ X / len(X)
    return covariance
