"""Gradients of single samples of any torch module, under any loss of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedsolve.diagnose.dense_partials import Named, dense_parts, is_dense
from fedsolve.diagnose.partials import Partials
from fedsolve.diagnose.torch_partials import taken_from, torch_partials
from fedsolve.errors import ConfigError, DataError
from fedsolve.networks.library import torch_library
from fedsolve.networks.tensors import writable
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, eq=False)
class ModuleGradients:
    """Samples under a torch module and a loss; needs PyTorch.

    The module is used as in evaluation mode: Dropout passes everything, BatchNorm has its running statistics. θ* are
    its parameters that are learned (`requires_grad`), in the order in which the module names them.

    Args:
        module: The module, trained or not. It is not changed.
        loss: A function of outputs and targets that returns a number, such as `torch.nn.functional.cross_entropy`.
            It is called for one sample at a time, with a first axis of length 1.
        X: The inputs, with a first axis for the samples: tensors, or what `torch.as_tensor` takes.
        y: The targets, likewise.
    """

    module: nn.Module
    loss: Callable[[Array, Array], Array]
    X: Array
    y: Array

    def __post_init__(self) -> None:
        torch = torch_library()
        if not isinstance(self.module, torch.nn.Module):
            raise ConfigError(f"module is a torch module, got {type(self.module).__name__}")
        if not callable(self.loss):
            raise ConfigError(f"loss is a function of outputs and targets, got {self.loss!r}")
        if not self._learned:
            raise ConfigError("the module has no parameters that are learned: all have requires_grad=False")
        if not np.isfinite(self.w).all():
            raise ConfigError("the module has parameters that are NaN or infinite")
        if len(self.X) != len(self.y):
            raise DataError(f"X has {len(self.X)} samples and y has {len(self.y)}; expected one target for each sample")

    @property
    def _learned(self) -> dict[str, Array]:
        return {name: one.detach() for name, one in self.module.named_parameters() if one.requires_grad}

    @property
    def w(self) -> Array:
        """θ* as one vector."""
        return np.concatenate([to_numpy(one.double()).reshape(-1) for one in self._learned.values()])

    @property
    def n_samples(self) -> int:
        """The samples in X."""
        return len(self.X)

    def placed(self, w: Array) -> Array:
        """Parameters as a tensor of the module's own type, where the module is."""
        first = next(iter(self._learned.values()))
        return torch_library().as_tensor(w).to(device=first.device, dtype=first.dtype)

    def of(self, rows: Array) -> Partials:
        """The gradients of some of the samples."""
        torch, learned = torch_library(), self._learned
        first = next(iter(learned.values()))
        shapes = {name: tuple(one.shape) for name, one in learned.items()}
        index = torch.as_tensor(rows)
        X, y = (_tensor(one)[index].to(first.device) for one in (self.X, self.y))
        X = X.to(first.dtype) if X.dtype.is_floating_point else X

        def single(named: Named, x: Array, target: Array) -> Array:
            outputs = torch.func.functional_call(self.module, named, (x[None],))
            return self.loss(outputs, target[None]).reshape(())

        def total(outputs: Array) -> Array:
            each = torch.func.vmap(lambda output, target: self.loss(output[None], target[None]).reshape(()))
            return each(outputs, y).sum()

        if is_dense(self.module) and X.ndim == 2 and X.dtype.is_floating_point:
            return taken_from(lambda named: dense_parts(self.module, named, X, total), shapes, len(X))
        inner = torch_partials(single, shapes, [X, y])

        def partials(w: Array, columns: Array) -> Array:
            with _evaluating(self.module):
                return inner(w, columns)

        return partials


def _tensor(array: Array) -> Array:
    torch = torch_library()
    return array if torch.is_tensor(array) else torch.as_tensor(writable(np.asarray(array)))


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode; every part is as before afterwards."""
    training = [part for part in module.modules() if part.training]
    try:
        module.eval()
        yield
    finally:
        for part in training:
            part.training = True
