"""The squared loss: ℓ = ½ (η − y)², for one target or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import Factor, factor
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class Squared(LinearLoss):
    r"""Ridge regression, $\frac{1}{2n}\|Xw-y\|^2+\frac{\lambda}{2}\|w\|^2$: FedNewton's equation (1) up to a factor ½,
    with Hessian $\Phi^\top\Phi+\lambda I$ and minimiser (2)."""

    quadratic: ClassVar[bool] = True
    curvature_bound: ClassVar[float] = 1.0
    error_name: ClassVar[str] = "mean squared error"

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        r = eta - y
        return 0.5 * (r * r if r.ndim == 1 else xp.sum(r * r, axis=1))

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return eta - y

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return None

    def error(self, xp: Namespace, eta: Array, y: Array) -> Array:
        r = eta - y
        return r * r if r.ndim == 1 else xp.mean(r * r, axis=1)

    def check(self, client: Client) -> None:
        """Any finite target will do."""

    # What the local problem is made of: ∇²f_j and ∇f_j(0), in one pass over the rows.

    def normal(self, client: Client) -> tuple[Symmetric, Array]:
        """XᵀSX/Σs + l2 I and −XᵀSy/Σs, kept."""

        def compute() -> tuple[Symmetric, Array]:
            client.count("hessians", 1)
            s, y = client.sample_weight, client.y
            r = -y if client.offset is None else client.offset - y
            if s is not None:
                r = r * (s if r.ndim == 1 else s[:, None])
            gram, g = self.design(client).normal(None if s is None else s / client.weight, r)
            if s is None:
                gram = gram.divided(client.weight)
            if self.l2:
                gram = gram.add_diagonal(self.l2 * self._mask(client.y, gram.n))
            return gram, g / client.weight

        return client.cached((self, "normal"), compute)

    def hessian(self, client: Client, w: Array) -> Symmetric:
        return self.normal(client)[0]

    def newton_gradient(self, client: Client, w: Array) -> Array:
        self.check_weights(client, w=w)
        return self.hessian_product(client, w, w) + self._at_zero(client)

    def _at_zero(self, client: Client) -> Array:
        """∇f_j(0)."""

        def compute() -> Array:
            client.count("gradients", client.n_samples)
            return self.normal(client)[1]

        return client.cached((self, "gradient at 0"), compute)

    def minimise(self, client: Client, anchor: Array | None = None, pull: float = 0.0) -> Array:
        if pull:
            # From the anchor one Newton step of the proximal objective is exact: w − (H_j + pull I)⁻¹ ∇f_j(w).
            assert anchor is not None
            return anchor - self._proximal_factor(client, anchor, pull).solve(self.newton_gradient(client, anchor))
        zero = self.zero(client)
        return -self.hessian_factor(client, zero).solve(self._at_zero(client))

    def _proximal_factor(self, client: Client, w: Array, pull: float) -> Factor:
        def compute() -> Factor:
            client.count("factorisations", 1)
            hessian = self.hessian(client, w)
            extra = pull * client.xp.ones(hessian.n, dtype=client.xp.float64, device=w.device)
            return factor(hessian.plus_diagonal(extra), pull)

        return client.cached((self, "proximal", pull), compute)

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, self.intercept is not None, "identity", features=self.features)
