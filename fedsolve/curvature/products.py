"""The pooled Hessian by its products: H d, and A r for an A ≈ H⁻¹, without H ever being formed at the server.

    H = Σ p_j H_j

"local inverse"  A = Σ p_j H_j⁻¹: each client forms and factorises its Hessian; a model each way for A r and for H d
"diagonal"       A = diag(H)⁻¹: the diagonal travels with the gradient, H d comes from the rows, a model each way
"none"           A = I

Where H has a column of zeros, and no penalty, its diagonal is 0 and A r is 0 there.
"""

from __future__ import annotations

from typing import Literal

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, local_solves
from fedsolve.numerics.conjugate_gradients import by_diagonal
from fedsolve.typing import Array

Preconditioner = Literal["local inverse", "diagonal", "none"]
LARGE = 2048  # the order of a Hessian above which clients factorise theirs only if told to


def chosen(preconditioner: Preconditioner | None, order: int) -> Preconditioner:
    """The preconditioner, by the order of the Hessian where none is given."""
    return preconditioner or ("local inverse" if order <= LARGE else "diagonal")


class HessianProducts:
    """For a protocol with a `loss` whose clients remember the point of the Hessian as memory["w"]: the client steps of
    these products, and the server's side of them."""

    loss: LinearLoss

    # ── clients ──

    @client_step(sends="the diagonal of its Hessian")
    def local_diagonal(self, client: Client) -> Array:
        return self.loss.data_diagonal(client, client.memory["w"])

    @client_step(sends="a direction by its own Hessian")
    def local_solve(self, client: Client, r: Array) -> Array:
        self.loss.check_weights(client, r=r)
        return self.loss.hessian_factor(client, client.memory["w"]).solve(r)

    @client_step(sends="its Hessian times a direction")
    def local_product(self, client: Client, d: Array) -> Array:
        self.loss.check_weights(client, d=d)
        return self.loss.hessian_product(client, client.memory["w"], d)

    @client_step(sends="its Hessian times a direction")
    def local_row_product(self, client: Client, d: Array) -> Array:
        self.loss.check_weights(client, d=d)
        return self.loss.data_product(client, client.memory["w"], d)

    # ── server ──

    def preconditioned(self, fed: Federation, preconditioner: str, diagonal: Array, r: Array) -> Array:
        """A r."""
        if preconditioner == "local inverse":
            return fed.mean(self.local_solve, r=r)  # ↓ r ↑ H_j⁻¹ r
        return r if preconditioner == "none" else by_diagonal(r, diagonal)

    def product(self, fed: Federation, preconditioner: str, d: Array) -> Array:
        """H d."""
        if preconditioner == "local inverse":
            return fed.mean(self.local_product, d=d)  # ↓ d ↑ H_j d
        return fed.mean(self.local_row_product, d=d) + self.loss.penalty_product(d)


def products_footprint(sizes: Sizes, preconditioner: Preconditioner, gradients: int) -> Footprint:
    """What a round of A r and H d needs when so many gradients, each with its diagonal, are sent beside them."""
    if preconditioner == "local inverse":
        return local_solves(sizes, models=2 + gradients)
    return Footprint(sent=(1 + gradients * (2 if preconditioner == "diagonal" else 1)) * sizes.weights)
