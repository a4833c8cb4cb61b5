"""Lipschitz extensions: the exact oracle Q^lip of the square loss, for simulation only.

    u_i(x) = min_j (y_j + L ‖x − x_j‖)          Shen, Hassani, Kale and Karbasi (2022), equation 13

u_i interpolates a client's rows, and `u_i` *is* its rows: whoever receives it has them. It shows what the theory says
(Theorem 4.4), and no run between organisations may use it. `SobolevLearner` fits a network to it, which may travel.

In Algorithm 3, the paper's form for the square loss, the known part g of the gradient g − u_i is not approximated, and
boosting is g ← (1 − η) g + η h with h ≈ u_i − Δ. This is `FFGB` with μ = 1 (and 1 + μ for a Tikhonov term μ) and the
linear part of the loss, ½y² − f·y (`losses.linear_part`): its targets are Δ − y, and the learner returns −h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess
from fedsolve.learners.base import Arrays, Fitting, Function, WeakLearner
from fedsolve.numerics.linalg import is_float64, like, to_numpy
from fedsolve.plain import Plain
from fedsolve.typing import Array

ROUNDING = 1e-9  # by which slopes between rows may exceed the constant


@dataclass(frozen=True, eq=False)
class LipschitzExtension(Function):
    """x ↦ max_j (t_j − L ‖x − x_j‖): the least function with slopes of at most L that has the values t_j at x_j.

    It is −u for the u of equation 13 with y = −t.
    """

    points: Array
    values: Array
    constant: Array

    def __call__(self, X: Array) -> Array:
        from scipy.spatial.distance import cdist  # slow to import

        rows = dense(X)
        found = (to_numpy(self.values) - float(self.constant) * cdist(rows, to_numpy(self.points))).max(axis=1)
        return found if sp.issparse(X) else like(found, X)

    def arrays(self) -> Arrays:
        """Points, values and the constant. The points are rows of the client's data."""
        return self.points, self.values, self.constant


@dataclass(frozen=True)
class LipschitzLearner(WeakLearner):
    """Interpolates a target with slopes of at most `constant`; fits exactly (γ = 1), and sends the rows themselves.

    constant  L. None, the default, takes the largest slope between two rows, the least constant there is

    Only for simulation: a run whose clients are not in this process is rejected, and so is saving the model.
    """

    constant: float | None = None

    simulation_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.constant is not None and not 0 < self.constant < np.inf:
            raise ConfigError(f"constant is a positive number, or None, got {self.constant!r}")

    # ── clients ──

    def fit(self, fitting: Fitting) -> LipschitzExtension:
        points, target = dense(fitting.X), to_numpy(fitting.target)
        if target.ndim != 1:
            raise DataError(f"a Lipschitz extension is of one number per row, got targets of shape {target.shape}")
        if fitting.weight is not None:
            kept = to_numpy(fitting.weight) > 0
            points, target = points[kept], target[kept]
        return extension(points, target, self.constant)

    # ── both sides ──

    @property
    def sends(self) -> str:
        """What a client sends of its functions, in words, for reports."""
        return "functions that contain its rows themselves"

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> LipschitzExtension:
        shapes = [tuple(array.shape) for array in arrays]
        n = shapes[0][0] if shapes and shapes[0] else 0
        if outputs or n < 1 or shapes != [(n, inputs), (n,), ()] or not all(map(is_float64, arrays)):
            raise WrongType(f"a Lipschitz extension has points, values and a constant, got shapes {shapes}")
        return LipschitzExtension(*(to_numpy(array) for array in arrays))

    # ── server ──

    def prepare(self, fed: Federation) -> Arrays:
        check_simulation(self, fed)
        return ()

    # ── files ──

    def to_plain(self) -> Plain:
        raise ConfigError(
            "the functions of this model are rows of the clients' data, because LipschitzLearner is for simulation: "
            "such a model is not saved"
        )


def check_simulation(learner: WeakLearner, fed: Federation) -> None:
    """Raise ConfigError unless all clients are in this process: what the learner sends is their data."""
    if not isinstance(fed.transport, InProcess):
        raise ConfigError(
            f"{type(learner).__name__} sends rows of the clients' data and is for simulation in this process only, not "
            f"for {type(fed.transport).__name__}: take another learner, such as SobolevLearner, or the in-process "
            "transport"
        )


def extension(points: Array, target: Array, constant: float | None) -> LipschitzExtension:
    """The extension of these values. Raises DataError if two of them differ by more than the constant allows."""
    steepest = largest_slope(points, target)
    if not np.isfinite(steepest):
        raise DataError("two rows with the same inputs have different targets, which no function interpolates")
    if constant is not None and steepest > constant * (1 + ROUNDING):
        raise DataError(
            f"two rows have targets that differ by {steepest:.6g} times their distance, more than the constant "
            f"{constant:g}: no function with such slopes has these values; give a larger constant"
        )
    return LipschitzExtension(points, target, np.array(steepest if constant is None else float(constant)))


def largest_slope(points: Array, target: Array) -> float:
    """max |t_j − t_k| / ‖x_j − x_k‖, infinite where equal rows have different values, 0 for one row."""
    from scipy.spatial.distance import pdist  # slow to import

    if len(points) < 2:
        return 0.0
    apart, rise = pdist(points), pdist(target[:, None])
    slopes = np.divide(rise, apart, out=np.where(rise > 0, np.inf, 0.0), where=apart > 0)
    return float(slopes.max())


def dense(X: Array) -> Array:
    """Rows as a dense NumPy matrix."""
    return np.asarray(X.toarray() if sp.issparse(X) else to_numpy(X), dtype=np.float64)
