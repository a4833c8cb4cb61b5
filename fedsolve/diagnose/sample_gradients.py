"""Gradients of single samples, whoever computes them: a loss of the library, a torch module, or code of your own.

A. Jadbabaie, A. Makur, D. Shah. Federated Optimization of Smooth Loss Functions. IEEE Transactions on Information
Theory 69(12), 2023. https://arxiv.org/abs/2201.01954
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedsolve.diagnose.partials import Partials
from fedsolve.diagnose.torch_partials import network_partials
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.losses.base import Loss
from fedsolve.losses.network import Network
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


class SampleGradients(Protocol):
    """What `gradient_ranks` needs to know of a problem f(x; θ).

    Attributes:
        w: The parameters θ* that are perturbed, a NumPy vector of float64.
        n_samples: How many samples there are to draw from.
    """

    @property
    def w(self) -> Array: ...

    @property
    def n_samples(self) -> int: ...

    def placed(self, w: Array) -> Array:
        """Parameters, a NumPy vector, as the gradients are computed with them."""
        ...

    def of(self, rows: Array) -> Partials:
        """The gradients of the samples with these indices."""
        ...


@dataclass(frozen=True, eq=False)
class LossGradients:
    """The samples of a client under a loss of the library, a `Network` among them; penalties are left out.

    Args:
        loss: The loss, such as `Logistic()` or `Network(MLP((784,)), Softmax(classes=10))`.
        client: Holds the samples; its sample weights have no part in the gradient of one sample.
        weights: θ*, in the shape that the loss has its weights in, such as `model.w`.
    """

    loss: Loss
    client: Client
    weights: Array

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ConfigError(f"loss is a loss of the library such as fs.Logistic(), got {self.loss!r}")
        if not isinstance(self.client, Client) or self.client.y is None:
            raise DataError("gradients of samples need a Client with targets, such as fs.Client('test', X, y)")
        self.loss.check(self.client)
        given, expected = np.shape(to_numpy(self.weights)), self._shape
        if given != expected:
            raise ConfigError(f"weights have shape {given}; this loss has weights of shape {expected} at this client")
        if not np.isfinite(self.w).all():
            raise ConfigError("weights have entries that are NaN or infinite")

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.loss.shape(self.client.design.shape[1], tuple(self.client.y.shape[1:]))

    @property
    def w(self) -> Array:
        """θ* as one vector."""
        return np.asarray(to_numpy(self.weights), dtype=np.float64).reshape(-1)

    @property
    def n_samples(self) -> int:
        """The client's samples."""
        return self.client.n_samples

    def placed(self, w: Array) -> Array:
        """Parameters in the shape and the kind of array that the loss computes with."""
        return self.loss.computing(self.client).localise(w.reshape(self._shape))

    def of(self, rows: Array) -> Partials:
        """The gradients of some of the client's samples."""
        part = self.loss.computing(self.client).subset(rows)
        if isinstance(self.loss, Network):
            return network_partials(self.loss, part)

        def partials(w: Array, columns: Array) -> Array:
            each = to_numpy(self.loss.sample_gradients(part, w))
            return each.reshape(len(rows), -1)[:, columns]

        return partials
