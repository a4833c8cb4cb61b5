"""FedNewton, Definition 2 and Remark 8: S and S* between the features' space and L²(ρ)."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.fednewton.proofs_operators import apart
from fedsolve.typing import Array

ADJOINT, PRODUCTS = "S* is the adjoint of S, in L²(ρ)", "C = S* S and L = S S*, in L²(ρ)"


def inclusion(rng: np.random.Generator, features: int) -> dict[str, float]:
    """The operators of Definition 2 for a ρ with 60 points of unequal probability, where integrals are sums."""
    points = 60
    phi, p = rng.standard_normal((points, features)), rng.dirichlet(np.ones(points))
    beta, g = rng.standard_normal(features), rng.standard_normal(points)

    def moment(values: Array) -> Array:
        """S* g = ∫ φ g dρ."""
        return np.asarray(sum(weight * value * row for weight, value, row in zip(p, values, phi, strict=True)))

    inside = float(p @ ((phi @ beta) * g))  # ⟨Sβ, g⟩ in L²(ρ)
    C = np.einsum("i,ij,ik->jk", p, phi, phi)
    L = np.array([[weight * float(one @ two) for two, weight in zip(phi, p, strict=True)] for one in phi])
    return {
        ADJOINT: abs(inside - float(beta @ moment(g))) / abs(inside),
        PRODUCTS: max(apart(moment(phi @ beta), C @ beta), apart(phi @ moment(g), L @ g)),
    }
