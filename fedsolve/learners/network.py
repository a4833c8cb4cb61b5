"""Networks as weak learners: Adam on the squares between a network's outputs and a target (needs torch)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar, Literal

import array_api_compat as api
import numpy as np

from fedsolve.errors import ConfigError, WrongType
from fedsolve.features.base import dense
from fedsolve.learners.base import Arrays, Fitting, Function, WeakLearner
from fedsolve.networks.architecture import Architecture, check_architecture
from fedsolve.networks.gradients import gradient_of
from fedsolve.networks.library import checked_device, torch_library
from fedsolve.networks.modules import flat_module, initial_weights
from fedsolve.networks.tensors import weight_scale
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import at_least_zero, positive, whole
from fedsolve.plain import Reader
from fedsolve.plain.reading import Listed
from fedsolve.typing import Array

ROWS = 2048  # rows whose activations are held at once
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's, as Kingma and Ba have them


@dataclass(frozen=True, eq=False)
class NetworkFunction(Function):
    """x ↦ what a network puts out; `outputs` is the shape of one output."""

    architecture: Architecture
    w: Array
    outputs: tuple[int, ...]
    device: str | None = None

    def __call__(self, X: Array) -> Array:
        torch = torch_library()
        w = _tensor(self.w, str(self.w.dtype).split(".")[-1], self.device or _device_of(X))
        net = flat_module(self.architecture, X.shape[1], prod(self.outputs))
        with torch.no_grad():
            rows = (_tensor(dense(X[start : start + ROWS]), w.dtype, w.device) for start in range(0, X.shape[0], ROWS))
            eta = torch.cat([net(w, block) for block in rows]).double()
        eta = eta if self.outputs else eta[:, 0]
        return eta.to(X.device) if api.is_torch_array(X) else to_numpy(eta)

    def arrays(self) -> Arrays:
        return (self.w,)


@dataclass(frozen=True)
class NetworkLearner(WeakLearner):
    """Fits a network to a target by Adam, from weights that the client draws for each fit. It travels as one array.

    architecture  `fs.MLP(…)`, `fs.CNN(…)` or an architecture of your own
    epochs        passes over the client's rows (default 100, as Shen et al. have it)
    batch_size    rows in a batch; None takes all (default 64)
    step_size     Adam's (default 0.001)
    l2            adds (l2/2) ‖w‖² to half the weighted mean of squares (default 0)
    dtype         "float32" (default) or "float64", for computing and on the wire
    device        "cpu" or "cuda"; None (default) stays where a torch client's rows are, else on the CPU
    """

    architecture: Architecture
    epochs: int = 100
    batch_size: int | None = 64
    step_size: float = 0.001
    l2: float = 0.0
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["cpu", "cuda"] | None = None

    kind: ClassVar[str] = "network"
    reader: ClassVar[Reader] = Reader(Listed("architecture", Architecture.known))

    def __post_init__(self) -> None:
        check_architecture(self.architecture)
        whole("epochs", self.epochs, 1)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, 1)
        positive("step_size", self.step_size)
        at_least_zero("l2", self.l2)
        if self.dtype not in ("float32", "float64") or self.device not in ("cpu", "cuda", None):
            raise ConfigError(
                f"dtype is 'float32' or 'float64' and device 'cpu', 'cuda' or None, got {self.dtype!r}, {self.device!r}"
            )

    # ── clients ──

    def fit(self, fitting: Fitting) -> NetworkFunction:
        """The network after so many epochs of Adam, each in an order that the client draws."""
        outputs, kept = tuple(fitting.target.shape[1:]), fitting.kept
        place = checked_device(self.device or "cpu") if self.device else _device_of(fitting.X)
        if "rows" not in kept:
            kept["rows"] = _tensor(dense(fitting.X), self.dtype, place)
        X = kept["rows"]
        target = _tensor(fitting.target, self.dtype, place).reshape(len(fitting.target), -1)
        weight = fitting.weight
        if weight is not None:
            weight = _tensor(weight * weight_scale(float(weight.sum()), len(weight)), self.dtype, place)
        inputs, seed = int(fitting.X.shape[1]), int(fitting.rng.integers(2**31))
        w = _tensor(initial_weights(self.architecture, inputs, prod(outputs), seed), self.dtype, place)
        w = self._trained(w, X, target, weight, fitting.rng)
        own = w.to(fitting.X.device) if api.is_torch_array(fitting.X) else to_numpy(w)
        return NetworkFunction(self.architecture, own, outputs, self.device)

    def _trained(self, w: Array, X: Array, target: Array, weight: Array | None, rng: np.random.Generator) -> Array:
        torch, n = torch_library(), int(target.shape[0])
        net, size = flat_module(self.architecture, X.shape[1], target.shape[1]), self.batch_size or n

        def squares(v: Array, rows: Array) -> Array:
            each = ((net(v, X[rows]) - target[rows]) ** 2).sum(dim=1)
            if weight is None:
                return 0.5 * each.mean()
            return 0.5 * (weight[rows] * each).sum() / weight[rows].sum().clamp(min=torch.finfo(each.dtype).tiny)

        m = v = torch.zeros_like(w)
        step = 0
        for _ in range(self.epochs):
            order = torch.as_tensor(rng.permutation(n) if size < n else np.arange(n), device=w.device)
            for start in range(0, n, size):
                step += 1
                gradient = gradient_of(partial(squares, rows=order[start : start + size]))
                g = gradient(w) + self.l2 * w
                m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
                w = w - self.step_size * (m / (1 - BETA1**step)) / ((v / (1 - BETA2**step)).sqrt() + EPSILON)
        return w

    # ── both sides ──

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> NetworkFunction:
        count = flat_module(self.architecture, inputs, prod(outputs)).count
        found = [(str(array.dtype).split(".")[-1], tuple(array.shape)) for array in arrays]
        if found != [(self.dtype, (count,))]:
            raise WrongType(f"a function of this network is one {self.dtype} array of shape ({count},), got {found}")
        return NetworkFunction(self.architecture, arrays[0], outputs, self.device)


def _tensor(array: Array, dtype: object, place: object) -> Array:
    torch = torch_library()
    kind = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    given = array if torch.is_tensor(array) else torch.as_tensor(np.array(array))
    return given.to(device=place, dtype=kind)


def _device_of(X: Array) -> str:
    return str(X.device) if api.is_torch_array(X) else "cpu"
