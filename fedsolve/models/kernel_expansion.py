"""Kernel expansions: x ↦ Σ_j α_j k(x, x_j)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError
from fedsolve.features.base import dense
from fedsolve.features.exact_kernels import ExactKernel
from fedsolve.models.base import Description, Model, Plain
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array

BLOCK = 2**25  # bytes of a kernel matrix that is held at once: 32 MiB


@dataclass(frozen=True, eq=False, repr=False)
class KernelExpansion(Model):
    """x ↦ Σ_j α_j k(x, x_j), a regression.

    It holds the points themselves, and so does its file: whoever has the model has these rows.

    Attributes:
        points: x_j, a row each, after preprocessing.
        coefficients: α, a number for each point; with several outputs a matrix, a column for each.
        kernel: k.
        classes: What the outputs stand for, where they are one-hot targets; `classify` gives these.
        transform: The preprocessing: raw columns go in.
        feature_names: The names of the columns after preprocessing.
    """

    points: Array
    coefficients: Array
    kernel: ExactKernel
    classes: Classes | None = None
    transform: Transform | None = None
    feature_names: tuple[str, ...] | None = None

    kind: ClassVar[str] = "kernel expansion"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, ExactKernel):
            raise ConfigError(f"kernel is an exact kernel such as Gaussian(0.5), got {self.kernel!r}")
        points, alpha = (_numbers(name, getattr(self, name)) for name in ("points", "coefficients"))
        if points.ndim != 2 or alpha.ndim not in (1, 2) or len(alpha) != len(points):
            raise DataError(
                f"an expansion has a matrix of points and a coefficient for each, got shapes {points.shape} and "
                f"{alpha.shape}"
            )
        if self.classes is not None and alpha.ndim == 2 and len(self.classes) != alpha.shape[1]:
            raise DataError(f"each of {len(self.classes)} classes needs an output, got {alpha.shape[1]} outputs")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "coefficients", alpha)

    @property
    def in_words(self) -> str:
        """What kind of model it is, for a report."""
        return f"a kernel model on {len(self.points):,} points"

    def __repr__(self) -> str:
        several = f" × {self.coefficients.shape[1]}" if self.coefficients.ndim == 2 else ""
        kept = "" if self.transform is None else ", takes raw columns"
        return f"<KernelExpansion: {len(self.points)}{several} coefficients, {self.kernel!r}{kept}>"

    # ── predicting ──

    def predict(self, X: Array) -> Array:
        """A value for each row of X, or a row of values with several outputs (see `prepared` for what X may be)."""
        X = dense(self.prepared(X))
        width = self.points.shape[1]
        if X.shape[1] != width:
            raise DataError(f"this model takes {width} columns, X has shape {X.shape}")
        self._check_finite(X)
        rows = max(1, BLOCK // (8 * max(1, len(self.points))))
        parts = [self.kernel(X[at : at + rows], self.points) @ self.coefficients for at in range(0, len(X), rows)]
        return np.concatenate(parts) if parts else np.zeros((0, *self.coefficients.shape[1:]))

    def _check_finite(self, X: Array) -> None:
        wrong = np.argwhere(~np.isfinite(X))
        if not len(wrong):
            return
        row, column = wrong[0]
        where = f"column {self._column(column)}, row {row} (from 0)"
        if np.isnan(X[row, column]):
            raise DataError(f"{where}: missing, and this model has no preprocessing that could impute it")
        raise DataError(f"{where}: {X[row, column]}, expected a finite number")

    def classify(self, X: Array) -> Array:
        """The class with the largest output, of an expansion fitted on one-hot targets."""
        if self.coefficients.ndim == 1 or self.coefficients.shape[1] == 1:
            raise ConfigError(
                "a regression of one output has no classes; learn from one-hot targets, data.one_hot(y, k)"
            )
        labels = self.predict(X).argmax(axis=1)
        return labels if self.classes is None else np.asarray(self.classes)[labels]

    @property
    def columns(self) -> int | None:
        """How many columns go in."""
        return len(self.transform.columns) if self.transform is not None else int(self.points.shape[1])

    # ── as a function ──

    @property
    def norm(self) -> float:
        """Its norm in the kernel's space, √(Σ αᵀKα)."""
        alpha = self.coefficients.reshape(len(self.points), -1)
        return math.sqrt(max(float(np.sum(alpha * (self.kernel(self.points) @ alpha))), 0.0))

    def plus(self, other: KernelExpansion) -> KernelExpansion:
        """The sum of two expansions of one kernel, on the points of both. Raises ConfigError for another kernel."""
        same = self.kernel == other.kernel and self.coefficients.shape[1:] == other.coefficients.shape[1:]
        if not same or self.points.shape[1] != other.points.shape[1] or self.transform != other.transform:
            raise ConfigError(
                f"only expansions of one kernel, with the same columns and outputs, can be added: {self!r} and "
                f"{other!r}"
            )
        points = np.concatenate([self.points, other.points])
        alpha = np.concatenate([self.coefficients, other.coefficients])
        return KernelExpansion(points, alpha, self.kernel, self.classes, self.transform, self.feature_names)

    # ── describing ──

    def described(self, names: Sequence[str] | None = None) -> Description:
        """What kernel, how many points, and that these are rows of the data."""
        n, d = self.points.shape
        outputs = self.coefficients.shape[1] if self.coefficients.ndim == 2 else 1
        several = "" if outputs == 1 else f" and {outputs} outputs"
        return Description(
            (
                f"A kernel expansion with {n} points of {d} columns{several}, of norm {self.norm:.4g}.",
                f"Its kernel is {self.kernel!r}.",
                "It holds its points: share it only with those who may see these rows.",
            )
        )

    # ── files ──

    def settings(self) -> Plain:
        """What is saved as JSON, by name. Raises ConfigError for a kernel that has no plain form."""
        return {
            "kernel": self.kernel.to_plain(),
            "classes": self.classes,
            "transform": None if self.transform is None else self.transform.to_plain(),
            "feature_names": self.feature_names,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], settings: Plain) -> KernelExpansion:
        """The model that `arrays` and `settings` were of. Raises DataError if they are of none."""
        classes, names, transform = (settings[name] for name in ("classes", "feature_names", "transform"))
        return cls(
            arrays["points"],
            arrays["coefficients"],
            ExactKernel.from_plain(settings["kernel"]),
            None if classes is None else tuple(classes),
            None if transform is None else Transform.from_plain(transform),
            None if names is None else tuple(names),
        )


def _numbers(name: str, given: Array) -> Array:
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} are numbers, got {type(given).__name__}") from None
    if not np.isfinite(array).all():
        raise DataError(f"{name} are finite numbers; some are missing or infinite")
    array.flags.writeable = False
    return array
