"""L-BFGS on top of another estimate of the inverse Hessian (Nocedal and Wright, Algorithm 7.4)."""

from __future__ import annotations

from collections.abc import Callable

from fedsolve.typing import Array

Pair = tuple[Array, Array]  # s = a step, y = how the gradient changed with it


def remember(pairs: tuple[Pair, ...], s: Array, y: Array, most: int) -> tuple[Pair, ...]:
    """The newest `most` pairs with this one among them, if it says that the curvature along s is positive."""
    return (*pairs, (s, y))[-most:] if most and _dot(s, y) > 0 else pairs


def direction(g: Array, pairs: tuple[Pair, ...], inverse: Callable[[Array], Array]) -> Array:
    """The two-loop recursion: the BFGS update of `inverse` by the pairs, applied to g."""
    q, taken = g, []
    for s, y in reversed(pairs):
        a = _dot(s, q) / _dot(s, y)
        taken.append(a)
        q = q - a * y
    z = inverse(q)
    for (s, y), a in zip(pairs, reversed(taken), strict=True):
        z = z + (a - _dot(y, z) / _dot(s, y)) * s
    return z


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())
