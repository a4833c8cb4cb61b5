"""The linear predictor η = Xw of a client's samples, and the shapes of w.

A client's offset, if it has one, is added to Xw. With a feature map x_i is φ(x_i) throughout; the intercept comes after
it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import device

from fedsolve.errors import WrongType
from fedsolve.features.mapped import FeatureDesign
from fedsolve.federation.client import Client, same_point
from fedsolve.losses.penalised import Penalised
from fedsolve.numerics.design import Design, with_intercept
from fedsolve.typing import Array


@dataclass(frozen=True)
class LinearPredictor(Penalised):
    """η = Xw at a client."""

    # Whether the columns of w (several outputs) are problems of their own that share one Hessian.
    separable: ClassVar[bool] = True

    def predictor(self, client: Client, w: Array) -> Array:
        """η = Xw + offset, kept for the last w asked for: value, gradient and Hessian at one point share it."""
        return self._predict(client, w, self.design(client))

    def _predict(self, client: Client, w: Array, design: Design) -> Array:
        key = ("predictor", self.intercept, self.features)
        last = client.last(key)
        if last is None:
            self._check_shape(client, design, "w", w)
        else:
            point, kept = last
            if point is w or same_point(point, w):
                if client.watch is not None:  # what one loss may be told of, another may not
                    client.watch.visit(self, client, w, kept)
                return kept
            if point.shape != w.shape or point.dtype != w.dtype:  # weights like the last ones fit as those did
                self._check_shape(client, design, "w", w)
        eta = design.matvec(w)
        if client.offset is not None:
            eta = eta + client.offset
        if client.watch is not None:
            eta = client.watch.product(self, client, w, eta, client.offset)
            client.watch.visit(self, client, w, eta)
        return client.keep(key, w, eta)

    def change(self, client: Client, design: Design, v: Array) -> Array:
        """Xv, how predictions change along v."""
        found = design.matvec(v)
        return found if client.watch is None else client.watch.product(self, client, v, found, direction=True)

    def check_weights(self, client: Client, **arrays: Array) -> None:
        """Raise WrongType unless each array has the dtype and the shape that w has at this client.

        NumPy would broadcast others: a column of p weights makes n² predictions of n samples, or a wrong sum of them.
        """
        design = self.design(client)
        for name, array in arrays.items():
            self._check_shape(client, design, name, array)

    def _check_shape(self, client: Client, design: Design, name: str, array: Array) -> None:
        # In pieces, because this is done for every client in every exchange.
        shape, outputs = array.shape, self.outputs(client)
        if shape[1:] != outputs or shape[:1] != design.shape[1:] or array.dtype != client.y.dtype:
            expected = (design.shape[1], *outputs)
            raise WrongType(
                f"{name} has {array.dtype} entries and shape {tuple(array.shape)}, where the weights of this client's "
                f"problem have float64 entries and shape {expected}"
            )

    def outputs(self, client: Client) -> tuple[int, ...]:
        """The shape of one prediction: () for a number, (k,) for k of them."""
        return client.y.shape[1:]  # type: ignore[no-any-return]

    def targets(self, client: Client) -> Array:
        """What the predictor is compared with."""
        return client.y

    def design(self, client: Client) -> Design:
        """The client's inputs through the feature map, with the intercept's column; of these what there is."""
        inner, features = client.design, self.features
        if features is not None:
            raw = inner
            inner = client.cached(("mapped", features), lambda: FeatureDesign(features, raw, _counter(client)))
        if self.intercept is None:
            return inner
        return client.cached(("with intercept", features), lambda: with_intercept(inner))

    def zero(self, client: Client) -> Array:
        """w = 0 at a client."""
        shape = self.shape(client.design.shape[1], tuple(client.y.shape[1:]))
        return client.xp.zeros(shape, dtype=client.xp.float64, device=device(client.y))

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of w, for so many inputs."""
        return (self.width(features), *outputs)

    def width(self, inputs: int) -> int:
        """The rows of w: a weight for each input or feature, and the intercept."""
        return (inputs if self.features is None else self.features.dimension(inputs)) + (self.intercept is not None)

    def order(self, features: int, outputs: tuple[int, ...]) -> int:
        """The order of the Hessian: p for separable outputs, which share it, and pk otherwise."""
        shape = self.shape(features, outputs)
        return shape[0] if self.separable else int(np.prod(shape))


def _counter(client: Client) -> Callable[[int], None]:
    """Notes rows of features at a client that it does not keep alive: the client keeps the features."""
    of = weakref.ref(client)

    def count(rows: int) -> None:
        if (alive := of()) is not None:
            alive.count("features", rows)

    return count
