"""Feature maps: a kernel method becomes a linear one, x ↦ φ(x), and every loss and algorithm serves it unchanged.

    loss = fs.Squared(l2=1e-6, features=fs.RandomFourier(2000, gamma=0.5))

A map is a frozen dataclass of hyper-parameters, agreed on by seed and parameters and never by anybody's data: both
sides hold the same map, its parameters are drawn where they are needed, and nothing of it travels. Exact kernels
(`Gaussian`, `Matern`, …) are objects too: `Nystroem` makes features of any of them.
"""

from fedsolve.features.base import FeatureMap
from fedsolve.features.callable_kernel import CallableKernel
from fedsolve.features.exact_kernels import (
    Cauchy,
    ExactKernel,
    Gaussian,
    Laplace,
    LinearKernel,
    Matern,
    PolynomialKernel,
    Sobolev,
)
from fedsolve.features.fourier import RandomFourier
from fedsolve.features.mapped import FeatureDesign
from fedsolve.features.nystroem import Nystroem, NystroemRange
from fedsolve.features.polynomial import Monomials, Polynomial
from fedsolve.features.transformer import Transformer

__all__ = [
    "CallableKernel",
    "Cauchy",
    "ExactKernel",
    "FeatureDesign",
    "FeatureMap",
    "Gaussian",
    "Laplace",
    "LinearKernel",
    "Matern",
    "Monomials",
    "Nystroem",
    "NystroemRange",
    "Polynomial",
    "PolynomialKernel",
    "RandomFourier",
    "Sobolev",
    "Transformer",
]
