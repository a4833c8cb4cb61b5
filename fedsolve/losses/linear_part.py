"""The linear part of the square loss, ½‖y‖² − f·y: boosting's loss where the square ½‖f‖² is a Tikhonov term.

    ½ ‖f − y‖² = (½ ‖y‖² − f·y) + ½ ‖f‖²

Shen, Hassani, Kale and Karbasi (2022), Algorithm 3: the known part of the gradient f − y is exact, and only −y is given
to the weak learner. `FFGB(LinearPart(), learner, tikhonov=1.0)` is that algorithm; `tikhonov=1.0 + μ` adds a
Tikhonov term μ to the square loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.federation.client import Client
from fedsolve.losses.pointwise import Pointwise
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class LinearPart(Pointwise):
    """ℓ(f, y) = ½‖y‖² − f·y. It has no minimum of its own: give FFGB a `tikhonov` of at least 1."""

    curvature_bound: ClassVar[float] = 0.0
    error_name: ClassVar[str] = "mean squared error"

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        costs = (0.5 * y - eta) * y
        return costs if eta.ndim == 1 else xp.sum(costs, axis=1)

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return -y + 0.0 * eta

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return 0.0 * eta

    def check(self, client: Client) -> None:
        """Any finite target will do."""

    def error(self, xp: Namespace, eta: Array, y: Array) -> Array:
        r = eta - y
        return r * r if r.ndim == 1 else xp.mean(r * r, axis=1)
