"""What an algorithm may ask of an objective, whatever the model is.

    f = Σ_j p_j f_j,   p_j = weight_j / Σ weight

Each client computes its own f_j; the weighted mean of the clients' values and gradients is that of the pooled data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import ClassVar

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.federation.client import Client
from fedsolve.models.base import Model
from fedsolve.typing import Array


class Loss(ABC):
    """An objective: f_j of a client's samples at weights w, and the model that weights stand for.

    This is all that first-order algorithms need. What an algorithm needs beyond it, it lists in its `needs`: "hessian",
    "minimise", "solve". A loss says in `provides` what it has, and a run is rejected before it starts if something is
    missing.

    A loss is a frozen dataclass; its fields are hyper-parameters that both sides know.

    Attributes:
        provides: What it has: "gradient" and, if it has them, "hessian", "minimise", "solve".
        quadratic: Whether f is a quadratic in w.
        curvature_bound: A bound on the curvature of ℓ in the prediction; infinite where none is known.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"gradient"})
    quadratic: ClassVar[bool] = False
    curvature_bound: ClassVar[float] = float("inf")
    converts: ClassVar[bool] = False  # whether `computing` makes arrays of its own

    # ── clients ──

    @abstractmethod
    def value(self, client: Client, w: Array) -> float:
        """f_j(w)."""

    @abstractmethod
    def gradient(self, client: Client, w: Array) -> Array:
        """∇f_j(w), in the shape of w."""

    def salt(self, client: Client) -> Array | None:
        """What a loss that learns from samples changed by chance draws from, once in each run of a local solver; None,
        as a rule: it learns from the samples as they are."""
        return None

    def changed_gradient(self, client: Client, w: Array, salt: Array) -> Array:
        """∇f_j(w) on samples changed by chance, of a loss that has a salt."""
        return self.gradient(client, w)

    @abstractmethod
    def sample_gradients(self, client: Client, w: Array) -> Array:
        """∇ℓ_i(w) of each sample, without the penalty and without its sample weight: a first axis for the samples, then
        the shape of w. Their weighted mean plus `penalty_gradient(w)` is `gradient(client, w)`."""

    @abstractmethod
    def check(self, client: Client) -> None:
        """Raise DataError if the client has targets that the loss is not defined for."""

    def check_weights(self, client: Client, **arrays: Array) -> None:
        """Raise WrongType unless each array has the shape and the dtype that w has at this client."""
        shape = self.shape(client.design.shape[1], tuple(client.y.shape[1:]))
        for name, array in arrays.items():
            if tuple(array.shape) != shape or array.dtype != client.y.dtype:
                raise WrongType(
                    f"{name} has {array.dtype} entries and shape {tuple(array.shape)}, where the weights of this "
                    f"client's problem have float64 entries and shape {shape}"
                )

    def computing(self, client: Client) -> Client:
        """The client whose arrays this loss computes with: itself by default, its rows as tensors for a network. Local
        solvers work with that one, so that nothing is converted in every step."""
        return client

    def smoothness(self, client: Client) -> float:
        """A bound on λ_max(∇²f_j) for all w; infinite where none is known."""
        return float("inf")

    # ── both sides ──

    @abstractmethod
    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of w for so many features and targets of this shape."""

    @abstractmethod
    def model(self, w: Array) -> Model:
        """The model that weights stand for."""

    def start_point(self, features: int, outputs: tuple[int, ...]) -> Array:
        """Where to begin, at the server: zero, unless a loss says otherwise."""
        return np.zeros(self.shape(features, outputs))

    @property
    def sent_as(self) -> str:
        """The type of numbers in which arrays travel in calls of a protocol with this loss. Replies are as clients
        compute them, and sums at the server are float64 always."""
        return "float64"

    @property
    def by_value_alone(self) -> bool:
        """Whether a run is measured, stopped and reported by the value alone, because a gradient would cost as much as
        what an algorithm sends itself."""
        return False

    def penalty(self, w: Array) -> float:
        """The part of f_j that no sample has a share in, such as (l2/2) ‖w‖²; 0 unless a loss has one."""
        return 0.0

    def penalty_gradient(self, w: Array) -> Array:
        """The gradient of `penalty`, in w's own array library."""
        return 0.0 * w

    def strong_convexity(self) -> float:
        """A μ with f ≥ its tangent + (μ/2)‖·‖² whatever the data; 0 where none is known."""
        return 0.0

    def order(self, features: int, outputs: tuple[int, ...]) -> int:
        """The order of the Hessian."""
        return prod(self.shape(features, outputs))
