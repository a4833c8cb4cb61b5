"""Random Fourier features (Rahimi and Recht 2007): φ(x) = √(2/M) cos(Ωᵀx + b), with E φ(x)ᵀφ(z) = k(x, z).

    gaussian    exp(−γ ‖x − z‖²)            ω ~ N(0, 2γ), as scikit-learn's RBF
    laplace     exp(−γ ‖x − z‖₁)            ω ~ Cauchy of scale γ
    cauchy      Π_i 1 / (1 + γ (x_i − z_i)²)    ω ~ Laplace of scale √γ

b is uniform on [0, 2π]. Frequencies are independent (iid); orthogonal within blocks of d with independent
chi-distributed lengths, for the Gaussian kernel only (Yu et al. 2016); or images of a scrambled Sobol sequence (qmc;
Avron et al. 2016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.features.base import FeatureMap, one_of, positive, whole
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array

Kernel = Literal["gaussian", "laplace", "cauchy"]
Variant = Literal["iid", "orthogonal", "qmc"]

_STREAM = 2  # of the seed: the streams of `data.heterogeneous` are others
_BITS = 30  # of a coordinate of a Sobol point


@dataclass(frozen=True)
class RandomFourier(FeatureMap):
    """M random cosines; φ(x)ᵀφ(z) is scale² k(x, z) on average, with a standard deviation below scale²·√(1.5/M)."""

    features: int
    gamma: float
    kernel: Kernel = "gaussian"
    variant: Variant = "iid"
    seed: int = 0
    scale: float = 1.0

    def __post_init__(self) -> None:
        whole("features", self.features)
        positive("gamma", self.gamma)
        positive("scale", self.scale)
        whole("seed", self.seed, 0)
        one_of("kernel", self.kernel, ("gaussian", "laplace", "cauchy"))
        one_of("variant", self.variant, ("iid", "orthogonal", "qmc"))
        if self.variant == "orthogonal" and self.kernel != "gaussian":
            raise ConfigError(
                f"orthogonal frequencies are those of the gaussian kernel, got {self.kernel!r}; use 'qmc' or 'iid'"
            )

    @classmethod
    def fednewton(cls, std: float, features: int, seed: int = 0) -> RandomFourier:
        """FedNewton's map with Table 2's σ² as `std`: φ(x) = cos(Ωᵀx + b)/√M, Ω = std · randn;
        without the usual √2, so φ(x)ᵀφ(z) is about half the kernel."""
        return cls(features, gamma=std * std / 2, seed=seed, scale=math.sqrt(0.5))

    def dimension(self, d: int) -> int:
        return self.features

    def block(self, X: Array) -> Array:
        omega, b = self.arrays(X)
        factor = self.scale * math.sqrt(2 / self.features)
        Z = X @ omega
        if isinstance(Z, np.ndarray):  # in place: a block is large
            Z += b
            np.cos(Z, out=Z)
            Z *= factor
            return Z
        return factor * namespace(Z).cos(Z + b)

    def draw(self, d: int) -> tuple[Array, ...]:
        """Ω (d × M) and b."""
        rng, M = np.random.default_rng((self.seed, _STREAM)), self.features
        if self.variant == "qmc":
            u = _sobol(d + 1, M, rng)
            return np.ascontiguousarray(self._quantile(u[:, :d]).T), 2 * np.pi * u[:, d]
        if self.variant == "orthogonal":
            blocks = [_orthogonal(d, rng) for _ in range(-(-M // d))]
            omega = math.sqrt(2 * self.gamma) * np.hstack(blocks)[:, :M]
        elif self.kernel == "gaussian":
            omega = math.sqrt(2 * self.gamma) * rng.standard_normal((d, M))
        elif self.kernel == "laplace":
            omega = self.gamma * rng.standard_cauchy((d, M))
        else:
            omega = rng.laplace(scale=math.sqrt(self.gamma), size=(d, M))
        return np.ascontiguousarray(omega), rng.uniform(0.0, 2.0 * np.pi, M)

    def _quantile(self, u: Array) -> Array:
        """The inverse distribution function of one frequency."""
        if self.kernel == "gaussian":
            from scipy.special import ndtri  # slow to import

            return math.sqrt(2 * self.gamma) * ndtri(u)
        if self.kernel == "laplace":
            return self.gamma * np.tan(np.pi * (u - 0.5))
        return -math.sqrt(self.gamma) * np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5))


def _orthogonal(d: int, rng: np.random.Generator) -> Array:
    """d columns at right angles, uniform among such, each as long as a standard normal vector of its own."""
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    return Q * np.sign(np.diagonal(R)) * np.sqrt(rng.chisquare(d, d))


def _sobol(d: int, count: int, rng: np.random.Generator) -> Array:
    """The first points of a scrambled Sobol sequence, in the middle of its cells and so never at 0 or 1."""
    from scipy.stats import qmc

    if d > qmc.Sobol.MAXDIM:
        raise ConfigError(f"Sobol sequences have at most {qmc.Sobol.MAXDIM} dimensions, this needs {d}; use 'iid'")
    points: Array = qmc.Sobol(d, bits=_BITS, seed=rng).random_base2(max(0, (count - 1).bit_length()))
    return points[:count] + 0.5 ** (_BITS + 1)
