"""Exact kernels as objects: `kernel(X, Z)` is the matrix of k(x, z) for every row x of X and z of Z.

    Gaussian          exp(−γ ‖x − z‖²), also called RBF
    Laplace           exp(−γ ‖x − z‖₁)
    Cauchy            Π_i 1 / (1 + γ (x_i − z_i)²)
    Matern            2^(1−ν)/Γ(ν) · r^ν K_ν(r), r = √(2ν) ‖x − z‖ / length_scale
    Sobolev           Π_i min(x_i, z_i), for columns of at least 0
    PolynomialKernel  (γ xᵀz + constant)^degree
    LinearKernel      xᵀz + constant

A kernel is a frozen dataclass of hyper-parameters, which run files, saved models and fingerprints hold as plain values.
`Nystroem(landmarks, kernel=Matern(1.5))` makes features of any of them. A function of your own is a `CallableKernel`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import is_array_api_obj

from fedsolve.errors import ConfigError, DataError, InputError
from fedsolve.features.base import dense, positive, whole
from fedsolve.features.kernels import kernel_matrix, squared_distances, zeros
from fedsolve.numerics.linalg import like, namespace, to_numpy
from fedsolve.numerics.scalars import at_least_zero
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.typing import Array

__all__ = [
    "Cauchy",
    "ExactKernel",
    "Gaussian",
    "Laplace",
    "LinearKernel",
    "Matern",
    "PolynomialKernel",
    "Sobolev",
]

MOST_NU = 50.0  # beyond it a Matérn kernel cannot be told from a Gaussian one, and K_ν leaves the range of numbers

FAR = 1e4  # exp(−r) is 0 well before


class ExactKernel(ABC):
    """k(x, z), symmetric and positive semidefinite. Subclasses are frozen dataclasses."""

    known: ClassVar[dict[str, type[ExactKernel]]] = {}  # by name, for models and feature maps that are read back

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if not cls.__name__.startswith("_"):
            ExactKernel.known[cls.__name__] = cls

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """k(x, z) for every row x of X and z of Z; without Z for every two rows of X.

        The rows are dense or CSR; the matrix is dense, of the library and on the device of X (NumPy for CSR). Whole
        numbers are taken as float64. Raises DataError if the rows have different numbers of columns, or are no arrays
        of numbers.
        """
        rows = _rows(X)
        others = rows if Z is None else _rows(Z)
        if rows.ndim != 2 or others.ndim != 2 or rows.shape[1] != others.shape[1]:
            raise DataError(
                f"a kernel takes two matrices with the same columns, got shapes {tuple(rows.shape)} and "
                f"{tuple(others.shape)}"
            )
        return self.matrix(rows, others)

    @abstractmethod
    def matrix(self, X: Array, Z: Array) -> Array:
        """k(x, z) for the rows of two dense matrices with the same columns."""

    def to_plain(self) -> Plain:
        """Name and hyper-parameters as JSON knows them."""
        return to_plain(self)

    @staticmethod
    def from_plain(plain: object) -> ExactKernel:
        """The kernel that `to_plain` described; raises DataError for anything else."""
        name = plain.get("name") if isinstance(plain, Mapping) else None
        if not isinstance(name, str) or name not in ExactKernel.known:
            raise DataError(f"unknown kernel {name!r}; known: {', '.join(sorted(ExactKernel.known))}")
        try:
            return Reader().make(ExactKernel.known[name], plain, name)
        except InputError as error:
            raise DataError(f"not a {name}: {error}") from None


@dataclass(frozen=True)
class Gaussian(ExactKernel):
    """exp(−γ ‖x − z‖²), the radial basis function (RBF).

    Args:
        gamma: γ, as scikit-learn's `gamma`: 1/(2·length²).
    """

    gamma: float

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    def matrix(self, X: Array, Z: Array) -> Array:
        return kernel_matrix("gaussian", self.gamma, X, Z)


@dataclass(frozen=True)
class Laplace(ExactKernel):
    """exp(−γ ‖x − z‖₁).

    Args:
        gamma: γ, as scikit-learn's `gamma`.
    """

    gamma: float

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    def matrix(self, X: Array, Z: Array) -> Array:
        return kernel_matrix("laplace", self.gamma, X, Z)


@dataclass(frozen=True)
class Cauchy(ExactKernel):
    """Π_i 1 / (1 + γ (x_i − z_i)²).

    Args:
        gamma: γ.
    """

    gamma: float

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    def matrix(self, X: Array, Z: Array) -> Array:
        return kernel_matrix("cauchy", self.gamma, X, Z)


@dataclass(frozen=True)
class Matern(ExactKernel):
    """Matérn's kernel, 2^(1−ν)/Γ(ν) · r^ν K_ν(r) with r = √(2ν) ‖x − z‖ / length_scale, as scikit-learn has it.

    Args:
        nu: ν, how smooth. ½, 1½ and 2½ have short formulas that run on any array library; for others SciPy computes K_ν
            on the CPU. At most 50. Default 1.5.
        length_scale: The distance over which the function changes. Default 1.
    """

    nu: float = 1.5
    length_scale: float = 1.0

    def __post_init__(self) -> None:
        positive("nu", self.nu)
        positive("length_scale", self.length_scale)
        if self.nu > MOST_NU:
            raise ConfigError(f"nu is at most {MOST_NU:g}, got {self.nu!r}; a Gaussian kernel is as smooth")

    def matrix(self, X: Array, Z: Array) -> Array:
        xp = namespace(X)
        r = math.sqrt(2 * self.nu) / self.length_scale * xp.sqrt(squared_distances(X, Z))
        if self.nu in (0.5, 1.5, 2.5):
            r = xp.clip(r, 0.0, FAR)
        if self.nu == 0.5:
            return xp.exp(-r)
        if self.nu == 1.5:
            return (1 + r) * xp.exp(-r)
        if self.nu == 2.5:
            return (1 + r + r * r / 3) * xp.exp(-r)
        found = _matern(self.nu, to_numpy(r))
        return found if xp is np else like(found, r)


@dataclass(frozen=True)
class Sobolev(ExactKernel):
    """Π_i min(x_i, z_i): the kernel of the first-order Sobolev space of functions with f(0) = 0.

    Su et al. use it on [0, 1]. With several columns it is the product over them. Columns must not be negative.
    """

    def matrix(self, X: Array, Z: Array) -> Array:
        xp = namespace(X)
        for rows in (X, Z):
            if rows.shape[0] and rows.shape[1] and float(xp.min(rows)) < 0:
                raise DataError(
                    f"the Sobolev kernel min(x, z) is for columns of at least 0, got {float(xp.min(rows)):g}; scale "
                    "them to [0, 1]"
                )
        nothing = zeros(X, Z)
        found = 1.0 + nothing
        for i in range(X.shape[1]):  # a column at a time: never n · m · d numbers at once
            left, right = X[:, i][:, None] + nothing, Z[:, i][None, :] + nothing
            found = found * xp.where(left < right, left, right)
        return found


@dataclass(frozen=True)
class PolynomialKernel(ExactKernel):
    """(γ xᵀz + constant)^degree, as scikit-learn has it.

    Args:
        degree: Default 2.
        constant: At least 0; with 0 there are products of exactly `degree` columns only. Default 1.
        gamma: γ. Default 1.
    """

    degree: int = 2
    constant: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        whole("degree", self.degree)
        positive("gamma", self.gamma)
        at_least_zero("constant", self.constant)

    def matrix(self, X: Array, Z: Array) -> Array:
        return (self.gamma * (X @ Z.T) + self.constant) ** self.degree


@dataclass(frozen=True)
class LinearKernel(ExactKernel):
    """xᵀz + constant.

    Args:
        constant: At least 0; 1 gives a penalised intercept. Default 0.
    """

    constant: float = 0.0

    def __post_init__(self) -> None:
        at_least_zero("constant", self.constant)

    def matrix(self, X: Array, Z: Array) -> Array:
        return X @ Z.T + self.constant


def _matern(nu: float, r: Array) -> Array:
    """2^(1−ν)/Γ(ν) · r^ν K_ν(r), 1 at r = 0 and 0 far away; missing where r is."""
    from scipy.special import gammaln, kv  # slow to import

    factor = math.exp((1 - nu) * math.log(2) - float(gammaln(nu)))
    with np.errstate(over="ignore", invalid="ignore"):
        found = factor * r**nu * kv(nu, r)
    # Where a factor leaves the range of numbers, the kernel is 1 or 0 to the last digit: K_ν overflows near r = 0, and
    # r^ν where K_ν is 0 already.
    return np.where(np.isfinite(found) | np.isnan(r), found, np.where(r < 1, 1.0, 0.0))


def _rows(given: Array) -> Array:
    """A dense matrix of real floating-point numbers: pixels of 8 bits, for one, would wrap around in a product."""
    X = dense(given)
    if not isinstance(X, np.ndarray) and not is_array_api_obj(X):
        raise DataError(
            f"a kernel takes matrices of NumPy, SciPy or another library, got {type(given).__name__}; convert it, "
            "for example with X.to_numpy() or np.asarray(X)"
        )
    xp = namespace(X)
    if xp.isdtype(X.dtype, ("bool", "integral")):
        return xp.astype(X, xp.float64)
    if not xp.isdtype(X.dtype, "real floating"):
        raise DataError(f"a kernel takes matrices of real numbers, got entries of type {X.dtype}")
    return X
