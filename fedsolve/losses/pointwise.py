"""ℓ of one prediction: what a sample's prediction costs, how that changes with it, and which targets it is for.

A `Pointwise` knows nothing of models or weights. `LinearLoss` combines one with a linear predictor; a network or a
boosted ensemble can be built on the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from fedsolve.federation.client import Client
from fedsolve.typing import Array, Namespace


class Pointwise(ABC):
    """ℓ(η, y) of a prediction η and a target y, one sample at a time.

    Methods take the array library `xp` of their arguments and treat all samples at once: `eta` has a row, or a number,
    for each. Subclasses implement `pointwise`, `derivative`, `curvature` and `check`.

    Attributes:
        quadratic: Whether ℓ is a quadratic in η, so that Newton's method is exact.
        classifies: Whether the targets are classes.
        curvature_bound: The supremum of d²ℓ/dη²; infinite where there is none.
        error_name: What `error` is called.
        link: What a model does with η to predict: "identity", "logistic", "softmax" or "exponential".
        ceiling: The η above which ℓ is cut off, so that a step that is far too long has a finite value; no fit is
            there.
    """

    quadratic: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    curvature_bound: ClassVar[float]
    error_name: ClassVar[str] = "loss"
    link: ClassVar[str] = "identity"
    ceiling: ClassVar[float] = float("inf")

    @abstractmethod
    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        """ℓ(η, y) of each sample, summed over outputs."""

    @abstractmethod
    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        """dℓ/dη of each sample, in the shape of `eta`."""

    @abstractmethod
    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        """d²ℓ/dη² of each sample; None stands for 1."""

    @abstractmethod
    def check(self, client: Client) -> None:
        """Raise DataError if the client has targets that ℓ is not defined for."""

    def hessian_weights(self, xp: Namespace, eta: Array, y: Array) -> Iterator[Array]:
        """What each sample counts for in a Hessian: a number, or one for each of its blocks in columns, some blocks at
        a time. Nothing comes where all count alike."""
        weights = self.curvature(xp, eta, y)
        if weights is not None:
            yield weights

    def responses(self, xp: Namespace, eta: Array) -> Array:
        """What predictions η say about the target: its mean, or the probabilities of the classes. η itself by
        default."""
        return eta

    def error(self, xp: Namespace, eta: Array, y: Array) -> Array:
        """What a sample that was not learned from is judged by, `error_name`; ℓ unless a loss says otherwise."""
        return self.pointwise(xp, eta, y)

    def hits(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        """1 for each sample whose class is predicted, 0 for the others; None where there are no classes."""
        return None

    def hinders(self, xp: Namespace, change: Array, y: Array) -> Array:
        """How much of a change of η each sample forbids for good: |change| where ℓ(η + t·change) grows without bound
        in t, 0 where it does not. Where no sample hinders a change, f has no minimum along it. For a quadratic, all."""
        return change if change.ndim == 1 else xp.sqrt(xp.sum(change * change, axis=1))
