"""Nyström features: φ(x) = K_mm^(−½) k(x), with k(x) the kernel between x and m landmarks (Williams and Seeger 2001).

φ(x)ᵀφ(z) is the kernel's projection onto the landmarks. These are nobody's rows, because both sides know the map: a
public set, or draws from a declared range. The kernel is one of three names with a `gamma`, or any kernel object of
`exact_kernels`.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.features.base import FeatureMap, dense, one_of, positive, whole
from fedsolve.features.exact_kernels import ExactKernel
from fedsolve.features.kernels import KERNELS, Kernel, kernel_matrix
from fedsolve.plain import Reader
from fedsolve.plain.reading import Listed
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)


class _OnLandmarks(FeatureMap):
    """What the two kinds of landmarks share."""

    gamma: float | None
    kernel: Kernel | ExactKernel

    reader: ClassVar[Reader] = Reader(Listed("kernel", ExactKernel.known))

    @abstractmethod
    def landmarks_for(self, d: int) -> Array:
        """m rows of d numbers."""

    def block(self, X: Array) -> Array:
        points, root = self.arrays(X)
        return self._matrix(dense(X), points) @ root

    def draw(self, d: int) -> tuple[Array, ...]:
        """The landmarks, and K_mm^(−½) without the directions that rounding decides."""
        points = self.landmarks_for(d)
        K = self._matrix(points, points)
        if not np.isfinite(K).all():
            raise DataError("the kernel of the landmarks has entries that are missing or infinite; scale the landmarks")
        values, vectors = np.linalg.eigh(K)
        if values[0] < -1e-8 * np.abs(values).max():
            raise DataError(f"this is no kernel: for the landmarks it has the negative eigenvalue {values[0]:g}")
        kept = values > values[-1] * len(points) * _EPS
        roots = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
        return points, (vectors * roots) @ vectors.T

    def _matrix(self, X: Array, Z: Array) -> Array:
        if isinstance(self.kernel, ExactKernel):
            return self.kernel(X, Z)
        assert self.gamma is not None
        return kernel_matrix(self.kernel, self.gamma, X, Z)

    def _check_kernel(self) -> None:
        if not isinstance(self.kernel, ExactKernel):
            positive("gamma", self.gamma)
            one_of("kernel", self.kernel, KERNELS)
        elif self.gamma is not None:
            raise ConfigError(f"{self.kernel!r} has its own hyper-parameters; leave gamma out, got {self.gamma!r}")


@dataclass(frozen=True, eq=False, repr=False)
class Nystroem(_OnLandmarks):
    """On landmarks that are public: an array of m rows.

    With all rows as landmarks the features have the exact kernel: to about 1e-9 in the range of the landmarks, on and
    off them. Far outside it a smooth kernel such as a Gaussian one keeps fewer digits (5e-8 at three times the range).

    Args:
        landmarks: The rows.
        gamma: Of a kernel given by name.
        kernel: "gaussian" (the default), "laplace" or "cauchy"; or a kernel object such as `Matern(1.5)`, without
            gamma.
    """

    landmarks: Array
    gamma: float | None = None
    kernel: Kernel | ExactKernel = "gaussian"

    def __post_init__(self) -> None:
        self._check_kernel()
        try:
            points = np.array(self.landmarks, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise ConfigError("landmarks are a matrix of numbers, a row for each") from None
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise ConfigError(f"landmarks are a matrix of finite numbers, a row for each, got shape {points.shape}")
        points.flags.writeable = False
        object.__setattr__(self, "landmarks", points)
        digest = hashlib.blake2b(points.tobytes(), digest_size=16).digest()
        object.__setattr__(self, "_identity", (digest, points.shape, self.gamma, self.kernel))

    @staticmethod
    def from_range(
        low: Array,
        high: Array,
        count: int,
        gamma: float | None = None,
        kernel: Kernel | ExactKernel = "gaussian",
        seed: int = 0,
    ) -> NystroemRange:
        """`count` landmarks drawn between `low` and `high`: numbers, or one for each column."""
        return NystroemRange(low, high, count, gamma, kernel, seed)

    # Arrays neither compare nor hash as a dataclass would have it.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nystroem) and self._identity == other._identity  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._identity)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        m, d = self.landmarks.shape
        scale = "" if self.gamma is None else f"gamma={self.gamma!r}, "
        return f"Nystroem(landmarks=<{m} × {d}>, {scale}kernel={self.kernel!r})"

    def dimension(self, d: int) -> int:
        return int(self.landmarks_for(d).shape[0])

    def landmarks_for(self, d: int) -> Array:
        if self.landmarks.shape[1] != d:
            raise DataError(f"the landmarks have {self.landmarks.shape[1]} columns, the inputs {d}")
        return self.landmarks


@dataclass(frozen=True)
class NystroemRange(_OnLandmarks):
    """On landmarks drawn uniformly from a declared range: `low` and `high` are numbers, or one for each column."""

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    count: int
    gamma: float | None = None
    kernel: Kernel | ExactKernel = "gaussian"
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_kernel()
        whole("count", self.count)
        whole("seed", self.seed, 0)
        for name in ("low", "high"):
            try:
                end = np.asarray(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError):
                raise ConfigError(f"{name} is a number, or one for each column") from None
            if end.ndim > 1 or not np.isfinite(end).all():
                raise ConfigError(f"{name} is a finite number, or one for each column")
            object.__setattr__(self, name, tuple(end.tolist()) if end.ndim else float(end))
        try:
            rising = bool((np.asarray(self.low) < np.asarray(self.high)).all())
        except ValueError:
            raise ConfigError("low and high are for different numbers of columns") from None
        if not rising:
            raise ConfigError("low is below high in every column")

    def dimension(self, d: int) -> int:
        for name in ("low", "high"):
            end = getattr(self, name)
            if isinstance(end, tuple) and len(end) != d:
                raise DataError(f"{name} is for {len(end)} columns, the inputs have {d}")
        return self.count

    def landmarks_for(self, d: int) -> Array:
        self.dimension(d)
        rng = np.random.default_rng((self.seed, 3))
        return np.asarray(self.low) + (np.asarray(self.high) - np.asarray(self.low)) * rng.random((self.count, d))
