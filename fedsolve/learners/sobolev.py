"""Sobolev training: a small network that follows a Lipschitz extension in values and in slopes (needs torch).

    min_θ max_j (φ(x_j) − h_θ(x_j))² + ∫ ‖∇φ(x) − ∇h_θ(x)‖² dx

Shen, Hassani, Kale and Karbasi (2022), equation 21, after Czarnecki et al., "Sobolev training for neural networks"
(NeurIPS 2017). φ is the Lipschitz extension of the target, which stays at the client; the network travels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.learners.base import Arrays, Fitting, Function, WeakLearner
from fedsolve.learners.lipschitz import LipschitzExtension, dense, extension
from fedsolve.numerics.linalg import is_float64, like, to_numpy
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class SmallNetwork(Function):
    """x ↦ a network with tanh layers, evaluated in NumPy."""

    layers: tuple[tuple[Array, Array], ...]

    def __call__(self, X: Array) -> Array:
        a = dense(X)
        for place, (W, b) in enumerate(self.layers):
            a = a @ to_numpy(W) + to_numpy(b)
            if place < len(self.layers) - 1:
                a = np.tanh(a)
        return a[:, 0] if sp.issparse(X) else like(a[:, 0], X)

    def arrays(self) -> Arrays:
        return tuple(array for layer in self.layers for array in layer)


@dataclass(frozen=True)
class SobolevLearner(WeakLearner):
    """Fits a tanh network to the Lipschitz extension of a target, one number per row.

    constant       L of the extension; None, the default, the largest slope between two rows. Where a target is steeper
                   than L, as what earlier fits have left over can be, the extension is as steep as it needs
    hidden         units of each hidden layer (default (32, 32))
    steps          of Adam, on all rows (default 400)
    learning_rate  of Adam at first (default 0.01); it falls to 0 along a cosine
    slopes         how much the slopes count beside the values (default 1, as in the paper)
    points         where slopes are compared in each step, drawn from the box around the client's rows (default 64)

    The value term is the mean plus the largest squared error: the largest alone trains one row at a time.
    """

    constant: float | None = None
    hidden: tuple[int, ...] = (32, 32)
    steps: int = 400
    learning_rate: float = 0.01
    slopes: float = 1.0
    points: int = 64

    kind: ClassVar[str] = "sobolev"

    def __post_init__(self) -> None:
        if self.constant is not None and not 0 < self.constant < np.inf:
            raise ConfigError(f"constant is a positive number, or None, got {self.constant!r}")
        for name in ("steps", "points"):
            whole(name, getattr(self, name), 1)
        for units in self.hidden:
            whole("hidden", units, 1)
        if not 0 < self.learning_rate < np.inf or not 0 <= self.slopes < np.inf:
            raise ConfigError(
                f"learning_rate is positive and slopes at least 0, got {self.learning_rate!r} and {self.slopes!r}"
            )

    # ── clients ──

    def fit(self, fitting: Fitting) -> SmallNetwork:
        points, target = dense(fitting.X), np.asarray(to_numpy(fitting.target), dtype=np.float64)
        if target.ndim != 1:
            raise DataError(f"Sobolev training is of one number per row, got targets of shape {target.shape}")
        if fitting.weight is not None:
            kept = to_numpy(fitting.weight) > 0
            points, target = points[kept], target[kept]
        phi = extension(points, target, None)
        if self.constant is not None:
            phi = LipschitzExtension(points, target, np.maximum(phi.constant, self.constant))
        return self._trained(points, target, phi, fitting.rng)

    def _trained(self, points: Array, target: Array, phi: LipschitzExtension, rng: np.random.Generator) -> SmallNetwork:
        torch = _torch()
        centre, scale = points.mean(axis=0), points.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        size = float(np.abs(target).max()) or 1.0
        Z, y = torch.tensor((points - centre) / scale), torch.tensor(target / size)
        layers = _initial(torch, (points.shape[1], *self.hidden, 1), rng)
        parameters = [array for layer in layers for array in layer]
        optimiser = torch.optim.Adam(parameters, lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        low, high = points.min(axis=0), points.max(axis=0)
        with torch.enable_grad():
            for _ in range(self.steps):
                optimiser.zero_grad()
                errors = (_forward(torch, layers, Z) - y) ** 2
                loss = errors.mean() + errors.max()
                if self.slopes:
                    there = rng.uniform(low, high, (self.points, len(low)))
                    at = torch.tensor((there - centre) / scale, requires_grad=True)
                    found = torch.autograd.grad(_forward(torch, layers, at).sum(), at, create_graph=True)[0]
                    wanted = torch.tensor(slopes_of(phi, there) * scale / size)  # in the network's units
                    loss = loss + self.slopes * ((found - wanted) ** 2).sum(dim=1).mean()
                loss.backward()
                optimiser.step()
                schedule.step()
        arrays = [[array.detach().numpy() for array in layer] for layer in layers]
        first, last = arrays[0], arrays[-1]
        first[0], first[1] = first[0] / scale[:, None], first[1] - (centre / scale) @ first[0]
        last[0], last[1] = size * last[0], size * last[1]
        return SmallNetwork(tuple((W, b) for W, b in arrays))

    # ── both sides ──

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> SmallNetwork:
        sizes = (inputs, *self.hidden, 1)
        wanted = [shape for a, b in pairwise(sizes) for shape in ((a, b), (b,))]
        shapes = [tuple(array.shape) for array in arrays]
        if outputs or shapes != wanted or not all(map(is_float64, arrays)):
            raise WrongType(f"a network of this learner has float64 arrays of shapes {wanted}, got {shapes}")
        return SmallNetwork(tuple(zip(arrays[::2], arrays[1::2], strict=True)))


def slopes_of(phi: LipschitzExtension, X: Array) -> Array:
    """∇φ at rows of X: −L (x − x_j) / ‖x − x_j‖ for the j that φ takes there; 0 at x_j itself."""
    from scipy.spatial.distance import cdist  # slow to import

    points, constant = to_numpy(phi.points), float(phi.constant)
    apart = cdist(X, points)
    j = (to_numpy(phi.values) - constant * apart).argmax(axis=1)
    length = apart[np.arange(len(X)), j][:, None]
    return np.asarray(-constant * (X - points[j]) / np.where(length > 0, length, 1.0))


def _initial(torch: Any, sizes: tuple[int, ...], rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Weights of variance 1/inputs, drawn by the step's own generator; biases 0."""
    return [
        (
            torch.tensor(rng.standard_normal((a, b)) / np.sqrt(a), requires_grad=True),
            torch.zeros(b, dtype=torch.float64, requires_grad=True),
        )
        for a, b in pairwise(sizes)
    ]


def _forward(torch: Any, layers: list[tuple[Any, Any]], a: Any) -> Any:
    for place, (W, b) in enumerate(layers):
        a = a @ W + b
        if place < len(layers) - 1:
            a = torch.tanh(a)
    return a[:, 0]


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ConfigError("SobolevLearner needs torch: pip install fedsolve[torch]") from None
    return torch
