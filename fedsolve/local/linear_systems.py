"""Local solvers of H_j z = g by a fixed number of products with the local Hessian.

Both give a z with gᵀz > 0 whenever g ≠ 0, however few the steps: CG because it minimises ½zᵀH_jz − gᵀz over a space
that holds g, Richardson because I − (I − αH_j)^K is positive definite where it converges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.local.base import as_linear
from fedsolve.losses import LinearLoss, Loss
from fedsolve.numerics.design import SparseDesign
from fedsolve.numerics.scalars import positive, whole
from fedsolve.typing import Array, Namespace

_EPS = 2.220446049250313e-16


def hessian_products(
    loss: LinearLoss, client: Client, w: Array, count: int, pull: float = 0.0
) -> Callable[[Array], Array]:
    """v ↦ (∇²f_j(w) + pull) v, for so many products: with the Hessian where forming it pays, else from the rows."""
    formed = _pays_to_form(loss, client, w, count)
    product = loss.hessian_product if formed else loss.row_product
    if pull:
        return lambda v: product(client, w, v) + pull * v
    return lambda v: product(client, w, v)


def _pays_to_form(loss: LinearLoss, client: Client, w: Array, count: int) -> bool:
    """By the multiplications: n·width² to form (once for a quadratic, which keeps it for all rounds), then order² a
    product, against 2·n·width a product from the rows."""
    design = loss.design(client)
    n, p = design.shape
    outputs = 1 if loss.separable else w.shape[1]
    width = design.sample.shape[0] / n if isinstance(design, SparseDesign) else p
    form = 0.0 if loss.quadratic else n * (width * outputs) ** 2
    return bool(form + count * (p * outputs) ** 2 <= count * 2 * n * width * outputs)


class SystemSolver(ABC):
    """A local solver whose work is one linear system with the client's own Hessian."""

    steps: int
    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})

    @abstractmethod
    def solve(self, loss: LinearLoss, client: Client, w: Array, g: Array, pull: float = 0.0) -> Array:
        """z ≈ (∇²f_j(w) + pull)⁻¹ g."""

    def run(
        self,
        loss: Loss,
        client: Client,
        w: Array,
        step_size: float,
        correction: Array | None = None,
        pull: float = 0.0,
    ) -> Array:
        """w − step_size · z, an inexact Newton step of the client's own: z solves (∇²f_j(w) + pull) z = ∇f_j(w) +
        correction as well as the steps allow."""
        linear = as_linear(loss, type(self).__name__)
        g = linear.gradient(client, w)
        return w - step_size * self.solve(linear, client, w, g if correction is None else g + correction, pull)

    def count(self, client: Client) -> int:
        """How many products with the Hessian `run` allows itself, which is the same at every client."""
        return self.steps


@dataclass(frozen=True)
class CG(SystemSolver):
    """Conjugate gradient steps from zero, as GIANT's authors solve locally.

    Args:
        steps: How many. Default 10.
    """

    steps: int = 10

    def __post_init__(self) -> None:
        whole("steps", self.steps, least=1)

    def solve(self, loss: LinearLoss, client: Client, w: Array, g: Array, pull: float = 0.0) -> Array:
        """z ≈ (∇²f_j(w) + pull)⁻¹ g; each column by itself where columns are problems of their own."""
        xp, product = client.xp, hessian_products(loss, client, w, self.steps, pull)
        dot = _dot(xp, loss)
        z, r, d = xp.zeros_like(g), g, g
        rr = dot(r, r)
        one, none, steepest = xp.ones_like(rr), xp.zeros_like(rr), xp.zeros_like(rr)
        for _ in range(self.steps):
            q = product(d)
            dq, dd = dot(d, q), dot(d, d)
            steepest = xp.where(dq > steepest * dd, dq / xp.where(dd > 0, dd, one), steepest)
            # Along a direction without curvature (the residual is zero, or H_j is singular) there is nothing to gain.
            going = dq > 64 * g.shape[0] * _EPS * steepest * dd
            alpha = xp.where(going, rr / xp.where(going, dq, one), none)
            z, r = z + alpha * d, r - alpha * q
            before, rr = rr, dot(r, r)
            d = r + rr / xp.where(going, before, one) * d
            if not bool(xp.all(going)):
                d = xp.where(going, d, xp.zeros_like(d))
        return z


@dataclass(frozen=True)
class Richardson(SystemSolver):
    """Steps z ← z − α (H_j z − g) from zero: with it GIANT is DONE (Dinh et al. 2022).

    It converges if and only if α < 2/λ_max(H_j). A step that is given and too long is rejected as soon as a residual
    grows, which it cannot where α < 2/λ_max.

    Args:
        steps: How many. Default 10.
        step_size: α. None, the default, takes each client's own 1/L_j, with L_j ≥ λ_max its bound on the smoothness;
            that costs it one Gram matrix and its largest eigenvalue, once.
    """

    steps: int = 10
    step_size: float | None = None

    def __post_init__(self) -> None:
        whole("steps", self.steps, least=1)
        if self.step_size is not None:
            positive("step_size", self.step_size)

    def solve(self, loss: LinearLoss, client: Client, w: Array, g: Array, pull: float = 0.0) -> Array:
        """z ≈ (∇²f_j(w) + pull)⁻¹ g."""
        xp, product = client.xp, hessian_products(loss, client, w, self.steps, pull)
        alpha = 1.0 / (loss.smoothness(client) + pull) if self.step_size is None else self.step_size
        z, r = alpha * g, g  # the first step needs no product
        for _ in range(self.steps - 1):
            before, r = r, r - alpha * product(r)
            z = z + alpha * r
            if float(xp.sum(r * r)) > (1 + 1e-10) * float(xp.sum(before * before)):
                raise ConfigError(
                    f"client {client.name!r}: Richardson's step size {alpha:g} is too long for its Hessian: the "
                    "residual grows; take less than 1 / the largest eigenvalue, or step_size=None"
                )
        return z


def _dot(xp: Namespace, loss: LinearLoss) -> Callable[[Array, Array], Array]:
    axis = 0 if loss.separable else None
    return lambda a, b: xp.sum(a * b, axis=axis)
