"""The squared loss: ℓ = ½ (η − y)², for one target or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from array_api_compat import device

from fedsolve.client import Client
from fedsolve.linalg import namespace
from fedsolve.losses.base import LinearLoss
from fedsolve.models import LinearModel
from fedsolve.typing import Array


@dataclass(frozen=True)
class Squared(LinearLoss):
    r"""Ridge regression, $\frac{1}{2n}\|Xw-y\|^2+\frac{\lambda}{2}\|w\|^2$: FedNewton's equation (1) up to a factor ½,
    with Hessian $\Phi^\top\Phi+\lambda I$ and minimiser (2)."""

    quadratic: ClassVar[bool] = True
    curvature_bound: ClassVar[float] = 1.0

    def pointwise(self, xp: Any, eta: Array, y: Array) -> Array:
        r = eta - y
        return 0.5 * (r * r if r.ndim == 1 else xp.sum(r * r, axis=1))

    def derivative(self, xp: Any, eta: Array, y: Array) -> Array:
        return eta - y

    def curvature(self, xp: Any, eta: Array, y: Array) -> Array | None:
        return None

    def check(self, client: Client) -> None:
        """Any finite target will do."""

    def minimise(self, client: Client) -> Array:
        s = client.sample_weight
        y = client.y if s is None else client.y * (s if client.y.ndim == 1 else s[:, None])
        xp = namespace(client.y)
        p = self.design(client).shape[1]
        zero = xp.zeros((p, *client.y.shape[1:]), dtype=xp.float64, device=device(client.y))
        client.count("gradients", client.n_samples)
        return self.hessian_factor(client, zero).solve(self.design(client).rmatvec(y) / client.weight)

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, self.intercept is not None, "identity")
