"""The server's approximation of the pooled gradient: its own samples, weighted coordinate by coordinate.

    ∂F/∂θ_i (θ) ≈ (1/n) Σ_k g_i(x⁽⁰ᵏ⁾; θ) (s_k + Σ_c v_k⁽ⁱᶜ⁾)          (Jadbabaie et al., equation 41)

with s_k the weight of a sample of the server, 1 as a rule. Where the server's samples do not span what clients may
have (a column that is zero at the server, too few samples), the functions 1 and θ_l complete them, so that the
approximation is never worse than a linear one. They enter with a small factor: samples come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.errors import DataError
from fedsolve.numerics.function_bases import Bases, conditions, inverses, leading_functions, truncated
from fedsolve.typing import Array

COMPLETION = 1e-6  # of the size of the server's own partial derivatives
CUTOFF = 1e-10  # of the largest singular value: what is below is rounding in the partial derivatives
WORST = 1e12  # the condition number from which an inverse has lost all digits that matter


@dataclass(frozen=True)
class Surrogate:
    """An approximate gradient of the data's part of F; everything flattened to p coordinates.

    centre, widths   of the box the weights were learned in
    samples          (server's samples, p): their weights
    linear           (p + 1, p): the weights of 1 and of (θ_l − centre_l) / width_l
    total            n, the weight of everyone behind it, the server included
    """

    centre: Array
    widths: Array
    samples: Array
    linear: Array
    total: float

    def gradient(self, points: Array, partials: Array) -> Array:
        """(41) at each of the points, from the server's sample gradients there, (points, samples, p)."""
        affine = affine_functions(points, self.centre, self.widths) @ self.linear
        return (np.einsum("kjp,jp->kp", partials, self.samples) + affine) / self.total


def affine_functions(points: Array, centre: Array, widths: Array) -> Array:
    """1 and the coordinates in units of the box, at each point: (points, p + 1)."""
    return np.hstack([np.ones((len(points), 1)), (points - centre) / widths])


@dataclass(frozen=True)
class Learning:
    """What the server prepares before it asks: probes and bases.

    factors  of the affine functions in each coordinate; zero where an inverse leaves no room for them
    """

    centre: Array
    widths: Array
    points: Array
    bases: Bases
    factors: Array

    def surrogate(self, coefficients: Array, own: Array, total: float) -> Surrogate:
        """The approximation, from the sum of the clients' coefficients, (r, p), the weights of the server's own samples
        and the weight of all."""
        weights = self.bases.weights(coefficients)
        samples = len(own)
        linear = np.zeros((len(self.centre) + 1, len(self.centre)))
        if len(weights) > samples:
            linear = self.factors * weights[samples:]
        # Row by row, as a checkpoint gives them back: products round otherwise where arrays lie otherwise in memory.
        own_weights = np.ascontiguousarray(weights[:samples] + own[:, None])
        return Surrogate(self.centre, self.widths, own_weights, np.ascontiguousarray(linear), total)


def by_truncation(centre: Array, widths: Array, points: Array, partials: Array, most: int, revealed: bool) -> Learning:
    """Truncated bases of the server's sample gradients (points, samples, p), completed by affine functions.

    revealed  whether their number is the numerical rank of the server's own gradients, if that is below `most`
    """
    table = np.transpose(partials, (2, 1, 0))  # (34) for every coordinate: samples × probes
    if revealed:
        most = truncated(table, most, CUTOFF).rank
    affine = affine_functions(points, centre, widths).T
    sizes = np.sqrt(np.mean(table * table, axis=(1, 2)))
    factors = np.where(sizes > 0, COMPLETION * sizes, 1.0)
    completed = np.concatenate([table, factors[:, None, None] * affine[None]], axis=1)
    return Learning(centre, widths, points, truncated(completed, most, CUTOFF), factors)


def by_inverse(
    centre: Array, widths: Array, points: Array, partials: Array, rank: int, names: tuple[str, ...] | None
) -> Learning:
    """(G⁽ⁱ⁾)⁻¹ as in Algorithm 1, line 4, for `rank` of the server's samples: all it has, or those that stand for the
    others best. Raises DataError where a matrix cannot be inverted; `names` are those of the coordinates."""
    table = np.transpose(partials, (2, 1, 0))
    samples = table.shape[1]
    chosen = np.arange(samples) if samples == rank else leading_functions(table, rank)
    table = table[:, chosen]
    found = conditions(table)
    worst = int(np.argmax(found))
    if not found[worst] <= WORST:
        name = f" ({names[worst]})" if names is not None and worst < len(names) else ""
        raise DataError(
            f"the matrix G of coordinate {worst}{name} is singular to rounding: its condition number is "
            f"{found[worst]:.1e}, and an inverse can be used up to {WORST:.0e}. The gradients of the server's {rank} "
            "samples depend on fewer than that many numbers. Use weights='truncated' (the default), which needs no "
            "inverse, or a smaller rank"
        )
    bases = inverses(table)
    back = np.zeros((table.shape[0], rank, samples))
    back[:, :, chosen] = bases.back
    return Learning(centre, widths, points, Bases(bases.sent, back), np.zeros(table.shape[0]))
