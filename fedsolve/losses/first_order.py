"""Value and gradient of a client's part of the objective, and both along a line.

f_j(w) = Σ_i s_i ℓ(x_iᵀw, y_i) / Σ_i s_i + (l2/2) ‖w‖²
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from array_api_compat import device

from fedsolve.federation.client import Client
from fedsolve.losses.base import Loss
from fedsolve.losses.pointwise import Pointwise
from fedsolve.losses.predictor import LinearPredictor
from fedsolve.typing import Array


@dataclass(frozen=True)
class FirstOrder(LinearPredictor, Pointwise, Loss):
    """Values and gradients of f_j, from the rows."""

    def value(self, client: Client, w: Array) -> float:
        """f_j(w)."""
        client.count("losses", client.n_samples)
        return self._mean_loss(client, self.predictor(client, w)) + self.penalty(w)

    def along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        """f_j(w − ηp) for each η of a grid: two products with the data serve them all."""
        self.check_weights(client, p=p)
        here, change = self.predictor(client, w), self.change(client, self.design(client), p)
        client.count("losses", client.n_samples * steps.shape[0])
        penalty, at = self._penalty_along(w, p), self._watched(client, here, change)
        values = [self._mean_loss(client, at(eta)) + penalty(eta) for eta in map(float, steps)]
        return client.xp.asarray(values, dtype=client.xp.float64, device=device(client.y))

    def slopes_along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        """d/dη f_j(w − ηp) for each η of a grid, from the same two products. Differences of values drown in their
        rounding near the optimum; these do not."""
        xp, s = client.xp, client.sample_weight
        self.check_weights(client, p=p)
        here, change = self.predictor(client, w), self.change(client, self.design(client), p)
        y = self.targets(client)
        client.count("gradients", client.n_samples * steps.shape[0])
        against = -change if s is None else -change * (s if change.ndim == 1 else s[:, None])

        penalty, at = self._penalty_slope_along(w, p), self._watched(client, here, change)

        def slope(eta: float) -> float:
            of_data = float(xp.sum(self.derivative(xp, at(eta), y) * against)) / client.weight
            return of_data - penalty(eta)

        return xp.asarray([slope(float(step)) for step in steps], dtype=xp.float64, device=device(client.y))

    def _watched(self, client: Client, here: Array, change: Array) -> Callable[[float], Array]:
        """The predictions at w − ηp, for an η."""

        def at(eta: float) -> Array:
            found = here - eta * change
            if client.watch is not None:
                client.watch.visit(self, client, None, found, (here, eta * change))
            return found

        return at

    def _mean_loss(self, client: Client, eta: Array) -> float:
        losses, s = self.pointwise(client.xp, eta, self.targets(client)), client.sample_weight
        return client.number(client.xp.sum(losses) if s is None else s @ losses) / client.weight

    def gradient(self, client: Client, w: Array) -> Array:
        """∇f_j(w), from the rows."""
        s, design = client.sample_weight, self.design(client)
        client.count("gradients", client.n_samples)
        r = self.derivative(client.xp, self._predict(client, w, design), self.targets(client))
        if s is not None:
            r = r * (s if r.ndim == 1 else s[:, None])
        g = design.rmatvec(r)
        g /= client.weight
        return self._add_penalty_gradient(g, w) if self.l2 or self.l1 else g

    def sample_gradients(self, client: Client, w: Array) -> Array:
        """dℓ/dη · x of each sample: n times as much memory as w takes."""
        xp, design = client.xp, self.design(client)
        client.count("gradients", client.n_samples)
        r = self.derivative(xp, self._predict(client, w, design), self.targets(client))
        if r.ndim == 1:
            return xp.concat([block * r[part, None] for part, block in design.blocks()], axis=0)
        return xp.concat([block[:, :, None] * r[part, None, :] for part, block in design.blocks()], axis=0)
