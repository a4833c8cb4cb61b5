"""A problem for which every assumption of the FedNewton paper's lemmas holds, with its constants.

The target is f*(x) = ⟨w*, φ(x)⟩, so that Assumption 2 holds with r = ½ and R = ‖w*‖; the noise is uniform, so that
|y| ≤ B; the features have ‖φ(x)‖ ≤ κ = 1. The synthetic problem of section 7 has none of it: f* = −|1ᵀx| is no function
of 200 cosines, and its noise is Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fedsolve.features import RandomFourier
from fedsolve.reproduce.fednewton.population import Operators, covariance, sample_covariance
from fedsolve.typing import Array

INPUTS, STD = 10, 0.1  # as in section 7
NOISE = float(np.sqrt(0.6))  # half the width of uniform noise with the variance 0.2
KAPPA = 1.0
FITTED = 1e-2  # the penalty with which w* is fitted to −|1ᵀx|


@dataclass(frozen=True, eq=False)
class World:
    """Distributions of the clients and their targets.

    means    u_j; inputs are N(u_j, I)
    targets  w_j*, with w* first
    """

    phi: RandomFourier
    means: tuple[Array, ...]
    truth: Array
    targets: tuple[Array, ...]

    @property
    def R(self) -> float:
        """‖L^{−½} f*‖, and the same of every f_j*."""
        return max(float(np.linalg.norm(each)) for each in (self.truth, *self.targets))

    @property
    def B(self) -> float:
        """A bound of |y|: |⟨w, φ(x)⟩| is at most ‖w‖₁/√M."""
        largest = max(float(np.abs(each).sum()) for each in (self.truth, *self.targets))
        return largest / float(np.sqrt(self.phi.features)) + NOISE

    def locals(self) -> list[Array]:
        """C_j."""
        return [covariance(self.phi, mean) for mean in self.means]

    def draw(self, samples: int, rng: np.random.Generator) -> list[tuple[Array, Array]]:
        """Features and targets of every client."""
        parts = []
        for mean, target in zip(self.means, self.targets, strict=True):
            X = self.phi.block(mean + rng.standard_normal((samples, INPUTS)))
            parts.append((X, X @ target + rng.uniform(-NOISE, NOISE, samples)))
        return parts


@cache
def world(clients: int, features: int, alpha: float = 0.0, beta: float = 0.0, seed: int = 0) -> World:
    """A world with covariate shifts u_j ~ N(0, αI) and targets w_j* = w* + N(0, βI)."""
    phi = RandomFourier.fednewton(STD, features, seed)
    rng = np.random.default_rng((seed, 17))
    X = rng.standard_normal((20_000, INPUTS))
    inputs, outputs = phi.block(X), -np.abs(X.sum(axis=1))
    ridge = FITTED * np.eye(features)
    truth = np.linalg.solve(sample_covariance(inputs) + ridge, inputs.T @ outputs / len(X))
    means = tuple(np.sqrt(alpha) * rng.standard_normal((clients, INPUTS)))
    targets = tuple(truth + np.sqrt(beta) * rng.standard_normal((clients, features)))
    return World(phi, means, truth, targets)


@dataclass(frozen=True, eq=False)
class Drawn:
    """One draw of a world: operators, and what the estimators are."""

    ops: Operators
    moments: list[Array]  # S_Dj* y_Dj

    @staticmethod
    def of(parts: list[tuple[Array, Array]], locals_: list[Array], l2: float) -> Drawn:
        samples = [sample_covariance(X) for X, _ in parts]
        return Drawn(Operators(samples, locals_, l2), [X.T @ y / len(y) for X, y in parts])

    @property
    def local_fits(self) -> list[Array]:
        """w_Dj."""
        pairs = zip(self.ops.samples, self.moments, strict=True)
        return [np.linalg.solve(self.ops.ridge(sample), moment) for sample, moment in pairs]

    @property
    def pooled_fit(self) -> Array:
        """w_D, equation (2)."""
        return np.linalg.solve(self.ops.ridge(self.ops.drawn), np.mean(self.moments, axis=0))

    def rounds(self, count: int) -> list[Array]:
        """w̄^t of FedNewton, t = 0 … count, equation (5) with the global gradient."""
        H, moment = self.ops.ridge(self.ops.drawn), np.mean(self.moments, axis=0)
        A = np.mean([np.linalg.inv(self.ops.ridge(each)) for each in self.ops.samples], axis=0)
        found = [np.mean(self.local_fits, axis=0)]
        for _ in range(count):
            found.append(found[-1] - A @ (H @ found[-1] - moment))
        return found
